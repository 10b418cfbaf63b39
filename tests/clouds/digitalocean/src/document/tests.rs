use sha2::{Digest as _, Sha256};

use super::*;

fn document() -> Arc<Document> {
    Document::shared().unwrap()
}

fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"))])
}

fn ask(method: &str, path: &str, query: &str, body: &str) -> Option<Asked> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    document().asked(&method, path, query, &json_headers(), body.as_bytes())
}

#[test]
fn the_document_is_the_one_that_its_readme_names() {
    let sum: String = Sha256::digest(OFFICIAL).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sum, "e26834996e68a18cd4b7e9b549c311764c182e85c4e3f3a111ec6558247cc810");
}

#[test]
fn every_operation_of_the_document_is_an_endpoint_and_the_other_way_round() {
    let mut in_document: Vec<_> = document().endpoints().collect();
    in_document.sort();
    let mut own = Endpoint::ALL.to_vec();
    own.sort();
    assert_eq!(in_document, own);
}

#[test]
fn what_has_an_effect_is_what_is_no_get() {
    for operation in &document().operations {
        assert_eq!(operation.endpoint.is_write(), operation.method != Method::GET, "{}", operation.endpoint);
    }
}

#[test]
fn a_deviation_that_fits_no_place_is_an_error() {
    let lost = r#"[{"op":"remove","path":"/paths/~1v2~1nowhere"}]"#;
    assert!(Document::read(OFFICIAL, lost).is_err());
}

