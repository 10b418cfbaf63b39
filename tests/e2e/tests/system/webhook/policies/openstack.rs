//! OpenStack's policies, beside its webhook. What the provider says of a Service needs no cloud: a Keystone that lets it log in is enough.

use std::convert::Infallible;

use bytes::Bytes;
use ccm_e2e::openstack_lab::granted;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::service_look::QUICK;
use crate::stage::Actor;

macro_rules! openstack {
    ($name:literal) => {
        concat!("loadbalancer.openstack.org/", $name)
    };
}

const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
/// How the row of what the provider warns of begins.
const WARNS: &str = "has a value of the declared form that the provider warns of";
const FIT: &str = "has annotations that do not fit together";

const UNUSABLE: Case =
    differ(&[(openstack!("class"), "gold")], [Denied, Silent], "has a text that the provider cannot use");

const OPENSTACK: [Case; 27] = [
    same(&[], Silent),
    same(&[(INTERNAL, "true")], Silent),
    same(&[(INTERNAL, "yes")], Warned),
    same(&[(openstack!("keep-floatingip"), "maybe")], Warned),
    same(&[(openstack!("connection-limit"), "-1")], Silent),
    same(&[(openstack!("connection-limit"), "+5")], Silent),
    same(&[(openstack!("connection-limit"), "many")], Warned),
    same(&[(openstack!("timeout-client-data"), "90s")], Warned),
    same(&[(openstack!("proxy-protocol"), "v2")], Silent),
    same(&[(openstack!("proxy-protocol"), "")], Silent),
    same(&[(openstack!("proxy-protocol"), "v3")], Warned),
    same(&[(openstack!("enable-health-monitor"), "true"), (openstack!("health-monitor-delay"), "10")], Silent),
    same(&[(openstack!("health-monitor-delay"), "soon")], Warned),
    same(&[(RANGES, "10.0.0.0/8")], Silent),
    same(&[(RANGES, " 10.0.0.0/8 , 192.168.0.0/16")], Silent),
    same(&[(RANGES, "")], Silent),
    same(&[(openstack!("conection-limit"), "5")], Warned),
    same(&[("wasm-ccm.io/orphan", "openstack"), (openstack!("class"), "gold")], Silent),
    differ(&[(openstack!("connection-limit"), "-2")], [Denied, Silent], "has a number outside of the allowed range"),
    differ(
        &[(openstack!("enable-health-monitor"), "true"), (openstack!("health-monitor-max-retries"), "11")],
        [Denied, Silent],
        "has a number outside of the allowed range",
    ),
    UNUSABLE,
    differ(&[(openstack!("floating-subnet"), "~(")], [Denied, Silent], "has a text that the provider cannot use"),
    differ(&[(openstack!("proxy-protocol"), "true"), (openstack!("x-forwarded-for"), "true")], [Denied, Silent], FIT),
    differ(&[(RANGES, "2001:db8::/32")], [Denied, Silent], FIT),
    differ(&[(INTERNAL, "1")], [Warned, Silent], WARNS),
    differ(&[(openstack!("lb-method"), "FAIR")], [Warned, Silent], WARNS),
    differ(&[(openstack!("health-monitor-delay"), "0")], [Warned, Silent], WARNS),
];

/// A Keystone that lets everybody log in, until it is dropped. Its catalogue leads back to it, where nothing else is.
async fn keystone() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let place = |kind: &str| {
        let endpoint = json!({ "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": format!("{url}/{kind}") });
        json!({ "type": kind, "name": kind, "endpoints": [endpoint] })
    };
    let catalog = ["compute", "network", "load-balancer"].map(place);
    let token = json!({ "token": { "catalog": catalog, "expires_at": "2090-01-01T00:00:00.000000Z" } }).to_string();
    let mut port = JoinSet::new();
    port.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let token = token.clone();
            let service = service_fn(move |request: http::Request<Incoming>| {
                let is_login = request.method() == http::Method::POST && request.uri().path().ends_with("/auth/tokens");
                let (status, body) = if is_login { (201, token.clone()) } else { (404, "{}".to_owned()) };
                let answer = http::Response::builder().status(status).header("content-type", "application/json");
                let answer = answer.header("x-subject-token", "gAAAAABtoken-of-the-test");
                std::future::ready(Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap()))
            });
            connections.spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                // Whoever has its answer ends the connection.
                http.serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
    (url, port)
}

#[tokio::test]
async fn openstacks_policies_judge_as_its_webhook_does_but_for_what_the_guide_lists() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (url, _keystone) = keystone().await;
    let conf = format!(
        "[Global]\nauth-url = {url}/v3\nregion = RegionOne\napplication-credential-id = an-id-of-the-test\napplication-credential-secret = a-secret-of-the-test\n[LoadBalancer]\nsubnet-id = 1\n"
    );
    let config = format!("--cloud-config={}", stage.file("cloud.conf", conf).display());
    let own: Vec<String> = granted().chain([config]).collect();
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let provider = format!("--provider={}", component("providers/openstack.wasm").unwrap().display());
    let quick = QUICK.map(str::to_owned);
    let host: Actor = stage.start(own.iter().cloned().chain(quick).chain(webhook.flags()).chain([provider]));
    host.ready().await;
    webhook.configure(&ca).await;
    webhook.await_denied([(openstack!("class"), "gold")], "denied the request: metadata.annotations").await;
    let cases: Vec<&Case> = OPENSTACK.iter().collect();
    compare(client, &cases, of, true).await;

    let flags: Vec<&str> = own.iter().map(String::as_str).collect();
    let text = policies("openstack", &flags);
    // What it refuses by its form, networks of clients, the API server refuses first.
    replace(client, &text, None, [&of(&OPENSTACK[2]), &of(&UNUSABLE)]).await;
    compare(client, &cases, of, false).await;
    assert!(host.stop().await.contains("openstack"));
}
