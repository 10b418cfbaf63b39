//! What users of cloud controller managers complain about most often, and the one line that doctor has for each of them.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{component, until};
use ccm_e2e::manifest;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::leases::Renewing;
use super::network::USES;
use super::{create, doctor, hosts};
use crate::digitalocean::Cloud;
use crate::look::patch;
use crate::service_look::serve;
use crate::stage::{LIMIT, Stage};

/// What makes people complain, where they do, and the line: its check, its object, what was found, and the fix.
struct Pain {
    complaint: &'static str,
    line: [&'static str; 4],
}

const fn pain(complaint: &'static str, line: [&'static str; 4]) -> Pain {
    Pain { complaint, line }
}

/// Of every cloud.
const EVERYWHERE: [Pain; 5] = [
    pain(
        "kubelets without --cloud-provider=external: Nodes without provider ID and zone",
        [
            "nodes",
            "Node in-tree",
            "its kubelet seems to run without --cloud-provider=external",
            "start the kubelet with",
        ],
    ),
    pain(
        "two managers in one cluster: load balancers change back and forth",
        [
            "leases",
            "Lease kube-system/digitalocean-cloud-controller-manager",
            "another cloud controller manager works",
            "stop that manager",
        ],
    ),
    pain(
        "kube-controller-manager with a cloud of its own, left over from before",
        ["managers", "Pod kube-system/kcm", "runs with --cloud-provider=openstack", "set --cloud-provider=external"],
    ),
    pain(
        "a manager that waits for the Nodes that wait for it",
        ["hosts", "Pod kube-system/host", "does not tolerate the taint", "tolerations"],
    ),
    pain(
        "a manager that asks the DNS of the cluster before there is one",
        ["dns", "Pod kube-system/host", "asks the DNS of the cluster", "dnsPolicy: Default"],
    ),
];

/// Numbers without a name are of digitalocean/digitalocean-cloud-controller-manager. Its quota (#531) has a test of its own:
/// `what_the_cloud_leaves_to_the_leader_is_told`.
const DIGITALOCEAN: [Pain; 4] = [
    pain(
        "the node has another name than the droplet: it stays out (#63, #85, #110, #128, #361)",
        ["nodes", "Node waits", "has waited for its initialisation for ", " node waits` says why"],
    ),
    pain(
        "a load balancer that is pending for ever, and nobody says why (#62, #103, #167)",
        [
            "services",
            "Service default/silent",
            "waits, and nobody has taken care of it",
            " service default/silent` says why",
        ],
    ),
    pain(
        "401 after the token was changed (#301)",
        [
            "providers",
            "Provider digitalocean",
            "Unable to authenticate you",
            "correct the configuration or the credential",
        ],
    ),
    pain(
        "all nodes carry the label of a control plane: no backend (#375, #639)",
        ["services", "", "no Node is behind the load balancers", " label nodes --all"],
    ),
];

/// Of kubernetes/cloud-provider-openstack.
const OPENSTACK: [Pain; 5] = [
    pain(
        "servers that were renamed or have one name: two Nodes are one machine (#2999, #3114)",
        ["nodes", "Node twin-a", "have one provider ID", "delete the other"],
    ),
    pain(
        "load balancers in ERROR, and endless retries (#2036, #2037, #2541)",
        [
            "services",
            "Service default/broken",
            "waits (CloudFailed): load balancer 7 is in ERROR",
            " service default/broken` says why",
        ],
    ),
    pain(
        "the quota of load balancers or floating IPs is used up (appendix B: quota exceeded)",
        ["services", "Service default/many", "waits (QuotaExceeded)", " service default/many` says why"],
    ),
    pain(
        "a cluster role that is too narrow (#3165, #3225, #3228)",
        ["rights", "", "may not: patch nodes/status", " apply --server-side"],
    ),
    pain(
        "a custom CA that the configuration does not name (#1808, #1306)",
        [
            "tls",
            "identity (https://127.0.0.1",
            "no CA of the system signed the certificate",
            "put that CA certificate into",
        ],
    ),
];

fn has_one_line(findings: &[Value], pain: &Pain, text: &str) {
    let [check, object, found, fix] = pain.line;
    let part = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let lines = findings.iter().filter(|finding| {
        let of = finding["objects"].as_array().map_or("", |objects| objects[0].as_str().unwrap());
        finding["check"] == check && of.starts_with(object) && part(finding, "found").contains(found)
    });
    let lines: Vec<&Value> = lines.collect();
    assert_eq!(lines.len(), 1, "{}: {text}", pain.complaint);
    assert!(part(lines[0], "fix").contains(fix), "{}: {}", pain.complaint, lines[0]);
    assert!(["wrong", "note"].contains(&lines[0]["judgement"].as_str().unwrap()), "{}: {}", pain.complaint, lines[0]);
}

