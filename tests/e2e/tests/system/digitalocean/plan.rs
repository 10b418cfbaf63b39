//! `wasm-ccm plan`: what a host would write, which is nothing that the command writes itself.

use std::path::Path;
use std::process::Stdio;

use ccm_cluster::{NodeFixture, Write, await_absent};
use ccm_e2e::host::{component, program, until};
use ccm_e2e::planned::Planned;
use ccm_sim_digitalocean::{Act, Droplet, DropletStatus, Endpoint, Fault, Requests, TOKEN, When};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{Cloud, await_balanced, configured, initialised, is_served, members, provider_id, start};
use crate::look::{await_untainted, get, nodes};
use crate::service_look::{FINALIZER, annotated, await_service, change, delete, serve, services, the};
use crate::stage::{LIMIT, RIVAL, Stage};

const SIZE: &str = "service.beta.kubernetes.io/do-loadbalancer-size-unit";

/// Runs it with the flags of a host.
async fn asked(
    kubeconfig: &Path,
    cloud: &Cloud,
    environment: &[(&str, &str)],
    flags: &[&str],
    words: &[&str],
) -> Planned {
    let url = cloud.url();
    let (environment, flags) =
        configured(cloud, &component("providers/digitalocean.wasm").unwrap(), &url, environment, flags);
    let mut command = Command::new(program().unwrap());
    command.arg("plan").args(words).arg("--kubeconfig").arg(kubeconfig).args(flags).envs(environment);
    Planned::of(&mut command, LIMIT).await
}

/// For all, as the host's own account.
pub(super) async fn all(stage: &Stage, cloud: &Cloud, environment: &[(&str, &str)], flags: &[&str]) -> Planned {
    asked(stage.kubeconfig(), cloud, environment, flags, &["--all", "--output=json"]).await
}

/// The versions of all Nodes and Services.
async fn versions(client: &kube::Client) -> Vec<(String, Option<String>)> {
    let nodes = nodes(client).list(&Default::default()).await.unwrap();
    let services = services(client).list(&Default::default()).await.unwrap();
    let nodes = nodes.iter().map(|node| (node.name_any(), node.resource_version()));
    nodes.chain(services.iter().map(|service| (service.name_any(), service.resource_version()))).collect()
}

/// Patches and deletions of one object, by one user.
fn written(stage: &Stage, user: &str, name: &str) -> Vec<String> {
    let is_meant = |write: &Write| write.user == user && write.name == name && write.resource != "events";
    let writes = stage.cluster.writes().unwrap().into_iter().filter(is_meant);
    writes.map(|write| format!("{} {}", write.verb, write.resource)).collect()
}

/// That these are the first of them. What a write did may be seen before it is answered, and the audit log has it after that.
async fn await_written(stage: &Stage, name: &str, wanted: &[&str]) {
    let has_all = async || Ok(written(stage, stage.user(), name).len() >= wanted.len());
    until(LIMIT, has_all).await.unwrap();
    assert_eq!(written(stage, stage.user(), name)[..wanted.len()], *wanted, "{name}");
}

