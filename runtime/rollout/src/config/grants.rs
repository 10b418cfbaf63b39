//! What the operator grants a provider: where it may go, with which secrets, what it may read.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, anyhow, ensure};
use ccm_cloud::{AnnotationGrant, SharedAddresses};
use ccm_egress::config::{AddressRules, HostPattern, OperatorGrants, Proxy, Secret};
pub use ccm_egress::config::{UseGrant, UseGrants, grants, needs_no_grant};
pub use ccm_egress::pasted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::check_names;

/// Grants of one provider, as the operator writes them. Nothing is granted unless it is named here or in the cloud-config.
// No `Debug`: a URL may have a password in it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GrantSettings {
    /// Base URLs of endpoints, by name; they take precedence over the cloud-config.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, String>,
    /// Hosts of the provider's default URLs and of the cloud's service catalogue: `api.example.org`, `*.example.org`, with or
    /// without a port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Endpoints without TLS.
    pub allow_http: bool,
    /// Endpoints on this machine (127.0.0.0/8, ::1).
    pub allow_loopback: bool,
    /// The cloud-config may switch off the verification of certificates. Everyone on the path can read the credentials.
    pub allow_skip_verification: bool,
    /// Proxies of endpoints, by the endpoint's name; `*` means all others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub proxies: BTreeMap<String, String>,
    /// Environment variables that the provider may use: names, or prefixes such as `DO_*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_env: Vec<String>,
    /// Files that the provider may read besides its cloud-config, if that names them or the provider expects them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_files: Vec<PathBuf>,
    /// Annotations that the provider may declare besides those of its own domain: names, or a domain with what names begin with, such as
    /// `example.com/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_annotations: Vec<String>,
    /// Whose addresses the load balancers of the provider may have, if it says that they share them: `nodes`, `services`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_shared_addresses: Vec<String>,
    /// Accept a component that uses credentials in more places than the first component, marks a dry run in another way, or uses more
    /// annotations that are not its own, and a changed cloud-config that names another host for an endpoint or protects it less.
    pub allow_grant_change: bool,
}

impl GrantSettings {
    /// What can be said of the grants before there is a provider.
    ///
    /// # Errors
    ///
    /// Names the grant and what would be right. Repeats no URL: there may be a password in it.
    pub fn operator(&self) -> Result<OperatorGrants> {
        let parse = |host: &String| host.parse::<HostPattern>().map_err(|error| anyhow!("{error}"));
        let hosts = self.allow_hosts.iter().map(|host| parse(host).with_context(|| format!("--allow-host {host}")));
        let proxy = |(name, url): (&String, &String)| {
            let proxy: Proxy = url.parse().map_err(|error| anyhow!("--proxy {name}=...: {error}"))?;
            Ok((name.clone(), proxy))
        };
        for pattern in &self.allow_env {
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            ensure!(
                !name.is_empty() && !name.contains(['*', '=']),
                "--allow-env {pattern}: give the name of a variable, or how names begin, as in DO_*"
            );
        }
        drop(self.annotations()?);
        let _sharing = self.sharing()?;
        let operator = OperatorGrants {
            base_urls: self.endpoints.clone(),
            hosts: hosts.collect::<Result<_>>()?,
            allow_http: self.allow_http,
            addresses: AddressRules { loopback: self.allow_loopback },
            allow_skip_verification: self.allow_skip_verification,
            proxies: self.proxies.iter().map(proxy).collect::<Result<_>>()?,
            environment_proxy: None,
        };
        let problems: Vec<String> = operator.problems().into_iter().map(|problem| problem.message).collect();
        ensure!(problems.is_empty(), problems.join("; "));
        Ok(operator)
    }
}

impl GrantSettings {
    /// Annotations that are granted.
    ///
    /// # Errors
    ///
    /// Names the grant and what would be right.
    pub fn annotations(&self) -> Result<Vec<AnnotationGrant>> {
        let parse =
            |text: &String| AnnotationGrant::parse(text).map_err(|error| anyhow!("--allow-annotation: {error}"));
        self.allow_annotations.iter().map(parse).collect()
    }

