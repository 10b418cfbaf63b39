//! The work on one Node that may be deleted, for a plan: no deletion by mistake, and none that is kept silent.

use ccm_cloud::{Finding, InstanceState, Need, Reaction};

use super::*;
use crate::node_lifecycle::NodeLifecycleRehearsal;
use crate::node_lifecycle::journal::{Journal, JournalPlace};
use crate::rehearsal::Rehearsed;
use crate::testing::found;

/// What a plan says of node0, and the API server.
async fn rehearsed(draft: Draft, findings: &[Finding], change: impl FnOnce(&mut Bench)) -> (Rehearsed, FakeApi) {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", findings.iter().cloned());
    bench.add(draft);
    change(&mut bench);
    let rehearsal = NodeLifecycleRehearsal::of(Arc::new(bench.syncer)).await;
    (rehearsal.rehearse("node0").await, bench.api)
}

#[track_caller]
fn assert_unknown(told: &Rehearsed, part: &str) {
    assert!(told.decision.is_none() && told.unknown.as_ref().is_some_and(|why| why.contains(part)), "{told:?}");
}

fn deletions(api: &FakeApi) -> usize {
    api.count("DELETE")
}

#[tokio::test(start_paused = true)]
async fn a_node_is_deleted_only_where_the_cloud_says_twice_that_its_machine_is_gone() {
    let (told, api) = rehearsed(lost("node0"), &[Finding::Absent], |_| {}).await;
    assert_eq!(told, Rehearsed::decided("the cloud said twice that its machine does not exist"));
    assert_eq!(deletions(&api), 1);
    // One answer is none.
    let (told, api) = rehearsed(lost("node0"), &[Finding::Absent, found(|_| ())], |_| {}).await;
    assert_eq!((told, deletions(&api), api.has("node0")), (Rehearsed::default(), 0, true));
    let (told, api) = rehearsed(lost("node0"), &[Finding::Absent, unknown(Reaction::Throttled)], |_| {}).await;
    assert_unknown(&told, "what the cloud said");
    assert_eq!(deletions(&api), 0);
    let (told, api) = rehearsed(lost("node0"), &[unknown(Reaction::Unauthorized)], |_| {}).await;
    assert_unknown(&told, "what the cloud said");
    assert_eq!(deletions(&api), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_young_or_nobodys_here_is_not_deleted_whatever_the_cloud_says() {
    for draft in [lost("node0").ready("True"), lost("node0").provider_id("other://1")] {
        let (told, api) = rehearsed(draft, &[Finding::Absent], |_| {}).await;
        assert_eq!((told, deletions(&api)), (Rehearsed::default(), 0));
    }
    let (told, api) = rehearsed(lost("node0").aged(1), &[Finding::Absent], |_| {}).await;
    assert_unknown(&told, "it is not Ready and younger than 60s");
    assert_eq!(deletions(&api), 0);
    let unclaimed = node("node0").aged(OLD).ready("Unknown");
    let (told, api) = rehearsed(unclaimed.clone(), &[unknown(Reaction::Elsewhere)], |_| {}).await;
    assert_eq!((told, deletions(&api)), (Rehearsed::default(), 0));
    let (told, api) = rehearsed(unclaimed, &[Finding::Absent], |_| {}).await;
    let leave = "leave the Node: the cloud does not know its machine, and it has no provider ID";
    assert_eq!((told, deletions(&api)), (Rehearsed::decided(leave), 0));
}

/// It is Ready by the time of the second proof.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_again_at_the_api_server_is_not_deleted() {
    let (told, api) = rehearsed(lost("node0"), &[Finding::Absent], |bench| {
        bench.api.script(DELETE, |state| {
            state.edit("node0", &ready("True"));
            None
        });
    })
    .await;
    assert_eq!((told, api.has("node0")), (Rehearsed::default(), true));
}

/// `run` would delete it later: that must not pass for nothing to do.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_has_to_wait_or_is_not_taken_is_said() {
    let budget = DeletionBudget { percent: 0, min: 0, ..DeletionBudget::default() };
    let (told, api) =
        rehearsed(lost("node0"), &[Finding::Absent], |bench| bench.syncer.budget = Deletions::new(budget, [].into()))
            .await;
    assert_unknown(
        &told,
        "its machine is gone, and its deletion has to wait: no more than 0 of the 1 Nodes of fake are deleted",
    );
    assert_eq!(deletions(&api), 0);
    for code in [409, 403, 500] {
        let (told, _) = rehearsed(lost("node0"), &[Finding::Absent], |bench| bench.api.refuse(DELETE, code, 100)).await;
        assert_unknown(&told, "the API server did not take the deletion of the Node");
    }
}

