//! `wasm-ccm run --dry-run`: a host beside another manager that shows what it would write, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{Host, component};
use ccm_sim_digitalocean::{Act, Droplet, Endpoint, Fault, Requests, TOKEN, When};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Cloud, await_balanced, configured, members, start};
use crate::look::{await_untainted, patch, patch_status};
use crate::service_look::{annotated, change, delete, serve};
use crate::stage::{Actor, LIMIT, RIVAL, Stage};

const READ_ONLY: &str = "dop_v1_may_only_read";
const PENDING: &str = "ccm_dry_run_pending_writes";

/// Looks are as far apart as a test can wait for.
const FLAGS: [&str; 9] = [
    "--dry-run",
    "--leader-elect=true",
    "--node-monitor-period=1s",
    "--node-monitor-max-period=2s",
    "--node-deletion-min-age=0",
    "--provider-poll=100ms",
    "--provider-settle=50ms",
    "--controller-watchdog-periods=1",
    "--cluster-period=1h",
];

/// One of a user that may read Nodes and Services and nothing else, with a token that may only read.
async fn beside(stage: &Stage, cloud: &Cloud, file: &std::path::Path) -> Actor {
    let kubeconfig = stage.reader().await;
    cloud.allow_reads(READ_ONLY);
    let url = cloud.url();
    let (environment, flags) = configured(cloud, file, &url, &[("DO_ACCESS_TOKEN", READ_ONLY)], &FLAGS);
    Actor::from(Host::start_in(kubeconfig, &environment, flags).unwrap())
}

/// Versions of everything that a host can write, by kind and name.
async fn versions(client: &Client) -> BTreeMap<String, Option<String>> {
    async fn all<K>(client: &Client) -> Vec<(String, Option<String>)>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let list = Api::<K>::all(client.clone()).list(&Default::default()).await.unwrap();
        let name = |one: &K| format!("{} {}/{}", K::kind(&()), one.namespace().unwrap_or_default(), one.name_any());
        list.iter().map(|one| (name(one), one.resource_version())).collect()
    }
    let (nodes, services, leases, maps, events) = tokio::join!(
        all::<k8s_openapi::api::core::v1::Node>(client),
        all::<k8s_openapi::api::core::v1::Service>(client),
        all::<Lease>(client),
        all::<ConfigMap>(client),
        all::<Event>(client),
    );
    // The API server renews a Lease of its own.
    let leases = leases.into_iter().filter(|(name, _)| !name.contains("apiserver-"));
    nodes.into_iter().chain(services).chain(leases).chain(maps).chain(events).collect()
}

/// Lines of the log about writes, each with what it says and of which object.
fn told(host: &Host, says: &str) -> Vec<String> {
    let lines = host.log().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let fields = lines.map(|line| if line["fields"].is_object() { line["fields"].clone() } else { line });
    let about = fields.filter(|fields| fields["message"].as_str().is_some_and(|message| message.contains(says)));
    about.map(|fields| format!("{} {}", fields["object"], fields["write"]).replace(['"', '\\'], "")).collect()
}

async fn await_told(host: &Host, says: &str, object: &str, parts: &[&str]) {
    let all = [&[says, object], parts].concat();
    host.await_log(LIMIT, &all).await.unwrap();
}

/// Nobody wrote anything, nor tried to.
fn assert_nothing_written(stage: &Stage, cloud: &Cloud) {
    let tried: Vec<_> = stage.cluster.writes().unwrap().into_iter().filter(|write| write.user == RIVAL).collect();
    assert!(tried.is_empty(), "{tried:?}");
    assert_eq!(cloud.counters().writes, 0);
    let methods: BTreeSet<String> = cloud.exchanges().into_iter().map(|exchange| exchange.method).collect();
    assert_eq!(methods, BTreeSet::from(["GET".to_owned()]));
}

