//! What is told of a request that failed. It goes to people, and never to the provider: no secret of the process is in it.

use std::sync::Arc;

use ccm_cloud::FailedRequest;
use tokio::time::Instant;

use super::{Egress, MAX_NAME};
use crate::endpoints::Target;
use crate::error::TransportReason;
use crate::http::Request;
use crate::one_line::line;

/// Longest path that is told, in bytes.
const MAX_PATH: usize = 256;

/// What came of a request.
#[derive(Default)]
pub(super) struct Answered {
    pub(super) status: Option<u16>,
    /// Without secrets.
    pub(super) request_id: Option<String>,
    /// Why that is no answer.
    pub(super) error: Option<TransportReason>,
    /// Why nothing is sent for now.
    pub(super) held: Option<String>,
    /// The host's own limit that is the reason.
    pub(super) limit: Option<&'static str>,
}

impl Egress {
    /// Of a request that was sent so often, or that had to wait too long to be.
    pub(super) fn failed(
        &self,
        request: &Request,
        target: &Target<'_>,
        operation: &str,
        answered: Answered,
        sent: u32,
    ) -> Arc<FailedRequest> {
        let base = &target.base.url;
        // Of the base URL, people know where it leads: what stands before the host is no part of it.
        let path = format!("{}{}", base.path().trim_end_matches('/'), request.path);
        let Answered { status, request_id, error, held, limit } = answered;
        Arc::new(FailedRequest {
            origin: base.origin().ascii_serialization(),
            path: line(&self.secrets.veil().text(&path), MAX_PATH),
            status,
            held,
            limit,
            request_id,
            sent,
            ..self.unsent(request, operation, error)
        })
    }

    /// Of a request that the host refused before it looked where it would go.
    pub(super) fn refused(&self, request: &Request, operation: &str, error: TransportReason) -> Arc<FailedRequest> {
        Arc::new(self.unsent(request, operation, Some(error)))
    }

    fn unsent(&self, request: &Request, operation: &str, error: Option<TransportReason>) -> FailedRequest {
        let veil = self.secrets.veil();
        FailedRequest {
            // A guest makes up names.
            endpoint: line(&veil.text(&request.endpoint), MAX_NAME),
            origin: String::new(),
            operation: veil.text(operation).into_owned(),
            method: request.method.as_str(),
            path: String::new(),
            status: None,
            error: error.map(TransportReason::as_str),
            held: None,
            limit: None,
            request_id: None,
            sent: 0,
            at: Instant::now(),
        }
    }
}
