//! `wasm-ccm doctor`: every check, with what makes it fail on a real API server.

mod api_server;
mod component;
mod hosts;
pub(crate) mod leases;
mod network;
mod pains;
mod webhook;

use std::path::Path;
use std::process::Command;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{component, program, until};
use ccm_e2e::manifest;
use ccm_sim_digitalocean::TOKEN;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::bytes;
use crate::digitalocean::Cloud;
use crate::explain::address;
use crate::look::{await_untainted, nodes, patch};
use crate::mistakes::{ended, run};
use crate::service_look::{annotated, await_reason, await_served, serve};
use crate::stage::{LIMIT, RIVAL, Stage, cloudlycke};

/// What it said, line by line.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    findings: Vec<Value>,
}

impl Answer {
    /// Of a check.
    pub(crate) fn of(&self, check: &str) -> Vec<&Value> {
        self.findings.iter().filter(|finding| finding["check"] == check).collect()
    }

    /// The one finding with this judgement of a check, which has a fix; its object and text.
    pub(crate) fn one(&self, check: &str, judgement: &str) -> (Vec<String>, String) {
        let all = self.of(check).into_iter().filter(|finding| finding["judgement"] == judgement).collect::<Vec<_>>();
        let [finding] = all.as_slice() else { panic!("{check} {judgement}: {}", self.text) };
        assert!(judgement == "good" || finding["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{finding}");
        let objects = finding["objects"].as_array().into_iter().flatten();
        let objects = objects.map(|object| object.as_str().unwrap().to_owned()).collect();
        (objects, finding["found"].as_str().unwrap().to_owned())
    }

    pub(crate) fn are_all(&self, check: &str, judgement: &str) -> bool {
        let all = self.of(check);
        !all.is_empty() && all.iter().all(|finding| finding["judgement"] == judgement)
    }
}

/// Runs it with this kubeconfig.
pub(crate) fn doctor(kubeconfig: &Path, flags: &[&str]) -> Answer {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    asked(&[&[kubeconfig.as_str()], flags].concat())
}

fn asked(flags: &[&str]) -> Answer {
    asked_in(&[], flags)
}

/// The same with these variables, and no proxy of the machine.
fn asked_in(environment: &[(&str, &str)], flags: &[&str]) -> Answer {
    let mut command = Command::new(program().unwrap());
    command.args([&["doctor", "--output=json"], flags].concat());
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    let output = ended(command.envs(environment.iter().copied()));
    let (code, text) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let findings = report["findings"].as_array().unwrap().clone();
    let count = |judgement: &str| findings.iter().filter(|finding| finding["judgement"] == judgement).count();
    assert_eq!(
        (report["wrong"].as_u64(), report["unjudged"].as_u64()),
        (Some(count("wrong") as u64), Some(count("unjudged") as u64))
    );
    let wanted = match (count("wrong"), count("unjudged")) {
        (0, 0) => 0,
        (0, _) => 3,
        _ => 1,
    };
    assert_eq!(code, Some(wanted), "{text}");
    Answer { code, text, findings }
}

/// The component that needs no configuration, as a flag.
pub(crate) fn provider() -> String {
    format!("--provider={}", cloudlycke().display())
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test]
async fn a_healthy_cluster_is_good_for_an_administrator_and_in_the_pod() {
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&["--leader-elect=true"]);
    NodeFixture::new("n1").internal_ip("192.168.20.10").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n1").await;
    serve(stage.client(), "web", json!({})).await;
    await_served(stage.client(), "web").await;

    let flags = [provider(), "--waiting-after=0s".to_owned()];
    let flags = flags.each_ref().map(String::as_str);
    // The API server reads the last of the rules a moment later.
    let look = async || Ok(doctor(&stage.cluster.kubeconfig(), &flags).are_all("rights", "good"));
    until(LIMIT, look).await.unwrap();
    let answer = doctor(&stage.cluster.kubeconfig(), &flags);
    assert_eq!(answer.code, Some(0), "{}", answer.text);
    for check in ["api-server", "clock", "rights", "leases", "managers", "nodes", "providers", "services", "webhook"] {
        assert!(!answer.of(check).is_empty() && answer.are_all(check, "good"), "{check}: {}", answer.text);
    }

    // The host's own account may read less: what it cannot judge is said, and nothing is wrong.
    let answer = doctor(stage.kubeconfig(), &flags);
    assert_eq!(answer.code, Some(3), "{}", answer.text);
    assert!(answer.are_all("rights", "good"), "{}", answer.text);
    for check in ["leases", "hosts", "managers", "webhook"] {
        answer.one(check, "unjudged");
    }

