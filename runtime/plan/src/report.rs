//! What a plan says, for people and for programs.

use std::fmt;

use ccm_cloud::{ForbiddenChange, is_plain};
use ccm_controllers::Rehearsed;
use serde::Serialize;
use serde_json::Value;

use crate::journal::Stopped;

/// What is said of what comes after a change of a cloud.
const FOLLOWS: &str = "more writes may follow: what follows depends on the answer of the cloud";

/// What a plan of all its objects comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many objects were looked at.
    pub looked_at: usize,
    /// Writes to clouds.
    cloud: usize,
    /// Writes to the cluster.
    cluster: usize,
    /// Notes of the host to itself.
    notes: usize,
    /// Objects of which something is not known.
    unknown: usize,
    more_may_follow: bool,
}

/// What is planned for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// One Node.
    #[default]
    Node,
    /// One Service.
    Service,
    /// The routes of all Nodes, by one provider.
    Routes,
    /// The cluster as a whole, by one provider.
    Cluster,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Node, Self::Service, Self::Routes, Self::Cluster];

    /// For people, and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Service => "Service",
            Self::Routes => "Routes",
            Self::Cluster => "Cluster",
        }
    }
}

/// What the host would do for one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPlan {
    /// What it is.
    pub kind: Kind,
    /// The name, of a Service with its namespace; of a provider for `Routes` and `Cluster`.
    pub name: String,
    /// What is decided and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// In their order.
    pub writes: Vec<Write>,
    /// Whether more may follow, of which nobody knows before the cloud has answered the last write.
    pub more_may_follow: bool,
    /// Why it is not known what the host would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "to")]
pub enum Write {
    /// Changes a cloud.
    Cloud {
        /// Name of the provider.
        provider: String,
        /// Name of its endpoint.
        endpoint: String,
        /// What the provider calls the request.
        operation: String,
        /// Of HTTP.
        method: &'static str,
        /// Path and query, after the base URL of the endpoint.
        path: String,
        /// As JSON where it is JSON; credentials are names.
        body: Value,
    },
    /// Changes the cluster.
    Cluster {
        /// Of HTTP.
        method: String,
        /// Of the API server.
        path: String,
        /// The patch, or the conditions of a deletion.
        body: Value,
    },
    /// A note of the host to itself in the cluster. Nobody waits for it.
    Note {
        /// Of HTTP.
        method: String,
        /// Of the API server.
        path: String,
        /// The patch.
        body: Value,
    },
}

impl Totals {
    /// Whether a cloud or the cluster would be changed. Notes of the host to itself do not count.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        self.cloud > 0 || self.cluster > 0
    }

    /// Whether something is not known.
    #[must_use]
    pub const fn has_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// Counts an object that was looked at.
    pub fn add(&mut self, object: &ObjectPlan) {
        let one_more = |count: &mut usize| *count = count.saturating_add(1);
        one_more(&mut self.looked_at);
        for write in &object.writes {
            one_more(match write {
                Write::Cloud { .. } => &mut self.cloud,
                Write::Cluster { .. } => &mut self.cluster,
                Write::Note { .. } => &mut self.notes,
            });
        }
        if object.unknown.is_some() {
            one_more(&mut self.unknown);
        }
        self.more_may_follow |= object.more_may_follow;
    }
}

impl ObjectPlan {
    /// Whether there is nothing to write, and all is known.
    pub(crate) const fn says_nothing(&self) -> bool {
        self.writes.is_empty() && self.unknown.is_none()
    }

    /// From what was decided, and what was stopped.
    pub(crate) fn new(kind: Kind, name: String, rehearsed: Rehearsed, stopped: Vec<Stopped>) -> Self {
        let mut writes: Vec<Write> = vec![];
        let mut more_may_follow = false;
        for one in stopped {
            match one {
                Stopped::Cloud(change) if !change.is_after_another => {
                    more_may_follow = true;
                    let write = Write::from(change);
                    // One that was refused is asked for in other ways, and tried again.
                    if !writes.contains(&write) {
                        writes.push(write);
                    }
                }
                Stopped::Cluster { method, path, body, makes_ready } if !more_may_follow => {
                    // People wait for that. Where it says that it is not ready, that is a failure, which is told as such.
                    let is_note = !makes_ready && is_note(&path, &body);
                    writes.push(match is_note {
                        true => Write::Note { method, path, body },
                        false => Write::Cluster { method, path, body },
                    });
                }
                // It follows from a refusal that there would not be.
                Stopped::Cloud(_) | Stopped::Cluster { .. } => {}
            }
        }
        let Rehearsed { decision, unknown } = rehearsed;
        // What failed is what was stopped.
        let unknown = unknown.filter(|_| !more_may_follow);
        Self { kind, name, decision, writes, more_may_follow, unknown }
    }
}

