//! `wasm-ccm inspect` and `annotations`: what a component is, offers, asks for and reads, found with the code that `run` uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use ccm_annotations::Declaration;
use ccm_cloud::{Budget, Descriptor, Place, Source, TlsSources};
use ccm_sandbox::{CONTRACT, ComponentSummary, Pool, Sandbox};
use serde::Serialize;

use crate::exit::Verdict;
use crate::output;
use ccm_cli::{AnnotationsArgs, AnnotationsOutput, InspectArgs, Output};
use ccm_rollout::Signed;
use ccm_rollout::config::ProviderRecord;
use ccm_rollout::config::grants::{UseGrant, needs_no_grant, pasted};
use ccm_rollout::config::limits::LimitSettings;
use ccm_rollout::gate::{self, Haste, Rejected};

/// What is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inspection<'a> {
    file: String,
    digest: &'a str,
    contract: &'static str,
    #[serde(flatten)]
    summary: &'a ComponentSummary,
    descriptor: &'a Descriptor,
    /// For `--credential-use`.
    credential_uses: Vec<String>,
}

/// Shows the component in a file.
///
/// # Errors
///
/// Whatever would keep `run` from taking it.
pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let record = ProviderRecord {
        source: args.file.to_string_lossy().into_owned(),
        wasi: args.wasi,
        limits_preset: args.limits.unwrap_or_default(),
        limits: LimitSettings::from_pairs(&args.limit)?,
        ..ProviderRecord::default()
    };
    let config = record.check()?;
    let sandbox = Sandbox::with_pool(Pool::default().with_room_for(&config.limits.sandbox))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (component, digest) = runtime
        .block_on(async {
            let packed = config.source.fetch(None, config.limits.source_bytes).await?;
            let unpacked = gate::unpacked(&config, packed).await?;
            Ok((gate::load(&sandbox, &config, &unpacked, Haste::Waiting).await?, unpacked.digest))
        })
        .map_err(|rejected: Rejected| rejected.error.context(format!("provider {}", config.source)))?;
    if let Some(counter) = args.statement {
        let signed = Signed::new(&component.declared().name, counter);
        return Ok(output::print(signed.statement(&digest).trim_end())?);
    }
    let inspection = Inspection {
        file: config.source.to_string(),
        digest: &digest,
        contract: CONTRACT,
        summary: component.summary(),
        descriptor: component.descriptor(),
        credential_uses: credential_uses(component.descriptor()),
    };
    let text = match args.output {
        Output::Json => output::json(&inspection)?,
        Output::Text => text(&inspection)?,
    };
    Ok(output::print(text.trim_end())?)
}

/// Shows the annotations that a component declares, which `ccm-annotations` reads.
///
/// # Errors
///
/// The step of the gate that the component does not pass, and why.
pub(crate) fn annotations(args: &AnnotationsArgs) -> Result<Verdict> {
    let record = args.component.record(args.file.to_string_lossy().into_owned())?;
    let config = args.config.configure(record)?.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let declaration = runtime.block_on(Box::pin(Declaration::of(&config, &args.cluster_name)))?;
    let told = match args.output {
        AnnotationsOutput::Text => declaration.text()?,
        AnnotationsOutput::Json => declaration.json()?,
        AnnotationsOutput::Cel => declaration.cel(&args.load_balancer_class)?,
    };
    output::print(told.trim_end())?;
    // A policy that refuses nothing is less than whoever asks for one expects.
    let is_weaker = args.output == AnnotationsOutput::Cel && !declaration.is_judged();
    Ok(if is_weaker { Verdict::Unjudged } else { Verdict::Good })
}

