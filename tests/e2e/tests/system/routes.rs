//! Routes to pods: Cloudlycke's, and those of a cloud that counts and writes its table all or nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_cluster::{NodeFixture, await_object, poll_until, register_nodes};
use ccm_e2e::alerts;
use ccm_e2e::balancer_cloud::{Act, BalancerCloud, CloudSettings, Fault, Kind, Requests, When};
use ccm_e2e::host::component;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;

use crate::look::{await_event, await_untainted, nodes, patch_status, told};
use crate::mistakes::run;
use crate::stage::{Actor, LIMIT, Stage};

pub(crate) const RANGES: &str = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56";
pub(crate) const SOON: &str = "--route-debounce=100ms";
pub(crate) const MADE: (&str, &str) = ("False", "RouteCreated");
const LACKS: (&str, &str) = ("True", "NoRouteCreated");

/// A host that keeps the routes of this cloud.
fn start(stage: &Stage, cloud: &BalancerCloud, flags: &[&str]) -> Actor {
    let provider = format!("--provider={}", component("guests/balancer.wasm").unwrap().display());
    let flags = ["--setting=routes=true", SOON, &provider].into_iter().chain(flags.iter().copied()).map(str::to_owned);
    stage.start(flags.chain(cloud.flags()))
}

pub(crate) fn node(name: &str, cidr: &str) -> NodeFixture {
    NodeFixture::new(name).internal_ip("10.0.0.1").pod_cidr(cidr)
}

/// Status and reason of the condition NetworkUnavailable.
pub(crate) fn network(node: &Node) -> Option<(&str, &str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == "NetworkUnavailable")?;
    Some((condition.status.as_str(), condition.reason.as_deref()?))
}

pub(crate) async fn await_network(client: &Client, name: &str, expected: (&str, &str)) {
    let is_so = |node: &Node| network(node) == Some(expected);
    await_object(&nodes(client), name, LIMIT, is_so).await.unwrap();
}

/// A-22 to A-24.
#[tokio::test]
async fn cloudlyckes_routes_follow_nodes_and_a_seed_that_leads_nowhere_goes_where_it_is_the_clusters() {
    let stage = Stage::new().await;
    let client = stage.client();
    register_nodes(client, [node("n1", "10.244.1.0/24"), node("n2", "10.244.2.0/24")]).await.unwrap();
    let config = "routes: { enabled: true, seed: [{ cidr: 10.244.9.0/24 }, { cidr: 10.9.0.0/24 }] }";
    let host = stage.configured(config, &[RANGES, SOON]);
    for name in ["n1", "n2"] {
        await_network(client, name, MADE).await;
    }
    for part in ["route 10.244.1.0/24 leads to n1", "route 10.244.2.0/24 leads to n2", "route 10.244.9.0/24 removed"] {
        host.await_log(LIMIT, &[part]).await.unwrap();
    }
    nodes(client).delete("n2", &DeleteParams::default()).await.unwrap();
    host.await_log(LIMIT, &["route 10.244.2.0/24 removed"]).await.unwrap();
    assert!(!host.log_text().contains("10.9.0.0/24"), "what lies outside is nobody's business");
    let changed = ["trigger=\"node_change\"", "outcome=\"changed\""];
    // The provider says so in the middle of it.
    host.await_count("route_controller_route_sync_total", &changed, LIMIT, |count| count >= 1.0).await.unwrap();
    host.end().await;
}

