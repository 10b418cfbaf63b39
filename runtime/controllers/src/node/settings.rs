//! How the node controller works.

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::write::Order;
use crate::queue::QueueSettings;

/// How the node controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// `--concurrent-node-syncs`: most Nodes that are written at the same time. Default 128: how many of these writes are under way
    /// follows the API server ([`ApiGateSettings`](ccm_apiserver::ApiGateSettings)), and Events take turns with the others. Upstream's
    /// default of 1 makes each Node wait for all before it.
    pub concurrent_syncs: NonZeroUsize,
    /// `--concurrent-node-status-updates`: the same for the refresh. Default 0: as `concurrent_syncs`.
    pub concurrent_status_updates: usize,
    /// `--node-status-update-frequency`: from the end of one refresh to the next. Default 5 min.
    pub refresh_interval: Duration,
    /// What comes first at the initialisation. Default: addresses, then the removal of the taint.
    pub untaint_before_addresses: bool,
    /// How long one lookup may take, with its waiting for a place in a batch. Default 5 min: a few calls at their time
    /// limit of 60 s one after the other.
    pub lookup_timeout: Duration,
    /// When to try again what people have to repair: refused credentials, limits of an account, requests that the API
    /// server refuses. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same Node is given again. Default 10 min.
    pub repeat_warning: Duration,
    /// `--node-unclaimed-after`: how long a Node without provider ID, which every provider says is not its own, is left to other
    /// managers before an Event says so, once. Default 1 min.
    pub unclaimed_after: Duration,
    /// When keys run.
    pub queue: QueueSettings,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(127),
            concurrent_status_updates: 0,
            refresh_interval: Duration::from_secs(5 * 60),
            untaint_before_addresses: false,
            lookup_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            unclaimed_after: Duration::from_secs(60),
            queue: QueueSettings::default(),
        }
    }
}

impl NodeSettings {
    pub(super) const fn order(&self) -> Order {
        if self.untaint_before_addresses { Order::TaintFirst } else { Order::AddressesFirst }
    }

    pub(super) const fn refresh_width(&self) -> usize {
        match self.concurrent_status_updates {
            0 => self.sync_width(),
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }

    pub(super) const fn sync_width(&self) -> usize {
        match self.concurrent_syncs.get() {
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }
}
