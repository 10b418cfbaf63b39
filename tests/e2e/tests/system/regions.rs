//! Several providers of one component in one process: two regions of a cloud, each with its Nodes, Services, budget and metrics.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use ccm_cluster::NodeFixture;
use ccm_e2e::balancer_cloud::{Act, BalancerCloud, CloudSettings, Fault, Requests, When};
use ccm_e2e::host::component;
use serde_json::{Value, json};

use crate::look::{await_untainted, get, is_tainted};
use crate::service_look::{QUICK, await_served, change, cloud, owned, serve};
use crate::stage::{Actor, LIMIT, Stage};

/// As [`cloud`], with addresses of its own.
async fn western_cloud() -> BalancerCloud {
    let network = Ipv4Addr::new(198, 19, 0, 0);
    BalancerCloud::start(CloudSettings { latency: Duration::from_millis(5), provisioning: Duration::ZERO, network })
        .await
        .unwrap()
}

/// The provider of a region, as an entry of the list.
fn region(name: &str, cloud: &BalancerCloud) -> Value {
    let flags = cloud.flags();
    let after = |prefix: &str| flags.iter().find_map(|flag| flag.strip_prefix(prefix)).unwrap();
    json!({
        "source": component("guests/balancer.wasm").unwrap(),
        "component": "balancer",
        "name": format!("balancer-{name}"),
        "providerIdPrefixes": [format!("balancer://{name}/")],
        "settings": { "region": name },
        "grants": {
            "endpoints": { "api": after("--endpoint=api=") },
            "allowHttp": true,
            "allowLoopback": true,
        },
        "credentials": { "token": after("--credential=token=") },
        "loadBalancerClasses": [class(name)],
    })
}

fn class(region: &str) -> String {
    format!("balancer.example/{region}")
}

fn of(region: &str) -> Value {
    json!({ "spec": { "loadBalancerClass": class(region) } })
}

fn start(stage: &Stage, providers: &[Value], flags: &[&str]) -> Actor {
    let list = format!("--providers={}", stage.file("providers.yaml", json!(providers).to_string()).display());
    stage.start([list.as_str()].into_iter().chain(QUICK).chain(flags.iter().copied()))
}

/// Requests of the provider of a region with this outcome.
async fn requests(host: &Actor, region: &str, outcome: &str) -> f64 {
    let labels = [format!("provider=\"balancer-{region}\""), format!("outcome=\"{outcome}\"")];
    host.count("ccm_cloud_requests_total", &labels.each_ref().map(String::as_str)).await.unwrap_or_default()
}

