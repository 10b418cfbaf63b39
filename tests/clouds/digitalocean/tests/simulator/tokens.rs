use std::time::Duration;

use ccm_sim_digitalocean::{Endpoint, TOKEN};
use reqwest::Method;

use crate::client::{Client, balancer, client};

async fn status(api: &Client, token: &str) -> u16 {
    api.send(Method::GET, "/v2/account", token, None).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn tokens_come_and_go() {
    let api = client(|_| ()).await;
    assert_eq!((status(&api, TOKEN).await, status(&api, "second").await), (200, 401));
    api.cloud.allow("second");
    assert!(api.cloud.revoke(TOKEN));
    assert!(!api.cloud.revoke(TOKEN));
    assert_eq!((status(&api, TOKEN).await, status(&api, "second").await), (401, 200));
    assert_eq!(api.cloud.counters().strangers, 2);
    api.cloud.allow_reads("reader");
    assert_eq!(status(&api, "reader").await, 200);
    let refused = api.send(Method::POST, "/v2/load_balancers", "reader", Some(&balancer("a"))).await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(api.cloud.balancers().is_empty());
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn each_token_has_its_quota_and_is_told_what_is_left() {
    let api = client(|settings| {
        settings.quota.per_minute = 2;
        settings.quota.per_hour = 3;
    })
    .await;
    api.cloud.allow("second");
    let ask = async |token| {
        let response = api.send(Method::GET, "/v2/account", token, None).await.unwrap();
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().parse::<i64>().unwrap());
        assert_eq!(header("ratelimit-limit"), Some(3));
        (response.status().as_u16(), header("ratelimit-remaining"), header("retry-after").is_some())
    };
    assert_eq!(ask(TOKEN).await, (200, Some(2), false));
    assert_eq!(ask(TOKEN).await, (200, Some(1), false));
    assert_eq!(ask(TOKEN).await, (429, Some(0), true), "the minute says for how long");
    assert_eq!(ask("second").await, (200, Some(2), false));
    api.cloud.advance(Duration::from_secs(60));
    assert_eq!(ask(TOKEN).await, (200, Some(0), false));
    assert_eq!(ask(TOKEN).await, (429, Some(0), false), "the hour does not");
    api.cloud.advance(Duration::from_secs(3_540));
    assert_eq!(ask(TOKEN).await.0, 200);
    assert_eq!((api.cloud.counters().too_many, api.cloud.count(Endpoint::Account)), (2, 7));
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_prefix_is_in_front_of_everything() {
    let api = client(|settings| settings.prefix = "/proxy/do".to_owned()).await;
    assert_eq!(status(&api, TOKEN).await, 200);
    assert_eq!(api.get("/v2/load_balancers").await.0, 200);
    api.cloud.check().unwrap();
    let base = api.cloud.url();
    api.cloud.set(|settings| settings.prefix = "/other".to_owned());
    let lost = reqwest::Client::builder().build().unwrap().get(format!("{base}/v2/account")).bearer_auth(TOKEN);
    assert_eq!(lost.send().await.unwrap().status(), 404);
    assert!(api.cloud.check().is_err(), "a request that lost its prefix");
}
