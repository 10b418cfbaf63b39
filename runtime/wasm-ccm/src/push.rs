//! `wasm-ccm push`: a component into a ConfigMap, after the gate.

use anyhow::{Context as _, Result, bail, ensure};
use ccm_rollout::config::ProviderRecord;
use ccm_rollout::preflight;
use ccm_rollout::push::{Target, push as write};
use ccm_rollout::source::Source;
use kube::Client;

use crate::output;
use ccm_cli::{Output, PushArgs};

/// Puts the component there.
///
/// # Errors
///
/// The step of the gate that it does not pass, sizes that no ConfigMap has, and what the API server says.
pub(crate) fn push(args: &PushArgs) -> Result<()> {
    let Source::ConfigMap { namespace, name, key } = args.target.parse().map_err(anyhow::Error::msg)? else {
        bail!("{:?} is no configmap:NAMESPACE/NAME[/KEY]", args.target);
    };
    // Its name would be the key's.
    ensure!(!args.file.is_dir(), "{} is a folder; name the component in it", args.file.display());
    let record = args.component.record(args.file.to_string_lossy().into_owned())?;
    let config = ProviderRecord { allow_provider_change: args.allow_provider_change, ..record }.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let told = runtime.block_on(Box::pin(async {
        let checked = preflight::component(&config, None).await.map_err(|rejected| rejected.named(&config.source))?;
        let way =
            ccm_apiserver::config(args.api_server.kubeconfig.as_deref(), args.api_server.master.as_deref()).await?;
        let server = way.cluster_url.clone();
        let client = Client::try_from(way).context("the API server's address or credentials cannot be used")?;
        let file = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let creates = args.create;
        write(&config, &checked, &file, &Target { client, server, namespace, name, key, creates }).await
    }))?;
    Ok(output::print(&match args.output {
        Output::Json => output::json(&told)?,
        Output::Text => told.to_string(),
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key was the folder's name, and `.wasm` for the current one.
    #[test]
    fn a_folder_is_not_pushed_and_its_component_is_to_be_named() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: PushArgs,
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cloud.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
        let file = folder.path().to_string_lossy();
        let Command { args } = clap::Parser::try_parse_from(["push", &file, "configmap:kube-system/cloud"]).unwrap();
        let error = push(&args).unwrap_err().to_string();
        assert!(error.ends_with("is a folder; name the component in it"), "{error}");
    }
}
