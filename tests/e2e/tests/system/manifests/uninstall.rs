//! `wasm-ccm uninstall --plan`: its commands, given to a shell and to a real kubectl, leave nothing.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use ccm_cluster::{NodeFixture, Settings, ensure_binaries};
use ccm_e2e::host::until;
use ccm_e2e::manifest;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::chart::{Helm, IMAGE, chart};
use super::overlay::{Manifests, start};
use super::{CLOUDLYCKE, apart, apply, know_kinds_of_others};
use crate::doctor::leases::Renewing;
use crate::look::{await_untainted, nodes, patch_status};
use crate::mistakes::{complaint, ended, run};
use crate::service_look::{FINALIZER, annotated, await_served, delete, serve, services, the};
use crate::stage::{LIMIT, RIVAL, Stage};

const PLAN: [&str; 3] = ["uninstall", "--plan", "--output=json"];

/// What it says.
struct Plan {
    code: Option<i32>,
    report: Value,
}

impl Plan {
    /// For an administrator.
    fn of(stage: &Stage) -> Self {
        let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig().display());
        let (code, text, stderr) = run(&[&PLAN[..], &[&kubeconfig]].concat());
        assert_eq!(stderr, "", "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let this = Self { code, report };
        let steps = this.report["steps"].as_array().unwrap();
        let left: usize = steps.iter().map(|step| step["items"].as_array().unwrap().len()).sum();
        assert_eq!(this.report["left"], left);
        assert_eq!(code, Some(if left > 0 { 2 } else { 0 }), "{text}");
        assert_eq!(this.report["unread"], json!([]));
        this
    }

    /// Objects and commands of a step.
    fn step(&self, name: &str) -> Vec<(String, String)> {
        let steps = self.report["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        step["items"].as_array().unwrap().iter().map(|item| (text(&item["object"]), text(&item["command"]))).collect()
    }

    fn objects(&self, name: &str) -> Vec<String> {
        self.step(name).into_iter().map(|(object, _)| object).collect()
    }
}

/// Gives a command to a shell as it stands, in which kubectl knows no cluster.
async fn paste(stage: &Stage, command: &str) {
    let pasted = pasted(stage, command).await;
    assert!(pasted.status.success(), "{command}: {}", String::from_utf8_lossy(&pasted.stderr));
}

/// The same, however it ends.
async fn pasted(stage: &Stage, command: &str) -> Output {
    let programs = ensure_binaries().await.unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("PATH", path).env("KUBECONFIG", "/nowhere");
    ended(shell.env("KUBECACHEDIR", stage.folder()))
}

async fn paste_all(stage: &Stage, plan: &Plan, step: &str) {
    for (_, command) in plan.step(step) {
        paste(stage, &command).await;
    }
}

#[tokio::test]
async fn its_commands_in_their_order_take_an_installation_away_while_the_host_helps() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    assert_eq!(Plan::of(&stage).report["left"], 0, "nothing was installed");
    let manifests = Manifests::new();
    let mut installed = apply(&stage, &manifests, CLOUDLYCKE).await.len();
    manifest::apply(client, "optional/webhook/validating-webhook.yaml").await.unwrap();
    installed += 1;
    let host = start(&stage, &[]).await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(client).await.unwrap();
    await_untainted(client, "n1").await;
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;

    // The API server writes its own Leases.
    let by_us =
        || stage.cluster.writes().unwrap().into_iter().filter(|write| !write.user.starts_with("system:")).count();
    let written = by_us();
    let plan = Plan::of(&stage);
    assert_eq!(by_us(), written, "it wrote something");
    assert_eq!(plan.report["manager"], "host");
    assert_eq!(plan.objects("load-balancers"), ["Service default/web"]);
    assert!(plan.objects("nodes").is_empty(), "{}", plan.report);
    assert_eq!(plan.objects("webhook"), ["ValidatingWebhookConfiguration wasm-ccm"]);
    assert_eq!(plan.objects("lease"), ["Lease kube-system/cloud-controller-manager"]);
    assert!(plan.objects("marks").is_empty(), "{}", plan.report);
    let objects = plan.objects("installation");
    // The ConfigMap of the records is made by the manifests, and the webhook is a step of its own.
    assert_eq!(objects.len() + 1, installed, "{objects:?}");
    assert_eq!(objects[0], "Deployment kube-system/wasm-ccm", "what works goes first");
    assert!(objects.last().unwrap().starts_with("ValidatingAdmissionPolicy "), "its limits go last: {objects:?}");

