//! `wasm-ccm check`: runs the gate alone, with the code of `run`. With `--against`, it previews an upgrade: it reads the cluster and the
//! cloud, and writes to neither.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use ccm_cloud::{Descriptor, Leadership, NodeSelector};
use ccm_controllers::{ClusterNodes, NodeLabels};
use ccm_rollout::compare::{Report, StoreInventory};
use ccm_rollout::config::{ProviderConfig, ProviderRecord};
use ccm_rollout::context::{ProcessSecrets, SharedContext};
use ccm_rollout::gate::Rejected;
use ccm_rollout::preflight::{self, Checked};
use ccm_rollout::preview::{self, Preview, PreviewParts};
use ccm_rollout::source::Source;
use kube::Client;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::exit::Verdict;
use crate::output;
use crate::stores::{self, depends};
use ccm_cli::{CheckArgs, ConfigArgs, Output};

/// Forbids all writes.
struct ReadOnly;

impl Leadership for ReadOnly {
    fn may_write(&self) -> bool {
        false
    }
}

/// Says whether `run` would take the component, or that nobody could tell: then not every step was judged.
///
/// # Errors
///
/// The step of the gate, and why.
pub(crate) fn check(args: &CheckArgs) -> Result<Verdict> {
    let record = args.component.record(args.file.to_string_lossy().into_owned())?;
    let record = ProviderRecord { allow_provider_change: args.allow_provider_change, ..record };
    let config = args.config.configure(record)?.check()?;
    if let Some(against) = &args.against {
        return preview(args, &config, against).map(|()| Verdict::Good);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let checked = runtime.block_on(Box::pin(async {
        let Checked { component, unpacked, .. } = preflight::component(&config, None).await?;
        let (provider, version) = (component.descriptor().name.clone(), component.descriptor().version.clone());
        let notes = preflight::notes(&config, component.descriptor());
        let digest = unpacked.digest;
        let passed =
            Passed { provider, version, digest, warnings: vec![], notes, not_judged: None, configured_with: vec![] };
        let configured_with = flags_for(component.descriptor());
        if !args.online && !configured_with.is_empty() && !is_configured(&args.config) {
            return Ok(Passed { not_judged: Some(CONFIGURATION), configured_with, ..passed });
        }
        let judged = preflight::configured(&config, component, None, &args.cluster_name, args.online).await;
        let judged = judged.map_err(|rejected| with_notes(rejected, &passed.notes))?;
        Ok(Passed { warnings: judged.warnings, not_judged: judged.unasked, ..passed })
    }));
    let passed = checked.map_err(|rejected: Rejected| rejected.named(&config.source))?;
    output::print(&match args.output {
        Output::Json => output::json(&passed)?,
        Output::Text => passed.to_string(),
    })?;
    Ok(passed.verdict())
}

/// What was forgotten may be why it does not pass.
fn with_notes(rejected: Rejected, notes: &[String]) -> Rejected {
    if notes.is_empty() {
        return rejected;
    }
    let error = anyhow!("{}; note: {}", crate::one_line(&rejected.error), notes.join("; "));
    Rejected { error, ..rejected }
}

/// What is not judged where nothing was said of the configuration.
const CONFIGURATION: &str = "its configuration";

/// A component that `run` would take, as far as it was judged.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Passed {
    provider: String,
    version: String,
    digest: String,
    warnings: Vec<String>,
    /// What the operator may have forgotten.
    notes: Vec<String>,
    /// What would be needed for that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_judged: Option<&'static str>,
    /// Flags that say something of its configuration.
    #[serde(skip)]
    configured_with: Vec<&'static str>,
}

impl Passed {
    /// What was not judged may be what `run` refuses it for.
    const fn verdict(&self) -> Verdict {
        match self.not_judged {
            None => Verdict::Good,
            Some(_) => Verdict::Unjudged,
        }
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, version, digest, warnings, notes, not_judged, configured_with } = self;
        write!(f, "{provider} {version} ({digest}) passes the gate")?;
        let is_unconfigured = *not_judged == Some(CONFIGURATION);
        if is_unconfigured {
            write!(f, " as far as it needs no configuration")?;
        }
        warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))?;
        notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))?;
        match not_judged {
            None => Ok(()),
            Some(_) if is_unconfigured => {
                write!(f, "\nnot judged: the steps grants and check; they need {}", configured_with.join(" or "))
            }
            Some(what) => write!(f, "\nnot judged at the step check: {what}; --online asks the cloud"),
        }
    }
}

