//! `wasm-ccm check`: the gate alone, with the code that `run` uses.

mod preview;

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use ccm_cloud::Alone;
use ccm_sandbox::Component;

use crate::cli::{CheckArgs, ConfigArgs};
use crate::output;
use ccm_rollout::config::{ProviderConfig, ProviderRecord};
use ccm_rollout::context::{self, Carryover, SharedContext};
use ccm_rollout::gate::{Rejected, Step};
use ccm_rollout::preflight::{self, Checked};
use ccm_rollout::problem_text;

/// Says whether `run` would take the component.
///
/// # Errors
///
/// The step of the gate, and why.
pub(crate) fn check(args: &CheckArgs) -> Result<()> {
    let record = args.component.record(args.file.to_string_lossy().into_owned())?;
    let record = ProviderRecord { allow_provider_change: args.allow_provider_change, ..record };
    let config = args.config.configure(record)?.check()?;
    if let Some(against) = &args.against {
        return preview::check(args, &config, against);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let checked = runtime.block_on(Box::pin(async {
        let Checked { component, unpacked, .. } = preflight::component(&config).await?;
        let descriptor = component.descriptor();
        let told = format!("{} {} ({})", descriptor.name, descriptor.version, unpacked.digest);
        if !args.online && !is_configured(&args.config) {
            let hint = "; --cloud-config, --setting, --endpoint or --credential let it judge its configuration as well";
            return Ok(format!("{told} passes the gate as far as it needs no configuration{hint}"));
        }
        let warnings = configured(&config, component, args).await?;
        Ok(warnings
            .into_iter()
            .fold(format!("{told} passes the gate"), |told, warning| told + "\nwarning: " + &warning))
    }));
    let told = checked.map_err(|Rejected { step, error, .. }: Rejected| {
        error.context(format!("{} does not pass the gate (step {step})", args.file.display()))
    })?;
    Ok(output::print(&told)?)
}

/// Whether anything was said about how the provider is configured.
fn is_configured(config: &ConfigArgs) -> bool {
    let grants = &config.grants;
    config.cloud_config.is_some()
        || ![&config.setting, &grants.endpoint, &grants.credential, &grants.allow_env]
            .iter()
            .all(|given| given.is_empty())
}

/// The rest of the gate. Gives what the provider would only warn of.
async fn configured(config: &ProviderConfig, component: Component, args: &CheckArgs) -> Result<Vec<String>, Rejected> {
    let shared = SharedContext {
        client: None,
        leadership: Arc::new(Alone),
        exchanges: None,
        nodes: None,
        cluster_name: args.cluster_name.clone(),
        cluster_cidrs: vec![],
        trace_http: false,
    };
    let descriptor = component.descriptor().clone();
    let opened = async {
        let files = config.files(&descriptor)?;
        context::open(config, &descriptor, files, &Carryover::default(), &shared, None).await
    };
    let (door, _) = opened.await.map_err(|error| Rejected::at(Step::Grants, error))?;
    let provider = component.into_provider(door, None, None);
    let judged = async {
        let problems = provider.check(args.online).await?.context("it cannot judge its configuration")?;
        let (fatal, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
        if !fatal.is_empty() {
            bail!("its configuration is wrong: {}", problem_text(&fatal));
        }
        provider.offers().await?.context("it cannot tell what it offers")?;
        Ok(others.into_iter().map(|problem| problem_text(&[problem])).collect())
    };
    judged.await.map_err(|error: anyhow::Error| Rejected::at(Step::Check, error))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
