//! What was last ensured, in a condition of the Service's status: where a restarted process and a new leader find it, and where
//! neither `kubectl apply` nor an export, a restored backup or whoever may only change Services reaches.
//!
//! | status | says |
//! |---|---|
//! | `True` | the provider has ensured the load balancer for exactly this |
//! | `Unknown` | it has, or may have, a load balancer, and what that is like is not certain |

use ccm_cloud::Ingress;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::annotations::{RECORD_OF_BEFORE, annotation};
use super::condition;
use super::digest::Digest;
use super::fingerprint::{self, ViewDigest};
use super::predicates::has_finalizer;
use super::writers::Writers;

/// The type of the condition.
pub const RECORDED: &str = "LoadBalancerRecorded";
/// Another one would mean that the digests are made in another way.
const VERSION: &str = "v2";
/// The words at the end, which are not written for their own sake: what the Service alone asked for, and the components.
const VIEW: &str = "view";
const WRITERS: &str = "by";

/// What was last ensured, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Name of the provider that has, or may have, a load balancer for this Service.
    pub(crate) provider: String,
    /// The class that the Service had.
    pub(crate) class: Option<String>,
    pub(crate) spec: Option<Digest>,
    pub(crate) backends: Option<Digest>,
    /// The addresses that were written, or stood there when the Service was taken.
    pub(crate) addresses: Option<Digest>,
    /// The annotations that the provider wrote.
    pub(crate) written: Option<Digest>,
    /// The annotations that others wrote there, and to whose load balancer the provider was allowed to change and delete as the
    /// Service's own. Until that has become it.
    pub(crate) taken_over: Option<Digest>,
    /// What the Service alone asked for when it came to `spec`. Not written for its own sake.
    pub(crate) view: Option<ViewDigest>,
    /// The components that it was written by. Not written for its own sake.
    pub(crate) by: Writers,
}

impl Record {
    /// Of a load balancer about which nothing is certain but that the status has these `addresses`, and that the provider's
    /// annotations are these.
    pub(crate) fn begun(provider: &str, service: &Service, addresses: Digest, written: Digest) -> Self {
        Self {
            provider: provider.to_owned(),
            class: super::predicates::class(service).map(ToOwned::to_owned),
            spec: None,
            backends: None,
            addresses: Some(addresses),
            written: Some(written),
            taken_over: None,
            view: None,
            by: Writers::default(),
        }
    }

    /// Whether it says the same, apart from what is not written for its own sake.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        Self { view: other.view.clone(), by: other.by.clone(), ..self.clone() } == *other
    }

    /// Whether the provider's annotations with this digest lead to a load balancer that is the Service's own.
    pub(crate) fn has_own(&self, written: Digest) -> bool {
        self.written == Some(written) || self.taken_over == Some(written)
    }

    /// Whether the addresses of the status may be ours.
    pub(crate) fn confirms(&self, ingress: &[Ingress]) -> bool {
        self.addresses.is_none_or(|known| known == fingerprint::addresses(ingress))
    }

    /// The record of a Service; none where there is none, another version wrote it, or it was written for another Service:
    /// whoever restores a backup may restore the status too.
    pub(crate) fn of(service: &Service) -> Option<Self> {
        read(service).filter(|(owner, _)| *owner == self::owner(service)).map(|(_, record)| record)
    }

    /// Whether the Service says something else. What is not written for its own sake is no difference: neither an exchange of the
    /// component nor another release of the host may cost a write of every Service.
    pub(crate) fn differs(&self, service: &Service) -> bool {
        condition::existing(service, RECORDED).is_none_or(|(_, old)| {
            let text = self.text(service);
            (old.status.as_str(), essence(&old.message)) != (self.status(), essence(&text))
        })
    }

    /// The entry of `status.conditions`.
    pub(crate) fn entry(&self, service: &Service) -> Value {
        let since = condition::existing(service, RECORDED).filter(|(_, old)| old.status == self.status());
        let since = since.map_or_else(|| Time(Timestamp::now()), |(_, old)| old.last_transition_time.clone());
        let reason = if self.is_certain() { "Ensured" } else { "NotCertain" };
        let (status, message) = (self.status(), self.text(service));
        json!({ "type": RECORDED, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
    }

    const fn is_certain(&self) -> bool {
        self.spec.is_some() && self.backends.is_some()
    }

    const fn status(&self) -> &'static str {
        if self.is_certain() { "True" } else { "Unknown" }
    }

    /// One word for each part, those that are not known left out.
    pub(crate) fn text(&self, service: &Service) -> String {
        let digest = |name: &str, digest: Option<Digest>| digest.map(|digest| format!(" {name}={digest}"));
        let class = self.class.as_ref().map(|class| format!(" class={class}"));
        let parts = [
            class,
            digest("service", Some(owner(service))),
            digest("spec", self.spec),
            digest("backends", self.backends),
            digest("addresses", self.addresses),
            digest("annotations", self.written),
            digest("taken-over", self.taken_over),
            self.view.as_ref().map(|view| format!(" {VIEW}={view}")),
            (!self.by.is_empty()).then(|| format!(" {WRITERS}={}", self.by)),
        ];
        format!("{VERSION} provider={}{}", self.provider, parts.into_iter().flatten().collect::<String>())
    }
}