#[tokio::test]
async fn a_dry_run_shows_what_it_would_write_once_and_writes_nothing_whatever_happens() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    // So many that one may be deleted.
    members(client, &cloud, &[101, 102, 103, 104]).await;
    serve(client, "web", json!({})).await;
    let file =
        stage.file("digitalocean.wasm", std::fs::read(component("providers/digitalocean.wasm").unwrap()).unwrap());
    let host = beside(&stage, &cloud, &file).await;
    host.await_log(LIMIT, &["this process writes nothing, and takes part in no election"]).await.unwrap();
    let ready = host.await_page("/readyz", 200, LIMIT).await.unwrap();
    assert!(ready.contains("dry run: this process writes nothing"), "{ready}");
    // The watchdog has begun with the first look.
    host.await_page("/healthz/dry-run", 200, LIMIT).await.unwrap();
    let (says, no_longer) = ("dry run: would be written", "dry run: would no longer be written");
    await_told(&host, says, "Service default/web", &["cloud POST digitalocean/api /v2/load_balancers"]).await;
    await_told(&host, says, "Service default/web", &["cluster PATCH", "load-balancer-cleanup"]).await;

    // A Node joins, a machine disappears, a Service changes, another one comes and goes.
    cloud.put_droplet(Droplet::new(201, "new"));
    NodeFixture::new("new").register(client).await.unwrap();
    await_told(&host, says, "Node new", &["cluster PATCH /api/v1/nodes/new ", "digitalocean://201"]).await;
    assert!(cloud.remove_droplet(104));
    let condition = json!([{ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "" }]);
    patch_status(client, "n104", &json!({ "conditions": condition })).await;
    await_told(&host, says, "Node n104", &["cluster DELETE /api/v1/nodes/n104"]).await;
    for (node, would_delete) in [("n104", true), ("n101", false)] {
        let (_, explained) = host.page(&format!("/explain/v1/node/{node}")).await.unwrap();
        let explained: Value = serde_json::from_str(&explained).unwrap();
        assert_eq!(explained["wouldDelete"], would_delete, "{explained}");
    }
    change(client, "web", &annotated([("service.beta.kubernetes.io/do-loadbalancer-size-unit", "3")])).await;
    let size = r#"\"size_unit\":3"#;
    await_told(&host, says, "Service default/web", &["cloud POST", size]).await;
    serve(client, "other", json!({})).await;
    await_told(&host, says, "Service default/other", &["cloud POST"]).await;
    delete(client, "other").await;
    await_told(&host, no_longer, "Service default/other", &["cloud POST"]).await;
    // Somebody else initialises the Node.
    let initialised = json!({ "spec": { "providerID": "digitalocean://201", "taints": null } });
    patch(client, "new", &initialised).await;
    await_untainted(client, "new").await;
    await_told(&host, no_longer, "Node new", &["cluster PATCH /api/v1/nodes/new "]).await;

    // The same component with another digest.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend([0, 3, 1, b'x', b'y']);
    std::fs::write(&file, bytes).unwrap();
    host.await_provider(LIMIT, |provider| provider.generation == 2).await.unwrap();

    // Nothing happens, and it looks again and again.
    let looks = async || host.metric("ccm_dry_run_looks_total").await.unwrap();
    let more = async |looks_so_far: f64, more: f64| {
        host.await_count("ccm_dry_run_looks_total", &[], LIMIT, |looks| looks >= looks_so_far + more).await.unwrap()
    };
    more(looks().await, 4.0).await;
    let requests = async || host.metric("rest_client_requests_total").await.unwrap();
    let (begun, looks_before, told_before) = (Instant::now(), looks().await, host.log().len());
    let before = (versions(client).await, cloud.exchanges().len(), requests().await);
    let looks = more(looks_before, 8.0).await - looks_before;
    let (asked, sent) = (cloud.exchanges().len() - before.1, requests().await - before.2);
    // Each second for the Service, and every other one for the Node that is not Ready.
    let per_second = looks / begun.elapsed().as_secs_f64();
    assert!(per_second < 3.0, "{per_second} looks in a second");
    assert!(
        asked as f64 <= 8.0 * looks && sent <= 8.0 * looks,
        "{looks} looks: {asked} to the cloud, {sent} to the API server"
    );
    assert_eq!(versions(client).await, before.0);
    let again: Vec<String> =
        host.log().split_off(told_before).into_iter().filter(|line| line.contains("dry run")).collect();
    assert_eq!(again, [""; 0], "each write is told once");
    let mut all = told(&host, says);
    let count = all.len();
    all.sort();
    all.dedup();
    assert!(all.len() == count && count >= 6, "{all:#?}");

    // Of Nodes: one goes, and whoever initialised the other has not written its addresses.
    for (kind, to, number) in [("Service", "cloud", 1.0), ("Service", "cluster", 1.0), ("Node", "cluster", 2.0)] {
        let labels = [format!("kind=\"{kind}\""), format!("to=\"{to}\"")];
        let pending = host.count(PENDING, &labels.each_ref().map(String::as_str)).await.unwrap();
        assert!((pending - number).abs() < 0.5, "{kind} {to}: {pending}: {all:#?}");
    }
    let (_, page) = host.page("/").await.unwrap();
    for part in
        ["writes kept back", "Would be written: ", "Service default/web", "cloud POST digitalocean/api", "since 20"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (_, explained) = host.page("/explain/v1/service/default/web").await.unwrap();
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let lines = explained["dryRun"].to_string();
    assert!(lines.contains("would write since") && lines.contains("/v2/load_balancers"), "{explained}");
    for secret in [TOKEN, READ_ONLY] {
        assert!(!page.contains(secret) && !lines.contains(secret) && !host.log_text().contains(secret));
    }
    assert_eq!(host.page("/healthz").await.unwrap().0, 200);
    assert_eq!(host.page("/readyz").await.unwrap().0, 200);
    assert_nothing_written(&stage, &cloud);
    host.stop().await;
    assert_nothing_written(&stage, &cloud);
    cloud.unsettled("nobody writes");
    cloud.check().unwrap();
}

