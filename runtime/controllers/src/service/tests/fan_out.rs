//! Cases 130 to 156: what a change of the Nodes leads to.

use ccm_cloud::{Outcome, Reaction};
use serde_json::json;

use super::*;
use crate::service::backends::{Reason, Watched};
use crate::testing::Log;

/// Services with these names, all ensured for `n0` and `n1`.
async fn serving(names: &[&str]) -> Bench {
    let mut bench = Bench::new();
    for name in names {
        bench.add(service(name));
        assert_eq!(bench.sync(name).await, Verdict::Done);
    }
    bench.cloud.take_calls();
    bench
}

fn nodes(names: &[&str]) -> Vec<Draft> {
    names.iter().map(|name| node(name)).collect()
}

fn sorted(mut calls: Vec<String>) -> Vec<String> {
    calls.sort();
    calls
}

#[tokio::test(start_paused = true)]
async fn cases_130_to_136_every_served_service_is_updated_once_and_no_other() {
    let rows: [(&str, &[&str], usize); 6] = [
        ("case_130", &[], 0),
        ("case_131", &["ClusterIP", "NodePort"], 0),
        ("case_132", &["LoadBalancer"], 1),
        ("case_133", &["LoadBalancer", "LoadBalancer", "LoadBalancer"], 3),
        ("case_134", &["LoadBalancer", "ClusterIP", "LoadBalancer", "NodePort"], 2),
        ("case_136", &["LoadBalancer", "LoadBalancer", "LoadBalancer", "LoadBalancer"], 4),
    ];
    for (case, types, updates) in rows {
        let mut bench = Bench::new();
        for (index, kind) in types.iter().enumerate() {
            let name = format!("s{index}");
            bench.add(service(&name).with("/spec", "type", json!(kind)));
            bench.sync(&name).await;
        }
        bench.cloud.take_calls();
        bench.pass(nodes(&["n0", "n1", "n2"])).await;
        let calls = bench.cloud.calls();
        assert_eq!(calls.len(), updates, "{case}");
        assert!(
            calls.iter().all(|call| call.starts_with("update") && call.ends_with(": n0 n1 n2")),
            "{case}: {calls:?}"
        );
        assert_eq!(bench.scraped("service_controller_loadbalancer_sync_total"), updates as f64, "{case}");
    }
}

/// Upstream's cache can hold an entry of nothing. Here a Service that vanishes between the pass and its turn comes closest.
#[tokio::test(start_paused = true)]
async fn case_135_a_service_that_vanishes_during_the_pass_is_no_harm() {
    let mut bench = serving(&["web", "gone"]).await;
    let keys = wake::fan_out(&bench.syncer, backends(nodes(&["n0"])));
    bench.edit("gone", &json!({ "metadata": { "finalizers": null }, "status": { "conditions": null } }));
    bench.syncer.memory.forget(&key("gone"));
    bench.api.destroy_service("gone");
    bench.catch_up();
    for key in keys {
        assert_eq!(bench.syncer.sync(&key).await, Verdict::Done);
    }
    assert_eq!(bench.cloud.calls(), ["update web: n0"]);
}

