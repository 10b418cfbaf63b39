//! Somebody who can write the source puts an older component back, which was signed as well.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::gate::Step;
use crate::ledger::{Judgement, LedgerEntry};
use crate::pipeline::NotAdmitted;
use crate::release::Release;
use crate::trust::tests::Signer;

/// As the component of the tests calls itself.
const NAME: &str = "cloudlycke";
const LEASE: &str = "ccm";

/// A source that somebody signs, and pods that read it.
struct SignedSource {
    folder: TempDir,
    signer: Signer,
    server: Shared,
}

impl SignedSource {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), signer: Signer::new(), server: Server::new(Some(BTreeMap::new())) }
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("p.wasm")
    }

    /// The source holds this version, signed with this counter, or without one.
    fn holds(&self, name: &str, counter: Option<u64>) {
        let component = version(name);
        let beside = match counter {
            Some(counter) => self.signer.vouches(&component, NAME, counter),
            None => self.signer.sign(&component),
        };
        std::fs::write(self.source(), component).unwrap();
        std::fs::write(self.folder.path().join("p.wasm.sig"), beside).unwrap();
    }

    /// A pod with this state folder, which meets others or not.
    async fn pod(&self, state: &str, meets: bool, change: impl FnOnce(&mut ProviderRecord)) -> Keeper {
        let mut record = ProviderRecord {
            source: self.source().display().to_string(),
            trust: self.signer.trust(),
            ..ProviderRecord::default()
        };
        change(&mut record);
        let among = meets.then(|| (&self.server, settings(Some(LEASE))));
        keeper_of(record, &self.folder.path().join(state), among).await
    }

    /// What a new pod of the others says of the source: the version that it takes, or why it takes none.
    async fn new_pod(&self, change: impl FnOnce(&mut ProviderRecord)) -> Result<String, String> {
        let state = format!("state-{}", fastrand::u64(..));
        first(&mut self.pod(&state, true, change).await).await
    }

    /// The counters that the pods share.
    fn shared(&self) -> Vec<u64> {
        let data = self.server.lock().data.clone().unwrap();
        let entries = data.values().map(|text| serde_json::from_str::<LedgerEntry>(text).unwrap());
        let counters = entries.flat_map(|entry| entry.counters.missing_in(&crate::ledger::Counters::default()));
        counters.map(|counted| counted.signed.counter).collect()
    }
}

/// What it takes as its first component.
async fn first(keeper: &mut Keeper) -> Result<String, String> {
    match keeper.try_once(&mut Some(String::new())).await {
        Ok(taken) => Ok(taken.release.version.version.clone()),
        Err(error) => {
            let rejected = NotAdmitted::into_rejected(error);
            assert_eq!(rejected.step, Step::Trust, "{:#}", rejected.error);
            Err(format!("{:#}", rejected.error))
        }
    }
}

/// The pod serves its first component.
async fn serves(keeper: &mut Keeper) -> Slot<Provider> {
    let slot = keeper.bootstrap().await.unwrap();
    keeper.begun().await;
    slot
}

async fn leads(keeper: &mut Keeper) {
    let peers = keeper.peers().unwrap();
    let tells = async {
        peers.elected().await;
        keeper.listen().await;
    };
    tokio::join!(peers.lead(), tells);
}

fn refuses(told: Result<String, String>, parts: &[&str]) {
    let error = told.expect_err("it was taken");
    for part in parts.iter().chain(&["--allow-downgrade"]) {
        assert!(error.contains(part), "{error} does not say {part}");
    }
}

