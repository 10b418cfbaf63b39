mod lists;

use ccm_sdk::paging::Paging;
use ccm_sdk::testing::{FakeCloud, Reply, text};

use super::catalogue::{Entry, Place, has_version, url, versioned};
use super::*;

fn fake() -> FakeCloud {
    FakeCloud::new().with_credential(SESSION_TOKEN)
}

fn failure(service: Service, reply: Reply) -> Failure {
    let _cloud = fake().on(&format!("{} GET /x", service.kind), reply);
    service.get("/x").send().and_then(Answer::done).expect_err("it is refused")
}

/// Bodies as the services give them.
#[test]
fn refusals_have_their_reaction_and_the_words_of_the_service() {
    let neutron = |kind: &str, message: &str| {
        format!(r#"{{"NeutronError": {{"type": "{kind}", "message": "{message}", "detail": ""}}}}"#)
    };
    let octavia = |text: &str| format!(r#"{{"faultcode": "Client", "faultstring": "{text}", "debuginfo": null}}"#);
    for (service, status, body, reaction, words) in [
        (
            NEUTRON,
            409,
            neutron("OverQuota", "Quota exceeded for resources: ['floatingip']."),
            Reaction::Quota,
            "Quota exceeded",
        ),
        (
            NEUTRON,
            409,
            neutron("IpAddressGenerationFailure", "No more IP addresses available"),
            Reaction::Quota,
            "No more",
        ),
        (NEUTRON, 400, neutron("RoutesExhausted", "too many"), Reaction::Quota, "too many"),
        (NEUTRON, 412, neutron("RevisionNumberConstraintFailed", "stale"), Reaction::Conflict, "stale"),
        (NEUTRON, 403, neutron("PolicyNotAuthorized", "not allowed"), Reaction::Unauthorized, "not allowed"),
        (NEUTRON, 404, neutron("ExternalGatewayForFloatingIPNotFound", "no gateway"), Reaction::Retry, "no gateway"),
        (
            OCTAVIA,
            403,
            octavia("Quota has been met for resources: Load Balancer"),
            Reaction::Quota,
            "Quota has been met",
        ),
        (OCTAVIA, 409, octavia("Load Balancer x is immutable and cannot be updated."), Reaction::Pending, "immutable"),
        (
            OCTAVIA,
            409,
            octavia("Invalid state PENDING_UPDATE of loadbalancer resource x"),
            Reaction::Pending,
            "PENDING_UPDATE",
        ),
        (
            OCTAVIA,
            409,
            octavia("Another Listener on this Load Balancer is already using"),
            Reaction::Conflict,
            "Another",
        ),
        (OCTAVIA, 501, octavia("not supported"), Reaction::Unsupported, "not supported"),
        (
            NOVA,
            413,
            r#"{"overLimit": {"code": 413, "message": "This request was rate-limited."}}"#.to_owned(),
            Reaction::Quota,
            "rate-limited",
        ),
        (
            NOVA,
            403,
            r#"{"forbidden": {"code": 403, "message": "Policy does not allow it"}}"#.to_owned(),
            Reaction::Unauthorized,
            "Policy",
        ),
        (
            BARBICAN,
            500,
            r#"{"code": 500, "title": "Server", "description": "broken"}"#.to_owned(),
            Reaction::Retry,
            "broken",
        ),
        (NOVA, 503, "<html>".to_owned(), Reaction::Retry, "503"),
    ] {
        let told = failure(service, Reply::json(status, body));
        assert!(told.message.contains(words), "{}", told.message);
        assert_eq!(told.reaction, reaction, "{}", told.message);
    }
    let limited = Reply::json(413, r#"{"overLimit": {"code": 413, "message": "slow"}}"#).header("retry-after", "7");
    let told = failure(NOVA, limited);
    assert_eq!((told.reaction, told.retry_after_ms), (Reaction::Throttled, Some(7_000)));
}

#[test]
fn os_174_only_a_service_itself_says_that_something_is_not_there() {
    let absent = |service: Service, status: u16, body: &str| {
        let _cloud = fake().on(&format!("{} GET /x", service.kind), Reply::json(status, body));
        service.get("/x").send().and_then(Answer::optional).map(|answer| answer.is_none())
    };
    let not_found = r#"{"itemNotFound": {"code": 404, "message": "Instance x could not be found."}}"#;
    assert_eq!(absent(NOVA, 404, not_found), Ok(true));
    assert_eq!(absent(NEUTRON, 404, r#"{"NeutronError": {"type": "PortNotFound", "message": "x"}}"#), Ok(true));
    assert_eq!(
        absent(OCTAVIA, 404, r#"{"faultcode": "Client", "faultstring": "Load Balancer x not found."}"#),
        Ok(true)
    );
    assert_eq!(
        absent(BARBICAN, 404, r#"{"code": 404, "title": "Not Found", "description": "Secret not found."}"#),
        Ok(true)
    );
    // A gateway, a service that does not know the path, or another trouble.
    for (status, body) in [
        (404, r#"{"message": "no route matched"}"#),
        (404, r#"{"message": "The resource could not be found.", "code": "404 Not Found", "title": "Not Found"}"#),
        (
            404,
            r#"{"NeutronError": {"type": "HTTPNotFound", "message": "The resource could not be found.", "detail": ""}}"#,
        ),
        (404, r#"{"NeutronError": {"type": "ExternalGatewayForFloatingIPNotFound", "message": "x"}}"#),
        // What the web framework of Octavia and of Barbican says of a path, in the form in which they speak of a thing.
        (404, r#"{"faultcode": "Client", "faultstring": "The resource could not be found.", "debuginfo": null}"#),
        (404, r#"{"code": 404, "title": "Not Found", "description": "The resource could not be found."}"#),
        (404, "<html>"),
        (404, ""),
        (500, not_found),
        (503, not_found),
        (403, not_found),
    ] {
        for service in SERVICES {
            assert!(absent(service, status, body).is_err(), "{}: {status} {body}", service.kind);
        }
    }
}

#[test]
fn the_token_stands_in_its_header_and_the_version_before_the_path_where_the_url_has_none() {
    let cloud = fake()
        .always("network GET /ports", Reply::json(200, "{}"))
        .on("network GET /v2.0/ports", Reply::json(200, "{}"));
    assert!(NEUTRON.get("/ports").send().is_ok());
    let request = cloud.requests().remove(0);
    let token = request.headers.iter().find(|(name, _)| name == "x-auth-token").map(|(_, value)| text(value));
    assert_eq!((token.as_deref(), request.operation.as_str()), (Some("<session-token>"), "GET /v2.0/ports"));
    for (base, path) in
        [("https://net", "/v2.0/ports"), ("https://net/v2.0", "/ports"), ("https://net/x/v2.0/", "/ports")]
    {
        NEUTRON.cloud.bind(base).expect("it is bound");
        assert!(NEUTRON.get("/ports").send().is_ok());
        let request = cloud.requests().pop().expect("a request");
        assert_eq!((request.path.as_str(), request.operation.as_str()), (path, "GET /v2.0/ports"), "{base}");
    }
}

#[test]
fn os_212_a_version_that_the_catalogue_has_already_is_there_once() {
    for (service, told, bound) in [
        (NEUTRON, "https://net/v2.0/", "https://net/v2.0"),
        (NEUTRON, "https://net:9696", "https://net:9696/v2.0"),
        (NEUTRON, "https://net/networking/", "https://net/networking/v2.0"),
        (OCTAVIA, "https://lb/v2.0", "https://lb/v2.0"),
        (OCTAVIA, "https://lb/v2", "https://lb/v2.0"),
        (OCTAVIA, "https://lb/load-balancer", "https://lb/load-balancer/v2.0"),
        (BARBICAN, "https://key/v1/", "https://key/v1"),
        (BARBICAN, "https://key", "https://key/v1"),
        (NOVA, "https://nova/v2.1", "https://nova/v2.1"),
        (NOVA, "https://nova/v2.1/0123456789", "https://nova/v2.1/0123456789"),
        (NOVA, "https://nova/compute", "https://nova/compute/v2.1"),
    ] {
        assert_eq!(versioned(told, service), bound);
    }
    assert!(has_version("/compute/v2.1/project") && !has_version("/volume") && !has_version("/v") && !has_version(""));
}

#[test]
fn a_service_is_asked_where_the_catalogue_says_for_interface_and_region() {
    let place = |interface: &str, region: &str, region_id: &str, url: &str| Place {
        interface: interface.to_owned(),
        region: region.to_owned(),
        region_id: region_id.to_owned(),
        url: url.to_owned(),
    };
    let places = vec![
        place("admin", "One", "One", "https://admin"),
        place("public", "Two", "Two", "https://two"),
        place("public", "One", "1", "https://one"),
        place("internal", "One", "One", "https://internal"),
    ];
    let entries = [
        Entry { kind: "compute_legacy".to_owned(), endpoints: vec![place("public", "One", "One", "https://old")] },
        // Each region may have an entry of its own.
        Entry { kind: "compute".to_owned(), endpoints: vec![place("public", "Zero", "Zero", "")] },
        Entry { kind: "compute".to_owned(), endpoints: places },
        Entry { kind: "compute".to_owned(), endpoints: vec![place("public", "Four", "Four", "https://four")] },
    ];
    for (interface, region, found) in [
        ("public", "One", Some("https://one")),
        ("public", "1", Some("https://one")),
        ("public", "", Some("https://two")),
        ("internal", "One", Some("https://internal")),
        ("admin", "Two", None),
        ("public", "Three", None),
        ("public", "Four", Some("https://four")),
        ("public", "Zero", None),
    ] {
        assert_eq!(url(&entries, NOVA, interface, region), found, "{interface} {region}");
    }
    assert_eq!(url(&entries, OCTAVIA, "public", "One"), None);
}

#[test]
fn os_170_lists_are_whole_and_end_whatever_the_pages_link_to() {
    ccm_sdk::records! {
        #[derive(Debug, PartialEq)]
        struct Thing { id: String [id] }
    }
    const THINGS: Paging = Paging::marker("marker", "limit", 2).items("/things").until_no_next("/things_links");
    let page = |ids: &[&str], rels: &[&str]| {
        let ids: Vec<String> = ids.iter().map(|id| format!(r#"{{"id": "{id}"}}"#)).collect();
        let links: Vec<String> =
            rels.iter().map(|rel| format!(r#"{{"rel": "{rel}", "href": "http://inside:9696/x?marker=z"}}"#)).collect();
        Reply::json(200, format!(r#"{{"things": [{}], "things_links": [{}]}}"#, ids.join(","), links.join(",")))
    };
    let list = || {
        NEUTRON
            .get("/things")
            .list::<Thing>(THINGS)
            .map(|things| things.into_iter().map(|thing| thing.id).collect::<Vec<_>>())
    };
    // Neutron has links backwards, also on the first page.
    let cloud = fake()
        .on("network GET /things?limit=2", page(&["a", "b"], &["next", "previous"]))
        .on("network GET /things?limit=2&marker=b", page(&["c"], &["previous"]));
    assert_eq!(list(), Ok(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
    assert_eq!(cloud.unused(), [""; 0]);
    // Octavia has one to an empty page.
    let cloud = fake()
        .on("network GET /things?limit=2", page(&["a", "b"], &["next"]))
        .on("network GET /things?limit=2&marker=b", page(&[], &[]));
    assert_eq!(list(), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(cloud.unused(), [""; 0]);
    // Nova has none on the last page.
    let cloud = fake().on("network GET /things?limit=2", Reply::json(200, r#"{"things": [{"id": "a"}]}"#));
    assert_eq!(list(), Ok(vec!["a".to_owned()]));
    assert_eq!(cloud.lines().len(), 1);
}
