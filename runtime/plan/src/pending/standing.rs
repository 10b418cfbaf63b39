//! A write that stays the same from look to look.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::kept::{Known, Object};
use super::{NOTE, PendingWrite};
use crate::report::{Write, plain};

/// Most bytes of one write that are told; a body can be as long as a request.
pub(super) const MAX_TOLD: usize = 4_096;
/// What is told in the place of a write that is not kept.
const LEFT_OUT: &str =
    "(left out: a dry run keeps 16 MiB of what would be written; `wasm-ccm plan` shows all of one object)";

/// Changes with each write of anybody to an object, or is made up of the time: another value is no other write.
const FLEETING: [&str; 5] =
    ["resourceVersion", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "timeAdded"];
/// The same in a note: it tells how far the cloud is, and the ID of the request that said so.
const FLEETING_IN_NOTES: &str = "message";

/// A write that stays the same.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standing {
    /// Where it goes.
    pub(super) to: &'static str,
    /// What it is, for people: the write itself may be large. None where it is left out.
    pub(super) line: Option<Box<str>>,
    /// Of the write without what is fleeting.
    pub(super) digest: u64,
    pub(super) since: Timestamp,
    /// Was there at the last look after which all was known: what is carried along does not grow while the cloud fails.
    pub(super) is_certain: bool,
    /// Deletes the object itself.
    deletes: bool,
}

impl Standing {
    /// `is_known`: all is known of the object.
    pub(super) fn of(write: &Write, object: &Object, before: &Known, now: Timestamp, is_known: bool) -> Self {
        let (to, method, path, body) = write.parts();
        let fleeting: &[&str] = if to == NOTE { &[FLEETING_IN_NOTES] } else { &[] };
        let mut hasher = DefaultHasher::new();
        (to, method, &path, lasting(body, fleeting).to_string()).hash(&mut hasher);
        let digest = hasher.finish();
        let known = before.writes.iter().find(|known| known.digest == digest);
        let since = known.map_or(now, |known| known.since);
        let is_certain = is_known || known.is_some_and(|known| known.is_certain);
        let deletes = write.deletes(object.kind, &object.name);
        Self { to, line: Some(line(to, method, &path, body)), digest, since, is_certain, deletes }
    }

    pub(super) fn told(&self, object: &Object) -> PendingWrite {
        let Self { since, deletes, .. } = *self;
        let (object, write) = (object.to_string(), self.text().into_owned());
        PendingWrite { object, write, since, is_change: self.is_change(), deletes }
    }

    pub(super) fn text(&self) -> Cow<'_, str> {
        self.line.as_deref().map_or_else(|| Cow::Owned(format!("{} {LEFT_OUT}", self.to)), Cow::Borrowed)
    }

    pub(super) fn is_change(&self) -> bool {
        self.to != NOTE
    }
}

fn line(to: &str, method: &str, path: &str, body: &Value) -> Box<str> {
    let mut line = plain(&format!("{to} {method} {path}"));
    if !body.is_null() {
        line = format!("{line} {body}");
    }
    short(line)
}

/// As much of a text as is told. It takes no more memory than that, however long it was.
pub(super) fn short(mut text: String) -> Box<str> {
    if text.len() > MAX_TOLD {
        text.truncate(text.floor_char_boundary(MAX_TOLD));
        text.push('…');
    }
    text.into_boxed_str()
}

/// A body without what is fleeting in it, `more` included: also the tests of a JSON patch, which name the state that it is bound to.
pub(super) fn lasting(body: &Value, more: &[&str]) -> Value {
    match body {
        Value::Object(members) => {
            let is_fleeting = |name: &str| FLEETING.contains(&name) || more.contains(&name);
            let kept = members.iter().filter(|(name, _)| !is_fleeting(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), lasting(value, more))).collect())
        }
        Value::Array(items) => {
            let is_test = |item: &&Value| item.get("op").and_then(Value::as_str) == Some("test");
            Value::Array(items.iter().filter(|item| !is_test(item)).map(|item| lasting(item, more)).collect())
        }
        other => other.clone(),
    }
}
