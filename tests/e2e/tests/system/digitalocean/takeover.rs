//! What the Go manager has left is taken over as it is: its state is written here by its rules, as sections 1.8, 2 and 5 of the
//! reference have them, and not by ours.

use ccm_e2e::host::component;
use ccm_sim_digitalocean::{Certificate, CertificateKind, DigitalOcean, Droplet, Endpoint, TOKEN};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Cloud, ID, is_served, members, start};
use crate::look::await_event;
use crate::mistakes::run;
use crate::service_look::{FINALIZER, await_service, serve, services, told};
use crate::stage::{LIMIT, Stage};

const PREFIX: &str = "service.beta.kubernetes.io/do-loadbalancer-";

/// What the Go manager ignores, or reads and has no use for; and what it reads of every Service.
const EVERYWHERE: [(&str, &str); 4] = [
    ("service.kubernetes.io/do-loadbalancer-disown", "false"),
    ("kubernetes.digitalocean.com/firewall-managed", "true"),
    ("service.beta.kubernetes.io/load-balancer-source-ranges", "10.0.0.0/8"),
    ("service.beta.kubernetes.io/do-loadbalancer-https-ports", "443"),
];

/// Each of its annotations on a load balancer that has everything.
const REGIONAL: [(&str, &str); 35] = [
    ("name", "shop"),
    ("type", "REGIONAL"),
    ("network", "EXTERNAL"),
    ("network-stack", "DUALSTACK"),
    ("ip", " 192.0.2.10 "),
    ("subnet-uuid", " b7f2a2ab-7a1c-4a53-9f5e-0a9ba4f6c1d2 "),
    ("hostname", "Shop.Example.com"),
    ("protocol", "http"),
    ("http-ports", "80"),
    ("tls-ports", "443"),
    ("http2-ports", "8443"),
    ("http3-port", "443"),
    ("tls-passthrough", "off"),
    // certificate-id comes with its value.
    ("certificate-name", "another that is not there"),
    ("redirect-http-to-https", "t"),
    ("disable-lets-encrypt-dns-records", "1"),
    ("override-health-check", "false"),
    ("healthcheck-port", "80"),
    ("healthcheck-path", "/health"),
    ("healthcheck-protocol", "http"),
    ("healthcheck-check-interval-seconds", "4"),
    ("healthcheck-response-timeout-seconds", "6"),
    ("healthcheck-unhealthy-threshold", "4"),
    ("healthcheck-healthy-threshold", "0"),
    ("algorithm", "least_connections"),
    ("size-slug", ""),
    ("size-unit", "2"),
    ("sticky-sessions-type", "cookies"),
    ("sticky-sessions-cookie-name", "DO-CCM"),
    ("sticky-sessions-cookie-ttl", "300"),
    ("enable-proxy-protocol", "true"),
    ("enable-backend-keepalive", "TRUE"),
    ("http-idle-timeout-seconds", "90"),
    ("deny-rules", " cidr:198.51.100.0/24 "),
    ("allow-rules", "ip:192.0.2.7, cidr:10.1.2.3/8"),
];

/// The same on one that passes packets through, with values that it never reads.
const NETWORK: [(&str, &str); 36] = [
    ("name", ""),
    ("type", "REGIONAL_NETWORK"),
    ("network", "EXTERNAL"),
    ("network-stack", ""),
    ("ip", ""),
    ("subnet-uuid", ""),
    ("hostname", ""),
    ("protocol", "http3"),
    ("http-ports", "80, 81"),
    ("tls-ports", "https"),
    ("http2-ports", "80,80"),
    ("http3-port", "443,444"),
    ("tls-passthrough", "true"),
    ("certificate-id", "892071a0-bb95-49bc-8021-3afd67a210bf"),
    ("certificate-name", "one that is not there"),
    ("redirect-http-to-https", "true"),
    ("disable-lets-encrypt-dns-records", "true"),
    ("healthcheck-port", "9"),
    ("healthcheck-path", "/health"),
    ("healthcheck-protocol", "icmp"),
    ("healthcheck-check-interval-seconds", "5"),
    ("healthcheck-response-timeout-seconds", "5"),
    ("healthcheck-unhealthy-threshold", "3"),
    ("healthcheck-healthy-threshold", "5"),
    ("algorithm", "random"),
    ("size-slug", "lb-small"),
    ("size-unit", ""),
    ("sticky-sessions-type", "incorrect"),
    ("sticky-sessions-cookie-name", ""),
    ("sticky-sessions-cookie-ttl", "never"),
    ("enable-proxy-protocol", "true"),
    ("enable-backend-keepalive", "true"),
    ("http-idle-timeout-seconds", "90"),
    ("deny-rules", ""),
    ("allow-rules", ""),
    ("https-ports", "443"),
];

