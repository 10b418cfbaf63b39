//! What the API refuses of a load balancer that its document allows.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use super::{BalancerSpec, Certificate, CertificateState, Cloud, ForwardingRule, Reply};

/// Ports that the cloud keeps for itself.
const RESERVED: std::ops::RangeInclusive<u32> = 50_053..=50_055;

fn refused(message: impl Into<String>) -> Result<(), Reply> {
    Err(Reply::refused(422, message))
}

impl Cloud {
    /// Whether a load balancer can be so. `own`: the ID of one that exists.
    pub(super) fn check_balancer(&self, spec: &BalancerSpec, own: Option<&str>) -> Result<(), Reply> {
        if spec.name.is_empty() {
            return refused("name is required");
        }
        let mut others = self.balancers.all().filter(|other| own != Some(other.id.as_str()));
        if others.any(|other| other.spec.name == spec.name) {
            return refused("There is already a load balancer with that name");
        }
        if !self.region(&spec.region).is_some_and(|region| region.available) {
            return refused(format!("region {:?} is not available", spec.region));
        }
        if !self.vpcs.iter().any(|vpc| vpc.id == spec.vpc_uuid && vpc.region == spec.region) {
            return refused(format!("VPC {:?} is not in region {}", spec.vpc_uuid, spec.region));
        }
        if let Some(project) = spec.project_id.as_ref().filter(|project| !self.projects.contains(project)) {
            return refused(format!("project_id {project:?} is invalid"));
        }
        self.check_rules(spec)?;
        self.check_droplets(spec)?;
        check_health(spec)?;
        let sticky = &spec.sticky_sessions;
        if sticky.kind == "cookies" && (sticky.cookie_name.is_none() || sticky.cookie_ttl_seconds.is_none()) {
            return refused("sticky sessions of type cookies need cookie_name and cookie_ttl_seconds");
        }
        for rule in spec.firewall.allow.iter().chain(&spec.firewall.deny) {
            if !is_source(rule) {
                return refused(format!("firewall rule {rule:?} is invalid"));
            }
        }
        self.check_address(spec, own)
    }

    fn check_rules(&self, spec: &BalancerSpec) -> Result<(), Reply> {
        if spec.forwarding_rules.is_empty() {
            return refused("at least one forwarding rule is required");
        }
        let mut taken = HashSet::new();
        for rule in &spec.forwarding_rules {
            if rule.entry_port == 0 || rule.entry_port > 65_535 || RESERVED.contains(&rule.entry_port) {
                return refused("entry port is invalid");
            }
            if rule.target_port == 0 || rule.target_port > 65_535 {
                return refused("target port is invalid");
            }
            if !taken.insert((transport(&rule.entry_protocol), rule.entry_port)) {
                return refused(format!("entry port {} is used twice", rule.entry_port));
            }
            let is_plain = |protocol: &str| matches!(protocol, "tcp" | "udp");
            let is_network = spec.kind == "REGIONAL_NETWORK";
            if is_network && !(is_plain(&rule.entry_protocol) && is_plain(&rule.target_protocol)) {
                return refused("a network load balancer only forwards tcp and udp");
            }
            if (rule.entry_protocol == "udp") != (rule.target_protocol == "udp") {
                return refused("udp is forwarded to udp, and nothing else is");
            }
            self.check_tls(rule)?;
        }
        Ok(())
    }

    fn check_tls(&self, rule: &ForwardingRule) -> Result<(), Reply> {
        let is_tls = matches!(rule.entry_protocol.as_str(), "https" | "http2" | "http3");
        let has_certificate = !rule.certificate_id.is_empty();
        match (is_tls, has_certificate, rule.tls_passthrough) {
            (true, false, false) => refused("certificate_id or tls_passthrough is required"),
            (true, true, true) => refused("certificate_id and tls_passthrough exclude each other"),
            (false, true, _) | (false, _, true) => refused("only TLS has certificate_id or tls_passthrough"),
            // As in production: it reads as if the load balancer were not there.
            (true, true, false) => match self.certificates.get(rule.certificate_id.as_str()) {
                None => Err(Reply::refused(404, "certificate not found")),
                Some(Certificate { state: CertificateState::Verified, .. }) => Ok(()),
                // Assumed of production.
                Some(Certificate { name, .. }) => refused(format!("certificate {name:?} is not verified")),
            },
            _ => Ok(()),
        }
    }

    fn check_droplets(&self, spec: &BalancerSpec) -> Result<(), Reply> {
        let mut seen = HashSet::new();
        for id in &spec.droplet_ids {
            let Some(droplet) = self.droplets.get(id) else {
                return refused(format!("droplet {id} does not exist"));
            };
            if !seen.insert(id) {
                return refused(format!("droplet {id} is there twice"));
            }
            if droplet.region != spec.region || droplet.vpc_of(self) != Some(spec.vpc_uuid.as_str()) {
                return refused(
                    "some of the specified target droplets don't belong to the same VPC as the Load Balancer",
                );
            }
        }
        Ok(())
    }

    fn check_address(&self, spec: &BalancerSpec, own: Option<&str>) -> Result<(), Reply> {
        let Some(ip) = spec.ip.as_deref().filter(|ip| !ip.is_empty()) else { return Ok(()) };
        let Ok(ip) = ip.parse::<Ipv4Addr>() else { return refused(format!("ip {ip:?} is invalid")) };
        if self.balancers.all().any(|other| other.ip == ip && own != Some(other.id.as_str())) {
            return refused(format!("ip {ip} is in use"));
        }
        Ok(())
    }
}

fn check_health(spec: &BalancerSpec) -> Result<(), Reply> {
    let check = &spec.health_check;
    if check.port == 0 || check.port > 65_535 {
        return refused("health check port is invalid");
    }
    for (name, seconds) in [
        ("check_interval_seconds", check.check_interval_seconds),
        ("response_timeout_seconds", check.response_timeout_seconds),
    ] {
        if !(3..=300).contains(&seconds) {
            return refused(format!("health check {name} must be between 3 and 300"));
        }
    }
    for (name, times) in
        [("unhealthy_threshold", check.unhealthy_threshold), ("healthy_threshold", check.healthy_threshold)]
    {
        if !(2..=10).contains(&times) {
            return refused(format!("health check {name} must be between 2 and 10"));
        }
    }
    Ok(())
}

fn transport(protocol: &str) -> &'static str {
    if matches!(protocol, "udp" | "http3") { "udp" } else { "tcp" }
}

fn is_source(rule: &str) -> bool {
    match rule.split_once(':') {
        Some(("ip", ip)) => ip.parse::<IpAddr>().is_ok(),
        Some(("cidr", net)) => net.split_once('/').is_some_and(|(ip, length)| {
            let most = match ip.parse::<IpAddr>() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            length.parse::<u8>().is_ok_and(|length| length <= most)
        }),
        _ => false,
    }
}
