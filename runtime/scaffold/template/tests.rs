//! What a Node gets, with a cloud that is made of a script. Its requests are named by endpoint, method, path and query.

use ccm_sdk::find;
use ccm_sdk::instances::{Finding, Need, State};
use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::{Node, Reaction};

use crate::machines::Machines;

const WORKER: &str = r#"{"id": "7", "name": "worker-1", "size": "small", "zone": "north-1", "region": "north",
    "status": "on", "private_ip": "10.0.0.7"}"#;

fn found(node: Node) -> Finding {
    found_for(node, Need::Metadata)
}

fn found_for(node: Node, need: Need) -> Finding {
    let others = |_most| -> Result<Vec<String>, String> { Ok(vec!["mycloud://1".to_owned()]) };
    let mut findings = find::find(&Machines, &[node], need, others).expect("one finding");
    findings.remove(0)
}

fn with_id(id: &str) -> Node {
    Node { provider_id: Some(id.to_owned()), ..Node::named("worker-1") }
}

#[test]
fn a_new_node_gets_the_machine_of_its_name() {
    let list = format!(r#"{{"machines": [{WORKER}], "total": 1}}"#);
    let cloud = FakeCloud::new().on("api GET /v1/machines", Reply::json(200, list));
    let Finding::Found(instance) = found(Node::named("worker-1")) else { panic!("not found: {:?}", cloud.lines()) };
    assert_eq!((instance.provider_id.as_str(), instance.zone.as_str()), ("mycloud://7", "north-1"));
    assert_eq!(cloud.lines(), ["api GET /v1/machines?name=worker-1&page=1&per_page=200"]);
    let request = cloud.requests().remove(0);
    let token = request.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| text(value));
    assert_eq!(token.as_deref(), Some("Bearer <token>"), "the host puts the token in its place");
}

#[test]
fn a_machine_is_gone_when_the_cloud_says_so_and_the_account_still_has_another_one() {
    let (asked, look) = ("api GET /v1/machines/7", "api GET /v1/machines/1");
    let gone = || Reply::json(404, r#"{"message": "no such machine"}"#);
    let other = format!(r#"{{"machine": {}}}"#, WORKER.replace("\"7\"", "\"1\""));
    let cloud = FakeCloud::new().always(asked, gone()).always(look, Reply::json(200, other));
    assert!(matches!(found(with_id("mycloud://7")), Finding::Absent), "{:?}", cloud.lines());

    // With the token of another account, all machines are missing: that proves nothing.
    let none = Reply::json(200, r#"{"machines": [], "total": 0}"#);
    let cloud = FakeCloud::new().always(asked, gone()).always(look, gone()).always("api GET /v1/machines", none);
    assert!(matches!(found(with_id("mycloud://7")), Finding::Unknown(_)), "{:?}", cloud.lines());
}

#[test]
fn a_machine_without_an_address_is_there_and_a_new_node_waits_for_it() {
    let machine = WORKER.replace("10.0.0.7", "").replace("\"on\"", "\"off\"");
    let reply = Reply::json(200, format!(r#"{{"machine": {machine}}}"#));
    let _cloud = FakeCloud::new().always("api GET /v1/machines/7", reply);
    let Finding::Found(instance) = found_for(with_id("mycloud://7"), Need::Existence) else { panic!("not found") };
    assert_eq!((instance.state, instance.addresses.len()), (State::Stopped, 1));
    assert!(matches!(found(with_id("mycloud://7")), Finding::Unknown(_)));
}

#[test]
fn a_cloud_that_does_not_answer_says_nothing_about_a_machine() {
    let _cloud = FakeCloud::new().always("api GET /v1/machines/7", Reply::status(503));
    let Finding::Unknown(failure) = found(with_id("mycloud://7")) else { panic!("something is known") };
    assert_eq!(failure.reaction, Reaction::Retry);
}