/// Whether the status is that of another Service, restored or copied together with it.
pub(crate) fn is_foreign(service: &Service) -> bool {
    read(service).is_some_and(|(owner, _)| owner != self::owner(service))
}

/// The provider that an older release named in its annotation, of a Service that has a load balancer and no record yet. Whoever may
/// change the Service may have written that: it is a reason to ask, and no more.
pub(crate) fn provider_of_before(service: &Service) -> Option<&str> {
    if !has_finalizer(service) || Record::of(service).is_some() {
        return None;
    }
    let mut parts = annotation(service, RECORD_OF_BEFORE)?.split(':');
    let (Some("v1"), Some(provider), Some(owner)) = (parts.next(), parts.next(), parts.next()) else { return None };
    (!provider.is_empty() && Digest::parse(owner) == Some(self::owner(service))).then_some(provider)
}

/// Which Service a record is about.
fn owner(service: &Service) -> Digest {
    Digest::of(&service.metadata.uid)
}

fn read(service: &Service) -> Option<(Digest, Record)> {
    let (_, Condition { message, .. }) = condition::existing(service, RECORDED)?;
    let mut parts = message.split(' ').peekable();
    if parts.next() != Some(VERSION) {
        return None;
    }
    let mut part = |name: &str| {
        let value = |part: &&str| part.split_once('=').is_some_and(|(known, _)| known == name);
        parts.next_if(value).and_then(|part| part.split_once('=')).map(|(_, value)| value)
    };
    let provider = part("provider").filter(|provider| !provider.is_empty())?.to_owned();
    let class = part("class").map(ToOwned::to_owned);
    let owner = Digest::parse(part("service")?)?;
    // What is there must be a digest.
    let mut digest = |name: &str| part(name).map_or(Some(None), |text| Digest::parse(text).map(Some));
    let (spec, backends) = (digest("spec")?, digest("backends")?);
    let (addresses, written, taken_over) = (digest("addresses")?, digest("annotations")?, digest("taken-over")?);
    let view = part(VIEW).and_then(ViewDigest::parse);
    let by = part(WRITERS).map(Writers::read).unwrap_or_default();
    if parts.next().is_some() {
        return None;
    }
    Some((owner, Record { provider, class, spec, backends, addresses, written, taken_over, view, by }))
}