/// The flags of [`is_configured`] that say something of this component, by what it declares. None: it has no configuration.
fn flags_for(component: &Descriptor) -> Vec<&'static str> {
    let Descriptor { files, settings, endpoints, credentials, .. } = component;
    let reads_variables = component.sources().any(|source| !source.environment_variables.is_empty());
    let flags = [
        ("--cloud-config", !files.is_empty()),
        ("--setting", !settings.is_empty()),
        ("--endpoint", !endpoints.is_empty()),
        ("--credential", !credentials.is_empty()),
        ("--allow-env", reads_variables),
    ];
    flags.into_iter().filter_map(|(flag, says_something)| says_something.then_some(flag)).collect()
}

/// Whether anything was said about how the provider is configured.
fn is_configured(config: &ConfigArgs) -> bool {
    let grants = &config.grants;
    config.cloud_config.is_some()
        || ![&config.setting, &grants.endpoint, &grants.credential, &grants.allow_env]
            .iter()
            .all(|given| given.is_empty())
}

/// Says what differs between the component of the file and the one that lies at `against`.
///
/// # Errors
///
/// Something differs (standard output lists it), a component does not pass the gate, or the cluster or the cloud does not answer.
fn preview(args: &CheckArgs, config: &ProviderConfig, against: &str) -> Result<()> {
    let against: Source = against.parse().map_err(anyhow::Error::msg).context("--against")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let made = runtime.block_on(Box::pin(compare(args, config, &against)));
    // Does not wait for the compiler, which cannot be stopped.
    runtime.shutdown_background();
    let preview = made.with_context(|| args.file.display().to_string())?;
    output::print(&match args.output {
        Output::Json => output::json(&preview)?,
        Output::Text => text(&preview),
    })?;
    let many = preview.report.differences.len();
    let differences = if many == 1 { "difference" } else { "differences" };
    ensure!(many == 0, "{}: a host would refuse it (step compare): {many} {differences}", args.file.display());
    Ok(())
}

async fn compare(args: &CheckArgs, config: &ProviderConfig, against: &Source) -> Result<Preview> {
    let way = ccm_apiserver::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    let client = Client::try_from(way).context("the API server's address or credentials cannot be used")?;
    let mut readers = JoinSet::new();
    let stores = stores::read(&client, &mut readers).await?;
    let labels = NodeLabels::new(stores.nodes.reader(), stores.nodes.first_list());
    let context = SharedContext {
        client: Some(client.clone()),
        leadership: Arc::new(ReadOnly),
        exchanges: None,
        nodes: Some(Arc::new(labels) as Arc<dyn NodeSelector>),
        cluster_name: args.cluster_name.clone(),
        cluster_cidrs: vec![],
        trace_http: false,
        offline: false,
        secrets: ProcessSecrets::default(),
    };
    // Whether a host keeps routes is not known here: it may, where both offer them with this configuration.
    let (nodes, services) = (stores.nodes.clone(), stores.services.clone());
    let inventory = Box::new(StoreInventory::new(nodes, services, Some(ClusterNodes::All)));
    let parts = PreviewParts { client, context, depends: depends(&stores), inventory };
    preview::preview(config, against, parts).await
}