    let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig().display());
    let (code, text, _) = run(&["doctor", &kubeconfig, flags[0]]);
    assert_eq!((code, text.lines().last()), (Some(0), Some("0 wrong, 0 could not be judged")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("ok       nodes       Nodes: 1;")), "{text}");
    host.end().await;
}

#[tokio::test]
async fn an_api_server_that_cannot_be_asked_is_wrong_and_the_provider_is_judged_all_the_same() {
    let provider = provider();
    for (flags, part) in [
        (["--kubeconfig=/nowhere/config", &provider], "/nowhere/config"),
        (["--master=http://127.0.0.1:1", &provider], "http://127.0.0.1:1 (--master) cannot be reached"),
    ] {
        let answer = asked(&flags);
        let (_, found) = answer.one("api-server", "wrong");
        assert!(found.contains(part), "{found}");
        assert!(answer.are_all("providers", "good") && !answer.of("providers").is_empty(), "{}", answer.text);
        for check in ["rights", "leases", "hosts", "managers", "nodes", "budget", "services", "webhook"] {
            answer.one(check, "unjudged");
        }
    }
    // A list, before it is merged: nobody needs a cluster for that.
    let folder = tempfile::tempdir().unwrap();
    let entry = json!({ "source": cloudlycke() });
    let another = json!({ "source": cloudlycke(), "name": "another", "component": "cloudlycke" });
    let list = |entries: &[&Value]| {
        let file = folder.path().join("providers.yaml");
        std::fs::write(&file, json!(entries).to_string()).unwrap();
        format!("--providers={}", file.display())
    };
    let answer = asked(&["--providers-only", "--master=http://127.0.0.1:1", &list(&[&entry])]);
    assert!(answer.are_all("providers", "good") && answer.code == Some(0), "{}", answer.text);
    assert!(answer.findings.iter().all(|finding| finding["check"] == "providers"), "{}", answer.text);
    let (_, found) = asked(&["--providers-only", &list(&[&entry, &another])]).one("providers", "wrong");
    assert!(found.contains("both take care of provider IDs that begin with cloudlycke://"), "{found}");
    // A component that only the API server leads to.
    let (objects, found) = asked(&["--master=http://127.0.0.1:1"]).one("providers", "unjudged");
    assert_eq!(objects, ["configmap:kube-system/wasm-ccm-provider"]);
    assert!(found.contains("the API server, which was not reached"), "{found}");
    let stage = Stage::bare(ccm_cluster::Settings::default()).await;
    let text = std::fs::read_to_string(stage.kubeconfig()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    config["users"][0]["user"]["token"] = json!("nobody's");
    let file = stage.file("expired", config.to_string());
    let (_, found) = doctor(&file, &[&provider]).one("api-server", "wrong");
    assert!(found.ends_with("refuses the credentials (401)"), "{found}");
}

#[tokio::test]
async fn a_missing_right_is_named_to_an_administrator_and_to_the_account_itself() {
    let stage = Stage::bare(ccm_cluster::Settings::default()).await;
    let provider = provider();
    // Every rule of the manifest was once listed.
    let (_, found) = doctor(&stage.cluster.kubeconfig(), &[&provider]).one("rights", "wrong");
    assert_eq!(found, "the ServiceAccount kube-system/wasm-ccm does not exist");
    let account = json!({ "metadata": { "name": "wasm-ccm" } });
    create(Api::<ServiceAccount>::namespaced(stage.client().clone(), "kube-system"), account).await;
    let (_, found) = doctor(&stage.cluster.kubeconfig(), &[&provider]).one("rights", "wrong");
    for right in ["patch, delete nodes; patch nodes/status", "create leases.coordination.k8s.io in kube-system"] {
        assert!(found.contains(right), "{right}: {found}");
    }

    let text = std::fs::read_to_string(manifest::folder().join("base/rbac.yaml")).unwrap();
    let mut objects = manifest::objects(&text).unwrap();
    let role = objects.iter_mut().find(|object| object.types.as_ref().unwrap().kind == "ClusterRole").unwrap();
    role.data["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["nodes/status"]));
    manifest::apply_all(stage.client(), &objects).await.unwrap();
    let wanted = format!("{} may not: patch nodes/status", stage.user());
    let mut told = String::new();
    let look = async || {
        told = doctor(&stage.cluster.kubeconfig(), &[&provider]).one("rights", "wrong").1;
        Ok(told == wanted)
    };
    until(LIMIT, look).await.unwrap_or_else(|error| panic!("{error:#}: {told}"));
    assert_eq!(doctor(stage.kubeconfig(), &[&provider]).one("rights", "wrong").1, wanted);

    // A binding that leads nowhere is named with it.
    let (api, name) = ("rbac.authorization.k8s.io", stage.user());
    let dangling = json!({
        "metadata": { "name": "dangling" }, "roleRef": { "apiGroup": api, "kind": "ClusterRole", "name": "removed" },
        "subjects": [{ "apiGroup": api, "kind": "User", "name": name }],
    });
    create(Api::<ClusterRoleBinding>::all(stage.client().clone()), dangling).await;
    let named = async || {
        told = doctor(&stage.cluster.kubeconfig(), &[&provider]).one("rights", "wrong").1;
        Ok(told.starts_with(&wanted)
            && told.contains("(the API server adds: ")
            && told.contains("\"removed\" not found"))
    };
    until(LIMIT, named).await.unwrap_or_else(|error| panic!("{error:#}: {told}"));

    // Nobody's answer is taken for the account's.
    let rival = stage.cluster.kubeconfig_of(RIVAL).unwrap();
    let (_, found) = doctor(rival, &[&provider]).one("rights", "unjudged");
    assert!(found.ends_with(&format!("{RIVAL} may not ask about {}", stage.user())), "{found}");
    let (_, found) = doctor(rival, &[&provider, "--rights-of=self"]).one("rights", "wrong");
    assert!(found.starts_with(&format!("{RIVAL} may not: get, list, watch, patch, delete nodes;")), "{found}");
}

#[tokio::test]
async fn nodes_that_wait_and_nodes_that_nobody_can_serve_are_named() {
    let stage = Stage::new().await;
    let known = |name: &str, id: &str| NodeFixture::new(name).initialized().provider_id(id);
    let fixtures = [
        NodeFixture::new("waits"),
        NodeFixture::new("in-tree").initialized(),
        known("foreign", "elsewhere://1"),
        known("twin-a", "cloudlycke://1"),
        known("twin-b", "cloudlycke://1"),
        known("good", "cloudlycke://2"),
    ];
    for fixture in fixtures {
        fixture.register(stage.client()).await.unwrap();
    }
    let flags = [provider(), "--waiting-after=0s".to_owned()];
    let look = || doctor(&stage.cluster.kubeconfig(), &flags.each_ref().map(String::as_str));
    // Times of the API server are whole seconds.
    let mut answer = look();
    let waits = async || {
        answer = look();
        Ok(answer.of("nodes").len() == 4)
    };
    until(LIMIT, waits).await.unwrap();
    for (objects, judgement, part) in [
        (&["Node waits"][..], "wrong", "has waited for its initialisation for "),
        (&["Node in-tree"], "wrong", "seems to run without --cloud-provider=external"),
        (&["Node foreign"], "note", "elsewhere://1, that no provider serves: theirs begin with cloudlycke://"),
        (&["Node twin-a", "Node twin-b"], "wrong", "have one provider ID, cloudlycke://1"),
    ] {
        let is_it = |finding: &&Value| finding["objects"] == json!(objects) && finding["judgement"] == judgement;
        let nodes = answer.of("nodes");
        let finding =
            nodes.iter().find(|finding| is_it(finding)).unwrap_or_else(|| panic!("{objects:?}: {}", answer.text));
        assert!(finding["found"].as_str().unwrap().contains(part), "{finding}");
    }
    assert_eq!(nodes(stage.client()).get("waits").await.unwrap().spec.unwrap().provider_id, None, "it wrote something");
}

/// The commands that it prints are for a shell.
#[tokio::test]
async fn the_command_that_gives_missing_rights_works_as_it_is_pasted() {
    let stage = Stage::new().await;
    let credential = "--credential=access-token=secret:cloud/digitalocean/access-token";
    let component = format!("--provider={}", component("providers/digitalocean.wasm").unwrap().display());
    let flags = [
        component.as_str(),
        credential,
        "--leader-elect-resource-name=second",
        "--leader-elect-resource-namespace=cloud",
    ];
    let namespace = json!({ "metadata": { "name": "cloud" } });
    create(Api::<Namespace>::all(stage.client().clone()), namespace).await;
    let answer = doctor(&stage.cluster.kubeconfig(), &flags);
    let (_, found) = answer.one("rights", "wrong");
    for right in [
        "get, update leases.coordination.k8s.io second in cloud",
        "watch secrets digitalocean in cloud",
        "patch configmaps wasm-ccm-components in cloud",
    ] {
        assert!(found.contains(right), "{right}: {found}");
    }
    assert!(!found.contains("nodes"), "{found}");
    let fix = answer.of("rights")[0]["fix"].as_str().unwrap();
    let command = fix.split('`').nth(1).unwrap();
    // As kubectl gets it.
    let folder = stage.folder().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let kubectl = folder.join("kubectl");
    std::fs::write(&kubectl, "#!/bin/sh\necho \"$*\" > \"$0.words\"\ncat > \"$(dirname \"$0\")/got\"\n").unwrap();
    std::fs::set_permissions(&kubectl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let pasted = ended(Command::new("sh").args(["-c", command]).env("PATH", path));
    assert!(pasted.status.success(), "{pasted:?}");
    let words = std::fs::read_to_string(folder.join("kubectl.words")).unwrap();
    let kubeconfig = stage.cluster.kubeconfig();
    assert_eq!(words.trim_end(), format!("--kubeconfig={} apply --server-side -f -", kubeconfig.display()));
    let got: Value = serde_json::from_slice(&std::fs::read(folder.join("got")).unwrap()).unwrap();
    let objects: Vec<DynamicObject> = serde_json::from_value(got["items"].clone()).unwrap();
    manifest::apply_all(stage.client(), &objects).await.unwrap();
    // The API server reads the rules a moment later.
    let given = async || Ok(doctor(&stage.cluster.kubeconfig(), &flags).are_all("rights", "good"));
    until(LIMIT, given).await.unwrap();
}

#[tokio::test]
async fn two_doctors_at_once_say_the_same_and_change_nothing() {
    let stage = Stage::new().await;
    NodeFixture::new("waits").register(stage.client()).await.unwrap();
    serve(stage.client(), "web", json!({})).await;
    let versions = async || {
        let node = nodes(stage.client()).get("waits").await.unwrap().metadata.resource_version;
        let service = Api::<Service>::namespaced(stage.client().clone(), "default").get("web").await.unwrap();
        (node, service.metadata.resource_version)
    };
    let before = versions().await;
    let provider = provider();
    let kubeconfig = stage.cluster.kubeconfig();
    let both = std::thread::scope(|scope| {
        let look = || doctor(&kubeconfig, &[&provider, "--waiting-after=1h"]);
        [scope.spawn(look), scope.spawn(look)].map(|one| one.join().unwrap())
    });
    let [first, second] = both;
    assert_eq!(first.findings, second.findings);
    assert!(first.of("leases")[0]["found"].as_str().unwrap().starts_with("there is no Lease"), "{}", first.text);
    assert_eq!(versions().await, before);
}

#[tokio::test]
async fn the_component_in_the_config_map_of_the_overlays_is_judged_without_a_flag() {
    let stage = Stage::new().await;
    let look = |flags: &[&str]| doctor(&stage.cluster.kubeconfig(), flags);
    let (_, found) = look(&[]).one("providers", "unjudged");
    assert!(found.contains("configmap:kube-system/wasm-ccm-provider") && found.contains("does not exist"), "{found}");
    let named = ["--provider=configmap:kube-system/wasm-ccm-provider"];
    look(&named).one("providers", "wrong");

    let put = async |bytes: Vec<u8>| {
        let keys = [("cloud.wasm.gz".to_owned(), bytes)];
        manifest::put_config_map(stage.client(), "kube-system", "wasm-ccm-provider", keys).await.unwrap();
    };
    put(vec![0x1f, 0x8b, 1]).await;
    let (_, found) = look(&[]).one("providers", "wrong");
    assert!(found.contains("does not pass the gate (step container)"), "{found}");
    put(bytes::gzip(&bytes::cloudlycke())).await;
    let answer = look(&[]);
    assert!(answer.are_all("providers", "good"), "{}", answer.text);
    let (_, found) = look(&["--provider-digest", &format!("sha256:{}", "0".repeat(64))]).one("providers", "wrong");
    assert!(found.contains("(step trust)"), "{found}");
}

// The cloud answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn credentials_that_are_missing_or_refused_and_a_cloud_that_cannot_be_reached_are_told() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let component = component("providers/digitalocean.wasm").unwrap();
    let provider = format!("--provider={}", component.display());
    let own = [provider.as_str(), "--cloud-provider=digitalocean", "--allow-http", "--allow-loopback"];
    let look = |flags: &[&str]| doctor(&stage.cluster.kubeconfig(), &[&own[..], flags].concat());
    let (objects, found) = look(&[]).one("providers", "unjudged");
    assert_eq!(objects, ["Provider digitalocean"]);
    assert!(found.contains("configuration and credentials"), "{found}");

    let endpoint = format!("--endpoint=api={}", cloud.url());
    let secret = "--credential=access-token=secret:kube-system/digitalocean/access-token";
    let (_, found) = look(&[&endpoint, secret]).one("providers", "wrong");
    assert!(found.contains("the Secret does not exist"), "{found}");
    let object = json!({ "metadata": { "name": "digitalocean" }, "stringData": { "access-token": TOKEN } });
    create(Api::<Secret>::namespaced(stage.client().clone(), "kube-system"), object).await;
    // What an administrator may read, the host may not.
    let (_, found) = look(&[&endpoint, secret]).one("rights", "wrong");
    assert!(found.ends_with("may not: get, list, watch secrets digitalocean in kube-system"), "{found}");
    let answer = look(&[&endpoint, secret, "--online"]);
    assert!(answer.are_all("providers", "good"), "{}", answer.text);
    assert!(!answer.text.contains(TOKEN));

    let refused = stage.file("refused", "dop_v1_nobody_knows_this_one");
    let refused = format!("--credential=access-token=file:{}", refused.display());
    let (_, found) = look(&[&endpoint, &refused, "--online"]).one("providers", "wrong");
    assert!(found.contains("(step check)") && found.contains("Unable to authenticate you"), "{found}");
    cloud.unsettled("no host runs here");
}

#[tokio::test]
async fn services_that_wait_are_told_with_their_condition_and_finalizers_without_a_host() {
    let stage = Stage::new().await;
    NodeFixture::new("n1").internal_ip("192.168.20.10").register(stage.client()).await.unwrap();
    let host = stage.cloudlycke(&["--leader-elect=true"]);
    await_untainted(stage.client(), "n1").await;
    serve(stage.client(), "good", json!({})).await;
    await_served(stage.client(), "good").await;
    serve(stage.client(), "bad", annotated([("cloudlycke.io/lb-mode", "bogus")])).await;
    let message = await_reason(stage.client(), "bad", "InvalidService").await;
    let place = address(&host);
    let answer = doctor(&stage.cluster.kubeconfig(), &[&provider(), &place]);
    let (objects, found) = answer.one("services", "wrong");
    assert_eq!(objects, ["Service default/bad"]);
    assert_eq!(found, format!("waits (InvalidService): {message}"));
    // The command that is printed needs nothing else: it once found no API server.
    let fix = answer.of("services")[0]["fix"].as_str().unwrap();
    let program = program().unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let pasted = ended(Command::new("sh").args(["-c", fix.split('`').nth(1).unwrap()]).env("PATH", path));
    let told = String::from_utf8(pasted.stdout).unwrap();
    let asked = format!("asked      the host at {}", place.strip_prefix("--address=").unwrap());
    assert!(pasted.status.code() == Some(1) && told.contains(&message) && told.contains(&asked), "{fix}: {told}");

    let excluded =
        json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": "" } } });
    patch(stage.client(), "n1", &excluded).await;
    let nobody = async || {
        let answer = doctor(&stage.cluster.kubeconfig(), &[&provider()]);
        let found = |finding: &&Value| {
            finding["found"].as_str().unwrap().starts_with("no Node is behind the load balancers of 2")
        };
        Ok(answer.of("services").iter().any(found))
    };
    until(LIMIT, nobody).await.unwrap();

    // It gives its Lease back.
    host.end().await;
    let answer = doctor(&stage.cluster.kubeconfig(), &[&provider()]);
    let (_, found) = answer.one("leases", "wrong");
    assert!(found.starts_with("nobody holds Lease kube-system/cloud-controller-manager"), "{found}");
    let services = answer.of("services");
    let kept =
        services.iter().find(|finding| finding["found"].as_str().unwrap().contains("no host is seen to lead")).unwrap();
    assert!(kept["objects"].as_array().unwrap().contains(&json!("Service default/good")), "{kept}");
}
