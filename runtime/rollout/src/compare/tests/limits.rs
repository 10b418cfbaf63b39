//! How much is asked, and for how long.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_was_in_doubt_is_asked_for_once_more_though_it_is_not_in_the_next_sample() {
    let look = CompareLimits { nodes: 1, ..CompareLimits::default() };
    let old = good();
    let new =
        Fake { machine: says(|name, _| if name == "n0" { Finding::Absent } else { found(name, |_| {}) }), ..good() };
    let mut all = cluster(2, 0);
    let first = Look { old: &old, new: &new, inventory: &all, limits: &look }.at_all(true, &Seen::default()).await;
    all.nodes.reverse();
    let second = Look { old: &old, new: &new, inventory: &all, limits: &look }.at_all(true, &first).await;
    assert_eq!(second.nodes.keys().collect::<Vec<_>>(), ["n0", "n1"]);
    assert_eq!(confirmed(&first.nodes, &second.nodes).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_is_asked_than_the_limits_say_nor_for_longer() {
    let limits = CompareLimits { nodes: 700, services: 30, single_services: 7, ..CompareLimits::default() };
    let new = good();
    let report = compare(&good(), &new, &cluster(10_000, 100), true, &limits).await.unwrap();
    assert_eq!((report.nodes, report.services.total), (Compared { total: 10_000, compared: 700 }, 100));
    assert_eq!(["find", "name", "get"].map(|function| new.count(function)), [700, 31, 7]);
    assert_eq!(report.extent(), "700 of 10000 Nodes and 7 of 100 Services");

    let begun = tokio::time::Instant::now();
    let new = Fake { machine: says(|_, _| Finding::Absent), ..good() };
    let hasty = CompareLimits { pause: Duration::from_secs(100), ..limits };
    let error = compare(&good(), &new, &cluster(1, 0), true, &hasty).await.unwrap_err();
    assert!(
        error.to_string().ends_with("no two looks gave the same answers within 60s (limit compare-time)"),
        "{error}"
    );
    let unlisted = Cluster { is_incomplete: true, ..cluster(1, 0) };
    let error = compared(&good(), &good(), &unlisted).await.unwrap_err().to_string();
    assert!(error.contains("the first list is not complete within 60s"), "{error}");
    assert_eq!(begun.elapsed(), 2 * hasty.time);
}

#[tokio::test(start_paused = true)]
async fn services_are_compared_only_where_both_make_load_balancers() {
    let new = Fake { places: says(|_, _| Ok(None)), ..good() };
    let report = compare(&good(), &new, &cluster(1, 1), false, &CompareLimits::default()).await.unwrap();
    assert_eq!((report.services, report.differences.len()), (Compared::default(), 0));
}