fn text(Preview { new, before, report, notes }: &Preview) -> String {
    let Report { differences, .. } = report;
    let mut lines = vec![format!("new     {new}"), format!("before  {before}"), format!("asked   {}", report.extent())];
    if differences.is_empty() {
        lines.push("nothing differs: a host would accept it, on probation".to_owned());
    }
    lines.extend(differences.iter().map(|difference| format!("differs {difference}")));
    lines.extend(notes.iter().map(|note| format!("note    {note}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{ConfigFile, ConfigFormat, Endpoint, Source};
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn args(file: &str, more: &[&str]) -> CheckArgs {
        Command::try_parse_from(["check", file].into_iter().chain(more.iter().copied())).unwrap().args
    }

    #[test]
    fn the_configuration_is_judged_only_where_the_operator_says_something_of_it() {
        assert!(!is_configured(&args("a.wasm", &[]).config));
        assert!(!is_configured(&args("a.wasm", &["--limit=call-time=5s", "--cloud-provider=a"]).config));
        for flag in [
            "--cloud-config=/etc/cloud.yaml",
            "--setting=a=b",
            "--endpoint=api=https://cloud.example",
            "--credential=token=env:TOKEN",
            "--allow-env=TOKEN",
        ] {
            assert!(is_configured(&args("a.wasm", &[flag]).config), "{flag}");
        }
    }

    /// Cloudlycke has no settings, and was told to be given some.
    #[test]
    fn only_flags_are_named_that_the_component_has_a_use_for() {
        let file = ConfigFile {
            name: "cloud-config".to_owned(),
            format: ConfigFormat::Yaml,
            path_keys: vec![],
            default_paths: vec![],
        };
        let endpoint = |variables: &[&str]| Endpoint {
            name: "api".to_owned(),
            purpose: String::new(),
            base_url: Source {
                keys: vec![],
                environment_variables: variables.iter().map(|&name| name.to_owned()).collect(),
            },
            default_base_url: None,
            tls: None,
        };
        let with = |files: Vec<_>, endpoints| Descriptor { files, endpoints, ..Descriptor::default() };
        for (component, flags) in [
            (with(vec![], vec![]), &[][..]),
            (with(vec![file.clone()], vec![]), &["--cloud-config"]),
            (with(vec![], vec![endpoint(&[])]), &["--endpoint"]),
            (with(vec![file], vec![endpoint(&["URL"])]), &["--cloud-config", "--endpoint", "--allow-env"]),
        ] {
            assert_eq!(flags_for(&component), flags);
        }
    }

    #[test]
    fn one_that_passes_is_told_for_people_and_for_programs() {
        let passed = |warnings: &[&str], not_judged| Passed {
            provider: "cloud".to_owned(),
            version: "2.0".to_owned(),
            digest: "sha256:1".to_owned(),
            warnings: warnings.iter().map(|&warning| warning.to_owned()).collect(),
            notes: vec!["A is not granted".to_owned()],
            not_judged,
            configured_with: vec!["--cloud-config", "--setting"],
        };
        let unconfigured = passed(&[], Some(CONFIGURATION)).to_string();
        let wanted = "cloud 2.0 (sha256:1) passes the gate as far as it needs no configuration\nnote: A is not granted\nnot judged: the steps grants and check; they need --cloud-config or --setting";
        assert_eq!(unconfigured, wanted);
        let all = passed(&["a", "b"], Some("the cloud"));
        let text = "cloud 2.0 (sha256:1) passes the gate\nwarning: a\nwarning: b\nnote: A is not granted\nnot judged at the step check: the cloud; --online asks the cloud";
        assert_eq!(all.to_string(), text);
        let seen = serde_json::to_value(&all).unwrap();
        assert_eq!(seen["warnings"], serde_json::json!(["a", "b"]));
        assert_eq!(seen["notes"], serde_json::json!(["A is not granted"]));
        assert_eq!((&seen["provider"], &seen["notJudged"]), (&"cloud".into(), &"the cloud".into()));
        assert!(serde_json::to_value(passed(&[], None)).unwrap().get("notJudged").is_none());
        // Exit code 0 was taken for a yes to what nobody had judged.
        for (not_judged, verdict) in
            [(None, Verdict::Good), (Some(CONFIGURATION), Verdict::Unjudged), (Some("the cloud"), Verdict::Unjudged)]
        {
            assert_eq!(passed(&["a"], not_judged).verdict(), verdict, "{not_judged:?}");
        }
    }

    #[test]
    fn a_preview_tells_what_may_have_been_forgotten_as_well() {
        let version = || ccm_rollout::Version {
            name: "x".to_owned(),
            version: "1".to_owned(),
            digest: "sha256:1".to_owned(),
            signed: None,
        };
        let notes = vec!["A is not granted".to_owned()];
        let preview = Preview { new: version(), before: version(), report: Report::default(), notes };
        let told = text(&preview);
        assert!(told.ends_with("on probation\nnote    A is not granted"), "{told}");
        assert_eq!(serde_json::to_value(&preview).unwrap()["notes"], json!(["A is not granted"]));
    }

    #[test]
    fn what_does_not_pass_is_named_with_its_step_and_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_string_lossy().into_owned()
        };
        let unknown = format!("--provider-digest=sha256:{}", "0".repeat(64));
        let cases = [
            ("/nowhere/a.wasm".to_owned(), vec![], "source", "No such file"),
            (file("large.wasm", &[7; 100]), vec!["--limit=source-bytes=10"], "size", "source-bytes"),
            (file("broken.wasm.gz", &[0x1f, 0x8b, 1]), vec![], "container", "gzip stream is broken"),
            (file("untrusted.wasm", b"\0asm"), vec![unknown.as_str()], "trust", "--provider-digest"),
            (file("text.wasm", b"(component)"), vec![], "parse", "WebAssembly text"),
            (file("module.wasm", b"\0asm\x01\0\0\0"), vec![], "parse", "core WebAssembly module"),
            (file("empty.wasm", b"\0asm\x0d\0\x01\0"), vec![], "exports", "meta"),
        ];
        for (path, flags, step, part) in cases {
            let error = format!("{:#}", check(&args(&path, &flags)).unwrap_err());
            assert!(error.starts_with(&format!("{path} does not pass the gate (step {step})")), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }
}