impl From<ForbiddenChange> for Write {
    fn from(change: ForbiddenChange) -> Self {
        let ForbiddenChange { provider, endpoint, method, target, body, operation, .. } = change;
        let body = match serde_json::from_str(&body) {
            _ if body.is_empty() => Value::Null,
            Ok(json) => json,
            Err(_) => Value::String(body),
        };
        Self::Cloud { provider, endpoint, operation, method, path: target, body }
    }
}

impl Write {
    /// Whether it deletes the object itself that it is planned for.
    pub(crate) fn deletes(&self, kind: Kind, name: &str) -> bool {
        let Self::Cluster { method, path, .. } = self else { return false };
        kind == Kind::Node && method == "DELETE" && *path == format!("/api/v1/nodes/{name}")
    }

    /// Where it goes, method, path and body.
    pub(crate) fn parts(&self) -> (&'static str, &str, String, &Value) {
        match self {
            Self::Cloud { provider, endpoint, method, path, body, .. } => {
                ("cloud", method, format!("{provider}/{endpoint} {path}"), body)
            }
            Self::Cluster { method, path, body } => ("cluster", method, path.clone(), body),
            Self::Note { method, path, body } => ("note", method, path.clone(), body),
        }
    }
}

/// On one line, without what moves a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|one| if is_plain(one) { one } else { ' ' }).collect()
}

/// Whether a write says something that only the host reads: conditions of a Service, or deletions in its ConfigMap.
fn is_note(path: &str, body: &Value) -> bool {
    let has_only = |value: Option<&Value>, known: &[&str]| {
        value.and_then(Value::as_object).is_none_or(|members| members.keys().all(|name| known.contains(&name.as_str())))
    };
    if path.contains("/configmaps/") {
        return true;
    }
    path.contains("/services/")
        && body.is_object()
        && has_only(Some(body), &["metadata", "status"])
        && has_only(body.get("metadata"), &["uid"])
        && has_only(body.get("status"), &["conditions"])
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { looked_at, cloud, cluster, notes, unknown, more_may_follow } = self;
        // Where the answer of a cloud is needed, nobody can count what comes after it.
        let least = if *more_may_follow { "at least " } else { "" };
        write!(
            f,
            "writes to clouds: {least}{cloud}, to the cluster: {least}{cluster}, notes of the host to itself: {notes}; not known: {unknown}"
        )?;
        write!(f, "; objects looked at: {looked_at}. Nothing was written.")
    }
}