    paste_all(&stage, &plan, "load-balancers").await;
    let given_up = async || Ok(Plan::of(&stage).step("load-balancers").is_empty());
    until(LIMIT, given_up).await.unwrap();
    paste_all(&stage, &plan, "webhook").await;
    let commands = plan.step("installation");
    paste(&stage, &commands[0].1).await;
    // As Kubernetes does with the pods of a Deployment that is gone.
    host.end().await;
    for (_, command) in &commands[1..] {
        paste(&stage, command).await;
    }
    let plan = Plan::of(&stage);
    assert_eq!(plan.report["manager"], "unseen");
    assert_eq!(plan.objects("marks"), ["Service default/web"], "the annotation by which it was given up");
    for step in ["lease", "marks"] {
        paste_all(&stage, &plan, step).await;
    }
    assert_eq!(Plan::of(&stage).code, Some(0));
    let web = the(client, "web").await;
    assert_eq!((web.metadata.finalizers, web.metadata.annotations), (None, None));
    assert!(web.status.unwrap().conditions.is_none_or(|conditions| conditions.is_empty()));
}

#[tokio::test]
async fn after_the_host_is_gone_its_commands_free_a_service_that_hangs_and_leave_what_others_wrote() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    manifest::apply_base(client).await.unwrap();
    stage.allowed().await;
    let host = stage.cloudlycke(&["--leader-elect=true"]);
    host.ready().await;
    let own =
        json!({ "metadata": { "finalizers": ["example.com/theirs"], "annotations": { "example.com/note": "x" } } });
    serve(client, "stays", own).await;
    serve(client, "hangs", json!({})).await;
    for name in ["stays", "hangs"] {
        await_served(client, name).await;
    }
    host.end().await;
    delete(client, "hangs").await;
    // Of another manager: nothing of ours is on it.
    serve(client, "foreign", json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
    let ensure = annotated([("wasm-ccm.io/ensure", "1")]);
    serve(client, "asks", ensure).await;
    let off =
        NodeFixture::new("off").initialized().taint("node.cloudprovider.kubernetes.io/shutdown", "", "NoSchedule");
    off.taint("example.com/theirs", "", "NoSchedule").register(client).await.unwrap();
    NodeFixture::new("waits").register(client).await.unwrap();
    let condition = |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason });
    let conditions = [condition("NetworkUnavailable", "NoRouteCreated"), condition("Ready", "KubeletReady")];
    patch_status(client, "off", &json!({ "conditions": conditions })).await;

    let plan = Plan::of(&stage);
    assert_eq!(plan.report["manager"], "unseen");
    assert_eq!(plan.objects("load-balancers"), ["Service default/hangs", "Service default/stays"]);
    assert_eq!(plan.objects("nodes"), ["Node waits"]);
    assert_eq!(plan.objects("marks"), ["Service default/asks", "Node off", "Node off"]);
    let notes = plan.report["notes"].to_string();
    assert!(notes.contains(&format!("the finalizer {FINALIZER} of default/foreign")), "{notes}");
    let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig().display());
    let (code, text, _) = run(&["uninstall", "--plan", &kubeconfig]);
    assert_eq!(code, Some(2));
    for part in [
        "1. Load balancers. No host has the Lease or runs in a pod. See first that none runs elsewhere, ",
        "   Service default/hangs: finalizer ",
        "load balancer of cloudlycke: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    for step in ["load-balancers", "nodes", "webhook", "installation", "lease", "marks"] {
        paste_all(&stage, &plan, step).await;
    }
    let plan = Plan::of(&stage);
    assert_eq!(plan.code, Some(0), "{}", plan.report);
    assert!(services(client).get_opt("hangs").await.unwrap().is_none(), "it hangs on");
    let stays = the(client, "stays").await;
    assert_eq!(stays.metadata.finalizers.unwrap(), ["example.com/theirs"]);
    assert_eq!(stays.metadata.annotations.unwrap().keys().collect::<Vec<_>>(), ["example.com/note"]);
    assert!(the(client, "foreign").await.metadata.finalizers.unwrap().contains(&FINALIZER.to_owned()));
    assert!(nodes(client).get("waits").await.unwrap().spec.unwrap().taints.is_none());
    let off = nodes(client).get("off").await.unwrap();
    let taints: Vec<String> = off.spec.unwrap().taints.unwrap().into_iter().map(|taint| taint.key).collect();
    assert_eq!(taints, ["example.com/theirs"]);
    let conditions = off.status.unwrap().conditions.unwrap();
    assert_eq!(conditions.iter().map(|one| one.type_.as_str()).collect::<Vec<_>>(), ["Ready"]);
}

