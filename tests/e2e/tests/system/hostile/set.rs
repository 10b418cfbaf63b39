//! One attack after the other on one host, beside an innocent provider. After each of them the same is looked at: that it ended within
//! its limits of time and memory, what people are told, that the neighbour's Nodes went on meanwhile, that no secret is to be seen, and
//! that every Node is still there, and that the host has no more memory than before.

use std::path::Path;
use std::time::Duration;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{component, until};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::liar::liar;
use crate::cloud::{Cloud, SCRIPT, send};
use crate::look::{all_events, await_event, await_untainted, is_tainted, nodes};
use crate::service_look::{await_served, ips, serve};
use crate::stage::{Actor, LIMIT, Stage};

const SECRET: &str = "dop_v1_9d41c07be25f4a6683d1";
/// Limits of each attacker.
const CPU: Duration = Duration::from_secs(1);
const MEMORY: u64 = 16 << 20;
/// Memory of all calls of the host.
const ALL_CALLS: u64 = 64 << 20;
/// How much more than that the host may take during an attack: what it keeps of answers, and what an optimised host would not need.
const HOST_MORE: u64 = 64 << 20;
/// How much more than before it may have after any of them: names of metrics, Events, and what the allocator keeps.
const AFTER_MORE: u64 = 24 << 20;
/// How long a Node of the neighbour may take, however busy the machine is.
const NEIGHBOUR: Duration = Duration::from_secs(20);

/// What comes of an attack.
enum End {
    /// The Node waits, and people are told this. Beside it, the message names the call and the provider.
    Told(&'static [&'static str]),
    /// The API server refuses what was asked of it, and people are told this.
    Refused(&'static [&'static str]),
    /// The Node is initialised: there is nothing to refuse, or what was too much was left out.
    Initialised,
}
use End::{Initialised, Refused, Told};

/// The provider, the name of a Node, and what comes of its lookup.
type Attack = (&'static str, &'static str, End);

const CPU_LIMIT: &str = "limit call-cpu); raise the limit";
const MEMORY_LIMIT: &str = "limit memory-bytes); raise the limit";
const DATA_LIMIT: &str = "limit host-call-bytes); raise the limit";
const BROKEN: &str = "the provider's answer breaks the contract: it gave";
const CRASHED: &str = "the provider crashed:";