/// A pass per step over two Services; each time the hosts of the one call for each of them that it leads to, if any.
#[tokio::test(start_paused = true)]
async fn cases_137_to_152_which_sets_of_nodes_lead_to_a_call() {
    let ready = |name: &str, status: &str| {
        node(name).with("/status", "conditions", json!([{ "type": "Ready", "status": status }]))
    };
    let excluded = |name: &str| node(name).label("node.kubernetes.io/exclude-from-external-load-balancers", "");
    let deleting = |name: &str| node(name).with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let autoscaled = |name: &str| node(name).taint("ToBeDeletedByClusterAutoscaler");
    let rows: Vec<(&str, Vec<Draft>, Option<&str>)> = vec![
        ("case_137", nodes(&["n0", "n1"]), None),
        ("case_137", nodes(&["n1", "n0"]), None),
        ("case_138", nodes(&["n0", "n1", "n2"]), Some("n0 n1 n2")),
        ("case_140", vec![ready("n0", "False"), node("n1"), node("n2")], None),
        ("case_141", vec![ready("n0", "True"), node("n1"), node("n2")], None),
        ("case_142", vec![autoscaled("n0"), node("n1"), node("n2")], Some("n1 n2")),
        ("case_143", vec![autoscaled("n0"), excluded("n1"), node("n2")], Some("n2")),
        ("case_144", vec![node("n0"), node("n1")], Some("n0 n1")),
        ("case_145", vec![deleting("n0"), node("n1")], Some("n1")),
        ("case_146", vec![deleting("n0"), node("n1").taint("unrelated")], None),
        ("case_150", vec![node("n1").provider_id("fake://1")], Some("n1")),
        ("case_150", vec![node("n1").provider_id("fake://2")], Some("n1")),
        ("case_151", vec![node("n1").provider_id("fake://2")], None),
        ("case_151", vec![node("n0"), node("n1").provider_id("fake://2")], Some("n0 n1")),
        ("case_151", vec![node("n0"), node("n1").provider_id("fake://2")], None),
        ("case_152", vec![node("n0"), node("n2")], Some("n0 n2")),
    ];
    let names = ["a", "b"];
    let mut bench = serving(&names).await;
    for (step, (case, nodes, hosts)) in rows.into_iter().enumerate() {
        bench.pass(nodes).await;
        let wanted: Vec<String> =
            hosts.iter().flat_map(|hosts| names.map(|name| format!("update {name}: {hosts}"))).collect();
        assert_eq!(sorted(bench.cloud.take_calls()), wanted, "{case}, step {step}");
    }
}

/// QUIRK-13: upstream records the set although it never reached the cloud, and makes no second try by itself.
#[tokio::test(start_paused = true)]
async fn case_139_a_set_that_failed_is_not_recorded_as_done() {
    let mut bench = serving(&["a", "b", "c"]).await;
    for name in ["a", "b", "c"] {
        bench.cloud.fail("update", name, [failure(Reaction::Throttled, "slow down")]);
    }
    let log = Log::start();
    let verdicts = bench.pass(nodes(&["n0"])).await;
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::After(_))), "{verdicts:?}");
    let told = log.lines("load balancer not synced");
    // A time, not `Some(6.99s)`.
    let is_time = |line: &String| line.contains("retry_in=") && !line.contains("Some(");
    assert!(told.len() == 3 && told.iter().all(is_time), "{told:?}");
    drop(log);
    assert_eq!(sorted(bench.cloud.take_calls()), ["update a: n0", "update b: n0", "update c: n0"]);
    for name in ["a", "b", "c"] {
        let record = bench.record(name).unwrap();
        assert!(record.spec.is_some() && record.backends.is_none(), "{record:?}");
    }
    tokio::time::advance(Duration::from_secs(11)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(bench.sync(name).await, Verdict::Done);
    }
    assert_eq!(bench.cloud.take_calls(), ["update a: n0", "update b: n0", "update c: n0"]);
    assert_eq!(bench.pass(nodes(&["n0"])).await, []);
    assert_eq!(bench.scraped("service_controller_nodesync_error_total"), 3.0);
}

#[tokio::test(start_paused = true)]
async fn case_147_each_new_set_reaches_all_services() {
    let names = ["a", "b", "c", "d"];
    let mut bench = serving(&names).await;
    for set in [vec!["n0"], vec!["n0", "n1"], vec!["n0", "n1", "n2", "n3"]] {
        let verdicts = bench.pass(nodes(&set)).await;
        assert_eq!(verdicts, [Verdict::Done; 4]);
        let wanted = names.map(|name| format!("update {name}: {}", set.join(" ")));
        assert_eq!(sorted(bench.cloud.take_calls()), wanted);
    }
}

