//! Variables that no provider reads, though they are granted, or set under a name much like one that is read: most are misspelt.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{Descriptor, nearest};
use ccm_egress::config::grants;
use ccm_egress::line;
use parking_lot::Mutex;

use super::withheld::MAX_NAME;
use super::{PROXY_EXCEPTIONS, PROXY_VARIABLES};
use crate::config::ProviderConfig;
use crate::config::grants::CredentialPlace;

/// So many are told.
const MOST: usize = 8;

/// What providers are granted, and what they read.
#[derive(Default)]
struct Known {
    /// As `--allow-env` has them.
    granted: BTreeSet<String>,
    read: BTreeSet<String>,
}

impl Known {
    fn add(&mut self, config: &ProviderConfig, descriptor: &Descriptor) {
        self.granted.extend(config.grants.allow_env.iter().cloned());
        self.read.extend(descriptor.sources().flat_map(|source| source.environment_variables.iter().cloned()));
        // The operator names these himself: they are read, whatever the component declares.
        self.read.extend(config.credentials.values().filter_map(|place| match place {
            CredentialPlace::Environment(variable) => Some(variable.clone()),
            CredentialPlace::File(_) | CredentialPlace::Secret { .. } => None,
        }));
    }

    /// Those that nobody reads, each with the one that was probably meant. `set`: names of the variables of this process.
    fn unread(&self, set: &BTreeSet<String>) -> Option<String> {
        let proxies: Vec<&str> = PROXY_VARIABLES.into_iter().chain(PROXY_EXCEPTIONS).collect();
        let read = || self.read.iter().map(String::as_str);
        let is_read = |name: &str| self.read.contains(name) || proxies.contains(&name);
        let is_granted = |name: &str| self.granted.iter().any(|grant| grants(grant, name));
        let meant = |name: &str| {
            // What counts already was not meant.
            let all = read().chain(proxies.iter().copied());
            nearest(name, all.filter(|known| !(set.contains(*known) && is_granted(known)))).map(shown)
        };
        let granted = self.granted.iter().filter_map(|grant| match grant.strip_suffix('*') {
            None => (!is_read(grant)).then(|| (grant.as_str(), meant(grant))),
            Some(prefix) => {
                let mut all = read().chain(proxies.iter().copied());
                let begins = |known: &&str| known.starts_with(prefix);
                let so_much = || read().filter_map(|known| known.get(..prefix.len()));
                (!all.any(|known| begins(&known)))
                    .then(|| (grant.as_str(), nearest(prefix, so_much()).map(|meant| format!("{}*", shown(meant)))))
            }
        });
        let is_new = |name: &&String| !is_read(name) && !self.granted.contains(*name);
        let set_here = set.iter().filter(is_new).filter_map(|name| match is_granted(name) {
            true => Some((name.as_str(), meant(name))),
            // Most variables of a process are for others. Proxies are told of elsewhere.
            false => {
                let unset = read().filter(|known| !set.contains(*known));
                nearest(name, unset).map(|meant| (name.as_str(), Some(shown(meant))))
            }
        });
        let mut all: Vec<(&str, Option<String>)> = granted.chain(set_here).collect();
        all.sort_by_key(|(_, meant)| meant.is_none());
        let more = all.len().saturating_sub(MOST);
        let told = all.into_iter().take(MOST).map(|(name, meant)| match meant {
            Some(meant) => format!("{} (did you mean {meant}?)", shown(name)),
            None => shown(name),
        });
        let told: Vec<String> = told.chain((more > 0).then(|| format!("{more} more"))).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

fn shown(name: &str) -> String {
    line(name, MAX_NAME)
}

/// Names of the variables of this process. Those that are no text are nobody's.
fn set_here() -> BTreeSet<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

/// Variables that none of these providers reads.
pub(crate) fn unread<'a>(providers: impl IntoIterator<Item = (&'a ProviderConfig, &'a Descriptor)>) -> Option<String> {
    let mut all = Known::default();
    providers.into_iter().for_each(|(config, descriptor)| all.add(config, descriptor));
    all.unread(&set_here())
}

/// What the providers of a process read, and what was told last.
#[derive(Default)]
pub(crate) struct Variables(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    /// By source. One that has not said it yet may read what no other one does.
    providers: BTreeMap<String, Option<Known>>,
    told: Option<String>,
}

impl Variables {
    /// Of providers of which none has said anything.
    pub(crate) fn of(configs: &[ProviderConfig]) -> Self {
        let providers = configs.iter().map(|config| (config.label(), None)).collect();
        Self(Mutex::new(Heard { providers, told: None }))
    }

