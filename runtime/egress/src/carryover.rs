//! What one component of a provider leaves to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::Descriptor;
use parking_lot::Mutex;

use crate::budget::{BudgetSettings, EndpointBudget};
use crate::captured::Captured;
use crate::credentials::Pin;
use crate::egress::{Guesses, Told};
use crate::endpoints::Bindings;

/// Most components whose guesses are remembered. Who puts more of them into the source than that needs none of them twice.
const MOST_TRIED: usize = 64;

/// What a source of components keeps while they change: the pauses that clouds asked for, and the uses of credentials that
/// the first component had. Until the first provider serves it also keeps captured tokens and found addresses; from then on
/// each provider has its own.
#[derive(Default)]
pub struct Carryover {
    captured: Mutex<Arc<Captured>>,
    pub(crate) bindings: Bindings,
    pub(crate) budgets: Budgets,
    /// Names that metrics were told.
    pub(crate) told: Arc<Told>,
    pinned: Mutex<Option<Arc<Pin>>>,
    /// Digest of the configuration and the given credentials that tokens and addresses were got with.
    account: Mutex<Option<[u8; 32]>>,
    /// Digest of the component that was tried last as the first one.
    tried: Mutex<Option<String>>,
    /// What each component that was tried has learned of secrets, by its digest.
    guesses: Mutex<BTreeMap<String, Arc<Guesses>>>,
}

/// Uses of credentials that a component may have. They count for later ones once it is taken.
pub(crate) struct Admission {
    pin: Arc<Pin>,
    /// It has more uses than the first component, which the operator allowed.
    is_wider: bool,
}

impl Carryover {
    /// A component may use credentials where the first one did, and nowhere else. `is_given` names endpoints whose base URLs the
    /// operator gave.
    ///
    /// # Errors
    ///
    /// The uses that are new, in words, unless the operator allowed them.
    pub(crate) fn admit(
        &self,
        pin: Pin,
        is_given: impl Fn(&str) -> bool,
        allow_wider_use: bool,
    ) -> Result<Admission, Vec<String>> {
        let wider = self.pinned.lock().as_ref().map(|first| first.widened(&pin, is_given)).unwrap_or_default();
        if !wider.is_empty() && !allow_wider_use {
            return Err(wider);
        }
        if !wider.is_empty() {
            let provider = pin.provider();
            tracing::warn!(
                provider,
                uses = wider.join(", "),
                "the component may do more than the first one, since --allow-grant-change is set"
            );
        }
        Ok(Admission { pin: Arc::new(pin), is_wider: !wider.is_empty() })
    }

    /// A provider that is the first one begins with this account. What was got with another one, by a component that was refused, is of no
    /// use.
    pub(crate) fn begin(&self, account: [u8; 32]) {
        let before = self.account.lock().replace(account);
        if before.is_some_and(|before| before != account) {
            self.captured().end_all();
            self.bindings.forget();
        }
    }

    /// A component without a predecessor is tried. What another one captured and found, which was tried before it and refused, ends: that may
    /// be the session of somebody else, and the address of another machine. The same one goes on with them, so that it need not log in again
    /// with each try.
    pub fn tries(&self, digest: &str) {
        let before = self.tried.lock().replace(digest.to_owned());
        if before.is_some_and(|before| before != digest) {
            let mut captured = self.captured.lock();
            // A login that is still under way ends where nobody looks.
            *captured = Arc::new(captured.ended());
            drop(captured);
            self.bindings.forget();
        }
    }

    /// What the component with this digest has learned of secrets, in all its tries: one that fails its check is tried again for ever. Without a
    /// digest nothing is remembered.
    pub(crate) fn guesses(&self, digest: &str) -> Arc<Guesses> {
        if digest.is_empty() {
            return Arc::default();
        }
        let mut guesses = self.guesses.lock();
        if guesses.len() >= MOST_TRIED && !guesses.contains_key(digest) {
            guesses.clear();
        }
        Arc::clone(guesses.entry(digest.to_owned()).or_default())
    }

