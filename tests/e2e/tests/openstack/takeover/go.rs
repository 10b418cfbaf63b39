//! The Go manager, as far as what it leaves behind.

use ccm_cluster::NodeFixture;
use ccm_e2e::openstack_lab::{Server, id, until};
use http::Method;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::look::{PAIRS, create, nodes, with_addresses};
use crate::rig::Rig;
use crate::service_look::{FINALIZER, merge, serve, services};
use crate::stage::LIMIT;

const BALANCERS: &str = "/v2.0/lbaas/loadbalancers";

/// What it sends for one port of a Service, but for names, numbers, tags, members, and what it sends for every one.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) listener: Value,
    pub(super) pool: Value,
    pub(super) monitor: Value,
}

pub(super) struct Go<'r> {
    pub(super) rig: &'r Rig,
    pub(super) servers: [Server; 2],
}

fn named(service: &str) -> String {
    format!("kube_service_kubernetes_default_{service}")
}

fn with(mut value: Value, more: &Value) -> Value {
    merge(&mut value, more.clone());
    value
}

impl Go<'_> {
    /// Nodes that are initialised, with routes to their pods. The first one is an edge.
    pub(super) async fn nodes(&self) {
        for (number, server) in (1..).zip(&self.servers) {
            let (name, cidr) = (format!("n{number}"), format!("10.244.{number}.0/24"));
            let mut fixture = NodeFixture::new(&name).initialized().provider_id(&server.provider_id()).pod_cidr(&cidr);
            for ((old, new), value) in PAIRS.into_iter().zip(["m1.lab", "nova", "RegionOne"]) {
                fixture = fixture.label(old, value).label(new, value);
            }
            if number == 1 {
                fixture = fixture.label("role", "edge");
            }
            // The kubelet's host name stays behind what the cloud says.
            let addresses = [format!("InternalIP {}", server.address), format!("Hostname {name}")];
            let node = with_addresses(fixture, &[&addresses[0], &addresses[1]]);
            create(self.rig.client(), &node).await;
            let condition = json!({
                "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
                "message": "RouteController created a route", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            });
            let status = json!({ "status": { "conditions": [condition] } });
            nodes(self.rig.client())
                .patch_status(&name, &PatchParams::default(), &Patch::Strategic(status))
                .await
                .unwrap();
            let route = json!({ "router": { "routes": [{ "destination": cidr, "nexthop": server.address }] } });
            let router = format!("/v2.0/routers/{}/add_extraroutes", self.rig.tenant.router);
            self.send("network", Method::PUT, &router, route).await;
            let pairs = json!({ "port": { "allowed_address_pairs": [{ "ip_address": cidr }] } });
            let port = self.port(server).await;
            self.send("network", Method::PUT, &format!("/v2.0/ports/{}", port["id"].as_str().unwrap()), pairs).await;
        }
    }

    async fn send(&self, service: &str, method: Method, path: &str, body: Value) -> Value {
        self.rig.tenant.user.send(service, method, path, Some(body)).await.unwrap()
    }

    async fn port(&self, server: &Server) -> Value {
        let path = format!("/v2.0/ports?device_id={}", server.id);
        self.rig.tenant.list("network", &path, "ports").await.unwrap().remove(0)
    }

    /// A Service, with its security group.
    pub(super) async fn service(&self, name: &str, differs: Value) -> Service {
        let service = serve(self.rig.client(), name, differs).await;
        let (spec, uid) = (service.spec.as_ref().unwrap(), service.uid().unwrap());
        let user = &self.rig.tenant.user;
        let wish = json!({
            "name": format!("lb-sg-{uid}-default-{name}"),
            "description": format!("Security Group for default/{name} Service LoadBalancer in cluster kubernetes"),
        });
        let group = user.make("network", "/v2.0/security-groups", "security_group", wish).await.unwrap();
        // Those that every new one has.
        for rule in group["security_group_rules"].as_array().unwrap() {
            user.delete("network", &format!("/v2.0/security-group-rules/{}", id(rule).unwrap())).await.unwrap();
        }
        let health = spec.health_check_node_port.map(|port| ("tcp".to_owned(), port));
        let ports = spec.ports.iter().flatten();
        let ports = ports.map(|port| (port.protocol.clone().unwrap().to_lowercase(), port.node_port.unwrap()));
        for (protocol, port) in health.into_iter().chain(ports) {
            let rule = json!({
                "security_group_id": group["id"], "direction": "ingress", "ethertype": "IPv4", "protocol": protocol,
                "port_range_min": port, "port_range_max": port, "remote_ip_prefix": "10.1.0.0/24",
            });
            user.make("network", "/v2.0/security-group-rules", "security_group_rule", rule).await.unwrap();
        }
        for server in self.members(&service) {
            let port = self.port(server).await;
            let mut groups = port["security_groups"].as_array().unwrap().clone();
            groups.push(group["id"].clone());
            let path = format!("/v2.0/ports/{}", id(&port).unwrap());
            self.send("network", Method::PUT, &path, json!({ "port": { "security_groups": groups } })).await;
        }
        service
    }

    /// The machines behind it.
    fn members(&self, service: &Service) -> &[Server] {
        let edge = service.annotations().contains_key("loadbalancer.openstack.org/node-selector");
        if edge { &self.servers[..1] } else { &self.servers }
    }

    /// One listener with all that is behind it.
    fn tree(&self, service: &Service, index: usize, port: &Port) -> Value {
        let spec = service.spec.as_ref().unwrap();
        let of_service = &spec.ports.as_ref().unwrap()[index];
        let own = named(&service.name_any());
        let member = |(number, server): (usize, &Server)| {
            let mut member = json!({
                "name": format!("n{number}"), "address": server.address, "protocol_port": of_service.node_port,
                "subnet_id": self.rig.tenant.subnet,
            });
            if let Some(health) = spec.health_check_node_port {
                merge(&mut member, json!({ "monitor_port": health }));
            }
            member
        };
        let monitor = json!({
            "name": format!("monitor_{index}_{own}"), "delay": 5, "timeout": 3, "max_retries": 1, "max_retries_down": 3,
        });
        let pool = json!({
            "name": format!("pool_{index}_{own}"), "lb_algorithm": "ROUND_ROBIN",
            "members": (1..).zip(self.members(service)).map(member).collect::<Vec<_>>(),
            "healthmonitor": with(monitor, &port.monitor),
        });
        let listener = json!({
            "name": format!("listener_{index}_{own}"), "protocol_port": of_service.port, "connection_limit": -1,
            "timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000,
            "timeout_tcp_inspect": 0, "allowed_cidrs": ["0.0.0.0/0"], "tags": [own], "default_pool": with(pool, &port.pool),
        });
        with(listener, &port.listener)
    }

    /// All of it in one request; returns it when it is there.
    pub(super) async fn balancer(&self, service: &Service, ports: &[Port], more: Value) -> Value {
        let (name, trees) = (service.name_any(), ports.iter().enumerate());
        let wish = json!({
            "name": named(&name), "provider": "amphora", "tags": [named(&name)], "vip_subnet_id": self.rig.tenant.subnet,
            "description": format!("Kubernetes external service default/{name} from cluster kubernetes"),
            "listeners": trees.map(|(index, port)| self.tree(service, index, port)).collect::<Vec<_>>(),
        });
        let user = &self.rig.tenant.user;
        let made = user.make("load-balancer", BALANCERS, "loadbalancer", with(wish, &more)).await.unwrap();
        self.active(&made).await;
        made
    }

    async fn active(&self, balancer: &Value) {
        let path = format!("{BALANCERS}/{}", id(balancer).unwrap());
        let user = &self.rig.tenant.user;
        until(LIMIT, async || {
            Ok(user.get("load-balancer", &path).await?["loadbalancer"]["provisioning_status"] == "ACTIVE")
        })
        .await
        .unwrap();
    }

    /// Its port on the load balancer of another Service: one request for each thing, and a wait after each.
    pub(super) async fn share(&self, service: &Service, balancer: &Value) {
        let user = &self.rig.tenant.user;
        let port = Port {
            listener: json!({ "protocol": "TCP" }),
            pool: json!({ "protocol": "TCP" }),
            monitor: json!({ "type": "TCP" }),
        };
        let mut listener = self.tree(service, 0, &port);
        let mut pool = listener.as_object_mut().unwrap().remove("default_pool").unwrap();
        let members = pool.as_object_mut().unwrap().remove("members").unwrap();
        let mut monitor = pool.as_object_mut().unwrap().remove("healthmonitor").unwrap();
        merge(&mut listener, json!({ "loadbalancer_id": balancer["id"] }));
        let listener = user.make("load-balancer", "/v2.0/lbaas/listeners", "listener", listener).await.unwrap();
        self.active(balancer).await;
        merge(&mut pool, json!({ "listener_id": listener["id"] }));
        let pool = user.make("load-balancer", "/v2.0/lbaas/pools", "pool", pool).await.unwrap();
        self.active(balancer).await;
        let path = format!("/v2.0/lbaas/pools/{}/members", id(&pool).unwrap());
        self.send("load-balancer", Method::PUT, &path, json!({ "members": members })).await;
        self.active(balancer).await;
        merge(&mut monitor, json!({ "pool_id": pool["id"] }));
        user.make("load-balancer", "/v2.0/lbaas/healthmonitors", "healthmonitor", monitor).await.unwrap();
        self.active(balancer).await;
        let mut tags = balancer["tags"].as_array().unwrap().clone();
        tags.push(json!(named(&service.name_any())));
        let path = format!("{BALANCERS}/{}", id(balancer).unwrap());
        self.send("load-balancer", Method::PUT, &path, json!({ "loadbalancer": { "tags": tags } })).await;
        self.active(balancer).await;
    }

    /// On the port of a load balancer; returns the address.
    pub(super) async fn floating_ip(&self, service: &str, balancer: &Value) -> String {
        let wish = json!({
            "floating_network_id": self.rig.lab.said("public_network").unwrap(), "port_id": balancer["vip_port_id"],
            "description": format!("Floating IP for Kubernetes external service default/{service} from cluster kubernetes"),
        });
        let made = self.rig.tenant.user.make("network", "/v2.0/floatingips", "floatingip", wish).await.unwrap();
        made["floating_ip_address"].as_str().unwrap().to_owned()
    }

    /// On the Service: the ID, the address, the finalizer, and where clients go.
    pub(super) async fn written_down(&self, service: &Service, balancer: &Value, address: &str, ingress: Value) {
        let metadata = json!({ "metadata": {
            "annotations": {
                "loadbalancer.openstack.org/load-balancer-id": balancer["id"],
                "loadbalancer.openstack.org/load-balancer-address": address,
            },
            "finalizers": [FINALIZER],
        } });
        let status = json!({ "status": { "loadBalancer": { "ingress": [ingress] } } });
        let (api, name, params) = (services(self.rig.client()), service.name_any(), PatchParams::default());
        api.patch(&name, &params, &Patch::Merge(&metadata)).await.unwrap();
        api.patch_status(&name, &params, &Patch::Merge(&status)).await.unwrap();
    }
}