#[tokio::test]
async fn a_new_pod_refuses_what_is_older_than_the_component_of_the_leader() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    assert_eq!(place.new_pod(|_| ()).await.as_deref(), Ok("2"), "nobody remembers another one");
    let mut leader = place.pod("leader", true, |_| ()).await;
    serves(&mut leader).await;
    assert_eq!(place.shared(), [0; 0], "a standby has proven nothing");
    leads(&mut leader).await;
    assert_eq!(place.shared(), [2]);

    place.holds("1", Some(1));
    refuses(place.new_pod(|_| ()).await, &["has the counter 1, and that of cloudlycke sha256:", "had 2;"]);
    assert_eq!(place.new_pod(|record| record.allow_downgrade = true).await.as_deref(), Ok("1"));
    assert_eq!(place.new_pod(|record| record.trust.keys.clear()).await.as_deref(), Ok("1"), "nobody asks");
    place.holds("1", None);
    refuses(place.new_pod(|_| ()).await, &["has no counter, and that of cloudlycke sha256:", "had 2;"]);
    // Whoever signs may go back.
    place.holds("1", Some(3));
    assert_eq!(place.new_pod(|_| ()).await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn a_process_that_runs_refuses_what_is_older_and_takes_what_is_newer() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut keeper = place.pod("state", true, |_| ()).await;
    let slot = serves(&mut keeper).await;
    leads(&mut keeper).await;
    for counter in [Some(1), None] {
        place.holds("1", counter);
        keeper.look().await;
        let standing = slot.standing();
        assert_eq!((standing.serving().version.as_str(), standing.is_on_probation()), ("2", false));
    }
    let page = keeper.surroundings.listeners.statuses.json();
    assert!(page.contains(r#""step": "trust""#) && page.contains("has no counter"), "{page}");
    place.holds("3", Some(3));
    keeper.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("3", true));
    assert_eq!(place.shared(), [2], "it is not proven yet");
    // The one before is still the last good one, and may return.
    place.holds("2", Some(2));
    keeper.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("2", false));
    place.holds("3", Some(3));
    keeper.look().await;
    slot.find(vec![Node { name: "n1".to_owned(), ..Node::default() }], Need::Existence).await.unwrap();
    keeper.catch_up().await;
    assert_eq!(place.shared(), [3, 2]);
    place.holds("2", Some(2));
    keeper.look().await;
    assert_eq!(slot.standing().serving().version, "3");
}

#[tokio::test]
async fn the_state_folder_remembers_where_there_are_no_others() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    serves(&mut place.pod("state", false, |_| ()).await).await;
    // Without the last good one, which would be taken.
    let state = place.folder.path().join("state");
    let kept = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    kept.filter(|path| path.extension().is_some_and(|ending| ending == "wasm")).for_each(|path| {
        std::fs::remove_file(path).unwrap();
    });
    place.holds("1", Some(1));
    refuses(first(&mut place.pod("state", false, |_| ()).await).await, &["has the counter 1", "had 2;"]);
    assert_eq!(first(&mut place.pod("another", false, |_| ()).await).await.as_deref(), Ok("1"));
}

/// The last good component of a pod that was away is as old as any other.
#[tokio::test]
async fn a_last_good_component_that_is_older_than_what_others_have_proven_gives_way_to_the_source() {
    let place = SignedSource::new();
    place.holds("1", Some(1));
    serves(&mut place.pod("away", true, |_| ()).await).await;
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    serves(&mut leader).await;
    leads(&mut leader).await;
    assert_eq!(first(&mut place.pod("away", true, |_| ()).await).await.as_deref(), Ok("2"));
}

/// Whoever could write the ConfigMap of the replicas raised a counter, and no component was taken any more; or filled the list, so that the
/// counter that keeps older ones out was pushed out of it.
#[tokio::test]
async fn a_counter_that_nobody_signed_counts_for_nothing_and_hides_no_other_one() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    let slot = serves(&mut leader).await;
    leads(&mut leader).await;
    let (key, text) = place.server.lock().data.clone().unwrap().pop_first().unwrap();
    let mut entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let honest = entry["counters"][0].clone();
    let forged = |name: &str, counter: u64| {
        let mut forged = honest.clone();
        (forged["name"], forged["counter"]) = (name.into(), counter.into());
        forged
    };
    // More than are remembered of a name, and more names than are remembered.
    let mut list: Vec<_> = (0..9).map(|more| forged(NAME, u64::MAX - more)).collect();
    list.extend((0..9).map(|more| forged(&format!("name-{more}"), 7)));
    entry["counters"] = list.into();
    place.server.lock().data = Some([(key, entry.to_string())].into());

    leader.listen().await;
    leader.listen().await;
    assert_eq!(place.shared().iter().filter(|counter| **counter == 2).count(), 1, "the honest one is there again");
    place.holds("1", Some(1));
    refuses(place.new_pod(|_| ()).await, &["has the counter 1", "had 2;"]);
    place.holds("3", Some(3));
    assert_eq!(place.new_pod(|_| ()).await.as_deref(), Ok("3"));
    leader.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("3", true));
    let written = place.server.lock().data.clone();
    leader.listen().await;
    assert!(place.server.lock().data == written && leader.share.as_ref().unwrap().retry.is_none(), "nothing is new");
}

