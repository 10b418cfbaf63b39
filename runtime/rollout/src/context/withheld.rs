//! Variables of the process that the provider does not see, because they are not granted.

use std::collections::BTreeMap;

use ccm_cloud::{Descriptor, Source, TlsSources};
use ccm_egress::config::Environment;
use ccm_egress::line;

use super::{PROXY_EXCEPTIONS, PROXY_VARIABLES};
use crate::config::ProviderConfig;

/// So many bytes of a name are told: the component chooses it.
pub(super) const MAX_NAME: usize = 64;
/// So much is told of what a component wants one variable for.
const MAX_USES: usize = 3;

/// Variables that could count for the provider, and are set and not granted: the operator may have forgotten them. What the operator gives
/// with a flag leaves no question. The component chooses their names, so that people are told what it wants each for.
#[derive(Debug, Default)]
pub struct Withheld(BTreeMap<String, Wanted>);

/// What the component wants a variable for.
#[derive(Debug, Default)]
struct Wanted {
    uses: Vec<String>,
    /// The component itself would read the value, not only the host.
    is_read: bool,
}

impl Withheld {
    pub(crate) fn of(config: &ProviderConfig, descriptor: &Descriptor, environment: &Environment) -> Self {
        let grants = &config.grants;
        let mut all = Self::default();
        // First, so that they are told whatever else a variable is for.
        for setting in descriptor.settings.iter().filter(|one| !config.settings.contains_key(&one.name)) {
            all.add(environment, &setting.value, || named("setting", &setting.name), true);
        }
        for credential in descriptor.credentials.iter().filter(|one| !config.credentials.contains_key(&one.name)) {
            all.add(environment, &credential.value, || named("credential", &credential.name), false);
        }
        for endpoint in &descriptor.endpoints {
            if !grants.endpoints.contains_key(&endpoint.name) {
                all.add(environment, &endpoint.base_url, || named("endpoint", &endpoint.name), false);
            }
            let tls = endpoint.tls.iter().flat_map(TlsSources::all);
            tls.for_each(|source| all.add(environment, source, || named("TLS of endpoint", &endpoint.name), false));
        }
        if !descriptor.endpoints.is_empty() && !grants.proxies.contains_key("*") {
            let of =
                |names: [&str; 2]| Source { keys: vec![], environment_variables: names.map(str::to_owned).to_vec() };
            let (proxies, exceptions) = (of(PROXY_VARIABLES), of(PROXY_EXCEPTIONS));
            // Alone they mean nothing.
            let is_one_set = PROXY_VARIABLES.iter().any(|name| environment.get(name).is_some());
            if is_one_set || !environment.withheld(&proxies).is_empty() {
                all.add(environment, &exceptions, || "hosts without a proxy".to_owned(), false);
            }
            all.add(environment, &proxies, || "proxy".to_owned(), false);
        }
        all
    }

    fn add(&mut self, environment: &Environment, source: &Source, what: impl Fn() -> String, is_read: bool) {
        for name in environment.withheld(source) {
            let wanted = self.0.entry(name).or_default();
            wanted.is_read |= is_read;
            let what = what();
            if !wanted.uses.contains(&what) {
                wanted.uses.push(what);
            }
        }
    }

    /// Leaves out those whose names are not `wanted`.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|name, _| wanted(name));
        self
    }

    /// Whether one of them could change what the provider asks its cloud for, and not only the way there.
    #[must_use]
    pub fn has_values(&self) -> bool {
        let is_of_a_proxy = |name: &str| PROXY_VARIABLES.contains(&name) || PROXY_EXCEPTIONS.contains(&name);
        self.0.keys().any(|name| !is_of_a_proxy(name))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As `--allow-env` takes them.
    #[must_use]
    pub fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// Each with what it is for.
    #[must_use]
    pub fn told(&self) -> String {
        let one = |(name, Wanted { uses, .. }): (&String, &Wanted)| {
            let more = uses.len().saturating_sub(MAX_USES);
            let more = (more > 0).then(|| format!("{more} more"));
            let uses: Vec<String> = uses.iter().take(MAX_USES).cloned().chain(more).collect();
            format!("{name} ({})", uses.join(", "))
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// What is to be said after the flag that grants them; empty where the component would read none. A credential goes to the host alone; a setting
    /// can be any variable of the process.
    #[must_use]
    pub fn caution(&self) -> String {
        let read: Vec<&str> =
            self.0.iter().filter(|(_, wanted)| wanted.is_read).map(|(name, _)| name.as_str()).collect();
        if read.is_empty() {
            return String::new();
        }
        format!(
            "; the component reads the value of a setting: grant {} only if you know why it wants that",
            read.join(",")
        )
    }
}

fn named(what: &str, name: &str) -> String {
    format!("{what} `{}`", line(name, MAX_NAME))
}
