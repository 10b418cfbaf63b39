//! Cases 172 to 198: which Services and Nodes matter, and which changes of them.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::*;
use crate::service::backends::{Reason, Watched};
use crate::service::digest::Digest;
use crate::service::fingerprint;
use crate::service::predicates::{is_backend, needs_cleanup};
use crate::testing::FakeBalancers;
use crate::view::node::is_uninitialized;
use crate::view::service::{cloud_service, is_load_balancer};
use ccm_cloud::LoadBalancers as _;

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

#[test]
fn cases_172_to_175_needs_cleanup() {
    let typed = |draft: Draft, kind: &str| draft.with("/spec", "type", json!(kind));
    let deleting = |draft: Draft| draft.with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let rows = [
        ("case_172", typed(service("web"), "ClusterIP"), false),
        ("case_172", deleting(service("web")), false),
        ("case_173", typed(finalized("web"), "NodePort"), true),
        ("case_174", finalized("web"), false),
        ("case_175", deleting(finalized("web")), true),
        ("case_175", deleting(typed(finalized("web"), "ClusterIP")), true),
    ];
    for (case, service, wanted) in rows {
        assert_eq!(needs_cleanup(&service.object()), wanted, "{case}");
    }
}

/// What decides whether a load balancer is ensured: upstream compares the old with the new Service, here both have a digest.
fn digest(service: &Service) -> Option<Digest> {
    let (view, wrong) = cloud_service(service);
    let wrong = wrong.map(|wrong| wrong.to_string());
    let descriptor = FakeBalancers::default().descriptor();
    is_load_balancer(service).then(|| fingerprint::spec(&view, wrong.as_deref(), &descriptor, ""))
}