/// By whoever leads, and by a standby that has heard of them: the leader may be on its way out.
#[tokio::test]
async fn counters_that_somebody_cleared_are_told_again() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    let slot = serves(&mut leader).await;
    leads(&mut leader).await;
    let mut standby = place.pod("standby", true, |_| ()).await;
    serves(&mut standby).await;
    for keeper in [&mut leader, &mut standby] {
        place.server.lock().data = Some(BTreeMap::new());
        // One look notices it, the next one tells.
        keeper.listen().await;
        assert!(keeper.share.as_ref().unwrap().retry.is_some());
        keeper.listen().await;
        assert_eq!(place.shared(), [2]);
        let written = place.server.lock().data.clone();
        keeper.listen().await;
        assert!(
            place.server.lock().data == written && keeper.share.as_ref().unwrap().retry.is_none(),
            "nothing is new"
        );
    }
    let Release { version, .. } = slot.components().proven;
    assert_eq!(version.signed.as_ref().map(|signed| signed.counter), Some(2), "the page shows it");
}

/// What a replica heard of refused ones while it served stood in the slot alone, and the counter went on keeping components out.
#[tokio::test]
async fn the_counter_of_a_component_that_was_refused_elsewhere_keeps_none_out_here() {
    let place = SignedSource::new();
    place.holds("1", Some(1));
    let mut standby = place.pod("standby", true, |_| ()).await;
    let slot = serves(&mut standby).await;
    place.holds("3", Some(3));
    let mut leader = place.pod("leader", true, |_| ()).await;
    let led = serves(&mut leader).await;
    leads(&mut leader).await;
    standby.listen().await;
    let refusal = Refusals::default().refuse(&led.standing().proven.digest, "it lied".to_owned());
    leader.share(Judgement::Refused(refusal)).await;
    standby.listen().await;
    let restarted = first(&mut place.pod("standby", false, |_| ()).await).await;
    assert_eq!(restarted.as_deref(), Ok("1"), "it is remembered, too");
    place.holds("2", Some(2));
    standby.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("2", true));
}

/// It kept out what the others had gone back to, for as long as it served.
#[tokio::test]
async fn the_counter_of_a_component_that_serves_and_was_refused_elsewhere_keeps_none_out() {
    let place = SignedSource::new();
    place.holds("3", Some(3));
    let mut keeper = place.pod("state", true, |_| ()).await;
    let slot = serves(&mut keeper).await;
    leads(&mut keeper).await;
    assert_eq!(place.shared(), [3]);
    let refusal = Refusals::default().refuse(&slot.standing().proven.digest, "it lied".to_owned());
    keeper.share(Judgement::Refused(refusal)).await;
    place.holds("2", Some(2));
    keeper.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("2", true));
}

