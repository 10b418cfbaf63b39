//! The status page: what it shows is what the metrics, `/providerz` and the objects say.

mod browser;

use ccm_cluster::NodeFixture;
use ccm_e2e::alerts;
use ccm_e2e::host::{component, until};
use ccm_sim_digitalocean::{Act, Endpoint, Fault, Requests, When};
use serde_json::{Value, json};

use crate::cloud as scripted;
use crate::digitalocean::{self, Cloud, members};
use crate::service_look::{annotated, await_reason, await_served, readiness, serve, the};
use crate::stage::{Actor, LIMIT, Stage};

/// What somebody who may only write Services writes.
const ATTACK: &str = "<script>alert(1)</script>";

/// The page, after the headline that begins so: the texts between tags, one space between two of them, and the entities as they are read.
fn words(page: &str) -> String {
    let (_, body) = page.split_once("<body>").unwrap();
    let pieces = body.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text);
    let text = pieces.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// One section of the page, in words.
fn section(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("no {id} in {page}"));
    words(&format!("<body>{}", rest.split("</section>").next().unwrap()))
}

#[track_caller]
fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

/// A cluster with one Service at a cloud of which a provider from a file takes care, and nothing wrong.
struct Scene {
    stage: Stage,
    cloud: Cloud,
    host: Actor,
}

impl Scene {
    async fn healthy() -> Self {
        let stage = Stage::new().await;
        let cloud = Cloud::calm().await;
        members(stage.client(), &cloud, &[701]).await;
        let bytes = std::fs::read(component("providers/digitalocean.wasm").unwrap()).unwrap();
        let provider = stage.file("digitalocean.wasm", bytes);
        let flags = [
            "--provider-poll=100ms",
            "--provider-settle=50ms",
            "--node-status-update-frequency=1h",
            "--service-verify-period=0s",
            "--node-deletion-min-age=0",
            "--node-deletion-second-look=1s",
            "--node-deletion-percent=0",
            "--node-deletion-min-budget=0",
            // Nothing is tried again while somebody looks.
            "--service-min-backoff=300s",
            "--service-max-backoff=300s",
        ];
        let host = digitalocean::start_from(&stage, &cloud, &provider, &[], &flags);
        serve(stage.client(), "web", json!({})).await;
        await_served(stage.client(), "web").await;
        host.ready().await;
        cloud.settled(&stage).await;
        Self { stage, cloud, host }
    }

    /// A cloud that refuses, a Service that attacks, a Node without a machine, one that nobody knows, one that asks for nobody, and a component that
    /// is none.
    async fn breaks(&self) {
        self.cloud.unsettled("the cloud refuses each new load balancer, on purpose");
        let client = self.stage.client();
        let fault = Fault::new(Requests::Of(Endpoint::CreateBalancer), 1, When::Before, Act::Status(422));
        drop(self.cloud.plan(Fault { times: 1_000_000, ..fault }));
        serve(client, "refused", json!({})).await;
        let evil = annotated([("service.beta.kubernetes.io/do-loadbalancer-size-unit", ATTACK)]);
        serve(client, "evil", evil).await;
        let lost = NodeFixture::new("n702").initialized().not_ready().provider_id("digitalocean://702");
        lost.register(client).await.unwrap();
        NodeFixture::new("n703").internal_ip("10.8.9.9").register(client).await.unwrap();
        NodeFixture::new("n704").initialized().register(client).await.unwrap();
        self.stage.file("digitalocean.wasm", b"no component");
        await_reason(client, "refused", "CloudFailed").await;
        await_reason(client, "evil", "InvalidService").await;
        let host = &self.host;
        host.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |held| held == 1.0).await.unwrap();
        host.await_count("ccm_nodes_uninitialized", &[], LIMIT, |nodes| nodes == 1.0).await.unwrap();
        let refused = ["result=\"rejected\"", "step=\"parse\""];
        host.await_count("ccm_provider_loads_total", &refused, LIMIT, |refused| refused >= 1.0).await.unwrap();
        host.await_count("ccm_provider_refused", &["what=\"component\""], LIMIT, |now| now == 1.0).await.unwrap();
        host.await_count("ccm_services_pending", &[], LIMIT, |services| services >= 1.0).await.unwrap();
        // Not while it is being tried.
        let parts = ["n703 the last try failed: retry ", " next try in "];
        let is_told = async || {
            let told = section(&self.page().await, "uninitialised");
            Ok(parts.iter().all(|part| told.contains(part)))
        };
        until(LIMIT, is_told).await.unwrap();
    }

    async fn page(&self) -> String {
        self.host.await_page("/", 200, LIMIT).await.unwrap()
    }

    /// What `/providerz` says of the provider.
    async fn provider(&self) -> Value {
        let (_, text) = self.host.page("/providerz?format=json").await.unwrap();
        let all: Value = serde_json::from_str(&text).unwrap();
        all.as_object().unwrap().values().next().unwrap().clone()
    }

    /// The page shows these figures of the metrics, in this place: asked for again where they change meanwhile.
    async fn shows_figures(&self, id: &str, row: &str, figures: &[(&str, &[&str])]) {
        let read = async || {
            let mut read = vec![];
            for (name, labels) in figures {
                read.push(self.host.count(name, labels).await?);
            }
            anyhow::Ok(read)
        };
        let mut last = String::new();
        let same = async || {
            let before = read().await?;
            let page = self.page().await;
            last = section(&page, id);
            let wanted = before.iter().fold(row.to_owned(), |text, figure| format!("{text} {figure}"));
            Ok(before == read().await? && last.contains(&format!("{wanted} ")))
        };
        until(LIMIT, same).await.unwrap_or_else(|error| panic!("{error:#}: {id} says {last}"));
    }
}

