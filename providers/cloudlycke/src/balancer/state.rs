//! What is known of load balancers between calls. The host may forget it: addresses are then taken from the Services, which is
//! where they count.
//!
//! | key | value |
//! | --- | --- |
//! | `lb/UID` | the load balancer of a Service |
//! | `address/IP` | who has an address |
//! | `service/NAMESPACE/NAME` | UID of the Service that had this name last |
//!
//! Addresses have keys of their own, so that a survey, which holds no lock, never writes over what an allocation wrote.

use std::net::IpAddr;

use ccm_sdk::types::{Ingress, Service};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Values of another schema read as if they were not there.
const SCHEMA: u32 = 1;

/// Bytes by key. Behind it is the host's cache, or a map in tests.
pub(crate) trait Store {
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    fn put(&self, key: &str, value: &[u8]);
    fn forget(&self, key: &str);
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) ips: Vec<IpAddr>,
    /// Whether its addresses are of the pool.
    pub(crate) pooled: bool,
    pub(crate) hostname: Option<String>,
    /// Names of Nodes, sorted.
    pub(crate) members: Vec<String>,
}

impl Record {
    /// Where clients reach it. The host name stands beside the first address.
    pub(crate) fn ingress(&self) -> Vec<Ingress> {
        let mut ingress: Vec<_> = self.ips.iter().map(Ingress::ip).collect();
        match (ingress.first_mut(), &self.hostname) {
            (Some(first), hostname) => first.hostname.clone_from(hostname),
            (None, Some(hostname)) => ingress.push(Ingress::hostname(hostname.as_str())),
            (None, None) => {}
        }
        ingress
    }

    /// Addresses that nobody else may have.
    pub(crate) fn held(&self) -> &[IpAddr] {
        if self.pooled { &self.ips } else { &[] }
    }
}

/// Who has an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) uid: String,
    /// `NAMESPACE/NAME`
    pub(crate) service: String,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    schema: u32,
    value: T,
}

/// What is known of load balancers.
#[derive(Clone, Copy)]
pub(crate) struct State<'s>(pub(crate) &'s dyn Store);

impl State<'_> {
    pub(crate) fn record(&self, uid: &str) -> Option<Record> {
        self.get(&record_key(uid))
    }

    /// Keeps the load balancer of a Service. Its addresses are taken one by one, with [`hold`](Self::hold).
    pub(crate) fn keep(&self, service: &Service, record: &Record) {
        self.put(&record_key(&service.uid), record);
        self.put(&service_key(service), &service.uid);
    }

    pub(crate) fn forget(&self, service: &Service) {
        self.0.forget(&record_key(&service.uid));
        if self.get::<String>(&service_key(service)).as_ref() == Some(&service.uid) {
            self.0.forget(&service_key(service));
        }
    }

    /// The Service that had the name of this one before: UID and load balancer. That one was deleted while nobody looked.
    pub(crate) fn namesake(&self, service: &Service) -> Option<(String, Option<Record>)> {
        let uid: String = self.get(&service_key(service))?;
        (uid != service.uid).then(|| (uid.clone(), self.record(&uid)))
    }

    pub(crate) fn forget_record(&self, uid: &str) {
        self.0.forget(&record_key(uid));
    }

    pub(crate) fn holder(&self, ip: IpAddr) -> Option<Holder> {
        self.get(&address_key(ip))
    }

    /// Who has the address, if it is not this Service.
    pub(crate) fn other_holder(&self, ip: IpAddr, service: &Service) -> Option<String> {
        self.holder(ip).filter(|holder| holder.uid != service.uid).map(|holder| holder.service)
    }

    pub(crate) fn hold(&self, ip: IpAddr, service: &Service) {
        self.put(&address_key(ip), &Holder { uid: service.uid.clone(), service: service.full_name() });
    }

    /// Gives an address back, if the Service of this UID has it.
    pub(crate) fn release(&self, ip: IpAddr, uid: &str) -> bool {
        let is_held = self.holder(ip).is_some_and(|holder| holder.uid == uid);
        if is_held {
            self.0.forget(&address_key(ip));
        }
        is_held
    }

    fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let versioned: Versioned<T> = serde_json::from_slice(&self.0.get(key)?).ok()?;
        (versioned.schema == SCHEMA).then_some(versioned.value)
    }

    fn put<T: Serialize>(&self, key: &str, value: &T) {
        match serde_json::to_vec(&Versioned { schema: SCHEMA, value }) {
            Ok(bytes) => self.0.put(key, &bytes),
            // Nothing is better than what was true before.
            Err(_) => self.0.forget(key),
        }
    }
}

fn record_key(uid: &str) -> String {
    format!("lb/{uid}")
}

fn service_key(service: &Service) -> String {
    format!("service/{}", service.full_name())
}

fn address_key(ip: IpAddr) -> String {
    format!("address/{ip}")
}
