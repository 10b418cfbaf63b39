//! Certificates.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::page;
use super::{Ask, Cloud, Reply};
use crate::clock::{Clock, Moment};
use crate::document::values;

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Certificate {
    /// UUID; empty: a new one.
    #[serde(default)]
    pub id: String,
    /// Unique.
    pub name: String,
    /// Who renews it.
    #[serde(default)]
    pub kind: CertificateKind,
    /// Host names.
    #[serde(default)]
    pub dns_names: Vec<String>,
    /// Whether it can be used.
    #[serde(default)]
    pub state: CertificateState,
    /// When it ends, in seconds since the start of the simulator. Default 90 days.
    #[serde(default = "ninety_days")]
    pub ends_after_s: u64,
}

/// Who renews a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateKind {
    /// Its owner.
    #[default]
    Custom,
    /// The cloud, by a new certificate with the same name.
    LetsEncrypt,
}

/// Whether a certificate can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateState {
    /// Not yet: the host names are still being looked at.
    Pending,
    /// It can.
    #[default]
    Verified,
    /// Never: somebody has to make another one.
    Error,
}

const fn ninety_days() -> u64 {
    90 * 24 * 3600
}

impl Certificate {
    /// One for a host name, with an ID to come.
    #[must_use]
    pub fn new(name: &str, kind: CertificateKind, dns_name: &str) -> Self {
        let dns_names = vec![dns_name.to_owned()];
        let state = CertificateState::Verified;
        Self { id: String::new(), name: name.to_owned(), kind, dns_names, state, ends_after_s: ninety_days() }
    }

    fn show(&self, clock: &Clock) -> Value {
        let digits: String = self.id.chars().filter(char::is_ascii_hexdigit).collect();
        json!({
            "id": self.id,
            "name": self.name,
            "type": self.kind,
            "state": self.state,
            "dns_names": self.dns_names,
            "not_after": clock.date(Moment::from_secs(self.ends_after_s)),
            "created_at": clock.date(Moment::ZERO),
            "sha1_fingerprint": format!("{digits}00000000"),
        })
    }
}

impl Cloud {
    /// Makes it, or puts it in place of the one with its ID. Returns the ID.
    pub(crate) fn put_certificate(&mut self, now: Moment, mut certificate: Certificate) -> String {
        if certificate.id.is_empty() {
            certificate.id = self.uuid();
        }
        let id = certificate.id.clone();
        self.certificates.put(now, id.clone(), certificate);
        id
    }

    /// What Let's Encrypt does: a new ID with the same name, load balancers switched to it, the old one gone. Returns the
    /// new ID; None: there is no such certificate, or its owner renews it.
    pub(crate) fn renew(&mut self, now: Moment, id: &str) -> Option<String> {
        let old = self.certificates.get(id).filter(|old| old.kind == CertificateKind::LetsEncrypt)?.clone();
        let ends_after_s = now.as_secs() + ninety_days();
        let new = self.put_certificate(now, Certificate { id: String::new(), ends_after_s, ..old });
        for mut balancer in self.balancers.all().cloned().collect::<Vec<_>>() {
            let mut switched = false;
            for rule in balancer.spec.forwarding_rules.iter_mut().filter(|rule| rule.certificate_id == id) {
                rule.certificate_id.clone_from(&new);
                switched = true;
            }
            if switched {
                self.balancers.put(now, balancer.id.clone(), balancer);
            }
        }
        self.certificates.remove(now, id);
        Some(new)
    }

    pub(super) fn list_certificates(&self, ask: &Ask<'_>, clock: &Clock) -> Reply {
        let name = values(ask.query, "name").next();
        let wanted = |certificate: &&Certificate| name.is_none_or(|name| certificate.name == name);
        let all: Vec<&Certificate> = self.certificates.at(ask.listed_at()).filter(wanted).collect();
        page(ask, "certificates", &all, |certificate| certificate.show(clock))
    }

    pub(super) fn get_certificate(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let certificate = self.certificates.get(ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "certificate", certificate.show(clock)))
    }
}
