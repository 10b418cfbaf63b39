use ccm_sim_digitalocean::{Certificate, CertificateKind, Droplet};
use serde_json::{Value, json};

use crate::client::{balancer_with, client};

fn rule(entry: &str, port: u32, target: &str) -> Value {
    json!({ "entry_protocol": entry, "entry_port": port, "target_protocol": target, "target_port": 80 })
}

fn tls(entry: &str, certificate: &str) -> Value {
    let mut rule = rule(entry, 443, "http");
    rule["certificate_id"] = json!(certificate);
    rule
}

#[tokio::test]
async fn what_the_document_allows_and_the_api_does_not_is_refused_and_no_violation() {
    let api = client(|_| ()).await;
    let certificate = api.cloud.put_certificate(Certificate::new("c", CertificateKind::Custom, "a.example.com"));
    api.cloud.put_droplet(Droplet { region: "fra1".to_owned(), ..Droplet::new(20, "far") });
    let elsewhere = "11111111-a26a-4e61-b85c-000000000000";
    api.cloud.put_droplet(Droplet { vpc: Some(elsewhere.to_owned()), ..Droplet::new(21, "apart") });
    let id = api.create("taken").await;
    for (members, status, told) in [
        (json!({ "name": "taken" }), 422, "already a load balancer with that name"),
        (json!({ "region": "abc9" }), 422, "region"),
        (json!({ "droplet_ids": [77] }), 422, "droplet 77"),
        (json!({ "droplet_ids": [20] }), 422, "same VPC"),
        (json!({ "droplet_ids": [1, 21] }), 422, "same VPC"),
        (json!({ "vpc_uuid": elsewhere }), 422, "VPC"),
        (json!({ "forwarding_rules": [rule("tcp", 50_054, "tcp")] }), 422, "entry port is invalid"),
        (json!({ "forwarding_rules": [rule("tcp", 70_000, "tcp")] }), 422, "entry port is invalid"),
        (json!({ "forwarding_rules": [rule("tcp", 80, "tcp"), rule("tcp", 80, "tcp")] }), 422, "twice"),
        (json!({ "forwarding_rules": [rule("http", 80, "http")] }), 422, "network load balancer"),
        (json!({ "type": "REGIONAL", "forwarding_rules": [rule("udp", 80, "tcp")] }), 422, "udp"),
        (json!({ "type": "REGIONAL", "forwarding_rules": [rule("tcp", 80, "udp")] }), 422, "udp"),
        (json!({ "type": "REGIONAL", "forwarding_rules": [rule("https", 443, "http")] }), 422, "certificate_id"),
        (json!({ "type": "REGIONAL", "forwarding_rules": [tls("https", elsewhere)] }), 404, "certificate"),
        (json!({ "health_check": { "check_interval_seconds": 2 } }), 422, "check_interval_seconds"),
        (json!({ "health_check": { "healthy_threshold": 11 } }), 422, "healthy_threshold"),
        (json!({ "sticky_sessions": { "type": "cookies" } }), 422, "cookie"),
        (json!({ "firewall": { "allow": ["1.2.3.4"] } }), 422, "firewall"),
        (json!({ "firewall": { "deny": ["cidr:1.2.3.4/33"] } }), 422, "firewall"),
    ] {
        let asked = balancer_with("new", &members);
        for (method, path) in [("POST", "/v2/load_balancers".to_owned()), ("PUT", format!("/v2/load_balancers/{id}"))] {
            // An update keeps type, region and VPC, and may have the name that it has.
            let chosen_once = ["name", "region", "vpc_uuid", "type"].iter().any(|name| members.get(name).is_some());
            if method == "PUT" && chosen_once {
                continue;
            }
            let (got, body) = api.ask(method, &path, Some(&asked)).await;
            assert_eq!(got, status, "{method} {members}: {body}");
            assert!(body["message"].as_str().unwrap().contains(told), "{method} {members}: {body}");
            assert!(!body["request_id"].as_str().unwrap().is_empty(), "{body}");
        }
    }
    assert_eq!(api.cloud.balancers().len(), 1);
    assert_eq!(api.cloud.balancers()[0].spec.droplet_ids, [1, 2]);
    let both = [tls("https", &certificate), tls("http3", &certificate)];
    let fine = balancer_with("new", &json!({ "type": "REGIONAL", "forwarding_rules": both }));
    assert_eq!(api.ask("POST", "/v2/load_balancers", Some(&fine)).await.0, 202, "http3 shares its port");
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn what_is_against_the_document_is_a_violation() {
    let api = client(|_| ()).await;
    let id = api.create("a").await;
    let cases = [
        ("GET", "/v2/volumes".to_owned(), None, 404, "no such operation"),
        ("PATCH", format!("/v2/load_balancers/{id}"), None, 404, "no such operation"),
        ("GET", "/v2/droplets?per_page=500".to_owned(), None, 422, "per_page"),
        ("GET", "/v2/droplets?pre_page=5".to_owned(), None, 200, "pre_page: not in the document"),
        ("POST", "/v2/tags".to_owned(), Some(json!({ "name": "with space" })), 400, "/name"),
        ("POST", "/v2/load_balancers".to_owned(), Some(balancer_with("b", &json!({ "droplet_ids": null }))), 422, ""),
        (
            "PUT",
            format!("/v2/load_balancers/{id}"),
            Some(balancer_with("a", &json!({ "status": "active" }))),
            200,
            "read-only",
        ),
        (
            "PUT",
            format!("/v2/load_balancers/{id}"),
            Some(balancer_with("a", &json!({ "algoritm": "x" }))),
            200,
            "/algoritm",
        ),
    ];
    for (count, (method, path, body, status, told)) in (1..).zip(cases) {
        let (got, answer) = api.ask(method, &path, body.as_ref()).await;
        assert_eq!(got, status, "{method} {path}: {answer}");
        let violations = api.cloud.violations();
        assert_eq!(violations.len(), count, "{violations:#?}");
        assert!(violations.last().unwrap().contains(told), "{violations:#?}");
    }
    let error = api.cloud.check().unwrap_err().to_string();
    assert!(error.contains("#2 GET /v2/volumes: no such operation"), "{error}");
    assert_eq!(api.cloud.counters().outside, 2);
}

#[tokio::test]
async fn a_firewall_names_no_tag_that_does_not_exist() {
    let api = client(|_| ()).await;
    api.cloud.put_droplet(Droplet { tags: vec!["worker".to_owned()], ..Droplet::new(5, "tagged") });
    let asked = |tags: Value, from: Value| {
        let rule = json!({ "protocol": "tcp", "ports": "80", "sources": { "tags": from } });
        json!({ "name": "public", "tags": tags, "inbound_rules": [rule] })
    };
    let made = api.ask("POST", "/v2/firewalls", Some(&asked(json!(["WORKER"]), json!(["worker"])))).await;
    assert_eq!(made.0, 202, "the same in any case: {}", made.1);
    let own = format!("/v2/firewalls/{}", made.1["firewall"]["id"].as_str().unwrap());
    for asked in [asked(json!(["worker", "edge"]), json!([])), asked(json!([]), json!(["edge"]))] {
        for (method, path) in [("POST", "/v2/firewalls"), ("PUT", &own)] {
            let mut asked = asked.clone();
            if method == "POST" {
                asked["name"] = json!("other");
            }
            let (status, body) = api.ask(method, path, Some(&asked)).await;
            assert_eq!((status, body["message"].as_str()), (422, Some("tag edge does not exist")), "{method}");
        }
    }
    assert_eq!(api.cloud.firewalls().len(), 1);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn members_of_a_load_balancer_with_a_tag_are_chosen_by_the_tag() {
    let api = client(|_| ()).await;
    api.cloud.put_droplet(Droplet { tags: vec!["w".to_owned()], ..Droplet::new(5, "tagged") });
    let asked = balancer_with("a", &json!({ "droplet_ids": null, "tag": "w" }));
    let (status, body) = api.ask("POST", "/v2/load_balancers", Some(&asked)).await;
    assert_eq!((status, &body["load_balancer"]["droplet_ids"]), (202, &json!([5])));
    let path = format!("/v2/load_balancers/{}/droplets", body["load_balancer"]["id"].as_str().unwrap());
    assert_eq!(api.ask("POST", &path, Some(&json!({ "droplet_ids": [1] }))).await.0, 422);
    api.cloud.check().unwrap();
}
