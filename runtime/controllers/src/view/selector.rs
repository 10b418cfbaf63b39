//! Label selectors as text, with the grammar and the meaning that kubectl's `-l` has.
//!
//! `kube` can match selectors and not read them; its own also lack `>` and `<`.

use std::collections::BTreeSet;

use ccm_cloud::NodeSelector;
use kube::runtime::reflector::Store;

use super::node::{is_ready, provider_id};
use crate::store::{FirstList, Node, Pairs};

/// Answers selectors from the store of Nodes.
pub struct NodeLabels {
    store: Store<Node>,
    first_list: FirstList,
}

impl NodeLabels {
    /// Over the Nodes of a reflector.
    #[must_use]
    pub const fn new(store: Store<Node>, first_list: FirstList) -> Self {
        Self { store, first_list }
    }
}

impl NodeSelector for NodeLabels {
    fn matching(&self, selector: &str) -> Result<Vec<String>, String> {
        let selector = Selector::parse(selector)?;
        self.first_list.state()?;
        let nodes = self.store.state();
        let mut names: Vec<String> =
            nodes.iter().filter(|node| selector.matches(&node.labels)).map(|node| node.name_any()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn provider_ids(&self, prefixes: &[String], most: usize) -> Result<Vec<String>, String> {
        self.first_list.state()?;
        let is_own = |id: &str| prefixes.iter().any(|prefix| id.starts_with(prefix.as_str()));
        let mut nodes = self.store.state();
        nodes.retain(|node| provider_id(node).is_some_and(is_own));
        nodes.sort_by_cached_key(|node| (!is_ready(node), node.name_any()));
        Ok(nodes.iter().filter_map(|node| provider_id(node)).take(most).map(str::to_owned).collect())
    }
}

/// All of them must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Also where there is no such label.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// Longest selector, in bytes.
const MAX_SELECTOR: usize = 8 << 10;
/// Most requirements of a selector. Each is tried on every Node, in time that is nobody's turn; those that people write have
/// less than ten.
const MAX_REQUIREMENTS: usize = 64;

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_SELECTOR {
            return Err(format!("the label selector has more than {MAX_SELECTOR} bytes"));
        }
        if split(text).nth(MAX_REQUIREMENTS).is_some() {
            return Err(format!("the label selector has more than {MAX_REQUIREMENTS} requirements"));
        }
        let requirements = split(text).map(Requirement::parse).collect::<Result<_, String>>();
        Ok(Self(requirements.map_err(|why| format!("label selector {text:?}: {why}"))?))
    }

    pub(crate) fn matches(&self, labels: &Pairs) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

/// At commas outside parentheses; nothing for an empty text.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let pieces = text.split(move |c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    pieces.take(if text.trim().is_empty() { 0 } else { usize::MAX })
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(key) = text.strip_prefix('!') {
            return Ok(Self { key: checked_key(key)?, test: Test::Absent });
        }
        let end = text.find(|c: char| c.is_whitespace() || "=!<>(".contains(c)).unwrap_or(text.len());
        let (key, rest) = text.split_at(end);
        let key = checked_key(key)?;
        let rest = rest.trim();
        if rest.is_empty() {
            return Ok(Self { key, test: Test::Exists });
        }
        let one = |value: &str| Ok::<_, String>(BTreeSet::from([checked_value(value)?]));
        // The longer operators first.
        let test = if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            Test::In(one(value)?)
        } else if let Some(value) = rest.strip_prefix("!=") {
            Test::NotIn(one(value)?)
        } else if let Some(value) = rest.strip_prefix('>') {
            Test::Above(integer(value)?)
        } else if let Some(value) = rest.strip_prefix('<') {
            Test::Below(integer(value)?)
        } else if let Some(values) = rest.strip_prefix("notin") {
            Test::NotIn(set(values)?)
        } else if let Some(values) = rest.strip_prefix("in") {
            Test::In(set(values)?)
        } else {
            return Err(format!("{rest:?} is no operator; there are =, ==, !=, in (…), notin (…), > and <"));
        };
        Ok(Self { key, test })
    }

    fn matches(&self, labels: &Pairs) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn set(text: &str) -> Result<BTreeSet<String>, String> {
    let inside = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inside = inside.ok_or_else(|| format!("{text:?} is no list of values in parentheses"))?;
    inside.split(',').map(checked_value).collect()
}

fn integer(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_not_a_number| format!("{:?} is no whole number", text.trim()))
}

/// A qualified name: an optional DNS subdomain, a slash, and a name.
fn checked_key(key: &str) -> Result<String, String> {
    let key = key.trim();
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_domain = |prefix: &str| {
        (1..=253).contains(&prefix.len())
            && prefix.split('.').all(|label| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            })
    };
    if name.is_empty() || !is_name(name) || !prefix.is_none_or(is_domain) {
        return Err(format!("{key:?} is no name of a label"));
    }
    Ok(key.to_owned())
}

