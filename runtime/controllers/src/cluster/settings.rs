//! How the cluster controller works.

use std::time::Duration;

use crate::queue::QueueSettings;

/// How the cluster controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How long nothing that matters may have changed before providers are called. Default 2 s: a rollout of Services or a
    /// pool of Nodes that joins becomes one call.
    pub debounce: Duration,
    /// How long a change may wait when changes do not end. Default 10 s.
    pub max_wait: Duration,
    /// From one call without a cause to the next, up to a tenth more or less: what somebody changed in the cloud is put
    /// right. Default 5 min.
    pub period: Duration,
    /// How long one call may take, with its waiting for a turn. Default 5 min: a guard, calls have a limit of their own.
    pub call_timeout: Duration,
    /// When to try again what people have to repair. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same object is given again. Default 1 h, so that a period does not repeat it.
    pub repeat_warning: Duration,
    /// When calls are repeated that failed. Default: after 1 s, doubling up to 5 min, with up to as much again by chance.
    pub queue: QueueSettings,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            debounce: Duration::from_secs(2),
            max_wait: Duration::from_secs(10),
            period: Duration::from_secs(5 * 60),
            call_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(60 * 60),
            queue: QueueSettings {
                min_backoff: Duration::from_secs(1),
                max_backoff: Duration::from_secs(5 * 60),
                ..QueueSettings::default()
            },
        }
    }
}

/// Which Nodes a provider is told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterNodes {
    /// All: it is the only provider of this process.
    All,
    /// Those whose provider ID it takes care of.
    Own,
}
