//! What is known of load balancers between calls. The host may forget it: addresses are then taken from the Services, which is
//! where they count.
//!
//! | key | value |
//! | --- | --- |
//! | `lb/UID` | the load balancer of a Service, or that it has none any more |
//! | `seen/UID` | the same as a survey learnt it, where nothing was written |
//! | `address/IP` | who has an address |
//! | `service/NAMESPACE/NAME` | UID of the Service that had this name last |
//!
//! Addresses have keys of their own, and so has what a survey learns: it holds no lock, and never writes over what a call wrote. It may have
//! an older state of a Service: whoever gives an address back has written down before that the Service has it no more.

use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::types::{Ingress, Service};

/// First line of every value. Values of another schema read as if they were not there.
const SCHEMA: &str = "1\n";

/// How long it is remembered that a load balancer is gone: a survey that began before is over then.
const GONE: Duration = Duration::from_secs(3_600);

/// Tells that addresses are of the pool.
const POOLED: &str = "pool";

/// Bytes by key. Behind it is the host's cache, or a map in tests.
pub(crate) trait Store {
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    fn put(&self, key: &str, value: &[u8], ttl: Duration);
    fn forget(&self, key: &str);
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// What of it is kept: a line each for the kind of its addresses, host name, addresses and members. A parser of JSON for
    /// this would be a tenth of the component.
    fn lines(&self) -> [String; 4] {
        let ips: Vec<_> = self.ips.iter().map(ToString::to_string).collect();
        let kind = if self.pooled { POOLED } else { "" };
        [kind.to_owned(), self.hostname.clone().unwrap_or_default(), ips.join(" "), self.members.join(" ")]
    }

    fn read(lines: &[String]) -> Option<Self> {
        let [kind, hostname, ips, members] = lines else { return None };
        Some(Self {
            ips: words(ips).map(|ip| ip.parse().ok()).collect::<Option<_>>()?,
            pooled: kind == POOLED,
            hostname: Some(hostname.clone()).filter(|name| !name.is_empty()),
            members: words(members).map(str::to_owned).collect(),
        })
    }

    /// Addresses that nobody else may have.
    pub(crate) fn held(&self) -> &[IpAddr] {
        if self.pooled { &self.ips } else { &[] }
    }
}

/// Who has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) uid: String,
    /// `NAMESPACE/NAME`
    pub(crate) service: String,
}

/// What is known of load balancers.
#[derive(Clone, Copy)]
pub(crate) struct State<'s>(pub(crate) &'s dyn Store);

impl State<'_> {
    pub(crate) fn record(&self, uid: &str) -> Option<Record> {
        self.written(uid)?
    }

    /// What is written of a load balancer, if anything is: none inside when it is gone.
    pub(crate) fn written(&self, uid: &str) -> Option<Option<Record>> {
        let lines = self.get(&record_key(uid)).or_else(|| self.get(&seen_key(uid)))?;
        Some(Record::read(&lines))
    }

    /// Whether a Service can have an address that its status shows: nothing says otherwise.
    pub(crate) fn may_have(&self, uid: &str, ip: IpAddr) -> bool {
        self.written(uid).is_none_or(|record| record.is_some_and(|record| record.held().contains(&ip)))
    }

    /// Keeps the load balancer of a Service. Its addresses are taken one by one, with [`hold`](Self::hold).
    pub(crate) fn keep(&self, service: &Service, record: &Record) {
        self.keep_at(&record_key(&service.uid), service, record);
    }

    /// The same for whoever holds no lock.
    pub(crate) fn learn(&self, service: &Service, record: &Record) {
        self.keep_at(&seen_key(&service.uid), service, record);
    }

    fn keep_at(&self, key: &str, service: &Service, record: &Record) {
        self.put(key, &record.lines());
        self.put(&service_key(service), std::slice::from_ref(&service.uid));
    }

    /// Forgets the load balancer of a Service, but not its addresses.
    pub(crate) fn forget(&self, service: &Service) {
        self.forget_record(&service.uid);
        if self.namesake(service).is_none() {
            self.0.forget(&service_key(service));
        }
    }

    pub(crate) fn forget_record(&self, uid: &str) {
        self.0.put(&record_key(uid), SCHEMA.as_bytes(), GONE);
        self.0.forget(&seen_key(uid));
    }

    /// UID of the Service that had the name of this one before: it was deleted while nobody looked.
    pub(crate) fn namesake(&self, service: &Service) -> Option<String> {
        let uid = self.get(&service_key(service))?.pop();
        uid.filter(|uid| *uid != service.uid)
    }

    pub(crate) fn holder(&self, ip: IpAddr) -> Option<Holder> {
        let [uid, service]: [String; 2] = self.get(&address_key(ip))?.try_into().ok()?;
        Some(Holder { uid, service })
    }

    /// Who has the address, if it is not this Service.
    pub(crate) fn other_holder(&self, ip: IpAddr, service: &Service) -> Option<String> {
        self.holder(ip).filter(|holder| holder.uid != service.uid).map(|holder| holder.service)
    }

    pub(crate) fn hold(&self, ip: IpAddr, service: &Service) {
        self.put(&address_key(ip), &[service.uid.clone(), service.full_name()]);
    }

    /// Gives an address back, if the Service of this UID has it.
    pub(crate) fn release(&self, ip: IpAddr, uid: &str) -> bool {
        let is_held = self.holder(ip).is_some_and(|holder| holder.uid == uid);
        if is_held {
            self.0.forget(&address_key(ip));
        }
        is_held
    }

    fn get(&self, key: &str) -> Option<Vec<String>> {
        let text = String::from_utf8(self.0.get(key)?).ok()?;
        Some(text.strip_prefix(SCHEMA)?.split('\n').map(str::to_owned).collect())
    }

    fn put(&self, key: &str, lines: &[String]) {
        self.0.put(key, (SCHEMA.to_owned() + &lines.join("\n")).as_bytes(), Duration::MAX);
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(' ').filter(|word| !word.is_empty())
}

fn record_key(uid: &str) -> String {
    format!("lb/{uid}")
}

fn seen_key(uid: &str) -> String {
    format!("seen/{uid}")
}

fn service_key(service: &Service) -> String {
    format!("service/{}", service.full_name())
}

fn address_key(ip: IpAddr) -> String {
    format!("address/{ip}")
}