#[tokio::test]
async fn a_plan_shows_what_run_then_does_for_a_service_and_changes_nothing() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[101, 102]).await;
    serve(client, "web", json!({})).await;
    let before = versions(client).await;
    // Nothing but reading is allowed, in the cluster and in the cloud.
    let reader = stage.reader().await;
    cloud.allow_reads("dop_v1_may_only_read");
    let environment = [("DO_ACCESS_TOKEN", "dop_v1_may_only_read")];
    let planned = asked(reader, &cloud, &environment, &[], &["service", "default/web", "-ojson"]).await;
    assert_eq!((planned.code, planned.error.as_str()), (Some(2), ""), "{planned:?}");
    let path = "/api/v1/namespaces/default/services/web/status";
    let wanted = [format!("cluster PATCH {path}"), "cloud POST /v2/load_balancers".to_owned()];
    assert_eq!(planned.writes("Service default/web"), wanted);
    let object = planned.object("Service default/web");
    assert_eq!(object["decision"], "ensure the load balancer with digitalocean: nothing is recorded of it");
    assert_eq!(object["writes"][0]["body"]["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!((&object["moreMayFollow"], object.get("unknown")), (&json!(true), None));

    let told = asked(stage.kubeconfig(), &cloud, &[], &[], &["--all"]).await;
    let last = "writes to clouds: at least 1, to the cluster: at least 1, notes of the host to itself: 0; not known: 0; objects looked at: 4. Nothing was written.";
    assert_eq!((told.code, told.text.trim_end().lines().last()), (Some(2), Some(last)), "{told:?}");
    for line in [
        "Service default/web",
        "  2. cloud   POST digitalocean/api /v2/load_balancers {",
        "  more writes may follow: what follows depends on the answer of the cloud",
    ] {
        assert!(told.text.lines().any(|one| one.starts_with(line)), "{line}: {told:?}");
    }
    for secret in [TOKEN, "dop_v1_may_only_read"] {
        assert!(!told.text.contains(secret) && !planned.text.contains(secret), "{planned:?}");
    }
    assert_eq!((cloud.counters().writes, versions(client).await), (0, before));
    for user in [RIVAL, stage.user()] {
        assert!(stage.cluster.writes().unwrap().iter().all(|write| write.user != user), "{user}");
    }

    let host = start(&stage, &cloud, &[], &[]);
    await_balanced(client, &cloud, "web").await;
    let done = cloud.exchanges().into_iter().filter(|exchange| exchange.had_effect).collect::<Vec<_>>();
    let did: Vec<String> = done.iter().map(|one| format!("cloud {} {}", one.method, one.uri)).collect();
    assert_eq!(did, wanted[1..], "the plan names all writes to the cloud");
    assert_eq!(serde_json::from_str::<Value>(&done[0].request).unwrap(), object["writes"][1]["body"]);
    await_written(&stage, "web", &["patch services/status"]).await;
    cloud.settled(&stage).await;
    host.end().await;
    assert_eq!(cloud.counters().writes, 1);
    cloud.check().unwrap();
}

/// The pod is granted the name of a firewall, and writes it. A plan without that grant was empty, and said that all is well.
#[tokio::test]
async fn a_plan_without_a_variable_that_is_set_and_not_granted_is_no_proof() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    let asked = async |granted: &[(&str, &str)], set: &[(&str, &str)]| {
        let url = cloud.url();
        let (environment, flags) =
            configured(&cloud, &component("providers/digitalocean.wasm").unwrap(), &url, granted, &[]);
        let mut command = Command::new(program().unwrap());
        command.args(["plan", "--all"]).arg("--kubeconfig").arg(stage.kubeconfig()).args(flags).envs(environment);
        Planned::of(command.envs(set.iter().copied()), LIMIT).await
    };
    let firewall = [("PUBLIC_ACCESS_FIREWALL_NAME", "k8s-access"), ("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s")];
    assert_eq!(asked(&[], &[]).await.code, Some(0));
    let unjudged = asked(&[], &firewall).await;
    assert_eq!(unjudged.code, Some(3), "{unjudged:?}");
    let warning = "warning: digitalocean: set here, and not granted to the provider, which does not see it: ";
    let grants = "--allow-env=PUBLIC_ACCESS_FIREWALL_NAME,PUBLIC_ACCESS_FIREWALL_TAGS grants it";
    let tells = |line: &str| line.starts_with(warning) && line.contains(grants);
    assert!(unjudged.text.lines().any(tells), "{unjudged:?}");
    let planned = asked(&firewall, &[]).await;
    assert!(planned.code == Some(2) && planned.text.contains("/v2/firewalls"), "{planned:?}");
    assert_eq!(cloud.counters().writes, 0);
    cloud.unsettled("nobody writes");
}

