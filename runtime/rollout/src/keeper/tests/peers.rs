//! A process with its peers: what becomes of it when it hears what they know. The table stands in decision 18.

mod rejected_here;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_cloud::LoadBalancerSource as _;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;
use crate::gate;
use crate::ledger::Judgement;
use crate::ledger::peers::tests::peers;
use crate::release::digits;
use crate::slot::Refusals;

/// Name of the Lease.
const LEASE: &str = "ccm";
/// Longer than anything takes that comes at all.
const LONG: Duration = Duration::from_secs(300);

/// A process, and where it finds things.
struct Process {
    keeper: Keeper,
    place: Surroundings,
}

#[derive(Clone)]
struct Surroundings {
    folder: Arc<TempDir>,
    server: Shared,
    /// The watch of the ConfigMap shows something.
    shows: UnboundedSender<()>,
}

impl Surroundings {
    fn source(&self) -> PathBuf {
        self.folder.path().join("p.wasm")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn holds(&self, name: &str) {
        std::fs::write(self.source(), version(name)).unwrap();
    }

    /// Another replica has found this out, and the watch shows it, more than once.
    async fn hears(&self, judgement: Judgement) {
        let other = peers(&self.server, &self.source().display().to_string(), Some(LEASE));
        other.tell(&[judgement]).await.unwrap();
        for _ in 0..3 {
            self.shows.unbounded_send(()).unwrap();
        }
    }

    /// Somebody else leads from now on.
    fn is_led(&self) {
        let mut server = self.server.lock();
        server.lease = Some(json!({ "holderIdentity": "another", "leaseDurationSeconds": 15 }));
        server.is_renewed = true;
    }

    /// Waits until an Event with this type and reason was written.
    async fn has_told(&self, event: &str) {
        self.comes(event, || self.count(event) > 0).await;
    }

    fn count(&self, event: &str) -> usize {
        self.server.lock().events.iter().filter(|one| *one == event).count()
    }

    /// Waits until it is so.
    async fn comes(&self, what: &str, is_so: impl Fn() -> bool) {
        let comes = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let told = || format!("{what} does not come: {:?}", self.server.lock().events);
        tokio::time::timeout(LONG, comes).await.unwrap_or_else(|_| panic!("{}", told()));
    }
}

impl Process {
    /// Whose source holds version 1.
    async fn new() -> Self {
        let place = Surroundings {
            folder: Arc::new(tempfile::tempdir().unwrap()),
            server: Server::new(Some(BTreeMap::new())),
            shows: unbounded().0,
        };
        place.holds("1");
        Self::begins(place).await
    }

    /// With what the one before has left.
    async fn begins(place: Surroundings) -> Self {
        let (shows, shown) = unbounded();
        let among = Some((&place.server, settings(Some(LEASE))));
        let mut keeper = keeper_among(&place.source(), &place.state(), among).await;
        let events = Box::pin(shown.map(Ok).chain(stream::pending()));
        keeper.share.as_mut().unwrap().changes = Changes::ConfigMap { events, shown: String::new(), told: None };
        Self { keeper, place: Surroundings { shows, ..place } }
    }

    /// The same when its first component serves.
    async fn serving() -> (Self, Slot<Provider>) {
        let mut process = Self::new().await;
        let slot = process.keeper.bootstrap().await.unwrap();
        (process, slot)
    }

    /// Runs it while `work` is done. Returns what that comes to; none when the process ends first.
    fn runs<'a, T: 'a>(&'a mut self, work: impl Future<Output = T> + 'a) -> LocalBoxFuture<'a, Option<T>> {
        let runs = async {
            tokio::select! {
                () = self.keeper.follow(CancellationToken::new()) => None,
                done = work => Some(done),
            }
        };
        runs.boxed_local()
    }

    /// Why it has no component yet.
    async fn waits(&mut self) -> String {
        let begins = tokio::time::timeout(LONG, self.keeper.bootstrap()).await;
        assert!(begins.is_err(), "it serves");
        self.keeper.surroundings.listeners.statuses.text()
    }
}

fn digest(name: &str) -> String {
    format!("sha256:{:x}", Sha256::digest(version(name)))
}

fn refused(name: &str) -> Judgement {
    Judgement::Refused(Refusals::default().refuse(&digest(name), "it lied".to_owned()))
}