#[tokio::test]
async fn the_page_shows_what_metrics_providerz_and_the_objects_say() {
    let scene = Scene::healthy().await;
    let healthy = scene.page().await;
    let provider = scene.provider().await;
    let parts = [
        "Nothing needs attention leader: this process, without election",
        &format!(
            "{} {}",
            provider["serving"]["name"].as_str().unwrap(),
            provider["serving"]["version"].as_str().unwrap()
        ),
        provider["serving"]["digest"].as_str().unwrap(),
        &format!("{}, generation {}, since ", provider["phase"].as_str().unwrap(), provider["generation"]),
    ];
    has_all(&words(&healthy), &parts);
    for (id, says) in
        [("services", ": 0 none"), ("uninitialised", ": 0 none"), ("unready", ": 0 none"), ("held", ": 0 none")]
    {
        has_all(&section(&healthy, id), &[says]);
    }
    let queue = ["name=\"service\""];
    let figures =
        [("workqueue_depth", &queue[..]), ("workqueue_adds_total", &queue), ("workqueue_retries_total", &queue)];
    scene.shows_figures("queues", "service", &figures).await;
    let mut told = String::new();
    let same = async || {
        let of = async |labels: &[&str]| scene.host.count("ccm_cloud_requests_total", labels).await;
        let answered = of(&["endpoint=\"api\"", "outcome=\"2xx\""]).await? + of(&["outcome=\"shared\""]).await?;
        let all = of(&["endpoint=\"api\""]).await?;
        told = section(&scene.page().await, "endpoints");
        Ok(answered > 0.0 && told.ends_with(&format!(" {answered} {}", all - answered)))
    };
    until(LIMIT, same).await.unwrap_or_else(|error| panic!("{error:#}: {told}"));

    let before = alerts::scrape(&scene.host).await.unwrap();
    alerts::quiet(&[&before]).await.unwrap();
    scene.breaks().await;
    let after = alerts::scrape(&scene.host).await.unwrap();
    alerts::fires("WasmCCMProviderRefused", &[[&before], [&after]]).await.unwrap();
    alerts::fires("WasmCCMNodesUninitialized", &[[&before], [&after]]).await.unwrap();
    alerts::fires("WasmCCMNodeDeletionsHeld", &[[&before], [&after]]).await.unwrap();
    alerts::fires("WasmCCMServicesPending", &[[&before], [&after]]).await.unwrap();
    alerts::fires("WasmCCMServicesNotReady", &[[&before], [&after]]).await.unwrap();
    let page = scene.page().await;
    let counts = [
        ("ccm_services_not_ready", "Services not ready"),
        ("ccm_nodes_uninitialized", "Node not initialised"),
        ("ccm_node_lifecycle_not_ready_nodes", "Node not Ready"),
        ("ccm_node_lifecycle_held_nodes", "held deletion"),
    ];
    for (metric, says) in counts {
        let count = scene.host.count(metric, &[]).await.unwrap();
        assert!(count > 0.0, "{metric}");
        has_all(&words(&page), &[&format!("{count} {says}")]);
    }
    has_all(&words(&page), &["1 component or configuration not taken, "]);
    for name in ["evil", "refused"] {
        let service = the(scene.stage.client(), name).await;
        let (_, reason, message) = readiness(&service).unwrap();
        let shown = section(&page, "services");
        let (_, row) =
            shown.split_once(&format!("default/{name} {reason} ")).unwrap_or_else(|| panic!("{name}: {shown}"));
        let common = row.bytes().zip(message.bytes()).take_while(|(one, other)| one == other).count();
        assert!(common > 60, "{row:?} is not what the condition says: {message:?}");
    }
    has_all(
        &section(&page, "services"),
        &[ATTACK, "next try in ", "next try when the Service or its provider changes"],
    );
    has_all(&section(&page, "uninitialised"), &["n703 the last try failed: retry "]);
    let unmanaged = [
        "Nodes that nobody initialises: 1 ",
        "its kubelet seems to run without --cloud-provider=external n704 ",
        "kubectl taint node n704 node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
    ];
    has_all(&section(&page, "unmanaged"), &unmanaged);
    has_all(&words(&page), &["1 Node that nobody initialises"]);
    has_all(&section(&page, "unready"), &["n702 machine: absent"]);
    has_all(
        &section(&page, "held"),
        &["n702 no more than 0 of the ", " nodes of provider digitalocean are deleted within 600 s"],
    );
    let refused = scene.provider().await["refused"].clone();
    let parts = [refused["reason"].as_str().unwrap(), &format!("at {}, ", refused["step"].as_str().unwrap())];
    has_all(&section(&page, "components"), &parts);
    let failed = scene.host.count("ccm_cloud_requests_total", &["endpoint=\"api\"", "outcome=\"4xx\""]).await.unwrap();
    assert!(failed >= 1.0 && !section(&page, "endpoints").ends_with(" 0"), "{}", section(&page, "endpoints"));

    assert!(!page.contains("<script") && page.len() <= 50_000, "{page}");
    scene.host.end().await;
}

