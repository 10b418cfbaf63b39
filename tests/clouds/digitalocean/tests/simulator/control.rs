use serde_json::{Value, json};

use crate::client::{Client, client};

async fn control(api: &Client, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let http = reqwest::Client::builder().build().unwrap();
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = http.request(method, format!("{}{path}", api.cloud.control_url()));
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn everything_can_be_made_and_seen_from_outside() {
    let api = client(|_| ()).await;
    let id = api.create("a").await;
    let certificate = json!({ "name": "web", "kind": "lets_encrypt", "dns-names": ["a.example.com"] });
    let commands = [
        json!({ "do": "droplets", "droplets": [{ "name": "from-outside", "private-v4": ["10.8.1.1"] }] }),
        json!({ "do": "remove-droplet", "id": 3 }),
        json!({ "do": "certificate", "certificate": certificate }),
        json!({ "do": "errored", "id": id, "errored": true }),
        json!({ "do": "region", "region": { "slug": "abc1", "name": "A", "available": true } }),
        json!({ "do": "fault", "fault": { "act": { "status": 503 } } }),
        json!({ "do": "allow", "token": "other" }),
        json!({ "do": "revoke", "token": "other" }),
        json!({ "do": "speed", "speed": 10.0 }),
        json!({ "do": "advance", "milliseconds": 5000 }),
    ];
    for command in commands {
        let (status, body) = control(&api, "POST", "/", Some(command.clone())).await;
        assert_eq!(status, 200, "{command}: {body}");
    }
    assert_eq!(api.get("/v2/account").await.0, 503);
    let (_, state) = control(&api, "GET", "/state", None).await;
    assert_eq!(state["droplets"].as_array().unwrap().len(), 3);
    assert_eq!(state["load_balancers"][0]["status"], "errored");
    assert_eq!(state["certificates"][0]["name"], "web");
    let (_, counters) = control(&api, "GET", "/counters", None).await;
    assert_eq!(counters["requests"], json!({ "account_get": 1, "loadBalancers_create": 1 }));
    assert_eq!(control(&api, "GET", "/violations", None).await.1, json!([]));
    assert_eq!(control(&api, "GET", "/exchanges", None).await.1.as_array().unwrap().len(), 2);
    let (status, _) = control(&api, "PUT", "/settings", Some(json!({ "busy-ms": 700 }))).await;
    assert_eq!(status, 200);
    let (_, settings) = control(&api, "GET", "/settings", None).await;
    assert_eq!((&settings["busy-ms"], &settings["quota"]["per-hour"]), (&json!(700), &json!(5_000)));
}

#[tokio::test]
async fn what_it_does_not_understand_it_says() {
    let api = client(|_| ()).await;
    for (method, path, body, status) in [
        ("POST", "/", json!({ "do": "dance" }), 400),
        ("POST", "/", json!({ "do": "remove-droplet", "id": 99 }), 404),
        ("POST", "/", json!({ "do": "speed", "speed": -1.0 }), 404),
        ("PUT", "/settings", json!({ "bussy-ms": 1 }), 400),
        ("GET", "/sate", json!(null), 404),
    ] {
        let (got, answer) = control(&api, method, path, Some(body.clone())).await;
        assert_eq!(got, status, "{body}: {answer}");
        assert!(!answer["error"].as_str().unwrap().is_empty());
    }
}
