//! What an account and its load balancers cannot have, or not yet.

use std::time::Duration;

use ccm_sim_digitalocean::{Certificate, CertificateKind, CertificateState};
use serde_json::{Value, json};

use crate::client::{balancer, balancer_with, client};

#[tokio::test]
async fn the_size_changes_once_an_hour_and_not_in_the_first_one() {
    let api = client(|_| ()).await;
    let path = format!("/v2/load_balancers/{}", api.create("a").await);
    let sized = |members: Value| balancer_with("a", &members);
    let put = async |asked: &Value| api.ask("PUT", &path, Some(asked)).await;
    api.cloud.advance(Duration::from_secs(3_590));
    for asked in
        [json!({ "size_unit": 3 }), json!({ "size": "lb-large" }), json!({ "size_unit": 3, "validate_only": true })]
    {
        let (status, body) = put(&sized(asked)).await;
        let words = body["message"].as_str().unwrap();
        assert!(status == 422 && words.contains("resized once every hour, last resized at: 20"), "{body}");
    }
    // All else may change, and the size that it has is no change, however it is said.
    for asked in [json!({ "droplet_ids": [3] }), json!({ "size_unit": 1 }), json!({ "size": "lb-small" })] {
        assert_eq!(put(&sized(asked)).await.0, 200);
    }
    api.cloud.advance(Duration::from_secs(10));
    let (status, body) = put(&sized(json!({ "size": "lb-medium" }))).await;
    assert_eq!((status, &body["load_balancer"]["size_unit"]), (200, &json!(3)));
    // To leave it out is to ask for the default.
    assert_eq!(put(&balancer("a")).await.0, 422);
    api.cloud.set(|settings| settings.resize_pause = Duration::from_secs(60));
    assert!(put(&balancer("a")).await.1.to_string().contains("once every minute"));
    api.cloud.advance(Duration::from_secs(60));
    assert_eq!(put(&balancer("a")).await.0, 200);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn an_account_has_so_many_load_balancers_and_no_more() {
    let api = client(|settings| settings.balancer_limit = Some(1)).await;
    let id = api.create("a").await;
    let (status, body) = api.ask("POST", "/v2/load_balancers", Some(&balancer("b"))).await;
    assert!(status == 422 && body["message"].as_str().unwrap().contains("limit of 1"), "{body}");
    assert_eq!(api.ask("DELETE", &format!("/v2/load_balancers/{id}"), None).await.0, 204);
    api.create("b").await;
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn an_answer_that_is_too_long_does_not_come() {
    let api = client(|_| ()).await;
    for name in ["a", "b", "c"] {
        api.create(name).await;
    }
    let list = async |per_page: usize| {
        let response = api.raw("GET", &format!("/v2/load_balancers?per_page={per_page}"), None).await.unwrap();
        response.status().as_u16()
    };
    api.cloud.set(|settings| settings.answer_bytes = 3_000);
    assert_eq!((list(3).await, list(1).await), (504, 200));
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn filters_of_lists_can_be_ignored() {
    let api = client(|_| ()).await;
    let (a, _) = (api.create("a").await, api.create("b").await);
    let found = async |query: &str| {
        let (_, body) = api.get(&format!("/v2/load_balancers?{query}")).await;
        body["load_balancers"].as_array().unwrap().len()
    };
    let by_id = format!("uuids={a}");
    assert_eq!((found("names=a").await, found("names=a&names=b").await, found(&by_id).await), (1, 2, 1));
    api.cloud.set(|settings| settings.filters_balancers = false);
    assert_eq!((found("names=a").await, found("names=x").await, found(&by_id).await), (2, 2, 2));
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_certificate_serves_once_it_is_verified() {
    let api = client(|_| ()).await;
    let made = Certificate::new("c", CertificateKind::LetsEncrypt, "a.example.com");
    let pending = Certificate { state: CertificateState::Pending, ..made };
    let id = api.cloud.put_certificate(pending.clone());
    let rule = json!({ "entry_protocol": "https", "entry_port": 443, "target_protocol": "http", "target_port": 80,
                       "certificate_id": id });
    let asked = balancer_with("a", &json!({ "type": "REGIONAL", "forwarding_rules": [rule] }));
    for state in [CertificateState::Pending, CertificateState::Error] {
        api.cloud.put_certificate(Certificate { id: id.clone(), state, ..pending.clone() });
        assert_eq!(api.get(&format!("/v2/certificates/{id}")).await.1["certificate"]["state"], json!(state));
        let (status, body) = api.ask("POST", "/v2/load_balancers", Some(&asked)).await;
        assert!(status == 422 && body["message"].as_str().unwrap().contains("not verified"), "{body}");
    }
    api.cloud.put_certificate(Certificate { id, state: CertificateState::Verified, ..pending });
    assert_eq!(api.ask("POST", "/v2/load_balancers", Some(&asked)).await.0, 202);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_project_must_be_there_and_is_the_default_one_unless_it_is_said() {
    let api = client(|_| ()).await;
    let own = api.cloud.put_project();
    let asked = |project: &str| balancer_with("a", &json!({ "project_id": project }));
    let nowhere = "11111111-a26a-4e61-b85c-000000000000";
    let (status, body) = api.ask("POST", "/v2/load_balancers", Some(&asked(nowhere))).await;
    assert!(status == 422 && body["message"].as_str().unwrap().contains("project_id"), "{body}");
    let (_, made) = api.ask("POST", "/v2/load_balancers", Some(&asked(&own))).await;
    assert_eq!(made["load_balancer"]["project_id"], json!(own));
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    assert_eq!(api.ask("PUT", &path, Some(&asked(nowhere))).await.0, 422);
    let (_, changed) = api.ask("PUT", &path, Some(&balancer("a"))).await;
    assert_ne!(changed["load_balancer"]["project_id"], json!(own), "what is left out gets its default");
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn an_internal_load_balancer_has_no_public_address() {
    let api = client(|_| ()).await;
    let asked = balancer_with("a", &json!({ "network": "INTERNAL" }));
    let (_, made) = api.ask("POST", "/v2/load_balancers", Some(&asked)).await;
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    let ip = async || api.get(&path).await.1["load_balancer"]["ip"].clone();
    assert!(ip().await.as_str().unwrap().starts_with("10."));
    api.cloud.set(|settings| settings.tells_internal_addresses = false);
    assert_eq!(ip().await, json!(""));
    api.cloud.check().unwrap();
}
