//! The way to the API server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_rollout::backoff;
use kube::config::{KubeConfigOptions, Kubeconfig, NamedCluster};
use kube::{Client, Config};

use crate::serve::Readiness;

/// What must be true of the API server before the process is ready.
pub(crate) const CHECK: &str = "API server";

/// Reads and connects for at most this long without a byte, so that a dead connection is noticed.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

/// Where the API server is and who we are there. As upstream, `$KUBECONFIG` is not read: which cluster a controller writes
/// to is to be seen in its flags. Nor is `$HTTPS_PROXY`.
///
/// # Errors
///
/// When the kubeconfig cannot be used, or when there is none and this is not a pod.
pub(crate) async fn config(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Config> {
    let mut config = match kubeconfig {
        Some(path) => {
            let what = || format!("--kubeconfig {}", path.display());
            // kube would take other encodings too, and stumble over what is none.
            let bytes = std::fs::read(path).with_context(what)?;
            ensure!(std::str::from_utf8(&bytes).is_ok(), "{}: it is not UTF-8 text", what());
            let file = Kubeconfig::read_from(path).with_context(what)?;
            // The URL is not repeated: it may have a password.
            let named = |cluster: &NamedCluster| cluster.cluster.as_ref().is_some_and(|one| one.proxy_url.is_some());
            ensure!(
                !file.clusters.iter().any(named),
                "{}: it names a proxy (proxy-url), and the API server is reached without one; leave it out",
                what()
            );
            let mut config =
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.with_context(what)?;
            // HTTPS_PROXY is for clouds, and only where it is granted.
            config.proxy_url = None;
            config
        }
        None if master.is_some() => {
            let here = Config::incluster().ok();
            here.unwrap_or_else(|| Config::new(http::Uri::from_static("http://localhost")))
        }
        None => {
            let here = Config::incluster().ok();
            here.context(
                "this is not a pod with a service account; say with --kubeconfig FILE how to reach the API server (the environment variable KUBECONFIG is not read)",
            )?
        }
    };
    if let Some(master) = master {
        config.cluster_url = master.parse().with_context(|| format!("--master {master} is not a URL"))?;
    }
    // A failed request goes back to its queue, where the next try is seen.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("wasm-ccm/", env!("CARGO_PKG_VERSION"))),
    ));
    Ok(config)
}

/// Waits until the API server answers, with back-off from 0.5 s to 15 s and a log line each time.
pub(crate) async fn wait_for(client: &Client, readiness: &Readiness) {
    let mut delays = backoff(Duration::from_millis(500), Duration::from_secs(15));
    loop {
        let asked = tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await;
        let error = match asked {
            Ok(Ok(version)) => {
                tracing::info!(version = version.git_version, "API server answers");
                readiness.set(CHECK, Ok(()));
                return;
            }
            Ok(Err(error)) => ccm_controllers::api_error_text(&error),
            Err(_) => "no answer within 10 s".to_owned(),
        };
        let delay = delays.next().unwrap_or_default();
        tracing::warn!(error, retry_in = ?delay, "waiting for the API server");
        readiness.set(CHECK, Err(error));
        tokio::time::sleep(delay).await;
    }
}