/// What an operator waits for before the switch.
#[tokio::test]
async fn beside_a_manager_that_works_a_dry_run_comes_to_rest_and_leaves_its_lease_alone() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[301, 302]).await;
    let leader = start(&stage, &cloud, &[], &["--leader-elect=true"]);
    leader.ready().await;
    let observer = beside(&stage, &cloud, &component("providers/digitalocean.wasm").unwrap()).await;
    observer.ready().await;
    serve(client, "web", json!({})).await;
    await_balanced(client, &cloud, "web").await;
    cloud.put_droplet(Droplet::new(303, "n303"));
    NodeFixture::new("n303").register(client).await.unwrap();
    await_untainted(client, "n303").await;
    let has_three = |cloud: &ccm_sim_digitalocean::DigitalOcean| cloud.balancers()[0].spec.droplet_ids.len() == 3;
    cloud.until(LIMIT, has_three).await.unwrap();

    let looks = observer.metric("ccm_dry_run_looks_total").await.unwrap();
    // A look at everything that began now sees nothing to do.
    change(client, "web", &annotated([("example.com/touched", "1")])).await;
    observer.await_count("ccm_dry_run_looks_total", &[], LIMIT, |now| now >= looks + 2.0).await.unwrap();
    for waits in [PENDING, "ccm_dry_run_unknown_objects"] {
        observer.await_count(waits, &[], LIMIT, |waits| waits == 0.0).await.unwrap();
    }
    let (_, page) = observer.page("/").await.unwrap();
    assert!(page.contains("Nothing needs attention") && page.contains("Would be written: 0"), "{page}");
    let lease = Api::<Lease>::namespaced(client.clone(), "kube-system").get("cloud-controller-manager").await.unwrap();
    assert_eq!(lease.spec.unwrap().lease_transitions.unwrap_or_default(), 0);
    let tried: Vec<_> = stage.cluster.writes().unwrap().into_iter().filter(|write| write.user == RIVAL).collect();
    assert!(tried.is_empty(), "{tried:?}");
    observer.stop().await;
    leader.end().await;
    cloud.settled(&stage).await;
    cloud.check().unwrap();
}

/// What `explain` says of the Service `web` in a dry run.
async fn explained(host: &Host) -> String {
    let (_, text) = host.page("/explain/v1/service/default/web").await.unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["dryRun"].to_string()
}

/// Waits until it has looked at everything so many times more.
async fn await_looks(host: &Host, more: f64) {
    let looks = host.count("ccm_dry_run_looks_total", &[]).await.unwrap_or_default();
    host.await_count("ccm_dry_run_looks_total", &[], LIMIT, |now| now >= looks + more).await.unwrap();
}