#[tokio::test]
async fn a_plan_for_nodes_shows_what_run_then_writes() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    cloud.put_droplet(Droplet::new(201, "new"));
    cloud.put_droplet(Droplet::new(203, "other"));
    NodeFixture::new("new").register(client).await.unwrap();
    // So many more that one may be deleted.
    members(client, &cloud, &[204, 205, 206]).await;
    initialised(202, "gone").not_ready().register(client).await.unwrap();
    NodeFixture::new("foreign").initialized().provider_id("elsewhere://7").register(client).await.unwrap();
    NodeFixture::new("unknown").register(client).await.unwrap();
    // Two controllers write it.
    cloud.put_droplet(Droplet { status: DropletStatus::Off, ..Droplet::new(207, "off") });
    let off = NodeFixture::new("off").initialized().not_ready().provider_id(&provider_id(207));
    off.address("InternalIP", "10.9.9.9").register(client).await.unwrap();
    let before = versions(client).await;
    let flags = ["--node-deletion-min-age=0", "--node-deletion-second-look=1s"];
    let planned = all(&stage, &cloud, &[], &flags).await;
    assert_eq!((planned.code, planned.error.as_str()), (Some(2), ""), "{planned:?}");
    let wanted = ["cluster PATCH /api/v1/nodes/new/status", "cluster PATCH /api/v1/nodes/new"];
    assert_eq!(planned.writes("Node new"), wanted);
    let patch = planned.object("Node new")["writes"][1]["body"].clone();
    assert_eq!((&patch["spec"]["providerID"], &patch["spec"]["taints"]), (&json!(provider_id(201)), &Value::Null));
    assert_eq!(planned.writes("Node gone"), ["cluster DELETE /api/v1/nodes/gone"]);
    assert_eq!(planned.object("Node gone")["decision"], "the cloud said twice that its machine does not exist");
    // Where it has to be older than a busy machine takes to come here, it is too young for that.
    let young = all(&stage, &cloud, &[], &["--node-deletion-min-age=1h"]).await.object("Node gone");
    assert!(young["unknown"].as_str().is_some_and(|why| why.contains("younger than")), "{young}");
    assert_eq!(young["writes"], json!([]));
    let names: Vec<String> = planned.objects().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Node gone", "Node new", "Node off", "Node unknown"], "{planned:?}");
    let wanted = ["cluster PATCH /api/v1/nodes/off/status", "cluster PATCH /api/v1/nodes/off"];
    assert_eq!(planned.writes("Node off"), wanted, "{planned:?}");
    let taints = planned.object("Node off")["writes"][1]["body"]["spec"]["taints"].clone();
    assert_eq!(taints[0]["key"], "node.cloudprovider.kubernetes.io/shutdown", "{planned:?}");
    let unknown = planned.object("Node unknown");
    assert!(unknown["unknown"].as_str().is_some_and(|why| why.contains("unknown")), "{planned:?}");
    let one = asked(stage.kubeconfig(), &cloud, &[], &flags, &["node", "foreign", "-ojson"]).await;
    assert_eq!((one.code, one.writes("Node foreign")), (Some(0), vec![]), "{one:?}");
    assert_eq!((cloud.counters().writes, versions(client).await), (0, before));
    assert_eq!(written(&stage, stage.user(), "new"), [""; 0]);

    let host = start(&stage, &cloud, &[], &flags);
    let node = await_untainted(client, "new").await;
    await_absent(&nodes(client), "gone", LIMIT).await.unwrap();
    await_written(&stage, "new", &["patch nodes/status", "patch nodes"]).await;
    await_written(&stage, "gone", &["delete nodes"]).await;
    for (label, value) in patch["metadata"]["labels"].as_object().unwrap() {
        assert_eq!(node.labels().get(label).map(String::as_str), value.as_str(), "{label}");
    }
    nodes(client).delete("unknown", &Default::default()).await.unwrap();
    host.refreshed().await;
    cloud.settled(&stage).await;
    host.end().await;
    assert_eq!([written(&stage, stage.user(), "new").len(), written(&stage, stage.user(), "gone").len()], [2, 1]);
    cloud.check().unwrap();
}

/// `plan --all | head` went on to ask the cloud, for nobody.
#[tokio::test]
async fn a_plan_that_nobody_reads_any_more_ends_quietly_and_asks_nothing_more() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    cloud.put_droplet(Droplet::new(201, "new"));
    NodeFixture::new("new").register(stage.client()).await.unwrap();
    serve(stage.client(), "web", json!({})).await;
    let url = cloud.url();
    let file = component("providers/digitalocean.wasm").unwrap();
    let (environment, flags) = configured(&cloud, &file, &url, &[], &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(program().unwrap());
    command.args(["plan", "--all", "--kubeconfig"]).arg(stage.kubeconfig()).args(flags).envs(environment);
    let command = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = command.spawn().unwrap().wait_with_output();
    let output = tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
    // Nothing was found so far.
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(3), ""));
    let asked: Vec<String> = cloud.exchanges().into_iter().map(|exchange| exchange.uri).collect();
    assert!(!asked.iter().any(|uri| uri.starts_with("/v2/load_balancers")), "{asked:?}");
    cloud.unsettled("no host runs: nothing is ever written");
}

