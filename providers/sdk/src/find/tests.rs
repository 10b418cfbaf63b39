mod pages;

use super::*;
use crate::cloud::Cloud;
use crate::instances::State;
use crate::paging::Paging;
use crate::testing::{FakeCloud, Reply};
use crate::types::Reaction;

crate::records! {
    #[derive(Debug, Clone)]
    struct Server {
        id: String [id],
        name: String,
        zone: String,
    }
}

const CLOUD: Cloud = Cloud::new("api");
const LIST: &str = "api GET /servers";
const LOOK: &str = "api GET /servers?limit=1";
const PAGING: Paging = Paging::offset("offset", "limit", 50).items("/servers");

/// A cloud whose IDs are of any case, and whose names may be longer than those of Nodes.
struct Servers;

impl Machines for Servers {
    type Machine = Server;
    const NOUN: &'static str = "server";

    fn id_of(&self, provider_id: &str) -> Result<String, String> {
        let id = provider_id.strip_prefix("my:///");
        id.map(str::to_owned).ok_or_else(|| format!("{provider_id} is not like my:///ID"))
    }

    fn get(&self, id: &str) -> Request {
        CLOUD.get("/servers/{id}").arg("id", id)
    }

    fn got(&self, answer: Answer) -> Result<Option<Server>, Failure> {
        answer.optional()?.map(|answer| answer.json_at("/server")).transpose()
    }

    fn all(&self) -> Result<Listed<Server>, Failure> {
        CLOUD.get("/servers").share(Self::SHARE).list(PAGING).map(Listed::whole)
    }

    fn named(&self, name: &str) -> Result<Vec<Server>, Failure> {
        CLOUD.get("/servers").query("name", name).list(PAGING)
    }

    fn names(&self, server: &Server) -> Vec<String> {
        vec![format!("={}", server.name), server.name.to_ascii_lowercase()]
    }

    /// Exactly, then whatever the case, then without the domain.
    fn keys(&self, node: &str) -> Vec<String> {
        let host = node.split('.').next().unwrap_or_default();
        vec![format!("={node}"), node.to_ascii_lowercase(), host.to_ascii_lowercase()]
    }

    fn look(&self) -> Request {
        CLOUD.get("/servers").query("limit", 1)
    }

    fn any(&self, answer: Answer) -> Result<bool, Failure> {
        answer.json_at::<Vec<Server>>("/servers").map(|servers| !servers.is_empty())
    }

    fn instance(&self, server: &Server, need: Need) -> Result<Instance, Failure> {
        if need == Need::Metadata && server.zone.is_empty() {
            return Err(Failure::retry("it has no zone yet"));
        }
        Ok(Instance { zone: server.zone.clone(), ..Instance::new(format!("my:///{}", server.id), State::Running) })
    }
}

