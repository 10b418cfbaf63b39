//! Flags that no other test needs. Each test fails when its flag is ignored.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cluster::{NodeFixture, await_all, await_node, register_nodes};
use ccm_e2e::alerts;
use ccm_e2e::crowd::await_initialised;
use ccm_e2e::host::{Host, component};
use http::{Method, Request};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt as _};

use crate::look::{addresses, await_untainted, get, is_tainted, nodes};
use crate::mistakes::KUBECONFIG;
use crate::stage::{Actor, LIMIT, Stage, cloudlycke};
use crate::way::Way;

/// `--cluster-name`, `--cluster-cidr`, `--setting`, `--event-queue`
#[tokio::test]
async fn a_provider_sees_what_the_flags_say_of_the_cluster_and_has_room_for_as_many_events_as_they_say() {
    let stage = Stage::new().await;
    let host = stage.start([
        &format!("--provider={}", component("guests/hostile.wasm").unwrap().display()),
        "--cluster-name=blue",
        "--cluster-cidr=10.244.0.0/16,fd00::/48",
        "--setting=mood=merry",
        "--event-queue=1",
        "--lookup-batch-nodes=1",
    ]);
    NodeFixture::new("settings").register(stage.client()).await.unwrap();
    let labels = await_untainted(stage.client(), "settings").await.metadata.labels.unwrap();
    let seen = |name: &str| labels[&format!("hostile.example/{name}")].clone();
    assert_eq!(
        ["cluster-name", "cluster-cidrs", "setting"].map(seen),
        ["blue", "10.244.0.0-16_fd00---48", "merry"].map(ToOwned::to_owned)
    );
    let before = alerts::scrape(&host).await.unwrap();
    let so_far = host.count("ccm_events_dropped_total", &[]).await.unwrap();
    // Ten at once; whoever emits one cannot wait.
    NodeFixture::new("event-flood").register(stage.client()).await.unwrap();
    host.await_count("ccm_events_dropped_total", &[], LIMIT, |dropped| dropped > so_far).await.unwrap();
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMEventsDropped", &[[&before], [&after]]).await.unwrap();
    host.end().await;
}

/// `--lookup-batch-linger`, `--lookup-batch-calls`, `--provider-calls`
#[tokio::test]
async fn lookups_wait_for_others_and_for_calls_to_end_as_the_flags_say() {
    let stage = Stage::new().await;
    let client = stage.client();
    // Nobody waits for so long: a batch goes when it is full.
    let flags = ["--lookup-batch-linger=1h", "--lookup-batch-nodes=2", "--node-status-update-frequency=1h"];
    let host = stage.cloudlycke(&flags);
    host.refreshed().await;
    let names = ["n1", "n2", "n3", "n4"];
    for (number, name) in (1..).zip(names) {
        NodeFixture::new(name).internal_ip("10.0.0.1").register(client).await.unwrap();
        // Whoever does not wait for others goes alone.
        host.await_count("ccm_store_objects", &["kind=\"Node\""], LIMIT, |known| known == f64::from(number))
            .await
            .unwrap();
    }
    for name in names {
        await_untainted(client, name).await;
    }
    assert_eq!(host.lookups().await, 2.0, "each waited for another one");
    host.end().await;

    let guest = format!("--provider={}", component("guests/hostile-wasi.wasm").unwrap().display());
    // A host in the middle of a call that takes six seconds, and which has made no other.
    let asleep = async |flags: &[&str]| -> Actor {
        nodes(client).delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        let host = stage.start([guest.as_str(), "--lookup-batch-nodes=1"].iter().chain(flags));
        host.refreshed().await;
        let uid = NodeFixture::new("wasi-sleep").register(client).await.unwrap().uid();
        let is_told = |event: &Event| {
            event.reason.as_deref() == Some("Asleep") && event.regarding.as_ref().is_some_and(|node| node.uid == uid)
        };
        let told = |events: &BTreeMap<String, Event>| events.values().any(is_told);
        await_all(&Api::all(client.clone()), watcher::Config::default(), LIMIT, told).await.unwrap();
        host
    };
    for flag in ["--lookup-batch-calls=1", "--provider-calls=1"] {
        let host = asleep(&[flag]).await;
        NodeFixture::new("good").register(client).await.unwrap();
        await_untainted(client, "good").await;
        assert_eq!(host.lookups().await, 2.0, "{flag}: in a call beside the other");
        host.end().await;
    }
    // Otherwise it is done while the other one's call goes on. Where the machine is so busy that this takes as long as that call, another
    // try tells.
    for _ in 0..5 {
        let host = asleep(&[]).await;
        NodeFixture::new("good").register(client).await.unwrap();
        await_untainted(client, "good").await;
        let goes_on = is_tainted(&get(client, "wasi-sleep").await);
        host.end().await;
        if goes_on {
            return;
        }
    }
    panic!("each time the other one's call had ended");
}

/// `--kube-api-concurrent-writes`
#[tokio::test]
async fn no_more_writes_are_under_way_than_the_flag_allows() {
    let stage = Stage::new().await;
    let way = Way::slow(stage.cluster.client_of(stage.user()).await.unwrap()).await;
    let host = stage.cloudlycke(&[&way.flag(), "--kube-api-concurrent-writes=3"]);
    let nodes = (0..30).map(|i| NodeFixture::new(format!("n{i}")).internal_ip("10.0.0.1"));
    register_nodes(stage.client(), nodes).await.unwrap();
    await_initialised(stage.client(), LIMIT).await.unwrap();
    assert_eq!(way.most_writes(), 3, "writes at the same time");
    host.end().await;
}