#[tokio::test]
async fn two_regions_of_one_cloud_share_a_process_and_nothing_else() {
    const LED: [&str; 2] = ["--leader-elect=true", "--leader-elect-retry-period=500ms"];
    let stage = Stage::new().await;
    let client = stage.client();
    let (east, west) = (cloud(Default::default()).await, western_cloud().await);
    let providers = [region("east", &east), region("west", &west)];
    let leader = start(&stage, &providers, &LED);
    leader.ready().await;

    // Nodes: by their provider ID, and those without one by what the clouds say.
    let nodes = [("east-1", None), ("west-1", None), ("west-2", Some("balancer://west/west-2"))];
    let elsewhere = ("north-1", Some("balancer://north/north-1"));
    for (name, id) in nodes.into_iter().chain([elsewhere]) {
        let fixture = NodeFixture::new(name).internal_ip("10.0.0.1");
        id.into_iter().fold(fixture, NodeFixture::provider_id).register(client).await.unwrap();
    }
    for (name, _) in nodes {
        let node = await_untainted(client, name).await;
        let region = name.split('-').next().unwrap();
        assert_eq!(node.spec.unwrap().provider_id, Some(format!("balancer://{region}/{name}")));
    }
    assert!(is_tainted(&get(client, "north-1").await), "a region that nobody looks after");

    // Services: by their class, with the machines of their own region.
    for (name, region) in [("shop", "east"), ("mail", "west")] {
        serve(client, name, of(region)).await;
    }
    let machines = |cloud: &BalancerCloud| {
        cloud.balancers().into_iter().map(|balancer| balancer.spec.members).collect::<BTreeSet<_>>()
    };
    let (shop, mail) = (await_served(client, "shop").await, await_served(client, "mail").await);
    assert_eq!([owned(&east, &shop).len(), owned(&west, &mail).len()], [1, 1]);
    assert_eq!([owned(&east, &mail).len(), owned(&west, &shop).len()], [0, 0]);
    east.await_balancers(LIMIT, |_| machines(&east) == BTreeSet::from([vec!["east/east-1".to_owned()]])).await.unwrap();
    let both = ["west/west-1", "west/west-2"].map(str::to_owned).to_vec();
    west.await_balancers(LIMIT, |_| machines(&west) == BTreeSet::from([both.clone()])).await.unwrap();

    // Budget and metrics: one cloud asks for a pause, and the other does not hear of it.
    west.plan(Fault { of: Requests::All, nth: 1, when: When::Before, act: Act::Answer(429) });
    let ports = json!({ "spec": { "ports": [{ "port": 81 }] } });
    for name in ["mail", "shop"] {
        change(client, name, &ports).await;
    }
    for (cloud, service) in [(&east, &shop), (&west, &mail)] {
        let has_changed = |_: &[_]| owned(cloud, service).iter().all(|balancer| balancer.spec.ports[0]["port"] == 81);
        cloud.await_balancers(LIMIT, has_changed).await.unwrap();
    }
    assert_eq!([requests(&leader, "east", "429").await, requests(&leader, "west", "429").await], [0.0, 1.0]);
    assert!(requests(&leader, "east", "2xx").await > 0.0 && requests(&leader, "west", "2xx").await > 0.0);
    let names = leader.page("/metrics").await.unwrap().1;
    assert!(!names.contains("provider=\"balancer\""), "both have names of their own");

    // Leader: whoever comes next knows whose each Service is, and writes nothing.
    await_served(client, "shop").await;
    await_served(client, "mail").await;
    let standby = start(&stage, &providers, &LED);
    standby.ready().await;
    let written = [east.writes().len(), west.writes().len()];
    leader.end().await;
    standby.await_log(LIMIT, &["this process leads"]).await.unwrap();
    for (name, region) in [("shop2", "east"), ("mail2", "west")] {
        serve(client, name, of(region)).await;
        await_served(client, name).await;
    }
    let made = [east.balancers().len(), west.balancers().len()];
    assert_eq!((made, owned(&east, &shop).len(), owned(&west, &mail).len()), ([2, 2], 1, 1));
    for (cloud, (before, service)) in [&east, &west].into_iter().zip(written.into_iter().zip([&shop, &mail])) {
        let uid = service.metadata.uid.as_deref().unwrap();
        let since: Vec<_> = cloud.writes().into_iter().skip(before).filter(|write| write.owner == uid).collect();
        assert!(since.is_empty(), "{since:?}");
    }
    standby.end().await;
}

/// Both would look after the same machines, and each would delete the Nodes that the other one has.
#[tokio::test]
async fn two_providers_that_contest_provider_ids_or_a_name_are_refused_and_both_are_named() {
    let stage = Stage::new().await;
    let (east, west) = (cloud(Default::default()).await, western_cloud().await);
    let without = |mut entry: Value, field: &str| {
        entry.as_object_mut().unwrap().remove(field);
        entry
    };
    let (east, west) = (region("east", &east), region("west", &west));
    let mut north = east.clone();
    north["providerIdPrefixes"] = json!(["balancer://east/north/"]);
    north["name"] = json!("balancer-north");
    let mut foreign = west.clone();
    foreign["providerIdPrefixes"] = json!(["other://west/"]);
    let contest = "both take care of provider IDs that begin with";
    let copy = stage.file("copy.wasm", std::fs::read(component("guests/balancer.wasm").unwrap()).unwrap());
    let mut unnamed = without(without(west.clone(), "name"), "component");
    unnamed["source"] = json!(copy);
    let plain = without(without(east.clone(), "name"), "component");
    let cases = [
        (
            vec![east.clone(), without(west.clone(), "providerIdPrefixes")],
            vec![contest, "balancer-east", "balancer-west"],
        ),
        (vec![east.clone(), north], vec![contest, "balancer://east/north/", "balancer-north", "providerIdPrefixes"]),
        (vec![plain, unnamed], vec!["two providers are called balancer", "copy.wasm", "as component"]),
    ];
    for (providers, parts) in cases {
        let mut host = start(&stage, &providers, &[]);
        let ended = host.wait(LIMIT).await.unwrap();
        let log = host.log_text();
        assert!(!ended.success(), "{log}");
        for part in parts {
            assert!(log.contains(part), "{part:?} is not in {log}");
        }
    }
    // A prefix of another scheme is a mistake that can be mended while the process runs.
    let host = start(&stage, &[foreign], &[]);
    host.await_log(LIMIT, &["other://west/", "its own begin with balancer://"]).await.unwrap();
    host.end().await;
}
