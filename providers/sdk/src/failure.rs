//! Short ways to say what went wrong.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::duration;
use crate::types::{Failure, Problem, Reaction};

impl Failure {
    /// A failure that asks for `reaction`. `message` is for people: what was tried and what the cloud answered.
    pub fn new(reaction: Reaction, message: impl Into<String>) -> Self {
        Self { reaction, message: message.into(), retry_after_ms: None, field: None, more: vec![] }
    }

    /// Passing trouble: try again.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(Reaction::Retry, message)
    }

    /// The cloud asked for fewer calls. Say with [`after`](Self::after) how long it wants to be left alone.
    pub fn throttled(message: impl Into<String>) -> Self {
        Self::new(Reaction::Throttled, message)
    }

    /// The cloud is at work. Say with [`after`](Self::after) when to look again.
    pub fn pending(message: impl Into<String>) -> Self {
        Self::new(Reaction::Pending, message)
    }

    /// The cloud refused the credentials.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(Reaction::Unauthorized, message)
    }

    /// The Kubernetes object asks for something wrong. Say with [`field`](Self::field) where.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Reaction::Invalid, message)
    }

    /// Somebody else changed or owns the thing.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Reaction::Conflict, message)
    }

    /// A limit of the account is reached.
    pub fn quota(message: impl Into<String>) -> Self {
        Self::new(Reaction::Quota, message)
    }

    /// Neither now nor later: the provider or the cloud cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Reaction::Unsupported, message)
    }

    /// Another controller takes care of this object.
    pub fn elsewhere(message: impl Into<String>) -> Self {
        Self::new(Reaction::Elsewhere, message)
    }

    /// When to try again. More than the contract can carry (49 days) becomes the most it can.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after_ms = Some(duration::millis_u32(wait));
        self
    }

    /// The field of the Kubernetes object that is wrong, as a path.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field = Some(path.into());
        self
    }

    /// What was being done, in front of what went wrong: `failed to update firewall: PUT /v2/firewalls/{id}: 500`.
    ///
    /// ```
    /// use ccm_sdk::types::Failure;
    ///
    /// let failure = Failure::retry("GET /servers: 500").context("server 7 of node a");
    /// assert_eq!(failure, Failure::retry("server 7 of node a: GET /servers: 500"));
    /// ```
    #[must_use]
    #[inline(never)]
    pub fn context(mut self, what: impl Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The annotation of the Kubernetes object that is wrong.
    #[must_use]
    pub fn annotation(self, name: &str) -> Self {
        self.field(format!("metadata.annotations[{name}]"))
    }
}

impl Problem {
    /// Something that will be refused.
    pub fn fatal(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), fatal: true, more: vec![] }
    }

    /// Something that will be done without.
    pub fn harmless(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), fatal: false, more: vec![] }
    }
}

impl Display for Problem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_reaction_time_and_field() {
        assert_eq!(
            Failure::pending("volume is being built").after(Duration::from_secs(5)).annotation("example.com/size"),
            Failure {
                reaction: Reaction::Pending,
                message: "volume is being built".to_owned(),
                retry_after_ms: Some(5_000),
                field: Some("metadata.annotations[example.com/size]".to_owned()),
                more: vec![],
            }
        );
    }

    #[test]
    fn a_wait_beyond_the_contract_is_cut_to_its_longest() {
        assert_eq!(Failure::retry("").after(Duration::MAX).retry_after_ms, Some(u32::MAX));
    }

    #[test]
    fn a_problem_reads_field_first() {
        assert_eq!(
            Problem::fatal("cloud-config:mode", "must be fixture").to_string(),
            "cloud-config:mode: must be fixture"
        );
    }
}
