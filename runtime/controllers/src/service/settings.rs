//! How the service controller works.

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::queue::QueueSettings;

/// How the service controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: most Services for which the cloud is asked at the same time. Default 32; upstream's default of
    /// 1 makes each Service wait for all before it. A Service whose cloud is still at work does not count.
    pub concurrent_syncs: NonZeroUsize,
    /// From the first change of a Node until all load balancers are looked at, so that Nodes that join together are one
    /// change. Default 100 ms.
    pub node_debounce: Duration,
    /// How long one call of a provider may take. Default 5 min: the sandbox ends calls at 60 s, so this is for providers
    /// outside of it.
    pub call_timeout: Duration,
    /// How long Services wait at the start for the survey of load balancers, where a provider offers it. Default 5 s; 0 leaves the
    /// survey out. What it would have said is then found by the verification.
    pub start_survey_timeout: Duration,
    /// Most Services in one call of a survey; fewer where there are thousands of Nodes. Default 500.
    pub survey_size: NonZeroUsize,
    /// How often all load balancers are compared with the cloud, give or take a third. Default 1 h; 0 never does.
    pub verify_period: Duration,
    /// How many Services are ensured first where a provider comes that is of another revision or has another configuration, before the
    /// rest: two at a time, when as many have succeeded and the component is proven. Default 5; 0 ensures all at once.
    pub revision_first: usize,
    /// When to try again what people have to repair: refused credentials, limits of an account, requests that the API
    /// server refuses. It is also the shortest time between two repairs of a status that others change. Default 1 min; less
    /// than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same Service is given again. Default 10 min.
    pub repeat_warning: Duration,
    /// Shortest time between two writes of a condition whose message alone has changed. Default 30 s.
    pub condition_interval: Duration,
    /// When keys run. Defaults as upstream: 5 s, doubling, with up to as much again by chance, to 300 s at most. `max_run` begins when
    /// the Service's turn has come: waiting for locks and for one of the [`concurrent_syncs`](Self::concurrent_syncs) does
    /// not count.
    pub queue: QueueSettings,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(31),
            node_debounce: Duration::from_millis(100),
            call_timeout: Duration::from_secs(5 * 60),
            start_survey_timeout: Duration::from_secs(5),
            survey_size: NonZeroUsize::MIN.saturating_add(499),
            verify_period: Duration::from_secs(60 * 60),
            revision_first: 5,
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            condition_interval: Duration::from_secs(30),
            queue: QueueSettings {
                min_backoff: Duration::from_secs(5),
                max_backoff: Duration::from_secs(300),
                ..QueueSettings::default()
            },
        }
    }
}

impl ServiceSettings {
    pub(super) const fn width(&self) -> usize {
        match self.concurrent_syncs.get() {
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }
}