#[tokio::test]
async fn routes_are_written_once_and_nothing_is_asked_while_nothing_changes() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    cloud.tamper_routes(|table| {
        table
            .extend([("10.0.0.0/8", "vpn"), ("10.244.77.0/24", "gone")].map(|(to, by)| (to.to_owned(), by.to_owned())));
    });
    // Initialised: what a Node gets then may be a reason for one more look, whenever that comes.
    let done = |name: &str, cidr: &str| node(name, cidr).initialized().provider_id(&format!("balancer://{name}"));
    let mut both = done("n2", "10.244.2.0/24").build();
    both.spec.get_or_insert_default().pod_cidrs = Some(vec!["10.244.2.0/24".into(), "fd00:10:244:2::/64".into()]);
    nodes(client).create(&Default::default(), &both).await.unwrap();
    register_nodes(client, [done("n1", "10.244.1.0/24")]).await.unwrap();
    // The next look that has no cause is far away.
    let flags = [RANGES, "--route-reconciliation-period=10m"];
    let host = start(&stage, &cloud, &flags);
    let all = [("10.0.0.0/8", "vpn"), ("10.244.1.0/24", "n1"), ("10.244.2.0/24", "n2"), ("fd00:10:244:2::/64", "n2")];
    cloud.await_routes(LIMIT, &all).await.unwrap();
    for name in ["n1", "n2"] {
        await_network(client, name, MADE).await;
    }
    host.idle("Routes", 1).await;
    // Heartbeats wake nobody; the Node after them does, so that there is something to wait for.
    let (reads, writes) = (cloud.count(Kind::Routes), cloud.count(Kind::SetRoutes));
    let beat = json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "beat" }] });
    patch_status(client, "n1", &beat).await;
    register_nodes(client, [done("n3", "10.244.3.0/24")]).await.unwrap();
    await_network(client, "n3", MADE).await;
    // One look, and the table that the provider reads before it writes it.
    assert_eq!((cloud.count(Kind::Routes) - reads, cloud.count(Kind::SetRoutes) - writes), (2, 1));
    nodes(client).delete("n3", &DeleteParams::default()).await.unwrap();
    cloud.await_routes(LIMIT, &all).await.unwrap();
    host.end().await;

    let writes = cloud.write_requests();
    let host = start(&stage, &cloud, &flags);
    let still = ["trigger=\"periodic\"", "outcome=\"noop\""];
    host.await_count("route_controller_route_sync_total", &still, LIMIT, |count| count == 1.0).await.unwrap();
    assert_eq!(cloud.write_requests(), writes, "a restart writes nothing");
    host.end().await;
}