// The Lease is renewed and the cloud answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_most_common_mistakes_are_one_line_each() {
    let stage = Stage::bare(ccm_cluster::Settings::default()).await;
    let text = std::fs::read_to_string(manifest::folder().join("base/rbac.yaml")).unwrap();
    let mut objects = manifest::objects(&text).unwrap();
    let role = objects.iter_mut().find(|object| object.types.as_ref().unwrap().kind == "ClusterRole").unwrap();
    role.data["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["nodes/status"]));
    manifest::apply_all(stage.client(), &objects).await.unwrap();

    let known = |name: &str, id: &str| NodeFixture::new(name).initialized().provider_id(id);
    for fixture in [
        NodeFixture::new("waits"),
        NodeFixture::new("in-tree").initialized(),
        known("twin-a", "digitalocean://1"),
        known("twin-b", "digitalocean://1"),
    ] {
        fixture.register(stage.client()).await.unwrap();
    }
    let excluded =
        json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": "" } } });
    for node in ["waits", "in-tree", "twin-a", "twin-b"] {
        patch(stage.client(), node, &excluded).await;
    }
    let renewing = Renewing::start(
        &stage,
        "digitalocean-cloud-controller-manager",
        "digitalocean-cloud-controller-manager",
        SignedDuration::ZERO,
    );
    hosts::pod(&stage, "host", json!({ "dnsPolicy": "ClusterFirstWithHostNet" }), json!({ "phase": "Running" })).await;
    let container =
        json!({ "name": "kcm", "image": "x", "command": ["kube-controller-manager", "--cloud-provider=openstack"] });
    let pod = json!({ "metadata": { "name": "kcm" }, "spec": { "containers": [container] } });
    create(Api::<Pod>::namespaced(stage.client().clone(), "kube-system"), pod).await;
    let services = Api::<Service>::namespaced(stage.client().clone(), "default");
    serve(stage.client(), "silent", json!({})).await;
    for (name, reason, message) in [
        ("broken", "CloudFailed", "load balancer 7 is in ERROR"),
        ("many", "QuotaExceeded", "the limit of 10 load balancers is reached"),
    ] {
        serve(stage.client(), name, json!({})).await;
        let condition = json!({ "type": "LoadBalancerReady", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-11-26T09:00:00Z" });
        let status = json!({ "status": { "conditions": [condition] } });
        services.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    let cloud = Cloud::calm().await;
    cloud.unsettled("no host runs here");
    let refused = stage.file("refused", "dop_v1_nobody_knows_this_one");
    let flags = [
        format!("--provider={}", component("providers/digitalocean.wasm").unwrap().display()),
        format!("--endpoint=api={}", cloud.url()),
        format!("--credential=access-token=file:{}", refused.display()),
    ];
    let more = [
        "--cloud-provider=digitalocean",
        "--allow-http",
        "--allow-loopback",
        "--online",
        "--waiting-after=0s",
        "--leader-elect=false",
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more).collect();
    let mut answer = doctor(&stage.cluster.kubeconfig(), &flags);
    // Times of the API server are whole seconds, and it reads rules a moment later.
    let waits = async || {
        answer = doctor(&stage.cluster.kubeconfig(), &flags);
        let has = |part: &str| answer.text.contains(part);
        Ok(has("Service default/silent")
            && has("has waited for its initialisation")
            && has("may not: patch nodes/status\""))
    };
    until(LIMIT, waits).await.unwrap();
    let (mut findings, mut text) = (answer.findings, answer.text);

    let config = format!(
        "[Global]\nauth-url={}/v3\napplication-credential-id=21dd2a6e44c0\napplication-credential-secret=not-a-real-secret\n",
        stage.cluster.url()
    );
    let config = format!("--cloud-config={}", stage.file("cloud.conf", config).display());
    let provider = format!("--provider={}", component("providers/openstack.wasm").unwrap().display());
    let answer = doctor(
        &stage.cluster.kubeconfig(),
        &[
            &[
                &provider,
                &config,
                "--cloud-provider=openstack",
                "--allow-loopback",
                "--online",
                "--limit=call-time=3s",
                "--leader-elect=false",
            ][..],
            &USES,
        ]
        .concat(),
    );
    findings.extend(answer.of("tls").into_iter().cloned());
    text += &answer.text;
    for pain in EVERYWHERE.iter().chain(&DIGITALOCEAN).chain(&OPENSTACK) {
        has_one_line(&findings, pain, &text);
    }
    drop(renewing);
}