/// Puts this version into the source, and waits until it serves.
async fn takes(place: &Surroundings, slot: &Slot<Provider>, name: &str) {
    place.holds(name);
    place.comes(name, || slot.standing().serving().version == name).await;
}

async fn answers(slot: &Slot<Provider>) {
    slot.find(vec![Node { name: "n1".to_owned(), ..Node::default() }], Need::Existence).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_is_on_probation_and_was_refused_elsewhere_goes() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let done = process.runs(async {
        takes(&place, &slot, "2").await;
        place.hears(refused("2")).await;
        place.has_told("Warning ProviderRolledBack").await;
        assert_eq!(slot.standing().serving().version, "1");
        place.comes("no note", || file(&place.state(), "trial").is_none()).await;
    });
    done.await.unwrap();
}

/// There may be no other.
#[tokio::test(start_paused = true)]
async fn whoever_is_proven_here_and_was_refused_elsewhere_stays_and_that_is_told_once() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let done = process.runs(async {
        takes(&place, &slot, "2").await;
        answers(&slot).await;
        place.is_led();
        place.hears(refused("2")).await;
        place.has_told("Warning ProviderRefusedElsewhere").await;
        place.hears(refused("9")).await;
        tokio::time::sleep(LONG).await;
        let standing = slot.standing();
        assert_eq!((standing.serving().version.as_str(), standing.is_on_probation()), ("2", false));
        assert_eq!(place.count("Warning ProviderRefusedElsewhere"), 1);
    });
    done.await.expect("it ended, though the one that was refused had a probation here");
}

/// Its first component had no probation.
#[tokio::test(start_paused = true)]
async fn a_process_whose_first_component_was_refused_ends_as_soon_as_another_one_leads_and_takes_it_no_more() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let mut led = None;
    let ended = process.runs(async {
        place.hears(refused("1")).await;
        place.has_told("Warning ProviderRefusedElsewhere").await;
        tokio::time::sleep(LONG).await;
        assert_eq!(slot.standing().serving().version, "1", "nobody else leads");
        place.is_led();
        led = Some(Instant::now());
        tokio::time::sleep(LONG).await;
    });
    assert_eq!(ended.await, None, "it serves on");
    let took = led.unwrap().elapsed();
    assert!(took <= Duration::from_secs(14), "it asked again after {took:?}");
    let says = Process::begins(place.clone()).await.waits().await;
    assert!(says.contains("failed its probation before (another replica refused it: it lied)"), "{says}");
}

/// The only standby ended for a leader that had died, and waited after its restart until that Lease was over; or it gave way to itself, when it was
/// told that it leads a moment after the Lease named it.
#[tokio::test(start_paused = true)]
async fn a_process_gives_way_neither_to_a_leader_that_has_died_nor_to_itself() {
    for (holder, is_renewed) in [("another", false), ("this", true)] {
        let (mut process, slot) = Process::serving().await;
        let place = process.place.clone();
        {
            let mut server = place.server.lock();
            server.lease = Some(json!({ "holderIdentity": holder, "leaseDurationSeconds": 15 }));
            server.is_renewed = is_renewed;
        }
        let done = process.runs(async {
            place.hears(refused("1")).await;
            place.has_told("Warning ProviderRefusedElsewhere").await;
            tokio::time::sleep(LONG).await;
            assert_eq!(slot.standing().serving().version, "1");
        });
        done.await.unwrap_or_else(|| panic!("it ended for {holder}"));
    }
}

/// It would come back with what is on probation as its first component, which has no probation.
#[tokio::test(start_paused = true)]
async fn a_process_does_not_give_way_while_another_component_is_on_probation() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let done = process.runs(async {
        takes(&place, &slot, "2").await;
        place.is_led();
        place.hears(refused("1")).await;
        place.has_told("Warning ProviderRefusedElsewhere").await;
        tokio::time::sleep(LONG).await;
        let standing = slot.standing();
        assert_eq!((standing.serving().version.as_str(), standing.is_on_probation()), ("2", true));
        answers(&slot).await;
        tokio::time::sleep(LONG).await;
        assert_eq!(slot.standing().proven.version, "2");
    });
    done.await.expect("it ended");
}

