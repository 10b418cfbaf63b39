//! How the node lifecycle controller works.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::deletion_budget::DeletionBudget;
use crate::queue::QueueSettings;

/// How the node lifecycle controller works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLifecycleSettings {
    /// `--node-monitor-period`: when a Node that is not Ready is looked at again. Default 5 s, as upstream. The time doubles
    /// while the cloud's answer stays the same, and starts anew with a change of the Node's labels, annotations or
    /// condition Ready.
    pub monitor_period: Duration,
    /// `--node-monitor-max-period`: the longest such time. Default 1 min; less than `monitor_period` counts as that.
    pub max_monitor_period: Duration,
    /// `--node-deletion-min-age`: younger Nodes are left alone. Default 60 s; clouds list a machine some time after it runs.
    /// Zero is allowed.
    pub min_age: Duration,
    /// `--node-deletion-second-look`: from the first answer that the machine is absent to the second question. Default 5 s.
    pub second_look: Duration,
    /// How long after the second answer the DELETE may still leave. Default 30 s: the attempts against other writers take
    /// 2 s; a process that was stopped in between must not act on what it once knew. Then the cloud is asked again.
    pub proof_validity: Duration,
    /// `--node-deletion-percent`, `--node-deletion-min-budget`, `--node-deletion-period`: how many Nodes of one provider may be
    /// deleted.
    pub budget: DeletionBudget,
    /// `--confirm-node-deletions`: Nodes that may be deleted beyond the budget, each once. Default none. They need the
    /// two answers like any other.
    pub confirmed: BTreeSet<String>,
    /// `--delete-nodes-without-provider-id`: upstream's behaviour. Default false: without a provider ID nobody can ask a
    /// cloud about exactly this machine.
    pub delete_without_provider_id: bool,
    /// Most Nodes that are written at the same time. Default 32, beyond which the API server only queues.
    pub concurrent_writes: NonZeroUsize,
    /// How long one lookup may take, with its waiting for a place in a batch. Default 5 min.
    pub lookup_timeout: Duration,
    /// When to try again what people have to repair. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same is told again about the same Node, in the log and as an Event. Default 10 min.
    pub repeat_warning: Duration,
    /// When keys run.
    pub queue: QueueSettings,
}

impl Default for NodeLifecycleSettings {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            max_monitor_period: Duration::from_secs(60),
            min_age: Duration::from_secs(60),
            second_look: Duration::from_secs(5),
            proof_validity: Duration::from_secs(30),
            budget: DeletionBudget::default(),
            confirmed: BTreeSet::new(),
            delete_without_provider_id: false,
            concurrent_writes: NonZeroUsize::MIN.saturating_add(31),
            lookup_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            queue: QueueSettings::default(),
        }
    }
}
