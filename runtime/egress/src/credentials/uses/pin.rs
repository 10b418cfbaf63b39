//! What a component may do with the operator's secrets, once the first one was taken: no later one may do more. Nor may it mark a dry run in
//! another way, with which it could do more to the cloud than the first one where no change is allowed.
//!
//! What counts is the secret and not its name: a component gives credentials their names, says which key of the
//! configuration each one is, and where the endpoints are that get them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{ConfigFile, Credential, CredentialUse, Descriptor, Endpoint, Place, Setting, Source, TlsSources};
use url::Url;

use super::tell;
use crate::config_file::needs;
use crate::credentials::CredentialSource;
use crate::effect::DryRun;
use crate::one_line::line;

/// Longest mark of a dry run in a message, in bytes.
const MAX_MARK: usize = 64;

/// A component, as far as credentials are concerned, and where their values came from.
pub(crate) struct Pin {
    descriptor: Descriptor,
    values: BTreeMap<String, ValueFrom>,
    /// Where the component's own sources led to is not known.
    is_declared_only: bool,
}

/// Where the value of a credential came from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ValueFrom {
    /// The operator named its place.
    Operator,
    /// The component named a key of a file, or a variable: how it is shown, and what tells it from others.
    Configuration(String, Vec<String>),
}

impl Pin {
    /// `by_hand` are the credentials whose places the operator named.
    #[must_use]
    pub(crate) fn new(
        descriptor: &Descriptor,
        sources: &BTreeMap<String, CredentialSource>,
        by_hand: impl Fn(&str) -> bool,
    ) -> Self {
        let value = |(name, source): (&String, &CredentialSource)| {
            let from = if by_hand(name) {
                ValueFrom::Operator
            } else {
                ValueFrom::Configuration(source.to_string(), source.place())
            };
            (name.clone(), from)
        };
        Self { descriptor: descriptor.clone(), values: sources.iter().map(value).collect(), is_declared_only: false }
    }

    /// What a component declares, before anything of the configuration was read for it.
    #[must_use]
    pub(crate) fn declared(descriptor: &Descriptor, by_hand: impl Fn(&str) -> bool) -> Self {
        let given = descriptor.credentials.iter().filter(|credential| by_hand(&credential.name));
        let values = given.map(|credential| (credential.name.clone(), ValueFrom::Operator)).collect();
        Self { descriptor: descriptor.clone(), values, is_declared_only: true }
    }

    /// Whether `other` is the same component, of which more is known.
    #[must_use]
    pub(crate) fn is_told_by(&self, other: &Self) -> bool {
        self.is_declared_only && !other.is_declared_only && self.descriptor == other.descriptor
    }

    /// Name of the provider.
    pub(crate) fn provider(&self) -> &str {
        &self.descriptor.name
    }

    /// What `new` may do with credentials, or call a read, that this one may not, in words. `is_given` are the endpoints whose base URLs the
    /// operator named: there the word of a component does not count.
    #[must_use]
    pub(crate) fn widened(&self, new: &Self, is_given: impl Fn(&str) -> bool) -> Vec<String> {
        let mut wider = Vec::new();
        for credential in &new.descriptor.credentials {
            wider.extend(self.more_uses(new, credential));
        }
        let used = new.descriptor.credentials.iter().flat_map(|credential| &credential.uses);
        let used: BTreeSet<&str> = used.map(|used| used.endpoint.as_str()).collect();
        for endpoint in new.descriptor.endpoints.iter().filter(|endpoint| used.contains(endpoint.name.as_str())) {
            let name = &endpoint.name;
            let why = match self.descriptor.endpoints.iter().find(|before| before.name == *name) {
                Some(before) => self.elsewhere(before, new, endpoint, is_given(name)).map(|why| format!("has {why}")),
                // Most uses there are told already, but not those of a credential that the operator gives by a new name.
                None => {
                    let known = format!("endpoint {name:?}");
                    (!wider.iter().any(|told| told.contains(&known))).then(|| "was not there before".to_owned())
                }
            };
            if let Some(why) = why {
                wider.push(format!("credentials at the endpoint {name:?}, which {why},"));
            }
        }
        let (before, mark) = (DryRun::declared(&self.descriptor), DryRun::declared(&new.descriptor));
        if let Some(mark) = mark.filter(|mark| before.as_ref() != Some(mark)) {
            let mark = line(mark.member(), MAX_MARK);
            wider.push(format!(
                "the member \"{mark}\" as the mark of a dry run, with which a PUT counts as a read when the cloud judges a Service,"
            ));
        }
        wider
    }

