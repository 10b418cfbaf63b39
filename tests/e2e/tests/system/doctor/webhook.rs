//! The certificates of the admission webhook.

use ccm_e2e::manifest;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use super::{Answer, create, doctor, provider};
use crate::stage::Stage;

#[tokio::test]
async fn certificates_of_the_webhook_are_told_before_they_expire() {
    let stage = Stage::new().await;
    let until = |mut parameters: CertificateParams, year| {
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        parameters
    };
    // As a bundle has it, until this year.
    let authority = |year: i32| {
        let mut parameters = until(CertificateParams::default(), year);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    };
    // As the host shows it.
    let signed = |by: &CertifiedIssuer<'_, KeyPair>, name: &str, year: i32| {
        let parameters = until(CertificateParams::new(vec![name.to_owned()]).unwrap(), year);
        parameters.signed_by(&KeyPair::generate().unwrap(), by).unwrap().pem()
    };
    const SERVICE: &str = "wasm-ccm-webhook.kube-system.svc";
    let (expired, good, stranger) = (authority(2020), authority(2400), authority(2400));
    let path = manifest::folder().join("optional/webhook/validating-webhook.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut config: ValidatingWebhookConfiguration = serde_saphyr::from_str(&text).unwrap();
    let all: Api<ValidatingWebhookConfiguration> = Api::all(stage.client().clone());
    let how = PostParams::default();
    config = all.create(&how, &config).await.unwrap();
    let look = || doctor(&stage.cluster.kubeconfig(), &[&provider()]);
    let wrong = |answer: &Answer, part: &str| {
        let webhook = answer.of("webhook");
        let says =
            |finding: &&&Value| finding["judgement"] == "wrong" && finding["found"].as_str().unwrap().contains(part);
        assert_eq!(webhook.iter().filter(says).count(), 1, "{part}: {}", answer.text);
    };
    let answer = look();
    wrong(&answer, "no caBundle");
    wrong(&answer, "no certificate in tls.crt");

    let trusts = |config: &mut ValidatingWebhookConfiguration, bundle: String| {
        config.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = Some(ByteString(bundle.into_bytes()));
    };
    trusts(&mut config, expired.pem());
    config = all.replace("wasm-ccm", &how, &config).await.unwrap();
    let secret = |pem: String| {
        let data = json!({ "tls.crt": pem, "tls.key": "-" });
        json!({ "metadata": { "name": "wasm-ccm-webhook" }, "stringData": data })
    };
    let secrets = Api::<Secret>::namespaced(stage.client().clone(), "kube-system");
    create(secrets.clone(), secret(signed(&expired, SERVICE, 2021))).await;
    let answer = look();
    wrong(&answer, "the CA in its configuration expired on 2020-01-01");
    wrong(&answer, "the certificate expired on 2021-01-01");

    let shows = async |pem: String| {
        let one: Secret = serde_json::from_value(secret(pem)).unwrap();
        secrets.replace("wasm-ccm-webhook", &how, &one).await.unwrap();
    };
    shows(signed(&expired, SERVICE, 2400)).await;
    wrong(&look(), "the CA that signed the certificate has expired");

    // An authority of before may stay in the bundle.
    trusts(&mut config, expired.pem() + &good.pem());
    drop(all.replace("wasm-ccm", &how, &config).await.unwrap());
    shows(signed(&stranger, SERVICE, 2400)).await;
    wrong(&look(), "no CA in the caBundle of the webhook signed the certificate");
    shows(signed(&good, "wasm-ccm-webhook.other.svc", 2400)).await;
    wrong(&look(), "the certificate is not for wasm-ccm-webhook.kube-system.svc");
    shows(signed(&good, SERVICE, 2400)).await;
    let answer = look();
    assert!(answer.are_all("webhook", "good") && answer.of("webhook").len() == 2, "{}", answer.text);
}
