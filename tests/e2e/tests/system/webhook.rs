//! The admission webhook, asked by a real API server with the configuration of `manifests/optional/webhook`.

mod digitalocean;
mod policies;

use std::path::{Path, PathBuf};

use ccm_e2e::alerts;
use ccm_e2e::host::Port;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhookConfiguration, WebhookClientConfig};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::service_look::{annotated, await_served, services};
use crate::stage::{LIMIT, Stage};

/// A CA, for one certificate.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key for loopback, as PEM.
    fn issue(&self) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        [params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem()]
    }
}

/// The webhook's port and certificate, and the API server's configuration of it.
struct Webhook {
    client: Client,
    folder: PathBuf,
    port: Port,
}

impl Webhook {
    /// Writes a certificate of this CA.
    fn new(stage: &Stage, ca: &Authority) -> Self {
        let folder = stage.file("webhook/tls.crt", "").parent().unwrap().to_owned();
        let this = Self { client: stage.client().clone(), folder, port: Port::take().unwrap() };
        this.write(&ca.issue());
        this
    }

    fn write(&self, [certificate, key]: &[String; 2]) {
        std::fs::write(self.folder.join("tls.crt"), certificate).unwrap();
        std::fs::write(self.folder.join("tls.key"), key).unwrap();
    }

    fn flags(&self) -> Vec<String> {
        vec![
            "--webhooks=lb-service".to_owned(),
            "--webhook-bind-address=127.0.0.1".to_owned(),
            format!("--webhook-secure-port={}", self.port.number()),
            format!("--webhook-cert-dir={}", self.folder.display()),
            "--webhook-cert-reload-period=100ms".to_owned(),
        ]
    }

    /// Applies the configuration with another address; whoever cannot be asked denies, so that every yes is the webhook's.
    async fn configure(&self, ca: &Authority) {
        let manifest = "../../manifests/optional/webhook/validating-webhook.yaml";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
        let mut config: ValidatingWebhookConfiguration =
            serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for webhook in config.webhooks.iter_mut().flatten() {
            let service = webhook.client_config.service.take().unwrap();
            webhook.client_config = WebhookClientConfig {
                ca_bundle: Some(ByteString(ca.0.pem().into_bytes())),
                service: None,
                url: Some(format!("https://127.0.0.1:{}{}", self.port.number(), service.path.unwrap())),
            };
            webhook.failure_policy = Some("Fail".to_owned());
        }
        let mut how = PatchParams::apply("ccm-e2e").force();
        how.field_validation = Some(kube::api::ValidationDirective::Strict);
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        all.patch("wasm-ccm", &how, &Patch::Apply(&config)).await.unwrap();
    }

    /// Waits until the API server asks: a Service with these annotations, which is not made, is denied with this.
    async fn await_denied<const N: usize>(&self, annotations: [(&str, &str); N], part: &str) {
        let wrong = annotated(annotations);
        let mut said = String::new();
        let look = async || {
            said = self.try_create(wrong.clone()).await.err().unwrap_or_default();
            Ok(said.contains(part))
        };
        let waited = ccm_e2e::host::until(LIMIT, look).await;
        waited.unwrap_or_else(|error| panic!("{error:#}: {said:?}"));
    }

    /// What the API server says to a Service; nothing is made.
    async fn try_create(&self, differs: Value) -> Result<(), String> {
        let how = PostParams { dry_run: true, ..PostParams::default() };
        said(services(&self.client).create(&how, &service(differs)).await)
    }

    /// Whether the port shows a certificate of this CA.
    async fn is_of(&self, ca: &Authority) -> bool {
        let root = reqwest::Certificate::from_pem(ca.0.pem().as_bytes()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]).no_proxy().build().unwrap();
        let answer = client.get(format!("https://127.0.0.1:{}/lb-service", self.port.number())).send().await;
        answer.is_ok_and(|answer| answer.status() == 405)
    }
}

