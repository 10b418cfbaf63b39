//! Cases 81 to 105 as tables: what a Node is, what the cloud says, what comes of it.
//!
//! Upstream has two paths to a cloud and runs each case on both; here there is one. The first of such a pair runs with one
//! provider, the second among several.

use ccm_cloud::{Finding, InstanceState, Reaction};
use serde_json::{Value, json};

use super::{Bench, DELETING, OLD, unknown};
use crate::node_lifecycle::NodeLifecycleSettings;
use crate::testing::{found, node};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Unchanged,
    Deleted,
    Tainted,
}
use Fate::{Deleted, Tainted, Unchanged};

struct Row {
    case: u32,
    /// Status of the condition Ready; none when there is no such condition.
    ready: Option<&'static str>,
    provider_id: bool,
    cloud: Finding,
    outcome: Fate,
    providers: usize,
}

fn row(ready: Option<&'static str>, cloud: Finding, outcome: Fate) -> Row {
    Row { case: 0, ready, provider_id: true, cloud, outcome, providers: 1 }
}

impl Row {
    fn among_several(self) -> Self {
        Self { providers: 3, ..self }
    }

    fn without_provider_id(self) -> Self {
        Self { provider_id: false, ..self }
    }
}

fn running() -> Finding {
    found(|_| ())
}

fn stopped() -> Finding {
    found(|instance| instance.state = InstanceState::Stopped)
}

fn error() -> Finding {
    unknown(Reaction::Retry)
}

fn absent() -> Finding {
    Finding::Absent
}

/// Runs a row for three looks, and says what came of it.
async fn outcome(row: &Row, settings: NodeLifecycleSettings) -> Fate {
    let case = row.case;
    let mut bench = Bench::among(row.providers, settings);
    bench.cloud.answer("node0", [row.cloud.clone()]);
    let mut draft = node("node0").aged(OLD).tainted();
    if let Some(ready) = row.ready {
        draft = draft.ready(ready);
    }
    if row.provider_id {
        draft = draft.provider_id("fake://12345");
    }
    bench.add(draft);
    let before = bench.api.json("node0");
    bench.syncs("node0", 3).await;
    let asked = bench.cloud.calls().len();
    assert_eq!(asked == 0, row.ready == Some("True"), "case {case}: a Ready Node is never asked about");
    let events = bench.events().await;
    // 105: every Event says what kind of object it is about.
    for event in bench.api.raw_events() {
        let about = json!({ "apiVersion": "v1", "kind": "Node", "name": "node0", "uid": "uid-node0" });
        assert_eq!(event["regarding"], about, "case {case}");
        assert_eq!(event["reportingController"], "cloud-node-lifecycle-controller", "case {case}");
    }
    if !bench.api.has("node0") {
        assert_eq!(events, [DELETING], "case {case}");
        return Deleted;
    }
    assert_eq!(events, [""; 0], "case {case}");
    let after = bench.api.json("node0");
    if after == before { Unchanged } else { tainted(case, before, &after) }
}

/// The taint is the only difference.
fn tainted(case: u32, mut before: Value, after: &Value) -> Fate {
    let taint = json!({ "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule" });
    before["spec"]["taints"].as_array_mut().unwrap().push(taint);
    before["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    assert_eq!(&before, after, "case {case}");
    Tainted
}

#[tokio::test(start_paused = true)]
async fn cases_81_to_93_deletion() {
    let (no, unknown, yes) = (Some("False"), Some("Unknown"), Some("True"));
    let rows = [
        Row { case: 81, ..row(no, absent(), Deleted) },
        Row { case: 82, ..row(no, absent(), Deleted).among_several() },
        Row { case: 83, ..row(no, error(), Unchanged) },
        Row { case: 84, ..row(no, error(), Unchanged).among_several() },
        Row { case: 85, ..row(no, running(), Unchanged) },
        Row { case: 86, ..row(no, running(), Unchanged).among_several() },
        Row { case: 87, ..row(unknown, absent(), Deleted) },
        Row { case: 88, ..row(unknown, absent(), Deleted).among_several() },
        Row { case: 89, ..row(unknown, running(), Unchanged) },
        Row { case: 90, ..row(unknown, running(), Unchanged).among_several() },
        Row { case: 91, ..row(yes, absent(), Unchanged) },
        Row { case: 92, ..row(yes, absent(), Unchanged).among_several() },
        Row { case: 93, ..row(None, absent(), Deleted) },
    ];
    for row in rows {
        assert_eq!(outcome(&row, NodeLifecycleSettings::default()).await, row.outcome, "case {}", row.case);
    }
}

/// 98 and 100 with the flag for upstream's behaviour; without it the Node stays. Existence and state are one answer here, so 101,
/// 102, 104 and 114 are 81, 87 and 83 once more.
#[tokio::test(start_paused = true)]
async fn cases_96_to_103_and_case_105_shutdown_and_provider_id() {
    let (no, yes) = (Some("False"), Some("True"));
    let rows = [
        Row { case: 96, ..row(no, stopped(), Tainted) },
        Row { case: 97, ..row(no, stopped(), Tainted).without_provider_id() },
        Row { case: 98, ..row(no, absent(), Deleted).without_provider_id() },
        Row { case: 99, ..row(no, error(), Unchanged).without_provider_id() },
        Row { case: 100, ..row(no, absent(), Deleted).without_provider_id().among_several() },
        Row { case: 103, ..row(yes, stopped(), Unchanged) },
    ];
    for row in rows {
        let upstream = NodeLifecycleSettings { delete_without_provider_id: true, ..NodeLifecycleSettings::default() };
        assert_eq!(outcome(&row, upstream).await, row.outcome, "case {}", row.case);
        let deviates = !row.provider_id && row.outcome == Deleted;
        let wanted = if deviates { Unchanged } else { row.outcome };
        assert_eq!(outcome(&row, NodeLifecycleSettings::default()).await, wanted, "case {}, by default", row.case);
    }
}

/// 106 and 107: the provider ID of the Node goes to the cloud as it is. 110: without one nothing is made up.
#[tokio::test(start_paused = true)]
async fn case_106_case_107_case_110_the_cloud_is_asked_about_the_provider_id_of_the_node() {
    let rows = [(106, Some("fake://own"), 1), (107, Some("fake:///zone/own"), 3), (110, None, 1)];
    for (case, id, providers) in rows {
        let mut bench = Bench::among(providers, NodeLifecycleSettings::default());
        bench.cloud.answer("node0", [found(|instance| instance.provider_id = "fake://other".into())]);
        let draft = node("node0").aged(OLD).ready("False");
        bench.add(id.map_or(draft.clone(), |id| draft.provider_id(id)));
        bench.sync("node0").await;
        let asked = bench.cloud.calls()[0][0].provider_id.clone();
        assert_eq!(asked.as_deref(), id, "case {case}");
        assert_eq!(bench.api.calls(), [], "case {case}");
    }
}
