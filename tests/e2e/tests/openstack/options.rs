//! What a Service or the `cloud.conf` can ask for besides ports: other protocols, security groups, TLS.

use ccm_e2e::openstack_lab::{Server, until};
use http::Method;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::rig::{Rig, initialised};
use crate::service_look::{annotated, merge, serve_whole};
use crate::stage::LIMIT;

/// A field of all objects of a kind, sorted, by the port of the listener in front where there is one.
async fn protocols(rig: &Rig) -> Vec<(i64, String, String)> {
    let pools = rig.tenant.list("load-balancer", "/v2.0/lbaas/pools", "pools").await.unwrap();
    let listeners = rig.tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await.unwrap();
    let of = |listener: &Value| {
        let pool = pools.iter().find(|pool| pool["id"] == listener["default_pool_id"]).unwrap();
        let text = |of: &Value| of["protocol"].as_str().unwrap().to_owned();
        (listener["protocol_port"].as_i64().unwrap(), text(listener), text(pool))
    };
    let mut found: Vec<_> = listeners.iter().map(of).collect();
    found.sort();
    found
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn tcp_ports_have_the_proxy_protocol_and_udp_ports_beside_them_have_not() {
    let (rig, _, before, host) = Rig::ready(["n1"], &[]).await;
    let mut differs = annotated([("loadbalancer.openstack.org/proxy-protocol", "v2")]);
    let ports = json!([{ "name": "tcp", "port": 80 }, { "name": "udp", "port": 5353, "protocol": "UDP" }]);
    merge(&mut differs, json!({ "spec": { "ports": ports } }));
    serve_whole(rig.client(), "web", differs).await;
    let wanted = [(80, "TCP", "PROXYV2"), (5353, "UDP", "UDP")];
    let wanted = wanted.map(|(port, listener, pool)| (port, listener.to_owned(), pool.to_owned()));
    assert_eq!(protocols(&rig).await, wanted);
    rig.remove("web").await;
    rig.end_as(&before, host).await;
}

/// The security groups of a server's ports.
async fn groups(rig: &Rig, server: &Server) -> Vec<Value> {
    let path = format!("/v2.0/ports?device_id={}", server.id);
    let ports = rig.tenant.list("network", &path, "ports").await.unwrap();
    ports.iter().flat_map(|port| port["security_groups"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_managed_security_group_opens_node_ports_follows_nodes_and_goes_with_its_service() {
    let rig = Rig::new().await;
    let [one] = rig.members(["n1"]).await;
    let [two] = rig.tenant.boot(["n2"]).await.unwrap();
    let before = rig.tenant.inventory().await.unwrap();
    let others = groups(&rig, &one).await;
    let sections = rig.tenant.sections("manage-security-groups = true\n").unwrap();
    let host = rig.start(&rig.configure(&rig.tenant.by_credential(), &sections), &[]);
    host.ready().await;
    let service = serve_whole(rig.client(), "web", json!({})).await;
    let name = format!("lb-sg-{}-default-web", service.uid().unwrap());
    let path = format!("/v2.0/security-groups?name={name}");
    let found = rig.tenant.list("network", &path, "security_groups").await.unwrap();
    assert_eq!(found.len(), 1, "{found:#?}");
    let node_port = service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port.unwrap();
    let opens = |rule: &Value| {
        rule["direction"] == "ingress"
            && rule["protocol"] == "tcp"
            && [&rule["port_range_min"], &rule["port_range_max"]].iter().all(|port| **port == node_port)
    };
    let rules = found[0]["security_group_rules"].as_array().unwrap();
    assert!(rules.iter().any(opens), "nothing opens {node_port}: {rules:#?}");
    let group = found[0]["id"].clone();
    let mut with: Vec<Value> = groups(&rig, &one).await;
    assert!(with.contains(&group), "{with:?}");
    with.retain(|own| *own != group);
    assert_eq!(with, others, "the port keeps what it had");
    initialised("n2", &two).register(rig.client()).await.unwrap();
    until(LIMIT, async || Ok(groups(&rig, &two).await.contains(&group))).await.unwrap();

    rig.remove("web").await;
    rig.end_as(&before, host).await;
}

/// A secret with a certificate and its key, as Octavia takes it: PKCS #12 without a password, in base64. Returns where it is.
pub(crate) async fn certificate(rig: &Rig) -> String {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=web.example -days 2 -keyout key.pem -out cert.pem",
        "pkcs12 -export -inkey key.pem -in cert.pem -passout pass: -out web.p12",
        "base64 -A -in web.p12 -out web.base64",
    ] {
        let run = Command::new("openssl").args(line.split(' ')).current_dir(folder.path()).output().await.unwrap();
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    }
    let secret = json!({
        "name": "web", "payload": std::fs::read_to_string(folder.path().join("web.base64")).unwrap(),
        "payload_content_type": "application/octet-stream", "payload_content_encoding": "base64",
    });
    let made = rig.tenant.user.send("key-manager", Method::POST, "/v1/secrets", Some(secret)).await.unwrap();
    made["secret_ref"].as_str().unwrap().to_owned()
}

/// With a password: Octavia asks Barbican in the name of whoever asks Octavia, which an application credential does not allow.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn tls_ends_at_the_load_balancer_with_a_certificate_of_barbican() {
    let rig = Rig::new().await;
    rig.members(["n1"]).await;
    let secret = certificate(&rig).await;
    let (_, path) = secret.split_once("/v1/").unwrap();
    // As the host sees it.
    let reference = format!("{}/v1/{path}", rig.proxy.address("key-manager"));
    let before = rig.tenant.inventory().await.unwrap();
    let host = rig.start(&rig.configure(&rig.tenant.by_password(&rig.tenant.password), &rig.sections()), &[]);
    host.ready().await;
    let mut differs = annotated([("loadbalancer.openstack.org/default-tls-container-ref", &reference)]);
    merge(&mut differs, json!({ "spec": { "ports": [{ "port": 443 }] } }));
    serve_whole(rig.client(), "web", differs).await;
    assert_eq!(protocols(&rig).await, [(443, "TERMINATED_HTTPS".to_owned(), "HTTP".to_owned())]);
    let listeners = rig.tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await.unwrap();
    assert_eq!(listeners[0]["default_tls_container_ref"], secret.as_str());
    rig.remove("web").await;
    until(LIMIT, async || Ok(rig.tenant.inventory().await? == before)).await.unwrap();
    rig.tenant.user.delete("key-manager", &format!("/v1/{path}")).await.unwrap();
    rig.end(host).await;
}
