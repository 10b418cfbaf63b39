use std::collections::BTreeSet;

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
    assert!(Document::read(FACTS, lost).is_err());
}

/// Section 3.6 and 8.4 of the reference: what is refused, deviations applied.
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

/// The table of `api/README.md`: each is against the document, and allowed here.
#[test]
fn every_deviation_is_needed_and_does_what_it_says() {
    let without = Document::read(FACTS, "[]").unwrap();
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
        assert!(!asked(&without).is_empty(), "{deviation} {body}: the document allows it");
        assert_eq!(asked(&document()), [""; 0], "{deviation} {body}");
    }
    let tcp =
        r#"{"name":"fw","tags":["a"],"outbound_rules":[{"protocol":"tcp","destinations":{"addresses":["::/0"]}}]}"#;
    assert!(!ask("POST", "/v2/firewalls", "", tcp).unwrap().refused.is_empty(), "P5 is for icmp alone");
    assert!(!ask("POST", "/v2/tags", "", r#"{"name":"a b"}"#).unwrap().refused.is_empty(), "P7");
}

/// Keywords of all schemas below.
fn keywords(value: &Value, is_schema: bool, found: &mut BTreeSet<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        if is_schema {
            found.insert(name.clone());
        }
        match (name.as_str(), member) {
            // Names that the vendor chose.
            ("properties", Value::Object(members)) if is_schema => {
                members.values().for_each(|member| keywords(member, true, found));
            }
            (_, Value::Array(items)) => items.iter().for_each(|item| keywords(item, is_schema, found)),
            (name, member) => keywords(member, is_schema || name == "schema", found),
        }
    }
}

/// The facts without a keyword.
fn without(value: &Value, keyword: &str) -> Value {
    match value {
        Value::Object(members) => {
            // A member of the cloud may be called like a keyword: `type` is.
            let is_it = |name: &str, member: &Value| name == keyword && (name != "type" || member.is_string());
            let kept = members.iter().filter(|(name, member)| !is_it(name, member));
            Value::Object(kept.map(|(name, member)| (name.clone(), without(member, keyword))).collect())
        }
        Value::Array(items) => items.iter().map(|item| without(item, keyword)).collect(),
        other => other.clone(),
    }
}

/// For each keyword: something that it forbids, and that is found no more where the facts lack it.
#[test]
fn every_keyword_of_the_facts_is_held_to() {
    let rules = r#"[{"entry_protocol":"tcp","entry_port":80,"target_protocol":"tcp","target_port":80}]"#;
    let balancer =
        |rest: &str| format!(r#"{{"name":"a","region":"nyc3","droplet_ids":[1],"forwarding_rules":{rules}{rest}}}"#);
    let answer = |body: &str| body.to_owned();
    let cases = [
        ("type", "POST /v2/tags", answer(r#"{"name":5}"#)),
        ("properties", "POST /v2/tags", answer(r#"{"name":5}"#)),
        ("required", "POST /v2/load_balancers/x/droplets", answer("{}")),
        ("enum", "GET /v2/droplets?type=moon", String::new()),
        ("pattern", "POST /v2/firewalls", answer(r#"{"name":"a b","tags":["a"],"inbound_rules":[]}"#)),
        ("format", "GET /v2/certificates/x", String::new()),
        ("minimum", "GET /v2/droplets/0", String::new()),
        ("maximum", "GET /v2/droplets?per_page=500", String::new()),
        ("maxLength", "POST /v2/tags", format!(r#"{{"name":"{}"}}"#, "a".repeat(256))),
        ("minItems", "POST /v2/load_balancers/x/forwarding_rules", answer(r#"{"forwarding_rules":[]}"#)),
        ("items", "POST /v2/load_balancers/x/droplets", answer(r#"{"droplet_ids":["x"]}"#)),
        ("anyOf", "POST /v2/firewalls", answer(r#"{"name":"fw"}"#)),
        ("oneOf", "POST /v2/load_balancers", answer("{}")),
        ("allOf", "POST /v2/firewalls", answer("{}")),
        ("readOnly", "POST /v2/load_balancers", balancer(r#","status":"new""#)),
        (
            "additionalProperties",
            "POST /v2/load_balancers",
            balancer(r#","glb_settings":{"region_priorities":{"nyc3":"first"}}"#),
        ),
        ("multipleOf", "200 droplets_get", answer(r#"{"droplet":{"memory":9}}"#)),
    ];
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let found = |facts: &Value, case: &str, body: &str| {
        let document = Document::read(&facts.to_string(), "[]").unwrap();
        let (word, rest) = case.split_once(' ').unwrap();
        if let Ok(status) = word.parse() {
            return document.check_answer(Endpoint::of(rest).unwrap(), status, &json_headers(), body.as_bytes()).len();
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let method = Method::from_bytes(word.as_bytes()).unwrap();
        let asked = document.asked(&method, path, query, &json_headers(), body.as_bytes()).unwrap();
        asked.refused.len() + asked.strangers.len()
    };
    for (keyword, case, body) in &cases {
        let (with, without) = (found(&facts, case, body), found(&without(&facts, keyword), case, body));
        assert!(with > without, "{keyword}: {with} and {without} violations of {case} {body}");
    }
    let null = (r#"{"droplet":{"next_backup_window":null}}"#, "200 droplets_get");
    assert!(found(&facts, null.1, null.0) < found(&without(&facts, "nullable"), null.1, null.0), "nullable");

    let mut own = BTreeSet::new();
    keywords(&references::expand(&facts, &facts["paths"]).unwrap(), false, &mut own);
    let tested: BTreeSet<String> =
        cases.iter().map(|(keyword, ..)| (*keyword).to_owned()).chain(["nullable".to_owned()]).collect();
    assert_eq!(own, tested, "keywords of the facts, and those that a case is about");
}