fn text(inspection: &Inspection<'_>) -> Result<String> {
    let Inspection { file, digest, contract, summary, descriptor, credential_uses } = inspection;
    let mut out = String::new();
    writeln!(out, "{} {}", descriptor.name, descriptor.version)?;
    writeln!(out, "  file        {file}, {} bytes unpacked, {} functions", summary.size, summary.functions)?;
    writeln!(out, "  digest      {digest}")?;
    writeln!(out, "  contract    {contract}")?;
    writeln!(out, "  schemes     {}", list(descriptor.provider_id_schemes.iter().map(|s| format!("{s}://"))))?;
    writeln!(out, "  offers      {}", list(summary.exports.iter().cloned()))?;
    writeln!(out, "  asks for    {}", list(summary.imports.iter().cloned()))?;
    if let Some(member) = descriptor.more.get(Descriptor::DRY_RUN) {
        writeln!(out, "  dry run     {member:?}: true in a body: the cloud judges, and does nothing")?;
    }
    if let Some(whose) = descriptor.more.get(Descriptor::SHARED_ADDRESSES) {
        writeln!(out, "  shares      addresses of {}; needs --allow-shared-address", whose.escape_debug())?;
    }
    for Budget { endpoints, per_second, burst, per_minute, per_hour } in &descriptor.budgets {
        let rates = [
            ("requests-per-second", "a second", per_second),
            ("request-burst", "at once", burst),
            ("requests-per-minute", "a minute", per_minute),
            ("requests-per-hour", "an hour", per_hour),
        ];
        for (limit, time, most) in rates {
            if let Some(most) = most {
                let endpoints = endpoints.join(", ");
                writeln!(
                    out,
                    "  quota       {endpoints}: {most} requests {time}, unless --limit {limit}=N says otherwise"
                )?;
            }
        }
    }
    section(
        &mut out,
        "files",
        descriptor.files.iter().enumerate().map(|(number, file)| {
            let paths: Vec<String> = file.path_keys.iter().chain(&file.default_paths).cloned().collect();
            let path = (!paths.is_empty()).then(|| format!("path from {}", paths.join(" or ")));
            // The first is the one that --cloud-config names.
            let grant = (number > 0).then(|| "needs --allow-file".to_owned());
            (file.name.clone(), line([Some(format!("{:?}", file.format).to_lowercase()), path, grant]))
        }),
    )?;
    section(
        &mut out,
        "endpoints",
        descriptor.endpoints.iter().map(|endpoint| {
            let default = endpoint.default_base_url.as_deref().map(|url| format!("default {url}"));
            let tls = |what: &str, of: fn(&TlsSources) -> &Source| {
                endpoint.tls.as_ref().and_then(|tls| origin(of(tls))).map(|from| format!("{what} {from}"))
            };
            let ca = tls("CA file", |tls| &tls.ca_file);
            let certificate = tls("client certificate", |tls| &tls.client_certificate);
            let parts = [Some(endpoint.purpose.clone()), origin(&endpoint.base_url), default, ca, certificate];
            (endpoint.name.clone(), line(parts))
        }),
    )?;
    section(
        &mut out,
        "credentials",
        descriptor.credentials.iter().map(|credential| {
            let uses = credential.uses.iter().map(|used| {
                let place = match &used.place {
                    Place::Header(name) => format!("header {name}"),
                    Place::Query(name) => format!("query {name}"),
                    Place::Body => "body".to_owned(),
                    Place::Signing => "signing".to_owned(),
                };
                let path = used.path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
                format!("{} ({place}{path})", used.endpoint)
            });
            let required = credential.required.then(|| "required".to_owned());
            let used = Some(format!("used at {}", list(uses)));
            (
                credential.name.clone(),
                line([Some(credential.purpose.clone()), required, origin(&credential.value), used]),
            )
        }),
    )?;
    if !credential_uses.is_empty() {
        writeln!(
            out,
            "these uses of credentials need a grant, because a credential goes to more than one header or endpoint, or to a place that is not for credentials; if you agree, give:"
        )?;
        for grant in credential_uses {
            writeln!(out, "  {}", pasted("--credential-use", grant))?;
        }
        let documents = documents(descriptor);
        if !documents.is_empty() {
            writeln!(
                out,
                "  in place of body, where that is a form or JSON; the refusal of a login names the field or the member:"
            )?;
        }
        for grant in documents {
            writeln!(out, "  {}", pasted("--credential-use", &grant))?;
        }
        let addresses = addresses(descriptor);
        if !addresses.is_empty() {
            writeln!(out, "  a credential in a body goes only to a base URL of yours:")?;
        }
        for (name, url) in addresses {
            writeln!(out, "  {}", pasted("--endpoint", &format!("{name}={url}")))?;
        }
    }
    section(
        &mut out,
        "settings",
        descriptor.settings.iter().map(|setting| {
            let default = setting.default.as_ref().map(|value| format!("default {value}"));
            (
                setting.name.clone(),
                line([Some(setting.purpose.clone()), allowed(&setting.allowed), default, origin(&setting.value)]),
            )
        }),
    )?;
    section(
        &mut out,
        "annotations",
        descriptor.annotations.iter().map(|annotation| {
            let default = annotation.default.as_ref().map(|value| format!("default {value}"));
            let written = annotation.is_written().then(|| "written by the provider".to_owned());
            let grant = (!annotation.is_own(&descriptor.name))
                .then(|| format!("needs {}", gate::annotation_flags(&[annotation])));
            (
                annotation.name.clone(),
                line([Some(annotation.purpose.clone()), allowed(&annotation.allowed), default, written, grant]),
            )
        }),
    )?;
    Ok(out)
}

/// What the operator has to grant before the component can use its credentials as it says: `NAME=ENDPOINT:PLACE`.
fn credential_uses(descriptor: &Descriptor) -> Vec<String> {
    let wide = descriptor.credentials.iter().filter(|credential| !needs_no_grant(&credential.uses));
    wide.flat_map(|credential| credential.uses.iter().map(|used| format!("{}={}", credential.name, UseGrant::of(used))))
        .collect()
}