fn server(id: &str, name: &str) -> String {
    format!(r#"{{"id": "{id}", "name": "{name}", "zone": "z"}}"#)
}

fn list(servers: &[String]) -> Reply {
    Reply::json(200, format!(r#"{{"servers": [{}]}}"#, servers.join(",")))
}

fn one(server: &str) -> Reply {
    Reply::json(200, format!(r#"{{"server": {server}}}"#))
}

fn gone() -> Reply {
    Reply::json(404, "{}")
}

fn get(id: &str) -> String {
    format!("api GET /servers/{id}")
}

fn node(name: &str, id: &str) -> Node {
    let provider_id = (!id.is_empty()).then(|| format!("my:///{id}"));
    Node { provider_id, ..Node::named(name) }
}

/// In a cluster with these others.
fn found(nodes: &[Node], need: Need, others: &[&str]) -> Vec<String> {
    found_in(&Servers, nodes, need, others)
}

fn found_in<C: Machines>(cloud: &C, nodes: &[Node], need: Need, others: &[&str]) -> Vec<String> {
    let others = || others.iter().map(|id| format!("my:///{id}")).collect();
    let findings = find(cloud, nodes, need, |_| Ok(others())).expect("findings");
    let words = findings.into_iter().map(|finding| match finding {
        Finding::Found(instance) => instance.provider_id,
        Finding::Absent => "absent".to_owned(),
        Finding::Unknown(failure) => failure.message,
    });
    words.collect()
}

#[test]
fn a_few_nodes_are_asked_for_one_by_one_and_together() {
    let cloud = FakeCloud::new().on(&get("1"), one(&server("1", "a"))).on(&get("2"), Reply::status(500));
    let nodes = [node("a", "1"), node("b", "2"), node("c", "elsewhere")];
    let mut nodes = nodes.to_vec();
    nodes[2].provider_id = Some("other://3".to_owned());
    assert_eq!(
        found(&nodes, Need::Existence, &[]),
        [
            "my:///1",
            "server 2 of node b: GET /servers/{id}: 500",
            "server of node c: determining server ID from providerID: other://3 is not like my:///ID",
        ]
    );
    assert_eq!(cloud.batches(), [2]);
}

#[test]
fn four_nodes_are_few_and_five_are_many() {
    for (count, lines) in [(4, 4), (5, 1)] {
        let ids: Vec<String> = (1..=count).map(|id: usize| id.to_string()).collect();
        let all: Vec<String> = ids.iter().map(|id| server(id, "n")).collect();
        let cloud = FakeCloud::new().always(LIST, list(&all));
        let cloud = ids.iter().fold(cloud, |cloud, id| cloud.always(&get(id), one(&server(id, "n"))));
        let nodes: Vec<Node> = ids.iter().map(|id| node("n", id)).collect();
        assert_eq!(found(&nodes, Need::Existence, &[]).len(), count);
        assert_eq!(cloud.lines().len(), lines, "{count}");
    }
}

/// A Node of a kubelet without one may have an empty provider ID.
#[test]
fn an_empty_provider_id_is_none() {
    let cloud = FakeCloud::new().on(LIST, list(&[server("1", "web")]));
    let empty = Node { provider_id: Some(String::new()), ..Node::named("web") };
    assert_eq!(found(&[empty], Need::Metadata, &[]), ["my:///1"]);
    assert_eq!(cloud.lines(), ["api GET /servers?name=web&limit=50&offset=0"]);
}

#[test]
fn many_nodes_are_one_listing_and_the_rest_is_asked_for_by_id() {
    let listed: Vec<String> = (1..=5).map(|id| server(&id.to_string(), &format!("n{id}"))).collect();
    let cloud = FakeCloud::new().on(LIST, list(&listed)).on(&get("9"), one(&server("9", "new")));
    let nodes = [node("x", "1"), node("n2", ""), node("x", "9"), node("N4.cluster.example", ""), node("nobody", "")];
    let words = found(&nodes, Need::Metadata, &[]);
    assert_eq!(words[..4], ["my:///1", "my:///2", "my:///9", "my:///4"]);
    assert!(words[4].starts_with("server of node nobody: getting server by name: no server has"), "{}", words[4]);
    assert_eq!(cloud.lines().len(), 2);
}

#[test]
fn the_best_key_counts_and_of_two_with_one_name_neither_is_taken() {
    let cloud = || FakeCloud::new().always(LIST, list(&[server("1", "web"), server("2", "Web"), server("3", "DB")]));
    let _cloud = cloud();
    assert_eq!(found(&[node("web", "")], Need::Metadata, &[]), ["my:///1"], "exactly");
    assert_eq!(found(&[node("db", "")], Need::Metadata, &[]), ["my:///3"], "in another case");
    assert_eq!(
        found(&[node("WEB", "")], Need::Metadata, &[]),
        ["server of node WEB: servers 1, 2 have the name \"WEB\"; give the Node its provider ID with the kubelet's \
             --provider-id, or rename all but one"]
    );
}

#[test]
fn metadata_may_wait_and_existence_does_not() {
    let bare = r#"{"id": "1", "name": "a"}"#;
    let _cloud = FakeCloud::new().always(&get("1"), one(bare));
    assert_eq!(found(&[node("a", "1")], Need::Metadata, &[]), ["server 1 of node a: it has no zone yet"]);
    assert_eq!(found(&[node("a", "1")], Need::Existence, &[]), ["my:///1"]);
}

#[test]
fn an_answer_about_another_machine_is_none_and_case_makes_no_other() {
    let _cloud = FakeCloud::new().on(&get("ab"), one(&server("AB", "a"))).on(&get("2"), one(&server("3", "b")));
    assert_eq!(
        found(&[node("a", "ab"), node("b", "2")], Need::Existence, &[]),
        ["my:///AB", "server 2 of node b: asked for server 2, the answer is about server 3"]
    );
}

#[test]
fn gone_is_what_the_cloud_says_in_this_call_to_credentials_that_see_another_of_the_cluster() {
    let cloud = FakeCloud::new().always(&get("1"), gone()).on(&get("7"), gone()).on(&get("8"), one(&server("8", "b")));
    assert_eq!(found(&[node("a", "1")], Need::Existence, &["1", "7", "8"]), ["absent"]);
    let shares: Vec<u32> = cloud.requests().iter().map(|request| request.share_ms).collect();
    assert_eq!(shares, [30_000, 0, 0, 0], "only the first look takes an answer of another call");
    assert_eq!(cloud.batches(), [1, 2, 1]);
}

/// However many they are: neither a listing nor an answer of another call proves that one is there.
#[test]
fn a_proof_asks_for_each_by_its_id_now_and_for_another_beside_them() {
    let most = MOST_SINGLE + 5;
    let mut cloud = FakeCloud::new().on(&get("x"), one(&server("x", "other")));
    for id in 1..most {
        cloud = cloud.on(&get(&id.to_string()), one(&server(&id.to_string(), "n")));
    }
    cloud = cloud.on(&get(&most.to_string()), gone());
    let nodes: Vec<Node> = (1..=most).map(|id| node("n", &id.to_string())).collect();
    let words = found(&nodes, Need::Proof, &["x"]);
    assert_eq!((words[0].as_str(), words[most - 1].as_str()), ("my:///1", "absent"));
    assert_eq!(cloud.batches(), [most + 1]);
    assert!(cloud.requests().iter().all(|request| request.share_ms == 0));
}

#[test]
fn beside_one_that_is_there_others_are_gone_without_any_further_question() {
    let cloud = FakeCloud::new().on(&get("1"), gone()).on(&get("2"), one(&server("2", "b")));
    assert_eq!(found(&[node("a", "1"), node("b", "2")], Need::Proof, &["1", "2"]), ["absent", "my:///2"]);
    assert_eq!(cloud.batches(), [2]);
}

#[test]
fn a_proof_takes_the_word_of_five_others_and_of_no_more() {
    let others: Vec<String> = (10..20).map(|id: usize| id.to_string()).collect();
    let cloud = others.iter().fold(FakeCloud::new(), |cloud, id| cloud.always(&get(id), gone())).on(&get("1"), gone());
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let words = found(&[node("a", "1")], Need::Proof, &others).remove(0);
    assert!(words.ends_with("are they those of another account or team?"), "{words}");
    assert_eq!(cloud.batches(), [2, 4]);
}

#[test]
fn a_proof_asks_the_host_for_five_nodes_more_than_are_in_doubt_and_says_why_it_knows_none() {
    let _cloud = FakeCloud::new().always(&get("1"), gone()).always(&get("2"), gone());
    let asked = std::cell::Cell::new(0);
    let others = |most| {
        asked.set(most);
        Err("the host does not know the Nodes yet".to_owned())
    };
    let findings = find(&Servers, &[node("a", "1"), node("b", "2")], Need::Proof, others).expect("findings");
    assert_eq!(asked.get(), 7);
    for finding in findings {
        let Finding::Unknown(failure) = finding else { panic!("{finding:?}") };
        assert!(failure.message.ends_with("proves nothing: the host does not know the Nodes yet"), "{failure:?}");
    }
}

#[test]
fn credentials_of_another_account_prove_nothing() {
    let unproven = "server 1 of node a: that it is missing proves nothing: the credentials see no ";
    let cloud = || FakeCloud::new().always(&get("1"), gone()).always(&get("7"), gone());
    for (others, look, expected) in [
        (&["1", "7"][..], list(&[server("9", "somebody's")]), format!("{unproven}other server of the cluster's Nodes")),
        (&["1"], list(&[]), format!("{unproven}server at all")),
        (&["1"], list(&[server("9", "x")]), "absent".to_owned()),
        (&[], list(&[server("9", "x")]), "server 1 of node a: that it is missing proves nothing: no other".to_owned()),
    ] {
        let _cloud = cloud().always(LOOK, look);
        let words = found(&[node("a", "1")], Need::Proof, others).remove(0);
        assert!(words.starts_with(&expected), "{others:?}: {words}");
    }
}

#[test]
fn what_else_is_missing_is_gone_where_the_credentials_see_the_cluster() {
    let seen = |ids: &[&str]| {
        let ids = ids.iter().map(|id| format!("my:///{id}")).collect();
        sees_the_cluster(&Servers, |_| Ok(ids)).map_err(|failure| failure.reaction)
    };
    let _cloud = FakeCloud::new()
        .always(&get("1"), gone())
        .always(&get("2"), one(&server("2", "b")))
        .always(&get("3"), Reply::json(401, "{}"));
    assert_eq!((seen(&[]), seen(&["2"]), seen(&["1", "2"])), (Ok(()), Ok(()), Ok(())));
    assert_eq!((seen(&["1"]), seen(&["1", "3"])), (Err(Reaction::Retry), Err(Reaction::Unauthorized)));
    assert!(sees_the_cluster(&Servers, |_| Err("not known yet".to_owned())).is_err());
    let asked = std::cell::Cell::new(0);
    let others = |most| {
        asked.set(most);
        Ok(vec![])
    };
    assert_eq!((sees_the_cluster(&Servers, others), asked.get()), (Ok(()), 6), "one and five more");
}

/// The others fail in other ways where the first is refused, and say less about why.
#[test]
fn of_several_failures_the_first_one_is_told() {
    let _cloud = FakeCloud::new().on(&get("1"), Reply::json(401, "{}")).always(&get("2"), Reply::status(500));
    let ids = ["my:///1", "my:///2"].map(str::to_owned).to_vec();
    assert_eq!(
        sees_the_cluster(&Servers, |_| Ok(ids)).map_err(|failure| failure.reaction),
        Err(Reaction::Unauthorized)
    );
}

#[test]
fn most_that_a_listing_does_not_show_waits_for_the_next_call() {
    let cloud = FakeCloud::new().on(LIST, list(&[]));
    let nodes: Vec<Node> = (0..100).map(|id| node("n", &id.to_string())).collect();
    let words = found(&nodes, Need::Existence, &[]);
    assert_eq!(cloud.lines().len(), 1 + MOST_SINGLE);
    assert_eq!(words[99], "server 99 of node n: asked about in the next call");
}
