use std::time::Duration;

use ccm_sim_digitalocean::{Certificate, CertificateKind, Command, Droplet};
use serde_json::{Value, json};

use crate::client::{balancer, balancer_with, client};

const BUSY: &str = "Load Balancer can't be updated while it processes previous actions";

#[tokio::test]
async fn a_load_balancer_has_no_address_and_takes_no_change_until_it_is_active() {
    let api = client(|settings| settings.provisioning = Duration::from_secs(60)).await;
    let dual = balancer_with("a", &json!({ "network_stack": "DUALSTACK", "tags": ["k8s:x"] }));
    let (_, made) = api.ask("POST", "/v2/load_balancers", Some(&dual)).await;
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    let (_, shown) = api.get(&path).await;
    assert_eq!((&shown["load_balancer"]["status"], &shown["load_balancer"]["ip"]), (&json!("new"), &json!("")));
    assert_eq!(shown["load_balancer"].get("ipv6"), None);
    let (status, refused) = api.ask("PUT", &path, Some(&dual)).await;
    assert_eq!((status, &refused["message"]), (403, &json!(BUSY)));
    assert_eq!(api.ask("POST", &format!("{path}/droplets"), Some(&json!({ "droplet_ids": [3] }))).await.0, 403);

    api.cloud.advance(Duration::from_secs(60));
    let (_, shown) = api.get(&path).await;
    let shown = &shown["load_balancer"];
    assert_eq!(shown["status"], "active");
    assert!(shown["ip"].as_str().unwrap().starts_with("198.18."), "{shown}");
    assert!(shown["ipv6"].as_str().unwrap().starts_with("2001:db8::"), "{shown}");
    assert_eq!(api.ask("PUT", &path, Some(&dual)).await.0, 200);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_change_locks_for_a_while_and_a_deletion_only_where_it_is_told_to() {
    let api = client(|settings| settings.busy = Duration::from_secs(5)).await;
    let path = format!("/v2/load_balancers/{}", api.create("a").await);
    assert_eq!(api.ask("PUT", &path, Some(&balancer("a"))).await.0, 200);
    assert_eq!(api.ask("PUT", &path, Some(&balancer("a"))).await.0, 403);
    api.cloud.advance(Duration::from_secs(5));
    assert_eq!(api.ask("PUT", &path, Some(&balancer("a"))).await.0, 200);
    api.cloud.set(|settings| settings.lock_deletes = true);
    assert_eq!(api.ask("DELETE", &path, None).await.0, 403);
    api.cloud.set(|settings| settings.lock_deletes = false);
    assert_eq!(api.ask("DELETE", &path, None).await, (204, Value::Null));
    assert_eq!(api.get(&path).await.0, 404);
    assert_eq!(api.cloud.counters().effects, 4, "{:?}", api.cloud.counters());
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn an_update_resets_what_it_leaves_out_and_keeps_what_is_chosen_at_creation() {
    let api = client(|settings| settings.resize_pause = Duration::ZERO).await;
    let first =
        balancer_with("a", &json!({ "size_unit": 3, "tags": ["k8s:x"], "firewall": { "deny": ["ip:1.2.3.4"] } }));
    let (_, made) = api.ask("POST", "/v2/load_balancers", Some(&first)).await;
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    let second = balancer_with("b", &json!({ "network": "INTERNAL", "network_stack": "DUALSTACK", "tags": ["k8s:y"] }));
    let (status, body) = api.ask("PUT", &path, Some(&second)).await;
    let shown = &body["load_balancer"];
    assert_eq!((status, &shown["name"], &shown["size_unit"]), (200, &json!("b"), &json!(1)));
    assert_eq!(shown["firewall"], json!({ "allow": [], "deny": [] }));
    assert_eq!((&shown["network"], &shown["network_stack"]), (&json!("EXTERNAL"), &json!("IPV4")));
    assert_eq!(shown["tags"], json!(["k8s:x"]));
    assert_eq!(api.cloud.tags(), ["k8s:x"]);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn one_that_passes_packets_through_ignores_what_needs_http() {
    let api = client(|_| ()).await;
    let asked = json!({
        "sticky_sessions": { "type": "cookies", "cookie_name": "c", "cookie_ttl_seconds": 300 },
        "redirect_http_to_https": true, "enable_proxy_protocol": true, "enable_backend_keepalive": true,
        "disable_lets_encrypt_dns_records": true, "http_idle_timeout_seconds": 120,
    });
    let names = asked.as_object().unwrap().keys();
    let plain = api.ask("POST", "/v2/load_balancers", Some(&balancer("plain"))).await.1["load_balancer"].clone();
    let path = format!("/v2/load_balancers/{}", plain["id"].as_str().unwrap());
    let network = api.ask("POST", "/v2/load_balancers", Some(&balancer_with("a", &asked))).await.1;
    let changed = api.ask("PUT", &path, Some(&balancer_with("plain", &asked))).await.1;
    let mut regional = balancer_with("b", &asked);
    regional["type"] = json!("REGIONAL");
    let regional = api.ask("POST", "/v2/load_balancers", Some(&regional)).await.1;
    for name in names {
        assert_eq!(network["load_balancer"][name], plain[name], "{name}");
        assert_eq!(changed["load_balancer"][name], plain[name], "{name}");
        assert_eq!(regional["load_balancer"][name], asked[name], "{name}");
    }
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_load_balancer_can_fail_to_become_active() {
    let api = client(|settings| settings.provisioning_fails = true).await;
    let id = api.create("a").await;
    assert_eq!(api.cloud.balancer_status(&id), Some("errored"));
    api.cloud.command(Command::Errored { id: id.clone(), errored: false }).unwrap();
    assert_eq!(api.get(&format!("/v2/load_balancers/{id}")).await.1["load_balancer"]["status"], "active");
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn validating_only_changes_nothing() {
    let api = client(|_| ()).await;
    let only = json!({ "validate_only": true });
    assert_eq!(api.ask("POST", "/v2/load_balancers", Some(&balancer_with("a", &only))).await, (204, Value::Null));
    assert!(api.cloud.balancers().is_empty());
    let path = format!("/v2/load_balancers/{}", api.create("a").await);
    let changed = balancer_with("a", &json!({ "validate_only": true, "droplet_ids": [3] }));
    assert_eq!(api.ask("PUT", &path, Some(&changed)).await, (204, Value::Null));
    assert_eq!(api.cloud.balancers()[0].spec.droplet_ids, [1, 2]);
    assert_eq!(
        api.ask("POST", "/v2/load_balancers", Some(&balancer_with("a", &only))).await.0,
        422,
        "the name is taken"
    );
    assert_eq!(api.cloud.counters().effects, 1);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_has_a_new_id_and_load_balancers_have_it() {
    let api = client(|_| ()).await;
    let old = api.cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));
    let own = api.cloud.put_certificate(Certificate::new("own", CertificateKind::Custom, "own.example.com"));
    let rule = json!({
        "entry_protocol": "https", "entry_port": 443, "target_protocol": "http", "target_port": 80, "certificate_id": old,
    });
    let tls = balancer_with("tls", &json!({ "type": "REGIONAL", "forwarding_rules": [rule] }));
    assert_eq!(api.ask("POST", "/v2/load_balancers", Some(&tls)).await.0, 202);
    let new = api.cloud.renew(&old).unwrap();
    assert_eq!(api.cloud.renew(&own), None);
    assert_eq!(api.get(&format!("/v2/certificates/{old}")).await.0, 404);
    let (_, found) = api.get("/v2/certificates?name=web").await;
    assert_eq!(found["certificates"][0]["id"], *new);
    assert_eq!(api.cloud.balancers()[0].spec.forwarding_rules[0].certificate_id, new);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_firewall_comes_back_in_other_words_and_waits_first() {
    let api = client(|_| ()).await;
    for name in ["a", "B"] {
        assert_eq!(api.ask("POST", "/v2/tags", Some(&json!({ "name": name }))).await.0, 201);
    }
    let addresses = json!({ "addresses": ["0.0.0.0/0", "::/0"] });
    let asked = json!({
        "name": "k8s-public-access", "droplet_ids": [1], "tags": ["a", "b"], "inbound_rules": null,
        "outbound_rules": [
            { "protocol": "tcp", "ports": "all", "destinations": addresses },
            { "protocol": "icmp", "destinations": addresses },
        ],
    });
    let (status, body) = api.ask("POST", "/v2/firewalls", Some(&asked)).await;
    let made = &body["firewall"];
    assert_eq!((status, &made["status"], &made["tags"]), (202, &json!("waiting"), &json!(["b", "a"])));
    assert_eq!((&made["outbound_rules"][0]["ports"], &made["outbound_rules"][1]["ports"]), (&json!("0"), &json!("0")));
    assert_eq!(made["outbound_rules"][0]["destinations"]["addresses"], json!(["::/0", "0.0.0.0/0"]));
    assert_eq!(made["pending_changes"][0]["droplet_id"], 1);
    api.cloud.advance(Duration::from_secs(1));
    let (_, body) = api.get(&format!("/v2/firewalls/{}", made["id"].as_str().unwrap())).await;
    assert_eq!((&body["firewall"]["status"], &body["firewall"]["pending_changes"]), (&json!("succeeded"), &json!([])));
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn resources_are_tagged_all_or_none_and_lose_a_tag_that_is_deleted() {
    let api = client(|_| ()).await;
    let id = api.create("a").await;
    let tag = |ids: &[&str]| {
        let resources: Vec<Value> =
            ids.iter().map(|id| json!({ "resource_id": id, "resource_type": "load_balancer" })).collect();
        json!({ "resources": resources })
    };
    assert_eq!(api.ask("POST", "/v2/tags/k8s:x/resources", Some(&tag(&[&id]))).await.0, 404, "no such tag");
    assert_eq!(api.ask("POST", "/v2/tags", Some(&json!({ "name": "k8s:x" }))).await.0, 201);
    assert_eq!(api.ask("POST", "/v2/tags/k8s:x/resources", Some(&tag(&[&id, "lost"]))).await.0, 404);
    assert!(api.cloud.balancers()[0].spec.tags.is_empty());
    assert_eq!(api.ask("POST", "/v2/tags/k8s:x/resources", Some(&tag(&[&id]))).await.0, 204);
    assert_eq!(api.cloud.balancers()[0].spec.tags, ["k8s:x"]);
    api.cloud.put_droplet(Droplet { tags: vec!["k8s:x".to_owned(), "y".to_owned()], ..Droplet::new(5, "tagged") });
    assert_eq!(api.ask("DELETE", "/v2/tags/k8s:x", None).await.0, 204);
    let (_, droplet) = api.get("/v2/droplets/5").await;
    assert_eq!((api.cloud.tags(), &droplet["droplet"]["tags"]), (vec!["y".to_owned()], &json!(["y"])));
    assert!(api.cloud.balancers()[0].spec.tags.is_empty());
    assert_eq!(api.ask("DELETE", "/v2/tags/k8s:x", None).await.0, 404);
    api.cloud.check().unwrap();
}

/// Whoever compares it with `created_at` compares two times of one clock.
#[tokio::test]
async fn answers_have_the_date_of_the_clouds_clock() {
    let api = client(|_| ()).await;
    let date = async || {
        let response = api.raw("GET", "/v2/load_balancers", None).await.unwrap();
        response.headers()["date"].to_str().unwrap().to_owned()
    };
    let before = date().await;
    api.cloud.advance(Duration::from_secs(2 * 86_400));
    let after = date().await;
    assert!(
        before.ends_with(" GMT") && before.len() == after.len() && before[..16] != after[..16],
        "{before}, {after}"
    );
}
