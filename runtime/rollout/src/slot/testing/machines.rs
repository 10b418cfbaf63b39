//! Machines of the components that do as they are told.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use ccm_cloud::{Failure, FindError, Finding, Instance, InstanceState, Instances, Need, Node, Reaction};

use super::{Does, Fake};

/// A Node whose machine is gone.
pub(crate) const GONE: &str = "gone";

impl Instances for Fake {
    async fn find(&self, nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, FindError> {
        let right = || nodes.iter().map(|node| self.finding(node)).collect();
        let answer = self.answer("instances.find", right, || vec![Finding::Absent; nodes.len()]).await;
        let does = *self.does.lock();
        match answer {
            Ok(findings) => Ok(findings),
            Err(failure) if does == Does::Crash => Err(FindError::Crashed(failure)),
            Err(failure) if does == Does::Lack => Err(failure.into()),
            Err(failure) => Ok(vec![Finding::Unknown(failure); nodes.len()]),
        }
    }
}

impl Fake {
    fn finding(&self, node: &Node) -> Finding {
        if *self.no_word_of.lock() == Some(node.name.as_str()) {
            return Finding::Unknown(Failure::new(Reaction::Retry, "it cannot tell of this one"));
        }
        if node.name == GONE {
            return Finding::Absent;
        }
        Finding::Found(Box::new(self.machine(node)))
    }

    /// The machine that it takes for that of a Node.
    fn machine(&self, node: &Node) -> Instance {
        let (scheme, name) = (*self.scheme.lock(), &node.name);
        let id = if self.remembers.load(Ordering::Relaxed) {
            // Another one had the name before.
            format!("{scheme}://{name}-before")
        } else if self.is(Does::Misname) {
            format!("{scheme}://{}-{name}", self.version)
        } else {
            format!("{scheme}://{name}")
        };
        Instance {
            // What a Node has stays.
            provider_id: node.provider_id.clone().unwrap_or(id),
            instance_type: String::new(),
            addresses: vec![],
            zone: String::new(),
            region: String::new(),
            labels: BTreeMap::from([("version".to_owned(), self.version.clone())]),
            state: InstanceState::Running,
        }
    }
}
