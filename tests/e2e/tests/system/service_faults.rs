//! Services that change or go while the cloud works, clouds and API servers that fail, other writers, objects that nobody can
//! read: in the end each Service has one load balancer and says so, or none.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_cluster::{await_absent, await_all};
use ccm_e2e::balancer_cloud::{Act, Fault, Kind, Planned, Requests, When};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::look::annotate;
use crate::service_look::{
    ID, assert_one_each, await_reason, await_served, await_service, balanced, balancing, change, cloud, delete,
    is_bare, is_served, owned, serve, serve_whole, services, the, told, two_nodes,
};
use crate::stage::{LIMIT, Stage};

const NEVER: Duration = Duration::from_secs(3_600);

fn hold(of: Requests) -> Fault {
    Fault { of, nth: 1, when: When::Before, act: Act::Hold }
}

/// Each while the cloud builds the load balancer, and while a request is on its way that makes it.
#[tokio::test]
async fn what_a_service_becomes_while_the_cloud_works_is_what_counts() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(NEVER).await;
    let host = balancing(&stage, &cloud, &[]);
    host.ready().await;
    let to_cluster_ip = json!({ "spec": { "type": "ClusterIP" } });
    let to_port = json!({ "spec": { "ports": [{ "port": 443 }] } });
    for held in [false, true] {
        let name = |what: &str| if held { format!("{what}-held") } else { format!("{what}-pending") };
        for what in ["deleted", "type", "class", "port"] {
            let name = name(what);
            let planned = held.then(|| cloud.plan(hold(Requests::Of(Kind::Create))));
            serve(client, &name, json!({})).await;
            let planned = match planned {
                Some(mut planned) => {
                    planned.reached(LIMIT).await.unwrap();
                    Some(planned)
                }
                None => {
                    await_reason(client, &name, "CloudPending").await;
                    None
                }
            };
            match what {
                "deleted" => delete(client, &name).await,
                "port" => drop(change(client, &name, &to_port).await),
                _ => drop(change(client, &name, &to_cluster_ip).await),
            }
            if let Some(planned) = planned {
                planned.release();
            }
            match what {
                "deleted" => await_absent(&services(client), &name, LIMIT).await.unwrap(),
                "type" => drop(await_service(client, &name, is_bare).await),
                "class" => {
                    await_service(client, &name, is_bare).await;
                    let class = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "another.example/x" } });
                    change(client, &name, &class).await;
                }
                _ => {
                    let changed = |all: &[ccm_e2e::balancer_cloud::Balancer]| {
                        all.len() == 1 && all[0].spec.ports.iter().all(|port| port["port"] == 443)
                    };
                    cloud.await_balancers(LIMIT, changed).await.unwrap();
                    await_reason(client, &name, "CloudPending").await;
                    let service = the(client, &name).await;
                    assert_eq!(owned(&cloud, &service)[0].id, service.annotations()[ID], "{name}");
                    delete(client, &name).await;
                    await_absent(&services(client), &name, LIMIT).await.unwrap();
                }
            }
            assert_eq!(cloud.balancers().len(), 0, "{name}");
            let warnings: Vec<String> =
                told(client, &name).await.into_iter().filter(|line| line.starts_with("Warning")).collect();
            assert_eq!(warnings, [""; 0], "{name}");
        }
        assert!(is_bare(&the(client, &name("class")).await));
    }
    host.end().await;
}

#[tokio::test]
async fn a_cloud_that_refuses_breaks_off_or_answers_wrongly_makes_one_load_balancer_per_service() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    let acts = [Act::Answer(500), Act::Answer(503), Act::Answer(409), Act::Hangup];
    let faults = acts.into_iter().flat_map(|act| [(act, When::Before), (act, When::After)]);
    // It says that nothing was done.
    let faults: Vec<(Act, When)> = faults.chain([(Act::Answer(429), When::Before)]).collect();
    for (act, when) in faults {
        let case = format!("{act:?} {when:?}");
        let name: String = case.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        let plan = |kind| cloud.plan(Fault { of: Requests::Of(kind), nth: 1, when, act });
        let planned = [Kind::List, Kind::Create].map(plan);
        let served = serve_whole(client, &name, json!({})).await;
        assert!(planned.iter().all(Planned::is_reached), "{case}");
        assert_eq!(owned(&cloud, &served).len(), 1, "{case}");
        let planned = [Kind::List, Kind::Delete].map(plan);
        delete(client, &name).await;
        await_absent(&services(client), &name, LIMIT).await.unwrap();
        assert!(planned.iter().all(Planned::is_reached), "{case}");
        assert_eq!(cloud.balancers().len(), 0, "{case}");
    }
    host.end().await;
}

