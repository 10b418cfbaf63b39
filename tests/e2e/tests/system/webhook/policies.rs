//! The policies of `wasm-ccm annotations --output=cel`, beside the webhook: both judge the same Services on a real API server. Where they differ,
//! the guide has a row that says so.

mod openstack;

use ccm_e2e::host::{component, until};
use ccm_e2e::manifest;
use ccm_sim_digitalocean::TOKEN;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::digitalocean::start;
use super::{Authority, DENIED, MODE, WRONG, Webhook, said, service, strs};
use crate::digitalocean::Cloud;
use crate::mistakes::run;
use crate::service_look::{annotated, merge, services};
use crate::stage::{LIMIT, Stage};

/// What becomes of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Denied,
    Warned,
    Silent,
}
use Verdict::{Denied, Silent, Warned};

/// A Service with these annotations, and what both say.
struct Case {
    annotations: &'static [(&'static str, &'static str)],
    webhook: Verdict,
    policies: Verdict,
    /// Why they differ: how the row of the guide begins.
    row: &'static str,
}

const fn same(annotations: &'static [(&'static str, &'static str)], both: Verdict) -> Case {
    Case { annotations, webhook: both, policies: both, row: "" }
}

const fn differ(
    annotations: &'static [(&'static str, &'static str)],
    [webhook, policies]: [Verdict; 2],
    row: &'static str,
) -> Case {
    Case { annotations, webhook, policies, row }
}

const CLOUDLYCKE: [Case; 15] = [
    same(&[], Silent),
    same(&[(MODE, "pool")], Silent),
    same(&WRONG, Denied),
    same(&[("cloudlycke.io/lb-delay", "1m30s")], Silent),
    same(&[("cloudlycke.io/lb-delay", "0")], Silent),
    same(&[("cloudlycke.io/lb-delay", "1.5ms2us")], Silent),
    same(&[("cloudlycke.io/lb-delay", "3µs")], Silent),
    same(&[("cloudlycke.io/lb-delay", ".5s")], Silent),
    same(&[("cloudlycke.io/lb-delay", "soon")], Denied),
    same(&[("cloudlycke.io/lb-delay", "90")], Denied),
    same(&[("cloudlycke.io/lb-mod", "pool")], Warned),
    same(&[("wasm-ccm.io/orphan", "cloudlycke"), (MODE, "bogus")], Silent),
    differ(&[("cloudlycke.io/lb-delay", "")], [Denied, Silent], "has an empty value, or blanks around it"),
    differ(&[("cloudlycke.io/lb-address", "nowhere")], [Denied, Silent], "has a text that the provider cannot use"),
    differ(&[(MODE, "hostname")], [Denied, Silent], "has annotations that do not fit together"),
];

/// On a Service, it has no effect.
const OF_NODES: Case = differ(
    &[("cloudlycke.io/instance-state", "stoped")],
    [Silent, Warned],
    "has a wrong value that the provider ignores",
);

macro_rules! digitalocean {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/do-loadbalancer-", $name)
    };
}

const DIGITALOCEAN: [Case; 12] = [
    same(&[], Silent),
    same(&[(digitalocean!("size-unit"), "3")], Silent),
    same(&[(digitalocean!("size-unit"), "three")], Denied),
    same(&[(digitalocean!("network"), "internal")], Denied),
    same(&[(digitalocean!("algorithm"), "fair")], Warned),
    same(&[(digitalocean!("protcol"), "http")], Warned),
    same(&[("kubernetes.digitalocean.com/firewall-managed", "1")], Silent),
    same(&[("kubernetes.digitalocean.com/firewall-managed", "TRUE")], Silent),
    differ(&[(digitalocean!("size-unit"), "101")], [Denied, Silent], "has a number outside of the allowed range"),
    differ(
        &[(digitalocean!("type"), "REGIONAL"), (digitalocean!("protocol"), "udp")],
        [Denied, Warned],
        "has a value that is wrong only because of another annotation",
    ),
    differ(
        &[("service.kubernetes.io/do-loadbalancer-disown", "true"), (digitalocean!("size-unit"), "three")],
        [Silent, Denied],
        "has a wrong value that another annotation makes ineffective",
    ),
    differ(
        &[("service.beta.kubernetes.io/do-loadbalacer-size-unit", "3")],
        [Warned, Silent],
        "has an annotation that is nearly one of the provider's",
    ),
];

/// What the API server says to a Service that is not made: whether it is denied, and all warnings or the reason.
async fn judged(client: &Client, service: &Value) -> (Verdict, String) {
    let path = "/api/v1/namespaces/default/services?dryRun=All";
    let request = http::Request::post(path).header("content-type", "application/json");
    let body = serde_json::to_vec(service).unwrap();
    match client.send(request.body(kube::client::Body::from(body)).unwrap()).await {
        Ok(answer) if answer.status() == 201 => {
            let text = |value: &http::HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
            let warnings: Vec<String> = answer.headers().get_all("warning").iter().map(text).collect();
            (if warnings.is_empty() { Silent } else { Warned }, warnings.join("\n"))
        }
        Ok(answer) => {
            use http_body_util::BodyExt as _;
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let status: Value = serde_json::from_slice(&body).unwrap();
            let why = status["message"].as_str().unwrap().to_owned();
            assert!(why.contains("denied"), "{why}");
            (Denied, why)
        }
        Err(error) => panic!("{error}"),
    }
}

