//! Addresses that are the cluster's own: no load balancer and no machine may have them, whatever a provider says. Traffic of the whole
//! cluster would go there.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::AddressRefusal;
use http::Request;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::RwLock;
use serde::Deserialize;
use serde::de::DeserializeOwned;

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

/// The cluster's own addresses, as far as they are known. Cheap to clone.
#[derive(Clone)]
pub struct ClusterAddresses {
    /// `--service-cluster-ip-range`.
    given: Arc<[IpNet]>,
    /// Where this process reaches the API server.
    server: Option<IpAddr>,
    services: Option<Store<Service>>,
    learned: Arc<RwLock<Learned>>,
}

/// What the API server says.
#[derive(Default)]
struct Learned {
    ranges: Vec<IpNet>,
    servers: Vec<IpAddr>,
    /// What was said of an answer that did not come.
    told: Option<String>,
}

/// Why an address cannot be what a provider says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressClash {
    /// It is no place in the network.
    NoPlace(AddressRefusal),
    /// It is in the range of Services.
    ServiceRange(IpNet),
    /// A Service has it as its ClusterIP.
    ClusterIp(String),
    /// It is the API server's.
    ApiServer,
    /// Another Node has it.
    Node(String),
    /// The load balancer of another Service has it.
    LoadBalancer(String),
}

impl fmt::Display for AddressClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace(refused) => write!(f, "{}", refused.words()),
            Self::ServiceRange(range) => write!(f, "in the range of Services, {range}"),
            Self::ClusterIp(service) => write!(f, "the ClusterIP of Service {service}"),
            Self::ApiServer => write!(f, "an address of the API server"),
            Self::Node(name) => write!(f, "an address of node {name}"),
            Self::LoadBalancer(service) => write!(f, "the address of Service {service}"),
        }
    }
}

impl ClusterAddresses {
    /// With the ranges of Services that the operator names, and the host of the API server's URL. `services`: all of the cluster.
    #[must_use]
    pub fn new(ranges: Vec<ServiceRange>, server: Option<&str>, services: Option<Store<Service>>) -> Self {
        let server = server.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
        let server = server.map(|ip| ip.to_canonical());
        Self { given: ranges.into_iter().map(|range| range.0).collect(), server, services, learned: Arc::default() }
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
        if self.server == Some(ip) || learned.servers.contains(&ip) {
            return Some(AddressClash::ApiServer);
        }
        // Where nobody says the range, at least the API server's is known.
        let kubernetes = self.services.as_ref()?.get(&ObjectRef::new("kubernetes").within("default"))?;
        cluster_ips(&kubernetes)
            .any(|known| known == ip)
            .then(|| AddressClash::ClusterIp("default/kubernetes".to_owned()))
    }

    /// Asks the API server for ever.
    pub async fn follow(self, client: Client) {
        loop {
            let pause = if self.learn(&client).await { PERIOD } else { RETRY };
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks the API server once. What it does not say stays as it was. Returns whether it said all.
    pub async fn learn(&self, client: &Client) -> bool {
        let (ranges, servers) = tokio::join!(ask::<Ranges>(client, RANGES), ask::<Slice>(client, SERVERS));
        let mut learned = self.learned.write();
        let mut failed = Vec::new();
        match ranges {
            Ok(ranges) => learned.ranges = ranges.map(Ranges::networks).unwrap_or_default(),
            Err(error) => failed.push(format!("{RANGES}: {error}")),
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

/// The ClusterIPs of a Service.
pub(crate) fn cluster_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
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
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Ok(None),
        Ok(Err(error)) => Err(ccm_apiserver::api_error_text(&error)),
        Err(_elapsed) => Err(format!("no answer within {LIMIT:?}")),
    }
}
