//! A cloud in plain Rust behind `Instances`: answers by name of the Node, and a log of the calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{BatchSettings, Batcher, FindError, Finding, Instances, Lookups, Member, Need, Node};
use parking_lot::Mutex;
use tokio::task::JoinSet;

#[derive(Default)]
pub(crate) struct FakeCloud {
    answers: Mutex<HashMap<String, VecDeque<Finding>>>,
    calls: Mutex<Vec<Vec<Node>>>,
    needs: Mutex<Vec<Need>>,
    delay: Duration,
}

impl FakeCloud {
    pub(crate) fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Answers about the Node called `name`, one after the other; the last one is for all later questions.
    pub(crate) fn answer(&self, name: &str, findings: impl IntoIterator<Item = Finding>) {
        self.answers.lock().insert(name.to_owned(), findings.into_iter().collect());
    }

    /// The Nodes of each call.
    pub(crate) fn calls(&self) -> Vec<Vec<Node>> {
        self.calls.lock().clone()
    }

    /// What each call was for.
    pub(crate) fn needs(&self) -> Vec<Need> {
        self.needs.lock().clone()
    }

    /// Names of all Nodes that were asked about, in alphabetical order.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut names: Vec<String> = self.calls.lock().iter().flatten().map(|node| node.name.clone()).collect();
        names.sort();
        names
    }

    /// The handle to ask, and the task that does it.
    pub(crate) fn lookups(self: &Arc<Self>) -> (Lookups, JoinSet<()>) {
        let (batcher, work) = Batcher::new(Arc::clone(self), BatchSettings::default());
        let mut task = JoinSet::new();
        task.spawn(work);
        let claims = Box::new(|id: &str| id.starts_with("fake://"));
        (Lookups::new(vec![Member { name: "fake".into(), claims, batcher }]), task)
    }
}

impl Instances for FakeCloud {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        self.calls.lock().push(nodes.clone());
        self.needs.lock().push(need);
        tokio::time::sleep(self.delay).await;
        let mut answers = self.answers.lock();
        let mut answer = |node: &Node| {
            let queue = answers.get_mut(&node.name).unwrap_or_else(|| panic!("no answer about {}", node.name));
            let next = queue.pop_front().unwrap();
            if queue.is_empty() {
                queue.push_back(next.clone());
            }
            next
        };
        Ok(nodes.iter().map(&mut answer).collect())
    }
}
