//! The tag of a Service goes after its load balancer, if the token may delete tags and the cloud is well: nobody waits for it.

use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::types::Service;
use ccm_sdk::{cache, log};

use crate::api::tags;

/// How long it is known which tag a load balancer had that was deleted, should nobody have heard of that.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// The tag of a Service whose load balancers go: they are asked for it before, and it goes after.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LastTag {
    key: String,
    tag: Option<String>,
}

impl LastTag {
    /// `tag` is what is on one that goes now. Who was interrupted finds none any more that has it, and remembers.
    pub(super) fn of(service: &Service, tag: Option<String>) -> Self {
        let key = format!("last-tag/{}", service.uid);
        match &tag {
            Some(tag) => cache::put(&key, tag.as_bytes(), REMEMBERED),
            None => return Self { tag: cache::get(&key).and_then(|tag| String::from_utf8(tag).ok()), key },
        }
        Self { key, tag }
    }

    /// Asked once, and not again: a tag is nobody's harm, and the Service goes in any case.
    pub(super) fn delete(self, done: &mut Done) {
        let Some(tag) = self.tag else { return };
        cache::forget(&self.key);
        match tags::delete(&tag) {
            Ok(true) => done.outcome.changes.push(format!("deleted tag {tag}")),
            Ok(false) => {}
            Err(failure) => log::info("a tag stays in the account", &[("tag", &tag), ("error", &failure.message)]),
        }
    }
}