/// Somebody who writes all the time, and whose finalizer comes and goes.
#[tokio::test]
async fn an_owner_who_writes_all_the_time_keeps_what_is_his_and_gets_his_load_balancer() {
    const HIS: &str = "owner.example/finalizer";
    const TURNS: usize = 5;
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    let to_cluster_ip = json!({ "spec": { "type": "ClusterIP" } });
    let toggle = async |name: &str, has: bool| {
        let patch = match has {
            false => json!({ "metadata": { "finalizers": [HIS] } }),
            true => json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [HIS] } }),
        };
        let patch = Patch::Strategic(&patch);
        services(client).patch(name, &PatchParams::default(), &patch).await.unwrap();
    };

    // The write that takes our finalizer away was made for a Service without his: it is refused, and made anew.
    serve_whole(client, "met", json!({})).await;
    let mut planned = cloud.plan(Fault { when: When::After, ..hold(Requests::Of(Kind::Delete)) });
    change(client, "met", &to_cluster_ip).await;
    planned.reached(LIMIT).await.unwrap();
    toggle("met", false).await;
    planned.release();
    let met = await_service(client, "met", is_bare).await;
    assert_eq!(met.finalizers(), [HIS]);
    let count = async |outcome: &[&str]| {
        let labels = [&["resource=\"services/status\""], outcome].concat();
        host.count("ccm_api_requests_total", &labels).await.unwrap()
    };
    // The host has its answers, so that both looks at the page see the same.
    host.idle("service", 1).await;
    assert_eq!(count(&[]).await - count(&["outcome=\"ok\""]).await, 1.0);
    toggle("met", true).await;
    delete(client, "met").await;
    let writes_so_far = cloud.writes().len();

    serve(client, "busy", json!({})).await;
    let owner = async {
        for turn in 0_u64.. {
            let label = json!({ "metadata": { "labels": { "turn": turn.to_string() } } });
            let has = change(client, "busy", &label).await.finalizers().iter().any(|finalizer| finalizer == HIS);
            assert_eq!(has, turn % 2 == 1, "turn {turn}");
            toggle("busy", has).await;
        }
    };
    let story = async {
        for _ in 0..TURNS {
            await_served(client, "busy").await;
            change(client, "busy", &to_cluster_ip).await;
            await_service(client, "busy", is_bare).await;
            change(client, "busy", &json!({ "spec": { "type": "LoadBalancer" } })).await;
        }
        await_served(client, "busy").await;
    };
    tokio::select! {
        () = owner => unreachable!(),
        () = story => {}
    }
    assert_one_each(client, &cloud).await;
    let writes: Vec<Kind> = cloud.writes().iter().skip(writes_so_far).map(|write| write.kind).collect();
    let expected: Vec<Kind> = [Kind::Create, Kind::Delete].into_iter().cycle().take(2 * TURNS + 1).collect();
    assert_eq!(writes, expected, "his labels are no reason to ask the cloud");
    host.end().await;
}