    /// What components captured that have no predecessor.
    pub(crate) fn captured(&self) -> Arc<Captured> {
        Arc::clone(&self.captured.lock())
    }

    /// Forgets addresses that providers found. Tokens stay: a login may have ended before its provider found any.
    pub fn forget_addresses(&self) {
        self.bindings.forget();
    }

    /// Pins what a component declares that was taken once, whatever becomes of it now. `by_hand` are the credentials whose places the
    /// operator named.
    pub fn pin_declared(&self, descriptor: &Descriptor, by_hand: impl Fn(&str) -> bool) {
        self.pinned.lock().get_or_insert_with(|| Arc::new(Pin::declared(descriptor, by_hand)));
    }

    /// The component was taken: no later one may use credentials in more places.
    pub(crate) fn taken(&self, Admission { pin, is_wider }: &Admission) {
        let mut pinned = self.pinned.lock();
        if *is_wider || pinned.as_ref().is_none_or(|known| known.is_told_by(pin)) {
            *pinned = Some(Arc::clone(pin));
        }
    }
}

/// Budgets of endpoints by name. They outlive a provider, so that a pause that a cloud asked for is kept whoever asks again.
#[derive(Default)]
pub(crate) struct Budgets(Mutex<KeptBudgets>);

#[derive(Default)]
struct KeptBudgets {
    /// Of the component that was taken last.
    taken: BTreeMap<String, EndpointBudget>,
    /// Of the one that was looked at last, as far as they are others. What those before it made up is forgotten.
    on_probation: BTreeMap<String, EndpointBudget>,
}

impl Budgets {
    /// A budget for each endpoint that `descriptor` declares: the one of before while the cloud's limits are the same, or a new one, which keeps
    /// the pauses. Later components use the new one only after [`taken`](Self::taken).
    pub(crate) fn of(&self, descriptor: &Descriptor, settings: &BudgetSettings) -> BTreeMap<String, EndpointBudget> {
        let mut kept = self.0.lock();
        let is_shared = |name: &String| descriptor.budgets.iter().any(|cloud| cloud.endpoints.contains(name));
        let alone = descriptor.endpoints.iter().map(|endpoint| &endpoint.name).filter(|name| !is_shared(name));
        let alone = alone.map(|name| ccm_cloud::Budget { endpoints: vec![name.clone()], ..Default::default() });
        let (mut budgets, mut on_probation) = (BTreeMap::new(), BTreeMap::new());
        for cloud in descriptor.budgets.iter().cloned().chain(alone) {
            let known = |name: &String| kept.taken.get(name).or_else(|| kept.on_probation.get(name)).cloned();
            let before: Vec<EndpointBudget> = cloud.endpoints.iter().filter_map(known).collect();
            let budget = EndpointBudget::of(&cloud.endpoints, settings.clone().of_cloud(&cloud), &before);
            for name in cloud.endpoints {
                let first = known(&name).unwrap_or_else(|| budget.clone());
                on_probation.insert(name.clone(), first);
                budgets.insert(name, budget.clone());
            }
        }
        on_probation.retain(|name, _| !kept.taken.contains_key(name));
        kept.on_probation = on_probation;
        budgets
    }

