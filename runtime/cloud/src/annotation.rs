//! An annotation that a provider declares, and whether it is the provider's own to declare.

use serde::Serialize;

use crate::ValueKind;

/// Domains of Kubernetes and of the host, with all below them.
const RESERVED: [&str; 3] = ["kubernetes.io", "k8s.io", "wasm-ccm.io"];
/// Domains of Kubernetes in which each cloud has its own names, which begin with a word for the cloud: `do-loadbalancer-name`.
const OF_CLOUDS: [&str; 2] = ["service.beta.kubernetes.io", "service.kubernetes.io"];
/// Clouds whose word there is not their name. Others need a grant for such a word.
const SHORT_WORDS: [(&str, &str); 1] = [("digitalocean", "do")];
/// How names begin in there that are of no cloud, whatever a provider calls itself.
const OF_NO_CLOUD: [&str; 6] = ["external", "healthcheck", "load", "service", "topology", "traffic"];
/// Names of Kubernetes that every provider may read: they are for whoever makes the load balancer, or finds the machine.
const FOR_ALL: [&str; 2] =
    ["service.beta.kubernetes.io/load-balancer-source-ranges", "alpha.kubernetes.io/provided-node-ip"];

/// An annotation that the provider reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    /// May end in `*`.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// What its value looks like.
    pub kind: ValueKind,
    /// What counts without it.
    pub default: Option<String>,
    /// Its only values, when not empty.
    pub allowed: Vec<String>,
    /// Who writes it.
    pub role: AnnotationRole,
}

/// Who writes an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnnotationRole {
    /// People, to ask for something.
    Asked,
    /// The provider. What it says is no part of what a Service asks for.
    Written,
    /// People, to ask for something, and the provider, to say what it became.
    Both,
}

impl Annotation {
    /// Whether the provider writes it.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        matches!(self.role, AnnotationRole::Written | AnnotationRole::Both)
    }

    /// Whether it is part of what a Service asks for.
    #[must_use]
    pub const fn is_asked(&self) -> bool {
        matches!(self.role, AnnotationRole::Asked | AnnotationRole::Both)
    }

    /// Whether an annotation called `name` is this one.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == self.name,
        }
    }

    /// Whether the provider called `provider` may declare it without a grant. A name is its own when its domain has the provider's name
    /// as a label (`kubernetes.digitalocean.com`), and the domain is not Kubernetes' or the host's. In the domains where Kubernetes leaves
    /// each cloud a prefix, whatever begins with the provider's prefix is its own as well.
    #[must_use]
    pub fn is_own(&self, provider: &str) -> bool {
        let (fixed, is_prefix) = match self.name.strip_suffix('*') {
            Some(fixed) => (fixed, true),
            None => (self.name.as_str(), false),
        };
        let Some((domain, rest)) = fixed.split_once('/') else { return false };
        if OF_CLOUDS.contains(&domain) && has_word(rest, provider) {
            return true;
        }
        if FOR_ALL.contains(&fixed) && !is_prefix && !self.is_written() {
            return true;
        }
        let domain = domain.to_ascii_lowercase();
        let is_reserved = RESERVED.iter().any(|one| is_within(&domain, one));
        !is_reserved && has_label(&domain, provider)
    }

    /// Whether it is the provider's own by the prefix of its cloud: in a domain of Kubernetes, the word of a component for its own name is
    /// not enough.
    #[must_use]
    pub fn is_own_by_prefix(&self, provider: &str) -> bool {
        let name = self.name.strip_suffix('*').unwrap_or(&self.name);
        name.split_once('/').is_some_and(|(domain, rest)| OF_CLOUDS.contains(&domain) && has_word(rest, provider))
    }

    /// Whether this declaration lets a provider do all that `other` would.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        includes(&self.name, &other.name) && (self.is_written() || !other.is_written())
    }
}

/// Whether the names of `other` are among those of `pattern`; both may end in `*`.
#[must_use]
pub(crate) fn includes(pattern: &str, other: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => other.strip_suffix('*').unwrap_or(other).starts_with(prefix),
        None => pattern == other,
    }
}

/// Which annotations the operator grants a provider besides its own, or how their names begin: `example.com/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationGrant(String);