    /// One of them says what it reads. As soon as all have, the log tells what nobody reads, and again when that is something else.
    pub(crate) fn hear(&self, config: &ProviderConfig, descriptor: &Descriptor) {
        if let Some(told) = self.news(config, descriptor, &set_here()) {
            tracing::warn!(
                variables = told,
                "environment variables are granted or set, and no provider reads them; {}",
                crate::preflight::UNREAD
            );
        }
    }

    /// What was told last.
    #[cfg(test)]
    pub(crate) fn told(&self) -> Option<String> {
        self.0.lock().told.clone()
    }

    fn news(&self, config: &ProviderConfig, descriptor: &Descriptor, set: &BTreeSet<String>) -> Option<String> {
        let mut guard = self.0.lock();
        let Heard { providers, told } = &mut *guard;
        let known = providers.get_mut(&config.label())?.insert(Known::default());
        known.add(config, descriptor);
        let mut all = Known::default();
        for one in providers.values() {
            let Known { granted, read } = one.as_ref()?;
            all.granted.extend(granted.iter().cloned());
            all.read.extend(read.iter().cloned());
        }
        let unread = all.unread(set);
        let is_news = unread != *told;
        told.clone_from(&unread);
        unread.filter(|_| is_news)
    }
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Credential, Endpoint, Setting, Source, TlsSources, ValueKind, is_plain};

    use super::*;
    use crate::config::ProviderRecord;

    fn of(name: &str) -> Source {
        Source { keys: vec![], environment_variables: vec![name.to_owned()] }
    }