/// Exit code, standard output and standard error of a plan of everything.
async fn planned(stage: &Stage, cloud: &BalancerCloud, output: &str) -> (Option<i32>, String, String) {
    let own = ["plan", "--all", "--setting=routes=true", RANGES, output].map(str::to_owned);
    let provider = format!("--provider={}", component("guests/balancer.wasm").unwrap().display());
    let cluster = format!("--kubeconfig={}", stage.kubeconfig().display());
    let words: Vec<String> = own.into_iter().chain([provider, cluster]).chain(cloud.flags()).collect();
    // The cloud goes on meanwhile.
    let running = tokio::task::spawn_blocking(move || run(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    running.await.unwrap()
}

/// What nobody looks at is told as nothing: `plan` and a dry run show the request that the host then sends.
#[tokio::test]
async fn a_plan_and_a_dry_run_show_the_routes_that_a_host_then_writes() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    cloud.tamper_routes(|table| drop(table.insert("10.244.77.0/24".to_owned(), "gone".to_owned())));
    let done = |name: &str, cidr: &str| node(name, cidr).initialized().provider_id(&format!("balancer://{name}"));
    register_nodes(client, [done("n1", "10.244.1.0/24"), done("n2", "10.244.2.0/24")]).await.unwrap();
    let line = r#"PUT balancer/api /v1/routes {"10.244.1.0/24":"n1","10.244.2.0/24":"n2"}"#;
    let (code, text, stderr) = planned(&stage, &cloud, "--output=text").await;
    let wanted = format!("Routes balancer\n  1. cloud   {line}\n  more writes may follow: ");
    assert!(code == Some(2) && text.contains(&wanted), "{code:?} {text}{stderr}");

    let observer = start(&stage, &cloud, &[RANGES, "--dry-run", "--route-reconciliation-period=1s"]);
    let pending = ("ccm_dry_run_pending_writes", ["kind=\"Routes\"", "to=\"cloud\""]);
    observer.await_count(pending.0, &pending.1, LIMIT, |writes| writes == 1.0).await.unwrap();
    let told = line.replace('"', r#"\""#);
    observer.await_log(LIMIT, &["dry run: would be written", "Routes balancer", &told]).await.unwrap();
    assert_eq!(cloud.write_requests(), 0);

    let host = start(&stage, &cloud, &[RANGES]);
    cloud.await_routes(LIMIT, &[("10.244.1.0/24", "n1"), ("10.244.2.0/24", "n2")]).await.unwrap();
    for name in ["n1", "n2"] {
        await_network(client, name, MADE).await;
    }
    observer.await_count(pending.0, &pending.1, LIMIT, |writes| writes == 0.0).await.unwrap();
    host.idle("Routes", 1).await;
    host.idle("Nodes", 2).await;
    host.end().await;
    assert_eq!(cloud.count(Kind::SetRoutes), 1, "the plan names all writes");
    let (code, text, stderr) = planned(&stage, &cloud, "--output=json").await;
    assert!(code == Some(0) && text.contains("\"objects\": []"), "{code:?} {text}{stderr}");
    observer.stop().await;
}

/// A network plugin has words of its own, and another manager writes none: then each look is about every Node, and once read all of them.
#[tokio::test]
async fn nodes_that_would_be_told_of_their_network_are_shown_once_and_are_not_read_at_each_look() {
    const NODES: usize = 20;
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let all: Vec<(String, String)> = (0..NODES).map(|i| (format!("n{i:02}"), format!("10.244.{i}.0/24"))).collect();
    cloud.tamper_routes(|table| table.extend(all.iter().map(|(name, cidr)| (cidr.clone(), name.clone()))));
    let fixtures =
        all.iter().map(|(name, cidr)| node(name, cidr).initialized().provider_id(&format!("balancer://{name}")));
    register_nodes(client, fixtures).await.unwrap();
    let of_a_plugin = json!({ "conditions": [
        { "type": "Ready", "status": "True" },
        { "type": "NetworkUnavailable", "status": "False", "reason": "CalicoIsUp" },
    ] });
    for (name, _) in &all {
        patch_status(client, name, &of_a_plugin).await;
    }
    let (code, text, stderr) = planned(&stage, &cloud, "--output=text").await;
    let shown = text.lines().filter_map(|line| line.split_once(". cluster PATCH /api/v1/nodes/")?.1.split_once('/'));
    let shown: BTreeSet<_> = shown.filter(|(_, body)| body.contains("RouteCreated")).map(|(name, _)| name).collect();
    let names: BTreeSet<_> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((code, shown), (Some(2), names.clone()), "{text}{stderr}");

    let flags = [RANGES, "--dry-run", "--leader-elect=false", "--route-reconciliation-period=1s"];
    let observer = start(&stage, &cloud, &flags);
    let pending = ("ccm_dry_run_pending_writes", ["kind=\"Routes\"", "to=\"cluster\""]);
    observer.await_count(pending.0, &pending.1, LIMIT, |writes| writes == NODES as f64).await.unwrap();
    let requests = async || observer.count("rest_client_requests_total", &["method=\"GET\""]).await.unwrap();
    let (looks, before) = (cloud.count(Kind::Routes), requests().await);
    poll_until("five looks", LIMIT, || cloud.count(Kind::Routes) > looks + 5).await.unwrap();
    let read = requests().await - before;
    // Each of them would have been twenty.
    assert!(read < NODES as f64, "{read} reads in five looks");
    let log = observer.log();
    let told = log.iter().filter(|line| line.contains("dry run: would be written") && line.contains("Routes balancer"));
    assert_eq!(told.count(), NODES, "{log:#?}");

    let host = start(&stage, &cloud, &[RANGES]);
    for name in names {
        await_network(client, name, MADE).await;
    }
    observer.await_count(pending.0, &pending.1, LIMIT, |writes| writes == 0.0).await.unwrap();
    host.end().await;
    observer.stop().await;
    assert_eq!(cloud.write_requests(), 0);
    let (code, text, stderr) = planned(&stage, &cloud, "--output=json").await;
    assert!(code == Some(0) && text.contains("\"objects\": []"), "{code:?} {text}{stderr}");
}

#[tokio::test]
async fn two_nodes_with_one_cidr_and_a_cidr_of_another_family_are_told_what_is_wrong() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let host = start(&stage, &cloud, &["--cluster-cidr=10.244.0.0/16"]);
    register_nodes(client, [node("first", "10.244.1.0/24")]).await.unwrap();
    await_network(client, "first", MADE).await;
    register_nodes(client, [node("second", "10.244.1.0/24"), node("six", "fd00::/64"), node("far", "10.9.0.0/24")])
        .await
        .unwrap();
    for (name, parts) in [
        ("second", "10.244.1.0/24 overlaps with 10.244.1.0/24 of Node first"),
        ("six", "fd00::/64 is of another IP family than --cluster-cidr (10.244.0.0/16)"),
        ("far", "10.9.0.0/24 lies outside of --cluster-cidr (10.244.0.0/16)"),
    ] {
        await_network(client, name, LACKS).await;
        await_event(client, name, "Warning", "FailedToCreateRoute", &["spec.podCIDRs: ", parts]).await;
    }
    assert_eq!(cloud.routes().len(), 1);
    nodes(client).delete("first", &DeleteParams::default()).await.unwrap();
    await_network(client, "second", MADE).await;
    cloud.await_routes(LIMIT, &[("10.244.1.0/24", "second")]).await.unwrap();
    host.end().await;
}

#[tokio::test]
async fn what_the_cloud_loses_comes_back_and_a_route_that_it_refuses_does_not_hold_up_the_others() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    cloud.refuse_route("10.244.2.0/24");
    let fixtures = (0..8).map(|i| node(&format!("n{i}"), &format!("10.244.{i}.0/24")));
    register_nodes(client, fixtures).await.unwrap();
    let host = start(&stage, &cloud, &[RANGES, "--route-reconciliation-period=1s"]);
    let names = ["n0", "n1", "n3", "n4", "n5", "n6", "n7"];
    for name in names {
        await_network(client, name, MADE).await;
    }
    await_network(client, "n2", LACKS).await;
    await_event(client, "n2", "Warning", "FailedToCreateRoute", &["10.244.2.0/24 is reserved"]).await;
    host.await_count("ccm_routes", &["state=\"failing\""], LIMIT, |failing| failing == 1.0).await.unwrap();
    let failing = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMRoutesFail", &[[&failing]]).await.unwrap();
    cloud.tamper_routes(|table| drop(table.remove("10.244.4.0/24")));
    let networks = names.map(|name| format!("10.244.{}.0/24", &name[1..]));
    let whole: Vec<_> = networks.iter().map(String::as_str).zip(names).collect();
    cloud.await_routes(LIMIT, &whole).await.unwrap();
    assert_eq!(told(client, "n4").await.iter().filter(|text| text.contains("Route")).count(), 0);
    host.end().await;
}

