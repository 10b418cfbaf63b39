//! A dry run beside another manager, as the manifests and the chart install it.

use std::collections::BTreeSet;

use ccm_cluster::{NodeFixture, Settings};
use ccm_e2e::host::until;
use ccm_e2e::manifest;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::chart::{Helm, IMAGE, LABELS, chart, comparable, of_guide};
use super::overlay::{Manifests, start};
use super::{CLOUDLYCKE, apart, apply, know_kinds_of_others};
use crate::access;
use crate::doctor::leases::Renewing;
use crate::doctor::{doctor, provider};
use crate::look::await_untainted;
use crate::service_look::{await_served, serve};
use crate::stage::{LIMIT, Stage};

/// Verbs of all our roles.
fn verbs(objects: &[kube::core::DynamicObject]) -> BTreeSet<String> {
    let ours = objects.iter().filter(|object| object.name_any() == "wasm-ccm");
    let rules = ours.filter_map(|object| object.data["rules"].as_array()).flatten();
    let verbs = rules.flat_map(|rule| rule["verbs"].as_array().unwrap());
    verbs.map(|verb| verb.as_str().unwrap().to_owned()).collect()
}

fn with_dry_run(manifests: &Manifests) -> &'static str {
    let around = json!({ "resources": [format!("../{CLOUDLYCKE}")], "components": ["../optional/dry-run"] });
    manifests.write("dry/kustomization.yaml", around.to_string());
    "dry"
}

#[tokio::test]
async fn the_chart_and_the_component_make_the_same_dry_run() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let theirs = comparable(manifests.build(with_dry_run(&manifests)).await);
    let chart = chart(&manifests, &["cloudlycke"]);
    let mut ours = comparable(helm.render(&chart, &["provider=cloudlycke", IMAGE[0], IMAGE[1], "dryRun=true"]).await);
    for object in ours.values_mut() {
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        LABELS.iter().for_each(|label| drop(labels.remove(*label)));
        if labels.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("labels");
        }
    }
    let is_about_the_process = |name: &&String| name.starts_with("Deployment") || name.contains("Role");
    for name in theirs.keys().chain(ours.keys()).filter(is_about_the_process).collect::<BTreeSet<_>>() {
        assert_eq!(theirs.get(name), ours.get(name), "{name}");
    }
    let container = |of: &Value| of["spec"]["template"]["spec"]["containers"][0].clone();
    let process = container(&ours["Deployment kube-system/wasm-ccm"]);
    let args = process["args"].as_array().unwrap();
    assert!(args.contains(&json!("--dry-run")) && args.contains(&json!("--secure-port=10268")), "{args:?}");
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(process[probe]["httpGet"]["port"], 10268, "{probe}");
    }
}

#[tokio::test]
async fn a_dry_run_is_installed_in_one_step_with_rights_that_only_read() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let manifests = Manifests::new();
    let objects = manifests.build(with_dry_run(&manifests)).await;
    assert_eq!(verbs(&objects), ["get", "list", "watch"].map(str::to_owned).into());
    manifest::apply_all(client, &objects).await.unwrap();
    for (group, resource, namespace) in [("", "services", None), ("events.k8s.io", "events", Some("default"))] {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some("list".to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        stage.await_allowed(stage.user(), attributes).await;
    }
    NodeFixture::new("n1").register(client).await.unwrap();
    // So that it says whatever it lacks.
    let host = start(&stage, &["--v=4", "--logging-format=json"]).await;
    host.ready().await;
    // There is no manager, which is no reason not to be ready.
    host.await_log(LIMIT, &["dry run: beside nobody: no manager holds Lease kube-system/cloud-controller-manager"])
        .await
        .unwrap();
    host.await_log(LIMIT, &["dry run: would be written", "Node n1", "cluster PATCH /api/v1/nodes/n1 "]).await.unwrap();
    host.await_count("ccm_dry_run_looks_total", &[], LIMIT, |looks| looks >= 4.0).await.unwrap();
    host.end().await;
    let tried: Vec<_> = stage.cluster.writes().unwrap().into_iter().filter(|one| one.user == stage.user()).collect();
    assert!(tried.is_empty(), "{tried:?}");

    // The switch.
    apply(&stage, &manifests, CLOUDLYCKE).await;
    let host = start(&stage, &[]).await;
    await_untainted(client, "n1").await;
    host.end().await;
}