#[tokio::test]
async fn a_standby_says_who_leads_and_that_it_has_no_queues_because_of_that() {
    let stage = Stage::new().await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    let flags = ["--leader-elect=true"];
    let leader = stage.cloudlycke(&flags);
    leader.refreshed().await;
    let standby = stage.cloudlycke(&flags);
    standby.await_page("/readyz", 200, LIMIT).await.unwrap();
    let of = async |host: &Actor| words(&host.await_page("/", 200, LIMIT).await.unwrap());
    let line = async |host: &Actor| {
        let text = host.await_page("/readyz", 200, LIMIT).await.unwrap();
        text.lines().find(|line| line.starts_with("leader: ")).unwrap().to_owned()
    };
    let knows = async || Ok(line(&standby).await.contains("stands by") && !line(&standby).await.contains("not known"));
    until(LIMIT, knows).await.unwrap();
    let (leads, stands_by) = (line(&leader).await, line(&standby).await);
    has_all(&of(&leader).await, &[&leads, "Services that are not ready: 0 none", "longest run ", " Nodes 0 "]);
    let parts = [
        stands_by.as_str(),
        "Services and Nodes are not known here: this process stands by. Open this page on the leader",
        "Controllers and their queues None: only the leader runs controllers.",
    ];
    let page = of(&standby).await;
    has_all(&page, &parts);
    assert!(!page.contains("Services that are not ready") && !page.contains("Nothing needs attention"), "{page}");
    standby.end().await;
    leader.end().await;
}

/// A cloud that sends the token back in an error, which the component puts into its failure.
#[tokio::test]
async fn no_byte_of_a_secret_is_on_the_status_page() {
    const CANARY: &str = "canary-c0ffee-token";
    let stage = Stage::new().await;
    let cloud = scripted::Cloud::start().await;
    let flags = cloud.flags();
    let flags: Vec<&str> =
        flags.iter().map(String::as_str).chain(["--credential=token=env:CANARY", "--allow-env=CANARY"]).collect();
    let host = stage.scripted(&[("CANARY", CANARY)], &flags);
    host.refreshed().await;
    let script = json!([scripted::send("/machines/n1"), { "fail": "answer" }]).to_string();
    NodeFixture::new("n1").annotation(scripted::SCRIPT, &script).register(stage.client()).await.unwrap();
    host.await_log(LIMIT, &["node not initialised", "GET /machines/n1"]).await.unwrap();
    assert!(cloud.seen().iter().any(|request| request.contains(CANARY)), "the cloud was sent it");
    let page = host.await_page("/", 200, LIMIT).await.unwrap();
    let parts = ["n1 the last try failed: ", "GET /machines/n1", "Bearer (credential token)"];
    has_all(&section(&page, "uninitialised"), &parts);
    assert!(!page.contains(CANARY), "{page}");
    host.end().await;
}