#[tokio::test]
async fn a_provider_that_gives_fewer_outcomes_than_routes_is_named_and_nothing_is_believed() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let host = start(&stage, &cloud, &[RANGES, "--route-max-wait=100ms"]);
    register_nodes(client, [node("short-1", "10.244.1.0/24"), node("n2", "10.244.2.0/24")]).await.unwrap();
    let said = "routes.change of balancer: the provider's answer breaks the contract: it gave 0 outcomes for 1 routes";
    await_event(client, "short-1", "Warning", "FailedToCreateRoute", &[said]).await;
    // The other one was alone in the end. And the cloud tells with the next look that the route is there.
    await_network(client, "n2", MADE).await;
    await_network(client, "short-1", MADE).await;
    host.end().await;
}

#[tokio::test]
async fn a_leader_that_is_killed_in_the_middle_of_a_change_leaves_nothing_undone() {
    const ELECTION: [&str; 3] =
        ["--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=500ms"];
    // How many routes the cloud has when the leader is gone, and how often it is asked to write them in all.
    for (when, made, asked) in [(When::Before, 0, 2), (When::After, 4, 1)] {
        let stage = Stage::new().await;
        let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
        let client = stage.client();
        let mut held = cloud.plan(Fault { of: Requests::Of(Kind::SetRoutes), nth: 1, when, act: Act::Hold });
        let fixtures = (0..4).map(|i| node(&format!("n{i}"), &format!("10.244.{i}.0/24")));
        register_nodes(client, fixtures).await.unwrap();
        let flags = [&[RANGES][..], &ELECTION].concat();
        let mut leader = start(&stage, &cloud, &flags);
        held.reached(LIMIT).await.unwrap();
        let next = start(&stage, &cloud, &flags);
        leader.signal("KILL").await.unwrap();
        leader.wait(LIMIT).await.unwrap();
        held.over(LIMIT).await.unwrap();
        assert_eq!(cloud.routes().len(), made, "{when:?}");
        for name in ["n0", "n1", "n2", "n3"] {
            await_network(client, name, MADE).await;
        }
        let all = [("10.244.0.0/24", "n0"), ("10.244.1.0/24", "n1"), ("10.244.2.0/24", "n2"), ("10.244.3.0/24", "n3")];
        cloud.await_routes(Duration::from_secs(1), &all).await.unwrap();
        assert_eq!((cloud.count(Kind::SetRoutes), cloud.writes().len()), (asked, 1), "{when:?}");
        next.end().await;
    }
}

