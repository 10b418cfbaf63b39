//! The imports of the contract besides `http` and `credentials`. Each is a thin layer over `ccm-egress`; what a guest says is
//! never trusted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccm_cloud::{Severity, Subject};
use ccm_egress::Level;

use crate::bindings::ccm::cloud::{cache, clock, events, log, nodes, settings, types};
use crate::call::{CallState, Selected, ServiceId};

/// The answer of a host function; the error would trap the guest.
pub(crate) type HostResult<T> = wasmtime::Result<T>;

impl types::Host for CallState {}

impl settings::Host for CallState {
    async fn file(&mut self, name: String) -> HostResult<Option<String>> {
        Ok(self.context.settings.files.get(&name).cloned())
    }

    async fn get(&mut self, name: String) -> HostResult<Option<String>> {
        Ok(self.context.settings.values.get(&name).cloned())
    }

    async fn cluster_name(&mut self) -> HostResult<String> {
        Ok(self.context.settings.cluster_name.clone())
    }

    async fn cluster_cidrs(&mut self) -> HostResult<Vec<String>> {
        Ok(self.context.settings.cluster_cidrs.clone())
    }
}

impl cache::Host for CallState {
    async fn get(&mut self, key: String) -> HostResult<Option<Vec<u8>>> {
        // A proof must come from the cloud itself.
        if self.scope.proof {
            return Ok(None);
        }
        self.scope.asks_again();
        let context = Arc::clone(&self.context);
        let bytes = context.cache.get(&key).map_or(0, |value| value.len());
        self.hand_out(bytes).await?;
        // Nothing of it was kept while the call waited. A longer one that came meanwhile was not counted.
        Ok(context.cache.get(&key).filter(|value| value.len() <= bytes).map(Vec::from))
    }

    async fn put(&mut self, key: String, value: Vec<u8>, ttl_ms: u32) -> HostResult<()> {
        self.context.cache.put(key, value, Duration::from_millis(u64::from(ttl_ms)));
        Ok(())
    }

    async fn forget(&mut self, key: String) -> HostResult<()> {
        self.context.cache.forget(&key);
        Ok(())
    }
}

impl clock::Host for CallState {
    async fn now_ms(&mut self) -> HostResult<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    async fn remaining_ms(&mut self) -> HostResult<u32> {
        let left = self.end.map(|end| end.saturating_duration_since(tokio::time::Instant::now()));
        Ok(left.and_then(|left| u32::try_from(left.as_millis()).ok()).unwrap_or(u32::MAX))
    }
}

impl log::Host for CallState {
    async fn write(&mut self, level: log::Level, message: String, fields: Vec<(String, String)>) -> HostResult<()> {
        let level = match level {
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.log.lock().write(level, &message, &fields);
        Ok(())
    }
}

impl events::Host for CallState {
    async fn emit(
        &mut self,
        about: types::Subject,
        severity: events::Severity,
        reason: String,
        mut message: String,
    ) -> HostResult<()> {
        let subject = match about {
            types::Subject::Provider => Some(Subject::Provider),
            types::Subject::Node(name) => self.node(|node| node.0 == name),
            types::Subject::Service((namespace, name)) => {
                self.service(|service| service.namespace == namespace && service.name == name)
            }
            // With several objects in a call nobody can tell which one is meant.
            types::Subject::Call if self.nodes.len().saturating_add(self.services.len()) == 1 => {
                self.node(|_| true).or_else(|| self.service(|_| true))
            }
            types::Subject::Call => None,
        };
        let Some(subject) = subject else {
            self.log.lock().write(Level::Warn, "an Event about an object that is not in this call is dropped", &[]);
            return Ok(());
        };
        let context = Arc::clone(&self.context);
        let veil = context.egress.as_ref().map(|egress| egress.secrets().veil());
        let is_secret = |reason: &str| veil.as_ref().is_some_and(|veil| *veil.text(reason) != *reason);
        if !is_reason(&reason) || is_secret(&reason) {
            self.log.lock().write(Level::Warn, "an Event whose reason is not CamelCase is dropped", &[]);
            return Ok(());
        }
        self.events_emitted = self.events_emitted.saturating_add(1);
        if self.events_emitted > self.limits.events {
            if self.events_emitted == self.limits.events.saturating_add(1) {
                let text =
                    format!("more than {} Events in one call (limit events), the rest is dropped", self.limits.events);
                self.log.lock().write(Level::Warn, &text, &[]);
            }
            return Ok(());
        }
        let severity = match severity {
            events::Severity::Normal => Severity::Normal,
            events::Severity::Warning => Severity::Warning,
        };
        if let Some(veil) = veil {
            // Before it is cut: half of a secret is not found any more.
            veil.clean(&mut message);
        }
        if let Some(sink) = &self.events {
            sink.emit(subject, severity, reason, cut(message));
        }
        Ok(())
    }
}

impl CallState {
    fn node(&self, is_meant: impl Fn(&(String, String)) -> bool) -> Option<Subject> {
        let (name, uid) = self.nodes.iter().find(|node| is_meant(node))?;
        Some(Subject::Node { name: name.clone(), uid: uid.clone() })
    }

    fn service(&self, is_meant: impl Fn(&ServiceId) -> bool) -> Option<Subject> {
        let ServiceId { namespace, name, uid } = self.services.iter().find(|service| is_meant(service))?.clone();
        Some(Subject::Service { namespace, name, uid })
    }
}

/// The API server refuses longer reasons.
fn is_reason(reason: &str) -> bool {
    reason.len() <= 128
        && reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The API server refuses messages over 1,024 bytes.
fn cut(mut message: String) -> String {
    const MAX_EVENT_MESSAGE: usize = 1024;
    if message.len() > MAX_EVENT_MESSAGE {
        let end = message.floor_char_boundary(MAX_EVENT_MESSAGE - '…'.len_utf8());
        message.truncate(end);
        message.push('…');
        // Messages wait to be written, by the thousand: one of megabytes would take them still.
        message.shrink_to_fit();
    }
    message
}

impl nodes::Host for CallState {
    async fn matching(&mut self, label_selector: String) -> HostResult<Result<Vec<String>, String>> {
        let context = Arc::clone(&self.context);
        let Some(nodes) = &context.nodes else { return Ok(Err("the Nodes are not known yet".to_owned())) };
        let answer = self.computed(|_| nodes.matching(&label_selector));
        if let (Ok(names), false) = (&answer, label_selector.trim().is_empty()) {
            self.selects_nodes.store(true, Ordering::Relaxed);
            if self.selected.as_ref().is_some_and(|selected| !selected.keep(&label_selector, names)) {
                return Ok(Err(format!(
                    "a call has more than {} label selectors; one with in (…) takes the place of many",
                    Selected::MAX
                )));
            }
        }
        Ok(answer)
    }

    async fn provider_ids(&mut self, most: u32) -> HostResult<Result<Vec<String>, String>> {
        let context = Arc::clone(&self.context);
        let Some(nodes) = &context.nodes else { return Ok(Err("the Nodes are not known yet".to_owned())) };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.computed(|_| nodes.provider_ids(&context.provider_ids, most)))
    }
}
