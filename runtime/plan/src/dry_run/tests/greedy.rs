//! A component that would change much for each Node.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;

use super::provider::{Fake, asks, cluster, not_ready, served};
use super::*;
use crate::planner::{Target, plan};
use crate::report::ObjectPlan;

/// Times 16 changes of 4 KiB, that is more than a dry run keeps.
const NODES: usize = 300;
const CHANGES: usize = 16;

/// A dry run with a provider that has these calls hang.
async fn greedy(hangs: &'static [&'static str]) -> (Bench, Arc<Fake>) {
    let nodes = (0..NODES).map(|number| not_ready("red", &format!("n{number:03}"))).collect();
    let mut bench = bench(cluster(nodes, vec![]), vec![]).await;
    let parts = &mut bench.parts;
    let red = Arc::new(Fake { changes: CHANGES, hangs, ..Fake::new("red", &parts.journal) });
    asks(parts, &[&red]);
    parts.settings.node_lifecycle.min_age = Duration::ZERO;
    // A call for each Node.
    parts.settings.batches.max_nodes = NonZeroUsize::MIN;
    (bench, red)
}

/// A look at Nodes once held all of it until its end, whatever a dry run may keep.
#[tokio::test(start_paused = true)]
async fn what_would_be_changed_for_each_node_is_bounded_while_the_look_lasts() {
    let (Bench { parts, _readers, .. }, red) = greedy(&["Existence n299"]).await;
    let pending = parts.pending.clone();
    assert!(tokio::time::timeout(60 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let page = pending.first(1);
    assert_eq!((page.writes, page.list.as_of), ((NODES - 1) * CHANGES, None), "the look lasts");
    // 16 MiB are 4,096 writes of 4 KiB at most.
    assert!((600..1_000).contains(&page.left_out), "{} of {}", page.left_out, page.writes);
    // What one call leaves is taken before many others begin.
    let waited = red.waited.load(Ordering::Relaxed);
    assert!(waited <= 10 * CHANGES, "{waited} changes waited at the same time");
}

/// All Services are compared with the cloud before the first one is planned.
#[tokio::test(start_paused = true)]
async fn what_a_comparison_of_services_would_change_is_held_by_nobody() {
    let services = (0..100).map(|number| served("red", &format!("s{number:03}"))).collect();
    let mut bench = bench(cluster(vec![], services), vec![]).await;
    let red = Arc::new(Fake { changes: CHANGES, ..Fake::new("red", &bench.parts.journal) });
    asks(&mut bench.parts, &[&red]);
    bench.parts.settings.service.survey_size = NonZeroUsize::MIN;
    let pending = bench.parts.pending.clone();
    assert!(tokio::time::timeout(SECOND, dry_run(bench.parts)).await.is_err(), "it never ends");
    let [questions, waited] = [&red.questions, &red.waited].map(|count| count.load(Ordering::Relaxed));
    assert!(pending.first(1).writes >= 100 && questions >= 100, "{questions} questions");
    assert!(waited <= 10 * CHANGES, "{waited} changes waited at the same time");
}

/// A look once held each Service that it would have written to, with all that its owner wrote on it, until its end: 700 of them were as much
/// memory as a pod may have.
#[tokio::test(start_paused = true)]
async fn what_services_would_be_like_is_held_for_one_after_the_other() {
    const SERVICES: usize = 700;
    const BYTES: usize = 20_000;
    let annotated = |number: usize| {
        let mut service = served("red", &format!("s{number:03}"));
        service["metadata"]["annotations"] = json!({ "example.org/long": "x".repeat(BYTES) });
        service
    };
    let mut bench = bench(cluster(vec![], (0..SERVICES).map(annotated).collect()), vec![]).await;
    let journal = Arc::clone(&bench.parts.journal);
    let red = Arc::new(Fake::new("red", &journal));
    asks(&mut bench.parts, &[&red]);
    let pending = bench.parts.pending.clone();
    assert!(tokio::time::timeout(SECOND, dry_run(bench.parts)).await.is_err(), "it never ends");
    let page = pending.first(1);
    assert!(page.list.as_of.is_some() && page.changes >= SERVICES, "{} changes", page.changes);
    let held = red.held.load(Ordering::Relaxed);
    assert!(held < 2 * BYTES, "{held} bytes");
    assert_eq!(journal.written.bytes(), 0, "and of none after the look");
}

/// The controller keeps what it would have written to each of those that are planned together.
#[test]
fn so_many_services_are_planned_together_as_there_is_room_for_and_one_at_least() {
    let sizes = |names: &[usize]| portions(names, |bytes| *bytes).map(<[usize]>::len).collect::<Vec<_>>();
    assert_eq!(sizes(&[0; 1_100]), [500, 500, 100]);
    assert_eq!(sizes(&[200_000; 700]), [[83; 8].as_slice(), &[36]].concat());
    assert_eq!(sizes(&[1, ANNOTATIONS_AT_ONCE, usize::MAX, usize::MAX, 2]), [1, 1, 1, 1, 1]);
    assert_eq!(sizes(&[]), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_all_hands_over_each_node_before_it_asks_about_the_next_one() {
    let (bench, red) = greedy(&[]).await;
    let DryRunParts { client, journal, providers, nodes, services, addresses, controllers, settings, .. } = bench.parts;
    let client = read_only(&client, Arc::clone(&journal));
    let providers = providers();
    let parts = PlanParts { client, journal, providers, nodes, services, addresses, controllers, settings };
    let mut names = vec![];
    let mut found = |object: ObjectPlan| {
        names.push(object.name);
        assert_eq!((red.looks.load(Ordering::Relaxed), object.writes.len()), (names.len(), CHANGES));
        Ok(())
    };
    let totals = plan(parts, Target::All, &mut found).await.unwrap();
    assert_eq!((names.len(), names.is_sorted(), totals.looked_at), (NODES, true, NODES + 1), "{totals}");
}
