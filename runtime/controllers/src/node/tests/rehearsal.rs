//! The work on one Node for a plan: what is decided, and that nothing which is not known passes for nothing to do.

use std::sync::Arc;

use ccm_cloud::{Failure, Finding, Reaction};
use serde_json::json;

use super::{Bench, GET, OBJECT, STATUS};
use crate::node::NodeRehearsal;
use crate::rehearsal::Rehearsed;
use crate::testing::{Draft, FakeApi, address, found, node};

/// What a plan says of the Node, and the API server.
async fn rehearsed(draft: Draft, answer: Finding, api: impl FnOnce(&FakeApi)) -> (Rehearsed, FakeApi) {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [answer]);
    bench.add(draft);
    api(&bench.api);
    let rehearsal = NodeRehearsal::of(Arc::new(bench.syncer));
    (rehearsal.rehearse("node0").await, bench.api)
}

fn unknown(reaction: Reaction) -> Finding {
    Finding::Unknown(Failure::new(reaction, "what the cloud said"))
}

/// Initialised, and as the cloud has it.
fn settled() -> (Draft, Finding) {
    let draft = node("node0").provider_id("fake://node0").address("InternalIP", "10.0.0.1");
    (draft, found(|instance| instance.addresses = vec![address(ccm_cloud::AddressKind::InternalIp, "10.0.0.1")]))
}

/// What stands in the way.
type Setup = fn(&FakeApi);

#[tokio::test(start_paused = true)]
async fn a_new_node_is_initialised_unless_its_machine_is_nobodys_here() {
    let (told, api) = rehearsed(node("node0").tainted(), found(|_| ()), |_| {}).await;
    assert_eq!(told, Rehearsed::decided("initialise the Node"));
    assert_eq!(api.lines(), [STATUS, OBJECT]);
    for (draft, reaction, why) in [
        (node("node0").tainted(), Reaction::Elsewhere, "no provider here knows its machine"),
        (node("node0").tainted().provider_id("other://1"), Reaction::Invalid, "no provider here has this provider ID"),
    ] {
        let (told, api) = rehearsed(draft, unknown(reaction), |_| {}).await;
        assert_eq!(told, Rehearsed::decided(format!("do nothing: {why}")));
        assert_eq!(api.lines(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_node_of_which_the_cloud_or_the_api_server_says_too_little_is_not_known() {
    let new = || node("node0").tainted();
    let cases: [(Finding, Setup, &str); 4] = [
        (Finding::Absent, |_| {}, "the cloud has no machine for node node0"),
        (unknown(Reaction::Unauthorized), |_| {}, "what the cloud said"),
        (found(|_| ()), |api| api.refuse(OBJECT, 409, 100), "cannot write the Node"),
        (found(|_| ()), |api| api.refuse(STATUS, 403, 1), "cannot write the Node"),
    ];
    for (answer, script, why) in cases {
        let (told, _) = rehearsed(new(), answer, script).await;
        assert!(told.decision.is_none() && told.unknown.as_ref().is_some_and(|told| told.contains(why)), "{told:?}");
    }
}

/// Another writer between the read and the rehearsal: the Node is read again, and decided anew.
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_meanwhile_is_decided_by_its_newest_state() {
    let script = |api: &FakeApi| {
        api.script(STATUS, |state| {
            state.edit("node0", &json!({ "spec": { "taints": null } }));
            None
        });
    };
    let (_, api) = rehearsed(node("node0").tainted(), found(|_| ()), script).await;
    assert_eq!(api.lines(), [STATUS, GET], "somebody else has initialised it");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_as_it_should_be_has_nothing_to_decide() {
    let (draft, answer) = settled();
    let (told, api) = rehearsed(draft, answer, |_| {}).await;
    assert_eq!((told, api.lines()), (Rehearsed::default(), vec![]));
    let bench = Bench::new();
    assert_eq!(NodeRehearsal::of(Arc::new(bench.syncer)).rehearse("gone").await, Rehearsed::default());
}

#[tokio::test(start_paused = true)]
async fn an_initialised_node_has_its_labels_and_its_addresses_corrected_or_is_not_known() {
    let stale = || settled().0.label("beta.kubernetes.io/instance-type", "t1");
    let moved = || found(|instance| instance.addresses = vec![address(ccm_cloud::AddressKind::InternalIp, "10.0.0.2")]);
    let (told, api) = rehearsed(settled().0, moved(), |_| {}).await;
    assert_eq!((told, api.lines()), (Rehearsed::default(), vec![STATUS.to_owned()]));
    let (told, api) = rehearsed(stale(), settled().1, |_| {}).await;
    assert_eq!((told, api.lines()), (Rehearsed::default(), vec![OBJECT.to_owned()]));

    let cases: [(Draft, Finding, Setup, &str); 3] = [
        (stale(), settled().1, |api| api.refuse(OBJECT, 409, 1), "its labels cannot be decided"),
        (settled().0, moved(), |api| api.refuse(STATUS, 409, 100), "cannot write the Node"),
        (settled().0, unknown(Reaction::Retry), |_| {}, "what the cloud said"),
    ];
    for (draft, answer, script, why) in cases {
        let (told, _) = rehearsed(draft, answer, script).await;
        assert!(told.unknown.as_ref().is_some_and(|told| told.contains(why)), "{told:?}");
    }
    let (told, _) = rehearsed(settled().0, unknown(Reaction::Elsewhere), |_| {}).await;
    assert_eq!(told, Rehearsed::default());
    let foreign = settled().0.provider_id("other://1");
    let (told, _) = rehearsed(foreign, unknown(Reaction::Invalid), |_| {}).await;
    assert_eq!(told, Rehearsed::decided("do nothing: no provider here has this provider ID"));
}

/// It was not looked at before, so nothing but the list of all Nodes says whose machine it is.
#[tokio::test(start_paused = true)]
async fn a_new_node_does_not_get_the_machine_of_a_node_that_was_not_looked_at_yet() {
    let mut bench = Bench::keeping_apart();
    bench.cloud.answer("node0", [found(|instance| instance.provider_id = "fake://taken".to_owned())]);
    bench.add(node("other").provider_id("fake://taken"));
    bench.add(node("node0").tainted());
    let told = NodeRehearsal::of(Arc::new(bench.syncer)).rehearse("node0").await;
    assert!(told.unknown.as_ref().is_some_and(|why| why.contains("which is that of node other")), "{told:?}");
    assert_eq!(bench.api.lines(), [""; 0]);
}
