//! Why a Service does not have the load balancer that it should have, or still has one: the same words for every provider.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::ApiError;
use ccm_cloud::{FailedRequest, Failure, Reaction};

use crate::queue::Verdict;
use crate::reaction;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Read,
    Lock,
    Adopt,
    Ensure,
    /// An ensure of what an update was refused for.
    EnsureHosts,
    Update,
    Delete,
    Orphan,
    AddFinalizer,
    RemoveFinalizer,
    WriteStatus,
}

impl Task {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read the Service",
            Self::Lock => "get the locks of the load balancer",
            Self::Adopt => "find the owner of the load balancer that its annotations lead to",
            Self::Ensure | Self::EnsureHosts => "ensure load balancer",
            Self::Update => "update the Nodes behind the load balancer",
            Self::Delete => "delete load balancer",
            Self::Orphan => "give the load balancer up",
            Self::AddFinalizer => "add load balancer cleanup finalizer",
            Self::RemoveFinalizer => "remove load balancer cleanup finalizer",
            Self::WriteStatus => "update load balancer status",
        }
    }
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("failed to {}: {failure}", .task.as_str())]
    Cloud { task: Task, failure: Failure },
    #[error("failed to {}: {error}", .task.as_str())]
    Api { task: Task, error: ApiError },
}

impl SyncError {
    /// For people.
    pub(crate) const fn reaction(&self) -> &'static str {
        match self {
            Self::Cloud { failure, .. } => failure.reaction.as_str(),
            Self::Api { .. } => "api",
        }
    }

    /// The request to the cloud behind it.
    pub(crate) fn request(&self) -> Option<Arc<FailedRequest>> {
        match self {
            Self::Cloud { failure, .. } => failure.request.clone(),
            Self::Api { .. } => None,
        }
    }

    /// What comes next, without anything that is another at each try. None for a failure of the API server.
    pub(crate) const fn next_try(&self) -> Option<&'static str> {
        match self {
            Self::Cloud { task: Task::Update, failure: Failure { reaction: Reaction::Invalid, .. } } => {
                Some("the load balancer is ensured as a whole")
            }
            // Other hosts are something else to try.
            Self::Cloud { task: Task::EnsureHosts, failure: Failure { reaction: Reaction::Invalid, .. } } => {
                Some("not retried before the Service or the Nodes behind it change")
            }
            Self::Cloud { failure, .. } => Some(next_try(failure.reaction)),
            Self::Api { .. } => None,
        }
    }

    pub(crate) fn verdict(&self, slow: Duration) -> Verdict {
        match self {
            // What the update lacks, the ensure may make.
            Self::Cloud { task: Task::Update, failure: Failure { reaction: Reaction::Invalid, .. } } => {
                Verdict::Backoff
            }
            Self::Cloud { failure, .. } => reaction::verdict(failure, slow),
            Self::Api { error, .. } => reaction::after_api_error(error, slow),
        }
    }

    /// Whether an update failed, and an ensure may help: what the update needs may be gone.
    pub(crate) const fn needs_ensure(&self) -> bool {
        matches!(self, Self::Cloud { task: Task::Update, failure } if may_need_ensure(failure.reaction))
    }

    /// Whether the cloud is at work, so that this is no failure at all.
    pub(crate) const fn is_pending(&self) -> bool {
        matches!(self, Self::Cloud { failure: Failure { reaction: Reaction::Pending, .. }, .. })
    }

    /// Whether people should be told: not about an API server that could not take the Event either.
    pub(crate) const fn deserves_warning(&self) -> bool {
        match self {
            Self::Cloud { .. } => !self.is_pending(),
            Self::Api { error, .. } => error.is_refusal(),
        }
    }
}

/// Whether an update may have failed since something is gone that an ensure makes again. The other reactions are about calls
/// as such: another call does not help.
pub(crate) const fn may_need_ensure(reaction: Reaction) -> bool {
    match reaction {
        Reaction::Retry | Reaction::Conflict | Reaction::Invalid | Reaction::Unsupported => true,
        Reaction::Throttled | Reaction::Pending | Reaction::Unauthorized | Reaction::Quota | Reaction::Elsewhere => {
            false
        }
    }
}

/// What is retried slowly.
pub(crate) const SLOWLY: &str = "retried slowly";

const fn next_try(reaction: Reaction) -> &'static str {
    match reaction {
        Reaction::Retry | Reaction::Conflict => "retried with back-off",
        Reaction::Throttled => "retried when the cloud allows it",
        Reaction::Pending => "checked again until the cloud is done",
        Reaction::Unauthorized => "retried slowly, and at once with other credentials",
        Reaction::Quota | Reaction::Unsupported => SLOWLY,
        Reaction::Invalid => "not retried before the Service changes",
        Reaction::Elsewhere => "nothing more is done",
    }
}
