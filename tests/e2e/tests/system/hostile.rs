//! Providers that crash, take too much, or come from another tool chain. The name of a Node tells the guest what to do. `set` has all
//! attacks beside an innocent provider, `bombs` components that would burst while they are compiled.

mod bombs;
mod liar;
mod set;

use ccm_cluster::NodeFixture;
use ccm_e2e::alerts;
use ccm_e2e::host::component;
use kube::api::DeleteParams;

use crate::look::{await_event, await_untainted, get, is_tainted, nodes};
use crate::stage::{Actor, LIMIT, Stage};

fn host(stage: &Stage, guest: &str, flags: &[&str]) -> Actor {
    let provider = format!("--provider={}", component(guest).unwrap().display());
    stage.start([provider.as_str()].iter().chain(flags))
}

#[tokio::test]
async fn a_node_that_crashes_its_provider_does_not_stop_the_others() {
    let stage = Stage::new().await;
    let client = stage.client();
    // Each Node in a call of its own, so that nobody else's name decides.
    let host = host(&stage, "guests/hostile.wasm", &["--lookup-batch-nodes=1", "--limit=call-cpu=300ms"]);
    let crashes = [
        ("panic", "crashed"),
        ("unreachable", "crashed"),
        ("recurse", "crashed"),
        ("spin", "limit call-cpu"),
        ("huge-string", "crashed"),
        ("huge-answer", "crashed"),
        ("too-few", "breaks the contract"),
        ("too-many", "breaks the contract"),
    ];
    for (name, _) in crashes {
        NodeFixture::new(name).register(client).await.unwrap();
    }
    for (name, why) in crashes {
        await_event(client, name, "Warning", "SyncNodeFailed", &[why, "(retry)", "back-off"]).await;
    }
    for i in 0..20 {
        NodeFixture::new(format!("good-{i}")).register(client).await.unwrap();
    }
    for i in 0..20 {
        let node = await_untainted(client, &format!("good-{i}")).await;
        assert_eq!(node.spec.unwrap().provider_id, Some(format!("hostile://good-{i}")));
    }
    for (name, _) in crashes {
        assert!(is_tainted(&get(client, name).await), "{name}");
    }
    assert_eq!(host.page("/readyz").await.unwrap().0, 200);
    for outcome in ["trap", "out-of-cpu"] {
        let label = format!("outcome={outcome:?}");
        assert!(host.count("ccm_provider_calls_total", &[&label]).await.unwrap() >= 1.0, "{outcome}");
    }
    // Until the limit of a call's CPU time, in steps of 10 ms.
    let computed = host.count("ccm_provider_cpu_milliseconds_total", &["provider=\"hostile\""]).await.unwrap();
    assert!(computed >= 100.0 && computed % 10.0 == 0.0, "{computed} ms");
    host.end().await;
}

/// Taking memory computes as well: here so little of the one is allowed, and so much of the other, that only memory can be the first.
#[tokio::test]
async fn a_node_that_makes_its_provider_take_too_much_memory_does_not_stop_the_others() {
    let stage = Stage::new().await;
    let client = stage.client();
    let limits = ["--limit=memory-bytes=4MiB", "--limit=call-cpu=60s", "--limit=call-time=120s"];
    let host = host(&stage, "guests/hostile.wasm", &[&["--lookup-batch-nodes=1"], &limits[..]].concat());
    let out_of_memory = ["limit memory-bytes", "(retry)", "back-off"];
    for (name, why) in [("grow", &out_of_memory), ("huge-answer", &out_of_memory)] {
        NodeFixture::new(name).register(client).await.unwrap();
        await_event(client, name, "Warning", "SyncNodeFailed", why).await;
        assert!(is_tainted(&get(client, name).await), "{name}");
    }
    for (outcome, is_one) in [("out-of-memory", true), ("out-of-cpu", false), ("out-of-time", false), ("trap", false)] {
        let label = format!("outcome={outcome:?}");
        let ended = host.count("ccm_provider_calls_total", &[&label]).await.unwrap();
        assert_eq!(ended >= 1.0, is_one, "{ended} times {outcome}");
    }
    NodeFixture::new("good").register(client).await.unwrap();
    await_untainted(client, "good").await;
    let peak = host.count("ccm_provider_memory_peak_bytes", &["function=\"instances.find\""]).await.unwrap();
    assert!((1.0..=f64::from(4 << 20)).contains(&peak), "{peak} bytes");
    host.end().await;
}

