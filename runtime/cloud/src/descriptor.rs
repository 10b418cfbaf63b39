//! Who a provider is, and what it asks the operator for: the contract's `meta`.

use std::num::NonZeroU32;

use serde::Serialize;

use crate::{Annotation, Attributes};

/// What `meta.describe` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// `--cloud-provider` name; DNS label.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Changes when a load balancer would be asked for differently than before.
    pub revision: String,
    /// Schemes of provider IDs, without `://`. The first is the one it writes.
    pub provider_id_schemes: Vec<String>,
    /// What the provider IDs begin with that it takes care of, where the operator leaves it a part of its schemes:
    /// `openstack://RegionOne/`. Empty: all of its schemes. No part of what it says of itself.
    #[serde(skip)]
    pub provider_id_prefixes: Vec<String>,
    /// Files that it reads; the first is the one of `--cloud-config`.
    pub files: Vec<ConfigFile>,
    /// Places in the network that it talks to.
    pub endpoints: Vec<Endpoint>,
    /// Secrets that are used for it.
    pub credentials: Vec<Credential>,
    /// Knobs.
    pub settings: Vec<Setting>,
    /// Annotations that it reads or writes. Others do not reach it.
    pub annotations: Vec<Annotation>,
    /// How many requests the cloud takes.
    pub budgets: Vec<Budget>,
    /// Whose addresses its load balancers may have, as it says and the operator grants. No part of what it says of itself.
    #[serde(skip)]
    pub shared_addresses: SharedAddresses,
    /// Room for growth: [`Self::DRY_RUN`], [`Self::SHARED_ADDRESSES`].
    pub more: Attributes,
}

impl Descriptor {
    /// In `more`: whose addresses its load balancers share, `nodes`, `services`, or both, comma-separated.
    pub const SHARED_ADDRESSES: &'static str = "shared-addresses";
    /// In `more`: a member of JSON bodies with which, when it is `true`, the cloud judges a request and does nothing.
    pub const DRY_RUN: &'static str = "dry-run";

    /// Where the values come from that it asks for: endpoints, credentials, settings.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        let tls = self.endpoints.iter().flat_map(|endpoint| &endpoint.tls).flat_map(TlsSources::all);
        let credentials = self.credentials.iter().map(|credential| &credential.value);
        let settings = self.settings.iter().map(|setting| &setting.value);
        self.endpoints.iter().map(|endpoint| &endpoint.base_url).chain(tls).chain(credentials).chain(settings)
    }

    /// What the provider IDs begin with that it takes care of, with the scheme.
    #[must_use]
    pub fn provider_ids(&self) -> Vec<String> {
        if self.provider_id_prefixes.is_empty() {
            return self.provider_id_schemes.iter().map(|scheme| format!("{scheme}://")).collect();
        }
        self.provider_id_prefixes.clone()
    }

    /// Whether it takes care of machines with this provider ID.
    #[must_use]
    pub fn owns(&self, provider_id: &str) -> bool {
        if self.provider_id_prefixes.is_empty() {
            return self.has_scheme_of(provider_id);
        }
        self.provider_id_prefixes.iter().any(|prefix| provider_id.starts_with(prefix.as_str()))
    }

    fn has_scheme_of(&self, provider_id: &str) -> bool {
        let is_of =
            |scheme: &String| provider_id.strip_prefix(scheme.as_str()).is_some_and(|rest| rest.starts_with("://"));
        self.provider_id_schemes.iter().any(is_of)
    }

    /// Whether the operator leaves machines with this provider ID to another provider of the same scheme.
    #[must_use]
    pub fn leaves(&self, provider_id: &str) -> bool {
        !self.owns(provider_id) && self.has_scheme_of(provider_id)
    }

    /// Whose addresses its load balancers share, as it says.
    #[must_use]
    pub fn declared_sharing(&self) -> SharedAddresses {
        let words = self.more.get(Self::SHARED_ADDRESSES).map(String::as_str).unwrap_or_default();
        // What a later host knows is nothing that this one could grant.
        let known = words.split(',').filter_map(|word| SharedAddresses::parse(word.trim()).ok());
        known.fold(SharedAddresses::default(), SharedAddresses::or)
    }

    /// Annotations that it declares and that are not [its own](Annotation::is_own) to declare: they need the operator's grant. Asked of what
    /// the component says of itself: its domains have its own name, whatever the operator calls the provider.
    #[must_use]
    pub fn foreign_annotations(&self) -> Vec<&Annotation> {
        self.annotations.iter().filter(|annotation| !annotation.is_own(&self.name)).collect()
    }

    /// Annotations that `new` declares, and that are neither its own to declare nor part of what this one does with them.
    #[must_use]
    pub fn wider_annotations<'a>(&self, new: &'a Self) -> Vec<&'a Annotation> {
        let known = |one: &Annotation| self.annotations.iter().any(|before| before.includes(one));
        new.foreign_annotations().into_iter().filter(|one| !known(one)).collect()
    }

    /// What provider IDs begin with that both would take care of; none where each has its own.
    #[must_use]
    pub fn contested(&self, other: &Self) -> Option<String> {
        let theirs = other.provider_ids();
        let longer = |own: &String, their: &String| {
            let longer = if own.len() < their.len() { their } else { own };
            (own.starts_with(their.as_str()) || their.starts_with(own.as_str())).then(|| longer.clone())
        };
        self.provider_ids().iter().find_map(|own| theirs.iter().find_map(|their| longer(own, their)))
    }
}

