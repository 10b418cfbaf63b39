//! What a provider is asked to do, by its name in the contract and in the metrics.

/// What providers are asked to do about load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Ensure,
    Update,
    Delete,
    Get,
    Mark,
    Orphan,
    Locks,
    Survey,
}

impl Operation {
    pub(super) const ALL: [Self; 8] =
        [Self::Ensure, Self::Update, Self::Delete, Self::Get, Self::Mark, Self::Orphan, Self::Locks, Self::Survey];

    /// In the contract.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ensure => "load-balancers.ensure",
            Self::Update => "load-balancers.update-backends",
            Self::Delete => "load-balancers.ensure-deleted",
            Self::Get => "load-balancers.get",
            Self::Mark => "load-balancers.get-mark",
            Self::Orphan => "load-balancer-orphan.orphan",
            Self::Locks => "load-balancers.locks",
            Self::Survey => "load-balancer-survey.survey",
        }
    }

    /// In the metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Ensure => "ensure",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Mark => "mark",
            Self::Orphan => "orphan",
            Self::Locks => "locks",
            Self::Survey => "survey",
        }
    }
}