    /// The component with these was taken.
    pub(crate) fn taken(&self, budgets: &BTreeMap<String, EndpointBudget>) {
        *self.0.lock() = KeptBudgets { taken: budgets.clone(), on_probation: BTreeMap::new() };
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use ccm_cloud::{Alone, Credential, CredentialUse, Endpoint, Place, Source};
    use http::HeaderMap;

    use super::*;
    use crate::budget::{Class, NoTurn};
    use crate::credentials::CredentialSource;
    use crate::egress::{Egress, EgressConfig, OpenError};
    use crate::secret::Secret;

    /// A component that sends its only credential in this header.
    fn pin(header: &str) -> Pin {
        let place = Place::Header(header.to_owned());
        let uses = vec![CredentialUse { endpoint: "api".to_owned(), place, path: None }];
        let (name, purpose, value) = ("token".to_owned(), String::new(), Source::default());
        let credential = Credential { name, purpose, required: false, value, uses };
        Pin::new(&descriptor(vec![credential]), &BTreeMap::new(), |_| true)
    }

    fn descriptor(credentials: Vec<Credential>) -> Descriptor {
        Descriptor { name: "test".to_owned(), credentials, ..Descriptor::default() }
    }

    fn admit(carryover: &Carryover, header: &str, allow_wider_use: bool) -> Result<Admission, Vec<String>> {
        carryover.admit(pin(header), |_| false, allow_wider_use)
    }

    #[test]
    fn what_the_first_component_did_is_pinned_once_it_was_taken_and_not_before() {
        let carryover = Carryover::default();
        drop(admit(&carryover, "refused-later", false).unwrap());
        let first = admit(&carryover, "one", false).unwrap();
        carryover.taken(&first);
        let error = OpenError::WiderUse(admit(&carryover, "two", false).err().unwrap()).to_string();
        let says = ["it wants to use credential \"token\" in header \"two\"", "--allow-grant-change"];
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
        carryover.taken(&admit(&carryover, "one", false).unwrap());
    }

    #[test]
    fn the_operator_may_let_the_next_one_do_more_which_then_counts_for_all_after_it() {
        let carryover = Carryover::default();
        carryover.taken(&admit(&carryover, "one", false).unwrap());
        // Not before it was taken.
        drop(admit(&carryover, "two", true).unwrap());
        assert!(admit(&carryover, "two", false).is_err());
        carryover.taken(&admit(&carryover, "two", true).unwrap());
        assert!(admit(&carryover, "two", false).is_ok() && admit(&carryover, "one", false).is_err());
    }

    fn budgets_of(carryover: &Carryover, budgets: &[ccm_cloud::Budget]) -> BTreeMap<String, EndpointBudget> {
        let endpoint = |name: &str| Endpoint {
            name: name.to_owned(),
            purpose: String::new(),
            base_url: Source::default(),
            default_base_url: None,
            tls: None,
        };
        let endpoints = ["machines", "networks", "images"].map(endpoint).to_vec();
        let descriptor = Descriptor { endpoints, budgets: budgets.to_vec(), ..descriptor(vec![]) };
        carryover.budgets.of(&descriptor, &BudgetSettings::default())
    }

    fn ten_a_second(endpoints: &[&str]) -> ccm_cloud::Budget {
        let endpoints = endpoints.iter().map(|&name| name.to_owned()).collect();
        ccm_cloud::Budget { endpoints, per_second: NonZeroU32::new(10), ..Default::default() }
    }

    async fn send(budget: &EndpointBudget, status: u16) -> Result<(), NoTurn> {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(1);
        budget.acquire(Class::Write, deadline).await?.answered(status, &HeaderMap::new());
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_the_cloud_counts_together_have_one_budget_and_others_their_own() {
        let budgets = budgets_of(&Carryover::default(), &[ten_a_second(&["machines", "networks"])]);
        for _ in 0..5 {
            send(&budgets["machines"], 200).await.unwrap();
            send(&budgets["networks"], 200).await.unwrap();
        }
        // The burst is as large as the rate where the provider names none.
        let refused = send(&budgets["networks"], 200).await.unwrap_err();
        assert!(refused.message.contains("more requests wait than 10 per second let through"), "{}", refused.message);
        assert_eq!(budgets["machines"].left().tokens, 0);
        for _ in 0..100 {
            send(&budgets["images"], 200).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_limits_of_the_next_component_hold_at_once_and_a_pause_goes_on() {
        let carryover = Carryover::default();
        let first = budgets_of(&carryover, &[]);
        send(&first["networks"], 429).await.unwrap();
        let together = [ten_a_second(&["machines", "networks"])];
        // The pause is the cloud's, and of both from now on.
        let next = budgets_of(&carryover, &together);
        assert!(send(&next["machines"], 200).await.unwrap_err().message.contains("asked for no requests"));
        assert_eq!((next["machines"].left().tokens, first["machines"].left().tokens), (10, 250));
        // Not taken: whoever comes now finds what was there before.
        assert!(is_same(&budgets_of(&carryover, &[])["machines"], &first["machines"]));
        carryover.budgets.taken(&next);
        assert!(is_same(&budgets_of(&carryover, &together)["networks"], &next["machines"]));
        // And back: each for itself again.
        let apart = budgets_of(&carryover, &[]);
        assert!(!is_same(&apart["machines"], &apart["networks"]));
    }

    fn is_same(one: &EndpointBudget, other: &EndpointBudget) -> bool {
        one.recoveries().same_channel(&other.recoveries())
    }

    /// The first component was refused because of its project, and the next try with another one began with the token and the addresses of the
    /// first.
    #[test]
    fn what_was_got_with_another_account_is_not_used_when_a_first_component_is_tried_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |value: &str| std::fs::write(file.path(), value).unwrap();
        let carryover = Carryover::default();
        let credential = |name: &str| Credential {
            name: name.to_owned(),
            purpose: String::new(),
            required: false,
            value: Source::default(),
            uses: vec![],
        };
        let descriptor = descriptor(["password", "token"].map(credential).into());
        let open = || {
            let source = CredentialSource::file(file.path().to_owned());
            let credentials = [("password".to_owned(), source)].into();
            let config = EgressConfig { credentials, ..EgressConfig::new(Arc::new(Alone)) };
            drop(Egress::open(config, &descriptor, &carryover, None).unwrap());
        };
        write("password-1");
        open();
        carryover.captured().store("token", Secret::new("token-of-1".into()), None).unwrap();
        open();
        assert!(carryover.captured().value("token").is_some(), "it is the same account");
        write("password-2");
        open();
        assert!(carryover.captured().value("token").is_none());
    }

    /// It captured a session of its author's own and was refused, and the one that was tried in its place sent everything there.
    #[test]
    fn what_a_refused_first_component_captured_ends_when_another_one_is_tried() {
        let carryover = Carryover::default();
        carryover.tries("one");
        let of_one = carryover.captured();
        of_one.store("token", Secret::new("session-of-one".into()), None).unwrap();
        carryover.tries("one");
        assert!(carryover.captured().value("token").is_some(), "it is the same component");
        carryover.tries("two");
        assert!(carryover.captured().value("token").is_none());
        // It is still no word for answers, and a login that ends late changes nothing.
        assert_eq!(carryover.captured().values().len(), 1);
        of_one.store("token", Secret::new("session-of-one-2".into()), None).unwrap();
        assert!(carryover.captured().value("token").is_none());
    }

    #[test]
    fn what_components_learned_of_secrets_is_remembered_of_so_many_and_no_more() {
        let carryover = Carryover::default();
        let first = carryover.guesses("first");
        for number in 2..=MOST_TRIED {
            carryover.guesses(&number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &carryover.guesses("first")));
        for number in 0..1000 {
            carryover.guesses(&format!("another {number}"));
            assert!(carryover.guesses.lock().len() <= MOST_TRIED);
        }
    }

    /// A provider that is tried again once forgot that the cloud had asked for a pause.
    #[tokio::test]
    async fn budgets_outlive_the_network_that_they_were_made_for() {
        let carryover = Carryover::default();
        let endpoint = Endpoint {
            name: "api".to_owned(),
            purpose: String::new(),
            base_url: Source::default(),
            default_base_url: None,
            tls: None,
        };
        let descriptor = Descriptor { endpoints: vec![endpoint], ..descriptor(vec![]) };
        let egress = || Egress::open(EgressConfig::new(Arc::new(Alone)), &descriptor, &carryover, None).unwrap();
        assert!(egress().recoveries()[0].same_channel(&egress().recoveries()[0]));
    }
}
