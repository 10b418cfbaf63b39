//! Names of annotations on Services. They are those of the Go manager, so that Services need no change.

use ccm_sdk::meta::{Annotation, AnnotationRole, ValueKind};

/// Begins all names but those written in full.
pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/do-loadbalancer-";

macro_rules! prefixed {
    ($(#[doc = $doc:literal] $name:ident = $suffix:literal, $kind:ident, [$($allowed:literal),*], $default:expr;)*) => {
        $(#[doc = $doc] pub(crate) const $name: &str = concat!("service.beta.kubernetes.io/do-loadbalancer-", $suffix);)*

        fn prefixed() -> Vec<Annotation> {
            vec![$(annotation($name, $doc.trim(), ValueKind::$kind, &[$($allowed),*], $default)),*]
        }
    };
}

/// The load balancer's ID. Set by people to take over a load balancer, written when one was made.
pub(crate) const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";
/// Leaves the load balancer alone.
pub(crate) const DISOWN: &str = "service.kubernetes.io/do-loadbalancer-disown";
/// Whether node ports are opened in the public access firewall.
pub(crate) const FIREWALL_MANAGED: &str = "kubernetes.digitalocean.com/firewall-managed";

prefixed! {
    /// Name in the account. Default: `a` and the Service's UID.
    NAME = "name", Text, [], None;
    /// Kind of load balancer. It cannot be changed later. Default: the setting `default-lb-type`.
    TYPE = "type", Text, ["REGIONAL", "REGIONAL_NETWORK"], None;
    /// Whether it can be reached from outside, or from its VPC only. It cannot be changed later.
    NETWORK = "network", Text, ["EXTERNAL", "INTERNAL"], Some("EXTERNAL");
    /// Whether it also has an IPv6 address. It cannot be changed later. Default: what the type and the nodes allow.
    NETWORK_STACK = "network-stack", Text, ["IPV4", "DUALSTACK"], None;
    /// An unassigned IPv4 address of the account, for a new load balancer.
    IP = "ip", Text, [], None;
    /// Subnet of the VPC.
    SUBNET = "subnet-uuid", Text, [], None;
    /// Host name that the status shows instead of the addresses.
    HOSTNAME = "hostname", Text, [], None;
    /// Protocol of the ports that no other annotation names.
    PROTOCOL = "protocol", Text, ["tcp", "http", "https", "http2"], Some("tcp");
    /// Service ports with HTTP.
    HTTP_PORTS = "http-ports", PortList, [], None;
    /// Service ports with HTTPS. Default: 443 with a certificate or pass-through.
    TLS_PORTS = "tls-ports", PortList, [], None;
    /// Service ports with HTTP/2.
    HTTP2_PORTS = "http2-ports", PortList, [], None;
    /// The Service port with HTTP/3.
    HTTP3_PORT = "http3-port", Integer, [], None;
    /// Whether TLS ends in the pods.
    TLS_PASSTHROUGH = "tls-passthrough", Boolean, [], Some("false");
    /// ID of the certificate.
    CERTIFICATE_ID = "certificate-id", Text, [], None;
    /// Name of the certificate. Use it for certificates that are renewed, because their IDs change.
    CERTIFICATE_NAME = "certificate-name", Text, [], None;
    /// Whether HTTP on port 80 is redirected to HTTPS on port 443.
    REDIRECT = "redirect-http-to-https", Boolean, [], Some("false");
    /// Whether to make no DNS records for certificates of Let's Encrypt.
    NO_DNS_RECORDS = "disable-lets-encrypt-dns-records", Boolean, [], Some("false");
    /// If present, port, path and protocol of the health check come from the annotations.
    OVERRIDE_HEALTH_CHECK = "override-health-check", Text, [], None;
    /// The Service port whose node port is checked. Default: the first TCP port. Needs the override.
    HEALTH_PORT = "healthcheck-port", Integer, [], None;
    /// Path of the check. Needs the override.
    HEALTH_PATH = "healthcheck-path", Text, [], None;
    /// Protocol of the check. Default: tcp, or http with a path. Needs the override.
    HEALTH_PROTOCOL = "healthcheck-protocol", Text, ["tcp", "http", "https"], None;
    /// Seconds between two checks; 3 to 300.
    HEALTH_INTERVAL = "healthcheck-check-interval-seconds", Integer, [], Some("3");
    /// Seconds until a check fails; 3 to 300.
    HEALTH_TIMEOUT = "healthcheck-response-timeout-seconds", Integer, [], Some("5");
    /// Failed checks after which a node gets no traffic; 2 to 10.
    HEALTH_UNHEALTHY = "healthcheck-unhealthy-threshold", Integer, [], Some("3");
    /// Good checks after which a node gets traffic again; 2 to 10.
    HEALTH_HEALTHY = "healthcheck-healthy-threshold", Integer, [], Some("5");
    /// Without effect: DigitalOcean ignores it.
    ALGORITHM = "algorithm", Text, ["round_robin", "least_connections"], Some("round_robin");
    /// Size by name, in regions without size units. Not with a size unit.
    SIZE_SLUG = "size-slug", Text, ["lb-small", "lb-medium", "lb-large"], None;
    /// Size as a number of nodes; 1 to 100.
    SIZE_UNIT = "size-unit", Integer, [], None;
    /// Whether a client stays with one node.
    STICKY_TYPE = "sticky-sessions-type", Text, ["cookies", "none"], Some("none");
    /// Name of the cookie.
    STICKY_NAME = "sticky-sessions-cookie-name", Text, [], None;
    /// Lifetime of the cookie in seconds.
    STICKY_TTL = "sticky-sessions-cookie-ttl", Integer, [], None;
    /// Whether nodes get the PROXY protocol.
    PROXY_PROTOCOL = "enable-proxy-protocol", Boolean, [], Some("false");
    /// Whether connections to nodes stay open.
    KEEPALIVE = "enable-backend-keepalive", Boolean, [], Some("false");
    /// Seconds until an idle HTTP connection ends; 30 to 600. Default of DigitalOcean: 60.
    IDLE_TIMEOUT = "http-idle-timeout-seconds", Integer, [], None;
    /// Clients that are refused: `ip:ADDRESS` or `cidr:NETWORK`, comma-separated.
    DENY_RULES = "deny-rules", Text, [], None;
    /// Clients that are allowed, in the same form. `spec.loadBalancerSourceRanges` takes precedence.
    ALLOW_RULES = "allow-rules", Text, [], None;
}

/// Those that only REGIONAL load balancers have. The Go manager never reads what they say of another's ports, and another has none
/// of the rest.
pub(crate) const REGIONAL_ONLY: [&str; 16] = [
    PROTOCOL,
    HTTP_PORTS,
    TLS_PORTS,
    HTTP2_PORTS,
    HTTP3_PORT,
    TLS_PASSTHROUGH,
    CERTIFICATE_ID,
    CERTIFICATE_NAME,
    REDIRECT,
    STICKY_TYPE,
    STICKY_NAME,
    STICKY_TTL,
    PROXY_PROTOCOL,
    KEEPALIVE,
    NO_DNS_RECORDS,
    IDLE_TIMEOUT,
];

/// All that the host should hand over.
pub(crate) fn all() -> Vec<Annotation> {
    let mut all = prefixed();
    all.push(Annotation {
        role: AnnotationRole::Both,
        ..annotation(
            ID,
            "The ID of the load balancer. Set it on a new Service to take over a load balancer.",
            ValueKind::Text,
            &[],
            None,
        )
    });
    all.push(annotation(DISOWN, "Leaves the load balancer alone from now on.", ValueKind::Boolean, &[], Some("false")));
    all.push(annotation(
        FIREWALL_MANAGED,
        "Whether the Service's ports are opened in the public access firewall.",
        ValueKind::Boolean,
        &[],
        Some("true"),
    ));
    // Misspelt ones must arrive, or nobody can be told about them.
    let rest = format!("{PREFIX}*");
    all.push(annotation(
        &rest,
        "Unknown annotations with this prefix: a warning names them.",
        ValueKind::Text,
        &[],
        None,
    ));
    all
}

/// Those that begin like ours and are none.
pub(crate) fn is_unknown(name: &str) -> bool {
    name.starts_with(PREFIX) && !prefixed().iter().any(|known| known.name == name)
}

fn annotation(name: &str, purpose: &str, kind: ValueKind, allowed: &[&str], default: Option<&str>) -> Annotation {
    Annotation {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        kind,
        default_value: default.map(str::to_owned),
        allowed: allowed.iter().map(|&value| value.to_owned()).collect(),
        role: AnnotationRole::Asked,
    }
}