/// Whoever switches to this manager waits until nothing would be written. A cloud that does not answer must not look like that.
#[tokio::test]
async fn while_a_cloud_does_not_answer_a_dry_run_says_everywhere_that_it_does_not_know() {
    let unknown = ("ccm_dry_run_unknown_objects", ["kind=\"Service\""]);
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[401]).await;
    let leader = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    await_balanced(client, &cloud, "web").await;
    leader.end().await;
    let observer = beside(&stage, &cloud, &component("providers/digitalocean.wasm").unwrap()).await;
    observer.ready().await;
    // Nodes, Services, routes and the cluster.
    observer.await_count("ccm_dry_run_looks_total", &[], LIMIT, |looks| looks >= 4.0).await.unwrap();
    let lines = explained(&observer).await;
    assert!(lines.contains("would write nothing, as of"), "{lines}");

    for endpoint in [Endpoint::Balancers, Endpoint::Balancer] {
        let fault = Fault::new(Requests::Of(endpoint), 1, When::Before, Act::Status(500));
        drop(cloud.plan(Fault { times: 1_000_000, ..fault }));
    }
    change(client, "web", &annotated([("example.com/touched", "1")])).await;
    observer.await_count(unknown.0, &unknown.1, LIMIT, |objects| objects == 1.0).await.unwrap();
    let says = "dry run: what would be written is not known";
    await_told(&observer, says, "Service default/web", &["500"]).await;
    await_looks(&observer, 3.0).await;
    assert_eq!(told(&observer, says).len(), 1, "it is said once");
    let (_, page) = observer.page("/").await.unwrap();
    assert!(page.contains("Not known: 1") && page.contains("1 object not known"), "{page}");
    let lines = explained(&observer).await;
    assert!(lines.contains("not known what it would write: ") && lines.contains("500"), "{lines}");
    assert!(!lines.contains("would write nothing"), "{lines}");

    cloud.forget_faults();
    observer.await_count(unknown.0, &unknown.1, LIMIT, |objects| objects == 0.0).await.unwrap();
    await_told(&observer, "dry run: what would be written is known", "Service default/web", &[]).await;
    let (_, page) = observer.page("/").await.unwrap();
    assert!(!page.contains("ot known"), "{page}");
    let lines = explained(&observer).await;
    assert!(lines.contains("would write nothing, as of"), "{lines}");
    observer.stop().await;
    cloud.settled(&stage).await;
    cloud.check().unwrap();
}

/// The next look without a cause is an hour away, and each of these Services comes to rest before something changes.
#[tokio::test]
async fn a_dry_run_looks_when_a_type_changes_when_a_component_is_another_and_when_a_node_joins() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[501]).await;
    let leader = start(&stage, &cloud, &[], &[]);
    let mut ids = vec![];
    for name in ["inside", "drifted", "web"] {
        serve(client, name, json!({})).await;
        ids.push(await_balanced(client, &cloud, name).await.1.id);
    }
    leader.end().await;
    let writes = cloud.counters().writes;
    let file =
        stage.file("digitalocean.wasm", std::fs::read(component("providers/digitalocean.wasm").unwrap()).unwrap());
    let observer = beside(&stage, &cloud, &file).await;
    observer.ready().await;
    observer.await_count("ccm_dry_run_looks_total", &[], LIMIT, |looks| looks >= 4.0).await.unwrap();
    assert_eq!(observer.count(PENDING, &[]).await.unwrap(), 0.0);
    let says = "dry run: would be written";
    let balancer =
        |method: &str, place: usize| format!("cloud {method} digitalocean/api /v2/load_balancers/{}", ids[place]);

    change(client, "inside", &json!({ "spec": { "type": "ClusterIP" } })).await;
    await_told(&observer, says, "Service default/inside", &[&balancer("DELETE", 0)]).await;

    // What a component says may hang on its build: all is looked at.
    assert!(cloud.tamper(&ids[1], |spec| spec.droplet_ids.clear()));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend([0, 3, 1, b'x', b'y']);
    std::fs::write(&file, bytes).unwrap();
    observer.await_provider(LIMIT, |provider| provider.generation == 2).await.unwrap();
    await_told(&observer, says, "Service default/drifted", &[&balancer("PUT", 1)]).await;

    // Without anybody who has to initialise it.
    members(client, &cloud, &[502]).await;
    await_told(&observer, says, "Service default/web", &[&balancer("PUT", 2)]).await;
    observer.stop().await;
    assert_eq!(cloud.counters().writes, writes);
    cloud.unsettled("nobody writes");
    cloud.check().unwrap();
}