/// QUIRK-14: upstream's slow pass can put the older set back.
#[tokio::test(start_paused = true)]
async fn case_153_a_service_takes_the_nodes_of_its_own_turn() {
    let mut bench = serving(&["slow", "web"]).await;
    let keys = wake::fan_out(&bench.syncer, backends(nodes(&["n0"])));
    assert_eq!(keys.len(), 2);
    // Before the second one's turn, another Node has joined.
    assert_eq!(bench.syncer.sync(&keys[0]).await, Verdict::Done);
    let again = wake::fan_out(&bench.syncer, backends(nodes(&["n0", "n2"])));
    assert_eq!(bench.syncer.sync(&keys[1]).await, Verdict::Done);
    bench.catch_up();
    for key in again {
        assert_eq!(bench.syncer.sync(&key).await, Verdict::Done);
    }
    let calls = bench.cloud.calls();
    assert_eq!(calls.len(), 3, "the second one needs one call: {calls:?}");
    assert!(bench.cloud.balancers().values().all(|balancer| balancer.hosts == ["n0", "n2"]));
}

/// Upstream takes it for done, and the Service stays without load balancer.
#[tokio::test(start_paused = true)]
async fn case_154_a_load_balancer_that_is_gone_when_it_is_updated_is_made_again() {
    let mut bench = serving(&["web"]).await;
    bench.cloud.lose("web");
    assert_eq!(bench.pass(nodes(&["n0"])).await, [Verdict::Done]);
    assert_eq!(bench.cloud.calls(), ["update web: n0", "get web", "ensure web: n0"]);
    assert_eq!(bench.cloud.balancers()["web uid-web"].hosts, ["n0"]);
    assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.2");
}

#[tokio::test(start_paused = true)]
async fn case_155_an_update_that_fails_is_warned_of_counted_and_tried_again() {
    let mut bench = serving(&["web"]).await;
    bench.cloud.fail("update", "web", [failure(Reaction::Retry, "no route")]);
    bench.cloud.fail("get", "web", [failure(Reaction::Retry, "no route")]);
    let verdicts = bench.pass(nodes(&["n0"])).await;
    assert!(matches!(verdicts[..], [Verdict::After(after)] if after >= Duration::from_secs(5)), "{verdicts:?}");
    assert_eq!(bench.scraped("service_controller_nodesync_error_total"), 1.0);
    assert_starts(
        bench.events().await.last().unwrap(),
        "Warning UpdateLoadBalancerFailed: Error updating load balancer with new hosts: failed to update the Nodes behind the \
         load balancer: no route (retry): retried with back-off, next in ",
    );
}

#[tokio::test(start_paused = true)]
async fn case_156_a_cluster_without_nodes_for_load_balancers_is_warned_of() {
    let mut bench = serving(&["web"]).await;
    assert_eq!(bench.pass(vec![]).await, [Verdict::Done]);
    assert_eq!(bench.cloud.calls(), ["update web"]);
    assert_eq!(bench.cloud.balancers()["web uid-web"].hosts, [""; 0]);
    let warning = "Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer";
    assert_eq!(bench.events().await[2..], [warning]);
}

