//! What the cloud has answered to a question by ID.

use ccm_sdk::types::Failure;

use crate::api::droplets::Droplet;

/// What is known of the droplet behind a Node.
#[derive(Debug, Clone)]
pub(super) enum Answered {
    Found(Droplet),
    /// The cloud has said so to a question by ID.
    Absent,
    Unknown(Failure),
}

pub(super) fn answered(id: u64, reply: Result<Option<Droplet>, Failure>) -> Answered {
    match reply {
        Ok(Some(droplet)) if droplet.id == id => Answered::Found(droplet),
        Ok(Some(droplet)) => {
            let message = format!("asked for droplet {id}, the answer is about droplet {}", droplet.id);
            Answered::Unknown(Failure::retry(message))
        }
        Ok(None) => Answered::Absent,
        Err(failure) => Answered::Unknown(failure),
    }
}