/// The API server is killed in the middle, so that answers are lost whose writes were done, and all watches end.
#[tokio::test]
async fn an_api_server_that_is_restarted_while_load_balancers_are_made_and_deleted_leaves_one_for_each_service() {
    const COUNT: usize = 30;
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::from_millis(1_500)).await;
    let host = balancing(&stage, &cloud, &["--concurrent-service-syncs=2"]);
    host.ready().await;
    let names: Vec<String> = (0..COUNT).map(|i| format!("s{i}")).collect();
    join_all(names.iter().map(|name| serve(client, name, json!({})))).await;
    let (go, stay) = names.split_at(COUNT / 3);
    cloud.await_balancers(LIMIT, |all| all.len() >= COUNT / 3).await.unwrap();
    join_all(go.iter().map(|name| delete(client, name))).await;
    stage.cluster.stop_api_server().await.unwrap();
    host.await_log(LIMIT, &["WARN", "Service", "watch"]).await.unwrap();
    stage.cluster.start_api_server().await.unwrap();

    let done = |all: &BTreeMap<String, Service>| {
        let left: Vec<&Service> = all.values().filter(|service| service.name_any() != "kubernetes").collect();
        left.len() == stay.len() && left.iter().all(|service| is_served(service))
    };
    await_all(&services(client), watcher::Config::default(), LIMIT, done).await.unwrap();
    cloud.await_balancers(LIMIT, |all| all.len() == stay.len()).await.unwrap();
    assert_one_each(client, &cloud).await;
    let mut made: Vec<String> =
        cloud.writes().into_iter().filter(|write| write.kind == Kind::Create).map(|write| write.owner).collect();
    let count = made.len();
    made.sort();
    made.dedup();
    assert_eq!(made.len(), count, "somebody had two");
    host.stop().await;
}

/// What the API server lets through and a program that knows Services cannot read: conditions without a time. Once such a
/// Service was taken for deleted when all Services were listed anew, and its load balancer went.
#[tokio::test]
async fn a_service_that_cannot_be_read_keeps_what_it_has_and_nobody_else_waiting() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let set_time = async |name: &str, time: Option<&str>| {
        let condition =
            json!({ "type": "Odd", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": time });
        let body = json!({ "status": { "conditions": [condition] } }).to_string().into_bytes();
        let request = http::Request::patch(format!("/api/v1/namespaces/default/services/{name}/status"))
            .header("content-type", "application/strategic-merge-patch+json");
        client.request_text(request.body(body).unwrap()).await.unwrap()
    };
    serve(client, "odd", json!({})).await;
    let text = set_time("odd", None).await;
    assert!(serde_json::from_str::<Service>(&text).is_err(), "it can be read: {text}");
    let host = balancing(&stage, &cloud, &[]);
    serve_whole(client, "served", json!({})).await;
    let unreadable = |many: f64| {
        host.await_count("ccm_store_undecodable_objects_total", &["kind=\"Service\""], LIMIT, {
            move |count| count >= many
        })
    };
    unreadable(1.0).await.unwrap();
    host.await_log(LIMIT, &["ERROR", "cannot be decoded", "odd"]).await.unwrap();
    assert_eq!(cloud.balancers().len(), 1);

    // One that is served; then the API server forgets what came before the change of a Node, and all are listed anew.
    set_time("served", None).await;
    unreadable(2.0).await.unwrap();
    let seen = version(client, "served").await;
    annotate(client, "n1", "later", Some("true")).await;
    stage.cluster.stop_api_server().await.unwrap();
    stage.cluster.start_api_server().await.unwrap();
    assert!(is_too_old(client, &seen).await);
    unreadable(4.0).await.unwrap();
    serve_whole(client, "even", json!({})).await;
    assert_eq!(cloud.count(Kind::Delete), 0);

    for name in ["odd", "served"] {
        set_time(name, Some("2026-01-01T00:00:00Z")).await;
        await_served(client, name).await;
    }
    assert_one_each(client, &cloud).await;
    assert_eq!(cloud.count(Kind::Create), 3);
    host.stop().await;
}

/// The version of a Service that cannot be read.
async fn version(client: &Client, name: &str) -> String {
    let path = format!("/api/v1/namespaces/default/services/{name}");
    let text = client.request_text(http::Request::get(path).body(vec![]).unwrap()).await.unwrap();
    let service: Value = serde_json::from_str(&text).unwrap();
    service["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Whether nobody can watch from there any more.
async fn is_too_old(client: &Client, version: &str) -> bool {
    let path = format!("/api/v1/services?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let answer = client.request_text(http::Request::get(path).body(vec![]).unwrap()).await;
    answer.unwrap_or_else(|error| error.to_string()).contains("too old resource version")
}