fn annotated(annotations: &[(&str, &str)]) -> Value {
    let own = annotations.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value)));
    let everywhere = EVERYWHERE.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    json!({ "annotations": everywhere.chain(own).collect::<serde_json::Map<_, _>>() })
}

/// Sends what the Go manager would send; returns the object that it gets.
async fn sent(cloud: &DigitalOcean, path: &str, body: &Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("{}{path}", cloud.url())).bearer_auth(TOKEN);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert!(status.is_success(), "{path}: {status}: {text}");
    let body: Value = serde_json::from_str(&text).unwrap();
    body.as_object().unwrap().values().next().unwrap().clone()
}

/// What the Go manager writes down: the ID, the type that it found, the finalizer, and where clients go.
async fn written_down(client: &kube::Client, name: &str, balancer: &Value, ingress: Value) {
    let kind = format!("{PREFIX}type");
    let metadata = json!({ "metadata": {
        "annotations": { ID: balancer["id"], kind: balancer["type"] }, "finalizers": [FINALIZER],
    } });
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let params = PatchParams::default();
    services(client).patch(name, &params, &Patch::Merge(&metadata)).await.unwrap();
    services(client).patch_status(name, &params, &Patch::Merge(&status)).await.unwrap();
}

fn node_port(service: &Service, port: i32) -> i32 {
    let ports = service.spec.as_ref().unwrap().ports.as_ref().unwrap();
    ports.iter().find(|own| own.port == port).unwrap().node_port.unwrap()
}

