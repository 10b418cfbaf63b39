use std::time::Duration;

use ccm_sim_digitalocean::{Act, Endpoint, Fault, RandomFaults, Requests, Settings, When};
use serde_json::{Value, json};

use crate::client::{Client, balancer, client};

const LIMIT: Duration = Duration::from_secs(10);
const CREATES: Requests = Requests::Of(Endpoint::CreateBalancer);

/// Status, content type and body of a creation; None: the connection ended.
async fn create(api: &Client) -> Option<(u16, String, String)> {
    let response = api.raw("POST", "/v2/load_balancers", Some(&balancer("a"))).await.ok()?;
    let kind = response.headers().get("content-type").map_or(String::new(), |kind| kind.to_str().unwrap().to_owned());
    Some((response.status().as_u16(), kind, response.text().await.unwrap()))
}

#[tokio::test]
async fn faults_strike_before_or_after_the_effect() {
    for (when, made) in [(When::Before, 0), (When::After, 1)] {
        for act in [Act::Status(500), Act::Status(503), Act::TooMany(Some(7)), Act::Html(502), Act::Hangup] {
            let api = client(|_| ()).await;
            let planned = api.cloud.plan(Fault::new(CREATES, 1, when, act));
            let answer = create(&api).await;
            match act {
                Act::Hangup => assert_eq!(answer, None),
                Act::Html(status) => {
                    let (got, kind, body) = answer.unwrap();
                    assert_eq!((got, kind.as_str()), (status, "text/html"));
                    assert!(body.starts_with("<html>"), "{body}");
                }
                Act::TooMany(_) => assert_eq!(answer.unwrap().0, 429),
                Act::Status(status) => {
                    let (got, _, body) = answer.unwrap();
                    assert_eq!(got, status);
                    assert!(body.contains("request_id"), "{body}");
                }
                _ => unreachable!(),
            }
            assert_eq!(planned.struck(), 1);
            assert_eq!(api.cloud.balancers().len(), made, "{when:?} {act:?}");
            assert_eq!(api.cloud.counters().effects, made);
            let exchange = api.cloud.exchanges().pop().unwrap();
            assert_eq!((exchange.fault.unwrap().act, exchange.had_effect), (act, made == 1));
            api.cloud.check().unwrap();
        }
    }
}

#[tokio::test]
async fn answers_are_spoilt_after_the_effect_and_that_is_no_violation() {
    for act in [Act::Truncated, Act::UnknownEnum, Act::ExtraFields] {
        let api = client(|_| ()).await;
        api.cloud.plan(Fault::new(Requests::Writes, 1, When::Before, act));
        let (status, _, body) = create(&api).await.unwrap();
        assert_eq!((status, api.cloud.balancers().len()), (202, 1));
        let read = serde_json::from_str::<Value>(&body);
        match act {
            Act::Truncated => assert!(read.is_err(), "{body}"),
            Act::UnknownEnum => assert_eq!(read.unwrap()["load_balancer"]["status"], "simulated-unknown"),
            _ => assert!(read.unwrap()["load_balancer"]["region"].get("simulated_extra").is_some(), "{body}"),
        }
        api.cloud.check().unwrap();
        assert_eq!(api.get("/v2/load_balancers").await.0, 200, "only the one");

        // Who is not let in is told so.
        api.cloud.plan(Fault::new(Requests::All, 1, When::Before, act));
        let refused = api.send(reqwest::Method::GET, "/v2/account", "stranger", None).await.unwrap();
        let told: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        assert_eq!(told["message"], "Unable to authenticate you");
        assert_eq!((told.get("simulated_extra"), api.cloud.exchanges().pop().unwrap().fault), (None, None));
    }
}

#[tokio::test]
async fn a_request_that_hangs_before_its_effect_goes_with_its_client_and_after_it_stays() {
    for (when, made) in [(When::Before, 0), (When::After, 1)] {
        let api = client(|_| ()).await;
        let mut planned = api.cloud.plan(Fault::new(CREATES, 1, when, Act::Hold));
        {
            let creating = create(&api);
            tokio::pin!(creating);
            tokio::select! {
                answer = &mut creating => panic!("{answer:?}"),
                reached = planned.reached(LIMIT) => reached.unwrap(),
            }
        }
        // The client is gone; whoever asks now sees what it left.
        assert_eq!(api.cloud.balancers().len(), made, "{when:?}");
    }
    let api = client(|_| ()).await;
    let mut planned = api.cloud.plan(Fault::new(CREATES, 1, When::Before, Act::Hold));
    let (answer, ()) = tokio::join!(create(&api), async {
        planned.reached(LIMIT).await.unwrap();
        planned.release();
    });
    assert_eq!(answer.unwrap().0, 202, "released, it goes on");
}

