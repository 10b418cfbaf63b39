use std::collections::BTreeMap;

use super::*;
use crate::ledger::peers::tests::{Server, Shared, peers};
use crate::slot::testing::{Does, Rig, digest, faults};

/// A process that has heard of nothing yet.
fn replica(server: &Shared) -> (Arc<Peers>, Share) {
    let peers = peers(server, "/provider", None);
    let share = Share::new(Arc::clone(&peers), "/provider", &Refusals::default());
    (peers, share)
}

/// One that has version 2 on probation, which the leader before has proven.
async fn replica_after_a_proof(server: &Shared, rig: &Rig) -> (Arc<Peers>, Share) {
    let before = peers(server, "/provider", None);
    let (peers, share) = replica(server);
    rig.put("2", Does::Right);
    before.tell(&[Judgement::Proven(digest("2"))]).await.unwrap();
    (peers, share)
}

/// A process with the provider of the rig begins to lead.
async fn elected(peers: &Arc<Peers>, share: &mut Share, rig: &Rig) -> Result<(), PeersError> {
    let keeper = async {
        peers.elected().await;
        share.listen(Some(&rig.slot)).await
    };
    tokio::join!(peers.lead(), keeper).1
}

/// What somebody finds out who asks then.
async fn known(share: &mut Share, rig: &Rig) -> (Option<String>, Option<String>) {
    tokio::time::sleep_until(share.retry.expect("nobody tries again")).await;
    share.listen(Some(&rig.slot)).await.unwrap();
    let entry = share.peers.read().await.unwrap();
    (entry.proven, entry.naming)
}

/// It was asked once, when it began to lead.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_tell_how_it_names_load_balancers_is_asked_again() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica(&server);
    rig.proven.does(Does::Crash);
    elected(&peers, &mut share, &rig).await.unwrap();
    assert_eq!(known(&mut share, &rig).await, (Some(digest("1")), None));
    rig.proven.does(Does::Right);
    assert!(matches!(known(&mut share, &rig).await, (Some(_), Some(_))));
    assert_eq!(share.retry, None);
}

/// Every ten seconds for ever, and whenever somebody wrote the ConfigMap.
#[tokio::test(start_paused = true)]
async fn a_leader_that_never_tells_how_it_names_load_balancers_is_asked_less_and_less_often() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica(&server);
    rig.proven.does(Does::Crash);
    elected(&peers, &mut share, &rig).await.unwrap();
    let asked = || rig.proven.asked.lock()["name"];
    let begun = Instant::now();
    let mut waits = vec![];
    while begun.elapsed() < Duration::from_secs(7200) {
        for _ in 0..3 {
            share.listen(Some(&rig.slot)).await.unwrap();
        }
        let retry = share.retry.expect("nobody tries again");
        waits.push(retry - Instant::now());
        tokio::time::sleep_until(retry).await;
        share.listen(Some(&rig.slot)).await.unwrap();
    }
    assert!(waits[0] <= 2 * AGAIN && waits.last() == Some(&MAX_NAMING_DELAY), "{waits:?}");
    assert_eq!(asked() as usize, waits.len() + 1, "once at each of these times");
    assert!(asked() < 30, "asked {} times", asked());
    rig.put("2", Does::Right);
    rig.slot.peer_proved(&digest("2"));
    share.listen(Some(&rig.slot)).await.unwrap();
    assert_eq!((share.retry, share.entry.naming.is_some()), (None, true), "another one is asked at once");
}

/// Who had it on probation asked it too little to judge, and a new pod could take one that names them in another way.
#[tokio::test(start_paused = true)]
async fn what_a_leader_could_not_tell_when_it_began_it_tells_later() {
    let (server, rig) = (Server::new(None), Rig::new(faults(1)));
    let (peers, mut share) = replica(&server);
    assert!(elected(&peers, &mut share, &rig).await.is_err(), "the work begins all the same");
    server.lock().data = Some(BTreeMap::new());
    let (proven, naming) = known(&mut share, &rig).await;
    assert_eq!((proven, naming.is_some(), share.retry), (Some(digest("1")), true, None));
}

/// What had been proven in between was told last, and stayed.
#[tokio::test(start_paused = true)]
async fn what_a_leader_proves_a_second_time_while_it_cannot_tell_is_its_last_word() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica(&server);
    elected(&peers, &mut share, &rig).await.unwrap();
    server.lock().data = None;
    for version in ["2", "1", "2"] {
        rig.put(version, Does::Right);
        rig.slot.peer_proved(&digest(version));
        assert!(share.listen(Some(&rig.slot)).await.is_err(), "nobody is told");
    }
    server.lock().data = Some(BTreeMap::new());
    assert_eq!(known(&mut share, &rig).await.0, Some(digest("2")));
}

#[tokio::test(start_paused = true)]
async fn how_load_balancers_are_named_is_the_word_of_the_leader_alone() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (_peers, mut share) = replica(&server);
    share.listen(Some(&rig.slot)).await.unwrap();
    assert_eq!((share.entry.proven.as_ref(), share.entry.naming.as_ref()), (None, None));
}

/// A standby that had become the leader put back what was proven before, and the probation went on.
#[tokio::test(start_paused = true)]
async fn what_the_leader_before_has_proven_is_heard_before_anything_is_told() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica_after_a_proof(&server, &rig).await;
    elected(&peers, &mut share, &rig).await.unwrap();
    assert_eq!(share.entry.proven, Some(digest("2")));
    assert!(!rig.slot.standing().is_on_probation());
}

/// It told what it had proven itself when the question failed and the answer after it did not: the proof of the leader before was gone.
#[tokio::test(start_paused = true)]
async fn a_leader_that_could_not_hear_tells_nothing_before_it_has_heard() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica_after_a_proof(&server, &rig).await;
    {
        let mut server = server.lock();
        server.failing_reads = server.reads..server.reads + 1;
    }
    assert!(elected(&peers, &mut share, &rig).await.is_err(), "the work begins all the same");
    assert_eq!(peers.read().await.unwrap().proven, Some(digest("2")));
    let (proven, naming) = known(&mut share, &rig).await;
    assert_eq!((proven, naming.is_some(), rig.slot.standing().is_on_probation()), (Some(digest("2")), true, false));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_was_cleared_is_filled_again_by_those_who_know() {
    let (server, rig) = (Server::new(Some(BTreeMap::new())), Rig::new(faults(1)));
    let (peers, mut share) = replica(&server);
    rig.slot.peer_refused(Refusals::default().refuse(&digest("9"), "it lied".to_owned()));
    elected(&peers, &mut share, &rig).await.unwrap();
    for cleared in [false, true] {
        if cleared {
            server.lock().data = Some(BTreeMap::new());
        }
        // One look notices it, the next one tells.
        share.listen(Some(&rig.slot)).await.unwrap();
        share.listen(Some(&rig.slot)).await.unwrap();
        let entry = peers.read().await.unwrap();
        assert_eq!((entry.proven.is_some(), entry.naming.is_some()), (true, true), "cleared: {cleared}");
        assert_eq!(entry.why(&digest("9")).is_some(), cleared, "cleared: {cleared}");
    }
}
