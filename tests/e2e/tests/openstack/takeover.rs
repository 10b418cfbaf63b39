//! What the Go manager has left is taken over as it is: its state is written here by its rules, as sections 5 to 8 of the reference have
//! them, and not by ours.

mod go;

use ccm_e2e::host::{component, program};
use ccm_e2e::openstack_lab::until;
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::process::Command;

use self::go::{Go, Port};
use crate::look::nodes;
use crate::options::certificate;
use crate::rig::Rig;
use crate::service_look::{annotated, await_served, await_service, change, delete, readiness, recorded};
use crate::stage::LIMIT;

const PREFIX: &str = "loadbalancer.openstack.org/";
const FLAGS: [&str; 3] = ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--controllers=*"];

/// Of a load balancer for clients outside, with members that are watched. Values in capitals are those of the project.
const SHOP: [(&str, &str); 26] = [
    ("class", "dmz"),
    ("floating-network-id", "of the class"),
    ("floating-subnet-id", "for a new one"),
    ("floating-subnet", "public-*"),
    ("floating-subnet-tags", "&a,b"),
    ("keep-floatingip", "false"),
    ("network-id", "NETWORK"),
    ("subnet-id", "SUBNET"),
    ("member-subnet-id", "SUBNET"),
    ("port-id", ""),
    ("connection-limit", "1000"),
    ("lb-method", "LEAST_CONNECTIONS"),
    ("proxy-protocol", "v2"),
    ("x-forwarded-for", "false"),
    ("timeout-client-data", "60000"),
    ("timeout-member-connect", "6000"),
    ("timeout-member-data", "61000"),
    ("timeout-tcp-inspect", "10"),
    ("enable-health-monitor", "true"),
    ("health-monitor-delay", "7"),
    ("health-monitor-timeout", "4"),
    ("health-monitor-max-retries", "2"),
    ("health-monitor-max-retries-down", "4"),
    ("flavor-id", "for a new one"),
    ("availability-zone", "for a new one"),
    ("hostname", ""),
];

const RANGES: (&str, &str) = ("service.beta.kubernetes.io/load-balancer-source-ranges", "10.0.0.0/8, 192.0.2.0/24");
const INTERNAL: (&str, &str) = ("service.beta.kubernetes.io/openstack-internal-load-balancer", "true");