/// Whose addresses the load balancer of a Service may have besides its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedAddresses {
    /// Those of Nodes: where Nodes are the load balancers.
    pub nodes: bool,
    /// Those of other Services: where several have one load balancer.
    pub services: bool,
}

impl SharedAddresses {
    /// Reads one word.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word {
            "nodes" => Ok(Self { nodes: true, services: false }),
            "services" => Ok(Self { nodes: false, services: true }),
            _ => Err(format!("{word:?} is neither nodes nor services")),
        }
    }

    /// What one or the other allows.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { nodes: self.nodes || other.nodes, services: self.services || other.services }
    }

    /// What both allow.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { nodes: self.nodes && other.nodes, services: self.services && other.services }
    }
}

/// How many requests the cloud takes, unless the operator knows better.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Endpoints whose requests are counted together; an endpoint is in one at most.
    pub endpoints: Vec<String>,
    /// On average.
    pub per_second: Option<NonZeroU32>,
    /// At once, after a quiet time. Without it as many as `per_second`, where that is given.
    pub burst: Option<NonZeroU32>,
    /// In any minute.
    pub per_minute: Option<NonZeroU32>,
    /// In any hour.
    pub per_hour: Option<NonZeroU32>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigFormat {
    /// The git-config dialect.
    Ini,
    /// JSON.
    Json,
    /// YAML, of which JSON is a part.
    Yaml,
}

/// A file that the provider reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigFile {
    /// Its name in keys and in `settings.file`.
    pub name: String,
    /// How it is written.
    pub format: ConfigFormat,
    /// Keys whose value is its path.
    pub path_keys: Vec<String>,
    /// Where it is without such a key.
    pub default_paths: Vec<String>,
}

/// Where a value comes from; the first that has one wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `file:section.key`
    pub keys: Vec<String>,
    /// Read only where the operator grants them.
    pub environment_variables: Vec<String>,
}

/// A place in the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// What requests call it.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Where the operator says its URL.
    pub base_url: Source,
    /// Used only where the operator allows its host.
    pub default_base_url: Option<String>,
    /// Where the operator says its TLS files.
    pub tls: Option<TlsSources>,
}

impl Endpoint {
    /// Whether the provider names no place of its base URL: it finds that by itself, or the operator gives `--endpoint`.
    #[must_use]
    pub const fn is_found_elsewhere(&self) -> bool {
        let Source { keys, environment_variables } = &self.base_url;
        keys.is_empty() && environment_variables.is_empty() && self.default_base_url.is_none()
    }
}

