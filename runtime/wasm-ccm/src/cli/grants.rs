//! `--endpoint`, `--allow-host`, `--credential` and the other flags that grant a provider something.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use ccm_rollout::config::grants::GrantSettings;
use clap::Args;

/// Grants as flags.
// No `Debug`: a URL may have a password in it. What is NAME=VALUE is split by us, as clap would repeat what has no `=`.
#[derive(Clone, Default, Args)]
#[command(next_help_heading = "Grants")]
pub(crate) struct GrantArgs {
    /// Base URL of an endpoint of the provider (`wasm-ccm inspect` shows them); may be given several times.
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) endpoint: Vec<String>,
    /// Hosts that only the provider names: those of its default URLs, and those that it finds in a catalogue of the cloud, such
    /// as api.example.org or *.example.org; comma-separated.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Allow endpoints without TLS (http://).
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Allow endpoints on this machine (127.0.0.0/8, ::1).
    #[arg(long)]
    pub(crate) allow_loopback: bool,
    /// Proxy of an endpoint, or with the name * of all others; may be given several times. Hosts behind a proxy are checked by
    /// name only.
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) proxy: Vec<String>,
    /// Environment variables that the provider may use, such as DO_*, comma-separated; also HTTPS_PROXY and NO_PROXY.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_env: Vec<String>,
    /// A file that the provider may read besides its cloud-config; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) allow_file: Vec<PathBuf>,
    /// Source of a credential of the provider: file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY; may be given several times.
    #[arg(long, value_name = "NAME=SOURCE")]
    pub(crate) credential: Vec<String>,
    /// Take a component that uses credentials in more places than the one that was loaded first.
    #[arg(long)]
    pub(crate) allow_grant_change: bool,
}

impl GrantArgs {
    /// The flags as a record has them.
    ///
    /// # Errors
    ///
    /// A name stands there twice.
    pub(crate) fn settings(&self) -> Result<GrantSettings> {
        Ok(GrantSettings {
            endpoints: once_each("--endpoint", &self.endpoint)?,
            allow_hosts: self.allow_host.clone(),
            allow_http: self.allow_http,
            allow_loopback: self.allow_loopback,
            proxies: once_each("--proxy", &self.proxy)?,
            allow_env: self.allow_env.clone(),
            allow_files: self.allow_file.clone(),
            allow_grant_change: self.allow_grant_change,
        })
    }
}

/// The NAME=VALUE of a flag that takes each name once: the last one would win, and nobody would know.
///
/// # Errors
///
/// Names the flag, and the name where it certainly is one: the text may be a secret whose name was forgotten.
pub(crate) fn once_each(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for text in given {
        let (name, value) = pair(text).with_context(|| {
            format!("{flag}: what is given is not NAME=VALUE; it is not repeated here, as it may be a secret")
        })?;
        // An empty value is not proof enough that a name stands before it: Base64 ends in `=` as well.
        let shown = if value.is_empty() { "a name" } else { name };
        ensure!(
            map.insert(name.to_owned(), value.to_owned()).is_none(),
            "{flag} {shown}=... is given twice; leave one out"
        );
    }
    Ok(map)
}

fn pair(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    // As descriptors name things. URLs, sentences and what ends in `==` are none.
    let is_name =
        name == "*" || (!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
    (is_name && !(value.starts_with('=') && value.bytes().all(|b| b == b'='))).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let pairs = ["api=a", "api=b"].map(str::to_owned);
        let error = once_each("--endpoint", &pairs).unwrap_err().to_string();
        assert_eq!(error, "--endpoint api=... is given twice; leave one out");
    }
}
