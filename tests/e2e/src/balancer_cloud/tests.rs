use serde_json::json;

use super::*;

/// Without any delay, but for what is never built.
async fn cloud(provisioning: Duration) -> BalancerCloud {
    BalancerCloud::start(CloudSettings { latency: Duration::ZERO, provisioning, ..CloudSettings::default() })
        .await
        .unwrap()
}

fn spec(owner: &str) -> Value {
    json!({ "name": "a", "owner": owner, "ports": [], "idle_seconds": 60, "members": [] })
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Status and body; 0 when there was no answer.
async fn ask(cloud: &BalancerCloud, method: &str, path: &str, body: Value) -> (u16, Value) {
    let url = format!("{}/v1/{path}", cloud.url());
    let request = client().request(method.parse().unwrap(), url).bearer_auth(TOKEN).body(body.to_string());
    let Ok(answer) = request.send().await else { return (0, Value::Null) };
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
}

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn who_asks_twice_has_two_and_both_have_the_tag() {
    let cloud = cloud(Duration::ZERO).await;
    for id in ["lb-000001", "lb-000002"] {
        let (status, body) = ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
        assert_eq!((status, &body["load_balancer"]["id"]), (201, &json!(id)));
    }
    ask(&cloud, "POST", "load-balancers", spec("u-2")).await;
    let (_, body) = ask(&cloud, "GET", "load-balancers?owner=u-1&page=1&per_page=100", Value::Null).await;
    let ids: Vec<&Value> = body["load_balancers"].as_array().unwrap().iter().map(|balancer| &balancer["id"]).collect();
    assert_eq!((ids, &body["total"]), (vec![&json!("lb-000001"), &json!("lb-000002")], &json!(2)));
    assert_eq!((cloud.count(Kind::Create), cloud.write_requests(), cloud.reads()), (3, 3, 1));
}

#[tokio::test]
async fn an_address_is_there_when_it_is_built_and_not_before() {
    for (provisioning, state, address) in
        [(LIMIT, "provisioning", Value::Null), (Duration::ZERO, "active", json!("198.18.0.1"))]
    {
        let cloud = cloud(provisioning).await;
        ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
        let (_, body) = ask(&cloud, "GET", "load-balancers/lb-000001", Value::Null).await;
        assert_eq!((&body["load_balancer"]["state"], &body["load_balancer"]["address"]), (&json!(state), &address));
    }
}

#[tokio::test]
async fn lists_come_in_pages() {
    let cloud = cloud(Duration::ZERO).await;
    for _ in 0..5 {
        ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
    }
    let mut lengths = vec![];
    for page in 1..=4 {
        let (_, body) = ask(&cloud, "GET", &format!("load-balancers?page={page}&per_page=2"), Value::Null).await;
        assert_eq!(body["total"], 5);
        lengths.push(body["load_balancers"].as_array().unwrap().len());
    }
    assert_eq!(lengths, [2, 2, 1, 0]);
}

#[tokio::test]
async fn changes_are_logged_in_their_order_with_their_owner() {
    let cloud = cloud(Duration::ZERO).await;
    ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
    let one = "load-balancers/lb-000001";
    assert_eq!(ask(&cloud, "PUT", &format!("{one}/members"), json!({ "members": ["n1"] })).await.0, 200);
    assert_eq!(cloud.balancers()[0].spec.members, ["n1"]);
    assert_eq!(ask(&cloud, "PUT", one, spec("u-1")).await.0, 200);
    assert_eq!(cloud.balancers()[0].spec.members, Vec::<String>::new());
    assert_eq!(ask(&cloud, "DELETE", one, Value::Null).await.0, 204);
    assert_eq!(ask(&cloud, "PUT", "firewall", json!({ "ports": [80], "machines": ["n1"] })).await.0, 204);
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(ask(&cloud, method, one, spec("u-1")).await.0, 404, "{method}");
    }
    let writes: Vec<(Kind, String)> = cloud.writes().into_iter().map(|write| (write.kind, write.owner)).collect();
    let own = |kind| (kind, "u-1".to_owned());
    let firewall = (Kind::SetFirewall, String::new());
    assert_eq!(writes, [own(Kind::Create), own(Kind::Members), own(Kind::Replace), own(Kind::Delete), firewall]);
    assert_eq!((cloud.write_requests(), cloud.firewall().ports), (7, vec![80]));
}