fn checked_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() || is_name(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("{value:?} is no value of a label"))
    }
}

fn is_name(text: &str) -> bool {
    let is_edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts about `labels.Parse` and `Requirement.Matches` of Kubernetes.
    #[test]
    fn selectors_mean_what_kubectl_means_by_them() {
        let cases = [
            ("", true),
            ("  ", true),
            ("pool=web", true),
            ("pool == web", true),
            ("pool=db", false),
            ("pool!=db", true),
            ("absent!=db", true),
            ("pool", true),
            ("absent", false),
            ("!absent", true),
            ("! pool", false),
            ("pool in (web, db)", true),
            ("pool in (db)", false),
            ("pool notin (db)", true),
            ("absent notin (web)", true),
            ("absent in ()", false),
            ("empty in ()", true),
            ("empty=", true),
            ("cpus>3", true),
            ("cpus > 4", false),
            ("cpus<5", true),
            ("pool>1", false),
            ("absent<1", false),
            ("pool=web,cpus>3,!absent", true),
            ("pool in (web,db),cpus<2", false),
            ("node.kubernetes.io/role=worker", true),
            ("in=x", false),
            ("notin", false),
        ];
        let node = [("pool", "web"), ("cpus", "4"), ("empty", ""), ("node.kubernetes.io/role", "worker")];
        let node = node.into_iter().collect();
        for (selector, matches) in cases {
            assert_eq!(Selector::parse(selector).unwrap().matches(&node), matches, "{selector:?}");
        }
    }

    #[test]
    fn nodes_are_told_by_name_in_order_and_only_once_they_are_all_known() {
        let mut writer = kube::runtime::reflector::store::Writer::<Node>::default();
        for (name, pool) in [("b", "web"), ("a", "web"), ("c", "db")] {
            let node = crate::testing::node(name).label("pool", pool).object();
            writer.apply_watcher_event(&kube::runtime::watcher::Event::Apply(node));
        }
        let nodes = NodeLabels::new(writer.as_reader(), FirstList::there());
        assert_eq!(nodes.matching("pool=web"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(nodes.matching("").map(|all| all.len()), Ok(3));
        assert!(nodes.matching("pool=").is_ok_and(|none| none.is_empty()));
        assert!(nodes.matching("=").is_err());
    }

    #[test]
    fn provider_ids_begin_as_asked_and_those_of_nodes_that_are_ready_come_first() {
        let mut writer = kube::runtime::reflector::store::Writer::<Node>::default();
        let ids = [("d", "do://4"), ("a", "do://1"), ("b", "do://2"), ("c", "other://3"), ("e", "old://5")];
        for (name, id) in ids {
            let node = crate::testing::node(name).provider_id(id).ready(if name == "a" { "False" } else { "True" });
            writer.apply_watcher_event(&kube::runtime::watcher::Event::Apply(node.object()));
        }
        let unnamed = crate::testing::node("f").object();
        writer.apply_watcher_event(&kube::runtime::watcher::Event::Apply(unnamed));
        let nodes = NodeLabels::new(writer.as_reader(), FirstList::there());
        let told = |prefixes: &[&str], most| {
            nodes.provider_ids(&prefixes.iter().map(|&prefix| prefix.to_owned()).collect::<Vec<_>>(), most).unwrap()
        };
        assert_eq!(told(&["do://", "old://"], 10), ["do://2", "do://4", "old://5", "do://1"]);
        assert_eq!(told(&["do://"], 2), ["do://2", "do://4"]);
        assert_eq!(told(&[], 10), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_it() {
        let cases = [
            "=web",
            ",",
            "a,",
            "a in",
            "a in (b",
            "a in b",
            "a ~ b",
            "a=b c",
            "a>x",
            "A/b/c",
            "UPPER.example/x",
            "-a",
            "a=-b",
            "!",
        ];
        for selector in cases {
            let error = Selector::parse(selector).unwrap_err();
            assert!(error.contains(&format!("{selector:?}")), "{error}");
        }
        assert!(Selector::parse(&"a,".repeat(10_000)).is_err());
    }

    #[test]
    fn a_selector_has_so_many_requirements() {
        let selector = |count: usize| vec!["a"; count].join(",");
        assert!(Selector::parse(&selector(64)).is_ok());
        let error = Selector::parse(&selector(65)).unwrap_err();
        assert_eq!(error, "the label selector has more than 64 requirements");
        // The values of one are no requirements; they are found in a tree.
        assert!(Selector::parse(&format!("a in ({})", vec!["b"; 100].join(","))).is_ok());
    }
}
