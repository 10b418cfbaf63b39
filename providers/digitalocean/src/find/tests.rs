use ccm_sdk::http::TransportReason;
use ccm_sdk::testing::{FakeCloud, Reply};
use ccm_sdk::types::Reaction;

use super::*;

const LIST: &str = "api GET /v2/droplets?page=1&per_page=200";
const LIST_GPUS: &str = "api GET /v2/droplets?type=gpus&page=1&per_page=200";
const LOOK: &str = "api GET /v2/droplets?page=1&per_page=1";
const ONE: &str = "api GET /v2/droplets/123";

pub(crate) fn droplet(id: u64, name: &str) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "status": "active", "size_slug": "s-1vcpu", "region": {{"slug": "nyc3"}},
            "networks": {{"v4": [{{"ip_address": "10.0.{id}.1", "type": "private", "gateway": null}},
                                {{"ip_address": "203.0.{id}.1", "type": "public"}}], "v6": []}}}}"#
    )
}

pub(crate) fn list(droplets: &[String]) -> Reply {
    Reply::json(
        200,
        format!(r#"{{"droplets": [{}], "links": {{}}, "meta": {{"total": {}}}}}"#, droplets.join(","), droplets.len()),
    )
}

fn one(droplet: &str) -> Reply {
    Reply::json(200, format!(r#"{{"droplet": {droplet}}}"#))
}

fn not_found() -> Reply {
    Reply::json(404, r#"{"id": "not_found", "message": "The resource you were accessing could not be found."}"#)
}

fn node(name: &str, provider_id: Option<&str>) -> Node {
    Node { provider_id: provider_id.map(str::to_owned), ..Node::named(name) }
}

/// In a cluster without other Nodes.
fn find(nodes: &[Node], need: Need) -> Result<Vec<Finding>, Failure> {
    find::find(&Droplets, nodes, need, |_| Ok(nodes.iter().filter_map(|node| node.provider_id.clone()).collect()))
}

fn with_id() -> Node {
    node("n", Some("digitalocean://123"))
}

fn ask(node: Node, need: Need) -> Finding {
    find(&[node], need).expect("findings").remove(0)
}

fn found(finding: Finding) -> Instance {
    match finding {
        Finding::Found(instance) => instance,
        other => panic!("{other:?}"),
    }
}

fn unknown(finding: Finding) -> Failure {
    match finding {
        Finding::Unknown(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn values(instance: &Instance) -> Vec<(AddressType, &str)> {
    instance.addresses.iter().map(|address| (address.kind, address.value.as_str())).collect()
}

const V4: [(AddressType, &str); 3] =
    [(AddressType::Hostname, "n"), (AddressType::InternalIp, "10.0.123.1"), (AddressType::ExternalIp, "203.0.123.1")];

fn with_v6(droplet: &str) -> String {
    droplet.replace(r#""v6": []"#, r#""v6": [{"ip_address": "2604:a880::1", "netmask": 64, "type": "public"}]"#)
}

#[test]
fn do_006_007_008_269_existence_is_what_a_question_by_id_says() {
    let _cloud = FakeCloud::new().on(ONE, one(&droplet(123, "n")));
    assert_eq!(found(ask(with_id(), Need::Existence)).state, State::Running);
    let cloud = FakeCloud::new().always(ONE, not_found()).on(LOOK, list(&[droplet(1, "other")]));
    assert_eq!(ask(with_id(), Need::Existence), Finding::Absent);
    let shares: Vec<u32> = cloud.requests().iter().map(|request| request.share_ms).collect();
    assert_eq!(shares, [30_000, 0, 0], "an answer of another call is no proof");
    for (reply, reaction, after) in [
        (Reply::json(500, r#"{"id": "server_error", "message": "no"}"#), Reaction::Retry, None),
        (Reply::json(500, r#"{"id": "not_found", "message": "no"}"#), Reaction::Retry, None),
        (Reply::json(429, "{}").header("retry-after", "29"), Reaction::Throttled, Some(29_000)),
        (Reply::json(401, "{}"), Reaction::Unauthorized, None),
        (Reply::json(404, r#"{"message": "no route"}"#), Reaction::Retry, None),
        (Reply::status(404), Reaction::Retry, None),
        (Reply::json(200, r#"{"droplet": {"id""#), Reaction::Retry, None),
        (Reply::json(200, "<html>"), Reaction::Retry, None),
        (one(&droplet(124, "other")), Reaction::Retry, None),
        (Reply::lost(TransportReason::Timeout, true), Reaction::Retry, None),
    ] {
        for need in [Need::Existence, Need::Metadata, Need::Proof] {
            let _cloud = FakeCloud::new().on(ONE, reply.clone()).always(LOOK, list(&[droplet(1, "other")]));
            let failure = unknown(ask(with_id(), need));
            assert_eq!((failure.reaction, failure.retry_after_ms), (reaction, after), "{reply:?}");
            assert!(failure.message.starts_with("droplet 123 of node n: "), "{}", failure.message);
        }
    }
}

#[test]
fn do_009_only_a_droplet_that_is_off_is_stopped() {
    for (status, state) in [
        ("new", State::Other),
        ("active", State::Running),
        ("off", State::Stopped),
        ("archive", State::Other),
        ("a-word-of-tomorrow", State::Other),
    ] {
        let _cloud = FakeCloud::new().on(ONE, one(&droplet(123, "n").replace("active", status)));
        assert_eq!(found(ask(with_id(), Need::Existence)).state, state, "{status}");
    }
}

#[test]
fn do_010_011_017_027_028_metadata_by_id() {
    let dual = with_v6(&droplet(123, "n"));
    let mut four = V4.to_vec();
    four.push((AddressType::ExternalIp, "2604:a880::1"));
    let private = droplet(123, "n").replace("public", "other");
    for (body, addresses) in [(droplet(123, "n"), V4.to_vec()), (dual, four), (private, V4[..2].to_vec())] {
        let cloud = FakeCloud::new().on(ONE, one(&body));
        let instance = found(ask(with_id(), Need::Metadata));
        assert_eq!(values(&instance), addresses);
        let labels = (instance.provider_id.as_str(), instance.instance_type.as_str(), instance.region.as_str());
        assert_eq!((labels, instance.zone.as_str()), (("digitalocean://123", "s-1vcpu", "nyc3"), ""));
        assert_eq!(cloud.lines(), [ONE]);
    }
}

#[test]
fn do_012_013_metadata_of_what_is_gone_or_cannot_be_asked_is_no_metadata() {
    let _cloud = FakeCloud::new().always(ONE, not_found()).on(LOOK, list(&[droplet(1, "other")]));
    assert_eq!(ask(with_id(), Need::Metadata), Finding::Absent);
    // The shared answer was old, or the next one comes from elsewhere.
    let _cloud =
        FakeCloud::new().on(ONE, not_found()).on(ONE, one(&droplet(123, "n"))).on(LOOK, list(&[droplet(1, "other")]));
    assert_eq!(found(ask(with_id(), Need::Metadata)).provider_id, "digitalocean://123");
    let _cloud = FakeCloud::new().on(ONE, Reply::status(500));
    let told = unknown(ask(with_id(), Need::Metadata)).message;
    assert!(told.starts_with("droplet 123 of node n: ") && told.contains("GET /v2/droplets/{id}: 500"), "{told}");
}

#[test]
fn do_014_a_provider_id_that_is_none_costs_no_call() {
    let cloud = FakeCloud::new();
    let failure = unknown(ask(node("n", Some("digitalocean:/123")), Need::Metadata));
    assert_eq!((failure.reaction, failure.field.as_deref()), (Reaction::Invalid, Some("spec.providerID")));
    assert!(failure.message.contains("determining droplet ID from providerID"), "{}", failure.message);
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn do_015_016_023_024_029_without_private_address_there_is_no_metadata_but_it_exists() {
    let name = "api GET /v2/droplets?name=n&page=1&per_page=200";
    let droplet = droplet(123, "n");
    for body in [
        droplet.replace("networks", "nothing"),
        droplet.replace("private", "other"),
        r#"{"id": 123, "name": "n", "networks": null, "region": {"slug": "nyc3"}}"#.to_owned(),
    ] {
        for node in [with_id(), node("n", None)] {
            let cloud = || FakeCloud::new().on(ONE, one(&body)).on(name, list(std::slice::from_ref(&body)));
            let _cloud = cloud();
            let failure = unknown(ask(node.clone(), Need::Metadata));
            assert!(failure.message.contains("getting node addresses: could not get private ip"), "{failure:?}");
            let _cloud = cloud();
            assert_eq!(found(ask(node, Need::Existence)).addresses, []);
        }
    }
}

#[test]
fn a_droplet_without_region_waits_for_one() {
    let _cloud = FakeCloud::new().on(ONE, one(&droplet(123, "n").replace(r#"{"slug": "nyc3"}"#, "null")));
    assert!(unknown(ask(with_id(), Need::Metadata)).message.contains("no region"));
}

#[test]
fn do_018_019_025_metadata_by_name_has_the_provider_id() {
    let name = "api GET /v2/droplets?name=n&page=1&per_page=200";
    let private = droplet(123, "n").replace("public", "other");
    for (body, addresses) in [(droplet(123, "N"), 3), (with_v6(&droplet(123, "n")), 4), (private, 2)] {
        let cloud = FakeCloud::new().on(name, list(&[body]));
        let instance = found(ask(node("n", None), Need::Metadata));
        assert_eq!((instance.provider_id.as_str(), instance.addresses.len()), ("digitalocean://123", addresses));
        assert_eq!(cloud.lines(), [name]);
    }
}

#[test]
fn do_020_021_a_name_that_is_not_found_proves_nothing() {
    let name = "api GET /v2/droplets?name=n&page=1&per_page=200";
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        let _cloud = FakeCloud::new().on(name, list(&[])).on(LIST, list(&[])).on(LIST_GPUS, list(&[]));
        let failure = unknown(ask(node("n", None), need));
        assert!(failure.message.contains("getting droplet by name"), "{}", failure.message);
        let _cloud = FakeCloud::new().on(name, Reply::status(500));
        let failure = unknown(ask(node("n", None), need));
        assert_eq!(failure.reaction, Reaction::Retry);
        let told = failure.message;
        assert!(told.starts_with("droplet of node n: ") && told.contains("GET /v2/droplets: 500"), "{told}");
    }
}

#[test]
fn do_022_of_two_droplets_with_one_name_neither_is_taken() {
    let name = "api GET /v2/droplets?name=n&page=1&per_page=200";
    let _cloud = FakeCloud::new().on(name, list(&[droplet(1, "n"), droplet(2, "n")]));
    let failure = unknown(ask(node("n", None), Need::Metadata));
    assert_eq!(failure.reaction, Reaction::Conflict);
    assert!(failure.message.contains("droplets 1, 2 have the name \"n\""), "{}", failure.message);
}

/// Such a Node was never initialised, although the other manager had always known its droplet.
#[test]
fn of_two_droplets_whose_names_differ_in_case_the_one_that_is_called_as_the_node_is_taken() {
    let two = || list(&[droplet(1, "Web-1"), droplet(2, "web-1")]);
    let named = "api GET /v2/droplets?name=web-1&page=1&per_page=200";
    let _cloud = FakeCloud::new().always(LIST, two()).always(named, two()).always(LIST_GPUS, list(&[]));
    assert_eq!(found(ask(node("web-1", None), Need::Metadata)).provider_id, "digitalocean://2");
    assert_eq!(ids_by_name(&["web-1"]), Ok(vec![Some(2)]));
    assert_eq!(regions_of_names(&["web-1".to_owned()]).map(|regions| regions.len()), Ok(1));
    // Of two in other cases neither is likelier.
    let two = || list(&[droplet(1, "WEB-1"), droplet(2, "Web-1")]);
    let _cloud = FakeCloud::new().always(LIST, two()).always(named, two()).always(LIST_GPUS, list(&[]));
    let told = unknown(ask(node("web-1", None), Need::Metadata)).message;
    assert!(told.contains("rename all but one"), "{told}");
    assert_eq!(ids_by_name(&["web-1"]), Ok(vec![None]));
}

#[test]
fn regions_of_a_few_names_cost_a_question_each_and_a_droplet_that_is_in_none_yet_tells_none() {
    let nowhere = |droplet: String| droplet.replace(r#"{"slug": "nyc3"}"#, "null");
    for (count, questions) in [(4, 4), (5, 1)] {
        let names: Vec<String> = (1..=count).map(|id| format!("n{id}")).collect();
        let all: Vec<String> = (1..=count).map(|id| droplet(id, &format!("n{id}"))).collect();
        let all = list(&[&all[1..], &[nowhere(all[0].clone())]].concat());
        let cloud = FakeCloud::new().always("api GET /v2/droplets", all);
        assert_eq!(regions_of_names(&names), Ok(["nyc3".to_owned()].into()));
        assert_eq!(cloud.lines().len(), questions, "{count}");
    }
}

#[test]
fn of_several_reasons_why_regions_are_not_known_the_first_is_told() {
    let _cloud = FakeCloud::new().on(ONE, Reply::status(500)).on("api GET /v2/droplets/124", Reply::status(502));
    let (regions, open) = regions_of(&[123, 124]).expect("they are asked");
    assert!(regions.is_empty() && open.is_some_and(|failure| failure.message.contains("droplet 123")));
}

#[test]
fn do_026_036_a_node_may_be_named_by_an_address() {
    for name in ["10.0.5.1", "203.0.5.1", "2604:a880::1"] {
        let cloud = FakeCloud::new()
            .always("api GET /v2/droplets", list(&[]))
            .on(LIST, list(&[with_v6(&droplet(5, "five")), droplet(6, "six")]));
        assert_eq!(found(ask(node(name, None), Need::Metadata)).provider_id, "digitalocean://5");
        assert_eq!(cloud.lines().len(), 3, "by name, all, those with GPUs");
        assert!(cloud.requests().iter().all(|request| request.share_ms == 30_000), "answers of other calls will do");
    }
}

#[test]
fn do_030_267_many_nodes_are_one_listing_whose_links_nobody_follows() {
    let page = |from: u64| {
        let droplets: Vec<String> = (from..from + 200).map(|id| droplet(id, &format!("n{id}"))).collect();
        let next = r#""links": {"pages": {"next": "https://api.digitalocean.com/v2/droplets?page=9"}}"#;
        Reply::json(200, format!(r#"{{"droplets": [{}], {next}, "meta": {{"total": 1000}}}}"#, droplets.join(",")))
    };
    let line = |number: u64| format!("api GET /v2/droplets?page={number}&per_page=200");
    let mut cloud = FakeCloud::new();
    for number in 1..=5 {
        cloud = cloud.on(&line(number), page((number - 1) * 200 + 1));
    }
    let nodes: Vec<Node> = (1..=1_000).map(|id| node(&format!("n{id}"), None)).collect();
    let ids: Vec<String> =
        find(&nodes, Need::Metadata).expect("findings").into_iter().map(|f| found(f).provider_id).collect();
    assert_eq!(ids, (1..=1_000).map(provider_id::format).collect::<Vec<_>>());
    assert_eq!(cloud.lines(), [1, 2, 3, 4, 5].map(line));
    assert!(cloud.requests().iter().all(|request| request.share_ms == 30_000));
}

#[test]
fn do_268_a_page_without_items_although_there_should_be_more_fails_the_listing() {
    let empty = r#"{"droplets": [], "links": {"pages": {"next": "https://x/?page=2"}}, "meta": {"total": 43}}"#;
    let cloud = FakeCloud::new().always("api GET /v2/droplets", Reply::json(200, empty));
    let nodes: Vec<Node> = (1..=5).map(|id| node(&format!("n{id}"), None)).collect();
    assert_eq!(find(&nodes, Need::Metadata).map_err(|failure| failure.reaction), Err(Reaction::Retry));
    assert_eq!(cloud.lines(), [LIST, LIST], "a look at the first page, then the listing, which share an answer");
}

#[test]
fn what_a_listing_does_not_show_is_asked_for_by_id_since_it_leaves_out_some() {
    let nodes: Vec<Node> = (1..=6).map(|id| node(&format!("n{id}"), Some(&provider_id::format(id)))).collect();
    let shown: Vec<String> = (1..=3).map(|id| droplet(id, "x")).collect();
    let cloud = FakeCloud::new()
        .always(LIST, list(&shown))
        .on(LIST_GPUS, list(&[droplet(4, "gpu")]))
        .on("api GET /v2/droplets/5", one(&droplet(5, "not-listed-yet")))
        .always("api GET /v2/droplets/6", not_found())
        .on("api GET /v2/droplets/1", one(&droplet(1, "x")));
    let findings = find(&nodes, Need::Existence).expect("findings");
    assert!(findings[..5].iter().all(|finding| matches!(finding, Finding::Found(_))), "{findings:?}");
    assert_eq!(findings[5], Finding::Absent);
    assert_eq!((cloud.lines().len(), cloud.unused()), (7, vec![]));
}

#[test]
fn few_nodes_among_many_droplets_of_others_are_asked_for_one_by_one() {
    let foreign = |total: usize| {
        let body =
            format!(r#"{{"droplets": [{}, {}], "meta": {{"total": {total}}}}}"#, droplet(1, "n1"), droplet(99, "x"));
        Reply::json(200, body)
    };
    let nodes: Vec<Node> =
        (1..=6).map(|id| node(&format!("n{id}"), (id != 6).then(|| provider_id::format(id)).as_deref())).collect();
    // Fifteen more pages, and five Nodes that are not on the first.
    let mut cloud = FakeCloud::new().on(LIST, foreign(3_200));
    for id in 2..=5 {
        cloud = cloud.on(&format!("api GET /v2/droplets/{id}"), one(&droplet(id, "any")));
    }
    let cloud = cloud.on("api GET /v2/droplets?name=n6&page=1&per_page=200", list(&[droplet(6, "n6")]));
    let findings = find(&nodes, Need::Metadata).expect("findings");
    let ids: Vec<String> = findings.into_iter().map(|finding| found(finding).provider_id).collect();
    assert_eq!(ids, (1..=6).map(provider_id::format).collect::<Vec<_>>());
    assert_eq!((cloud.lines().len(), cloud.unused()), (6, vec![]));
    assert!(cloud.requests().iter().all(|request| request.share_ms == 30_000));
    // Four more: a listing costs less.
    let cloud = FakeCloud::new().always("api GET /v2/droplets", foreign(1_000));
    assert!(find(&nodes, Need::Metadata).is_err(), "the listing is cut here");
    assert_eq!(cloud.lines()[..2], [LIST, LIST]);
}

#[test]
fn most_that_a_listing_does_not_show_waits_so_that_a_short_one_does_not_cost_the_quota() {
    let nodes: Vec<Node> = (1..=1_000).map(|id| node("n", Some(&provider_id::format(id)))).collect();
    let cloud = FakeCloud::new().always("api GET /v2/droplets", list(&[]));
    let findings = find(&nodes, Need::Existence).expect("findings");
    assert!(findings.iter().all(|finding| matches!(finding, Finding::Unknown(_))));
    assert_eq!(cloud.lines().len(), 2 + find::MOST_SINGLE);
}

#[test]
fn a_proof_needs_a_token_that_still_sees_the_account() {
    let cloud = FakeCloud::new().on(ONE, not_found()).on(LOOK, list(&[droplet(1, "other")]));
    assert_eq!(ask(with_id(), Need::Proof), Finding::Absent);
    assert_eq!(cloud.batches(), [2], "one question, and no answer of another call");
    let nothing = list(&[]);
    for reply in [nothing, Reply::json(401, "{}"), Reply::status(500), Reply::lost(TransportReason::Connect, false)] {
        let _cloud = FakeCloud::new().on(ONE, not_found()).on(LOOK, reply);
        assert!(unknown(ask(with_id(), Need::Proof)).message.contains("proves nothing"));
    }
}

#[test]
fn in_a_huge_account_what_is_not_read_yet_is_asked_about_in_a_moment_and_by_nobody_else() {
    let page = |number: u64| {
        let shown: Vec<String> =
            ((number - 1) * 200 + 1..=number * 200).map(|id| droplet(id, &format!("n{id}"))).collect();
        Reply::json(200, format!(r#"{{"droplets": [{}], "meta": {{"total": 4000}}}}"#, shown.join(",")))
    };
    let mut cloud = FakeCloud::new();
    for number in 1..=20 {
        cloud = cloud.always(&format!("api GET /v2/droplets?page={number}&per_page=200"), page(number));
    }
    let own = (0..500).map(|at| at * 8 + 1);
    let nodes: Vec<Node> =
        own.map(|id| node(&format!("n{id}"), (id % 3 == 0).then(|| provider_id::format(id)).as_deref())).collect();
    let findings = find(&nodes, Need::Metadata).expect("findings");
    for (node, finding) in nodes.iter().zip(findings) {
        let read: u64 = node.name.trim_start_matches('n').parse().expect("its number");
        if read <= 12 * 200 {
            assert_eq!(found(finding).provider_id, provider_id::format(read));
        } else {
            let failure = unknown(finding);
            assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Pending, Some(1_000)));
        }
    }
    assert_eq!(cloud.lines().len(), 1 + 12);
    let findings = find(&nodes, Need::Metadata).expect("findings");
    assert!(findings.into_iter().all(|finding| matches!(finding, Finding::Found(_))));
    assert_eq!(cloud.lines().len(), 1 + 12 + 1 + 8, "the rest, and nothing by name or ID");
}

#[test]
fn do_279_fifty_nodes_in_trouble_cost_one_request_for_all_and_its_answer_is_shared() {
    let all: Vec<String> = (1..=150).map(|id| droplet(id, &format!("n{id}")).replace("active", "off")).collect();
    let cloud = FakeCloud::new().on(LIST, list(&all));
    let nodes: Vec<Node> = (1..=50).map(|id| node(&format!("n{id}"), Some(&provider_id::format(id)))).collect();
    let findings = find(&nodes, Need::Existence).expect("findings");
    assert!(findings.into_iter().all(|finding| found(finding).state == State::Stopped));
    assert_eq!((cloud.lines(), cloud.requests()[0].share_ms), (vec![LIST.to_owned()], 30_000));
}

/// What a proof says of droplet 123 in a cluster with these others.
fn proof_beside(others: &[&str]) -> Finding {
    let others = || others.iter().map(|&id| id.to_owned()).collect();
    find::find(&Droplets, &[with_id()], Need::Proof, |_| Ok(others())).expect("findings").remove(0)
}

fn get(id: u64) -> String {
    format!("api GET /v2/droplets/{id}")
}

#[test]
fn a_missing_droplet_is_gone_to_a_token_that_sees_another_of_the_cluster_and_that_costs_no_request_more() {
    let cloud = FakeCloud::new().on(ONE, not_found()).on(&get(7), one(&droplet(7, "other")));
    assert_eq!(proof_beside(&["digitalocean://7", "digitalocean://8"]), Finding::Absent);
    assert_eq!((cloud.lines(), cloud.batches()), (vec![ONE.to_owned(), get(7)], vec![2]));
    assert!(cloud.requests().iter().all(|request| request.share_ms == 0), "no answer of another call");
    // Some others may just have gone as well.
    let cloud = FakeCloud::new().on(ONE, not_found()).on(&get(7), not_found()).on(&get(8), one(&droplet(8, "other")));
    assert_eq!(proof_beside(&["digitalocean://7", "digitalocean://8"]), Finding::Absent);
    assert_eq!(cloud.lines(), [ONE.to_owned(), get(7), get(8)]);
    // One that is asked about in the same call is another as well.
    let nodes = [with_id(), node("m", Some("digitalocean://124"))];
    let _cloud =
        FakeCloud::new().on(ONE, not_found()).on(&get(124), one(&droplet(124, "m"))).on(&get(7), Reply::status(500));
    let findings =
        find::find(&Droplets, &nodes, Need::Proof, |_| Ok(vec!["digitalocean://7".to_owned()])).expect("findings");
    assert!(matches!(findings.as_slice(), [Finding::Absent, Finding::Found(_)]), "{findings:?}");
}

#[test]
fn to_the_token_of_another_account_nothing_is_gone_whatever_droplets_that_has() {
    let ids: Vec<String> = (7..=20).map(provider_id::format).collect();
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    let cloud = (7..=11).fold(FakeCloud::new().on(ONE, not_found()), |cloud, id| cloud.on(&get(id), not_found()));
    let failure = unknown(proof_beside(&all));
    assert!(failure.message.contains("proves nothing: the credentials see no other droplet"), "{}", failure.message);
    assert_eq!((failure.reaction, cloud.lines().len()), (Reaction::Retry, 1 + 5), "some are enough");
    let cloud = FakeCloud::new().on(ONE, not_found()).on(&get(7), Reply::json(401, "{}")).on(&get(8), not_found());
    assert_eq!(unknown(proof_beside(&all[..2])).reaction, Reaction::Unauthorized);
    assert_eq!(cloud.unused(), Vec::<String>::new());
    let _cloud = FakeCloud::new().on(ONE, not_found()).on(LOOK, list(&[droplet(1, "other")]));
    let blind = find::find(&Droplets, &[with_id()], Need::Proof, |_| Err("the Nodes are not known yet".to_owned()));
    let failure = unknown(blind.expect("findings").remove(0));
    assert!(failure.message.contains("proves nothing: the Nodes are not known yet"), "{}", failure.message);
}

/// Each has no other beside it, and still none is alone.
#[test]
fn all_nodes_of_a_cluster_at_once_are_not_gone_because_the_token_sees_droplets_of_somebody() {
    let ids: Vec<String> = (1..=3).map(provider_id::format).collect();
    let nodes: Vec<Node> = ids.iter().map(|id| node("n", Some(id))).collect();
    let proof =
        |known: &[String]| find::find(&Droplets, &nodes, Need::Proof, |_| Ok(known.to_vec())).expect("findings");
    // The Nodes that the host knows may be fewer by now.
    for known in [&ids[..], &ids[..1], &[]] {
        let cloud = (1..=3).fold(FakeCloud::new(), |cloud, id| cloud.on(&get(id), not_found()));
        let _cloud = cloud.always(LOOK, list(&[droplet(99, "other")]));
        for finding in proof(known) {
            let failure = unknown(finding);
            assert!(failure.message.contains("proves nothing: "), "{}", failure.message);
            assert_eq!(failure.reaction, Reaction::Retry);
        }
    }
    // One that is there is enough.
    let cloud = FakeCloud::new().on(&get(1), not_found()).on(&get(2), not_found()).on(&get(3), one(&droplet(3, "n")));
    assert!(matches!(proof(&ids).as_slice(), [Finding::Absent, Finding::Absent, Finding::Found(_)]));
    assert_eq!(cloud.lines().len(), 3);
}

#[test]
fn a_node_that_the_host_does_not_know_is_not_taken_for_the_only_one() {
    for known in [&[][..], &["digitalocean://", "other://7"]] {
        let _cloud = FakeCloud::new().on(ONE, not_found()).always(LOOK, list(&[droplet(1, "other")]));
        assert!(unknown(proof_beside(known)).message.contains("proves nothing"), "{known:?}");
    }
}

#[test]
fn itself_and_what_is_no_droplet_are_no_others_of_the_cluster() {
    let cloud = FakeCloud::new().on(ONE, not_found()).on(LOOK, list(&[droplet(1, "other")]));
    assert_eq!(proof_beside(&["digitalocean://123", "digitalocean://", "other://7"]), Finding::Absent);
    assert_eq!(cloud.lines(), [ONE, LOOK]);
}
