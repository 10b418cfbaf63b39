//! Who has which address: the cluster, a Node, a Service. No load balancer and no machine gets what is another's, whatever a provider
//! says: its traffic would go there.
//!
//! | part | knows |
//! |---|---|
//! | this file | what is the cluster's own: ranges, the API server, what is no place in the network |
//! | [`node_holders`] | which Node has an address or a name |
//! | [`service_holders`] | which Service has an address, or is about to get it |
//! | [`server_names`] | the addresses of names by which clients reach the API server |

pub(crate) mod address_target;
mod node_holders;
mod server_names;
mod service_holders;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{AddressRefusal, Ingress};
use http::Request;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use self::node_holders::AddressWrite;
use self::node_holders::NodeIndex;
pub use self::server_names::Lookup;
use self::server_names::ServerNames;
use self::service_holders::Reservations;
use crate::store::Node;

/// How often the API server is asked which addresses are the cluster's.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// The same while it does not say.
const RETRY: Duration = Duration::from_secs(30);
/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The ranges of Services (Kubernetes 1.33 and later).
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// Where the API server says its own addresses.
const SERVERS: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

/// A range of `--service-cluster-ip-range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRange(IpNet);

impl FromStr for ServiceRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse::<IpNet>().map_err(|_error| format!("{text:?} is no CIDR, such as 10.96.0.0/12"))?;
        Ok(Self(network.trunc()))
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Addresses of `--reserved-address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedRange(IpNet);

impl FromStr for ReservedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = || text.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical()));
        let network = text.parse::<IpNet>().or_else(|_error| one());
        let network = network.map_err(|_error| format!("{text:?} is no address and no CIDR, such as 192.0.2.10/32"))?;
        Ok(Self(network.trunc()))
    }
}

impl fmt::Display for ReservedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where it is known from which addresses are whose.
#[derive(Default)]
pub struct AddressSources {
    /// `--service-cluster-ip-range`.
    pub service_ranges: Vec<ServiceRange>,
    /// `--cluster-cidr`. What is no network there is somebody else's to complain about.
    pub pod_ranges: Vec<String>,
    /// `--reserved-address`.
    pub reserved: Vec<ReservedRange>,
    /// Hosts by which this process or pods reach the API server: names or addresses.
    pub servers: Vec<String>,
    /// Who knows the addresses of names.
    pub lookup: Lookup,
    /// Whether the operator lets a load balancer have the addresses of Nodes, and with that a Node the address of a load balancer.
    pub shares_nodes: bool,
    /// All Nodes.
    pub nodes: Option<Store<Node>>,
    /// All Services.
    pub services: Option<Store<Service>>,
}

/// Who has which address, as far as it is known. Cheap to clone: all controllers of a process share one.
#[derive(Clone)]
pub struct ClusterAddresses {
    /// `--service-cluster-ip-range`.
    given: Arc<[IpNet]>,
    /// `--cluster-cidr`.
    pod_ranges: Arc<[IpNet]>,
    /// `--reserved-address`.
    kept: Arc<[IpNet]>,
    /// Where the API server is reached, by its address.
    servers: Arc<[IpAddr]>,
    /// The same by its name.
    names: Arc<ServerNames>,
    shares_nodes: bool,
    nodes: Option<Store<Node>>,
    services: Option<Store<Service>>,
    learned: Arc<RwLock<Learned>>,
    index: Arc<Mutex<NodeIndex>>,
    reserved: Arc<Mutex<Reservations>>,
}

/// What the API server says.
#[derive(Default)]
struct Learned {
    ranges: Vec<IpNet>,
    servers: Vec<IpAddr>,
    /// What was said of an answer that did not come.
    told: Option<String>,
    /// Whether it was said that nobody knows a range of Services.
    told_of_no_range: bool,
}

/// Why an address cannot be what a provider says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressClash {
    /// It is no place in the network.
    NoPlace(AddressRefusal),
    /// It is in the range of Services.
    ServiceRange(IpNet),
    /// It is in a range of pods.
    PodRange(IpNet),
    /// A Service has it as its ClusterIP.
    ClusterIp(String),
    /// It is the API server's.
    ApiServer,
    /// The operator keeps it for something else.
    Reserved(IpNet),
    /// Another Node has it.
    Node(String),
    /// The load balancer of another Service has it, or is about to get it.
    LoadBalancer(String),
    /// Another Service has it in `spec.externalIPs`.
    ExternalIp(String),
}

impl fmt::Display for AddressClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace(refused) => write!(f, "{}", refused.words()),
            Self::ServiceRange(range) => write!(f, "in the range of Services, {range}"),
            Self::PodRange(range) => write!(f, "in a range of pods, {range}"),
            Self::ClusterIp(service) => write!(f, "the ClusterIP of Service {service}"),
            Self::ApiServer => write!(f, "an address of the API server"),
            Self::Reserved(range) => write!(f, "reserved (--reserved-address {range})"),
            Self::Node(name) => write!(f, "an address of node {name}"),
            Self::LoadBalancer(service) => write!(f, "the address of Service {service}"),
            Self::ExternalIp(service) => write!(f, "in spec.externalIPs of Service {service}"),
        }
    }
}

impl ClusterAddresses {
    /// Knows nothing of the API server yet.
    #[must_use]
    pub fn new(sources: AddressSources) -> Self {
        let AddressSources { service_ranges, pod_ranges, reserved, servers, lookup, shares_nodes, nodes, services } =
            sources;
        let (mut known, mut names) = (Vec::new(), Vec::new());
        for host in servers {
            match host.trim_matches(['[', ']']).parse::<IpAddr>() {
                Ok(ip) => known.push(ip.to_canonical()),
                Err(_) => names.push(host),
            }
        }
        let pod_ranges = pod_ranges.iter().filter_map(|text| text.parse::<IpNet>().ok());
        Self {
            given: service_ranges.into_iter().map(|range| range.0).collect(),
            pod_ranges: pod_ranges.map(|range| range.trunc()).collect(),
            kept: reserved.into_iter().map(|range| range.0).collect(),
            servers: known.into(),
            names: Arc::new(ServerNames::new(names, lookup)),
            shares_nodes,
            nodes,
            services,
            learned: Arc::default(),
            index: Arc::default(),
            reserved: Arc::default(),
        }
    }

    /// Whether anybody says where Services have their ClusterIPs.
    fn knows_ranges(&self) -> bool {
        !self.given.is_empty() || !self.learned.read().ranges.is_empty()
    }

    /// Why nobody outside of the cluster can have `ip`; none when somebody can.
    pub(crate) fn clash(&self, ip: IpAddr) -> Option<AddressClash> {
        if let Some(refused) = AddressRefusal::of(ip) {
            return Some(AddressClash::NoPlace(refused));
        }
        let ip = ip.to_canonical();
        let learned = self.learned.read();
        if let Some(range) = self.given.iter().chain(&learned.ranges).find(|range| range.contains(&ip)) {
            return Some(AddressClash::ServiceRange(*range));
        }
        if self.servers.contains(&ip) || learned.servers.contains(&ip) || self.names.have(ip) {
            return Some(AddressClash::ApiServer);
        }
        if let Some(range) = self.kept.iter().find(|range| range.contains(&ip)) {
            return Some(AddressClash::Reserved(*range));
        }
        // Where nobody says the range, at least the API server's is known.
        let kubernetes = self.services.as_ref()?.get(&ObjectRef::new("kubernetes").within("default"))?;
        cluster_ips(&kubernetes)
            .any(|known| known == ip)
            .then(|| AddressClash::ClusterIp("default/kubernetes".to_owned()))
    }

    /// Asks the API server and the resolver for ever.
    pub async fn follow(self, client: Client) {
        let asks = async {
            loop {
                let pause = if self.learn(&client).await { PERIOD } else { RETRY };
                tokio::time::sleep(pause).await;
            }
        };
        tokio::join!(asks, self.names.follow());
    }

    /// Asks the API server and the resolver once. What they do not say stays as it was. Returns whether the API server said all.
    pub async fn learn(&self, client: &Client) -> bool {
        let (ranges, servers, ()) =
            tokio::join!(ask::<Ranges>(client, RANGES), ask::<Slice>(client, SERVERS), self.names.resolve());
        let mut learned = self.learned.write();
        let mut failed = Vec::new();
        match ranges {
            Ok(ranges) => learned.ranges = ranges.map(Ranges::networks).unwrap_or_default(),
            Err(error) => failed.push(format!("{RANGES}: {error}")),
        }
        let knows = !self.given.is_empty() || !learned.ranges.is_empty() || !failed.is_empty();
        if !knows && !learned.told_of_no_range {
            learned.told_of_no_range = true;
            tracing::warn!(
                "nobody says which range of addresses Services have: the API server does not (before Kubernetes 1.33 it cannot), and \
                 --service-cluster-ip-range is not given. Addresses of providers are checked against the ClusterIPs that are there now; give \
                 the flag the value that the API server has"
            );
        }
        match servers {
            Ok(slice) => learned.servers = slice.map(Slice::addresses).unwrap_or_default(),
            Err(error) => failed.push(format!("{SERVERS}: {error}")),
        }
        let told = (!failed.is_empty()).then(|| failed.join("; "));
        if told != learned.told {
            if let Some(error) = &told {
                tracing::warn!(
                    error,
                    "not known which addresses are the cluster's own: addresses of providers are checked against the others alone; grant \
                     what manifests/base/rbac.yaml grants, and give --service-cluster-ip-range"
                );
            }
            learned.told.clone_from(&told);
        }
        told.is_none()
    }
}

/// The IP addresses among the places of a load balancer.
pub(crate) fn ips(places: &[Ingress]) -> impl Iterator<Item = IpAddr> {
    places.iter().filter_map(|place| place.ip.as_deref()?.parse().ok()).map(|ip: IpAddr| ip.to_canonical())
}

/// The ClusterIPs of a Service.
fn cluster_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let spec = service.spec.as_ref();
    let all = spec.and_then(|spec| spec.cluster_ips.as_deref()).unwrap_or_default().iter();
    let one = spec.and_then(|spec| spec.cluster_ip.as_ref());
    all.chain(one).filter_map(|text| text.parse().ok()).map(|ip: IpAddr| ip.to_canonical())
}

#[derive(Deserialize)]
struct Ranges {
    items: Vec<Range>,
}

#[derive(Deserialize)]
struct Range {
    spec: RangeSpec,
}

#[derive(Deserialize)]
struct RangeSpec {
    #[serde(default)]
    cidrs: Vec<String>,
}

impl Ranges {
    fn networks(self) -> Vec<IpNet> {
        self.items.into_iter().flat_map(|range| range.spec.cidrs).filter_map(|text| text.parse().ok()).collect()
    }
}

#[derive(Deserialize)]
struct Slice {
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
}

impl Slice {
    fn addresses(self) -> Vec<IpAddr> {
        let texts = self.endpoints.into_iter().flat_map(|endpoint| endpoint.addresses);
        texts.filter_map(|text| text.parse().ok()).map(|ip: IpAddr| ip.to_canonical()).collect()
    }
}

/// An object of the API server; none where it serves no such thing.
async fn ask<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, String> {
    let request = Request::get(path).body(vec![]).map_err(|error| error.to_string())?;
    match tokio::time::timeout(LIMIT, client.request(request)).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(kube::Error::Api(status))) if ccm_apiserver::is_answer(&status) && status.is_not_found() => Ok(None),
        Ok(Err(error)) => Err(ccm_apiserver::api_error_text(&error)),
        Err(_elapsed) => Err(format!("no answer within {LIMIT:?}")),
    }
}