/// It was noticed only with the next object, which may never come: `plan` went on to the end of the cluster.
#[tokio::test]
async fn a_plan_ends_when_its_reader_goes_and_not_with_the_next_object() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    cloud.put_droplet(Droplet::new(201, "new"));
    NodeFixture::new("new").register(stage.client()).await.unwrap();
    serve(stage.client(), "web", json!({})).await;
    let list = Requests::Of(Endpoint::Balancers);
    let mut held = cloud.plan(Fault { times: usize::MAX, ..Fault::new(list, 1, When::Before, Act::Hold) });
    let url = cloud.url();
    let file = component("providers/digitalocean.wasm").unwrap();
    let (environment, flags) = configured(&cloud, &file, &url, &[], &[]);
    let mut command = Command::new(program().unwrap());
    command.args(["plan", "--all", "--kubeconfig"]).arg(stage.kubeconfig()).args(flags).envs(environment);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut running = command.spawn().unwrap();
    // Nodes come first, and Services wait for the cloud.
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(first.as_deref(), Some("Node new"));
    held.reached(LIMIT).await.unwrap();
    drop(lines);
    let output = tokio::time::timeout(LIMIT, running.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(2), ""));
    assert_eq!(held.struck(), 1, "it asked again");
    cloud.forget_faults();
    cloud.unsettled("no host runs: nothing is ever written");
}

#[tokio::test]
async fn a_plan_for_a_change_and_for_a_deletion_names_the_request_that_run_then_sends() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[301]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    host.end().await;
    cloud.settled(&stage).await;
    let web = "Service default/web";
    let one = async || asked(stage.kubeconfig(), &cloud, &[], &[], &["service", "default/web", "-ojson"]).await;

    // Not in the first hour.
    cloud.advance(std::time::Duration::from_secs(3_600));
    change(client, "web", &annotated([(SIZE, "3")])).await;
    let before = (cloud.counters().writes, versions(client).await);
    let planned = one().await;
    let request = format!("cloud PUT /v2/load_balancers/{}", balancer.id);
    assert_eq!((planned.code, planned.writes(web).last()), (Some(2), Some(&request)), "{planned:?}");
    let body = planned.object(web)["writes"].as_array().unwrap().last().unwrap()["body"].clone();
    assert_eq!((&body["size_unit"], (cloud.counters().writes, versions(client).await)), (&json!(3), before));
    let host = start(&stage, &cloud, &[], &[]);
    cloud.until(LIMIT, |cloud| cloud.balancers()[0].spec.size_unit == 3).await.unwrap();
    await_balanced(client, &cloud, "web").await;
    host.end().await;
    let done = cloud.exchanges().into_iter().rfind(|exchange| exchange.had_effect).unwrap();
    assert_eq!(format!("cloud {} {}", done.method, done.uri), request);
    assert_eq!(serde_json::from_str::<Value>(&done.request).unwrap(), body);

    // What somebody changed behind the host's back.
    assert!(cloud.tamper(&balancer.id, |spec| spec.droplet_ids.clear()));
    let planned = one().await;
    assert_eq!((planned.code, planned.writes(web).last()), (Some(2), Some(&request)), "{planned:?}");
    let decision = planned.object(web)["decision"].to_string();
    assert!(decision.contains("the cloud differs from the Service"), "{decision}");

    delete(client, "web").await;
    let planned = one().await;
    let wanted = [format!("cloud DELETE /v2/load_balancers/{}", balancer.id)];
    assert_eq!((planned.code, planned.writes(web)), (Some(2), wanted.to_vec()), "{planned:?}");
    assert_eq!((cloud.balancers().len(), the(client, "web").await.finalizers()), (1, &[FINALIZER.to_owned()][..]));
    let host = start(&stage, &cloud, &[], &[]);
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    host.end().await;
    cloud.settled(&stage).await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn what_is_nobodys_or_is_not_there_or_cannot_be_read_is_said() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[401]).await;
    serve(client, "theirs", json!({ "spec": { "loadBalancerClass": "example.com/theirs" } })).await;
    serve(client, "inside", json!({ "spec": { "type": "ClusterIP" } })).await;
    let one = async |words: &[&str]| {
        let words = [words, &["-ojson"]].concat();
        asked(stage.kubeconfig(), &cloud, &[], &[], &words).await
    };
    for (name, why) in [("theirs", "no provider here serves it"), ("inside", "not of the type LoadBalancer")] {
        let planned = one(&["service", &format!("default/{name}")]).await;
        let object = planned.object(&format!("Service default/{name}"));
        assert_eq!((planned.code, &object["writes"]), (Some(0), &json!([])), "{planned:?}");
        assert!(object["decision"].as_str().is_some_and(|told| told.contains(why)), "{planned:?}");
    }
    let kubectl = format!("kubectl --kubeconfig={}", stage.kubeconfig().display());
    for (words, object, list) in [
        (&["service", "default/nowhere"][..], "Service default/nowhere", "get services -A"),
        (&["svc/nowhere"], "Service default/nowhere", "get services -A"),
        (&["no/nowhere"], "Node nowhere", "get nodes"),
    ] {
        let planned = one(words).await;
        let wanted = format!("error: there is no {object}; `{kubectl} {list}` lists all\n");
        assert_eq!((planned.code, planned.error), (Some(1), wanted));
    }

    // Who does not run a controller plans nothing for it.
    serve(client, "web", json!({})).await;
    let nodes_alone = ["--controllers=cloud-node"];
    let alone = asked(stage.kubeconfig(), &cloud, &[], &nodes_alone, &["service", "default/web"]).await;
    assert_eq!((alone.code, alone.error.contains("leaves out the service controller")), (Some(1), true), "{alone:?}");
    let planned = all(&stage, &cloud, &[], &nodes_alone).await;
    assert_eq!((planned.code, planned.objects()), (Some(0), vec![]), "{planned:?}");

    let host = start(&stage, &cloud, &[], &[]);
    await_service(client, "web", is_served).await;
    host.end().await;
    cloud.settled(&stage).await;
    // A cloud that answers nothing about load balancers: nobody knows whether they are as they should be.
    for endpoint in [Endpoint::Balancer, Endpoint::Balancers] {
        let fault = Fault::new(Requests::Of(endpoint), 1, When::Before, Act::Status(500));
        drop(cloud.plan(Fault { times: 1_000, ..fault }));
    }
    let planned = one(&["service", "default/web"]).await;
    let object = planned.object("Service default/web");
    assert_eq!((planned.code, &object["writes"]), (Some(3), &json!([])), "{planned:?}");
    assert!(object["unknown"].as_str().is_some_and(|why| why.contains("500")), "{planned:?}");
    cloud.forget_faults();
    // A token that may look at machines and at nothing else.
    cloud.allow_scopes("dop_v1_machines", &["droplet:read", "regions:read"]);
    let environment = [("DO_ACCESS_TOKEN", "dop_v1_machines")];
    let planned = asked(stage.kubeconfig(), &cloud, &environment, &[], &["--all", "-ojson"]).await;
    let object = planned.object("Service default/web");
    assert_eq!((planned.code, &object["writes"]), (Some(3), &json!([])), "{planned:?}");
    assert!(object["unknown"].as_str().is_some_and(|why| why.contains("403")), "{planned:?}");
    assert!(cloud.revoke(TOKEN));
    let planned = one(&["--all"]).await;
    assert_eq!((planned.code, planned.text.as_str()), (Some(1), ""), "{planned:?}");
    assert!(planned.error.contains("does not pass the gate (step check)"), "{planned:?}");
    assert!(
        planned.error.contains("; `wasm-ccm check /") && planned.error.contains("digitalocean.wasm --online`"),
        "{planned:?}"
    );
    cloud.check().unwrap();
    cloud.unsettled("its token is revoked: a plan ends at the gate");
}

