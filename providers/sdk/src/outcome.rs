//! Short ways to say what became of a load balancer, and to read what a Service asks for.

use crate::load_balancers::Outcome;
use crate::types::{AddressType, Backend, Failure, Ingress, IpMode, Reaction, Service};

impl Outcome {
    /// All is as the Service asks for, and clients reach it there. An empty list is refused by the host: a load balancer
    /// that has no address yet is [`Failure::pending`].
    pub fn done(ingress: Vec<Ingress>) -> Self {
        Self { ingress, annotations: vec![], changes: vec![], failure: None, more: vec![] }
    }

    /// Nothing is left of it: the answer of a deletion, also of one that found nothing.
    pub fn gone() -> Self {
        Self::done(vec![])
    }

    /// It is not done, or not yet. What was made nevertheless is told with [`annotate`](Self::annotate) and
    /// [`changed`](Self::changed).
    pub fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::gone() }
    }

    /// What was changed in the cloud, for people: `listener 80 made`.
    #[must_use]
    pub fn changed(mut self, what: impl Into<String>) -> Self {
        self.changes.push(what.into());
        self
    }

    /// An annotation to write on the Service, with a failure too: IDs of what was made, so that the next call finds it. Its
    /// name must be declared as `written` or `both`. The last value given for a name counts.
    #[must_use]
    pub fn annotate(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_annotation(name.into(), Some(value.into()))
    }

    /// An annotation to remove from the Service.
    #[must_use]
    pub fn unannotate(self, name: impl Into<String>) -> Self {
        self.with_annotation(name.into(), None)
    }

    /// What became of it in a word, for the log: `changed`, `unchanged`, `pending` or `failed`.
    pub fn decision(&self) -> &'static str {
        match &self.failure {
            Some(failure) if failure.reaction == Reaction::Pending => "pending",
            Some(_) => "failed",
            None if self.changes.is_empty() => "unchanged",
            None => "changed",
        }
    }

    /// Why, for the log: what went wrong, or all that was changed.
    pub fn reason(&self) -> String {
        self.failure.as_ref().map_or_else(|| self.changes.join("; "), |failure| failure.message.clone())
    }

    fn with_annotation(mut self, name: String, value: Option<String>) -> Self {
        self.set_annotation(name, value);
        self
    }

    pub(crate) fn set_annotation(&mut self, name: String, value: Option<String>) {
        // The host takes a name once.
        self.annotations.retain(|(other, _)| *other != name);
        self.annotations.push((name, value));
    }
}

/// So that `?` leaves a function that gives an outcome either way.
impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::failed(failure)
    }
}

/// A function with `?` in it gives an outcome at last.
impl From<Result<Self, Failure>> for Outcome {
    fn from(result: Result<Self, Failure>) -> Self {
        result.unwrap_or_else(Self::failed)
    }
}

impl Ingress {
    /// An address.
    pub fn ip(ip: &(impl ToString + ?Sized)) -> Self {
        Self { ip: Some(ip.to_string()), hostname: None, ip_mode: None, ports: vec![], more: vec![] }
    }

    /// A host name: a DNS name in lower case.
    pub fn hostname(hostname: impl Into<String>) -> Self {
        Self { ip: None, hostname: Some(hostname.into()), ip_mode: None, ports: vec![], more: vec![] }
    }

    /// The load balancer changes the traffic (it ends TLS, it speaks the PROXY protocol), so that kube-proxy must not
    /// short-cut it. Only for an address.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.ip_mode = Some(IpMode::Proxy);
        self
    }
}

impl Service {
    /// `NAMESPACE/NAME`, for messages.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The value of an annotation that `meta.describe` declares. Others are not here.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

impl Backend {
    /// Its addresses of one kind, in the order of the Node.
    pub fn addresses_of(&self, kind: AddressType) -> impl Iterator<Item = &str> {
        self.addresses.iter().filter(move |address| address.kind == kind).map(|address| address.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Address;

    #[test]
    fn an_outcome_carries_what_was_made_although_it_is_not_done() {
        let outcome = Outcome::failed(Failure::pending("listener is being made"))
            .annotate("x.example/id", "lb-1")
            .annotate("x.example/job", "7")
            .unannotate("x.example/job")
            .changed("load balancer lb-1 made");
        assert_eq!(outcome.failure.map(|failure| failure.reaction), Some(Reaction::Pending));
        assert_eq!(
            outcome.annotations,
            [("x.example/id".to_owned(), Some("lb-1".to_owned())), ("x.example/job".to_owned(), None)]
        );
        assert_eq!((outcome.changes, outcome.ingress), (vec!["load balancer lb-1 made".to_owned()], vec![]));
    }

    #[test]
    fn a_word_and_a_reason_tell_what_became_of_it() {
        let said = |outcome: Outcome| (outcome.decision(), outcome.reason());
        assert_eq!(said(Outcome::gone()), ("unchanged", String::new()));
        assert_eq!(said(Outcome::gone().changed("a made").changed("b made")), ("changed", "a made; b made".to_owned()));
        let pending = Outcome::from(Failure::pending("at work")).changed("a made");
        assert_eq!(said(pending), ("pending", "at work".to_owned()));
        assert_eq!(said(Outcome::from(Failure::quota("full"))), ("failed", "full".to_owned()));
    }

    #[test]
    fn a_function_with_question_marks_gives_an_outcome() {
        fn ensure(quota: bool) -> Result<Outcome, Failure> {
            if quota {
                return Err(Failure::quota("10 of 10 load balancers are in use"));
            }
            Ok(Outcome::done(vec![Ingress::ip("203.0.113.9").proxied(), Ingress::hostname("web.example.com")]))
        }
        let failure = Failure::quota("10 of 10 load balancers are in use");
        assert_eq!(Outcome::from(ensure(true)), Outcome::failed(failure.clone()));
        assert_eq!(Outcome::from(failure.clone()), Outcome::failed(failure));
        let done = Outcome::from(ensure(false));
        let places: Vec<_> =
            done.ingress.iter().map(|place| (place.ip.as_deref(), place.hostname.as_deref(), place.ip_mode)).collect();
        assert_eq!(places, [(Some("203.0.113.9"), None, Some(IpMode::Proxy)), (None, Some("web.example.com"), None)]);
        assert_eq!((done.failure, Outcome::gone().ingress), (None, vec![]));
    }

    #[test]
    fn a_backend_gives_its_addresses_of_a_kind_in_order() {
        let address = |kind, value: &str| Address { kind, value: value.to_owned() };
        let backend = Backend {
            name: "a".to_owned(),
            provider_id: None,
            addresses: vec![
                address(AddressType::InternalIp, "10.0.0.1"),
                address(AddressType::Hostname, "a"),
                address(AddressType::InternalIp, "fd00::1"),
            ],
            more: vec![],
        };
        assert_eq!(backend.addresses_of(AddressType::InternalIp).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
        assert_eq!(backend.addresses_of(AddressType::ExternalIp).count(), 0);
    }
}