/// It offered a command that gave the dry run the rights to write, which no later `apply` took back, and it had the manager beside it stopped.
// The Lease is renewed while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn doctor_finds_nothing_wrong_with_a_dry_run_and_offers_it_no_rights() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let manifests = Manifests::new();
    apply(&stage, &manifests, CLOUDLYCKE).await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(client).await.unwrap();
    let host = start(&stage, &[]).await;
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;
    host.end().await;
    manifest::apply_all(client, &manifests.build(with_dry_run(&manifests)).await).await.unwrap();

    let admin = stage.cluster.kubeconfig();
    let look = || doctor(&admin, &[&provider()]);
    let fix = |answer: &crate::doctor::Answer, check: &str| answer.of(check)[0]["fix"].as_str().unwrap().to_owned();
    let answer = look();
    let (_, found) = answer.one("rights", "good");
    assert!(found.starts_with("this is a dry run: ") && found.contains(stage.user()), "{found}");
    let (_, found) = answer.one("leases", "note");
    let say = "this is a dry run, which takes part in no election";
    assert_eq!(found, format!("{say}; nobody holds Lease kube-system/cloud-controller-manager"));
    assert!(!answer.text.contains(" apply --server-side"), "{}", answer.text);
    // Whether another manager works cannot be seen, and the way out is not to start what runs.
    assert_eq!(answer.one("services", "unjudged").0, ["Service default/web"]);
    assert!(fix(&answer, "services").starts_with("first do what leases says: "), "{}", answer.text);
    assert!(fix(&answer, "leases").contains("to let this host do the work, take --dry-run away"), "{}", answer.text);

    let go = "digitalocean-cloud-controller-manager";
    let renewing = Renewing::start(&stage, "cloud-controller-manager", go, SignedDuration::ZERO);
    let mut answer = look();
    let beside = async || {
        answer = look();
        Ok(answer.are_all("leases", "good"))
    };
    until(LIMIT, beside).await.unwrap();
    let (_, found) = answer.one("leases", "good");
    let lease = "Lease kube-system/cloud-controller-manager";
    assert_eq!(found, format!("{say}: it is beside go_1, which holds {lease} and renews it"));
    assert_eq!(answer.code, Some(0), "{}", answer.text);

    // Where none can be seen, as from its pod or where it runs by hand, nobody pastes a command before he has read what it is for.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    deployments.delete("wasm-ccm", &DeleteParams::default()).await.unwrap();
    let unless = "nothing, if the host is a dry run: doctor --dry-run judges it as one; else ";
    // Nobody can give rights to himself.
    let whose = "with the kubeconfig of an administrator: ";
    for (kubeconfig, whose) in [(&*admin, ""), (stage.kubeconfig(), whose)] {
        let starts = format!("{unless}{whose}`echo '");
        // The API server forgets the rights of before a moment later.
        let taken = async || Ok(fix(&doctor(kubeconfig, &[&provider()]), "rights").starts_with(&starts));
        until(LIMIT, taken).await.unwrap();
        assert!(doctor(kubeconfig, &[&provider(), "--dry-run"]).are_all("rights", "good"));
    }
    // Until here: a Lease that nobody renews any more is looked at for 15 s, by each doctor.
    drop(renewing);
}

/// The component alone left the host without the right to ask whose token Prometheus sends.
#[tokio::test]
async fn prometheus_reads_the_metrics_of_a_dry_run_where_it_is_installed_as_the_guide_says() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    know_kinds_of_others(client).await;
    let manifests = Manifests::new();
    // A folder beside `overlays`, around one of them.
    let text = of_guide("plan.md", "kustomization.yaml");
    let text = text.replace("../../base", &format!("../{CLOUDLYCKE}")).replace("../../optional", "../optional");
    manifests.write("dry/kustomization.yaml", text);
    manifests.write("dry/auth-delegator.yaml", of_guide("plan.md", "auth-delegator.yaml"));
    let objects = manifests.build("dry").await;
    assert_eq!(verbs(&objects), ["get", "list", "watch"].map(str::to_owned).into());
    manifest::apply_all(client, &objects).await.unwrap();
    for (group, resource, verb) in [
        ("", "services", "list"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ] {
        let [group, resource, verb] = [group, resource, verb].map(|word| Some(word.to_owned()));
        let attributes = ResourceAttributes { group, resource, verb, ..ResourceAttributes::default() };
        stage.await_allowed(stage.user(), attributes).await;
    }
    let flags = ["--authentication-on-loopback", "--authorization-webhook-cache-unauthorized-ttl=10ms"];
    let host = start(&stage, &flags).await;
    host.ready().await;
    let bearer = format!("Bearer {}", access::token(&stage, "wasm-ccm-scraper", &[]).await);
    let read = async |path: &str| access::page(&host, path, Some(("authorization", &bearer))).await;
    until(LIMIT, async || Ok(read("/metrics").await.0 == 200)).await.unwrap();
    assert!(read("/metrics").await.1.contains("ccm_dry_run_looks_total"));
    assert_eq!((read("/configz").await.0, access::page(&host, "/metrics", None).await.0), (403, 401));
    host.end().await;
}