/// An administrator reads the plan today, and pastes it tomorrow.
#[tokio::test]
async fn a_command_for_a_service_leaves_another_one_of_that_name_alone() {
    let stage = Stage::bare(Settings::default()).await;
    let client = stage.client();
    let hangs = async || {
        serve(client, "web", json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
        let time = "2026-11-26T09:30:00Z";
        let ready = json!({ "type": "LoadBalancerReady", "status": "True", "reason": "Ensured", "message": "", "lastTransitionTime": time });
        let status = Patch::Merge(json!({ "status": { "conditions": [ready] } }));
        services(client).patch_status("web", &PatchParams::default(), &status).await.unwrap();
    };
    hangs().await;
    let commands = Plan::of(&stage).step("load-balancers");
    let [(object, command)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(object, "Service default/web");
    delete(client, "web").await;
    paste(&stage, command).await;
    assert!(services(client).get_opt("web").await.unwrap().is_none(), "it hangs on");

    hangs().await;
    let refused = pasted(&stage, command).await;
    assert!(!refused.status.success(), "{command}");
    assert_eq!(the(client, "web").await.metadata.finalizers.unwrap(), [FINALIZER]);
}

/// Whoever deleted its Lease would let two managers lead.
// The Lease is renewed while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn where_another_manager_leads_its_lease_and_its_load_balancers_are_none_of_ours() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&["--leader-elect=true"]);
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;
    host.end().await;
    let before = Plan::of(&stage);
    assert_eq!(before.objects("lease"), ["Lease kube-system/cloud-controller-manager"]);
    assert_eq!(before.objects("load-balancers"), ["Service default/web"]);

    let go = "digitalocean-cloud-controller-manager";
    let _renewing = Renewing::start(&stage, "cloud-controller-manager", go, SignedDuration::ZERO);
    let mut plan = before;
    let leads = async || {
        plan = Plan::of(&stage);
        Ok(plan.report["manager"] == json!({ "other": go }))
    };
    until(LIMIT, leads).await.unwrap();
    assert_eq!((plan.objects("lease"), plan.objects("load-balancers")), (vec![], vec![]), "{}", plan.report);
}

#[tokio::test]
async fn all_that_the_chart_can_install_is_found_and_one_command_of_helm_takes_it_away() {
    let stage = Stage::bare(apart(Settings::default())).await;
    know_kinds_of_others(stage.client()).await;
    let (manifests, helm) = (Manifests::new(), Helm::new(Some(&stage.cluster.kubeconfig())));
    let chart = chart(&manifests, &["openstack"]);
    let more = ["provider=openstack", "settings.A=b", "monitoring.rules=true", "monitoring.dashboard=true"];
    let values = [&more[..], &IMAGE].concat().join(",");
    helm.good(&["install", "wasm-ccm", &chart, "--set", &values, "--wait=false"]).await;
    let installed = manifest::objects(&helm.good(&["get", "manifest", "wasm-ccm"]).await).unwrap();
    let name = |object: &DynamicObject| {
        let place = object.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} {place}{}", object.types.as_ref().unwrap().kind, object.name_any())
    };
    let installed: BTreeSet<String> = installed.iter().map(name).collect();
    for kind in
        ["PrometheusRule ", "ConfigMap kube-system/wasm-ccm-settings", "ConfigMap kube-system/wasm-ccm-dashboard"]
    {
        assert!(installed.iter().any(|name| name.starts_with(kind)), "{kind} is not among {installed:?}");
    }
    let plan = Plan::of(&stage);
    assert_eq!(plan.report["left"], installed.len());
    let (found, commands): (BTreeSet<String>, BTreeSet<String>) = plan.step("installation").into_iter().unzip();
    assert_eq!(found, installed);
    let kubeconfig = stage.cluster.kubeconfig();
    let wanted = format!("helm uninstall --kubeconfig={} wasm-ccm --namespace kube-system", kubeconfig.display());
    assert_eq!(commands, BTreeSet::from([wanted]));
    let command = commands.first().unwrap();
    helm.good(&command.split(' ').skip(1).collect::<Vec<_>>()).await;
    assert_eq!(Plan::of(&stage).code, Some(0));
}