    /// Whose addresses load balancers may have.
    ///
    /// # Errors
    ///
    /// Names the grant and what would be right.
    pub fn sharing(&self) -> Result<SharedAddresses> {
        let parse =
            |text: &String| SharedAddresses::parse(text).map_err(|error| anyhow!("--allow-shared-address: {error}"));
        self.allow_shared_addresses.iter().try_fold(SharedAddresses::default(), |all, text| Ok(all.or(parse(text)?)))
    }
}

/// Where the operator says that a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
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

impl CredentialPlace {
    /// What can be said before there is a provider: nobody can give a process another variable later. Files and Secrets may
    /// come.
    ///
    /// # Errors
    ///
    /// The environment has no such variable, or one with less than `min_bytes`.
    pub fn check(&self, min_bytes: usize) -> Result<()> {
        match self {
            Self::Environment(variable) => {
                let bytes = variable_value(variable)?.expose().len();
                ensure!(
                    bytes >= min_bytes,
                    "the variable {variable} has less than {min_bytes} bytes; values this short cannot be kept out of answers: check it, or lower the limit min-credential-bytes"
                );
                Ok(())
            }
            Self::File(_) | Self::Secret { .. } => Ok(()),
        }
    }
}

/// The bytes of a variable of the environment.
///
/// # Errors
///
/// There is none of this name.
pub fn variable_value(variable: &str) -> Result<Secret> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| anyhow!("the environment has no variable {variable}, or an empty one"))?;
    Ok(Secret::new(value.into_vec()))
}

