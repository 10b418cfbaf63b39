//! What the operator grants a provider: where it may go, with which secrets, what it may read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use ccm_egress::hosts::HostPattern;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Grants of one provider, as the operator writes them. Nothing is granted without a word here or in the cloud-config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct GrantSettings {
    /// Base URLs of endpoints, by their name; they win over the cloud-config.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) endpoints: BTreeMap<String, String>,
    /// Hosts that the provider may name itself: `api.example.org`, `*.example.org`, with or without a port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow_hosts: Vec<String>,
    /// Endpoints without TLS.
    pub(crate) allow_http: bool,
    /// Endpoints on this machine (127.0.0.0/8, ::1).
    pub(crate) allow_loopback: bool,
    /// Proxies of endpoints, by the endpoint's name; `*` stands for all others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) proxies: BTreeMap<String, String>,
    /// Environment variables that count for the provider: names, or beginnings such as `DO_*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow_env: Vec<String>,
    /// Files that the provider may have besides its cloud-config, where that names them or the provider expects them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow_files: Vec<PathBuf>,
    /// A component may use credentials in more places than the one that was loaded first.
    pub(crate) allow_grant_change: bool,
}

/// Grants as flags.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Grants")]
pub(crate) struct GrantArgs {
    /// Base URL of an endpoint of the provider; may be given several times.
    #[arg(long, value_name = "NAME=URL", value_parser = crate::cli::pair)]
    pub(crate) endpoint: Vec<(String, String)>,
    /// Hosts that the provider may name itself, such as api.example.org or *.example.org, comma-separated.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Allow endpoints without TLS.
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Allow endpoints on this machine.
    #[arg(long)]
    pub(crate) allow_loopback: bool,
    /// Proxy of an endpoint, or of all others with the name *; may be given several times.
    #[arg(long, value_name = "NAME=URL", value_parser = crate::cli::pair)]
    pub(crate) proxy: Vec<(String, String)>,
    /// Environment variables that count for the provider, such as DO_*, comma-separated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_env: Vec<String>,
    /// A file that the provider may have besides its cloud-config; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) allow_file: Vec<PathBuf>,
    /// Where a credential of the provider comes from: file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY; may be given
    /// several times.
    #[arg(long, value_name = "NAME=SOURCE", value_parser = crate::cli::pair)]
    pub(crate) credential: Vec<(String, String)>,
    /// Take a component that uses credentials in more places than the one that was loaded first.
    #[arg(long)]
    pub(crate) allow_grant_change: bool,
}

impl GrantArgs {
    /// The flags as a record has them.
    pub(crate) fn settings(&self) -> GrantSettings {
        GrantSettings {
            endpoints: self.endpoint.iter().cloned().collect(),
            allow_hosts: self.allow_host.clone(),
            allow_http: self.allow_http,
            allow_loopback: self.allow_loopback,
            proxies: self.proxy.iter().cloned().collect(),
            allow_env: self.allow_env.clone(),
            allow_files: self.allow_file.clone(),
            allow_grant_change: self.allow_grant_change,
        }
    }
}

impl GrantSettings {
    /// The patterns of [`Self::allow_hosts`].
    ///
    /// # Errors
    ///
    /// Names the pattern and what would be right.
    pub(crate) fn hosts(&self) -> Result<Vec<HostPattern>> {
        let parse = |host: &String| host.parse().map_err(|error| anyhow::anyhow!("{error}"));
        self.allow_hosts.iter().map(|host| parse(host).with_context(|| format!("allowed host {host:?}"))).collect()
    }
}

/// Where the operator says that a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialPlace {
    /// `file:PATH`
    File(PathBuf),
    /// `env:VARIABLE`
    Environment(String),
    /// `secret:NAMESPACE/NAME/KEY`
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Its name.
        name: String,
        /// The key in its data.
        key: String,
    },
}

impl FromStr for CredentialPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: somebody may have written the secret itself.
        let wrong =
            || "it is not file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY (a value itself has no place here)";
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        match (kind, rest.split('/').collect::<Vec<_>>().as_slice()) {
            ("file", _) if !rest.is_empty() => Ok(Self::File(rest.into())),
            ("env", [variable]) if !variable.is_empty() && !variable.contains('=') => {
                Ok(Self::Environment((*variable).to_owned()))
            }
            ("secret", [namespace, name, key]) if ![namespace, name, key].iter().any(|part| part.is_empty()) => {
                Ok(Self::Secret {
                    namespace: (*namespace).to_owned(),
                    name: (*name).to_owned(),
                    key: (*key).to_owned(),
                })
            }
            _ => Err(wrong().to_owned()),
        }
    }
}

impl fmt::Display for CredentialPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Environment(variable) => write!(f, "env:{variable}"),
            Self::Secret { namespace, name, key } => write!(f, "secret:{namespace}/{name}/{key}"),
        }
    }
}

/// Reads the places of a record's credentials.
///
/// # Errors
///
/// Names the credential.
pub(crate) fn places(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, CredentialPlace>> {
    let place = |(name, text): (&String, &String)| {
        let place = text.parse().map_err(anyhow::Error::msg).with_context(|| format!("credential {name}"))?;
        Ok((name.clone(), place))
    };
    given.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_credentials_are_understood_and_told_again() {
        for text in ["file:/run/secrets/token", "env:DO_ACCESS_TOKEN", "secret:kube-system/digitalocean/access-token"] {
            assert_eq!(text.parse::<CredentialPlace>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_place_is_refused_and_never_repeated() {
        for text in ["hunter2-hunter2", "file:", "env:", "env:A/B", "secret:ns/name", "secret:ns//key", "http://x/y/z"]
        {
            let error = places(&BTreeMap::from([("token".to_owned(), text.to_owned())])).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains("credential token") && error.contains("file:PATH"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