#[tokio::test]
async fn with_every_third_request_failing_the_rest_works() {
    let api = client(|_| ()).await;
    let fault = Fault::new(Requests::All, 3, When::After, Act::Status(503));
    let planned = api.cloud.plan(Fault { every: 3, ..fault });
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(api.get("/v2/account").await.0);
    }
    assert_eq!(statuses, [200, 200, 503, 200, 200, 503, 200]);
    assert_eq!(planned.struck(), 2);
    api.cloud.forget_faults();
    assert_eq!((api.get("/v2/account").await.0, api.get("/v2/account").await.0), (200, 200));
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn with_faults_at_random_whoever_asks_on_succeeds_and_nothing_is_against_the_document() {
    for seed in 0..20 {
        let api = client(|settings| settings.faults = Some(RandomFaults { seed, percent: 100 })).await;
        let impatient = async |path: &str, body: Option<Value>| {
            let method = if body.is_some() { "POST" } else { "GET" };
            // Longer than a busy machine takes for an answer: only what is held is given up.
            let asked = tokio::time::timeout(Duration::from_secs(2), api.raw(method, path, body.as_ref())).await;
            asked.ok()?.ok().map(|answer| answer.status().as_u16())
        };
        let until = async |path: &str, body: Option<Value>, wanted: &[u16]| {
            for _ in 0..4 {
                if impatient(path, body.clone()).await.is_some_and(|status| wanted.contains(&status)) {
                    return;
                }
            }
            panic!("seed {seed}: {path} {:#?}", api.cloud.exchanges());
        };
        // The second one is refused, where the first one came through and nobody heard of it.
        until("/v2/load_balancers", Some(balancer("a")), &[202, 422]).await;
        until("/v2/droplets", None, &[200]).await;
        assert_eq!(api.cloud.balancers().len(), 1, "seed {seed}");
        let exchanges = api.cloud.exchanges();
        assert!(exchanges[0].fault.is_some(), "seed {seed}: {exchanges:#?}");
        // What is planned comes before, and what is set no more strikes no more.
        let planned = api.cloud.plan(Fault::new(Requests::All, 1, When::Before, Act::Status(418)));
        let told = api.raw("GET", "/v2/regions", None).await.unwrap().status().as_u16();
        assert_eq!((told, planned.struck()), (418, 1));
        api.cloud.set(|settings| settings.faults = None);
        for _ in 0..4 {
            assert_eq!(api.get("/v2/regions").await.0, 200);
        }
        api.cloud.check().unwrap();
    }
}

#[tokio::test]
async fn the_log_keeps_as_much_as_it_is_told_and_counts_everything() {
    let settings = |settings: &mut Settings| {
        settings.kept_exchanges = 2;
        settings.kept_body = 5;
    };
    let api = client(settings).await;
    for _ in 0..3 {
        api.get("/v2/account").await;
    }
    let kept = api.cloud.exchanges();
    assert_eq!(kept.iter().map(|exchange| exchange.number).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((kept[0].response.as_str(), kept[0].status), (r#"{"acc…"#, Some(200)));
    assert_eq!(api.cloud.count(Endpoint::Account), 3);
    api.cloud.reset_counters();
    assert_eq!((api.cloud.count(Endpoint::Account), api.cloud.exchanges().len()), (0, 0));
    assert_eq!(json!(api.cloud.counters())["reads"], 0);
}

#[tokio::test]
async fn whoever_waits_sees_the_write_that_he_waits_for() {
    let api = client(|settings| settings.latency = Duration::from_millis(20)).await;
    let (waited, _) = tokio::join!(api.cloud.until(LIMIT, |cloud| cloud.balancers().len() == 1), create(&api));
    waited.unwrap();
    let never = api.cloud.until(Duration::from_millis(1), |_| false).await.unwrap_err().to_string();
    assert!(never.contains("not as it should be"), "{never}");
}