/// `--master`, `--concurrent-node-status-updates`, `--kube-api-write-timeout`
#[tokio::test]
async fn writes_go_where_the_flags_say_as_many_at_a_time_and_are_given_up_after_their_time() {
    const COUNT: usize = 8;
    let stage = Stage::new().await;
    let client = stage.client();
    let names: Vec<String> = (0..COUNT).map(|i| format!("n{i}")).collect();
    for name in &names {
        NodeFixture::new(name).internal_ip("10.0.0.1").initialized().register(client).await.unwrap();
    }
    let way = Way::slow(stage.cluster.client_of(stage.user()).await.unwrap()).await;
    let host =
        stage.cloudlycke(&[&way.flag(), "--concurrent-node-status-updates=2", "--kube-api-write-timeout=6s", "--v=4"]);
    for name in &names {
        let is_refreshed = |node: &_| addresses(node).contains(&"ExternalIP 10.0.0.1".to_owned());
        await_node(client, name, LIMIT, is_refreshed).await.unwrap();
    }
    assert_eq!(way.most_writes(), 2, "writes at the same time");
    let _unanswered = way.hold(|method, path| method == Method::PATCH && path.starts_with("/api/v1/nodes/unanswered"));
    NodeFixture::new("unanswered").internal_ip("10.0.0.1").register(client).await.unwrap();
    host.await_log(LIMIT, &["node not initialised", "no answer from the API server within 6s"]).await.unwrap();
    host.end().await;
}

/// As Go managers are started: what has nothing to set here once kept the process from starting.
#[tokio::test]
async fn a_stock_manifest_starts_and_one_line_says_which_flags_do_nothing_and_why() {
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&[
        "--allocate-node-cidrs=false",
        "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-cidr=10.244.0.0/16",
        "--configure-cloud-routes=true",
        "--controllers=*,-cloud-node-lifecycle",
        "--feature-gates=CloudControllerManagerWebhook=true",
        "--kube-api-burst",
        "30",
        "--kube_api_qps=20",
        "--leader-elect",
        "--min-resync-period=12h0m0s",
        "--profiling",
        "--tls-min-version=VersionTLS13",
        "--use-service-account-credentials",
        "--v=2",
        "--v=0",
    ]);
    host.ready().await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n1").await;
    let log = host.log();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("flags without effect here")).collect();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let told = [
        "WARN",
        "--authentication-skip-lookup, --authentication-tolerate-lookup-failure, --client-ca-file (the health port takes tokens, no client",
        "--kube-api-burst, --kube-api-qps (the client does not limit requests",
    ];
    for part in told {
        assert!(line.contains(part), "{line} does not say {part}");
    }
    for quiet in
        ["allocate-node-cidrs", "cluster-cidr", "configure-cloud-routes", "leader-elect", "tls-min-version", "--v"]
    {
        assert!(!line.contains(quiet), "{line} says {quiet}");
    }
    host.end().await;
}

/// All flags of upstream's, as stock manifests and operators give them.
const UPSTREAM: &str = include_str!("../../../../runtime/cli/src/upstream/flags.txt");

/// Which these are, the documentation says; a test of the program compares it with what the program has as such.
#[tokio::test]
async fn a_host_starts_with_every_flag_that_has_no_effect_and_one_line_names_all_of_them() {
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md")).unwrap();
    let documented: BTreeSet<&str> = documented
        .lines()
        .filter_map(|row| row.strip_prefix("| `--")?.split_once("` | no effect: "))
        .map(|(name, _)| name)
        .collect();
    let flags = UPSTREAM.lines().filter(|line| line.split_once('=').is_some_and(|(name, _)| documented.contains(name)));
    let flags: Vec<String> = flags.map(|line| format!("--{line}")).collect();
    assert_eq!(flags.len(), documented.len(), "{flags:?}");
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    host.ready().await;
    let log = host.log();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("flags without effect here")).collect();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let words: BTreeSet<&str> = line.split([' ', ',', ';', ':']).collect();
    for name in documented {
        assert!(words.contains(format!("--{name}").as_str()), "{line} does not name {name}");
    }
    host.end().await;
}

/// `--tls-cert-file`, `--tls-private-key-file`
#[tokio::test]
async fn the_health_port_has_the_certificate_that_the_flags_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let flags = [
        format!("--provider={}", cloudlycke().display()),
        format!("--tls-cert-file={}", file("tls.crt", made.cert.pem()).display()),
        format!("--tls-private-key-file={}", file("tls.key", made.signing_key.serialize_pem()).display()),
    ];
    let mut host = Host::start(&file("kubeconfig", KUBECONFIG.to_owned()), flags).unwrap();
    host.await_page("/livez", 200, LIMIT).await.unwrap();
    let mut config = Config::new(format!("https://127.0.0.1:{}", host.port()).parse().unwrap());
    config.root_cert = Some(vec![made.cert.der().to_vec()]);
    let client = Client::try_from(config).unwrap();
    let page = client.request_text(Request::get("/livez").body(vec![]).unwrap()).await;
    assert_eq!(page.unwrap(), "ok", "to somebody who trusts that certificate and no other");
    assert!(host.terminate().await.unwrap().success());
}
