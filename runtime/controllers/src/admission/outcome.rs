//! What became of a review, in the words of the metrics.

/// What became of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionOutcome {
    /// No provider here would make its load balancer, or it wants none.
    Foreign,
    /// Nothing changes of what a provider is told.
    Unchanged,
    /// Its provider finds nothing that stops it.
    Valid,
    /// Its provider would refuse it.
    Denied,
    /// Nobody could judge it, and it is let through.
    Unjudged,
}

impl AdmissionOutcome {
    /// The word for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Unchanged => "unchanged",
            Self::Valid => "valid",
            Self::Denied => "denied",
            Self::Unjudged => "unjudged",
        }
    }
}
