//! Which object is asked about.

use std::fmt;

/// Longest name of an object.
const MAX_NAME: usize = 253;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Node.
    Node {
        /// Its name.
        name: String,
    },
}

/// An object as the command line names it: a Service may be without its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    kind: Kind,
    namespace: Option<String>,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Service,
    Node,
}

/// All words for the kinds, as `kubectl` has them.
const KINDS: [(&str, Kind); 6] = [
    ("service", Kind::Service),
    ("services", Kind::Service),
    ("svc", Kind::Service),
    ("node", Kind::Node),
    ("nodes", Kind::Node),
    ("no", Kind::Node),
];
/// What would be right.
const FORMS: &str = "say service NAME -n NAMESPACE, service NAMESPACE/NAME, or node NAME";

impl Wanted {
    /// As `kubectl` takes it: `service web`, `svc/web`, `Nodes n1`, with or without `-n NAMESPACE`, and `service shop/web`.
    ///
    /// A word that names nothing may be a secret whose flag was forgotten: it is not repeated.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn parse(words: &[String], namespace: Option<&str>) -> Result<Self, String> {
        let (kind, name) = match words {
            [kind, name] => (kind.as_str(), name.as_str()),
            [one] => {
                one.split_once('/').ok_or_else(|| format!("the one word that is no flag names no object: {FORMS}"))?
            }
            _ => return Err(format!("one object at a time: {FORMS}")),
        };
        if kind.contains('/') {
            return Err(format!("two words, the first with a '/' in it, name no object: one at a time; {FORMS}"));
        }
        let word = kind.to_lowercase();
        let known = KINDS.iter().find(|(known, _)| *known == word);
        let Some((_, kind)) = known else {
            let near = ccm_cloud::nearest(&word, KINDS.iter().map(|(known, _)| *known));
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            return Err(format!("the kind of the object is neither a Service nor a Node{near}: {FORMS}"));
        };
        let namespace = namespace.map(valid).transpose()?;
        let (within, name) = match (kind, name.split_once('/')) {
            (Kind::Service, Some((namespace, name))) => (Some(valid(namespace)?), valid(name)?),
            (Kind::Service, None) => (None, valid(name)?),
            // Nodes are in no namespace, and `kubectl` does not mind one either.
            (Kind::Node, _) => return Ok(Self { kind: Kind::Node, namespace: None, name: valid(name)? }),
        };
        match (&namespace, &within) {
            (Some(flag), Some(within)) if flag != within => {
                Err(format!("-n {flag} and {within}/{name} are two namespaces: say one of them"))
            }
            _ => Ok(Self { kind: Kind::Service, namespace: within.or(namespace), name }),
        }
    }

    /// The object; `here` is the namespace of the kubeconfig, which is meant where none is said.
    #[must_use]
    pub fn target(self, here: Option<&str>) -> Target {
        let Self { kind, namespace, name } = self;
        match kind {
            Kind::Node => Target::Node { name },
            Kind::Service => {
                let namespace = namespace.unwrap_or_else(|| here.unwrap_or("default").to_owned());
                Target::Service { namespace, name }
            }
        }
    }
}

impl Target {
    /// As in the path of the page, after its prefix.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub(super) fn of_path(path: &str) -> Result<Self, String> {
        let parts: Vec<&str> = path.split('/').collect();
        let target = match parts.as_slice() {
            ["service", namespace, name] => {
                valid(namespace).and_then(|namespace| Ok(Self::Service { namespace, name: valid(name)? }))
            }
            ["node", name] => valid(name).map(|name| Self::Node { name }),
            _ => Err(String::new()),
        };
        target.map_err(|_why| "try /explain/v1/service/NAMESPACE/NAME or /explain/v1/node/NAME".to_owned())
    }

    /// The path of the page, after its prefix.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Service { namespace, name } => format!("service/{namespace}/{name}"),
            Self::Node { name } => format!("node/{name}"),
        }
    }

    /// As Kubernetes calls the kind.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Service { .. } => "Service",
            Self::Node { .. } => "Node",
        }
    }

    /// As `kubectl get` takes them.
    pub(super) fn listing(&self) -> String {
        match self {
            Self::Service { namespace, .. } => format!("services -n {namespace}"),
            Self::Node { .. } => "nodes".to_owned(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Service { name, .. } | Self::Node { name } => name,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { namespace, name } => write!(f, "service {namespace}/{name}"),
            Self::Node { name } => write!(f, "node {name}"),
        }
    }
}

/// A name that can stand in a path. The rest of the rules is the API server's to tell.
fn valid(name: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let has_ends = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= MAX_NAME;
    match has_ends && name.chars().all(is_part) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "that is no name of an object: it has 1 to {MAX_NAME} small letters, digits, '-' and '.', and begins with none of the last two"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str], namespace: Option<&str>) -> Result<Target, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Wanted::parse(&words, namespace).map(|wanted| wanted.target(Some("here")))
    }

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let in_namespace = |namespace: &str| Target::Service { namespace: namespace.into(), name: "web".into() };
        let n1 = Target::Node { name: "n1.example".into() };
        for (words, namespace, target) in [
            (&["service", "shop/web"][..], None, in_namespace("shop")),
            (&["svc", "shop/web"], Some("shop"), in_namespace("shop")),
            (&["service", "web"], Some("shop"), in_namespace("shop")),
            (&["service/web"], Some("shop"), in_namespace("shop")),
            (&["Services/shop/web"], None, in_namespace("shop")),
            // As kubectl, in the namespace of the kubeconfig.
            (&["SVC", "web"], None, in_namespace("here")),
            (&["node", "n1.example"], None, n1.clone()),
            (&["no/n1.example"], Some("shop"), n1.clone()),
            (&["Nodes", "n1.example"], None, n1.clone()),
        ] {
            assert_eq!(wanted(words, namespace).as_ref(), Ok(&target), "{words:?} {namespace:?}");
            assert_eq!(Target::of_path(&target.path()).as_ref(), Ok(&target));
        }
        let web = in_namespace("shop");
        assert_eq!((web.to_string().as_str(), n1.to_string().as_str()), ("service shop/web", "node n1.example"));
    }

    #[test]
    fn what_names_no_object_is_told_with_what_would_be_right() {
        let long = "n".repeat(254);
        for (words, namespace, part) in [
            (&["service", "default/"][..], None, "that is no name of an object: it has 1 to 253"),
            (&["service", "default/web/status"], None, "that is no name of an object"),
            (&["service", "shop/web"], Some("other"), "-n other and shop/web are two namespaces"),
            (&["service", "web"], Some("a b"), "that is no name of an object"),
            (&["node", "../secrets"], None, "that is no name of an object"),
            (&["node", "n1?x=y"], None, "that is no name of an object"),
            (&["node", &long], None, "that is no name of an object"),
            (&["web"], None, "the one word that is no flag names no object: say service NAME -n NAMESPACE"),
            (&["pod", "default/web"], None, "the kind of the object is neither a Service nor a Node: say service NAME"),
            (&["node/n1", "node/n2"], None, "one at a time; say service NAME"),
            (&["servcie", "web"], None, "(did you mean service?)"),
            (&["service", "a", "b"], None, "one object at a time"),
        ] {
            let error = wanted(words, namespace).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
