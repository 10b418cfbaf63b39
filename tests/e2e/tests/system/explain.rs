//! `wasm-ccm explain`: from an object to the reason, in one command.

use ccm_cluster::NodeFixture;
use ccm_sim_digitalocean::{Act, Endpoint, Fault, Requests, When};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::cloud::{Cloud, SCRIPT, send};
use crate::digitalocean::{self, members, start};
use crate::look::STATE;
use crate::mistakes::{complaint, run};
use crate::service_look::{await_reason, await_served, serve};
use crate::stage::{Actor, LIMIT, RIVAL, Stage};

/// Runs `explain` as the administrator, and returns the code and what it wrote to standard output and standard error.
async fn explain(stage: &Stage, args: &[&str]) -> (Option<i32>, String, String) {
    explain_with(&stage.cluster.kubeconfig().display().to_string(), args).await
}

async fn explain_with(kubeconfig: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = format!("--kubeconfig={kubeconfig}");
    let args: Vec<String> = ["explain"].iter().chain(args).map(|arg| (*arg).to_owned()).chain([kubeconfig]).collect();
    // Clouds of the test go on meanwhile.
    let running = tokio::task::spawn_blocking(move || run(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    running.await.unwrap()
}

/// The same for programs.
async fn explained(stage: &Stage, args: &[&str]) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = explain(stage, &[args, &["--output=json"]].concat()).await;
    let told = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    (code, told)
}

pub(crate) fn address(host: &Actor) -> String {
    format!("--address=https://127.0.0.1:{}", host.port())
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[tokio::test]
async fn a_stuck_service_is_followed_to_its_failed_request_in_one_command() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = digitalocean::Cloud::start().await;
    members(client, &cloud, &[701]).await;
    let fault = Fault::new(Requests::Of(Endpoint::CreateBalancer), 1, When::Before, Act::Status(422));
    drop(cloud.plan(Fault { times: 1_000_000, ..fault }));
    let host = start(&stage, &cloud, &[], &["--service-min-backoff=300s", "--service-max-backoff=300s"]);
    let at = address(&host);
    serve(client, "web", json!({})).await;
    serve(client, "theirs", json!({ "spec": { "loadBalancerClass": "other.example/lb" } })).await;
    serve(client, "internal", json!({ "spec": { "type": "ClusterIP" } })).await;
    await_reason(client, "web", "CloudFailed").await;

    let (code, text, stderr) = explain(&stage, &["service", "default/web", &at]).await;
    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{text}");
    let parts = [
        "service default/web: not as it should be: its load balancer could not be made or changed",
        "provider   digitalocean",
        "decision   ensure the load balancer with digitalocean: nothing is recorded of it",
        "POST /v2/load_balancers: 422",
        "request    POST http://127.0.0.1:",
        "/v2/load_balancers (endpoint ",
        "answer     422 Unprocessable Entity, request ID ",
        "reaction   retry: the host tries again",
        "next try   in ",
        "to do      correct what the cloud's answer names: it refuses this request, so this is no outage",
        "asked      the host at https://127.0.0.1:",
    ];
    has_all(&text, &parts);
    let (code, told) = explained(&stage, &["service", "default/web", &at]).await;
    let next = told["nextSeconds"].as_f64().unwrap();
    assert!(code == Some(1) && (1.0..=600.0).contains(&next), "{told:#}");
    assert_eq!((&told["verdict"], &told["failure"]["reaction"]), (&json!("wrong"), &json!("retry")), "{told:#}");
    let request = &told["failure"]["request"];
    let said = |field: &str| request[field].as_str().unwrap_or_default();
    let id = said("requestId");
    assert!(!id.is_empty() && text.contains(&format!("request ID {id} (")), "{told:#}");
    assert!(told["failure"]["message"].as_str().unwrap().contains(id), "{told:#}");
    assert_eq!(
        (said("method"), said("operation"), said("path")),
        ("POST", "POST /v2/load_balancers", "/v2/load_balancers"),
        "{told:#}"
    );
    assert_eq!(
        (&request["status"], &request["sent"], &told["failure"]["tries"]),
        (&json!(422), &json!(1), &json!(1)),
        "{told:#}"
    );
    assert!(said("origin").starts_with("http://127.0.0.1:") && said("at").ends_with('Z'), "{told:#}");

    // As kubectl takes it; the kubeconfig says no other namespace.
    for words in [&["service", "web"][..], &["svc/web"], &["Services", "web", "-n", "default"]] {
        let (code, told) = explained(&stage, &[words, &[&at]].concat()).await;
        assert_eq!((code, &told["object"]), (Some(1), &json!("service default/web")), "{words:?}: {told:#}");
    }

    // Another manager's, and one that wants none.
    let (code, told) = explained(&stage, &["service", "default/theirs", &at]).await;
    assert_eq!((code, &told["class"]), (Some(3), &json!("other.example/lb")), "{told:#}");
    let (code, told) = explained(&stage, &["service", "default/internal", &at]).await;
    assert_eq!((code, &told["summary"]), (Some(0), &json!("it wants no load balancer")), "{told:#}");
    for (args, part) in [
        (
            ["service", "default/nobody", at.as_str()],
            "there is no service default/nobody: look with kubectl --kubeconfig=",
        ),
        (["node", "nobody", &at], "there is no node nobody"),
        (["service", "default/web/status", &at], "is no name of an object"),
        (["pod", "default/web", &at], "is neither a Service nor a Node"),
        (
            ["service/web", "--namespace=shop", &at],
            "there is no service shop/web (there is one in default: -n NAMESPACE)",
        ),
        (["node", "n", "--address=https://u:hunter2@host"], "--address is no address of a health port"),
    ] {
        let (code, stdout, stderr) = explain(&stage, &args).await;
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
        assert!(complaint(&stderr).contains(part) && !stderr.contains("hunter2"), "{args:?}: {stderr}");
    }
    host.end().await;

    // There is no Lease, as the host ran without election: what the object and its Events say still holds.
    let (code, text, _) = explain(&stage, &["service", "default/web"]).await;
    assert_eq!(code, Some(1), "{text}");
    let parts = [
        "its condition LoadBalancerReady says CloudFailed",
        "POST /v2/load_balancers: 422",
        "next try   not known: only the leader knows it",
        "asked      no leader could be asked: this is what the object and its Events say",
        "to do      find out whether a host runs",
        "(--leader-elect=false)",
        "tried      the Lease kube-system/cloud-controller-manager does not exist",
        "event      Warning SyncLoadBalancerFailed, ",
    ];
    has_all(&text, &parts);
    assert!(!text.contains("start the host: none leads"), "{text}");
    let (code, text, _) = explain(&stage, &["service", "default/web", &at]).await;
    assert!(code == Some(1) && text.contains("tried      the host at https://127.0.0.1:"), "{text}");
    assert!(text.contains("to do      find out whether a host runs") && !text.contains("none leads"), "{text}");

    cloud.forget_faults();
    let host = start(&stage, &cloud, &[], &["--leader-elect=true"]);
    await_served(client, "web").await;
    let (code, told) = explained(&stage, &["service", "default/web", &address(&host)]).await;
    assert_eq!((code, &told["verdict"]), (Some(0), &json!("fine")), "{told:#}");
    // It leads, and is no pod: nobody knows where to ask it, and that is told.
    let (code, text, _) = explain(&stage, &["service", "default/web"]).await;
    assert_eq!(code, Some(0), "{text}");
    has_all(&text, &[" leads, but no running pod in kube-system", "give the URL of its health port with --address"]);
    // A user without rights learns what was tried, and that nothing is known.
    let rival = stage.cluster.kubeconfig_of(RIVAL).unwrap().display().to_string();
    let (code, text, _) = explain_with(&rival, &["service", "default/web"]).await;
    assert_eq!(code, Some(3), "{text}");
    has_all(&text, &["service default/web: not known: ", "cannot be read: ", "forbidden"]);
    cloud.settled(&stage).await;
    host.end().await;
}

#[tokio::test]
async fn nodes_whose_lookup_fails_and_deletions_that_are_held_say_why() {
    let stage = Stage::new().await;
    let client = stage.client();
    NodeFixture::new("n1").annotation(STATE, "error").register(client).await.unwrap();
    for name in ["gone1", "gone2", "gone3", "gone4"] {
        let lost = NodeFixture::new(name).initialized().not_ready().provider_id(&format!("cloudlycke://{name}"));
        lost.annotation(STATE, "deleted").register(client).await.unwrap();
    }
    NodeFixture::new("unmanaged").initialized().register(client).await.unwrap();
    let flags = [
        "--node-deletion-min-age=0",
        "--node-deletion-second-look=1s",
        "--node-deletion-percent=0",
        "--node-deletion-min-budget=0",
    ];
    let host = stage.cloudlycke(&flags);
    let at = address(&host);
    host.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |held| held >= 4.0).await.unwrap();
    host.await_log(LIMIT, &["node not initialised"]).await.unwrap();

    let (code, text, stderr) = explain(&stage, &["node", "n1", &at]).await;
    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{text}");
    has_all(
        &text,
        &["node n1: not as it should be: it is not initialised", "simulated cloud API failure", "next try   "],
    );
    let (code, told) = explained(&stage, &["node", "gone3", &at]).await;
    assert_eq!(
        (code, &told["summary"]),
        (Some(1), &json!("its machine is gone, and its deletion is held")),
        "{told:#}"
    );
    has_all(told["held"].as_str().unwrap(), &["no more than 0 of the 4 nodes of provider cloudlycke", "within 600 s"]);
    has_all(told["advice"][0].as_str().unwrap(), &["--confirm-node-deletions=gone3"]);

    // Who has no kubeconfig is told the same of a kubelet that asks for no manager.
    let (code, told) = explained(&stage, &["node", "unmanaged", &at]).await;
    has_all(told["summary"].as_str().unwrap(), &["its kubelet seems to run without --cloud-provider=external"]);
    let (administrator, none) = (stage.cluster.kubeconfig().display().to_string(), "/no/kubeconfig".to_owned());
    let (code_alone, text, _) = explain_with(&none, &["node", "unmanaged", &at, "--output=json"]).await;
    let alone: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, code_alone), (Some(1), Some(1)), "{text}");
    let advice = alone["advice"].to_string().replace(&none, &administrator);
    assert_eq!(
        (&alone["verdict"], &alone["summary"], advice),
        (&told["verdict"], &told["summary"], told["advice"].to_string())
    );
    host.end().await;
    let (code, text, _) = explain(&stage, &["node", "n1"]).await;
    assert_eq!(code, Some(1), "{text}");
    has_all(
        &text,
        &["it has the uninitialized taint", "simulated cloud API failure", "asked      no leader could be asked"],
    );
}

