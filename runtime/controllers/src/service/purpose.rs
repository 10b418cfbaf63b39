//! What a run is to reach for a Service, and how far its record is to be believed.

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