#[tokio::test]
async fn without_the_token_nothing_happens() {
    let cloud = cloud(Duration::ZERO).await;
    let request = client().post(format!("{}/v1/load-balancers", cloud.url())).body(spec("u-1").to_string());
    assert_eq!(request.send().await.unwrap().status(), 401);
    assert_eq!((cloud.strangers(), cloud.write_requests(), cloud.balancers().len()), (1, 0, 0));
}

#[tokio::test]
async fn a_fault_strikes_the_request_that_is_meant_on_the_side_that_is_meant() {
    let cases = [
        (Requests::All, 2, When::Before, Act::Answer(503), [201, 503, 201], 2),
        (Requests::Writes, 1, When::After, Act::Answer(500), [500, 201, 201], 3),
        (Requests::Of(Kind::Create), 3, When::Before, Act::Hangup, [201, 201, 0], 2),
        (Requests::Of(Kind::Create), 3, When::After, Act::Hangup, [201, 201, 0], 3),
        (Requests::Of(Kind::Delete), 1, When::Before, Act::Hangup, [201, 201, 201], 3),
    ];
    for (of, nth, when, act, statuses, made) in cases {
        let cloud = cloud(Duration::ZERO).await;
        let planned = cloud.plan(Fault { of, nth, when, act });
        let mut told = vec![];
        for _ in 0..3 {
            told.push(ask(&cloud, "POST", "load-balancers", spec("u-1")).await.0);
        }
        assert_eq!((told.as_slice(), cloud.balancers().len()), (statuses.as_slice(), made), "{of:?} {when:?} {act:?}");
        assert_eq!(planned.is_reached(), of != Requests::Of(Kind::Delete));
    }
}

#[tokio::test]
async fn a_request_that_is_held_goes_with_its_client_or_goes_on() {
    for (when, made) in [(When::Before, 0), (When::After, 1)] {
        let cloud = cloud(Duration::ZERO).await;
        let mut planned = cloud.plan(Fault { of: Requests::Writes, nth: 1, when, act: Act::Hold });
        {
            let asking = ask(&cloud, "POST", "load-balancers", spec("u-1"));
            tokio::select! {
                answer = asking => panic!("answered {answer:?}"),
                reached = planned.reached(LIMIT) => reached.unwrap(),
            }
        }
        // The client is gone.
        planned.over(LIMIT).await.unwrap();
        planned.release();
        assert_eq!(cloud.balancers().len(), made, "{when:?}");
    }
    let cloud = cloud(Duration::ZERO).await;
    let mut planned = cloud.plan(Fault { of: Requests::Writes, nth: 1, when: When::Before, act: Act::Hold });
    let release = async {
        planned.reached(LIMIT).await.unwrap();
        planned.release();
    };
    let (answer, ()) = tokio::join!(ask(&cloud, "POST", "load-balancers", spec("u-1")), release);
    assert_eq!((answer.0, cloud.balancers().len()), (201, 1));
}

#[tokio::test]
async fn one_can_wait_for_what_the_balancers_become() {
    let cloud = cloud(Duration::ZERO).await;
    let waiting = cloud.await_balancers(LIMIT, |balancers| balancers.len() == 2);
    let work = async {
        for _ in 0..2 {
            ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
        }
    };
    tokio::join!(waiting, work).0.unwrap();
    let error = cloud.await_balancers(Duration::from_millis(1), <[_]>::is_empty).await.unwrap_err();
    assert!(format!("{error:#}").contains("lb-000002"), "{error:#}");
}

#[tokio::test]
async fn members_need_the_pool_which_comes_again_with_the_whole() {
    let cloud = cloud(Duration::ZERO).await;
    ask(&cloud, "POST", "load-balancers", spec("u-1")).await;
    let one = "load-balancers/lb-000001";
    let members = async || ask(&cloud, "PUT", &format!("{one}/members"), json!({ "members": ["n1"] })).await.0;
    assert_eq!(members().await, 200);
    cloud.lose_pool("lb-000001", 422);
    assert_eq!((members().await, cloud.balancers()[0].spec.members.len()), (422, 0));
    assert_eq!(ask(&cloud, "PUT", one, spec("u-1")).await.0, 200);
    assert_eq!(members().await, 200);
    cloud.lose("lb-000001");
    assert_eq!((members().await, cloud.balancers().len()), (404, 0));
}
