//! Health and metrics: upstream's names, with the right figures.

use ccm_cluster::NodeFixture;
use ccm_e2e::manifest;

use crate::look::{STATE, await_all_untainted, await_event, await_untainted};
use crate::stage::{LIMIT, Stage};

#[tokio::test]
async fn metrics_have_the_names_of_upstream_and_say_what_was_done() {
    const COUNT: usize = 7;
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&["--node-status-update-frequency=1h"]);
    host.refreshed().await;
    let fixtures = (0..COUNT).map(|i| NodeFixture::new(format!("n{i}")).internal_ip("10.0.0.1"));
    ccm_cluster::register_nodes(client, fixtures).await.unwrap();
    NodeFixture::new("gone").internal_ip("10.0.0.1").annotation(STATE, "paused").register(client).await.unwrap();
    await_event(client, "gone", "Warning", "SyncNodeFailed", &[]).await;
    for i in 0..COUNT {
        await_event(client, &format!("n{i}"), "Normal", "Synced", &[]).await;
    }
    host.events_written().await;
    let done = COUNT as f64;
    let exact: [(&str, &[&str], f64); 16] = [
        ("node_controller_cloud_provider_taint_removal_delay_seconds_count", &[], done),
        ("node_controller_initial_node_sync_delay_seconds_count", &[], done),
        // The API server's time has whole seconds, and this takes less than 256.
        ("node_controller_initial_node_sync_delay_seconds_bucket", &["le=\"256.0\""], done),
        ("node_controller_cloud_provider_taint_removal_delay_seconds_bucket", &["le=\"1024.0\""], done),
        ("workqueue_depth", &["name=\"Nodes\""], 0.0),
        ("ccm_nodes_uninitialized", &[], 1.0),
        ("ccm_node_initialization_failures_total", &["reaction=\"invalid\""], 1.0),
        ("ccm_node_initialization_failures_total", &[], 1.0),
        ("ccm_store_objects", &["kind=\"Node\""], done + 1.0),
        ("ccm_store_undecodable_objects_total", &[], 0.0),
        ("ccm_events_written_total", &[], done + 1.0),
        ("ccm_events_dropped_total", &[], 0.0),
        ("ccm_api_requests_total", &["verb=\"patch\"", "resource=\"nodes\"", "outcome=\"ok\""], done),
        ("ccm_api_requests_total", &["resource=\"nodes/status\"", "outcome=\"ok\""], done),
        ("ccm_api_requests_total", &["verb=\"create\"", "resource=\"events\"", "outcome=\"ok\""], done + 1.0),
        ("ccm_reconcile_panics_total", &[], 0.0),
    ];
    for (name, labels, wanted) in exact {
        // A sync ends a moment after its last write.
        let seen = host.await_count(name, labels, LIMIT, |seen| seen == wanted).await;
        assert_eq!(seen.unwrap(), wanted, "{name} {labels:?}");
    }
    for i in 0..COUNT {
        await_untainted(client, &format!("n{i}")).await;
    }
    let at_least =
        ["workqueue_adds_total", "workqueue_work_duration_seconds_count", "workqueue_queue_duration_seconds_count"];
    for name in at_least {
        let seen = host.count(name, &["name=\"Nodes\""]).await.unwrap();
        assert!(seen > done, "{name}: {seen} runs of {} Nodes", done + 1.0);
    }
    let calls = host.count("ccm_provider_calls_total", &["provider=\"cloudlycke\"", "outcome=\"ok\""]).await.unwrap();
    assert!(calls >= 2.0, "{calls} calls");
    assert!(host.count("process_resident_memory_bytes", &[]).await.unwrap() > 1e6);
    assert!(host.metric("workqueue_retries_total").await.is_ok(), "also before anything was tried again");
    host.end().await;
}

/// The reference is read from the sources: here is whether they were read right.
#[tokio::test]
async fn every_metric_of_a_host_that_works_is_in_the_reference_with_its_type() {
    let reference = include_str!("../../../../docs/reference/metrics.md");
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&[]);
    host.ready().await;
    NodeFixture::new("n").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_event(stage.client(), "n", "Normal", "Synced", &[]).await;
    let (_, page) = host.page("/metrics").await.unwrap();
    let types: Vec<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert!(types.len() > 30, "{page}");
    for (name, kind) in types {
        let suffix = if kind == "counter" { "_total" } else { "" };
        assert!(reference.contains(&format!("| `{name}{suffix}` | {kind} |")), "{name}, {kind}");
    }
    host.end().await;
}