/// Upstream ends the whole process where no range is given (QUIRK-31).
#[tokio::test]
async fn without_ranges_without_an_offer_or_when_it_is_switched_off_one_line_says_why_no_routes_are_kept() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let keeps = async |host: &Actor| host.page("/metrics").await.unwrap().1.contains("name=\"Routes\"");
    for (place, (flags, why)) in [
        (&[][..], "no routes are kept: --cluster-cidr is not given"),
        (
            &["--cluster-cidr=10.244.0.0/16,10.245.0.0/16"],
            "no routes are kept: --cluster-cidr has 10.244.0.0/16,10.245",
        ),
        (&[RANGES, "--configure-cloud-routes=false"], "no routes are kept: --configure-cloud-routes=false"),
        (&[RANGES, "--setting=routes=false"], "no routes are kept: no provider offers routes"),
    ]
    .into_iter()
    .enumerate()
    {
        let host = if flags.contains(&"--setting=routes=false") {
            let provider = format!("--provider={}", component("guests/balancer.wasm").unwrap().display());
            stage.start([provider, RANGES.to_owned()].into_iter().chain(cloud.flags()))
        } else {
            start(&stage, &cloud, flags)
        };
        host.await_log(LIMIT, &[why]).await.unwrap();
        // By the time that this host has initialised a Node, all its controllers work.
        let name = format!("n{place}");
        register_nodes(client, [node(&name, &format!("10.244.{place}.0/24"))]).await.unwrap();
        await_untainted(client, &name).await;
        assert!(!keeps(&host).await, "{flags:?}");
        host.end().await;
    }
    assert_eq!((cloud.count(Kind::Routes), cloud.count(Kind::SetRoutes)), (0, 0));
    let host = start(&stage, &cloud, &[RANGES]);
    await_network(client, "n0", MADE).await;
    assert!(keeps(&host).await && cloud.count(Kind::SetRoutes) == 1);
    host.end().await;
}
