//! Routes of all Nodes.

use super::*;
use crate::route_differences::tests::routes;

impl Routes for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn get_all(&self, nodes: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        let told = nodes.len().to_string();
        ready((self.routes)(&told, self.ask("get-all", &told)))
    }

    fn change(&self, _: Vec<Route>, _: Vec<RouteWish>) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        unreachable!("nothing is written")
    }
}

const ALL: Extent = Extent { balancers: true, routes: true };

/// A component that answers this.
fn finding(list: &'static [(&str, &str, RouteState)]) -> Fake {
    Fake { routes: says(move |_, _| Ok(routes(list))), ..good() }
}

fn failing(reaction: Reaction) -> Fake {
    Fake { routes: says(move |_, _| Err(failure(reaction))), ..good() }
}

const TWO: [(&str, &str, RouteState); 2] =
    [("10.244.0.0/24", "n0", RouteState::InPlace), ("10.244.1.0/24", "n1", RouteState::InPlace)];

async fn report(old: &Fake, new: &Fake) -> Result<Report, Unanswered> {
    compare(old, new, &cluster(2, 1), ALL, &CompareLimits::default()).await
}

async fn told(old: &Fake, new: &Fake) -> Vec<String> {
    report(old, new).await.unwrap().differences.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn both_are_asked_once_for_the_routes_of_all_nodes_and_what_is_the_same_is_counted() {
    let (old, new) = (finding(&TWO), finding(&TWO));
    let same = report(&old, &new).await.unwrap();
    assert_eq!((same.routes, same.differences), (Compared { total: 2, compared: 2 }, vec![]));
    assert_eq!(same.nodes, Compared { total: 2, compared: 2 });
    let asked =
        |one: &Fake| one.asked.lock().iter().filter(|one| one.starts_with("get-all")).cloned().collect::<Vec<_>>();
    assert_eq!((asked(&old), asked(&new)), (vec!["get-all 2".to_owned()], vec!["get-all 2".to_owned()]));
    let extent = report(&old, &new).await.unwrap().extent();
    assert_eq!(extent, "2 of 2 Nodes, 1 of 1 Services and 2 of 2 routes");
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_lost_or_leads_elsewhere_or_stands_otherwise_is_a_difference_at_the_second_look() {
    use RouteState::{Blackhole, InPlace, Incomplete};
    let lost = r#"Route 10.244.1.0/24: it does not find the route to Node "n1""#;
    let cases: [(&'static [_], &[&str]); 6] = [
        (&[("10.244.0.0/24", "n0", InPlace)], &[lost]),
        (
            &[("10.244.0.0/24", "n0", InPlace), ("10.244.1.0/24", "-", Blackhole)],
            &["Route 10.244.1.0/24: it alone finds the route to no Node", lost],
        ),
        (
            &[("10.244.0.0/24", "n0", InPlace), ("10.244.1.0/24", "n0", InPlace)],
            &[r#"Route 10.244.1.0/24: it alone finds the route to Node "n0""#, lost],
        ),
        (
            &[("10.244.0.0/24", "n0", InPlace), ("10.244.1.0/24", "n1", Blackhole)],
            &[r#"Route 10.244.1.0/24: it does not say the same of the route to Node "n1""#],
        ),
        (
            &[("10.244.0.0/24", "n0", InPlace), ("10.244.11.0/24", "n1", InPlace)],
            &[lost, r#"Route 10.244.11.0/24: it alone finds the route to Node "n1""#],
        ),
        // It is completed, and nothing is lost.
        (&[("10.244.0.0/24", "n0", Incomplete), ("10.244.1.0/24", "n1", InPlace)], &[]),
    ];
    for (answer, wanted) in cases {
        let new = finding(answer);
        assert_eq!(told(&finding(&TWO), &new).await, *wanted, "{answer:?}");
        assert_eq!(new.count("get-all"), if wanted.is_empty() { 1 } else { 2 });
    }
    // Somebody changes the routes between the two questions.
    let late = Fake { routes: says(|_, times| Ok(routes(&TWO[..=times.min(1)]))), ..good() };
    assert_eq!(told(&finding(&TWO), &late).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn who_fails_alone_is_refused_and_where_both_fail_or_the_one_before_does_nothing_is_said() {
    for reaction in [Reaction::Retry, Reaction::Unsupported, Reaction::Invalid] {
        let alone = told(&finding(&TWO), &failing(reaction)).await;
        assert_eq!(alone, ["Route to any Node: it fails where the last good one answers: on purpose"], "{reaction:?}");
        for new in [failing(reaction), finding(&TWO)] {
            let open = report(&failing(reaction), &new).await.unwrap();
            assert_eq!((open.routes.compared, open.differences), (0, vec![]), "{reaction:?}");
        }
    }
    // The cloud asks for a pause.
    let error = report(&finding(&TWO), &failing(Reaction::Throttled)).await.unwrap_err().to_string();
    assert!(error.contains("neither answers about any of the routes: on purpose"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn routes_are_compared_only_where_both_have_them_and_somebody_keeps_them() {
    let (old, new) = (finding(&TWO), failing(Reaction::Retry));
    for (keeps_no_routes, extent) in [(false, BALANCERS), (true, ALL)] {
        let cluster = Cluster { keeps_no_routes, ..cluster(2, 1) };
        let report = compare(&old, &new, &cluster, extent, &CompareLimits::default()).await.unwrap();
        assert_eq!((report.routes, report.differences), (Compared::default(), vec![]));
    }
    assert_eq!((old.count("get-all"), new.count("get-all")), (0, 0));
}
