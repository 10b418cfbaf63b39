//! Exchanges while Nodes and Services come, change and go: twenty, and a hundred in `./just nightly`.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_cluster::{NodeFixture, await_absent};
use ccm_e2e::balancer_cloud::Kind;
use ccm_e2e::host::component;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::{QUICK, await_status, file, replace};
use crate::look::{all_events, await_untainted, nodes};
use crate::service_look::{self, await_served, await_service, change, cloud, delete, serve, services, two_nodes};
use crate::stage::{Actor, LIMIT, Stage};

/// Exchanges before the memory is looked at.
const WARM: u32 = 10;
/// The variable that says how many count.
const EXCHANGES: &str = "SWAP_EXCHANGES";
/// What the process may have grown by then, in KiB.
const GROWTH: i64 = 10 << 10;

/// The same component in other bytes: with a custom section that nobody reads.
fn varied(bytes: &[u8], number: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.extend([0, 6, 1, b'x']);
    bytes.extend(number.to_le_bytes());
    bytes
}

fn resident(host: &Actor) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn exchanges_under_load_lose_nothing_and_write_nothing_twice() {
    let counted = std::env::var(EXCHANGES).map_or(20, |number| number.parse().unwrap());
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = cloud(Duration::from_millis(50)).await;
    two_nodes(client).await;
    let original = std::fs::read(component("guests/balancer.wasm").unwrap()).unwrap();
    let (path, flag) = file(&stage, &original);
    let flags = cloud.flags().into_iter().chain([flag]);
    let flags = flags.chain(QUICK.map(str::to_owned)).chain(service_look::QUICK.map(str::to_owned));
    let host = stage.start(flags);
    host.ready().await;
    serve(client, "stays", json!({})).await;
    await_served(client, "stays").await;

    let mut memory = 0;
    let exchanges = async {
        for number in 1..=WARM + counted {
            replace(&path, &varied(&original, number));
            let generation = number + 1;
            await_status(&host, "exchange", |status| status["generation"] == generation && status["phase"] == "proven")
                .await;
            if number == WARM {
                memory = resident(&host);
            }
        }
    };
    let mut rounds = 0_u32;
    let unrest = async {
        loop {
            rounds += 1;
            let name = format!("web-{rounds}");
            let node = format!("node-{rounds}");
            NodeFixture::new(&node)
                .internal_ip("10.0.0.9")
                .provider_id(&format!("balancer://{node}"))
                .register(client)
                .await
                .unwrap();
            serve(client, &name, json!({})).await;
            await_untainted(client, &node).await;
            await_served(client, &name).await;
            let changed = change(client, &name, &json!({ "spec": { "ports": [{ "port": 81 }] } })).await;
            let generation = changed.metadata.generation;
            let is_done = |service: &k8s_openapi::api::core::v1::Service| {
                let conditions = service.status.as_ref().and_then(|status| status.conditions.as_deref());
                let mut ready = conditions.unwrap_or_default().iter().filter(|one| one.type_ == "LoadBalancerReady");
                ready.any(|one| one.status == "True" && one.observed_generation >= generation)
            };
            await_service(client, &name, is_done).await;
            delete(client, &name).await;
            await_absent(&services(client), &name, LIMIT).await.unwrap();
            drop(nodes(client).delete(&node, &DeleteParams::default()).await.unwrap());
        }
    };
    tokio::select! {
        () = exchanges => {}
        () = unrest => {}
    }
    let grown = resident(&host) - memory;
    assert!(grown.abs() <= GROWTH, "{grown} KiB more after {counted} exchanges, {memory} before");
    assert!(rounds > counted / 10, "only {rounds} rounds of unrest");

    // Let the round that was cut off end.
    host.idle("service", 1).await;
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for write in cloud.writes().into_iter().filter(|write| write.kind == Kind::Create) {
        *made.entry(write.owner).or_default() += 1;
    }
    assert!(!made.is_empty() && made.values().all(|times| *times == 1), "made twice: {made:?}");
    let stays = service_look::the(client, "stays").await;
    let own: Vec<_> = cloud.writes().into_iter().filter(|write| Some(&write.owner) == stays.uid().as_ref()).collect();
    let whole = own.iter().filter(|write| write.kind != Kind::Members).count();
    assert_eq!(whole, 1, "only its members change: {own:?}");
    let warnings: Vec<_> =
        all_events(client).await.into_iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    let bad = host.log().into_iter().filter(|line| line.contains("\"ERROR\"")).collect::<Vec<_>>();
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(
        host.count("ccm_provider_loads_total", &["result=\"taken\""]).await.unwrap(),
        f64::from(WARM + counted + 1)
    );
    assert_eq!(host.count("ccm_provider_loads_total", &["result=\"rolled-back\""]).await.unwrap(), 0.0);
    host.end().await;
}