    fn more_uses(&self, new: &Self, credential: &Credential) -> Vec<String> {
        let name = &credential.name;
        let value = new.values.get(name);
        let known = self.descriptor.credentials.iter().any(|before| before.name == *name);
        match value {
            // On purpose.
            Some(ValueFrom::Operator) if !known => return Vec::new(),
            // Nobody gave it a value, but an answer may: a token of the cloud is as good as what it was got with.
            None if !known => {
                let uses = credential.uses.iter().map(tell);
                return uses
                    .map(|used| format!("the new credential {name:?}, which answers may give, in {used}"))
                    .collect();
            }
            Some(_) | None => {}
        }
        // Under whatever names this secret was known.
        let before = self.descriptor.credentials.iter().filter(|before| self.is_same(before, new, credential));
        let before: Vec<&Credential> = before.collect();
        if before.is_empty() {
            let from = match value {
                Some(ValueFrom::Configuration(shown, _)) => shown,
                Some(ValueFrom::Operator) | None => "elsewhere",
            };
            return vec![format!("credential {name:?} with a value that it did not have before ({from})")];
        }
        let leaves = !signs(credential);
        // A key for signing never left itself: a use of its signatures allows none of the key.
        let covered = |used: &CredentialUse| {
            before
                .iter()
                .any(|before| !(leaves && signs(before)) && before.uses.iter().any(|before| covers(before, used)))
        };
        let wider = credential.uses.iter().filter(|used| !covered(used));
        wider.map(|used| format!("credential {name:?} in {}", tell(used))).collect()
    }

    /// Whether `before` had the value that `credential` of `new` has.
    fn is_same(&self, before: &Credential, new: &Self, credential: &Credential) -> bool {
        match (self.values.get(&before.name), new.values.get(&credential.name)) {
            (Some(ValueFrom::Configuration(_, old)), Some(ValueFrom::Configuration(_, new))) if old == new => true,
            // The operator's word is the same for both; without one, and without a value, only an answer can give one.
            (Some(ValueFrom::Operator), Some(ValueFrom::Operator)) | (_, None) => before.name == credential.name,
            // The operator may move a value, or give the first one, where the components say the same.
            _ => before.name == credential.name && self.says_the_same(&before.value, new, &credential.value),
        }
    }

    /// Whether a source leads to the same place in the same configuration, whatever that says.
    fn says_the_same(&self, before: &Source, new: &Self, source: &Source) -> bool {
        if before != source {
            return false;
        }
        let mut waiting = vec![source.clone()];
        let mut seen = BTreeSet::new();
        while let Some(source) = waiting.pop() {
            for name in source.keys.iter().filter_map(|key| key.split_once(':')).map(|(file, _)| file) {
                let (old, new) = (file(&self.descriptor, name), file(&new.descriptor, name));
                if old != new {
                    return false;
                }
                if let Some((_, file)) = new.filter(|_| seen.insert(format!("file {name}"))) {
                    waiting.push(Source { keys: file.path_keys.clone(), environment_variables: vec![] });
                }
            }
            for name in needs(&source) {
                let (old, new) = (setting(&self.descriptor, &name), setting(&new.descriptor, &name));
                let said = |setting: &Setting| (setting.kind, setting.default.clone(), setting.value.clone());
                if old.map(said) != new.map(said) {
                    return false;
                }
                if let Some(setting) = new.filter(|_| seen.insert(format!("setting {name}"))) {
                    waiting.push(setting.value.clone());
                }
            }
        }
        true
    }

    /// What makes an endpoint another one.
    fn elsewhere(&self, before: &Endpoint, new: &Self, endpoint: &Endpoint, is_given: bool) -> Option<&'static str> {
        if !is_given {
            if !self.says_the_same(&before.base_url, new, &endpoint.base_url) {
                return Some("another source of its base URL");
            }
            let place = |endpoint: &Endpoint| {
                endpoint.default_base_url.as_ref().map(|url| Url::parse(url).map(|url| url.origin()).ok())
            };
            // Without a default nothing is sent.
            if endpoint.default_base_url.is_some() && place(before) != place(endpoint) {
                return Some("another default host");
            }
        }
        let sources = |endpoint: &Endpoint| {
            let of = |pick: fn(&TlsSources) -> &Source| endpoint.tls.as_ref().map(pick).cloned().unwrap_or_default();
            let authorities = [of(|tls| &tls.ca_file), of(|tls| &tls.ca_certificates)];
            authorities.into_iter().chain([of(|tls| &tls.verify), of(|tls| &tls.skip_verification)])
        };
        let trusts_the_same = |(before, source): (&Source, &Source)| self.says_the_same(before, new, source);
        let pairs: Vec<(Source, Source)> = sources(before).zip(sources(endpoint)).collect();
        (!pairs.iter().all(|(before, after)| trusts_the_same((before, after))))
            .then_some("other rules of whom it trusts")
    }
}

/// The file of that name, and whether it is the cloud-config, which is the first.
fn file<'a>(descriptor: &'a Descriptor, name: &str) -> Option<(bool, &'a ConfigFile)> {
    let at = descriptor.files.iter().position(|file| file.name == name)?;
    Some((at == 0, descriptor.files.get(at)?))
}

fn setting<'a>(descriptor: &'a Descriptor, name: &str) -> Option<&'a Setting> {
    descriptor.settings.iter().find(|setting| setting.name == name)
}

fn signs(credential: &Credential) -> bool {
    credential.uses.iter().any(|used| used.place == Place::Signing)
}

fn covers(old: &CredentialUse, new: &CredentialUse) -> bool {
    let same = match (&old.place, &new.place) {
        (Place::Header(old), Place::Header(new)) => old.eq_ignore_ascii_case(new),
        (old, new) => old == new,
    };
    old.endpoint == new.endpoint && same && (old.path.is_none() || old.path == new.path)
}