    /// It reads REGION, DO_CLUSTER_ID, DO_URL, DO_CA and DO_TOKEN.
    fn descriptor() -> Descriptor {
        let setting = |name: &str| Setting {
            name: name.to_lowercase(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: None,
            allowed: vec![],
            value: of(name),
        };
        let endpoint = Endpoint {
            name: "api".to_owned(),
            purpose: String::new(),
            base_url: of("DO_URL"),
            default_base_url: None,
            tls: Some(TlsSources { ca_file: of("DO_CA"), ..TlsSources::default() }),
        };
        let value = of("DO_TOKEN");
        let (name, purpose, uses) = ("token".to_owned(), String::new(), vec![]);
        Descriptor {
            endpoints: vec![endpoint],
            credentials: vec![Credential { name, purpose, required: true, value, uses }],
            settings: ["REGION", "DO_CLUSTER_ID"].map(setting).to_vec(),
            ..Descriptor::default()
        }
    }

    fn config(source: &str, granted: &[&str]) -> ProviderConfig {
        let mut record = ProviderRecord { source: source.to_owned(), ..ProviderRecord::default() };
        record.grants.allow_env = granted.iter().map(|&name| name.to_owned()).collect();
        record.check().unwrap()
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    /// The provider went without it, and nobody learned why.
    #[test]
    fn a_variable_that_is_granted_or_looks_like_one_that_is_read_is_told_with_the_one_that_was_meant() {
        let unread = |granted: &[&str], set: &[&str]| {
            let mut known = Known::default();
            known.add(&config("a.wasm", granted), &descriptor());
            known.unread(&names(set)).unwrap_or_default()
        };
        let of_others = ["PATH", "HOME", "HTTP_PROXY", "KUBERNETES_SERVICE_HOST", "DO_SOMETHING_ELSE"];
        let region = "REGOIN (did you mean REGION?)";
        let cluster = "DO_CLUSTERID (did you mean DO_CLUSTER_ID?)";
        for (granted, set, told) in [
            // What is read, granted or not, and what is for others.
            (&["REGION", "DO_*", "HTTPS_PROXY", "no_proxy"][..], &["REGION", "DO_CLUSTER_ID", "DO_CA"][..], ""),
            (&[], &["REGION", "DO_URL", "DO_TOKEN"], ""),
            (&[], &of_others, ""),
            // Granted under another name, set or not.
            (&["REGOIN"], &[], region),
            (&["REGOIN"], &["REGOIN"], region),
            (&["region"], &[], "region (did you mean REGION?)"),
            (&["HTTP_PROXY"], &[], "HTTP_PROXY (did you mean HTTPS_PROXY?)"),
            // Set under another name, granted by a pattern or not at all.
            (
                &["REGION", "DO_*"],
                &["REGOIN", "DO_CLUSTERID"],
                "DO_CLUSTERID (did you mean DO_CLUSTER_ID?), REGOIN (did you mean REGION?)",
            ),
            (&["DO_*"], &["DO_CLUSTERID"], cluster),
            // Like none, and yet granted: the operator believes that somebody reads it.
            (&["DO_*"], &["DO_SOMETHING_ELSE", "DO_CLUSTERID"], &format!("{cluster}, DO_SOMETHING_ELSE")),
            (&["COLOUR"], &[], "COLOUR"),
            (&["D0_*", "X*", "HTTPS*"], &[], "D0_* (did you mean DO_*?), X*"),
            // What counts already was not meant.
            (&["REGION", "REGIONS"], &["REGION", "REGIONS"], "REGIONS"),
            (&["REGION"], &["REGION", "REGIONS"], ""),
        ] {
            assert_eq!(unread(granted, set), told, "{granted:?} {set:?}");
        }

        let many: Vec<String> =
            (0..20).map(|number| format!("COLOUR_{number}\n\u{1b}{}", "x".repeat(1 << 16))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let told = unread(&["COLOUR_*"], &many);
        assert!(told.len() < 700 && told.ends_with(", 13 more") && told.chars().all(is_plain), "{told:.900}");
    }

    #[test]
    fn the_variable_of_a_credential_that_the_operator_names_is_known() {
        let mut record = ProviderRecord { source: "a.wasm".to_owned(), ..ProviderRecord::default() };
        record.credentials = [("token".to_owned(), "env:PATH".to_owned())].into();
        record.grants.allow_env = vec!["PATH".to_owned()];
        let mut known = Known::default();
        known.add(&record.check().unwrap(), &descriptor());
        assert_eq!(known.unread(&names(&["PATH"])), None);
    }

    #[test]
    fn what_one_provider_of_the_process_reads_is_told_of_none_and_nothing_is_told_before_all_are_known() {
        let both = [config("a.wasm", &["REGION", "COLOUR", "SIZE"]), config("b.wasm", &["REGION", "COLOUR", "SIZE"])];
        let variables = Variables::of(&both);
        let set = names(&["REGION", "COLOUR"]);
        let mut other = Descriptor { settings: descriptor().settings, ..Descriptor::default() };
        other.settings[0].value = of("COLOUR");
        assert_eq!(variables.news(&both[0], &descriptor(), &set), None, "the other one may read them");
        assert_eq!(variables.news(&both[0], &descriptor(), &set), None);
        assert_eq!(variables.news(&both[1], &other, &set).as_deref(), Some("SIZE"));
        // Each look at a component that waits for its cloud.
        assert_eq!(variables.news(&both[1], &other, &set), None, "once");
        other.settings[0].value = of("COLOURS");
        let told = variables.news(&both[1], &other, &set);
        assert_eq!(
            told.as_deref(),
            Some("COLOUR (did you mean COLOURS?), SIZE"),
            "another component reads another one"
        );
        assert_eq!(Variables::default().news(&both[0], &descriptor(), &names(&["REGOIN"])), None, "nobody is told");
    }
}
