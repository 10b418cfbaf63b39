//! What a cloud is, for the rest of the runtime: domain types, the traits that a provider stands behind, and how to react
//! to a failure.
//!
//! Nothing here knows Kubernetes clients, wasmtime or HTTP. Names follow the contract in `wit/`; a provider may be a
//! WebAssembly component (crate `ccm-sandbox`) or plain Rust (unit tests of the controllers).

mod address_refusal;
mod annotation;
mod batch;
mod cluster;
mod descriptor;
mod event;
mod failed_request;
mod failure;
mod instance;
mod leadership;
mod load_balancer;
mod lookups;
mod node;
mod plain;
mod route;
mod selector;
mod service;
mod spans;
mod spelling;

pub use address_refusal::AddressRefusal;
pub use annotation::{Annotation, AnnotationGrant, AnnotationRole};
pub use batch::{BatchSettings, Batcher};
pub use cluster::{Cluster, ClusterSubject};
pub use descriptor::{
    Budget, Capability, ConfigFile, ConfigFormat, Credential, CredentialUse, Descriptor, Endpoint, Place, Setting,
    SharedAddresses, Source, TlsSources, ValueKind,
};
pub use event::{EventSink, Severity, Subject};
pub use failed_request::{FailedRequest, names_request};
pub use failure::{Failure, FindError, Problem, Reaction};
pub use instance::{Finding, Instance, InstanceState, Instances, Need};
pub use leadership::{Alone, ForbiddenChange, Leadership};
pub use load_balancer::{CallFuture, LoadBalancerSource, LoadBalancers, Mark, Outcome, Standing, Wish};
pub use lookups::{Keeper, Lookups, Member};
pub use node::{Address, AddressKind, Described, Node};
pub use plain::is_plain;
pub use route::{Route, RouteChangeError, RouteOutcome, RouteSource, RouteState, RouteWish, Routes};
pub use selector::NodeSelector;
pub use service::{
    Backend, Ingress, IpFamily, IpMode, PortStatus, Protocol, Service, ServicePort, ServiceType, TrafficPolicy,
};
pub use spans::{SPANS, current_span};
pub use spelling::{letters, nearest, way_out_of};

/// Names and values without order, as the contract's `attributes`.
pub type Attributes = std::collections::BTreeMap<String, String>;
