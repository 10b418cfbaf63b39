//! How the cloud behaves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quota::Quota;
use crate::random::RandomFaults;

/// How the cloud behaves. Times are those of its clock, except the latency. As JSON, times are in milliseconds
/// (`"provisioning-ms": 2000`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Settings {
    /// How long every answer takes, in our time. Default 0.
    #[serde(with = "milliseconds", rename = "latency-ms")]
    pub latency: Duration,
    /// From the creation of a load balancer until it is active. Default 2 s.
    #[serde(with = "milliseconds", rename = "provisioning-ms")]
    pub provisioning: Duration,
    /// New load balancers end as `errored` instead of `active`. Default false.
    pub provisioning_fails: bool,
    /// How long a load balancer is locked after a change. Default 0.
    #[serde(with = "milliseconds", rename = "busy-ms")]
    pub busy: Duration,
    /// Whether a locked load balancer, or one that is new, cannot be deleted either. Default false.
    pub lock_deletes: bool,
    /// How long the size of a load balancer stays as it is after its creation and after each change of it. Default an hour, as the
    /// document has it.
    #[serde(with = "milliseconds", rename = "resize-pause-ms")]
    pub resize_pause: Duration,
    /// Most load balancers of the account; more are refused. Default none.
    pub balancer_limit: Option<usize>,
    /// Whether answers about load balancers have their tags, which the document does not show. Default true.
    pub tells_balancer_tags: bool,
    /// Whether a load balancer of network `INTERNAL` has its private address as `ip`, which is for public ones by the document.
    /// Default true.
    pub tells_internal_addresses: bool,
    /// Whether a list of load balancers heeds `names` and `uuids`, which the document does not have. Default true.
    pub filters_balancers: bool,
    /// Most bytes of an answer; in place of a longer one comes a gateway's 504. Default 4 MiB.
    pub answer_bytes: usize,
    /// By how much listings are late. Default 0. It may grow; what is already forgotten is not shown again.
    #[serde(with = "milliseconds", rename = "listing-lag-ms")]
    pub listing_lag: Duration,
    /// From a change of a firewall until it is `succeeded`. Default 1 s.
    #[serde(with = "milliseconds", rename = "firewall-delay-ms")]
    pub firewall_delay: Duration,
    /// What each token may ask for.
    pub quota: Quota,
    /// Faults at random, besides those that are planned. Default none.
    pub faults: Option<RandomFaults>,
    /// Path in front of all endpoints, such as `/proxy/do`. Default none.
    pub prefix: String,
    /// Where the links of pages point: not here, as behind a proxy. Default `https://api.digitalocean.com`.
    pub link_base: String,
    /// Exchanges that are kept; the oldest go first. Default 20,000.
    pub kept_exchanges: usize,
    /// Bytes of each body that are kept. Default 16 KiB.
    pub kept_body: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            provisioning: Duration::from_secs(2),
            provisioning_fails: false,
            busy: Duration::ZERO,
            lock_deletes: false,
            resize_pause: Duration::from_secs(3_600),
            balancer_limit: None,
            tells_balancer_tags: true,
            tells_internal_addresses: true,
            filters_balancers: true,
            answer_bytes: 4 << 20,
            listing_lag: Duration::ZERO,
            firewall_delay: Duration::from_secs(1),
            quota: Quota::default(),
            faults: None,
            prefix: String::new(),
            link_base: "https://api.digitalocean.com".to_owned(),
            kept_exchanges: 20_000,
            kept_body: 16 << 10,
        }
    }
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