#[tokio::test]
async fn it_changes_nothing_itself_and_says_what_it_could_not_read() {
    let (code, stdout, stderr) = run(&["uninstall"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    for part in ["changes nothing itself", "`wasm-ccm uninstall --plan`", "docs/guides/remove.md"] {
        assert!(complaint(&stderr).contains(part), "{stderr}");
    }
    let (code, _, stderr) = run(&["uninstall", "--plan", "--master=http://127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(complaint(&stderr).contains("http://127.0.0.1:1 (--master) does not answer: "), "{stderr}");

    let stage = Stage::bare(Settings::default()).await;
    let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig_of(RIVAL).unwrap().display());
    let (code, text, stderr) = run(&["uninstall", "--plan", &kubeconfig]);
    assert_eq!((code, stderr.as_str()), (Some(3), ""), "{text}");
    for list in [
        "Services",
        "Nodes",
        "ClusterRoles",
        "Secrets",
        "Lease kube-system/cloud-controller-manager",
        "whether a host runs",
    ] {
        assert!(text.contains(&format!("not known: {list}: ")), "{list}: {text}");
    }
}

/// The API server takes names of roles with all but `/` and `%` in them, and objects of our names from everybody who may make them.
#[tokio::test]
async fn who_may_make_one_object_puts_no_command_into_an_administrators_shell() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let role = |name: &str| -> Role { serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap() };
    let roles = Api::<Role>::namespaced(client.clone(), "default");
    for name in ["wasm-ccm-x;touch owned;#", "wasm-ccm-x\nhelm uninstall cilium"] {
        roles.create(&PostParams::default(), &role(name)).await.unwrap();
    }
    let names = ["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"];
    let release = json!({ names[0]: "cilium", names[1]: "kube-system" });
    let service = json!({ "metadata": { "annotations": release }, "spec": { "type": "ClusterIP" } });
    serve(client, "wasm-ccm-x", service).await;
    for output in ["text", "json"] {
        let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig().display());
        let (code, text, stderr) = run(&["uninstall", "--plan", &format!("--output={output}"), &kubeconfig]);
        assert_eq!((code, stderr.as_str()), (Some(3), ""), "{text}");
        assert_eq!(text.matches("Role default/wasm-ccm-…: its name is no word").count(), 2, "{text}");
        for part in ["touch", "helm", "cilium", "delete role"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
}

/// Whoever may write a Lease says who holds it.
#[tokio::test]
async fn no_text_of_others_moves_the_terminal_in_json_either() {
    let stage = Stage::bare(Settings::default()).await;
    let spec = json!({ "holderIdentity": "x\u{202e}\u{9b}2Jy", "leaseDurationSeconds": 1 });
    let lease = json!({ "metadata": { "name": "cloud-controller-manager" }, "spec": spec });
    let leases: Api<Lease> = Api::namespaced(stage.client().clone(), "kube-system");
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let (code, text, _) =
        run(&[&PLAN[..], &[&format!("--kubeconfig={}", stage.cluster.kubeconfig().display())]].concat());
    assert!(code == Some(2) && !text.contains(['\u{202e}', '\u{9b}']), "{text:?}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(report.to_string().contains("the last holder is x 2Jy"), "{report}");
}
