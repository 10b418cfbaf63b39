//! Names of annotations on Services. They are those of the Go manager, so that Services need no change.

use ccm_sdk::describe;
use ccm_sdk::meta::Annotation;

ccm_sdk::annotations! {
    prefix "loadbalancer.openstack.org/";
    /// Name of a `[LoadBalancerClass]` of the configuration.
    pub(crate) CLASS = "class": Text;
    /// ID of the load balancer. Set it to share the load balancer of another Service, or to take one over.
    pub(crate) ID = "load-balancer-id": Text, Both;
    /// The address that was published last.
    pub(crate) ADDRESS = "load-balancer-address": Text, Written;
    /// External network of the floating IP. Default: the class, then `floating-network-id`, then the one that there is.
    pub(crate) FLOATING_NETWORK = "floating-network-id": Text;
    /// Subnet of the external network.
    pub(crate) FLOATING_SUBNET_ID = "floating-subnet-id": Text;
    /// Pattern of names of subnets of the external network: `public-*`, `~regular expression`, with `!` those that do not match.
    pub(crate) FLOATING_SUBNET = "floating-subnet": Text;
    /// Tags of subnets of the external network: `a,b` has one of them, `&a,b` both, `!a,b` none.
    pub(crate) FLOATING_SUBNET_TAGS = "floating-subnet-tags": Text;
    /// Whether the floating IP stays when the load balancer goes, or becomes internal.
    pub(crate) KEEP_FLOATING_IP = "keep-floatingip": Boolean = "false";
    /// Network of the load balancer's address, for a new load balancer.
    pub(crate) NETWORK = "network-id": Text;
    /// Subnet of the load balancer's address, for a new load balancer.
    pub(crate) SUBNET = "subnet-id": Text;
    /// Subnet of the members.
    pub(crate) MEMBER_SUBNET = "member-subnet-id": Text;
    /// A port that is there, for the address of a new load balancer.
    pub(crate) PORT = "port-id": Text;
    /// Most connections of each listener; -1 is no limit.
    pub(crate) CONNECTION_LIMIT = "connection-limit": Integer = "-1";
    /// How members are chosen: `ROUND_ROBIN`, `LEAST_CONNECTIONS`, `SOURCE_IP`; `SOURCE_IP_PORT` with Octavia's driver `ovn`.
    pub(crate) METHOD = "lb-method": Text;
    /// Whether members get the PROXY protocol, and in which version.
    pub(crate) PROXY_PROTOCOL = "proxy-protocol": Text = "false" in &["true", "false", "v1", "v2"];
    /// Whether requests get the header X-Forwarded-For: listeners speak HTTP.
    pub(crate) X_FORWARDED_FOR = "x-forwarded-for": Boolean = "false";
    /// The container or secret of Barbican that TLS ends with.
    pub(crate) TLS_CONTAINER = "default-tls-container-ref": Text;
    /// Milliseconds until a client that sends nothing is cut off.
    pub(crate) TIMEOUT_CLIENT_DATA = "timeout-client-data": Integer = "50000";
    /// Milliseconds for a connection to a member.
    pub(crate) TIMEOUT_MEMBER_CONNECT = "timeout-member-connect": Integer = "5000";
    /// Milliseconds until a member that sends nothing is cut off.
    pub(crate) TIMEOUT_MEMBER_DATA = "timeout-member-data": Integer = "50000";
    /// Milliseconds to wait for more packets for content inspection.
    pub(crate) TIMEOUT_TCP_INSPECT = "timeout-tcp-inspect": Integer = "0";
    /// Whether members are watched. Default: `create-monitor`.
    pub(crate) MONITOR = "enable-health-monitor": Boolean;
    /// Seconds between two checks.
    pub(crate) MONITOR_DELAY = "health-monitor-delay": Integer = "5";
    /// Seconds until a check fails; less than the delay.
    pub(crate) MONITOR_TIMEOUT = "health-monitor-timeout": Integer = "3";
    /// Good checks until a member gets traffic again; 1 to 10.
    pub(crate) MONITOR_MAX_RETRIES = "health-monitor-max-retries": Integer = "1";
    /// Failed checks until a member gets none; 1 to 10.
    pub(crate) MONITOR_MAX_RETRIES_DOWN = "health-monitor-max-retries-down": Integer = "3";
    /// Flavor of Octavia, for a new load balancer.
    pub(crate) FLAVOR = "flavor-id": Text;
    /// Availability zone of Octavia, for a new load balancer.
    pub(crate) AVAILABILITY_ZONE = "availability-zone": Text;
    /// Host name that the status shows instead of the address.
    pub(crate) HOSTNAME = "hostname": Text;
    /// Labels of the Nodes that become members: `key=value,key`.
    pub(crate) NODE_SELECTOR = "node-selector": Text;
    /// Whether a load balancer in ERROR is deleted and made anew. Its address changes, but for a floating IP.
    pub(crate) RECREATE = "recreate-on-error": Boolean = "false";
}

/// Those of Kubernetes.
mod full {
    ccm_sdk::annotations! {
        prefix "service.beta.kubernetes.io/";
        /// Whether the load balancer has no floating IP. Default: `internal-lb`.
        pub(crate) INTERNAL = "openstack-internal-load-balancer": Boolean;
        /// Networks of clients that are let in, where `spec.loadBalancerSourceRanges` has none.
        pub(crate) SOURCE_RANGES = "load-balancer-source-ranges": CidrList;
    }
}
pub(crate) use self::full::{INTERNAL, SOURCE_RANGES};

/// All that the host should hand over. It tells of misspelt ones itself.
pub(crate) fn all() -> Vec<Annotation> {
    describe::annotations(&[ALL, full::ALL].concat())
}