impl AnnotationGrant {
    /// Reads the name of an annotation, or a prefix with a whole domain and `*` behind it.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fixed = text.strip_suffix('*').unwrap_or(text);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        let has_domain = fixed.split_once('/').is_some_and(|(domain, rest)| !domain.is_empty() && !rest.contains('/'));
        let is_whole = if fixed == text { has_domain || !fixed.contains('/') } else { has_domain };
        if fixed.is_empty() || !fixed.bytes().all(is_name) || !is_whole {
            return Err(format!(
                "{text:?} is neither the name of an annotation nor a domain with what its names begin with, as in example.com/*"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether a declaration of this name is granted.
    #[must_use]
    pub fn covers(&self, declared: &str) -> bool {
        includes(&self.0, declared)
    }
}

/// Whether a name in a domain of clouds begins with the provider's word.
fn has_word(name: &str, provider: &str) -> bool {
    let short = SHORT_WORDS.iter().find(|(long, _)| *long == provider).map(|(_, word)| *word);
    let begins = |word: &str| {
        let is_word = word.len() >= 2 && !OF_NO_CLOUD.contains(&word.split('-').next().unwrap_or_default());
        is_word && name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))
    };
    begins(provider) || short.is_some_and(begins)
}

fn is_within(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether one of the labels is the provider's name. The last one is everybody's: a provider called `io` owns no domain.
fn has_label(domain: &str, provider: &str) -> bool {
    let mut labels = domain.rsplit('.');
    let is_qualified = labels.next().is_some_and(|last| last.len() != domain.len());
    is_qualified && !provider.is_empty() && labels.any(|label| label == provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(name: &str, role: AnnotationRole) -> Annotation {
        let (name, purpose, kind) = (name.to_owned(), String::new(), ValueKind::Text);
        Annotation { name, purpose, kind, default: None, allowed: vec![], role }
    }

    #[test]
    fn a_provider_declares_names_of_its_own_domain_and_of_its_prefix_and_no_others() {
        use AnnotationRole::{Asked, Both, Written};
        for (name, role, is_own) in [
            ("kubernetes.digitalocean.com/load-balancer-id", Both, true),
            ("digitalocean.com/*", Both, true),
            ("service.beta.kubernetes.io/do-loadbalancer-name", Asked, true),
            ("service.beta.kubernetes.io/do-loadbalancer-*", Both, true),
            ("service.kubernetes.io/do-loadbalancer-disown", Asked, true),
            ("service.beta.kubernetes.io/load-balancer-source-ranges", Asked, true),
            ("alpha.kubernetes.io/provided-node-ip", Asked, true),
            ("alpha.kubernetes.io/provided-node-ip", Written, false),
            ("service.beta.kubernetes.io/load-balancer-source-ranges", Both, false),
            ("service.beta.kubernetes.io/digitalocean-size", Asked, true),
            ("service.beta.kubernetes.io/digitaloceanx-size", Asked, false),
            ("service.beta.kubernetes.io/aws-load-balancer-type", Asked, false),
            ("service.beta.kubernetes.io/azure-*", Asked, false),
            ("service.kubernetes.io/dox-size", Asked, false),
            ("service.beta.kubernetes.io/load-*", Asked, false),
            ("service.beta.kubernetes.io/*", Asked, false),
            ("service.beta.kubernetes.io/d*", Asked, false),
            ("service.beta.kubernetes.io/-*", Asked, false),
            ("service.beta.kubernetes.io/l-*", Asked, false),
            ("service.kubernetes.io/topology-mode", Asked, false),
            ("*", Asked, false),
            ("d*", Asked, false),
            ("digitalocean*", Asked, false),
            ("digitalocean.com", Asked, false),
            ("kubectl.kubernetes.io/last-applied-configuration", Asked, false),
            ("digitalocean.kubernetes.io/*", Asked, false),
            ("digitalocean.k8s.io/x", Asked, false),
            ("digitalocean.wasm-ccm.io/x", Asked, false),
            ("wasm-ccm.io/orphan", Written, false),
            ("cert-manager.io/*", Both, false),
            ("cert-manager.io/issuer", Asked, false),
            ("notdigitalocean.com/x", Asked, false),
            ("example.digitalocean/x", Asked, false),
        ] {
            assert_eq!(annotation(name, role).is_own("digitalocean"), is_own, "{name} {role:?}");
        }
        assert!(!annotation("example.io/*", Asked).is_own("io"), "the last label is everybody's");
        assert!(!annotation("kubernetes.io/*", Asked).is_own("kubernetes"), "whatever a provider calls itself");
        assert!(!annotation("Kubernetes.IO/*", Asked).is_own("kubernetes"));
        for (name, provider, is_own) in [
            ("service.beta.kubernetes.io/openstack-internal-load-balancer", "openstack", true),
            ("service.beta.kubernetes.io/do-loadbalancer-name", "openstack", false),
            ("service.beta.kubernetes.io/do-loadbalancer-name", "do", true),
            ("service.beta.kubernetes.io/load-balancer-name", "load", false),
            ("service.kubernetes.io/topology-mode", "topology", false),
            ("service.kubernetes.io/load-balancer-cleanup", "load-balancer", false),
            ("service.kubernetes.io/a-b", "a", false),
        ] {
            let annotation = annotation(name, Asked);
            assert_eq!(
                (annotation.is_own(provider), annotation.is_own_by_prefix(provider)),
                (is_own, is_own),
                "{name}"
            );
        }
        let for_all = annotation("service.beta.kubernetes.io/load-balancer-source-ranges", Asked);
        assert!(!for_all.is_own_by_prefix("digitalocean"), "whoever it is");
    }

    #[test]
    fn a_grant_covers_names_and_prefixes_and_never_all() {
        for (grant, declared, is_covered) in [
            ("example.com/*", "example.com/*", true),
            ("example.com/*", "example.com/size", true),
            ("example.com/lb-*", "example.com/lb-size", true),
            ("example.com/lb-*", "example.com/*", false),
            ("example.com/lb", "example.com/lb", true),
            ("example.com/lb", "example.com/lb*", false),
            ("size", "size", true),
        ] {
            assert_eq!(AnnotationGrant::parse(grant).unwrap().covers(declared), is_covered, "{grant} {declared}");
        }
        for bad in ["", "*", "e*", "example*", "/*", "/x", "a/b/c", "a/b/*", "exa mple.com/x", "ex*mple.com/x"] {
            let told = AnnotationGrant::parse(bad).unwrap_err();
            assert!(told.contains("as in example.com/*"), "{bad}: {told}");
        }
    }

    #[test]
    fn what_reads_does_not_write_and_a_part_is_not_the_whole() {
        use AnnotationRole::{Asked, Both};
        let (reads, writes) = (annotation("other.io/*", Asked), annotation("other.io/*", Both));
        assert!(writes.includes(&reads) && !reads.includes(&writes));
        assert!(reads.includes(&annotation("other.io/x", Asked)) && !annotation("other.io/x", Asked).includes(&reads));
    }
}