impl FromStr for CredentialPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: somebody may have written the secret itself.
        let wrong =
            || "it is not file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY; the value itself has no place here";
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        match (kind, rest.split('/').collect::<Vec<_>>().as_slice()) {
            ("file", _) if !rest.is_empty() => Ok(Self::File(rest.into())),
            ("env", [variable]) if !variable.is_empty() && !variable.contains('=') => {
                Ok(Self::Environment((*variable).to_owned()))
            }
            // A typing error must not look like a Secret that is still to come.
            ("secret", [namespace, name, key]) if check_names(namespace, name, Some(key)).is_ok() => Ok(Self::Secret {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
                key: (*key).to_owned(),
            }),
            // Neither a path of a Secret nor anything else that has this beginning has the value in it.
            ("secret", [_, _]) => {
                Err("it names no key of the Secret; write secret:NAMESPACE/NAME/KEY, and see the keys with \
                 kubectl -n NAMESPACE describe secret NAME"
                    .to_owned())
            }
            ("secret", [_]) => {
                Err("it names neither the namespace nor the key of the Secret; write secret:NAMESPACE/NAME/KEY"
                    .to_owned())
            }
            ("secret", [_, _, _]) => {
                Err("one of the namespace, the name and the key after secret: cannot be; namespace and name have only \
                 a-z, 0-9, - and ., the key also A-Z and _"
                    .to_owned())
            }
            ("file", _) => Err("it names no file; write file:PATH".to_owned()),
            ("env", _) => Err("it names no environment variable; write env:VARIABLE".to_owned()),
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
pub fn places(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, CredentialPlace>> {
    let place = |(name, text): (&String, &String)| {
        let place = text.parse().map_err(anyhow::Error::msg).with_context(|| format!("credential {name}"))?;
        Ok((name.clone(), place))
    };
    given.iter().map(place).collect()
}

/// Reads the granted uses of a record's credentials.
///
/// # Errors
///
/// Names the credential, and what would be a use.
pub fn uses(given: &BTreeMap<String, Vec<String>>) -> Result<UseGrants> {
    let parsed = |(name, texts): (&String, &Vec<String>)| {
        let parse = |text: &String| text.parse().map_err(|error| anyhow!("--credential-use {name}=...: {error}"));
        Ok((name.clone(), texts.iter().map(parse).collect::<Result<Vec<UseGrant>>>()?))
    };
    given.iter().map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_credentials_are_read_and_what_is_none_is_named() {
        let given = |use_: &str| BTreeMap::from([("password".to_owned(), vec![use_.to_owned()])]);
        assert!(uses(&given("identity:body:/v3/auth/tokens")).is_ok());
        let error = uses(&given("identity:body")).unwrap_err().to_string();
        assert!(error.contains("--credential-use password=") && error.contains("ENDPOINT:body:PATH"), "{error}");
    }

    #[test]
    fn the_places_of_credentials_are_understood_and_told_again() {
        let secret = CredentialPlace::Secret {
            namespace: "kube-system".to_owned(),
            name: "digitalocean".to_owned(),
            key: "access-token".to_owned(),
        };
        for (text, place) in [
            ("file:/run/secrets/token", CredentialPlace::File("/run/secrets/token".into())),
            ("file:token", CredentialPlace::File("token".into())),
            ("file:/a:b/c", CredentialPlace::File("/a:b/c".into())),
            ("env:DO_ACCESS_TOKEN", CredentialPlace::Environment("DO_ACCESS_TOKEN".to_owned())),
            ("secret:kube-system/digitalocean/access-token", secret),
        ] {
            assert_eq!(text.parse::<CredentialPlace>().as_ref(), Ok(&place), "{text}");
            assert_eq!(place.to_string(), text);
        }
    }

    #[test]
    fn a_place_that_lacks_something_is_told_what_and_nothing_of_it_is_repeated() {
        for (text, part) in [
            ("secret:kube-system/hunter2", "it names no key of the Secret; write secret:NAMESPACE/NAME/KEY"),
            ("secret:hunter2", "it names neither the namespace nor the key of the Secret"),
            ("secret:kube-system/Hunter2/token", "one of the namespace, the name and the key after secret: cannot be"),
            ("secret:a/b/c/hunter2", "it is not file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY"),
            ("file:", "it names no file; write file:PATH"),
            ("env:", "it names no environment variable; write env:VARIABLE"),
            ("env:TOKEN=hunter2", "it names no environment variable"),
            ("hunter2", "the value itself has no place here"),
        ] {
            let error = text.parse::<CredentialPlace>().unwrap_err();
            assert!(error.starts_with(part) || error.ends_with(part), "{text}: {error}");
            assert!(!error.to_lowercase().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn grants_that_cannot_be_are_refused_by_their_name_and_no_password_is_repeated() {
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let endpoint = |url: &str| GrantSettings { endpoints: map("api", url), ..GrantSettings::default() };
        let proxy = |url: &str| GrantSettings { proxies: map("*", url), ..GrantSettings::default() };
        let env = |name: &str| GrantSettings { allow_env: vec![name.to_owned()], ..GrantSettings::default() };
        let annotation =
            |name: &str| GrantSettings { allow_annotations: vec![name.to_owned()], ..GrantSettings::default() };
        let sharing =
            |name: &str| GrantSettings { allow_shared_addresses: vec![name.to_owned()], ..GrantSettings::default() };
        let host = |name: &str| GrantSettings { allow_hosts: vec![name.to_owned()], ..GrantSettings::default() };
        let cases = [
            (endpoint("api.test"), "--endpoint api=...: the URL must begin with https://"),
            (endpoint("https://u:hunter2@api.test"), "--endpoint api=...: the URL has a user or password"),
            (endpoint("http://api.test"), "--allow-http"),
            (endpoint("https://127.0.0.1"), "--allow-loopback"),
            (proxy("socks5://u:hunter2@proxy.test"), "--proxy *=...: the scheme of the proxy must be http or https"),
            (env("*"), "--allow-env *: give the name of a variable"),
            (env("*_TOKEN"), "as in DO_*"),
            (env(""), "--allow-env : give the name"),
            (annotation("*"), "--allow-annotation: \"*\" is neither"),
            (annotation("example*"), "as in example.com/*"),
            (sharing("all"), "--allow-shared-address: \"all\" is neither nodes nor services"),
            (host("*"), "--allow-host *: `*` would allow every host"),
        ];
        for (grants, part) in cases {
            let error = format!("{:#}", grants.operator().err().unwrap());
            assert!(error.contains(part) && !error.contains("hunter2"), "{error:?} does not say {part:?}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_and_never_repeated() {
        let of_secret = "secret:NAMESPACE/NAME/KEY";
        for (text, right) in [
            ("hunter2-hunter2", "file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY"),
            ("file:", "file:PATH"),
            ("env:", "env:VARIABLE"),
            ("env:A/B", "env:VARIABLE"),
            ("secret:ns/name", of_secret),
            ("secret:ns//key", "namespace and name have only a-z, 0-9, - and ."),
            ("secret:n_s/name/key", "namespace and name have only a-z, 0-9, - and ."),
        ] {
            let error = places(&BTreeMap::from([("token".to_owned(), text.to_owned())])).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains("credential token") && error.contains(right), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