/// Its new counter kept out nothing before the next start; where the state folder had it with the first one, not even then.
#[tokio::test]
async fn a_component_that_is_signed_again_while_it_serves_counts_and_is_kept_with_the_last_signature() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    serves(&mut leader).await;
    leads(&mut leader).await;
    let mut standby = place.pod("standby", true, |_| ()).await;
    serves(&mut standby).await;
    place.holds("2", Some(5));
    standby.look().await;
    assert_eq!(place.shared(), [2], "a standby has proven nothing");
    leader.look().await;
    assert_eq!(place.shared(), [5, 2]);
    place.holds("2", Some(4));
    leader.look().await;
    let other = place.signer.vouches(&version("2"), "other", 9);
    std::fs::write(place.folder.path().join("p.wasm.sig"), other).unwrap();
    leader.look().await;
    let page = leader.surroundings.listeners.statuses.json();
    assert!(page.contains(r#""step": "identity""#) && page.contains("its signature is for"), "{page}");
    assert_eq!(place.shared(), [5, 2]);
    place.holds("3", Some(4));
    refuses(place.new_pod(|_| ()).await, &["has the counter 4", "had 5;"]);
    std::fs::remove_file(place.source()).unwrap();
    let mut restarted = place.pod("leader", false, |_| ()).await;
    let taken = restarted.try_once(&mut Some(String::new())).await.ok().unwrap();
    assert_eq!(taken.release.version.signed.as_ref().map(|signed| signed.counter), Some(5));
}

#[tokio::test]
async fn a_component_that_is_signed_again_on_probation_counts_with_the_last_signature_when_it_is_proven() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    let slot = serves(&mut leader).await;
    leads(&mut leader).await;
    for counter in [3, 6] {
        place.holds("3", Some(counter));
        leader.look().await;
        assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("3", true));
        assert_eq!(place.shared(), [2], "it is not proven yet");
    }
    slot.find(vec![Node { name: "n1".to_owned(), ..Node::default() }], Need::Existence).await.unwrap();
    leader.catch_up().await;
    assert_eq!(place.shared(), [6, 2]);
    std::fs::remove_file(place.source()).unwrap();
    let mut restarted = place.pod("leader", false, |_| ()).await;
    let taken = restarted.try_once(&mut Some(String::new())).await.ok().unwrap();
    assert_eq!(taken.release.version.signed.as_ref().map(|signed| signed.counter), Some(6));
}

/// A lower one was kept in its place when another component had been signed again meanwhile.
#[tokio::test]
async fn the_last_signature_of_the_proven_component_stays_while_another_one_is_signed_again_on_probation() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    let mut leader = place.pod("leader", true, |_| ()).await;
    let slot = serves(&mut leader).await;
    leads(&mut leader).await;
    for (name, counter) in [("2", 5), ("3", 6), ("3", 7), ("2", 4)] {
        place.holds(name, Some(counter));
        leader.look().await;
        assert_eq!(
            (slot.standing().serving().version.as_str(), slot.standing().is_on_probation()),
            (name, name == "3")
        );
    }
    std::fs::remove_file(place.source()).unwrap();
    let mut restarted = place.pod("leader", false, |_| ()).await;
    let taken = restarted.try_once(&mut Some(String::new())).await.ok().unwrap();
    assert_eq!(taken.release.version.signed.as_ref().map(|signed| signed.counter), Some(5));
}

/// Nothing served after a start that asked for signatures, though the component had been kept with one.
#[tokio::test]
async fn a_component_that_is_taken_without_a_signature_is_kept_with_the_one_that_it_had() {
    let place = SignedSource::new();
    place.holds("2", None);
    let mut leader = place.pod("leader", true, |record| record.trust.keys.clear()).await;
    serves(&mut leader).await;
    std::fs::remove_file(place.folder.path().join("p.wasm.sig")).unwrap();
    leader.look().await;
    std::fs::remove_file(place.source()).unwrap();
    assert_eq!(first(&mut place.pod("leader", false, |_| ()).await).await.as_deref(), Ok("2"));
}

/// It was older than itself, and nothing served where the source was gone.
#[tokio::test]
async fn a_last_good_component_that_was_signed_again_elsewhere_serves_with_the_signature_that_it_has() {
    let place = SignedSource::new();
    place.holds("2", Some(2));
    serves(&mut place.pod("away", true, |_| ()).await).await;
    place.holds("2", Some(5));
    let mut leader = place.pod("leader", true, |_| ()).await;
    serves(&mut leader).await;
    leads(&mut leader).await;
    assert_eq!(place.shared(), [5]);
    std::fs::remove_file(place.source()).unwrap();
    assert_eq!(first(&mut place.pod("away", true, |_| ()).await).await.as_deref(), Ok("2"));
}

#[tokio::test]
async fn a_component_that_was_signed_under_another_name_does_not_serve() {
    let place = SignedSource::new();
    place.holds("1", Some(1));
    let beside = place.signer.vouches(&version("1"), "other", 1);
    std::fs::write(place.folder.path().join("p.wasm.sig"), beside).unwrap();
    let mut keeper = place.pod("state", true, |_| ()).await;
    let rejected = keeper.try_once(&mut None).await.err().map(NotAdmitted::into_rejected).unwrap();
    let error = format!("{:#}", rejected.error);
    assert!(rejected.step == Step::Identity && error.contains("its signature is for \"other\""), "{error}");
}