const ATTACKS: [Attack; 47] = [
    ("hostile", "spin", Told(&[CPU_LIMIT])),
    ("hostile", "grow", Told(&[MEMORY_LIMIT])),
    ("hostile", "recurse", Told(&[CRASHED, "call stack exhausted"])),
    ("hostile", "panic", Told(&[CRASHED, "what it logged before may say why"])),
    ("hostile", "unreachable", Told(&[CRASHED, "what it logged before may say why"])),
    ("hostile", "huge-string", Told(&[MEMORY_LIMIT])),
    ("hostile", "huge-answer", Told(&[MEMORY_LIMIT])),
    ("hostile", "huge-list", Told(&[CRASHED, DATA_LIMIT])),
    ("hostile", "too-few", Told(&[BROKEN, "0 findings for 1 nodes", "report this to its author"])),
    ("hostile", "too-many", Told(&[BROKEN, "2 findings for 1 nodes"])),
    ("hostile", "foreign-id", Told(&[BROKEN, "none of its own (they begin with hostile://)"])),
    ("hostile", "bad-id", Told(&[BROKEN, "which has spaces, control characters"])),
    ("hostile", "changed-id", Initialised),
    ("hostile", "many-labels", Told(&[BROKEN, "1000 labels of a machine, the most is 500"])),
    ("hostile", "bad-label", Told(&[BROKEN, r#"the label "not a\\nlabel""#])),
    ("hostile", "bad-value", Refused(&["metadata.labels", "not a value"])),
    ("hostile", "foreign-label", Initialised),
    ("hostile", "bad-zone", Told(&[BROKEN, "no value of a label"])),
    ("hostile", "bad-address", Told(&[BROKEN, r#"the InternalIP "0177.0.0.1", which is no IP address"#])),
    ("hostile", "chatty", Told(&["forged"])),
    ("hostile", "log-flood", Initialised),
    ("hostile", "event-flood", Initialised),
    ("hostile", "cache-flood", Initialised),
    ("hostile", "send-all", Told(&[MEMORY_LIMIT])),
    ("hostile", "request-flood", Initialised),
    ("liar", "lie-00-no-utf-8", Told(&[CRASHED, "utf-8"])),
    ("liar", "lie-01-half-a-character", Told(&[CRASHED, "utf-8"])),
    ("liar", "lie-02-no-such-finding", Told(&[CRASHED, "discriminant"])),
    ("liar", "lie-03-neither-result-nor-error", Told(&[CRASHED, "discriminant"])),
    ("liar", "lie-04-no-such-state", Told(&[CRASHED, "discriminant"])),
    ("liar", "lie-05-answer-outside", Told(&[CRASHED, "bounds"])),
    ("liar", "lie-06-answer-at-an-odd-place", Told(&[CRASHED, "aligned"])),
    ("liar", "lie-07-list-outside", Told(&[CRASHED, "bounds"])),
    ("liar", "lie-08-endless-list", Told(&[CRASHED, "bounds"])),
    ("liar", "lie-09-text-beyond-the-end", Told(&[CRASHED, "bounds"])),
    ("liar", "lie-10-the-same-megabyte", Told(&[CRASHED, DATA_LIMIT])),
    ("liar", "lie-11-endless-afterwards", Told(&[CPU_LIMIT])),
    ("liar", "lie-12-crash-afterwards", Told(&[CRASHED])),
    // The length of the name says what its place is.
    ("liar", "place-outside-xxxxxxxxxxxxxxxxxxxxxxxxxxx", Told(&[CRASHED, "beyond end of memory"])),
    ("liar", "place-that-takes-for-ever-xxxxxxxxxxxxxxxxx", Told(&[CPU_LIMIT])),
    ("liar", "place-that-crashes-xxxxxxxxxxxxxxxxxxxxxxxxxxxx", Told(&[CRASHED])),
    ("liar", "place-of-the-answer-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", Told(&[CRASHED])),
    // The cloud repeats the secret, and the component tells it in every way that it has.
    ("scripted", "leak-echo", Told(&["the cloud said"])),
    // The cloud is the attacker. The component tells what it is told.
    ("scripted", "bomb-gzip", Told(&["too-large", "limit response-bytes"])),
    ("scripted", "bomb-headers", Told(&["too-large", "message head is too large"])),
    ("scripted", "bomb-endless-header", Told(&["too-large", "message head is too large"])),
    ("scripted", "bomb-endless-body", Told(&["too-large", "limit response-bytes"])),
];

fn provider(name: &str, source: &Path, more: &Value) -> Value {
    let limits = json!({ "call-cpu": format!("{}ms", CPU.as_millis()), "memory-bytes": format!("{MEMORY}") });
    let mut entry = json!({ "name": name, "source": source, "limits": limits });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// The neighbour is the first one. One of the attacks makes use of what it is granted. In the mood "balancing", the attacker has load balancers.
fn providers(stage: &Stage, cloud: &Cloud, mood: &str) -> String {
    let token = stage.file("token", SECRET);
    let granted = json!({
        "grants": { "endpoints": { "api": cloud.url() }, "allowHttp": true, "allowLoopback": true },
        "credentials": { "token": format!("file:{}", token.display()) },
    });
    let class = |of: &str| json!({ "loadBalancerClasses": [format!("{of}.example/class")] });
    let mut hostile = class("hostile");
    hostile["settings"] = json!({ "mood": mood });
    let list = [
        provider("scripted", &component("guests/scripted.wasm").unwrap(), &granted),
        provider("hostile", &component("guests/hostile.wasm").unwrap(), &hostile),
        provider("liar", &stage.file("liar.wasm", liar()), &class("liar")),
    ];
    format!("--providers={}", stage.file("providers.yaml", json!(list).to_string()).display())
}

/// A Node of the neighbour, whose lookup asks the cloud; how long it took.
async fn neighbour(client: &Client, number: usize) -> Duration {
    let name = format!("neighbour-{number}");
    let fixture = NodeFixture::new(&name).provider_id(&format!("scripted://{name}"));
    let start = Instant::now();
    fixture.annotation(SCRIPT, &format!("HEAD /machines/{name}")).register(client).await.unwrap();
    await_untainted(client, &name).await;
    start.elapsed()
}

fn attacked(provider: &str, name: &str) -> NodeFixture {
    let fixture = NodeFixture::new(name).provider_id(&format!("{provider}://{name}"));
    let path = name.strip_prefix("bomb-").map_or_else(|| "/machines/x".to_owned(), |kind| format!("/bombs/{kind}"));
    let tell = json!([send(&path), { "log": "said" }, { "emit": "Leaks" }, { "fail": "the cloud said" }]);
    if provider == "scripted" { fixture.annotation(SCRIPT, &tell.to_string()) } else { fixture }
}

/// Calls of a provider so far, and the milliseconds that they computed.
async fn calls(host: &Actor, provider: &str) -> (f64, f64) {
    let label = format!("provider={provider:?}");
    let count = async |name: &str| host.count(name, &[&label]).await.unwrap();
    (count("ccm_provider_calls_total").await, count("ccm_provider_cpu_milliseconds_total").await)
}

async fn assert_hidden(stage: &Stage, host: &Actor, after: &str) {
    let client = stage.client();
    let shown = [
        host.log_text(),
        host.page("/metrics").await.unwrap().1,
        host.page("/providerz").await.unwrap().1,
        serde_json::to_string(&all_events(client).await).unwrap(),
        serde_json::to_string(&nodes(client).list(&ListParams::default()).await.unwrap().items).unwrap(),
    ];
    let backwards: String = SECRET.chars().rev().collect();
    for text in shown {
        assert!(!text.contains(SECRET) && !text.contains(&backwards), "after {after} the secret is in:\n{text}");
    }
}

async fn await_end(client: &Client, (provider, name, end): &Attack) -> Node {
    let call = format!("instances.find of {provider}: ");
    match end {
        // What the provider says itself has no name of a call before it.
        Told(parts) if *name == "chatty" || *provider == "scripted" => {
            await_event(client, name, "Warning", "SyncNodeFailed", parts).await;
        }
        Told(parts) => {
            let parts = [&[call.as_str()], *parts].concat();
            await_event(client, name, "Warning", "SyncNodeFailed", &parts).await;
        }
        Refused(parts) => {
            await_event(client, name, "Warning", "SyncNodeFailed", parts).await;
        }
        Initialised => {
            await_untainted(client, name).await;
        }
    }
    nodes(client).get(name).await.unwrap()
}

#[tokio::test]
async fn every_attack_of_the_hostile_set_is_contained_beside_an_innocent_provider() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let host = stage.start([
        providers(&stage, &cloud, "grim").as_str(),
        "--lookup-batch-nodes=1",
        "--node-status-update-frequency=1h",
        &format!("--provider-memory={ALL_CALLS}"),
    ]);
    host.ready().await;
    // What the first calls allocate for good is there before anything is measured.
    let mut alone = Duration::ZERO;
    for number in 0..5 {
        alone = neighbour(client, number).await;
    }
    let (before, _) = host.memory().unwrap();

    for (number, attack) in ATTACKS.iter().enumerate() {
        let (provider, name, end) = attack;
        let (calls_before, cpu_before) = calls(&host, provider).await;
        let node = attacked(provider, name).register(client).await.unwrap();
        let (beside, after) = tokio::join!(neighbour(client, 100 + number), await_end(client, attack));

        // Time: each call computed for no longer than its limit, and the tick in which that was seen.
        let (calls_after, cpu_after) = calls(&host, provider).await;
        let most = (calls_after - calls_before) * (CPU.as_secs_f64() * 1e3 + 20.0);
        let computed = cpu_after - cpu_before;
        assert!(calls_after > calls_before && computed <= most, "{name}: {computed} ms of {most} ms");
        assert!(beside <= NEIGHBOUR, "beside {name}, a Node of the neighbour took {beside:?}, alone {alone:?}");
        // Memory: of a call, and of the process.
        let labels = [&format!("provider={provider:?}"), "function=\"instances.find\""];
        let peak = host.count("ccm_provider_memory_peak_bytes", &labels).await.unwrap();
        assert!(peak > 0.0 && peak <= MEMORY as f64, "{name}: a call had {peak} bytes");
        let (_, most) = host.memory().unwrap();
        assert!(
            most <= before + ALL_CALLS + HOST_MORE,
            "{name}: the host had {most} bytes, before the first attack {before}"
        );
        // What it may not have.
        assert_hidden(&stage, &host, name).await;
        assert_eq!(after.uid(), node.uid(), "{name} is another Node");
        assert_eq!(is_tainted(&after), !matches!(end, Initialised), "{name}");
        assert_eq!(
            after.spec.unwrap().provider_id,
            Some(attacked(provider, name).build().spec.unwrap().provider_id.unwrap())
        );
        let labels = after.metadata.labels.unwrap_or_default();
        assert!(labels.keys().all(|label| !label.starts_with("node-role")), "{name}: {labels:?}");
        // It would attack again and again, beside the next one.
        let preconditions = Some(Preconditions { uid: node.uid(), ..Preconditions::default() });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        nodes(client).delete(name, &params).await.unwrap();
        // Each of them gives its memory back, and not only the last one.
        let settled = async || Ok(host.memory()?.0 <= before + AFTER_MORE);
        until(LIMIT, settled).await.unwrap_or_else(|_| {
            let kept = host.memory().unwrap().0;
            panic!("after {name} the host keeps {kept} bytes, before the first attack it had {before}")
        });
    }

    // Nobody's Node but those that this test deleted is gone.
    let left = nodes(client).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), 5 + ATTACKS.len());
    assert!(left.iter().all(|node| !is_tainted(node)), "{left:?}");
    assert_eq!(host.page("/readyz").await.unwrap().0, 200);
    host.end().await;
}

/// With label selectors, a component makes the host look at all Nodes, and look after what it found.
#[tokio::test]
async fn every_attack_with_label_selectors_is_contained_beside_an_innocent_provider() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let host =
        stage.start([providers(&stage, &cloud, "balancing").as_str(), &format!("--provider-memory={ALL_CALLS}")]);
    host.ready().await;
    neighbour(client, 0).await;
    let (before, _) = host.memory().unwrap();
    let classed = || json!({ "spec": { "loadBalancerClass": "hostile.example/class" } });
    let attacks: [(&str, &[&str]); 5] = [
        ("many-selectors", &["a call has more than 16 label selectors", "takes the place of many"]),
        ("huge-selector", &["of hostile: the provider crashed:", DATA_LIMIT]),
        ("long-selector", &["the label selector has more than 8192 bytes"]),
        ("wide-selector", &["the label selector has more than 64 requirements"]),
        ("bad-selector", &["is no list of values in parentheses"]),
    ];
    for (number, (name, parts)) in attacks.into_iter().enumerate() {
        serve(client, name, classed()).await;
        let told = await_event(client, name, "Warning", "SyncLoadBalancerFailed", parts);
        let (beside, _) = tokio::join!(neighbour(client, 1 + number), told);
        assert!(beside <= NEIGHBOUR, "beside {name}, a Node of the neighbour took {beside:?}");
        assert_hidden(&stage, &host, name).await;
    }
    // Selectors that match all or none are answered, and the same provider goes on beside its attacks.
    serve(client, "any-selector", classed()).await;
    assert_eq!(ips(&await_served(client, "any-selector").await), ["192.0.2.2"]);
    let (_, most) = host.memory().unwrap();
    assert!(most <= before + ALL_CALLS + HOST_MORE, "the host had {most} bytes, before the attacks {before}");
    assert_eq!(host.page("/readyz").await.unwrap().0, 200);
    host.end().await;
}