#[tokio::test]
async fn a_service_with_every_annotation_of_the_go_manager_is_taken_over_without_a_write() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[101, 102]).await;
    cloud.put_droplet(Droplet { tags: vec!["k8s-worker".to_owned()], ..Droplet::new(103, "worker") });
    let certificate = cloud.put_certificate(Certificate::new("web", CertificateKind::Custom, "www.example.com"));

    let with_id: Vec<_> = REGIONAL.into_iter().chain([("certificate-id", certificate.as_str())]).collect();
    let ports = json!([{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }]);
    let shop = serve(client, "shop", json!({ "metadata": annotated(&with_id), "spec": { "ports": ports } })).await;
    let (http, https) = (node_port(&shop, 80), node_port(&shop, 443));
    let regional = json!({
        "name": "shop", "algorithm": "least_connections", "region": "nyc3", "size_unit": 2, "type": "REGIONAL",
        "forwarding_rules": [
            { "entry_protocol": "http", "entry_port": 80, "target_protocol": "http", "target_port": http },
            { "entry_protocol": "https", "entry_port": 443, "target_protocol": "http", "target_port": https,
              "certificate_id": certificate },
            { "entry_protocol": "http3", "entry_port": 443, "target_protocol": "http", "target_port": https,
              "certificate_id": certificate },
        ],
        // A threshold of 0 is not sent, and the cloud has a default.
        "health_check": { "protocol": "http", "port": http, "path": "/health", "check_interval_seconds": 4,
            "response_timeout_seconds": 6, "unhealthy_threshold": 4 },
        "sticky_sessions": { "type": "cookies", "cookie_name": "DO-CCM", "cookie_ttl_seconds": 300 },
        "droplet_ids": [101, 102], "tags": ["k8s:c-1"], "redirect_http_to_https": true, "enable_proxy_protocol": true,
        "enable_backend_keepalive": true, "subnet_uuid": "b7f2a2ab-7a1c-4a53-9f5e-0a9ba4f6c1d2",
        "disable_lets_encrypt_dns_records": true, "http_idle_timeout_seconds": 90,
        "firewall": { "allow": ["ip:192.0.2.7", "cidr:10.1.2.3/8"], "deny": ["cidr:198.51.100.0/24"] },
        "network": "EXTERNAL", "network_stack": "DUALSTACK", "ip": "192.0.2.10",
    });
    let regional = sent(&cloud, "/v2/load_balancers", &regional).await;
    written_down(client, "shop", &regional, json!([{ "hostname": "shop.example.com" }])).await;

    let ports = json!([{ "name": "web", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" }]);
    let spec = json!({ "ports": ports, "externalTrafficPolicy": "Local" });
    let stream = serve(client, "stream", json!({ "metadata": annotated(&NETWORK), "spec": spec })).await;
    let check = stream.spec.as_ref().unwrap().health_check_node_port.unwrap();
    let network = json!({
        "name": format!("a{}", stream.uid().unwrap().replace('-', ""))[..32], "algorithm": "round_robin",
        "region": "nyc3", "size": "lb-small", "type": "REGIONAL_NETWORK",
        "forwarding_rules": [
            { "entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 80 },
            { "entry_protocol": "udp", "entry_port": 53, "target_protocol": "udp", "target_port": 53 },
        ],
        "health_check": { "protocol": "http", "port": check, "path": "/healthz", "check_interval_seconds": 5,
            "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3, "proxy_protocol": false },
        "sticky_sessions": { "type": "none" }, "droplet_ids": [101, 102], "tags": ["k8s:c-1"],
        "redirect_http_to_https": true, "enable_proxy_protocol": true, "enable_backend_keepalive": true,
        "disable_lets_encrypt_dns_records": true, "http_idle_timeout_seconds": 90, "firewall": {},
        "network": "EXTERNAL", "network_stack": "IPV4",
    });
    let network = sent(&cloud, "/v2/load_balancers", &network).await;
    let balancer = cloud.balancers().remove(1);
    written_down(client, "stream", &network, json!([{ "ip": balancer.ip }])).await;

    let node_ports = json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30_080 }] });
    let managed = json!({ "annotations": { "kubernetes.digitalocean.com/firewall-managed": "true" } });
    serve(client, "ports", json!({ "metadata": managed, "spec": node_ports })).await;
    let everybody = json!({ "addresses": ["0.0.0.0/0", "::/0"] });
    let inbound = |protocol: &str, port: i32, sources: &Value| json!({ "protocol": protocol, "ports": port.to_string(), "sources": sources });
    let outbound = |protocol: &str| json!({ "protocol": protocol, "ports": "all", "destinations": everybody });
    let firewall = json!({
        "name": "k8s-public", "tags": ["k8s-worker"],
        "inbound_rules": [
            inbound("tcp", check, &json!({ "load_balancer_uids": [network["id"]] })),
            inbound("tcp", 30_080, &everybody), inbound("tcp", 80, &everybody), inbound("udp", 53, &everybody),
        ],
        "outbound_rules": [outbound("tcp"), outbound("udp"), { "protocol": "icmp", "destinations": everybody }],
    });
    sent(&cloud, "/v2/firewalls", &firewall).await;

    let (before, firewalls) = (cloud.balancers(), cloud.firewalls());
    cloud.check().unwrap();
    cloud.reset_counters();
    let environment = [
        ("DO_CLUSTER_ID", "c-1"),
        ("PUBLIC_ACCESS_FIREWALL_NAME", "k8s-public"),
        ("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s-worker"),
    ];
    cloud.configured_with(&environment, &[]);
    // Migration by proof: the plan against the Go manager's cluster is empty.
    cloud.settled_but_for_notes(&stage).await;
    assert_eq!(cloud.counters().writes, 0, "{:#?}", cloud.exchanges());
    cloud.reset_counters();
    let host = start(&stage, &cloud, &environment, &["--cluster-period=1s"]);
    for name in ["shop", "stream"] {
        let is_taken = |service: &Service| is_served(service) || name == "shop" && readiness_is_good(service);
        await_service(client, name, is_taken).await;
    }
    ccm_cluster::poll_until("two looks", LIMIT, || cloud.count(Endpoint::Firewalls) >= 2).await.unwrap();
    assert_eq!(cloud.counters().writes, 0, "{:#?}", cloud.exchanges());
    // Nobody ensures it, and it is told all the same.
    for (name, reason, words) in [
        ("stream", "LoadBalancerConfigIgnored", "only REGIONAL ones have it"),
        ("shop", "LoadBalancerAnnotationUnknown", "does not know the annotation"),
    ] {
        await_event(client, name, "Warning", reason, &[words]).await;
        let ensured = told(client, name).await.into_iter().filter(|line| line.contains("EnsuredLoadBalancer"));
        assert_eq!(ensured.count(), 0, "{name} is as it should be");
    }
    assert_eq!((cloud.balancers(), cloud.firewalls()), (before, firewalls));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// What the component would not read of the Services above, nobody would miss there.
#[test]
fn the_services_of_the_go_manager_carry_each_annotation_that_the_component_declares() {
    let component = component("providers/digitalocean.wasm").unwrap();
    let (code, stdout, stderr) = run(&["inspect", component.to_str().unwrap(), "--output=json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let seen: Value = serde_json::from_str(&stdout).unwrap();
    let declared: Vec<&str> =
        seen["descriptor"]["annotations"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let carried = |name: &str| {
        let own = name.strip_prefix(PREFIX);
        let is_listed = |list: &[(&str, &str)]| own.is_some_and(|own| list.iter().any(|one| one.0 == own));
        let is_everywhere = EVERYWHERE.iter().any(|one| one.0 == name);
        is_listed(&REGIONAL) || is_listed(&NETWORK) || is_everywhere || name == ID
    };
    let missing: Vec<&str> = declared.iter().copied().filter(|name| !name.ends_with('*') && !carried(name)).collect();
    assert_eq!((missing, declared.len() > 30), (vec![], true), "{declared:?}");
}

/// One whose status has a name.
fn readiness_is_good(service: &Service) -> bool {
    crate::service_look::readiness(service).is_some_and(|ready| ready.0 == "True")
}
