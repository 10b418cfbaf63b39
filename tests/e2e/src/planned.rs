//! What `wasm-ccm plan --output=json` said to a test.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

use std::fmt::{self, Debug, Formatter};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::Instant;

/// A plan.
pub struct Planned {
    /// Exit code; none after a signal.
    pub code: Option<i32>,
    /// Of the standard output.
    pub text: String,
    /// Of the standard error.
    pub error: String,
}

impl Planned {
    /// Asks for it.
    pub async fn of(command: &mut Command, limit: Duration) -> Self {
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(limit, ended).await.unwrap().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), text: text(output.stdout), error: text(output.stderr) }
    }

    /// Whether what is there is stable: nothing is to be written, not even a note of the host to itself, and all is known.
    pub fn is_empty(&self) -> bool {
        self.changes_nothing() && self.objects().is_empty()
    }

    /// Whether nothing of the cluster or the cloud is to be changed, and all is known. There may be notes.
    pub fn changes_nothing(&self) -> bool {
        (self.code, self.error.as_str()) == (Some(0), "")
    }

    /// The objects, each with its kind and name.
    pub fn objects(&self) -> Vec<(String, Value)> {
        let plan: Value = serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        let of = |object: &Value| (format!("{} {}", object["kind"], object["name"]).replace('"', ""), object.clone());
        plan["objects"].as_array().unwrap().iter().map(of).collect()
    }

    /// The one with this kind and name.
    pub fn object(&self, name: &str) -> Value {
        let found = self.objects().into_iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no {name}: {self:?}")).1
    }

    /// Writes to the cluster and to the cloud, with method and path; no notes.
    pub fn writes(&self, name: &str) -> Vec<String> {
        let object = self.object(name);
        let writes = object["writes"].as_array().unwrap().iter().filter(|write| write["to"] != "note");
        writes.map(|write| format!("{} {} {}", write["to"], write["method"], write["path"]).replace('"', "")).collect()
    }
}

/// The first plan that is wanted while nobody changes the cloud, else the last one; and how many changes the cloud had then. Of what the host
/// writes again and again, a plan between two writes knows nothing.
///
/// # Panics
///
/// The cloud still changes after `limit`.
pub async fn at_rest<P: Debug>(
    limit: Duration,
    changes: impl Fn() -> usize,
    plan: impl AsyncFn() -> P,
    is_wanted: impl Fn(&P) -> bool,
) -> (P, usize) {
    let begun = Instant::now();
    loop {
        let before = changes();
        let planned = plan().await;
        let is_over = begun.elapsed() > limit;
        if is_over || before == changes() && is_wanted(&planned) {
            assert_eq!(before, changes(), "somebody changes the cloud all the time: {planned:?}");
            return (planned, before);
        }
    }
}

impl Debug for Planned {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}{}", self.code, self.text, self.error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    fn planned(code: i32, objects: &Value) -> Planned {
        Planned { code: Some(code), text: json!({ "objects": objects }).to_string(), error: String::new() }
    }

    /// A host that wrote a note at each start would have a plan with code 0 each time.
    #[test]
    fn a_plan_with_a_note_is_not_empty() {
        let note =
            json!([{ "kind": "Node", "name": "n1", "writes": [{ "to": "note", "method": "PATCH", "path": "/x" }] }]);
        assert!(planned(0, &json!([])).is_empty());
        assert!(!planned(0, &note).is_empty());
        assert_eq!(planned(0, &note).writes("Node n1"), [""; 0]);
        assert!(!planned(3, &json!([])).is_empty());
        assert!(!Planned { error: "warning".to_owned(), ..planned(0, &json!([])) }.is_empty());
    }

    /// The plans take a second each, and are empty from the third on. The cloud has changed this often after so many.
    async fn rests(changes: impl Fn(usize) -> usize) -> (usize, usize) {
        let plans = AtomicUsize::new(0);
        let plan = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            plans.fetch_add(1, Ordering::Relaxed) + 1
        };
        let changes = || changes(plans.load(Ordering::Relaxed));
        at_rest(Duration::from_secs(60), changes, plan, |number| *number >= 3).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_is_at_rest_when_nothing_is_planned_and_nothing_happens() {
        assert_eq!(rests(|_| 7).await, (3, 7));
        assert_eq!(rests(|plans| plans.min(5)).await, (6, 5), "the host has just written");
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "somebody changes the cloud all the time")]
    async fn a_host_that_writes_without_end_is_not_at_rest() {
        rests(|plans| plans).await;
    }
}
