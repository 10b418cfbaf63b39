//! How much is asked, and for how long.

use super::records::Recorded;
use super::*;

#[tokio::test(start_paused = true)]
async fn what_was_in_doubt_is_asked_for_once_more_though_it_is_not_in_the_next_sample() {
    let look = CompareLimits { nodes: 1, ..CompareLimits::default() };
    let old = good();
    let new =
        Fake { machine: says(|name, _| if name == "n0" { Finding::Absent } else { found(name, |_| {}) }), ..good() };
    let mut all = cluster(2, 0);
    let first = Look { old: &old, new: &new, inventory: &all, limits: &look }.at_all(BALANCERS, &Seen::default()).await;
    all.nodes.reverse();
    let second = Look { old: &old, new: &new, inventory: &all, limits: &look }.at_all(BALANCERS, &first).await;
    assert_eq!(second.nodes.keys().collect::<Vec<_>>(), ["n0", "n1"]);
    assert_eq!(confirmed(&first.nodes, &second.nodes).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_is_asked_than_the_limits_say_nor_for_longer() {
    let limits = CompareLimits { nodes: 700, services: 30, single_services: 7, ..CompareLimits::default() };
    let new = good();
    let report = compare(&good(), &new, &cluster(10_000, 100), BALANCERS, &limits).await.unwrap();
    assert_eq!((report.nodes, report.services.total), (Compared { total: 10_000, compared: 700 }, 100));
    assert_eq!(["find", "name", "get"].map(|function| new.count(function)), [700, 31, 7]);
    assert_eq!(report.extent(), "700 of 10000 Nodes and 7 of 100 Services");

    let begun = tokio::time::Instant::now();
    let new = Fake { machine: says(|_, _| Finding::Absent), ..good() };
    let hasty = CompareLimits { pause: Duration::from_secs(200), ..limits };
    let error = compare(&good(), &new, &cluster(1, 0), BALANCERS, &hasty).await.unwrap_err();
    assert!(
        error.to_string().ends_with("no two looks gave the same answers within 180s (limit compare-time)"),
        "{error}"
    );
    let unlisted = Cluster { is_incomplete: true, ..cluster(1, 0) };
    let error = compared(&good(), &good(), &unlisted).await.unwrap_err().to_string();
    assert!(error.contains("the first list is not complete within 180s"), "{error}");
    assert_eq!(begun.elapsed(), 2 * hasty.time);
}

#[tokio::test(start_paused = true)]
async fn services_are_compared_only_where_both_make_load_balancers() {
    let new = Fake { places: says(|_, _| Ok(None)), ..good() };
    let report = compare(&good(), &new, &cluster(1, 1), Extent::default(), &CompareLimits::default()).await.unwrap();
    assert_eq!((report.services, report.differences.len()), (Compared::default(), 0));
}

/// Of a component that hung in its survey, nobody once heard that it finds no machine, and it served.
#[tokio::test(start_paused = true)]
async fn a_first_component_that_hangs_in_one_half_is_judged_by_the_other() {
    let begun = tokio::time::Instant::now();
    let limits = CompareLimits::default();
    let lost = Fake {
        machine: says(|_, _| Finding::Absent),
        is_first: true,
        hangs: Some("survey"),
        ..surveying(|_, _| Standing::Missing)
    };
    let told = confirm(&lost, &Recorded(cluster(3, 3)), true, &limits).await.unwrap_err().to_string();
    assert!(told.starts_with("it finds none of the machines of 3 Nodes"), "{told}");
    let told = confirm(&Fake { hangs: Some("find"), ..lost }, &Recorded(cluster(3, 3)), true, &limits).await;
    let told = told.unwrap_err().to_string();
    assert!(told.starts_with("it finds none of the load balancers of 3 Services"), "{told}");
    // What hangs may be slow, and there is no other.
    let slow = Fake { is_first: true, hangs: Some("survey"), ..surveying(in_step) };
    let report = confirm(&slow, &Recorded(cluster(3, 3)), true, &limits).await.unwrap();
    assert_eq!((report.nodes.compared, report.services.compared, report.differences.len()), (3, 0, 0));
    assert_eq!(begun.elapsed(), 3 * limits.time, "each is waited for once");
}

/// It is asked again later: the cloud may be slow.
#[tokio::test(start_paused = true)]
async fn whoever_of_two_hangs_the_new_one_is_neither_taken_nor_refused_for_good_and_the_other_is_asked_all_the_same() {
    let begun = tokio::time::Instant::now();
    let time = CompareLimits::default().time;
    for function in ["survey", "find"] {
        let hanging = || Fake { hangs: Some(function), ..surveying(in_step) };
        for (old, new) in [(hanging(), surveying(in_step)), (surveying(in_step), hanging())] {
            let error = compared(&old, &new, &cluster(2, 2)).await.unwrap_err().to_string();
            assert!(error.ends_with("no two looks gave the same answers within 180s (limit compare-time)"), "{error}");
            for one in [&old, &new] {
                let answered = ["survey", "find"].map(|function| one.count(function));
                assert_eq!(answered, ["survey", "find"].map(|asked| if one.hangs == Some(asked) { 0 } else { 2 }));
            }
        }
    }
    assert_eq!(begun.elapsed(), 4 * time);
}

/// The time of the comparison was that of one call, so that every repair was turned away.
#[tokio::test(start_paused = true)]
async fn a_last_good_component_that_hangs_for_a_whole_call_keeps_no_good_one_out() {
    let call_time = Duration::from_secs(60);
    for (function, nodes, services) in [("find", 0, 20), ("survey", 2, 0), ("get", 2, 0)] {
        let other = || if function == "survey" { surveying(in_step) } else { good() };
        let old = Fake { hangs: Some(function), call_time: Some(call_time), ..other() };
        let begun = tokio::time::Instant::now();
        let report = compared(&old, &other(), &cluster(2, 20)).await.unwrap();
        assert!(report.differences.is_empty(), "{function}: {report:?}");
        assert_eq!((report.nodes.compared, report.services.compared), (nodes, services), "{function}: the rest counts");
        assert_eq!(begun.elapsed(), call_time, "{function}: the same is waited for once");
    }
}

/// It answers other questions, and these count.
#[tokio::test(start_paused = true)]
async fn a_last_good_component_that_hangs_in_one_half_keeps_out_who_is_wrong_in_the_other() {
    let old = Fake { hangs: Some("get"), call_time: Some(Duration::from_secs(60)), ..good() };
    let new = Fake { machine: says(|_, _| Finding::Absent), ..good() };
    let report = compared(&old, &new, &cluster(2, 20)).await.unwrap();
    assert_eq!(report.differences.len(), 2, "{report:?}");
}

/// Otherwise a bad one would serve after an outage: nothing was compared then.
#[tokio::test(start_paused = true)]
async fn where_both_fail_the_last_good_component_is_asked_all_the_same() {
    let away = || Fake { hangs: Some("get"), call_time: Some(Duration::from_secs(20)), ..good() };
    let (old, new) = (away(), away());
    let error = compared(&old, &new, &cluster(2, 20)).await.unwrap_err().to_string();
    assert!(error.contains("neither answers about any of the Services"), "{error}");
    assert_eq!((old.count("get"), new.count("get")), (20, 20));
}

/// In a cluster whose Services live for seconds, a component that finds none of them was once taken: by the second look all were gone.
#[tokio::test(start_paused = true)]
async fn objects_that_do_not_live_for_two_looks_count_when_all_of_them_differ_in_both() {
    let restless = || Cluster { is_restless: true, ..cluster(2, 3) };
    let new = Fake { places: says(|_, _| Ok(None)), ..good() };
    let told = differences(&good(), &new, &restless()).await;
    assert_eq!(told.len(), 3);
    assert!(told[0].starts_with("Service default/s0-2: it finds no load balancer"), "{told:?}");
    assert_eq!(differences(&good(), &good(), &restless()).await, [""; 0]);
    // One of them, which is gone by the next look: nobody can tell.
    let new = Fake {
        places: says(|name, _| Ok(Some(vec![ingress("192.0.2.1")]).filter(|_| !name.starts_with("s1")))),
        ..good()
    };
    let error = compared(&good(), &new, &restless()).await.unwrap_err().to_string();
    assert!(error.contains("no two looks gave the same answers"), "{error}");
    let new =
        Fake { places: says(|name, _| Ok(Some(vec![ingress("192.0.2.1")]).filter(|_| name != "s1-1"))), ..good() };
    assert_eq!(differences(&good(), &new, &restless()).await, [""; 0]);
}