/// What it answers counts, too: the data are no more than one step may pass, and more than is left.
#[tokio::test]
async fn a_call_that_finds_no_memory_is_counted_and_the_next_one_goes_on() {
    let stage = Stage::new().await;
    let client = stage.client();
    let limits = ["--provider-memory=48MiB", "--limit=memory-bytes=48MiB", "--limit=host-call-bytes=128MiB"];
    let times = ["--limit=call-cpu=60s", "--limit=call-time=120s", "--lookup-batch-nodes=1"];
    let host = host(&stage, "guests/hostile.wasm", &[limits, times].concat());
    host.ready().await;
    let before = alerts::scrape(&host).await.unwrap();
    NodeFixture::new("huge-list").register(client).await.unwrap();
    await_event(client, "huge-list", "Warning", "SyncNodeFailed", &["--provider-memory"]).await;
    host.await_count("ccm_provider_calls_total", &["outcome=\"no-room\""], LIMIT, |calls| calls >= 1.0).await.unwrap();
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMProviderMemoryExhausted", &[[&before], [&after]]).await.unwrap();
    NodeFixture::new("good").register(client).await.unwrap();
    await_untainted(client, "good").await;
    host.end().await;
}

/// The first Node of a batch decides for all: the batch is halved until that Node is alone.
#[tokio::test]
async fn nodes_that_share_a_batch_with_one_that_crashes_the_provider_are_initialised() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = host(&stage, "guests/hostile.wasm", &["--v=4"]);
    host.ready().await;
    NodeFixture::new("panic").register(client).await.unwrap();
    await_event(client, "panic", "Warning", "SyncNodeFailed", &["crashed"]).await;
    let fixtures = (0..50).map(|i| NodeFixture::new(format!("good-{i}")));
    for node in ccm_cluster::register_nodes(client, fixtures).await.unwrap() {
        await_untainted(client, node.metadata.name.as_deref().unwrap()).await;
    }
    host.end().await;
}

/// A flood of log lines and of Events ends at the limits; what a Node has nothing to do with is not written.
#[tokio::test]
async fn a_provider_that_floods_logs_and_events_is_cut_short() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = host(&stage, "guests/hostile.wasm", &["--lookup-batch-nodes=1"]);
    for name in ["log-flood", "event-flood", "good"] {
        NodeFixture::new(name).register(client).await.unwrap();
        await_untainted(client, name).await;
    }
    await_event(client, "event-flood", "Normal", "Synced", &[]).await;
    host.events_written().await;
    let events = crate::look::all_events(client).await;
    let of_provider = events.iter().filter(|event| event.reason.as_deref() == Some("Hostile")).count();
    assert!((1..=20).contains(&of_provider), "{of_provider} Events of one call, the limit is 20");
    let lines = host.log();
    let said = lines.iter().filter(|line| line.contains("\"plain\"") || line.contains("long long")).count();
    assert!((1..=50).contains(&said), "{said} lines of one call, the limit is 50");
    assert!(lines.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "a line is no JSON");
    host.end().await;
}

/// Both Nodes would have gone with one machine, and load balancers would have had it twice.
#[tokio::test]
async fn a_node_that_is_given_the_machine_of_another_one_waits_until_that_is_gone() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = host(&stage, "guests/hostile.wasm", &["--lookup-batch-nodes=1"]);
    NodeFixture::new("good").register(client).await.unwrap();
    await_untainted(client, "good").await;
    NodeFixture::new("doubled-id").register(client).await.unwrap();
    let says = ["hostile://good", "which is that of node good", "(conflict)", "back-off"];
    await_event(client, "doubled-id", "Warning", "SyncNodeFailed", &says).await;
    let waits = get(client, "doubled-id").await;
    assert!(is_tainted(&waits) && waits.spec.unwrap().provider_id.is_none());
    nodes(client).delete("good", &DeleteParams::default()).await.unwrap();
    let node = await_untainted(client, "doubled-id").await;
    assert_eq!(node.spec.unwrap().provider_id.as_deref(), Some("hostile://good"));
    host.end().await;
}

/// The component of another tool chain; that it is refused with `--wasi=off` stands in `refused`.
#[tokio::test]
async fn a_component_that_wants_wasi_gets_one_with_nothing_in_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = host(&stage, "guests/hostile-wasi.wasm", &["--lookup-batch-nodes=1"]);
    for name in ["wasi-env", "wasi-fs", "wasi-net", "wasi-stdout", "good"] {
        NodeFixture::new(name).register(client).await.unwrap();
    }
    let label = async |node: &str, label: &str| {
        let node = await_untainted(client, node).await;
        node.metadata.labels.unwrap().get(&format!("hostile.example/{label}")).cloned()
    };
    assert_eq!(label("wasi-env", "environment").await.as_deref(), Some("0"));
    assert_eq!(label("wasi-stdout", "stdout").await.as_deref(), Some("written"));
    assert_eq!(label("good", "environment").await, None);
    host.await_log(LIMIT, &["hostile on standard output"]).await.unwrap();
    host.end().await;
}
