//! Where the API server is, and who asks.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, NamedCluster};

/// Reads and connects for at most this long without a byte, so that a dead connection is noticed.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

/// Finds the API server and the credentials for it. As upstream, it does not read `$KUBECONFIG`: you must see in the flags which cluster
/// a controller writes to. It does not read `$HTTPS_PROXY` either.
///
/// # Errors
///
/// When the kubeconfig cannot be used, or when there is none and this is not a pod.
pub async fn config(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Config> {
    config_from("--kubeconfig", kubeconfig, master).await
}

/// The same where another flag names the kubeconfig.
///
/// # Errors
///
/// As [`config`], with the name of the flag.
pub async fn config_from(flag: &str, kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Config> {
    let mut config = match kubeconfig {
        Some(path) => {
            let what = || format!("{flag} {}", path.display());
            // kube accepts other encodings too, and its error for invalid text is unclear.
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
        // Not repeated: it may have a password.
        config.cluster_url = master.parse().context("--master is not a URL")?;
    }
    check_address(&config.cluster_url).with_context(|| match (master, kubeconfig) {
        (Some(_), _) => "--master".to_owned(),
        (None, Some(path)) => format!("{flag} {}, server", path.display()),
        (None, None) => "the address in the pod's environment".to_owned(),
    })?;
    // The queue repeats a failed request, and its metrics show that.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("wasm-ccm/", env!("CARGO_PKG_VERSION"))),
    ));
    Ok(config)
}

/// kube panics over an address without a scheme.
fn check_address(url: &http::Uri) -> Result<()> {
    // Without the user information, which may have a password.
    let host = url.host().filter(|host| !host.is_empty());
    let place = host.map(|host| url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")));
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let example = place.clone().unwrap_or_else(|| "192.0.2.1:6443".to_owned());
    ensure!(is_http && place.is_some(), "it has to be a URL with https:// and a host, such as https://{example}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_without_https_is_refused_with_the_one_that_is_meant() {
        for (master, wanted) in [
            ("127.0.0.1:6443", "--master: it has to be a URL with https:// and a host, such as https://127.0.0.1:6443"),
            ("localhost", "such as https://localhost"),
            ("ftp://x", "such as https://x"),
            ("/x", "such as https://192.0.2.1:6443"),
        ] {
            let error = config(None, Some(master)).await.unwrap_err();
            assert!(format!("{error:#}").ends_with(wanted), "{master}: {error:#}");
        }
        assert!(config(None, Some("https://user:password@127.0.0.1:6443")).await.is_ok());
        let error = format!("{:#}", config(None, Some("https://user:pass^word@127.0.0.1:6443")).await.unwrap_err());
        assert!(error.starts_with("--master is not a URL") && !error.contains("word"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = r#"{"clusters":[{"name":"c","cluster":{"server":"192.0.2.7:6443"}}],
            "contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u"}],"current-context":"x"}"#;
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", config(Some(&file), None).await.unwrap_err());
        assert!(error.contains("config, server: ") && error.ends_with("https://192.0.2.7:6443"), "{error}");
        assert!(config(Some(&file), Some("https://192.0.2.7:6443")).await.is_ok());
    }
}