/// QUIRK-15: upstream's retry is a full ensure, at once.
#[tokio::test(start_paused = true)]
async fn nodes_that_come_and_go_do_not_hurry_a_service_that_waits_for_its_retry() {
    let mut bench = serving(&["web"]).await;
    bench.cloud.fail("update", "web", vec![failure(Reaction::Throttled, "slow down"); 2]);
    bench.pass(nodes(&["n0"])).await;
    for set in [vec!["n1"], vec!["n2"], vec!["n3"]] {
        let verdicts = bench.pass(nodes(&set)).await;
        assert!(matches!(verdicts[..], [Verdict::After(_)]), "{verdicts:?}");
    }
    assert_eq!(bench.cloud.count("update"), 1);
    // A change of the Service does.
    bench.edit("web", &json!({ "spec": { "sessionAffinity": "ClientIP" } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.take_calls()[1..], ["ensure web: n3"]);
}

/// A size that changes in an hour, a mistake that somebody has to mend: the Nodes have nothing to do with that.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_is_there_follows_the_nodes_whatever_else_its_service_waits_for() {
    for reaction in [Reaction::Pending, Reaction::Invalid] {
        let mut bench = serving(&["web"]).await;
        let later = Failure { retry_after: Some(Duration::from_secs(3_600)), ..failure(reaction, "not in this hour") };
        bench.cloud.fail("ensure", "web", vec![later; 3]);
        bench.edit("web", &json!({ "spec": { "sessionAffinity": "ClientIP" } }));
        assert_ne!(bench.sync("web").await, Verdict::Done);
        bench.cloud.take_calls();
        for set in [["n0", "n2"], ["n0", "n3"]] {
            assert_ne!(bench.pass(nodes(&set)).await, [Verdict::Done], "{reaction:?}");
            assert_ne!(bench.sync("web").await, Verdict::Done, "{reaction:?}");
            let calls = bench.cloud.take_calls();
            assert_eq!(calls, [format!("ensure web: {}", set.join(" "))], "{reaction:?}: once for each");
        }
    }
    // One that is still being made waits with its Nodes.
    let mut bench = Bench::new();
    bench.add(service("web"));
    let later = Failure { retry_after: Some(Duration::from_secs(60)), ..failure(Reaction::Pending, "on its way") };
    bench.cloud.fail("ensure", "web", [later]);
    bench.sync("web").await;
    bench.cloud.take_calls();
    bench.pass(nodes(&["n7"])).await;
    assert_eq!(bench.cloud.take_calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn do_259_a_new_address_of_a_node_reaches_the_load_balancers() {
    let mut bench = serving(&["web"]).await;
    let addressed = |ip: &str| vec![node("n0").address("InternalIP", ip), node("n1")];
    bench.pass(addressed("10.0.0.1")).await;
    bench.pass(addressed("10.0.0.1")).await;
    assert_eq!(bench.cloud.count("update"), 1);
    bench.pass(addressed("10.0.0.2")).await;
    assert_eq!(bench.cloud.count("update"), 2);
    let mut watched = Watched::new(&[Arc::new(node("n0").address("InternalIP", "10.0.0.1").object())]);
    let change = watched.change("n0", Some(&node("n0").address("InternalIP", "10.0.0.2").object()));
    assert_eq!(change, Some(Reason::Backends));
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_measured_until_its_last_service_was_tried() {
    let mut bench = serving(&["a", "b"]).await;
    let keys = wake::fan_out(&bench.syncer, backends(nodes(&["n0"])));
    let count = "service_controller_nodesync_latency_seconds_count";
    assert_eq!(bench.syncer.sync(&keys[0]).await, Verdict::Done);
    assert_eq!(bench.scraped(count), 0.0);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(bench.syncer.sync(&keys[1]).await, Verdict::Done);
    assert_eq!(bench.scraped(count), 1.0);
    assert_eq!(bench.scraped("service_controller_nodesync_latency_seconds_sum"), 3.0);
    bench.catch_up();
}

/// Five hundred load balancers must not be five hundred lines whenever a Node joins.
#[tokio::test(start_paused = true)]
async fn a_pass_is_one_line_of_the_log() {
    let mut bench = serving(&["a", "b", "c"]).await;
    let changed = || Outcome { changes: vec!["members of pool-1".into()], ..Outcome::default() };
    for name in ["a", "b", "c"] {
        bench.cloud.script("update", name, [changed()]);
    }
    let log = Log::start();
    bench.pass(nodes(&["n0"])).await;
    let lines = log.lines("INFO");
    assert!(lines.len() == 1 && lines[0].contains("hosts=1 services=3"), "{lines:?}");
}
