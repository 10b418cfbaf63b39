//! Which object is asked about.

use std::fmt;

/// Longest name of an object.
const MAX_NAME: usize = 253;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A Service.
    Service { namespace: String, name: String },
    /// A Node.
    Node { name: String },
}

impl Target {
    /// As in `explain service default/web` and `explain node n1`; `kubectl`'s other words for the kinds are understood.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub(crate) fn parse(kind: &str, name: &str) -> Result<Self, String> {
        match kind {
            "service" | "services" | "svc" => {
                let Some((namespace, name)) = name.split_once('/') else {
                    return Err(format!("{name:?} names no namespace: say NAMESPACE/NAME, such as default/{name}"));
                };
                Ok(Self::Service { namespace: valid(namespace)?, name: valid(name)? })
            }
            "node" | "nodes" | "no" => Ok(Self::Node { name: valid(name)? }),
            _ => Err(format!("{kind:?} is no kind that this explains: say service NAMESPACE/NAME, or node NAME")),
        }
    }

    /// As in the path of the page, after its prefix.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub(super) fn of_path(path: &str) -> Result<Self, String> {
        let (kind, name) = path.split_once('/').unwrap_or((path, ""));
        let known = matches!(kind, "service" | "node");
        let target = if known { Self::parse(kind, name) } else { Err(String::new()) };
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
    pub(super) const fn kind(&self) -> &'static str {
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

    pub(super) fn name(&self) -> &str {
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
        false => Err(format!("{name:?} is no name of an object: small letters, digits, '-' and '.' only")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let web = Target::Service { namespace: "default".into(), name: "web".into() };
        let n1 = Target::Node { name: "n1.example".into() };
        for (kind, name, target) in [
            ("service", "default/web", &web),
            ("svc", "default/web", &web),
            ("node", "n1.example", &n1),
            ("nodes", "n1.example", &n1),
        ] {
            assert_eq!(Target::parse(kind, name).as_ref(), Ok(target), "{kind} {name}");
            assert_eq!(Target::of_path(&target.path()).as_ref(), Ok(target));
        }
        assert_eq!((web.to_string().as_str(), n1.to_string().as_str()), ("service default/web", "node n1.example"));
    }

    #[test]
    fn what_names_no_object_is_told_with_what_would_be_right() {
        for (kind, name, part) in [
            ("service", "web", "say NAMESPACE/NAME, such as default/web"),
            ("service", "default/", "\"\" is no name of an object"),
            ("service", "default/web/status", "\"web/status\" is no name"),
            ("node", "../secrets", "is no name of an object"),
            ("node", "n1?x=y", "is no name of an object"),
            ("node", &"n".repeat(254), "is no name of an object"),
            ("pod", "default/web", "say service NAMESPACE/NAME, or node NAME"),
        ] {
            let error = Target::parse(kind, name).unwrap_err();
            assert!(error.contains(part), "{kind} {name}: {error}");
        }
    }
}