/// The text of a record up to the words that are not written for their own sake.
fn essence(text: &str) -> &str {
    [WRITERS, VIEW].into_iter().fold(text, |text, word| {
        let is_last = |(_, last): &(&str, &str)| last.split_once('=').is_some_and(|(name, _)| name == word);
        text.rsplit_once(' ').filter(is_last).map_or(text, |(before, _)| before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::service;

    fn recorded(message: &str) -> Service {
        let condition = json!({
            "type": RECORDED, "status": "True", "reason": "Ensured", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        service("web").with("/status", "conditions", json!([condition])).object()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let digest = Some(Digest::of(&1));
        let web: Service = service("web").object();
        let (nobody, somebody) = (Writers::default(), Writers::read("0123456789ab,ba9876543210"));
        let rows = [
            (None, None, None, None, None, None, &nobody),
            (Some("a.io/b"), digest, None, None, None, digest, &somebody),
            (None, digest, digest, None, digest, None, &nobody),
            (Some(""), None, None, digest, None, None, &nobody),
            (None, None, None, digest, digest, digest, &nobody),
            (None, None, None, None, None, None, &somebody),
        ];
        for (class, spec, backends, addresses, written, taken_over, by) in rows {
            for view in [
                None,
                ViewDigest::parse(&format!("{:032}:00000001", 1)),
                ViewDigest::parse(&format!("{:032}:00000001:0123cdef", 1)),
            ] {
                let (provider, class, by) = ("fake".to_owned(), class.map(ToOwned::to_owned), by.clone());
                let record = Record { provider, class, spec, backends, addresses, written, taken_over, view, by };
                let service = recorded(&record.text(&web));
                assert_eq!((Record::of(&service), is_foreign(&service)), (Some(record), false));
            }
        }
        let (owner, zeros) = (owner(&web), "0".repeat(32));
        // Of the release before, which knew less.
        let before = recorded(&format!("v2 provider=fake service={owner} addresses={zeros} annotations={zeros}"));
        let known = Record::of(&before).unwrap();
        assert!(known.written.is_some() && known.taken_over.is_none(), "{known:?}");
        let strange = [
            String::new(),
            "v2".into(),
            "v2 provider=fake".into(),
            "v2 provider=fake service=-".into(),
            format!("v2 provider= service={owner}"),
            format!("v2 service={owner} provider=fake"),
            format!("v2  provider=fake service={owner}"),
            format!("v2 provider=fake service={owner} spec=-"),
            format!("v2 provider=fake service={owner} backends={zeros} spec={zeros}"),
            format!("v2 provider=fake service={owner} annotations={zeros} more={zeros}"),
            format!("v2 provider=fake service={owner} by=0123456789ab spec={zeros}"),
            format!("v3 provider=fake service={owner}"),
            format!("v2 provider=fake service={owner} spec=+{}", &zeros[1..]),
            format!("v2 provider=fake service={owner} spec={zeros}0"),
        ];
        for text in strange {
            let service = recorded(&text);
            assert_eq!((Record::of(&service), is_foreign(&service)), (None, false), "{text}");
        }
        // What is not written for its own sake is not worth the rest.
        let odd = recorded(&format!("v2 provider=fake service={owner} addresses={zeros} view=- by=-,0123456789ab"));
        assert_eq!(Record::of(&odd).map(|record| record.by), Some(Writers::only("0123456789ab")));
        let restored = recorded(&format!("v2 provider=fake service={zeros}"));
        assert_eq!((Record::of(&restored), is_foreign(&restored)), (None, true));
    }

    /// What the API server's own checks of conditions ask for.
    #[test]
    fn a_record_is_a_condition_as_it_should_be() {
        let web: Service = service("web").object();
        let some = Digest::of(&1);
        let begun = Record::begun("fake", &web, some, some);
        let ensured = Record { spec: Some(some), backends: Some(some), ..begun.clone() };
        for (record, status, reason) in [(begun, "Unknown", "NotCertain"), (ensured, "True", "Ensured")] {
            let entry = record.entry(&web);
            assert_eq!((&entry["status"], &entry["reason"]), (&json!(status), &json!(reason)));
            assert!(entry["message"].as_str().unwrap().len() < 1_024, "{entry}");
            assert!(record.differs(&web));
        }
    }

    #[test]
    fn neither_who_wrote_it_nor_the_view_is_a_difference_of_its_own() {
        let web: Service = service("web").object();
        let some = Digest::of(&1);
        let nobody = Record::begun("fake", &web, some, some);
        let by = |component| Record { by: Writers::only(component), ..nobody.clone() };
        let (one, another) = (by("0123456789ab"), by("ba9876543210"));
        let seen = Record { view: ViewDigest::parse(&format!("{:032}:00000001:0123cdef", 1)), ..one.clone() };
        let rows =
            [(&nobody, &one), (&one, &nobody), (&one, &another), (&nobody, &seen), (&seen, &another), (&seen, &nobody)];
        for (before, now) in rows {
            let mut service = recorded(&before.text(&web));
            let status = service.status.as_mut().and_then(|status| status.conditions.as_mut());
            status.unwrap()[0].status = "Unknown".into();
            assert!(!now.differs(&service) && now.is_like(before), "{now:?}");
            assert!(Record { spec: Some(some), ..now.clone() }.differs(&service));
        }
    }
}