fn service(differs: Value) -> Service {
    let mut service = json!({
        "metadata": { "name": "web" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    crate::service_look::merge(&mut service, differs);
    serde_json::from_value(service).unwrap()
}

fn said<T>(answer: kube::Result<T>) -> Result<(), String> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(format!("{} ({})", status.message, status.code)),
        Err(error) => panic!("{error}"),
    }
}

const MODE: &str = "cloudlycke.io/lb-mode";
/// A mode that there is not.
const WRONG: [(&str, &str); 1] = [(MODE, "bogus")];
const DENIED: &str = "denied the request: metadata.annotations[cloudlycke.io/lb-mode]: ";

async fn change(client: &Client, patch: Value) -> Result<(), String> {
    said(services(client).patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await)
}

fn strs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_wrong_service_is_refused_with_the_providers_words_and_no_other_is_held_up() {
    let stage = Stage::new().await;
    let client = stage.client();
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let host = stage.cloudlycke(&strs(&webhook.flags()));
    host.ready().await;
    webhook.configure(&ca).await;
    webhook.await_denied(WRONG, DENIED).await;

    let why = webhook.try_create(annotated(WRONG)).await.unwrap_err();
    assert!(
        why.starts_with("admission webhook \"lb-service.wasm-ccm.io\" denied the request") && why.ends_with("(403)")
    );
    for part in ["bogus", "pool", "nodes", "hostname"] {
        assert!(why.contains(part), "{why:?} does not say {part:?}");
    }
    let log = host.await_log(LIMIT, &["Service denied", "bogus", "default/web"]).await.unwrap();
    assert!(log.contains("\"INFO\""), "{log}");

    // A right one, and changes of it; the host's own, its finalizer, is through before anything is counted.
    let right = service(annotated([(MODE, "pool")]));
    services(client).create(&PostParams::default(), &right).await.unwrap();
    await_served(client, "web").await;
    let why = change(client, annotated(WRONG)).await.unwrap_err();
    assert!(why.contains(DENIED), "{why}");
    let unchanged = || async { host.count("ccm_admission_reviews_total", &["outcome=\"unchanged\""]).await.unwrap() };
    let before = unchanged().await;
    change(client, json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap();
    assert_eq!(unchanged().await - before, 1.0);
    change(client, json!({ "spec": { "loadBalancerSourceRanges": ["10.0.0.0/8"] } })).await.unwrap();
    let named =
        |spec: Value| json!({ "metadata": { "name": "other", "annotations": { MODE: "bogus" } }, "spec": spec });
    webhook.try_create(named(json!({ "loadBalancerClass": "theirs" }))).await.unwrap();
    for outcome in ["denied", "valid", "foreign"] {
        let label = format!("outcome=\"{outcome}\"");
        assert!(host.count("ccm_admission_reviews_total", &[&label]).await.unwrap() >= 1.0, "{outcome}");
    }
    let good = ["code=\"200\"", "webhook=\"lb-service\""];
    assert!(host.count("cloud_provider_webhook_request_total", &good).await.unwrap() >= 5.0);
    assert!(host.count("cloud_provider_webhook_request_duration_seconds_count", &good).await.unwrap() >= 5.0);
    host.end().await;

    // Those that the configuration leaves out do not miss it.
    let why = webhook.try_create(named(json!({}))).await.unwrap_err();
    assert!(why.contains("failed calling webhook"), "{why}");
    for other in ["NodePort", "ClusterIP"] {
        webhook.try_create(named(json!({ "type": other }))).await.unwrap();
    }
    // What holds it is the finalizer, which somebody takes away without the webhook.
    services(client).delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    change(client, json!({ "metadata": { "finalizers": null, "labels": { "a": null } } })).await.unwrap();
}

#[tokio::test]
async fn a_new_certificate_counts_without_a_restart_and_a_broken_one_does_not() {
    let stage = Stage::new().await;
    let (old, new) = (Authority::new(), Authority::new());
    let webhook = Webhook::new(&stage, &old);
    let host = stage.cloudlycke(&strs(&webhook.flags()));
    host.ready().await;
    webhook.configure(&old).await;
    webhook.await_denied(WRONG, DENIED).await;
    assert!(webhook.is_of(&old).await && !webhook.is_of(&new).await);
    let before = alerts::scrape(&host).await.unwrap();

    let [certificate, key] = new.issue();
    webhook.write(&[certificate.clone(), "garbage".to_owned()]);
    let said = host.await_log(LIMIT, &["certificate cannot be used: the one before is kept", "tls.key"]).await.unwrap();
    assert!(said.contains("WARN"), "{said}");
    let failed = ["outcome=\"failed\""];
    host.await_count("ccm_webhook_certificates_total", &failed, LIMIT, |count| count >= 1.0).await.unwrap();
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMWebhookCertificateFailed", &[[&before], [&after]]).await.unwrap();
    assert!(webhook.is_of(&old).await);
    webhook.try_create(json!({})).await.unwrap();

    webhook.write(&[certificate, key]);
    let good = ["outcome=\"ok\""];
    host.await_count("ccm_webhook_certificates_total", &good, LIMIT, |count| count == 2.0).await.unwrap();
    assert!(webhook.is_of(&new).await && !webhook.is_of(&old).await);
    // It trusts the new CA alone, which takes a new connection.
    webhook.configure(&new).await;
    webhook.await_denied(WRONG, DENIED).await;
    webhook.try_create(json!({})).await.unwrap();
    host.end().await;
}

/// Who does not lead judges as well: the API server asks any replica.
#[tokio::test]
async fn a_standby_answers_and_without_a_provider_every_service_is_let_through() {
    let stage = Stage::new().await;
    let lease = Lease {
        metadata: ObjectMeta { name: Some("cloud-controller-manager".to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some("somebody else".to_owned()),
            lease_duration_seconds: Some(3_600),
            renew_time: Some(MicroTime(jiff::Timestamp::now())),
            ..LeaseSpec::default()
        }),
    };
    let leases: Api<Lease> = Api::namespaced(stage.client().clone(), "kube-system");
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let source = "--provider=configmap:kube-system/cloudlycke".to_owned();
    let flags = [vec!["--leader-elect=true".to_owned(), source], webhook.flags()].concat();
    let host = stage.start(flags);
    webhook.configure(&ca).await;
    // There is no such ConfigMap yet.
    let unjudged =
        async || host.count("ccm_admission_reviews_total", &["outcome=\"unjudged\""]).await.unwrap_or_default();
    // The API server asks nobody before it knows the webhook.
    let passes = async || Ok(webhook.try_create(annotated(WRONG)).await.is_ok() && unjudged().await >= 1.0);
    ccm_e2e::host::until(LIMIT, passes).await.unwrap();
    let component = crate::stage::cloudlycke();
    ccm_e2e::manifest::put_component(stage.client(), "kube-system", "cloudlycke", &component).await.unwrap();
    webhook.await_denied(WRONG, DENIED).await;
    host.ready().await;
    assert_eq!(host.metric("leader_election_master_status").await.unwrap(), 0.0);
    host.end().await;
}
