//! What the account of the host may patch: RBAC lets it patch Nodes and Services, and the policies of `manifests/` say which of their fields.

use kube::api::Patch;

use super::*;

/// A patch, and what is said of one that is refused.
type Row = (&'static str, &'static str, Value, Option<&'static str>);

fn rows() -> Vec<Row> {
    let labels = "may change only the labels of zone, region and instance type of a Node";
    let foreign = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
    let shutdown = json!([
        { "key": "gpu", "value": "yes", "effect": "NoSchedule" },
        { "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule" },
    ]);
    // It would take every pod off the Node.
    let evicts = json!([
        { "key": "gpu", "value": "yes", "effect": "NoSchedule" },
        { "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoExecute" },
    ]);
    let condition =
        |kind: &str| json!({ "conditions": [{ "type": kind, "status": "False", "reason": "X", "message": "" }] });
    let dated = |kind: &str| {
        let mut condition = condition(kind);
        condition["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        json!({ "status": condition })
    };
    vec![
        (
            "nodes",
            "",
            json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "z", "cloudlycke.io/x": "y" } } }),
            None,
        ),
        ("nodes", "", json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "other" } } }), None),
        (
            "nodes",
            "",
            json!({ "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "" } } }),
            Some(labels),
        ),
        ("nodes", "", json!({ "metadata": { "labels": { "kubernetes.io/hostname": "other" } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "topology.kubernetes.io/rack": "r" } } }), Some(labels)),
        // Whoever selects Nodes by these would select another one.
        ("nodes", "", json!({ "metadata": { "labels": { "own": "other" } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "own": null } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "others.io/pool": "secure" } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "pool": "secure" } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "cloudlycke.io/x": "another" } } }), Some(labels)),
        ("nodes", "", json!({ "metadata": { "labels": { "cloudlycke.io/x": null } } }), Some(labels)),
        (
            "nodes",
            "",
            json!({ "metadata": { "annotations": { "fake.io/x": "y" } } }),
            Some("may not change annotations"),
        ),
        ("nodes", "", json!({ "spec": { "unschedulable": true } }), Some("may not change unschedulable")),
        ("nodes", "", json!({ "spec": { "taints": foreign } }), Some("may change only the taints")),
        ("nodes", "", json!({ "spec": { "taints": evicts } }), Some("may change only the taints")),
        ("nodes", "", json!({ "spec": { "taints": shutdown, "providerID": "cloudlycke://fenced" } }), None),
        ("nodes", "", json!({ "spec": { "providerID": "other://fenced" } }), Some("")),
        (
            "nodes",
            "status",
            json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.9" }] } }),
            None,
        ),
        ("nodes", "status", json!({ "status": { "capacity": { "cpu": "900" } } }), Some("in the status of a Node")),
        ("nodes", "status", dated("Ready"), Some("in the status of a Node")),
        ("nodes", "status", dated("NetworkUnavailable"), None),
        ("services", "status", json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } } }), None),
        ("services", "status", json!({ "metadata": { "annotations": { "cloudlycke.io/lb-ready-at": "1" } } }), None),
        ("services", "status", json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": null } } }), None),
        (
            "services",
            "status",
            json!({ "metadata": { "annotations": { "cert-manager.io/issuer": "mine" } } }),
            Some("may change only its own annotations of a Service"),
        ),
        (
            "services",
            "status",
            json!({ "metadata": { "annotations": { "others.io/x": null } } }),
            Some("may change only its own annotations of a Service"),
        ),
        (
            "services",
            "status",
            json!({ "metadata": { "labels": { "app": "other" } } }),
            Some("labels and owners of a Service"),
        ),
        (
            "services",
            "status",
            json!({ "metadata": { "finalizers": ["service.kubernetes.io/load-balancer-cleanup", "others.io/keep"] } }),
            None,
        ),
        ("services", "status", json!({ "metadata": { "finalizers": [] } }), Some("may change only the finalizer")),
        ("services", "status", dated("LoadBalancerReady"), None),
    ]
}