fn of(case: &Case) -> Value {
    let annotations: serde_json::Map<String, Value> =
        case.annotations.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    serde_json::to_value(service(json!({ "metadata": { "annotations": annotations } }))).unwrap()
}

/// The policies of a provider, with these flags.
fn policies(provider: &str, flags: &[&str]) -> String {
    let file = component(&format!("providers/{provider}.wasm")).unwrap().display().to_string();
    let (code, stdout, stderr) = run(&[&["annotations", &file, "--output=cel"], flags].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    stdout
}

/// Takes the webhook away, and applies policies; waits until the API server knows: `denied` (which not every provider has) and `warned` are what
/// they judge like that, and `passed` is what the webhook alone denies.
async fn replace(client: &Client, policies: &str, denied: Option<&Value>, [warned, passed]: [&Value; 2]) {
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    webhooks.delete("wasm-ccm", &DeleteParams::default()).await.unwrap();
    manifest::apply_all(client, &manifest::objects(policies).unwrap()).await.unwrap();
    let mut said = vec![];
    let is_known = async || {
        said.clear();
        for service in denied.into_iter().chain([warned, passed]) {
            said.push(judged(client, service).await);
        }
        let is_of_policy = |(_, text): &(Verdict, String)| text.contains("ValidatingAdmissionPolicy");
        let verdicts: Vec<Verdict> = said.iter().map(|(verdict, _)| *verdict).collect();
        let wanted = [Denied, Warned, Silent];
        let (judged, _) = said.split_at(said.len() - 1);
        Ok(judged.iter().all(is_of_policy) && wanted.ends_with(&verdicts))
    };
    let waited = until(LIMIT, is_known).await;
    waited.unwrap_or_else(|error| panic!("{error:#}: {said:?}"));
}

/// The rows of the guide about what differs.
fn rows() -> Vec<String> {
    let guide = manifest::folder().join("../docs/guides/webhook.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("| the Service | webhook | policies | why |\n").unwrap();
    let rows = table.lines().skip(1).map_while(|line| line.strip_prefix("| "));
    rows.map(str::to_owned).collect()
}

/// The words of the guide for a verdict.
const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Denied => "denied",
        Warned => "a warning",
        Silent => "accepted",
    }
}

async fn compare(client: &Client, cases: &[&Case], of: impl Fn(&Case) -> Value, is_webhook: bool) {
    let rows = rows();
    for case in cases {
        let (verdict, text) = judged(client, &of(case)).await;
        let expected = if is_webhook { case.webhook } else { case.policies };
        assert_eq!(verdict, expected, "{:?}: {text}", case.annotations);
        for (name, _) in case.annotations.iter().filter(|_| verdict == Denied && case.annotations.len() == 1) {
            assert!(text.contains(&format!("metadata.annotations[{name}]: ")), "{text}");
        }
        assert_eq!(case.webhook == case.policies, case.row.is_empty(), "{:?}", case.annotations);
        if !case.row.is_empty() {
            let row =
                rows.iter().find(|row| row.starts_with(case.row)).unwrap_or_else(|| panic!("no row {}", case.row));
            let cells: Vec<&str> = row.split(" | ").skip(1).take(2).collect();
            assert_eq!(cells, [word(case.webhook), word(case.policies)], "{row}");
        }
    }
}