/// Ready with a component that the leader had refused, it let the Deployment remove that leader.
#[tokio::test(start_paused = true)]
async fn a_process_that_took_a_refused_component_for_want_of_a_leader_ends_when_another_one_leads() {
    let mut process = Process::new().await;
    let place = process.place.clone();
    place.hears(refused("1")).await;
    let slot = process.keeper.bootstrap().await.unwrap();
    let ended = process.runs(async {
        tokio::time::sleep(LONG).await;
        assert_eq!(slot.standing().serving().version, "1", "nobody else leads");
        place.is_led();
        tokio::time::sleep(LONG).await;
    });
    assert_eq!(ended.await, None, "it serves on");
    let says = Process::begins(place.clone()).await.waits().await;
    assert!(says.contains("failed its probation before (another replica refused it: it lied)"), "{says}");
}

/// Whoever began to lead meanwhile had told how it names load balancers so that nobody makes them a second time.
#[tokio::test(start_paused = true)]
async fn what_the_leader_tells_while_the_first_component_is_in_the_gate_counts() {
    let mut process = Process::new().await;
    let place = process.place.clone();
    let leader = Server::new(Some(BTreeMap::new()));
    let source = place.source().display().to_string();
    peers(&leader, &source, Some(LEASE)).tell(&[Judgement::Named("another".to_owned())]).await.unwrap();
    place.server.lock().later = leader.lock().data.take();
    let says = process.waits().await;
    assert!(says.contains("calls its load balancer") && says.contains("\"another\""), "{says}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_leads_does_not_end_for_its_first_component_that_was_refused() {
    let (mut process, slot) = Process::serving().await;
    let (place, peers) = (process.place.clone(), process.keeper.peers().unwrap());
    place.is_led();
    let done = process.runs(async {
        peers.lead().await;
        place.hears(refused("1")).await;
        place.has_told("Warning ProviderRefusedElsewhere").await;
        tokio::time::sleep(LONG).await;
        assert_eq!(slot.standing().serving().version, "1");
    });
    done.await.expect("it ended");
}

/// It waits in the source for ever, and nothing else would say why.
#[tokio::test(start_paused = true)]
async fn whoever_was_refused_elsewhere_while_it_was_in_the_gate_is_told_of() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    place.holds("2");
    let keeper = &mut process.keeper;
    let unpacked = gate::unpacked(&keeper.config, keeper.fetch().await.unwrap()).await.unwrap();
    let taken = keeper.surroundings.passes(&keeper.config, unpacked, None, None).await.ok().unwrap();
    slot.peer_refused(Refusals::default().refuse(&digest("2"), "it lied".to_owned()));
    assert!(keeper.exchange(taken, &digest("1"), Duration::ZERO).await.unwrap());
    place.has_told("Warning ProviderRejected").await;
    assert_eq!((slot.standing().serving().version.as_str(), file(&place.state(), "trial")), ("1", None));
}

/// What it wrote when it led elsewhere is ensured again.
#[tokio::test(start_paused = true)]
async fn another_one_that_was_refused_elsewhere_is_not_taken_here_and_what_it_wrote_is_in_doubt() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let mut doubts = slot.doubts();
    let done = process.runs(async {
        place.hears(refused("2")).await;
        doubts.changed().await.unwrap();
        assert!(slot.is_taken_back(digits(&digest("2"))));
        place.holds("2");
        place.has_told("Warning ProviderRejected").await;
        let standing = slot.standing();
        assert_eq!((standing.serving().version.as_str(), standing.generation), ("1", 1), "it has served");
    });
    done.await.unwrap();
    let says = process.keeper.surroundings.listeners.statuses.text();
    assert!(says.contains("another replica refused it: it lied"), "{says}");
}

/// A standby makes no calls that could prove it.
#[tokio::test(start_paused = true)]
async fn whoever_is_on_probation_and_was_proven_elsewhere_is_proven_and_kept() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let done = process.runs(async {
        takes(&place, &slot, "2").await;
        tokio::time::sleep(LONG).await;
        assert!(slot.standing().is_on_probation(), "nobody has asked it anything");
        place.hears(Judgement::Proven(digest("2"))).await;
        place.comes("the proof", || !slot.standing().is_on_probation()).await;
        place.comes("the file", || file(&place.state(), "wasm") == Some(version("2"))).await;
        assert_eq!((slot.standing().proven.version.as_str(), file(&place.state(), "trial")), ("2", None));
    });
    done.await.unwrap();
}

