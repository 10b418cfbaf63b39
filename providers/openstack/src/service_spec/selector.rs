//! The Node selector: which Nodes become members, by their labels.

use ccm_sdk::annotations::Reader;
use ccm_sdk::label::LabelValue;
use ccm_sdk::quoted;
use ccm_sdk::types::Problem;

use crate::annotations as names;

/// Which Nodes become members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    All,
    /// Those that a label selector of Kubernetes matches.
    Matching(String),
    /// It asks for labels that no Node can have, as the Kubernetes API takes none of them.
    Nobody,
}

impl Selector {
    /// Of the annotation, or else of the configuration.
    pub(super) fn read(reader: &mut Reader<'_>, default: &str) -> Self {
        let asked = reader.raw(names::NODE_SELECTOR);
        let (selector, odd) = Self::parse(asked.unwrap_or(default));
        if let Some(odd) = odd {
            let place = match asked {
                Some(_) => format!("annotation {}", names::NODE_SELECTOR),
                None => "node-selector in [LoadBalancer]".to_owned(),
            };
            let message =
                format!("{place} has {}, which no Node can have as a label: there are no members", quoted(odd));
            reader.problems.push(Problem::harmless(ccm_sdk::annotations::field(names::NODE_SELECTOR), message));
        }
        selector
    }

    /// `key=value,key`: the first `=` ends the key; a key alone, or with nothing behind it, says that the label is there. Beside it, the pair
    /// that no Node can have.
    pub(crate) fn parse(text: &str) -> (Self, Option<&str>) {
        let mut pairs = vec![];
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            if !is_key(key) || value.parse::<LabelValue>().is_err() {
                return (Self::Nobody, Some(pair));
            }
            pairs.push(if value.is_empty() { key.to_owned() } else { format!("{key}={value}") });
        }
        (if pairs.is_empty() { Self::All } else { Self::Matching(pairs.join(",")) }, None)
    }
}

/// Whether a label can have this name: an optional DNS subdomain, a slash, and a name.
fn is_key(key: &str) -> bool {
    let (domain, name) = key.rsplit_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(is_inside);
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(is_part);
    !name.is_empty() && name.parse::<LabelValue>().is_ok() && domain.is_none_or(is_domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_072_to_077_a_node_selector_is_one_of_kubernetes() {
        for (case, text, expected) in [
            ("os_072", "k1=v1,k2=v2", Some("k1=v1,k2=v2")),
            ("os_074", "k1,k2", Some("k1,k2")),
            ("os_075", " k1=v1, k2 ", Some("k1=v1,k2")),
            ("a value of nothing is a label that is there", "k1=,k2", Some("k1,k2")),
            ("an empty pair is none", "k1,,", Some("k1")),
            ("a key of a domain", "example.com/k1=v1", Some("example.com/k1=v1")),
            ("os_077", "", None),
            ("os_077", " , ", None),
        ] {
            let expected = expected.map_or(Selector::All, |text| Selector::Matching(text.to_owned()));
            assert_eq!(Selector::parse(text), (expected, None), "{case}");
        }
    }

    /// The first `=` ends the key, so that these have a value or a key that Kubernetes takes for no label.
    #[test]
    fn os_073_076_what_no_label_can_be_matches_nobody() {
        for (case, text, odd) in [
            ("os_073", "k1=v1,k2=v2=true", "k2=v2=true"),
            ("os_076", "k3=v3,=emptykey", "=emptykey"),
            ("a key with a blank", "a b", "a b"),
            ("a domain in capitals", "Example.com/a", "Example.com/a"),
            ("a name without a domain", "/a=b", "/a=b"),
            ("a set of values", "a in (b)", "a in (b)"),
            ("not equal", "a!=b", "a!=b"),
        ] {
            assert_eq!(Selector::parse(text), (Selector::Nobody, Some(odd)), "{case}");
        }
    }

    #[test]
    fn who_asks_for_what_no_node_can_have_is_told() {
        let annotations = |text: &str| vec![(names::NODE_SELECTOR.to_owned(), text.to_owned())];
        for (annotations, default, expected) in [
            (annotations("a=b=c"), "", Some("annotation loadbalancer.openstack.org/node-selector has \"a=b=c\"")),
            (vec![], "a=b=c", Some("node-selector in [LoadBalancer] has \"a=b=c\"")),
            (annotations(""), "a=b=c", None),
            (annotations("a=b"), "", None),
        ] {
            let mut reader = Reader::of(&annotations);
            Selector::read(&mut reader, default);
            let found: Vec<_> =
                reader.problems.iter().map(|problem| (problem.fatal, problem.message.as_str())).collect();
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(expected.is_none_or(|expected| !found[0].0 && found[0].1.starts_with(expected)), "{found:?}");
        }
    }
}