#[tokio::test]
async fn the_policies_judge_as_the_webhook_does_but_for_what_the_guide_lists() {
    let stage = Stage::new().await;
    let client = stage.client();
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let host = stage.cloudlycke(&strs(&webhook.flags()));
    host.ready().await;
    // Wrong before anybody judged it.
    let old = service(annotated(WRONG));
    services(client).create(&PostParams::default(), &old).await.unwrap();
    webhook.configure(&ca).await;
    webhook.await_denied(WRONG, DENIED).await;
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let change = async |patch: Value| said(services(client).patch("web", &dry, &Patch::Merge(&patch)).await);
    let port = json!({ "spec": { "ports": [{ "port": 81 }] } });
    assert!(change(port.clone()).await.unwrap_err().contains(DENIED));

    let cases: Vec<&Case> = CLOUDLYCKE.iter().chain([&OF_NODES]).collect();
    let named = |case: &Case| {
        let mut service = of(case);
        merge(&mut service, json!({ "metadata": { "name": "other" } }));
        service
    };
    compare(client, &cases, named, true).await;
    let (_, text) = judged(client, &named(&CLOUDLYCKE[10])).await;
    assert!(text.contains("cloudlycke.io/lb-mode would be one"), "{text}");

    let text = policies("cloudlycke", &["--load-balancer-class=cloudlycke.example/lb"]);
    let marks = [&named(&OF_NODES), &named(&CLOUDLYCKE[13])];
    replace(client, &text, Some(&named(&CLOUDLYCKE[2])), marks).await;
    compare(client, &cases, named, false).await;
    let (_, text) = judged(client, &named(&CLOUDLYCKE[2])).await;
    assert!(text.ends_with("must be one of pool, nodes, hostname, not bogus"), "{text}");
    let (_, text) = judged(client, &named(&CLOUDLYCKE[10])).await;
    assert!(text.contains("provider cloudlycke does not know: cloudlycke.io/lb-mod; that has no effect"), "{text}");

    // A change of something else, and of the annotation itself.
    assert!(rows().iter().any(|row| row.starts_with("has a wrong annotation that it had before, ")));
    change(port).await.unwrap();
    change(annotated([(MODE, "nodes")])).await.unwrap();
    change(annotated([(MODE, "other")])).await.unwrap_err();
    // One that becomes a load balancer brings all its annotations, and one that goes is nobody's any more.
    let mut plain = named(&CLOUDLYCKE[2]);
    merge(
        &mut plain,
        json!({ "metadata": { "name": "plain", "finalizers": ["example.com/keep"] }, "spec": { "type": "NodePort" } }),
    );
    let plain = serde_json::from_value(plain).unwrap();
    services(client).create(&PostParams::default(), &plain).await.unwrap();
    let becomes = json!({ "spec": { "type": "LoadBalancer" } });
    let becomes = said(services(client).patch("plain", &dry, &Patch::Merge(&becomes)).await);
    assert!(becomes.unwrap_err().contains("must be one of pool, nodes, hostname, not bogus"));
    let mut going = of(&CLOUDLYCKE[0]);
    merge(&mut going, json!({ "metadata": { "name": "going", "finalizers": ["example.com/keep"] } }));
    services(client).create(&PostParams::default(), &serde_json::from_value(going).unwrap()).await.unwrap();
    crate::service_look::delete(client, "going").await;
    said(services(client).patch("going", &dry, &Patch::Merge(&annotated([(MODE, "other")]))).await).unwrap();
    // Who belongs to whom.
    let mut others = named(&CLOUDLYCKE[2]);
    merge(&mut others, annotated([("wasm-ccm.io/orphan", "theirs")]));
    assert_eq!(judged(client, &others).await.0, Denied, "given up by another one's provider");
    for (spec, verdict) in [
        (json!({ "loadBalancerClass": "cloudlycke.example/lb" }), Denied),
        (json!({ "loadBalancerClass": "theirs.example/lb" }), Silent),
        (json!({ "type": "NodePort" }), Silent),
    ] {
        let mut service = named(&CLOUDLYCKE[2]);
        merge(&mut service, json!({ "spec": spec }));
        assert_eq!(judged(client, &service).await.0, verdict, "{spec}");
    }
    host.end().await;
}

#[tokio::test]
async fn digitaloceans_policies_judge_as_its_webhook_does_but_for_what_the_guide_lists() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let served = "--load-balancer-class=digitalocean.example/lb";
    let mut host = start(&stage, &cloud, &webhook, &[served]).await;
    webhook.configure(&ca).await;
    webhook.await_denied([(digitalocean!("size-unit"), "three")], "denied the request: metadata.annotations").await;
    let cases: Vec<&Case> = DIGITALOCEAN.iter().collect();
    let classes = async || {
        for (class, verdict) in [("digitalocean.example/lb", Denied), ("theirs.example/lb", Silent)] {
            let mut service = of(&DIGITALOCEAN[2]);
            merge(&mut service, json!({ "spec": { "loadBalancerClass": class } }));
            assert_eq!(judged(client, &service).await.0, verdict, "{class}");
        }
    };
    compare(client, &cases, of, true).await;
    classes().await;

    let token = format!("--credential=access-token=file:{}", stage.file("token", TOKEN).display());
    let text = policies("digitalocean", &[&token, "--allow-host=api.digitalocean.com", served]);
    replace(client, &text, Some(&of(&DIGITALOCEAN[2])), [&of(&DIGITALOCEAN[4]), &of(&DIGITALOCEAN[8])]).await;
    compare(client, &cases, of, false).await;
    classes().await;
    assert!(host.terminate().await.unwrap().success());
    cloud.check().unwrap();
    cloud.unsettled("only the webhook is asked: no host serves anything here");
}

/// What is not asked denies nothing, and whoever applies the output can see that.
#[test]
fn a_component_that_cannot_be_asked_without_its_credential_warns_and_exits_with_3() {
    let file = component("providers/digitalocean.wasm").unwrap().display().to_string();
    let (code, stdout, stderr) = run(&["annotations", &file, "--output=cel"]);
    assert_eq!((code, stderr.as_str()), (Some(3), ""), "{stdout}");
    assert!(
        stdout.contains("# Nothing is denied here, because the component was not asked what it refuses: "),
        "{stdout}"
    );
    assert!(stdout.contains("validationActions: [Warn]") && !stdout.contains("[Deny]"), "{stdout}");
    let (code, stdout, _) = run(&["annotations", &file]);
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("The component was not asked about wrong values: credential \"access-token\": "),
        "{stdout}"
    );
}
