//! What a run is to reach for a Service, what the last one came to, and how far the Service's record is to be believed.

use tokio::time::Instant;

use super::digest::Digest;

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A load balancer for a Service with this digest.
    Serve(Digest),
    /// None any more, for a Service with this digest.
    Delete(Digest),
}

/// What is not certain about the cloud, whatever the Service's record says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    #[default]
    None,
    /// A call that changes the backends has begun.
    Backends,
    /// A call that changes anything has begun.
    All,
}

/// The last try, which failed.
pub(super) struct Attempt {
    pub(super) purpose: Purpose,
    /// The backends, if others are tried before it is time.
    pub(super) backends: Option<Digest>,
    /// Not again before.
    pub(super) until: Instant,
    /// Only something else to do helps.
    pub(super) until_change: bool,
    /// It is no failure: the cloud is at work.
    pub(super) is_pending: bool,
    /// What it came to, in words.
    pub(super) why: String,
}