#[test]
fn cases_176_to_183_which_changes_of_a_service_matter() {
    let port = |change: Value| {
        let port = json!({ "name": "http", "protocol": "TCP", "port": 80, "nodePort": 30_080 });
        json!({ "spec": { "ports": [Draft(port).patched(&change).0] } })
    };
    let spec = |name: &str, value: Value| json!({ "spec": { name: value } });
    let none = json!({});
    // The change that makes the old one, the change that makes the new one.
    let rows: Vec<(&str, Value, Value, bool)> = vec![
        ("case_176 type", none.clone(), spec("type", json!("ClusterIP")), true),
        ("case_176 port", none.clone(), port(json!({ "port": 8080 })), true),
        ("case_176 node port", none.clone(), port(json!({ "nodePort": 30_081 })), true),
        ("case_176 protocol", none.clone(), port(json!({ "protocol": "UDP" })), true),
        ("case_176 name", none.clone(), port(json!({ "name": "web" })), true),
        // Deviation: no provider is told external IPs or target ports.
        ("case_177 external IPs", none.clone(), spec("externalIPs", json!(["8.8.4.4"])), false),
        ("case_179 target port", port(json!({ "targetPort": 20 })), port(json!({ "targetPort": 21 })), false),
        ("case_179 target port", port(json!({ "targetPort": 22 })), port(json!({ "targetPort": "dns" })), false),
        ("case_178 UID", none.clone(), json!({ "metadata": { "uid": "another" } }), true),
        ("case_178 traffic policy", none.clone(), spec("externalTrafficPolicy", json!("Local")), true),
        (
            "case_178 health check",
            json!({ "spec": { "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_123 } }),
            json!({ "spec": { "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_124 } }),
            true,
        ),
        ("case_180 appProtocol set", none.clone(), port(json!({ "appProtocol": "http" })), true),
        ("case_180 appProtocol", port(json!({ "appProtocol": "http" })), port(json!({ "appProtocol": "tcp" })), true),
        ("case_181 families", none.clone(), spec("ipFamilies", json!(["IPv4", "IPv6"])), true),
        ("case_181 families", spec("ipFamilies", json!(["IPv4", "IPv6"])), none.clone(), true),
        ("case_182 nothing", none.clone(), none.clone(), false),
        ("case_182 appProtocol", port(json!({ "appProtocol": "http" })), port(json!({ "appProtocol": "http" })), false),
        ("case_182 families", spec("ipFamilies", json!(["IPv4"])), spec("ipFamilies", json!(["IPv4"])), false),
        ("case_183 affinity", none.clone(), spec("sessionAffinity", json!("ClientIP")), true),
        (
            "case_183 affinity config",
            spec("sessionAffinity", json!("ClientIP")),
            json!({ "spec": { "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } } } }),
            true,
        ),
        ("case_183 IP", none.clone(), spec("loadBalancerIP", json!("192.0.2.1")), true),
        ("case_183 ranges", none.clone(), spec("loadBalancerSourceRanges", json!(["10.0.0.0/8"])), true),
        (
            "case_183 declared annotation",
            none.clone(),
            json!({ "metadata": { "annotations": { "fake.io/mode": "x" } } }),
            true,
        ),
        // Deviation: upstream ensures after a change of any annotation.
        ("case_183 other annotation", none.clone(), json!({ "metadata": { "annotations": { "mine": "x" } } }), false),
        (
            "case_183 our annotation",
            none.clone(),
            json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": "x" } } }),
            false,
        ),
        ("case_183 labels", none.clone(), json!({ "metadata": { "labels": { "a": "b" } } }), false),
        ("case_183 selector", none.clone(), spec("selector", json!({ "a": "b" })), false),
        ("case_183 cluster IPs", none.clone(), spec("clusterIPs", json!(["10.96.0.1"])), false),
        (
            "case_183 status",
            none.clone(),
            json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } }),
            false,
        ),
        ("case_183 class", spec("type", json!("ClusterIP")), spec("type", json!("NodePort")), false),
    ];
    for (what, old, new, matters) in rows {
        let object = |change: &Value| digest(&service("web").patched(change).object());
        assert_eq!(object(&old) != object(&new), matters, "{what}");
    }
}

#[test]
fn cases_184_to_187_which_nodes_are_backends() {
    let ready = |status: &str| node("n0").with("/status", "conditions", json!([{ "type": "Ready", "status": status }]));
    let rows: Vec<(&str, Draft, bool)> = vec![
        ("case_184", node("n0"), true),
        ("case_184", ready("True").provider_id("fake://1"), true),
        ("case_184", ready("True"), true),
        // The predicate that demands readiness is in upstream's tests only.
        ("case_184", ready("False"), true),
        ("case_185", node("n0").label(EXCLUDE, ""), false),
        ("case_185", node("n0").label(EXCLUDE, "false"), true),
        ("case_185", node("n0").label(EXCLUDE, "true"), false),
        ("case_185", node("n0").label(EXCLUDE, "foo"), false),
        ("case_185", node("n0").label(EXCLUDE, "F"), true),
        ("case_186", node("n0").taint(AUTOSCALER), false),
        ("case_187", node("n0").taint("node.cloudprovider.kubernetes.io/uninitialized"), true),
        ("case_187", node("n0").with("/spec", "unschedulable", json!(true)), true),
    ];
    for (case, draft, wanted) in rows {
        assert_eq!(is_backend(&draft.clone().object()), wanted, "{case}: {}", draft.0);
    }
    let five = ["n4", "n2", "n0", "n3", "n1"].map(|name| match name {
        "n1" | "n3" => node(name).label(EXCLUDE, ""),
        _ => node(name),
    });
    let names: Vec<String> = backends(five.clone()).list.iter().map(|backend| backend.name.clone()).collect();
    assert_eq!(names, ["n0", "n2", "n4"], "case_187");
    assert!(backends(five.map(|node| node.label(EXCLUDE, ""))).list.is_empty(), "case_187");
}

#[test]
fn cases_188_to_198_which_changes_of_a_node_are_a_reason_for_a_pass() {
    let plain = || node("n0").provider_id("fake://1");
    let ready = |draft: Draft, status: &str| {
        draft.with("/status", "conditions", json!([{ "type": "Ready", "status": status }]))
    };
    let excluded = |draft: Draft| draft.label(EXCLUDE, "");
    let tainted = |draft: Draft| draft.taint(AUTOSCALER);
    let without_id = || node("n0");
    let deleting = |draft: Draft| draft.with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let other = |draft: Draft| draft.provider_id("fake://2");
    let pressure =
        |draft: Draft| draft.with("/status", "conditions", json!([{ "type": "DiskPressure", "status": "True" }]));
    let pressed = |draft: Draft, status: &str| {
        let conditions = json!([{ "type": "Ready", "status": status }, { "type": "DiskPressure", "status": "True" }]);
        draft.with("/status", "conditions", conditions)
    };
    let mut rows: Vec<(String, Draft, Draft, bool)> = vec![
        ("case_188".into(), plain(), plain(), false),
        ("case_189 added".into(), plain(), excluded(plain()), true),
        ("case_189 removed".into(), excluded(plain()), plain(), true),
        ("case_189 both".into(), excluded(plain()), excluded(plain()), false),
        ("case_190 taint".into(), plain(), plain().taint("other"), false),
        ("case_190 taint".into(), plain().taint("other"), plain(), false),
        ("case_190 label".into(), plain(), plain().label("other", "x"), false),
        ("case_190 label".into(), plain().label("other", "x"), plain(), false),
        ("case_191".into(), ready(plain(), "False"), ready(plain(), "False"), false),
        ("case_191".into(), ready(plain(), "False"), plain(), false),
        ("case_191".into(), plain(), ready(plain(), "False"), false),
        ("case_192".into(), plain(), pressure(plain()), false),
        ("case_192".into(), ready(plain(), "True"), pressure(plain()), false),
        ("case_192 ready all the time".into(), ready(plain(), "True"), pressed(plain(), "True"), false),
        ("case_192 never ready".into(), ready(plain(), "False"), pressed(plain(), "False"), false),
        ("case_193".into(), plain(), deleting(plain()), false),
        ("case_194 set".into(), without_id(), plain(), true),
        ("case_194 cleared".into(), plain(), without_id(), true),
        ("case_194 changed".into(), plain(), other(plain()), true),
    ];
    // The same with something on both sides.
    let sides: [(&str, &dyn Fn(Draft) -> Draft); 3] =
        [("case_195", &tainted), ("case_196", &excluded), ("case_197", &|draft| ready(draft, "False"))];
    for (case, side) in sides {
        rows.push((format!("{case} set"), side(without_id()), side(plain()), true));
        rows.push((format!("{case} cleared"), side(plain()), side(without_id()), true));
        rows.push((format!("{case} changed"), side(plain()), side(other(plain())), true));
        if case != "case_196" {
            rows.push((format!("{case} excluded"), side(plain()), excluded(side(plain())), true));
            rows.push((format!("{case} included"), excluded(side(plain())), side(plain()), true));
        }
        if case != "case_195" {
            rows.push((format!("{case} tainted"), side(plain()), tainted(side(plain())), false));
            rows.push((format!("{case} untainted"), tainted(side(plain())), side(plain()), false));
        }
        if case != "case_197" {
            rows.push((format!("{case} ready"), ready(side(plain()), "False"), ready(side(plain()), "True"), false));
        }
    }
    rows.push(("case_198 excluded".into(), without_id(), excluded(without_id()), true));
    rows.push(("case_198 included".into(), excluded(without_id()), without_id(), true));
    rows.push(("case_198 ready".into(), ready(without_id(), "False"), ready(without_id(), "True"), false));
    rows.push(("case_198 ready".into(), ready(without_id(), "True"), ready(without_id(), "False"), false));
    rows.push(("case_198 tainted".into(), without_id(), tainted(without_id()), false));
    rows.push(("case_198 untainted".into(), tainted(without_id()), without_id(), false));
    let waiting = || without_id().tainted();
    let at =
        |draft: Draft| draft.with("/status", "addresses", json!([{ "type": "InternalIP", "address": "10.0.0.7" }]));
    // Deviation: a Node that waits for its initialisation is a reason when that is over.
    rows.push(("waits, addresses".into(), waiting(), at(waiting()), false));
    rows.push(("waits, excluded".into(), waiting(), excluded(waiting()), true));
    rows.push(("initialised".into(), at(waiting()), at(plain()), true));
    rows.push(("initialised without ID".into(), waiting(), without_id(), true));
    rows.push(("ID of its kubelet, tainted".into(), plain().tainted(), at(plain().tainted()), true));
    rows.push(("tainted again".into(), without_id(), waiting(), false));
    for (what, old, new, wanted) in rows {
        let mut watched = Watched::new(&[Arc::new(old.object())]);
        let new: Node = new.object();
        let matters = Some(Reason::Backends);
        assert_eq!(watched.change("n0", Some(&new)) == matters, wanted, "{what}");
        assert_eq!(watched.change("n0", Some(&new)), None, "{what}: only once");
        assert_eq!(watched.change("n0", None), matters, "{what}: deleted");
        let waits = is_uninitialized(&new) && new.provider_id.is_none();
        assert_eq!(watched.change("n0", Some(&new)), matters.filter(|_| !waits), "{what}: added");
    }
}