/// Section 3.6 and 8.4 of the reference: what is refused with the official document, deviations applied.
#[test]
fn requests_against_a_schema_are_refused() {
    let rule = r#"{"entry_protocol":"tcp","entry_port":80,"target_protocol":"tcp","target_port":80}"#;
    let balancer = |rest: &str| format!(r#"{{"name":"a","region":"nyc3","forwarding_rules":[{rule}]{rest}}}"#);
    let refused =
        |method: &str, path: &str, query: &str, body: &str| !ask(method, path, query, body).unwrap().refused.is_empty();
    let create = |rest: &str| refused("POST", "/v2/load_balancers", "", &balancer(rest));
    assert!(!create(r#","droplet_ids":[1]"#));
    assert!(!create(r#","droplet_ids":[]"#));
    for rest in [
        "",
        r#","droplet_ids":[1],"tag":"t""#,
        r#","droplet_ids":["1"]"#,
        r#","droplet_ids":[1],"size_unit":0"#,
        r#","droplet_ids":[1],"size_unit":101"#,
        r#","droplet_ids":[1],"http_idle_timeout_seconds":10"#,
        r#","droplet_ids":[1],"vpc_uuid":"no""#,
        r#","droplet_ids":[1],"network":"NONE""#,
        r#","droplet_ids":[1],"tags":["with space"]"#,
    ] {
        assert!(create(rest), "{rest}");
    }
    for (method, path, query, body) in [
        ("GET", "/v2/droplets", "per_page=500", ""),
        ("GET", "/v2/droplets", "page=x", ""),
        ("GET", "/v2/droplets", "page=1&page=2", ""),
        ("GET", "/v2/droplets/abc", "", ""),
        ("GET", "/v2/droplets/0", "", ""),
        ("GET", "/v2/certificates/x", "", ""),
        ("POST", "/v2/tags", "", r#"{"name":5}"#),
        ("POST", "/v2/tags", "", ""),
        ("POST", "/v2/load_balancers", "", "{"),
        ("POST", "/v2/tags/t/resources", "", r#"{"resources":[{"resource_id":"1","resource_type":"moon"}]}"#),
    ] {
        assert!(refused(method, path, query, body), "{method} {path}?{query} {body}");
    }
}

#[test]
fn what_the_document_does_not_know_is_a_stranger_and_not_refused() {
    let cases = [
        ("GET", "/v2/droplets", "pgae=2", "", 1),
        ("GET", "/v2/load_balancers", "names=a&names=b&uuids=c", "", 0),
        ("GET", "/v2/droplets/5", "", "{}", 1),
        ("POST", "/v2/tags", "", r#"{"name":"a","nmae":"b"}"#, 1),
        ("POST", "/v2/tags", "", r#"{"name":"a","resources":{}}"#, 1),
    ];
    for (method, path, query, body, strangers) in cases {
        let asked = ask(method, path, query, body).unwrap();
        assert_eq!(
            (asked.refused.len(), asked.strangers.len()),
            (0, strangers),
            "{path} {query} {body}: {:?}",
            asked.strangers
        );
    }
    let body = br#"{"name":"a"}"#;
    let without_type = document().asked(&Method::POST, "/v2/tags", "", &HeaderMap::new(), body).unwrap();
    assert_eq!(without_type.strangers, ["content-type is not application/json"]);
}

#[test]
fn what_is_outside_of_the_document_is_no_operation() {
    for (method, path) in
        [("GET", "/v2/volumes"), ("PATCH", "/v2/tags"), ("GET", "/v2/droplets/5/actions"), ("GET", "/")]
    {
        assert!(ask(method, path, "", "").is_none(), "{method} {path}");
    }
}

#[test]
fn answers_are_checked() {
    let mut headers = json_headers();
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        headers.insert(name, hyper::header::HeaderValue::from_static("1"));
    }
    let wrong = |endpoint, status, body: &str| document().check_answer(endpoint, status, &headers, body.as_bytes());
    let error = r#"{"id":"x","message":"y","request_id":"z"}"#;
    assert_eq!(wrong(Endpoint::Droplet, 404, error), [""; 0]);
    assert_eq!(wrong(Endpoint::CreateBalancer, 422, error), [""; 0], "the default answer");
    assert_eq!(wrong(Endpoint::CreateBalancer, 204, ""), [""; 0], "validate_only");
    assert_eq!(wrong(Endpoint::Droplet, 404, r#"{"message":"y"}"#).len(), 1);
    assert_eq!(wrong(Endpoint::Droplet, 202, "{}").len(), 1);
    assert_eq!(wrong(Endpoint::DeleteBalancer, 204, "{}").len(), 1);
    assert_eq!(wrong(Endpoint::Balancer, 200, r#"{"load_balancer":{"forwarding_rules":[],"nmae":1}}"#).len(), 2);
    assert!(
        !document().check_answer(Endpoint::Droplet, 404, &json_headers(), error.as_bytes()).is_empty(),
        "no headers"
    );
}

/// The table of `openapi/README.md`: each is against the official document, and allowed here.
#[test]
fn every_deviation_is_needed_and_does_what_it_says() {
    let official = Document::read(OFFICIAL, "[]").unwrap();
    let rule = r#"{"entry_protocol":"tcp","entry_port":80,"target_protocol":"tcp","target_port":80}"#;
    let balancer = |region: &str, rest: &str| {
        format!(r#"{{"name":"a","region":"{region}","droplet_ids":[1],"forwarding_rules":[{rule}]{rest}}}"#)
    };
    let subnet = r#","subnet_uuid":"c33931f2-a26a-4e61-b85c-4e95a2ec431b""#;
    let icmp = r#"[{"protocol":"icmp","destinations":{"addresses":["::/0"]}}]"#;
    let tagged = r#"{"resources":[{"resource_id":"x","resource_type":"load_balancer"}]}"#;
    for (deviation, method, path, query, body) in [
        ("P1", "POST", "/v2/load_balancers", "", balancer("nyc3", r#","tags":["k8s:x"]"#)),
        ("P1", "PUT", "/v2/load_balancers/x", "", balancer("nyc3", r#","tags":["k8s:x"]"#)),
        ("P1", "POST", "/v2/load_balancers", "", balancer("nyc3", r#","validate_only":true"#)),
        ("P1", "POST", "/v2/load_balancers", "", balancer("nyc3", subnet)),
        ("P1", "POST", "/v2/load_balancers", "", balancer("nyc3", r#","health_check":{"proxy_protocol":true}"#)),
        ("P2", "POST", "/v2/load_balancers", "", balancer("nyc3", r#","ip":"192.0.2.1""#)),
        ("P3", "POST", "/v2/load_balancers", "", balancer("atl1", "")),
        ("P4", "GET", "/v2/load_balancers", "names=a&names=b&uuids=x", String::new()),
        ("P5", "POST", "/v2/firewalls", "", format!(r#"{{"name":"fw","tags":["a"],"outbound_rules":{icmp}}}"#)),
        ("P6", "POST", "/v2/tags/k8s:x/resources", "", tagged.to_owned()),
    ] {
        let asked = |document: &Document| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let asked = document.asked(&method, path, query, &json_headers(), body.as_bytes()).unwrap();
            [asked.refused, asked.strangers].concat()
        };
        assert!(!asked(&official).is_empty(), "{deviation} {body}: the document allows it");
        assert_eq!(asked(&document()), [""; 0], "{deviation} {body}");
    }
    let tcp =
        r#"{"name":"fw","tags":["a"],"outbound_rules":[{"protocol":"tcp","destinations":{"addresses":["::/0"]}}]}"#;
    assert!(!ask("POST", "/v2/firewalls", "", tcp).unwrap().refused.is_empty(), "P5 is for icmp alone");
    assert!(!ask("POST", "/v2/tags", "", r#"{"name":"a b"}"#).unwrap().refused.is_empty(), "P7");
}