/// Where it is said how an endpoint proves who it is, and the host to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsSources {
    /// Authorities to trust.
    pub ca_file: Source,
    /// Certificate to show.
    pub client_certificate: Source,
    /// Its key.
    pub client_key: Source,
    /// Authorities to trust, in PEM.
    pub ca_certificates: Source,
    /// `false` trusts anybody.
    pub verify: Source,
    /// `true` trusts anybody.
    pub skip_verification: Source,
}

impl TlsSources {
    /// Each of them.
    #[must_use]
    pub const fn all(&self) -> [&Source; 6] {
        let Self { ca_file, client_certificate, client_key, ca_certificates, verify, skip_verification } = self;
        [ca_file, client_certificate, client_key, ca_certificates, verify, skip_verification]
    }
}

/// A secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// What requests call it.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Whether nothing works without it.
    pub required: bool,
    /// Where its value comes from.
    pub value: Source,
    /// The only places where it may stand.
    pub uses: Vec<CredentialUse>,
}

/// A place where a secret may stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialUse {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Part of the request.
    pub place: Place,
    /// Only for requests of this path.
    pub path: Option<String>,
}

/// Part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The header of that name.
    Header(String),
    /// The query value of that name.
    Query(String),
    /// The body.
    Body,
    /// What is signed.
    Signing,
}

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Anything.
    Text,
    /// `true` or `false`.
    Boolean,
    /// Whole number.
    Integer,
    /// As Go prints them: `90s`, `1m30s`.
    Duration,
    /// Comma-separated ports.
    PortList,
    /// Comma-separated CIDRs.
    CidrList,
    /// A JSON document.
    Json,
}

/// A knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// What `settings.get` calls it.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// What its value looks like.
    pub kind: ValueKind,
    /// Its value when the operator says nothing.
    pub default: Option<String>,
    /// Its only values, when not empty.
    pub allowed: Vec<String>,
    /// Where its value comes from.
    pub value: Source,
}

/// Optional interfaces that a provider can offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// `load-balancers`
    LoadBalancers,
    /// `routes`
    Routes,
    /// `cluster`
    Cluster,
}

impl Capability {
    /// The name of the interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancers => "load-balancers",
            Self::Routes => "routes",
            Self::Cluster => "cluster",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(schemes: &[&str], prefixes: &[&str]) -> Descriptor {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Descriptor {
            provider_id_schemes: owned(schemes),
            provider_id_prefixes: owned(prefixes),
            ..Descriptor::default()
        }
    }

    #[test]
    fn a_provider_takes_care_of_its_schemes_or_of_the_part_that_it_was_left() {
        let (whole, east) = (provider(&["os", "older"], &[]), provider(&["os", "older"], &["os://east/", "os:///"]));
        for (id, of_whole, of_east) in [
            ("os://east/1", true, true),
            ("os:///1", true, true),
            ("os://west/1", true, false),
            ("os://eastern/1", true, false),
            ("older://1", true, false),
            ("os:east/1", false, false),
            ("oss://east/1", false, false),
            ("os", false, false),
            ("", false, false),
        ] {
            assert_eq!((whole.owns(id), east.owns(id)), (of_whole, of_east), "{id}");
            assert_eq!((whole.leaves(id), east.leaves(id)), (false, of_whole && !of_east), "{id}");
        }
    }

    #[test]
    fn two_providers_contest_what_begins_the_same() {
        let (east, west) = (provider(&["os"], &["os://east/"]), provider(&["os"], &["os://west/", "os:///"]));
        let cases = [
            (&east, &west, None),
            (&provider(&["os"], &[]), &provider(&["other"], &[]), None),
            (&provider(&["os"], &[]), &provider(&["other", "os"], &[]), Some("os://")),
            (&east, &provider(&["os"], &[]), Some("os://east/")),
            (&provider(&["os"], &[]), &west, Some("os://west/")),
            (&west, &provider(&["os"], &["os:///"]), Some("os:///")),
        ];
        for (one, other, prefix) in cases {
            assert_eq!(one.contested(other).as_deref(), prefix, "{one:?} {other:?}");
            assert_eq!(other.contested(one).is_some(), prefix.is_some());
        }
    }
}
