//! A client that says what it is told to say.

use std::time::Duration;

use ccm_sim_digitalocean::{DigitalOcean, Droplet, Settings, TOKEN};
use reqwest::{Method, Response};
use serde_json::{Value, json};

pub(crate) struct Client {
    pub(crate) cloud: DigitalOcean,
    http: reqwest::Client,
}

/// A cloud whose load balancers are active at once, with three machines.
pub(crate) async fn client(change: impl FnOnce(&mut Settings)) -> Client {
    let mut settings = Settings { provisioning: Duration::ZERO, ..Settings::default() };
    change(&mut settings);
    let cloud = DigitalOcean::start(settings).await.unwrap();
    for id in 1..=3 {
        cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    Client { cloud, http }
}

impl Client {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<Response> {
        let mut request = self.http.request(method, format!("{}{path}", self.cloud.url()));
        request = request.header("authorization", format!("Bearer {token}"));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        request.send().await
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: Option<&Value>) -> reqwest::Result<Response> {
        self.send(Method::from_bytes(method.as_bytes()).unwrap(), path, TOKEN, body).await
    }

    /// Status and body; null: there is none.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let response = self.raw(method, path, body).await.unwrap();
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        (status, body)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, None).await
    }

    /// Its ID.
    pub(crate) async fn create(&self, name: &str) -> String {
        let (status, body) = self.ask("POST", "/v2/load_balancers", Some(&balancer(name))).await;
        assert_eq!(status, 202, "{body}");
        body["load_balancer"]["id"].as_str().unwrap().to_owned()
    }
}

/// A request for a load balancer.
pub(crate) fn balancer(name: &str) -> Value {
    json!({
        "name": name, "region": "nyc3", "type": "REGIONAL_NETWORK", "droplet_ids": [1, 2],
        "forwarding_rules": [
            { "entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 80 },
        ],
    })
}

/// The same with other members; null: without them.
pub(crate) fn balancer_with(name: &str, members: &Value) -> Value {
    let mut own = balancer(name);
    for (name, value) in members.as_object().unwrap() {
        if value.is_null() {
            own.as_object_mut().unwrap().remove(name);
        } else {
            own[name] = value.clone();
        }
    }
    own
}

impl Client {
    /// A load balancer with one machine. Returns its ID.
    pub(crate) async fn create_on_droplet_three(&self) -> String {
        let asked = balancer_with("on-three", &json!({ "droplet_ids": [3] }));
        let (status, body) = self.ask("POST", "/v2/load_balancers", Some(&asked)).await;
        assert_eq!(status, 202, "{body}");
        body["load_balancer"]["id"].as_str().unwrap().to_owned()
    }
}