/// Of others. A value of nothing is one that is known only later.
const OTHERS: [(&str, &str); 4] = [
    ("default-tls-container-ref", ""),
    ("x-forwarded-for", "true"),
    ("hostname", "web.example.com"),
    ("node-selector", "role=edge"),
];

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn all_that_the_go_manager_has_left_is_taken_over_without_a_write_to_the_cloud() {
    let rig = Rig::new().await;
    let client = rig.client();
    let secret = certificate(&rig).await;
    let servers = rig.tenant.boot(["n1", "n2"]).await.unwrap();
    let empty = rig.tenant.inventory().await.unwrap();
    let go = Go { rig: &rig, servers };
    go.nodes().await;

    let shop = SHOP.map(|(name, value)| {
        let value = match value {
            "NETWORK" => &rig.tenant.network,
            "SUBNET" => &rig.tenant.subnet,
            value => value,
        };
        (format!("{PREFIX}{name}"), json!(value))
    });
    let annotations: Value =
        shop.into_iter().chain([(RANGES.0.to_owned(), json!(RANGES.1))]).collect::<serde_json::Map<_, _>>().into();
    let spec = json!({
        "ports": [{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }], "sessionAffinity": "ClientIP",
    });
    let listener = json!({
        "protocol": "TCP", "connection_limit": 1000, "timeout_client_data": 60000, "timeout_member_connect": 6000,
        "timeout_member_data": 61000, "timeout_tcp_inspect": 10, "allowed_cidrs": ["192.0.2.0/24", "10.0.0.0/8"],
    });
    let pool = json!({ "protocol": "PROXYV2", "lb_algorithm": "LEAST_CONNECTIONS", "session_persistence": { "type": "SOURCE_IP" } });
    let monitor = json!({ "type": "TCP", "delay": 7, "timeout": 4, "max_retries": 2, "max_retries_down": 4 });
    let port = Port { listener, pool, monitor };
    let shop = go.service("shop", json!({ "metadata": { "annotations": annotations }, "spec": spec })).await;
    let balancer = go.balancer(&shop, &[port.clone(), port], json!({})).await;
    let address = go.floating_ip("shop", &balancer).await;
    go.written_down(&shop, &balancer, &address, json!({ "ip": address, "ipMode": "Proxy" })).await;

    // On the same one.
    let mut differs = annotated([("loadbalancer.openstack.org/node-selector", "role=edge")]);
    crate::service_look::merge(&mut differs, json!({ "spec": { "ports": [{ "port": 8443 }] } }));
    let api = go.service("api", differs).await;
    go.share(&api, &balancer).await;
    go.written_down(&api, &balancer, &address, json!({ "ip": address, "ipMode": "VIP" })).await;

    let mut differs = annotated([INTERNAL]);
    let spec = json!({
        "ports": [{ "name": "udp", "port": 53, "protocol": "UDP" }, { "name": "tcp", "port": 53 }],
        "externalTrafficPolicy": "Local", "loadBalancerIP": "10.1.0.200",
    });
    crate::service_look::merge(&mut differs, json!({ "spec": spec }));
    let dns = go.service("dns", differs).await;
    let of = |protocol: &str| Port {
        listener: json!({ "protocol": protocol }),
        pool: json!({ "protocol": protocol }),
        monitor: json!({ "type": "HTTP", "url_path": "/healthz", "http_method": "GET", "expected_codes": "200" }),
    };
    let balancer = go.balancer(&dns, &[of("UDP"), of("TCP")], json!({ "vip_address": "10.1.0.200" })).await;
    go.written_down(&dns, &balancer, "10.1.0.200", json!({ "ip": "10.1.0.200", "ipMode": "VIP" })).await;

    let (_, path) = secret.split_once("/v1/").unwrap();
    // As the host sees it.
    let reference = format!("{}/v1/{path}", rig.proxy.address("key-manager"));
    let [tls, forwarded, name] = [("default-tls-container-ref", &*reference), OTHERS[1], OTHERS[2]]
        .map(|(key, value)| (format!("{PREFIX}{key}"), value));
    let mut differs = annotated([(&*tls.0, tls.1), (&*forwarded.0, forwarded.1), (&*name.0, name.1)]);
    crate::service_look::merge(&mut differs, json!({ "spec": { "ports": [{ "port": 443 }] } }));
    let web = go.service("web", differs).await;
    let port = Port {
        listener: json!({ "protocol": "TERMINATED_HTTPS", "default_tls_container_ref": secret, "insert_headers": { "X-Forwarded-For": "true" } }),
        pool: json!({ "protocol": "HTTP" }),
        monitor: json!({ "type": "TCP" }),
    };
    let balancer = go.balancer(&web, &[port], json!({})).await;
    let address = go.floating_ip("web", &balancer).await;
    go.written_down(&web, &balancer, &address, json!({ "hostname": "web.example.com" })).await;

    // Migration by proof: the plan against the Go manager's cluster is empty.
    let sections = rig.tenant.sections("manage-security-groups = true\ncreate-monitor = true\n").unwrap();
    let class =
        format!("[LoadBalancerClass \"dmz\"]\nfloating-network-id = {}\n", rig.lab.said("public_network").unwrap());
    let config = rig.configure(&rig.tenant.by_credential(), &format!("{sections}{class}"));
    let before = rig.tenant.inventory().await.unwrap();
    rig.flags_of(&rig.stage, &config, &FLAGS);
    rig.settled_but_for_notes().await;
    let host = rig.start(&config, &FLAGS);
    for name in ["shop", "api", "dns", "web"] {
        await_service(client, name, is_taken_over).await;
    }
    host.await_count("ccm_routes", &["state=\"in_place\""], LIMIT, |routes| routes == 2.0).await.unwrap();
    host.refreshed().await;
    let writes: Vec<_> = rig.proxy.exchanges().into_iter().filter(ccm_e2e::openstack_lab::Exchange::is_write).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(rig.tenant.inventory().await.unwrap(), before);
    rig.settled().await;

    // The tags come with the first change.
    change(client, "dns", &annotated([("loadbalancer.openstack.org/connection-limit", "7")])).await;
    let tag = format!("kubernetes.io/service-uid/{}", dns.metadata.uid.as_ref().unwrap());
    let listeners =
        async || rig.tenant.list("load-balancer", &format!("/v2.0/lbaas/listeners?tags={tag}"), "listeners").await;
    until(LIMIT, async || Ok(listeners().await?.iter().filter(|one| one["connection_limit"] == 7).count() == 2))
        .await
        .unwrap();
    await_served(client, "dns").await;
    rig.settled().await;
    for name in ["shop", "api", "dns", "web"] {
        delete(client, name).await;
    }
    for name in ["n1", "n2"] {
        nodes(client).delete(name, &DeleteParams::default()).await.unwrap();
    }
    until(LIMIT, async || Ok(rig.tenant.inventory().await? == empty)).await.unwrap();
    rig.tenant.user.delete("key-manager", &format!("/v1/{path}")).await.unwrap();
    rig.end(host).await;
}

fn is_taken_over(service: &Service) -> bool {
    let is_ready = readiness(service).is_some_and(|ready| (ready.0, ready.1) == ("True", "Ensured"));
    is_ready && recorded(service).is_some_and(|record| record.status == "True")
}

/// What the component would not read of the Services above, nobody would miss there.
#[tokio::test]
async fn the_services_of_the_go_manager_carry_each_annotation_that_the_component_declares() {
    let component = component("providers/openstack.wasm").unwrap();
    let asked =
        Command::new(program().unwrap()).arg("inspect").arg(component).arg("--output=json").output().await.unwrap();
    let seen: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let declared: Vec<&str> =
        seen["descriptor"]["annotations"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    // The last one is ours alone.
    let known = ["load-balancer-id", "load-balancer-address", "recreate-on-error"];
    let carried = |name: &str| {
        let own = name.strip_prefix(PREFIX).unwrap_or_default();
        let is_listed = SHOP.iter().chain(&OTHERS).any(|one| one.0 == own);
        is_listed || known.contains(&own) || [RANGES.0, INTERNAL.0].contains(&name)
    };
    let missing: Vec<&str> = declared.iter().copied().filter(|name| !carried(name)).collect();
    assert_eq!((missing, declared.len() > 30), (vec![], true), "{declared:?}");
}