/// `ccm_provider_*`: of the component that serves, and of what it costs.
#[tokio::test]
async fn the_provider_that_serves_is_named_and_its_calls_are_counted_and_measured() {
    let stage = Stage::new().await;
    let source = crate::stage::cloudlycke().display().to_string();
    let host = stage.cloudlycke(&["--node-status-update-frequency=1h"]);
    host.refreshed().await;
    NodeFixture::new("n").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_event(stage.client(), "n", "Normal", "Synced", &[]).await;
    let page = host.provider().await;
    let of_source = format!("source={source:?}");
    let (version, digest) =
        (format!("version={:?}", page.serving.version), format!("digest={:?}", page.serving.digest));
    assert!(!page.serving.version.is_empty() && page.serving.digest.starts_with("sha256:"), "{page:?}");
    let find = ["provider=\"cloudlycke\"", "function=\"instances.find\""];
    let exact: [(&str, &[&str], f64); 8] = [
        ("ccm_provider_info", &[&of_source, "name=\"cloudlycke\"", &version, &digest], 1.0),
        ("ccm_provider_info", &[], 1.0),
        ("ccm_provider_generation", &[&of_source], page.generation as f64),
        ("ccm_provider_on_probation", &[&of_source], f64::from(page.phase == "probation")),
        ("ccm_provider_loads_total", &[&of_source, "result=\"taken\""], 1.0),
        ("ccm_provider_loads_total", &["result=\"rejected\""], 0.0),
        ("ccm_provider_load_duration_seconds_count", &[&of_source, "result=\"taken\""], 1.0),
        ("ccm_provider_calls_total", &[find[0], find[1], "outcome=\"ok\""], host.lookups().await),
    ];
    for (name, labels, wanted) in exact {
        assert_eq!(host.count(name, labels).await.unwrap(), wanted, "{name} {labels:?}");
    }
    assert!(host.lookups().await >= 1.0);
    let measured = host.count("ccm_provider_call_duration_seconds_count", &find).await.unwrap();
    assert_eq!(measured, host.lookups().await);
    let peak = host.count("ccm_provider_memory_peak_bytes", &[find[0]]).await.unwrap();
    assert!((65_536.0..64e6).contains(&peak), "{peak} bytes");
    assert!(host.metric("ccm_provider_cpu_milliseconds_total").await.is_ok());
    host.end().await;
}

/// The page once said so between the API server's first answer and the provider's first failure.
#[tokio::test]
async fn a_process_is_not_ready_for_a_moment_before_it_has_its_provider_and_all_nodes() {
    let stage = Stage::new().await;
    stage.cluster.stop_api_server().await.unwrap();
    for _ in 0..3 {
        let host = stage.cloudlycke(&["--v=4"]);
        host.await_log(LIMIT, &["waiting for the API server"]).await.unwrap();
        stage.cluster.start_api_server().await.unwrap();
        host.ready().await;
        let taken = host.count("ccm_provider_loads_total", &["result=\"taken\""]).await.unwrap();
        assert_eq!(taken, 1.0, "ready without a provider");
        let objects = host.count("ccm_store_last_event_timestamp_seconds", &[]).await.unwrap();
        assert!(objects > 0.0, "ready without the list of Nodes");
        stage.cluster.stop_api_server().await.unwrap();
        host.stop().await;
    }
}

/// The guides had people look for a page on which all lines begin with `[+]`, which no host has.
#[tokio::test]
async fn the_page_of_a_leader_that_is_ready_looks_as_the_guides_say() {
    let guides = manifest::folder().join("../docs/guides");
    for guide in ["install.md", "migrate-from-digitalocean.md", "migrate-from-openstack.md"] {
        let text = std::fs::read_to_string(guides.join(guide)).unwrap();
        assert!(text.contains("no line that begins with `[-]`; the last one says who leads"), "{guide}");
    }
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&["--leader-elect=true"]);
    host.ready().await;
    let page = host.await_page("/readyz", 200, LIMIT).await.unwrap();
    assert!(!page.contains("[-]"), "{page}");
    let (last, others) =
        page.lines().collect::<Vec<_>>().split_last().map(|(last, rest)| (*last, rest.to_vec())).unwrap();
    assert!(last.starts_with("leader: "), "{page}");
    assert!(!others.is_empty() && others.iter().all(|line| line.starts_with("[+]")), "{page}");
    host.end().await;
}

#[tokio::test]
async fn case_255_259_pages_of_the_health_port() {
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&["--cluster-name=blue"]);
    host.ready().await;
    for path in ["/livez", "/healthz"] {
        assert_eq!(host.page(path).await.unwrap(), (200, "ok".to_owned()));
    }
    let provider = format!("[+]provider {} ok\n", crate::stage::cloudlycke().display());
    assert_eq!(
        host.page("/readyz").await.unwrap(),
        (200, format!("[+]API server ok\n[+]nodes ok\n{provider}[+]services ok\n"))
    );
    assert_eq!(host.page("/elsewhere").await.unwrap().0, 404);
    let (status, text) = host.page("/configz").await.unwrap();
    let configuration: serde_json::Value = serde_json::from_str(&text).unwrap();
    let configuration = &configuration["cloudcontrollermanager.config.k8s.io"];
    assert_eq!((status, &configuration["KubeCloudShared"]["ClusterName"]), (200, &"blue".into()), "{text}");
    assert_eq!(configuration["Generic"]["Port"], host.port(), "{text}");
    let fixtures = (0..3).map(|i| NodeFixture::new(format!("n{i}")).internal_ip("10.0.0.1"));
    ccm_cluster::register_nodes(stage.client(), fixtures).await.unwrap();
    await_all_untainted(stage.client(), 3).await;
    host.end().await;
}
