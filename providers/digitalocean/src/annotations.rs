//! Names of annotations on Services. They are those of the Go manager, so that Services need no change.

use ccm_sdk::describe;
use ccm_sdk::meta::Annotation;

use crate::kind::{Algorithm, HealthProtocol, Kind, Network, Protocol, Size, Stack, Sticky};

ccm_sdk::annotations! {
    prefix "service.beta.kubernetes.io/do-loadbalancer-";
    /// Name in the account. Default: `a` and the Service's UID.
    pub(crate) NAME = "name": Text;
    /// Kind of load balancer. It cannot be changed later. Default: the setting `default-lb-type`.
    pub(crate) TYPE = "type": Text in Kind::ALL;
    /// Whether it can be reached from outside, or from its VPC only. It cannot be changed later.
    pub(crate) NETWORK = "network": Text = "EXTERNAL" in Network::ALL;
    /// Whether it also has an IPv6 address. It cannot be changed later. Default: what the type and the nodes allow.
    pub(crate) NETWORK_STACK = "network-stack": Text in Stack::ALL;
    /// An unassigned IPv4 address of the account, for a new load balancer.
    pub(crate) IP = "ip": Text;
    /// Subnet of the VPC. It cannot be changed later.
    pub(crate) SUBNET = "subnet-uuid": Text;
    /// Host name that the status shows instead of the addresses.
    pub(crate) HOSTNAME = "hostname": Text;
    /// Protocol of the ports that no other annotation names.
    pub(crate) PROTOCOL = "protocol": Text = "tcp" in Protocol::ALL;
    /// Service ports with HTTP.
    pub(crate) HTTP_PORTS = "http-ports": PortList;
    /// Service ports with HTTPS. Default: 443 with a certificate or pass-through.
    pub(crate) TLS_PORTS = "tls-ports": PortList;
    /// Service ports with HTTP/2.
    pub(crate) HTTP2_PORTS = "http2-ports": PortList;
    /// The Service port with HTTP/3.
    pub(crate) HTTP3_PORT = "http3-port": Integer;
    /// Whether TLS ends in the pods.
    pub(crate) TLS_PASSTHROUGH = "tls-passthrough": Boolean = "false";
    /// ID of the certificate.
    pub(crate) CERTIFICATE_ID = "certificate-id": Text;
    /// Name of the certificate. Use it for certificates that are renewed, because their IDs change.
    pub(crate) CERTIFICATE_NAME = "certificate-name": Text;
    /// Whether HTTP on port 80 is redirected to HTTPS on port 443.
    pub(crate) REDIRECT = "redirect-http-to-https": Boolean = "false";
    /// Whether to make no DNS records for certificates of Let's Encrypt.
    pub(crate) NO_DNS_RECORDS = "disable-lets-encrypt-dns-records": Boolean = "false";
    /// If present, port, path and protocol of the health check come from the annotations.
    pub(crate) OVERRIDE_HEALTH_CHECK = "override-health-check": Text;
    /// The Service port whose node port is checked. Default: the first TCP port. Needs the override.
    pub(crate) HEALTH_PORT = "healthcheck-port": Integer;
    /// Path of the check. Needs the override.
    pub(crate) HEALTH_PATH = "healthcheck-path": Text;
    /// Protocol of the check. Default: tcp, or http with a path. Needs the override.
    pub(crate) HEALTH_PROTOCOL = "healthcheck-protocol": Text in HealthProtocol::ALL;
    /// Seconds between two checks; 3 to 300.
    pub(crate) HEALTH_INTERVAL = "healthcheck-check-interval-seconds": Integer = "3";
    /// Seconds until a check fails; 3 to 300.
    pub(crate) HEALTH_TIMEOUT = "healthcheck-response-timeout-seconds": Integer = "5";
    /// Failed checks after which a node gets no traffic; 2 to 10.
    pub(crate) HEALTH_UNHEALTHY = "healthcheck-unhealthy-threshold": Integer = "3";
    /// Good checks after which a node gets traffic again; 2 to 10.
    pub(crate) HEALTH_HEALTHY = "healthcheck-healthy-threshold": Integer = "5";
    /// Without effect: DigitalOcean ignores it.
    pub(crate) ALGORITHM = "algorithm": Text = "round_robin" in Algorithm::ALL;
    /// Size by name, in regions without size units. Not with a size unit.
    pub(crate) SIZE_SLUG = "size-slug": Text in Size::ALL;
    /// Size as a number of nodes; 1 to 100.
    pub(crate) SIZE_UNIT = "size-unit": Integer;
    /// Whether a client stays with one node.
    pub(crate) STICKY_TYPE = "sticky-sessions-type": Text = "none" in Sticky::ALL;
    /// Name of the cookie.
    pub(crate) STICKY_NAME = "sticky-sessions-cookie-name": Text;
    /// Lifetime of the cookie in seconds.
    pub(crate) STICKY_TTL = "sticky-sessions-cookie-ttl": Integer;
    /// Whether nodes get the PROXY protocol.
    pub(crate) PROXY_PROTOCOL = "enable-proxy-protocol": Boolean = "false";
    /// Whether connections to nodes stay open.
    pub(crate) KEEPALIVE = "enable-backend-keepalive": Boolean = "false";
    /// Seconds until an idle HTTP connection ends; 30 to 600. Default of DigitalOcean: 60.
    pub(crate) IDLE_TIMEOUT = "http-idle-timeout-seconds": Integer;
    /// Clients that are refused: `ip:ADDRESS` or `cidr:NETWORK`, comma-separated.
    pub(crate) DENY_RULES = "deny-rules": Text;
    /// Clients that are allowed, in the same form. `spec.loadBalancerSourceRanges` takes precedence.
    pub(crate) ALLOW_RULES = "allow-rules": Text;
}

/// Those that are written in full.
mod full {
    ccm_sdk::annotations! {
        prefix "";
        /// The ID of the load balancer. Set it on a new Service to take over a load balancer.
        pub(crate) ID = "kubernetes.digitalocean.com/load-balancer-id": Text, Both;
        /// Leaves the load balancer alone from now on.
        pub(crate) DISOWN = "service.kubernetes.io/do-loadbalancer-disown": Boolean = "false";
        /// Whether the Service's ports are opened in the public access firewall.
        pub(crate) FIREWALL_MANAGED = "kubernetes.digitalocean.com/firewall-managed": Boolean = "true";
    }
}
pub(crate) use self::full::{DISOWN, FIREWALL_MANAGED, ID};

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

/// All that the host should hand over. It tells of misspelt ones itself.
pub(crate) fn all() -> Vec<Annotation> {
    describe::annotations(&[ALL, full::ALL].concat())
}