/// A standby that had no answer for a while told afterwards what it had heard, over what the leader had proven since. Others waited for that proof
/// for ever, and one that was killed meanwhile refused the component for all.
#[tokio::test(start_paused = true)]
async fn what_a_standby_has_heard_does_not_take_the_place_of_what_is_proven_since() {
    let (mut process, slot) = Process::serving().await;
    let place = process.place.clone();
    let done = process.runs(async {
        takes(&place, &slot, "2").await;
        // One read of whoever tells, one that brings the proof, and the next one has no answer.
        let unanswered = place.server.lock().reads + 2;
        place.server.lock().failing_reads = unanswered..unanswered + 1;
        place.hears(Judgement::Proven(digest("2"))).await;
        place.comes("the next question", || place.server.lock().reads > unanswered).await;
        place.hears(Judgement::Proven(digest("3"))).await;
        tokio::time::sleep(LONG).await;
        let known = peers(&place.server, &place.source().display().to_string(), Some(LEASE)).read().await.unwrap();
        assert_eq!((slot.standing().proven.version.as_str(), known.proven), ("2", Some(digest("3"))));
    });
    done.await.unwrap();
}

/// The slot does not refuse what it serves, and the folder said what the slot said: the next process took it as if nobody had refused it.
#[tokio::test(start_paused = true)]
async fn a_refused_component_that_served_for_want_of_another_one_is_refused_by_the_next_process() {
    let mut process = Process::new().await;
    let place = process.place.clone();
    place.hears(refused("1")).await;
    let slot = process.keeper.bootstrap().await.unwrap();
    place.holds("2");
    process.keeper.look().await;
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().proven.version.as_str()), ("2", "1"));
    drop(process);
    // Nobody else remembers it.
    place.server.lock().data = Some(BTreeMap::new());
    place.is_led();
    place.holds("1");
    let says = Process::begins(place).await.waits().await;
    assert!(says.contains("it lied), and another replica serves (another leads)"), "{says}");
}

#[tokio::test(start_paused = true)]
async fn a_first_component_that_was_refused_waits_where_another_one_leads() {
    let mut process = Process::new().await;
    process.place.is_led();
    process.place.hears(refused("1")).await;
    let says = process.waits().await;
    assert!(says.contains("it lied), and another replica serves (another leads)"), "{says}");
}

/// A bad component is better than none.
#[tokio::test(start_paused = true)]
async fn a_first_component_that_was_refused_serves_where_nobody_leads() {
    let mut process = Process::new().await;
    process.place.hears(refused("1")).await;
    assert_eq!(process.keeper.bootstrap().await.unwrap().standing().serving().version, "1");
}

#[tokio::test(start_paused = true)]
async fn a_first_component_that_names_load_balancers_otherwise_than_the_leader_is_refused() {
    let mut process = Process::new().await;
    process.place.hears(Judgement::Named("another".to_owned())).await;
    let says = process.waits().await;
    assert!(says.contains("it calls its load balancer") && says.contains("another"), "{says}");
}

/// Each write of any of them, for any source, sent what the source held through the gate at once.
#[tokio::test(start_paused = true)]
async fn a_process_without_a_component_tries_again_for_what_is_news_to_it_and_not_for_what_is_not() {
    let mut process = Process::new().await;
    let place = process.place.clone();
    std::fs::remove_file(place.source()).unwrap();
    let writes = async {
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            place.shows.unbounded_send(()).unwrap();
        }
    };
    tokio::select! {
        _ = process.keeper.bootstrap() => unreachable!("there is no component"),
        () = writes => {}
    }
    let tries = process.keeper.retry.tries;
    assert!((4..=8).contains(&tries), "{tries} tries in a minute");
    let news = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        place.hears(refused("2")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tokio::select! {
        _ = process.keeper.bootstrap() => unreachable!("there is no component"),
        () = news => {}
    }
    assert_eq!(process.keeper.retry.tries, tries + 2, "once when it began, and once for the news");
}
