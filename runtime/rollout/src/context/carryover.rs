//! What is kept of a provider while its component may change.

use std::sync::Arc;

use anyhow::{Result, bail};
use ccm_egress::capture::Captured;
use ccm_egress::credentials::Pin;
use ccm_egress::endpoints::Bindings;
use ccm_egress::network::Budgets;
use parking_lot::Mutex;

use crate::config::grants::GrantSettings;

/// What clouds asked for, and what the component that was taken first may do with credentials; and for as long as there is no
/// provider, captured credentials and where a catalogue said that endpoints are. After that each begins with those of the one
/// before.
#[derive(Default)]
pub struct Carryover {
    pub(crate) captured: Arc<Captured>,
    pub(crate) bindings: Bindings,
    /// A cloud that asked for a pause gets it, whoever asks again.
    pub(crate) budgets: Budgets,
    pinned: Mutex<Option<Pin>>,
}

/// A component that may have its credentials, and counts once it is taken.
pub struct Admitted {
    pin: Pin,
    /// It may do more than the first one: the operator said so.
    is_wider: bool,
}

impl Carryover {
    /// A component may use credentials where the one that was taken first did, and nowhere else.
    ///
    /// # Errors
    ///
    /// What is new, and the flag that allows it.
    pub(crate) fn admit(&self, provider: &str, pin: Pin, grants: &GrantSettings) -> Result<Admitted> {
        let is_given = |endpoint: &str| grants.endpoints.contains_key(endpoint);
        let wider = self.pinned.lock().as_ref().map(|first| first.widened(&pin, is_given)).unwrap_or_default();
        if !wider.is_empty() && !grants.allow_grant_change {
            bail!(
                "it wants to use {} where the component that was loaded first did not; if that is right, run with --allow-grant-change",
                wider.join(", ")
            );
        }
        if !wider.is_empty() {
            tracing::warn!(provider, uses = wider.join(", "), "credentials are used in more places than before");
        }
        Ok(Admitted { pin, is_wider: !wider.is_empty() })
    }

    /// The component runs: from now on no other may do more.
    pub fn taken(&self, Admitted { pin, is_wider }: Admitted) {
        let mut pinned = self.pinned.lock();
        if is_wider || pinned.is_none() {
            *pinned = Some(pin);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ccm_cloud::{Alone, Credential, CredentialUse, Descriptor, Endpoint, Place, Source};
    use ccm_egress::credentials::Credentials;
    use ccm_egress::endpoints::{Endpoints, OperatorGrants};
    use ccm_egress::network::{Network, NetworkParts, NetworkSettings};

    use super::*;

    /// A component that sends its only credential in this header.
    fn pin(header: &str) -> Pin {
        let place = Place::Header(header.to_owned());
        let uses = vec![CredentialUse { endpoint: "api".to_owned(), place, path: None }];
        let (name, purpose, value) = ("token".to_owned(), String::new(), Source::default());
        let credential = Credential { name, purpose, required: false, value, uses };
        Pin::new(&descriptor(vec![credential]), &BTreeMap::new(), |_| true)
    }

    fn descriptor(credentials: Vec<Credential>) -> Descriptor {
        Descriptor {
            name: "test".to_owned(),
            version: String::new(),
            revision: String::new(),
            provider_id_schemes: vec![],
            files: vec![],
            endpoints: vec![],
            credentials,
            settings: vec![],
            annotations: vec![],
            more: BTreeMap::new(),
        }
    }

    fn admit(carryover: &Carryover, header: &str, allow_grant_change: bool) -> Result<Admitted> {
        carryover.admit("test", pin(header), &GrantSettings { allow_grant_change, ..GrantSettings::default() })
    }

    #[test]
    fn what_the_first_component_did_is_pinned_once_it_was_taken_and_not_before() {
        let carryover = Carryover::default();
        drop(admit(&carryover, "refused-later", false).unwrap());
        let first = admit(&carryover, "one", false).unwrap();
        carryover.taken(first);
        let error = admit(&carryover, "two", false).err().unwrap().to_string();
        let says = ["it wants to use credential \"token\" in header \"two\"", "--allow-grant-change"];
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
        carryover.taken(admit(&carryover, "one", false).unwrap());
    }

    #[test]
    fn the_operator_may_let_the_next_one_do_more_which_then_counts_for_all_after_it() {
        let carryover = Carryover::default();
        carryover.taken(admit(&carryover, "one", false).unwrap());
        // Not before it was taken.
        drop(admit(&carryover, "two", true).unwrap());
        assert!(admit(&carryover, "two", false).is_err());
        carryover.taken(admit(&carryover, "two", true).unwrap());
        assert!(admit(&carryover, "two", false).is_ok() && admit(&carryover, "one", false).is_err());
    }

    /// A provider that is tried again once forgot that the cloud had asked for a pause.
    #[tokio::test]
    async fn budgets_outlive_the_network_that_they_were_made_for() {
        let carryover = Carryover::default();
        let network = || {
            let endpoint = Endpoint {
                name: "api".to_owned(),
                purpose: String::new(),
                base_url: Source::default(),
                default_base_url: None,
                tls: None,
            };
            let descriptor = Descriptor { endpoints: vec![endpoint], ..descriptor(vec![]) };
            let (operator, settings) = (OperatorGrants::default(), NetworkSettings::default());
            let endpoints =
                Endpoints::resolve(&descriptor.endpoints, &operator, |_| None, settings.client, Bindings::default());
            let parts = NetworkParts {
                provider: "test".to_owned(),
                endpoints: endpoints.unwrap(),
                credentials: Credentials::new(&descriptor, BTreeMap::new(), vec![], Arc::clone(&carryover.captured), 8),
                settings,
                leadership: Arc::new(Alone),
                observer: None,
            };
            Network::with_budgets(parts, &descriptor, &carryover.budgets).recoveries()
        };
        assert!(network()[0].same_channel(&network()[0]));
    }
}
