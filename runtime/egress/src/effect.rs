//! What a request does to the cloud: the provider says so, and this module checks as much of that as it can.

use std::fmt;

use ccm_cloud::{Descriptor, Leadership};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::call::CallScope;
use crate::error::{TransportError, TransportReason};
use crate::http::{Effect, Method, Part, Request};

/// The member of JSON bodies with which a cloud judges a request and changes nothing, as the provider declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DryRun(String);

impl DryRun {
    /// None where the cloud has no such thing.
    pub(crate) fn declared(descriptor: &Descriptor) -> Option<Self> {
        descriptor.more.get(Descriptor::DRY_RUN).filter(|member| !member.is_empty()).cloned().map(Self)
    }

    pub(crate) fn member(&self) -> &str {
        &self.0
    }

    /// Whether the body is an object with the member once, and that is `true`.
    fn is_asked_by(&self, request: &Request) -> bool {
        let mut body = Vec::new();
        for part in &request.body {
            match part {
                Part::Bytes(bytes) => body.extend_from_slice(bytes),
                // What is filled in later could be anything.
                Part::Secret { .. } | Part::Signature { .. } => return false,
            }
        }
        let mut json = serde_json::Deserializer::from_slice(&body);
        let is_asked = json.deserialize_map(self).is_ok_and(|asked| asked);
        is_asked && json.end().is_ok()
    }
}

impl<'de> Visitor<'de> for &DryRun {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// Clouds do not agree which of two equal members counts, nor whether they are equal when only their case differs.
    fn visit_map<A: MapAccess<'de>>(self, mut body: A) -> Result<bool, A::Error> {
        let (mut seen, mut is_true) = (0_usize, false);
        while let Some(name) = body.next_key::<String>()? {
            if name.eq_ignore_ascii_case(&self.0) {
                seen = seen.saturating_add(1);
                // Not read: it may be anything, and ninety times as large in memory.
                is_true = body.next_value::<&RawValue>()?.get() == "true" && name == self.0;
            } else {
                body.next_value::<IgnoredAny>()?;
            }
        }
        Ok(seen == 1 && is_true)
    }
}

/// Refuses changes where there may be none, and what cannot be a read.
///
/// In a call that judges, a provider that declares a dry run is held to it, and may then also use PUT. A login is none of the
/// cloud's judgements. Whether this process may make changes is another question: [`check_leader`].
pub(crate) fn check(request: &Request, call: &CallScope, dry_run: Option<&DryRun>) -> Result<(), TransportError> {
    match (request.effect, request.method) {
        (Effect::Read, Method::Post | Method::Put)
            if call.judges
                && request.capture.is_none()
                && let Some(dry_run) = dry_run =>
        {
            match dry_run.is_asked_by(request) {
                true => Ok(()),
                false => Err(TransportError::denied(format!(
                    "a {} in a call that judges needs \"{}\": true in its body",
                    request.method.as_str(),
                    dry_run.0
                ))),
            }
        }
        (Effect::Read, Method::Put | Method::Patch | Method::Delete) => {
            let why = format!("a {} is no request that changes nothing", request.method.as_str());
            Err(TransportError::denied(why))
        }
        (Effect::Read, _) => Ok(()),
        (Effect::Repeatable | Effect::Once, _) if call.read_only => {
            Err(TransportError::unsent(TransportReason::ReadOnly, "this call may not change the cloud".to_owned()))
        }
        (Effect::Repeatable | Effect::Once, _) => Ok(()),
    }
}

/// Asked before a change waits for its turn, and again when it is sent. This is the one place that keeps a standby and a plan from changing a
/// cloud.
pub(crate) fn check_leader(leadership: &dyn Leadership) -> Result<(), TransportError> {
    if leadership.may_write() {
        return Ok(());
    }
    Err(TransportError::unsent(
        TransportReason::ReadOnly,
        "this process is not the leader, and may not change the cloud".to_owned(),
    ))
}