/// Nobody leads then, and what the host refuses was in no explanation.
#[tokio::test]
async fn a_first_component_that_is_refused_is_told_while_nobody_leads() {
    let stage = Stage::new().await;
    serve(stage.client(), "web", json!({})).await;
    let host = stage.cloudlycke(&["--leader-elect=true", "--cloud-provider=another"]);
    host.await_log(LIMIT, &["provider not taken"]).await.unwrap();
    let (code, told) = explained(&stage, &["service", "default/web", &address(&host)]).await;
    let refused = told["refused"][0].as_str().unwrap();
    has_all(refused, &["component of ", " at identity, none serves: "]);
    has_all(told["advice"][0].as_str().unwrap(), &["correct the component or configuration under `refused`"]);
    assert_eq!(code, Some(3), "{told:#}");
    host.end().await;
}

#[tokio::test]
async fn a_holder_that_died_and_an_api_server_that_is_away_are_told_with_the_way_out() {
    let stage = Stage::new().await;
    serve(stage.client(), "web", json!({})).await;
    let renewed = format!("{:.6}", jiff::Timestamp::now());
    let spec = json!({ "holderIdentity": "node-1_7", "leaseDurationSeconds": 1, "renewTime": renewed });
    let lease = json!({ "metadata": { "name": "cloud-controller-manager" }, "spec": spec });
    let leases = Api::<Lease>::namespaced(stage.client().clone(), "kube-system");
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let (_, told) = explained(&stage, &["service", "web"]).await;
    let tried = told["tried"][0].as_str().unwrap();
    has_all(tried, &["nobody leads: node-1_7 is in the Lease, and did not renew it in 1s"]);

    let text = std::fs::read_to_string(stage.kubeconfig()).unwrap();
    let away = stage.file("away", text.replace(&stage.cluster.url(), "https://127.0.0.1:1")).display().to_string();
    let (code, text, stderr) = explain_with(&away, &["service", "web"]).await;
    assert_eq!((code, stderr.as_str()), (Some(3), ""), "{text}");
    let place = format!("tried      the API server at https://127.0.0.1:1 (--kubeconfig {away}) does not answer: ");
    has_all(&text, &[&place, "to do      check the address in --kubeconfig or --master"]);
    assert_eq!(text.matches("tried ").count(), 1, "{text}");
}