/// The same for bodies whose fields or members are named. Which ones they are, a component says only when it sends a request.
fn documents(descriptor: &Descriptor) -> Vec<String> {
    let all =
        descriptor.credentials.iter().flat_map(|credential| credential.uses.iter().map(move |used| (credential, used)));
    let in_body = all.filter(|(_, used)| used.place == Place::Body && used.path.is_some());
    in_body
        .flat_map(|(credential, used)| UseGrant::of_documents(used).map(|grant| format!("{}={grant}", credential.name)))
        .collect()
}

/// Endpoints whose base URL no configuration says, with the default that the component declares: it is good for no credential in a body.
fn addresses(descriptor: &Descriptor) -> BTreeMap<&str, &str> {
    let is_in_body = |name: &str| {
        let mut uses = descriptor.credentials.iter().flat_map(|credential| &credential.uses);
        uses.any(|used| used.place == Place::Body && used.endpoint == name)
    };
    let told = descriptor.endpoints.iter().filter(|endpoint| origin(&endpoint.base_url).is_none());
    told.filter(|endpoint| is_in_body(&endpoint.name))
        .map(|endpoint| (endpoint.name.as_str(), endpoint.default_base_url.as_deref().unwrap_or("URL")))
        .collect()
}

fn section(out: &mut String, title: &str, rows: impl Iterator<Item = (String, String)>) -> Result<()> {
    let rows: Vec<(String, String)> = rows.collect();
    if rows.is_empty() {
        writeln!(out, "{title}: none")?;
        return Ok(());
    }
    writeln!(out, "{title}:")?;
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, text) in rows {
        writeln!(out, "  {name:width$}  {text}")?;
    }
    Ok(())
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(", ") }
}

fn line<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

fn allowed(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| format!("one of {}", values.join(", ")))
}

fn origin(source: &Source) -> Option<String> {
    let variables = source.environment_variables.iter().map(|name| format!("${name}"));
    let from: Vec<String> = source.keys.iter().cloned().chain(variables).collect();
    (!from.is_empty()).then(|| format!("from {}", from.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All else that a component says of itself is escaped when it is read.
    #[test]
    fn what_a_component_says_of_itself_makes_no_line_and_moves_no_terminal() {
        let bad = "a\n\u{1b}[2J\u{202e}b".to_owned();
        let more = [Descriptor::DRY_RUN, Descriptor::SHARED_ADDRESSES].map(|name| (name.to_owned(), bad.clone()));
        let descriptor = Descriptor { more: more.into(), ..Descriptor::default() };
        let summary = ComponentSummary::default();
        let inspection = Inspection {
            file: "a.wasm".to_owned(),
            digest: "sha256:1",
            contract: CONTRACT,
            summary: &summary,
            descriptor: &descriptor,
            credential_uses: vec![],
        };
        let told = text(&inspection).unwrap();
        let shown = r"a\n\u{1b}[2J\u{202e}b";
        for line in
            [format!("  dry run     \"{shown}\": true in"), format!("  shares      addresses of {shown}; needs")]
        {
            assert!(told.contains(&line), "{told:?}");
        }
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
    }

    /// Without the flag, the host refuses the first login.
    #[test]
    fn an_endpoint_that_gets_a_credential_in_a_body_is_printed_unless_the_configuration_names_it() {
        let endpoint = |name: &str, key: Option<&str>, default: Option<&str>| ccm_cloud::Endpoint {
            name: name.to_owned(),
            purpose: String::new(),
            base_url: Source { keys: key.into_iter().map(ToOwned::to_owned).collect(), ..Source::default() },
            default_base_url: default.map(ToOwned::to_owned),
            tls: None,
        };
        let used = |endpoint: &str, place: Place| ccm_cloud::CredentialUse {
            endpoint: endpoint.to_owned(),
            place,
            path: Some("/login".to_owned()),
        };
        let bodies = ["declared", "found", "configured"].map(|name| used(name, Place::Body));
        let header = used("other", Place::Header("authorization".to_owned()));
        let credential = ccm_cloud::Credential {
            name: "password".to_owned(),
            purpose: String::new(),
            value: Source::default(),
            required: true,
            uses: bodies.into_iter().chain([header]).collect(),
        };
        let descriptor = Descriptor {
            endpoints: vec![
                endpoint("declared", None, Some("https://cloud.example")),
                endpoint("found", None, None),
                endpoint("configured", Some("cloud-config:Global.url"), None),
                endpoint("other", None, None),
            ],
            credentials: vec![credential],
            ..Descriptor::default()
        };
        let told: Vec<(&str, &str)> = addresses(&descriptor).into_iter().collect();
        assert_eq!(told, [("declared", "https://cloud.example"), ("found", "URL")]);
    }
}
