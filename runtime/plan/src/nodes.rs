//! Plans Nodes one after the other. What a component would change for each of them can be large, and there are thousands: whoever gathered it
//! first would hold all of it at once.

use std::collections::{BTreeMap, VecDeque};

use ccm_controllers::{NodeLifecycleRehearsal, NodeRehearsal, Rehearsed};
use futures::StreamExt as _;

use crate::journal::Stopped;
use crate::planner::Planner;
use crate::report::{Kind, ObjectPlan};

/// Nodes that are asked about at the same time, so that the lookups become few calls.
const AT_ONCE: usize = 500;

/// What is found out about Nodes, some at a time.
pub(crate) struct Nodes<'a> {
    planner: &'a Planner,
    /// Of whom nothing is known yet.
    names: &'a [String],
    node: Option<NodeRehearsal>,
    lifecycle: Option<NodeLifecycleRehearsal>,
    /// Those whose turn is next, as the node controller leaves them.
    begun: VecDeque<(&'a str, Rehearsed, Vec<Stopped>)>,
}

impl<'a> Nodes<'a> {
    /// None of them, where neither controller runs.
    pub(crate) fn new(
        planner: &'a Planner,
        names: &'a [String],
        node: Option<NodeRehearsal>,
        lifecycle: Option<NodeLifecycleRehearsal>,
    ) -> Self {
        let names = if node.is_none() && lifecycle.is_none() { &[] } else { names };
        Self { planner, names, node, lifecycle, begun: VecDeque::new() }
    }

    /// The next Node, in the order of their names.
    pub(crate) async fn next(&mut self) -> Option<ObjectPlan> {
        if self.begun.is_empty() {
            self.begin().await;
        }
        let (name, mut done, mut stopped) = self.begun.pop_front()?;
        if let Some(lifecycle) = &self.lifecycle {
            let Rehearsed { decision, unknown } = lifecycle.rehearse(name).await;
            self.planner.goes_on();
            done.decision = decision.or(done.decision);
            done.unknown = done.unknown.or(unknown);
            stopped.extend(self.planner.stopped());
        }
        self.planner.hands_over_node(name);
        Some(ObjectPlan::new(Kind::Node, name.to_owned(), done, stopped))
    }

    /// Has the node controller work on the next ones, side by side.
    async fn begin(&mut self) {
        let (some, others) = self.names.split_at(self.names.len().min(AT_ONCE));
        self.names = others;
        let mut begun: BTreeMap<&str, (Rehearsed, Vec<Stopped>)> =
            some.iter().map(|name| (name.as_str(), Default::default())).collect();
        if let Some(node) = &self.node {
            // As a list: the compiler does not see that a stream of this iterator may go to another thread.
            let asked: Vec<_> = some.iter().map(|name| async { (name.as_str(), node.rehearse(name).await) }).collect();
            let mut asked = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
            while let Some((name, rehearsed)) = asked.next().await {
                self.planner.goes_on();
                if let Some((done, _)) = begun.get_mut(name) {
                    *done = rehearsed;
                }
                // At once, since each call may leave much. A change of the cloud is dropped: nobody knows which Node it is for.
                for stopped in self.planner.stopped() {
                    if let Some((_, writes)) = node_in(&stopped).and_then(|name| begun.get_mut(name)) {
                        writes.push(stopped);
                    }
                }
            }
        }
        self.begun = begun.into_iter().map(|(name, (done, stopped))| (name, done, stopped)).collect();
    }
}

/// The Node that a write of the cluster is about.
fn node_in(stopped: &Stopped) -> Option<&str> {
    let Stopped::Cluster { path, .. } = stopped else { return None };
    path.strip_prefix("/api/v1/nodes/")?.split('/').next()
}