/// A cloud that sends the token back in an error, which the component puts into its failure.
#[tokio::test]
async fn no_byte_of_a_secret_is_in_an_explanation() {
    const CANARY: &str = "canary-c0ffee-token";
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let flags = cloud.flags();
    let flags: Vec<&str> =
        flags.iter().map(String::as_str).chain(["--credential=token=env:CANARY", "--allow-env=CANARY"]).collect();
    let host = stage.scripted(&[("CANARY", CANARY)], &flags);
    host.refreshed().await;
    let script = json!([send("/machines/n1"), { "fail": "answer" }]).to_string();
    NodeFixture::new("n1").annotation(SCRIPT, &script).register(stage.client()).await.unwrap();
    host.await_log(LIMIT, &["node not initialised", "GET /machines/n1"]).await.unwrap();
    assert!(cloud.seen().iter().any(|request| request.contains(CANARY)), "the cloud was sent it");
    let (status, page) = host.page("/explain/v1/node/n1").await.unwrap();
    let (code, text, stderr) = explain(&stage, &["node", "n1", &address(&host)]).await;
    assert_eq!((status, code), (200, Some(1)), "{text}{stderr}");
    for told in [&page, &text] {
        has_all(told, &["GET /machines/n1", "Bearer (credential token)"]);
        assert!(!told.contains(CANARY), "{told}");
    }
    host.end().await;
}