#[tokio::test(start_paused = true)]
async fn without_what_was_deleted_before_no_node_is_judged_that_is_not_ready() {
    let place =
        || JournalPlace { namespace: "kube-system".into(), config_map: "wasm-ccm".into(), manager: "ccm".into() };
    let silenced = |bench: &mut Bench| {
        let gate = bench.syncer.writer.gate.clone();
        bench.syncer.journal = Some(Journal::new(gate, place(), Duration::from_secs(600)));
        bench.api.refuse("GET /api/v1/namespaces/kube-system/configmaps/wasm-ccm", 500, 1);
    };
    let (told, api) = rehearsed(lost("node0"), &[Finding::Absent], silenced).await;
    assert_unknown(&told, "it is not known which Nodes were deleted lately");
    assert_eq!(deletions(&api), 0);
    let (told, _) = rehearsed(lost("node0").ready("True"), &[Finding::Absent], silenced).await;
    assert_eq!(told, Rehearsed::default());
}

/// A plan is made once. It has no time to see whether the API server has just started.
#[tokio::test(start_paused = true)]
async fn whose_plan_may_not_read_events_is_told_of_deletions_all_the_same() {
    let events = "GET /apis/events.k8s.io/v1/namespaces/default/events";
    let (told, _) = rehearsed(lost("node0"), &[Finding::Absent], |bench| bench.api.refuse(events, 403, 1)).await;
    assert_eq!(told, Rehearsed::decided("the cloud said twice that its machine does not exist"));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_to_be_written_is_written_or_said_not_to_be_known() {
    let stopped = || found(|instance| instance.state = InstanceState::Stopped);
    let tainted = || lost("node0").taint("node.cloudprovider.kubernetes.io/shutdown");
    for (draft, answer, patches) in [
        (lost("node0"), stopped(), 1),
        (tainted(), stopped(), 0),
        (tainted(), found(|_| ()), 1),
        (tainted().ready("True"), found(|_| ()), 1),
        (lost("node0"), found(|_| ()), 0),
    ] {
        let (told, api) = rehearsed(draft.clone(), std::slice::from_ref(&answer), |_| {}).await;
        assert_eq!((told, api.count("PATCH")), (Rehearsed::default(), patches), "{:?}", draft.0);
        if patches > 0 {
            let (told, _) = rehearsed(draft, &[answer], |bench| bench.api.refuse(PATCH, 409, 100)).await;
            assert_unknown(&told, "its shutdown taint is wrong, and could not be corrected (conflict)");
        }
    }
}

/// Among the first proofs of several, each has its own second one.
#[tokio::test(start_paused = true)]
async fn deletions_of_one_plan_count_against_the_limit() {
    let mut bench = Bench::new();
    for name in ["n0", "n1", "n2", "n3"] {
        bench.cloud.answer(name, [Finding::Absent]);
        bench.add(lost(name));
    }
    let cloud = Arc::clone(&bench.cloud);
    let rehearsal = NodeLifecycleRehearsal::of(Arc::new(bench.syncer)).await;
    let mut held = vec![];
    for name in ["n0", "n1", "n2", "n3"] {
        held.push(rehearsal.rehearse(name).await.unknown.is_some());
    }
    assert_eq!((deletions(&bench.api), held), (2, vec![false, false, true, true]), "of 4");
    assert_eq!(cloud.needs().iter().filter(|need| **need == Need::Proof).count(), 2);
}