impl fmt::Display for ObjectPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.kind.as_str(), self.name)?;
        if let Some(decision) = &self.decision {
            writeln!(f, "  {}", plain(decision))?;
        }
        for (place, write) in self.writes.iter().enumerate() {
            let (to, method, path, body) = write.parts();
            write!(f, "  {}. {to:<7} {method} {}", place.saturating_add(1), plain(&path))?;
            if !body.is_null() {
                write!(f, " {}", plain(&body.to_string()))?;
            }
            writeln!(f)?;
        }
        if self.more_may_follow {
            writeln!(f, "  {FOLLOWS}")?;
        }
        match &self.unknown {
            Some(why) => writeln!(f, "  not known: {}", plain(why)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(path: &str, body: Value) -> Stopped {
        Stopped::Cluster { method: "PATCH".to_owned(), path: path.to_owned(), body, makes_ready: false }
    }

    fn cloud(method: &'static str, body: &str, is_after_another: bool) -> Stopped {
        Stopped::Cloud(ForbiddenChange {
            provider: "ocean".to_owned(),
            endpoint: "api".to_owned(),
            method,
            target: "/v2/balancers".to_owned(),
            body: body.to_owned(),
            operation: "POST /v2/balancers".to_owned(),
            is_after_another,
        })
    }

    fn planned(rehearsed: Rehearsed, stopped: Vec<Stopped>) -> (ObjectPlan, Totals) {
        let mut totals = Totals::default();
        let object = ObjectPlan::new(Kind::Service, "default/web".to_owned(), rehearsed, stopped);
        totals.add(&object);
        (object, totals)
    }

    /// A condition that says why nothing was done, after a change that was only not sent, is none that the host would write.
    #[test]
    fn what_comes_after_a_change_of_a_cloud_is_not_known_and_not_shown() {
        let finalizer = json!({ "metadata": { "finalizers": ["f"] } });
        let stopped = vec![
            cluster("/api/v1/namespaces/default/services/web/status", finalizer.clone()),
            cloud("POST", r#"{"name":"web"}"#, false),
            cloud("POST", r#"{"name":"web"}"#, false),
            cloud("DELETE", "", true),
            cluster("/api/v1/namespaces/default/services/web/status", json!({ "status": { "loadBalancer": {} } })),
        ];
        let failed = Rehearsed { decision: Some("ensure it".to_owned()), unknown: Some("it was not sent".to_owned()) };
        let (object, totals) = planned(failed, stopped);
        assert!(totals.has_changes() && !totals.has_unknown());
        let told = format!("{object}\n{totals}");
        let wanted = "Service default/web\n  ensure it\n  \
                      1. cluster PATCH /api/v1/namespaces/default/services/web/status {\"metadata\":{\"finalizers\":[\"f\"]}}\n  \
                      2. cloud   POST ocean/api /v2/balancers {\"name\":\"web\"}\n  \
                      more writes may follow: what follows depends on the answer of the cloud\n\n\
                      writes to clouds: at least 1, to the cluster: at least 1, notes of the host to itself: 0; not known: 0; objects looked at: 1. \
                      Nothing was written.";
        assert_eq!(told, wanted);
        let json = serde_json::to_value(&object).unwrap();
        let cloud = json!({
            "to": "cloud", "provider": "ocean", "endpoint": "api", "operation": "POST /v2/balancers", "method": "POST",
            "path": "/v2/balancers", "body": { "name": "web" },
        });
        assert_eq!(json["writes"][1], cloud);
        assert_eq!(json["moreMayFollow"], true);
    }

    #[test]
    fn a_note_of_the_host_to_itself_is_shown_and_is_no_change() {
        let path = "/api/v1/namespaces/default/services/web/status";
        let note = json!({ "metadata": { "uid": "1" }, "status": { "conditions": [{ "type": "LoadBalancerReady" }] } });
        let (object, totals) = planned(Rehearsed::default(), vec![cluster(path, note)]);
        assert!(!totals.has_changes(), "{totals}");
        assert!(object.to_string().contains("1. note    PATCH"), "{object}");
        for more in [
            json!({ "metadata": { "uid": "1", "annotations": { "a": "b" } }, "status": { "conditions": [] } }),
            json!({ "metadata": { "uid": "1" }, "status": { "conditions": [], "loadBalancer": null } }),
            json!([{ "op": "remove", "path": "/metadata/finalizers/0" }]),
        ] {
            assert!(planned(Rehearsed::default(), vec![cluster(path, more.clone())]).1.has_changes(), "{more}");
        }
        let noted = cluster("/api/v1/namespaces/kube-system/configmaps/wasm-ccm", json!({ "data": { "a": "b" } }));
        assert!(!planned(Rehearsed::default(), vec![noted]).1.has_changes());
        let network = json!({ "status": { "conditions": [{ "type": "NetworkUnavailable" }] } });
        assert!(planned(Rehearsed::default(), vec![cluster("/api/v1/nodes/n1/status", network)]).1.has_changes());
    }

    #[test]
    fn no_text_of_others_moves_the_terminal() {
        let bad = "\u{1b}[2J\r\nService default/other\u{202e}";
        let rehearsed = Rehearsed { decision: Some(bad.to_owned()), unknown: Some(bad.to_owned()) };
        let told = planned(rehearsed, vec![cluster(bad, json!({ "a": bad }))]).0.to_string();
        assert!(!told.contains(['\u{1b}', '\r', '\u{202e}']), "{told:?}");
        assert_eq!(told.lines().filter(|line| line.starts_with("Service")).count(), 1, "{told:?}");
    }

    #[test]
    fn what_is_not_known_is_never_told_as_nothing() {
        let unknown = Rehearsed { decision: None, unknown: Some("the cloud said 401".to_owned()) };
        let (object, totals) = planned(unknown, vec![]);
        assert!(totals.has_unknown() && !totals.has_changes() && !object.says_nothing());
        assert!(object.to_string().contains("  not known: the cloud said 401\n"), "{object}");
        assert!(totals.to_string().starts_with("writes to clouds: 0, to the cluster: 0, "), "{totals}");
        let (object, totals) = planned(Rehearsed::default(), vec![]);
        assert!(object.says_nothing() && totals == Totals { looked_at: 1, ..Totals::default() });
    }
}