/// What no mistake of a row above would show: each is refused by one part of an expression alone.
fn single_fields() -> Vec<Row> {
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000001" }]);
    let meta = "may not change annotations, finalizers and owners of a Node";
    let status = "in the status of a Node";
    let volume = "kubernetes.io/csi/driver^1";
    let of_node = [
        ("", json!({ "spec": { "podCIDR": "10.0.9.0/24", "podCIDRs": ["10.0.9.0/24"] } }), "the pod CIDRs of a Node"),
        ("", json!({ "spec": { "taints": null } }), "may change only the taints"),
        ("", json!({ "metadata": { "finalizers": ["others.io/keep"] } }), meta),
        ("", json!({ "metadata": { "ownerReferences": owner } }), meta),
        ("status", json!({ "status": { "conditions": null } }), status),
        ("status", json!({ "status": { "allocatable": { "cpu": "900" } } }), status),
        ("status", json!({ "status": { "nodeInfo": { "machineID": "other" } } }), status),
        ("status", json!({ "status": { "images": [{ "names": ["x"], "sizeBytes": 1 }] } }), status),
        ("status", json!({ "status": { "phase": "Running" } }), status),
        ("status", json!({ "status": { "daemonEndpoints": { "kubeletEndpoint": { "Port": 1 } } } }), status),
        ("status", json!({ "status": { "volumesInUse": [volume] } }), status),
        ("status", json!({ "status": { "volumesAttached": [{ "name": volume, "devicePath": "" }] } }), status),
    ];
    let conditions = "may change only its own conditions of a Service";
    let theirs = json!({
        "type": "others.io/Fine", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let of_service = [
        (json!({ "metadata": { "ownerReferences": owner } }), "spec, labels and owners of a Service"),
        (json!({ "status": { "conditions": [theirs] } }), conditions),
        (json!({ "status": { "conditions": null } }), conditions),
    ];
    let of_node = of_node.into_iter().map(|(part, body, told)| ("nodes", part, body, Some(told)));
    of_node.chain(of_service.into_iter().map(|(body, told)| ("services", "status", body, Some(told)))).collect()
}

#[tokio::test]
async fn the_account_changes_its_own_fields_of_nodes_and_services_and_no_others() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let admin = stage.client();
    apply(&stage, &Manifests::new(), CLOUDLYCKE).await;
    let fixture = NodeFixture::new("fenced").internal_ip("10.0.0.1").label("own", "label");
    fixture.taint("gpu", "yes", "NoSchedule").initialized().register(admin).await.unwrap();
    let own = json!({ "annotations": { "others.io/x": "kept", "wasm-ccm.io/ensure": "once" }, "finalizers": ["others.io/keep"] });
    serve(admin, "web", json!({ "metadata": own })).await;

    let client = stage.cluster.client_of(stage.user()).await.unwrap();
    let send = |resource: &'static str, part: &'static str, body: Value| {
        let client = client.clone();
        async move {
            // A merge patch would take the other conditions away.
            let merges = body.pointer("/status/conditions").is_some();
            let (params, patch) =
                (PatchParams::default(), if merges { Patch::Strategic(body) } else { Patch::Merge(body) });
            match (resource, part) {
                ("nodes", "") => nodes(&client).patch("fenced", &params, &patch).await.map(drop),
                ("nodes", _) => nodes(&client).patch_status("fenced", &params, &patch).await.map(drop),
                (_, _) => services(&client).patch_status("web", &params, &patch).await.map(drop),
            }
        }
    };
    // A policy counts a little after it was written.
    let fenced = async {
        let wrong =
            || json!({ "metadata": { "annotations": { "fake.io/x": Option::<String>::None, "fake.io/y": "y" } } });
        let foreign = || json!({ "metadata": { "annotations": { "cert-manager.io/issuer": "mine" } } });
        while send("nodes", "", wrong()).await.is_ok() || send("services", "status", foreign()).await.is_ok() {
            let back = json!({ "metadata": { "annotations": { "fake.io/y": null, "cert-manager.io/issuer": null } } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(back));
            nodes(admin).patch("fenced", &params, &patch).await.unwrap();
            services(admin).patch("web", &params, &patch).await.unwrap();
        }
    };
    tokio::time::timeout(LIMIT, fenced).await.expect("the policies never count");
    let of_others = |kind: &str| {
        json!({ "status": { "conditions": [{
        "type": kind, "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } })
    };
    let params = PatchParams::default();
    let (pressure, fine) = (of_others("MemoryPressure"), of_others("others.io/Fine"));
    nodes(admin).patch_status("fenced", &params, &Patch::Strategic(pressure)).await.unwrap();
    services(admin).patch_status("web", &params, &Patch::Strategic(fine)).await.unwrap();
    for (resource, part, body, refused) in rows().into_iter().chain(single_fields()) {
        let sent = send(resource, part, body.clone()).await;
        match (refused, sent) {
            (None, Ok(())) => {}
            (Some(text), Err(kube::Error::Api(status))) => {
                assert!(status.message.contains(text), "{resource} {body}: {}", status.message);
            }
            (_, sent) => panic!("{resource} {body}: {sent:?}"),
        }
    }
    // Nobody else is fenced.
    let cordon = json!({ "spec": { "unschedulable": true } });
    nodes(admin).patch("fenced", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
}
