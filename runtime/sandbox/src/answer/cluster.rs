//! What whole-cluster work has come to.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{ClusterSubject, Failure, Node, Service};
use ccm_egress::line;

use super::{Read, failure};
use crate::bindings::ccm::cloud::types;

/// Longest name that a complaint shows, in bytes.
const MAX_SHOWN: usize = 256;
/// Most failures about the same object.
const MAX_FAILURES: usize = 10;

/// The objects of a call.
pub(crate) struct Objects {
    nodes: BTreeSet<String>,
    services: BTreeSet<(String, String)>,
}

impl Objects {
    pub(crate) fn new(nodes: &[Node], services: &[Service]) -> Self {
        Self {
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            services: services.iter().map(|service| (service.namespace.clone(), service.name.clone())).collect(),
        }
    }

    fn has(&self, subject: &ClusterSubject) -> bool {
        match subject {
            ClusterSubject::Node(name) => self.nodes.contains(name),
            ClusterSubject::Service { namespace, name } => self.services.contains(&(namespace.clone(), name.clone())),
            ClusterSubject::Call | ClusterSubject::Provider => true,
        }
    }
}

/// A failure about something else would be told about an object that nobody knows.
pub(crate) fn cluster_failures(
    failures: Vec<(types::Subject, types::Failure)>,
    objects: &Objects,
) -> Read<Vec<(ClusterSubject, Failure)>> {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut read = vec![];
    for (about, why) in failures {
        let subject = match about {
            types::Subject::Call => ClusterSubject::Call,
            types::Subject::Node(name) => ClusterSubject::Node(name),
            types::Subject::Service((namespace, name)) => ClusterSubject::Service { namespace, name },
            types::Subject::Provider => ClusterSubject::Provider,
        };
        let told = match &subject {
            ClusterSubject::Call => "the call".to_owned(),
            ClusterSubject::Provider => "the provider".to_owned(),
            ClusterSubject::Node(name) => format!("the Node {name}"),
            ClusterSubject::Service { namespace, name } => format!("the Service {namespace}/{name}"),
        };
        if !objects.has(&subject) {
            return Err(format!("it gave a failure of {}, which is not in the call", line(&told, MAX_SHOWN)));
        }
        let count = counts.entry(told.clone()).or_default();
        *count = count.saturating_add(1);
        if *count > MAX_FAILURES {
            return Err(format!("it gave more than {MAX_FAILURES} failures of {}", line(&told, MAX_SHOWN)));
        }
        read.push((subject, failure(why)));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each becomes an Event or a line of the log.
    #[test]
    fn failures_of_single_objects_are_few() {
        let objects = Objects::new(&[Node { name: "a".to_owned(), ..Node::default() }], &[]);
        let failure = || types::Failure {
            reaction: types::Reaction::Retry,
            message: "no".to_owned(),
            retry_after_ms: None,
            field: None,
            more: vec![],
        };
        let about_a = |count| vec![(types::Subject::Node("a".to_owned()), failure()); count];
        let read = |failures| cluster_failures(failures, &objects).map(|read| read.len());
        assert_eq!(read(about_a(10)), Ok(10));
        assert_eq!(read(about_a(11)), Err("it gave more than 10 failures of the Node a".to_owned()));
        let about_all = vec![(types::Subject::Call, failure()); 11];
        assert_eq!(read(about_all), Err("it gave more than 10 failures of the call".to_owned()));
    }
}