#[tokio::test]
async fn a_plan_while_the_leader_writes_writes_nothing_itself() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[501, 502]).await;
    let reader = stage.reader().await;
    let host = start(&stage, &cloud, &[], &[]);
    host.ready().await;
    let names: Vec<String> = (0..12).map(|number| format!("web-{number}")).collect();
    let make = async {
        for name in &names {
            serve(client, name, json!({})).await;
            change(client, name, &annotated([("example.com/touched", "1")])).await;
        }
    };
    let look = async {
        let mut codes = vec![];
        for _ in 0..3 {
            let planned = asked(reader, &cloud, &[], &[], &["--all", "-ojson"]).await;
            assert!(matches!(planned.code, Some(0 | 2 | 3)), "{planned:?}");
            assert_eq!(planned.error, "");
            codes.push(planned.code);
        }
        codes
    };
    let ((), codes) = tokio::join!(make, look);
    assert_eq!(codes.len(), 3);
    for name in &names {
        await_balanced(client, &cloud, name).await;
    }
    assert_eq!((cloud.done(Endpoint::CreateBalancer), cloud.done(Endpoint::DeleteBalancer)), (names.len(), 0));
    assert!(stage.cluster.writes().unwrap().iter().all(|write| write.user != RIVAL));
    cloud.settled(&stage).await;
    assert_eq!(get(client, "n501").await.name_any(), "n501");
    host.end().await;
    cloud.check().unwrap();
}
