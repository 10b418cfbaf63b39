//! A Service and its Nodes, and a controller that sees to them.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Address, AddressKind, Backend, LoadBalancers as _, Outcome, Protocol, Reaction, Service, ServicePort, ServiceType,
};
use ccm_sim_digitalocean::Planned;

use crate::rig::{Rig, skip};

pub(crate) const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

/// The name of an annotation with the prefix that most have.
pub(crate) fn annotation(name: &str) -> String {
    format!("service.beta.kubernetes.io/do-loadbalancer-{name}")
}

/// What a controller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Ensure,
    UpdateBackends,
    Delete,
}

/// What the controller gives up after: cloud time that one task takes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A Service as Kubernetes has it, and the Nodes that are to be behind it.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) service: Service,
    pub(crate) backends: Arc<[Backend]>,
}

impl Wish {
    pub(crate) fn new(name: &str, ports: &[(Protocol, u16)], annotations: &[(&str, &str)]) -> Self {
        let port = |&(protocol, port): &(Protocol, u16)| ServicePort {
            name: format!("p{port}"),
            protocol,
            app_protocol: None,
            port,
            node_port: Some(30_000 + port % 2_000),
        };
        let service = Service {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: format!("{:0>8}-0000-4000-8000-0000000000aa", name.len()),
            kind: ServiceType::LoadBalancer,
            annotations: annotations.iter().map(|(name, value)| (annotation(name), (*value).to_owned())).collect(),
            ports: ports.iter().map(port).collect(),
            ..Service::default()
        };
        Self { service, backends: backends(1..=3) }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.service.annotations.insert(annotation(name), value.to_owned());
    }

    /// The ID of its load balancer, as the Service has it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.service.annotations.get(ID).map(String::as_str)
    }

    /// One call, and what the controller writes down of it.
    pub(crate) async fn call(&mut self, rig: &Rig, call: Call) -> Outcome {
        let (service, backends) = (self.service.clone(), Arc::clone(&self.backends));
        let outcome = match call {
            Call::Ensure => rig.provider.ensure(service, backends).await,
            Call::UpdateBackends => rig.provider.update_backends(service, backends).await,
            Call::Delete => rig.provider.delete(service).await,
        };
        for (name, value) in &outcome.annotations {
            match value {
                Some(value) => drop(self.service.annotations.insert(name.clone(), value.clone())),
                None => drop(self.service.annotations.remove(name)),
            }
        }
        if outcome.failure.is_none() && call != Call::Delete {
            self.service.ingress.clone_from(&outcome.ingress);
        }
        outcome
    }

    /// As the service controller: again and again, after the time that the failure asks for, until it is done. Returns how
    /// often it called.
    pub(crate) async fn until_done(&mut self, rig: &Rig, mut call: Call, mut planned: Option<&mut Planned>) -> usize {
        let (mut waited, mut backoff, mut failures) = (Duration::ZERO, Duration::from_secs(5), vec![]);
        loop {
            let outcome = rig.impatient(planned.as_deref_mut(), self.call(rig, call)).await;
            let Some(failure) = outcome.failure else { return failures.len() + 1 };
            failures.push(failure.clone());
            let asked =
                failure.retry_after.map(|after| after.clamp(Duration::from_secs(1), Duration::from_secs(1_000)));
            let after = match failure.reaction {
                Reaction::Retry | Reaction::Conflict | Reaction::Throttled | Reaction::Pending => {
                    asked.unwrap_or_else(|| {
                        backoff = backoff.saturating_mul(2);
                        backoff
                    })
                }
                other => panic!("{call:?}: {other:?} is nothing that goes by: {failures:#?}"),
            };
            if call == Call::UpdateBackends && failure.reaction != Reaction::Pending {
                // The controller asks whether it is still there, and makes it if not.
                let found = rig.impatient(planned.as_deref_mut(), rig.provider.get(self.service.clone())).await;
                if found == Ok(None) {
                    call = Call::Ensure;
                }
            }
            waited += after;
            assert!(waited < PATIENCE, "{call:?}: not done after {waited:?}: {failures:#?}");
            skip(after).await;
        }
    }
}

/// Nodes of droplets with these IDs.
pub(crate) fn backends(ids: impl Iterator<Item = u64>) -> Arc<[Backend]> {
    let backend = |id: u64| Backend {
        name: format!("node-{id}"),
        provider_id: Some(format!("digitalocean://{id}")),
        addresses: vec![
            Address::new(AddressKind::InternalIp, format!("10.8.0.{id}")),
            Address::new(AddressKind::ExternalIp, format!("198.19.0.{id}")),
        ],
    };
    ids.map(backend).collect()
}

/// A Service with all that ends TLS: a name that is not the default one, HTTP, HTTPS, HTTP/2, HTTP/3, UDP, a health check of its
/// own, cookies, rules for who is let in. The certificate is looked up by name.
pub(crate) fn tls() -> Wish {
    use Protocol::{Tcp, Udp};
    Wish::new(
        "tls",
        &[(Tcp, 80), (Tcp, 443), (Tcp, 8_443), (Tcp, 9_000), (Udp, 5_353)],
        &[
            ("type", "REGIONAL"),
            ("name", "web.example.com"),
            ("http-ports", "80"),
            ("tls-ports", "443"),
            ("http2-ports", "8443"),
            ("http3-port", "443"),
            ("certificate-name", "web"),
            ("redirect-http-to-https", "true"),
            ("override-health-check", "true"),
            ("healthcheck-port", "80"),
            ("healthcheck-path", "/health"),
            ("healthcheck-unhealthy-threshold", "4"),
            ("sticky-sessions-type", "cookies"),
            ("sticky-sessions-cookie-name", "DO-LB"),
            ("sticky-sessions-cookie-ttl", "300"),
            ("size-unit", "2"),
            ("http-idle-timeout-seconds", "90"),
            ("enable-backend-keepalive", "true"),
            ("allow-rules", "ip:192.0.2.7,cidr:10.0.0.0/8"),
            ("deny-rules", "cidr:198.51.100.0/24"),
        ],
    )
}

/// One that passes packets through, with nothing said, and Nodes that have no provider ID yet.
pub(crate) fn network() -> Wish {
    let mut wish = Wish::new("plain", &[(Protocol::Tcp, 80), (Protocol::Udp, 53)], &[]);
    let nameless = |backend: &Backend| Backend { provider_id: None, ..backend.clone() };
    wish.backends = wish.backends.iter().map(nameless).collect();
    wish
}
