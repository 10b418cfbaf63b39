//! Tokens of selected scopes.

use ccm_sim_digitalocean::{Droplet, Endpoint};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, balancer, balancer_with, client};

const TOKEN: &str = "selected";

async fn ask(api: &Client, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let response = api.send(method, path, TOKEN, body).await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say_and_sees_no_more() {
    let api = client(|_| ()).await;
    api.cloud.put_droplet(Droplet { tags: vec!["k8s:x".to_owned()], ..Droplet::new(1, "node-1") });
    let (_, made) =
        api.ask("POST", "/v2/load_balancers", Some(&balancer_with("a", &json!({ "tags": ["k8s:x"] })))).await;
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    for (scopes, tags, vpc) in [
        (&["load_balancer:read", "droplet:read"][..], false, false),
        (&["load_balancer:read", "droplet:read", "tag:read"], true, false),
        (&["load_balancer:read", "droplet:read", "vpc:read"], false, true),
    ] {
        api.cloud.allow_scopes(TOKEN, scopes);
        let one = ask(&api, Method::GET, &path, None).await.1["load_balancer"].clone();
        let listed = ask(&api, Method::GET, "/v2/load_balancers", None).await.1["load_balancers"][0].clone();
        let droplet = ask(&api, Method::GET, "/v2/droplets/1", None).await.1["droplet"].clone();
        assert_eq!((droplet["tags"] == json!(["k8s:x"]), droplet.get("vpc_uuid").is_some()), (tags, vpc), "{scopes:?}");
        for shown in [one, listed] {
            assert_eq!(
                (shown.get("tags").is_some(), shown.get("vpc_uuid").is_some()),
                (tags, vpc),
                "{scopes:?}: {shown}"
            );
        }
        assert_eq!(ask(&api, Method::DELETE, &path, None).await.0, 403, "{scopes:?}");
        assert_eq!(ask(&api, Method::POST, "/v2/load_balancers", Some(&balancer("b"))).await.0, 403, "{scopes:?}");
    }
    // Tags of a new one are made, or used.
    let tagged = balancer_with("b", &json!({ "tags": ["k8s:x"] }));
    for (scopes, asked, status) in [
        (&["load_balancer:create"][..], &tagged, 403),
        (&["load_balancer:create"], &balancer("b"), 202),
        (&["load_balancer:create", "tag:create"], &balancer_with("c", &json!({ "tags": ["k8s:x"] })), 202),
    ] {
        api.cloud.allow_scopes(TOKEN, scopes);
        assert_eq!(ask(&api, Method::POST, "/v2/load_balancers", Some(asked)).await.0, status, "{scopes:?}");
    }
    assert_eq!(api.cloud.count(Endpoint::CreateBalancer), 7);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn tags_of_load_balancers_can_be_untold() {
    let api = client(|settings| settings.tells_balancer_tags = false).await;
    let (_, made) =
        api.ask("POST", "/v2/load_balancers", Some(&balancer_with("a", &json!({ "tags": ["k8s:x"] })))).await;
    let path = format!("/v2/load_balancers/{}", made["load_balancer"]["id"].as_str().unwrap());
    let listed = api.get("/v2/load_balancers").await.1["load_balancers"][0].clone();
    for shown in [made["load_balancer"].clone(), listed, api.get(&path).await.1["load_balancer"].clone()] {
        assert_eq!(shown.get("tags"), None);
    }
    assert_eq!(api.cloud.balancers()[0].spec.tags, ["k8s:x"]);
    assert!(api.get("/v2/droplets/1").await.1["droplet"].get("tags").is_some());
    api.cloud.check().unwrap();
}
