mod limits;
mod records;
mod routes;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use ccm_cloud::{
    Address, AddressKind, Backend, CallFuture, Descriptor, Failure, FindError, Finding, Ingress, Instance,
    InstanceState, Mark, Need, Node, Outcome, Problem, Reaction, Route, RouteChangeError, RouteOutcome, RouteState,
    RouteWish, Service, Standing, Wish,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::*;

/// What a component says of an object, the first time and from then on.
type Says<T> = Arc<dyn Fn(&str, usize) -> T + Send + Sync>;

/// A component. What changes anything ends the test.
#[derive(Clone)]
struct Fake {
    machine: Says<Finding>,
    crashes: bool,
    /// It has no predecessor, and the cluster waits for it.
    is_first: bool,
    name: Says<Result<String, Failure>>,
    standing: Option<Says<Standing>>,
    places: Says<Result<Option<Vec<Ingress>>, Failure>>,
    mark: Says<Result<Option<Mark>, Failure>>,
    routes: Says<Result<Vec<Route>, Failure>>,
    /// A function that never answers.
    hangs: Option<&'static str>,
    /// After which a call that hangs fails; none: later than anybody waits.
    call_time: Option<Duration>,
    asked: Arc<Mutex<Vec<String>>>,
}

fn says<T: 'static>(answer: impl Fn(&str, usize) -> T + Send + Sync + 'static) -> Says<T> {
    Arc::new(answer)
}

/// A component that finds all.
fn good() -> Fake {
    Fake {
        machine: says(|name, _| found(name, |_| {})),
        crashes: false,
        is_first: false,
        name: says(|name, _| Ok(format!("lb-{name}"))),
        standing: None,
        places: says(|_, _| Ok(Some(vec![ingress("192.0.2.1")]))),
        mark: says(|name, _| Ok(Some(Mark { load_balancer: format!("id-{name}"), uid: None }))),
        routes: says(|_, _| Ok(vec![])),
        hangs: None,
        call_time: None,
        asked: Arc::default(),
    }
}

fn surveying(standing: impl Fn(&str, usize) -> Standing + Send + Sync + 'static) -> Fake {
    Fake { standing: Some(says(standing)), ..good() }
}

fn in_step(_: &str, _: usize) -> Standing {
    Standing::InStep(vec![ingress("192.0.2.1")])
}

fn found(name: &str, change: impl FnOnce(&mut Instance)) -> Finding {
    let mut instance = Instance {
        provider_id: format!("fake://{name}"),
        instance_type: "small".into(),
        addresses: vec![Address::new(AddressKind::InternalIp, "10.0.0.1")],
        zone: "a".into(),
        region: "north".into(),
        labels: Default::default(),
        state: InstanceState::Running,
    };
    change(&mut instance);
    Finding::Found(Box::new(instance))
}

fn ingress(ip: &str) -> Ingress {
    Ingress { ip: Some(ip.into()), ..Ingress::default() }
}

fn failure(reaction: Reaction) -> Failure {
    Failure::new(reaction, "on purpose")
}

impl Fake {
    /// Notes the question; how often it was asked before.
    fn ask(&self, function: &str, name: &str) -> usize {
        let question = format!("{function} {name}");
        let mut asked = self.asked.lock();
        let times = asked.iter().filter(|one| **one == question).count();
        asked.push(question);
        times
    }

    /// # Errors
    ///
    /// It hung for as long as a call may take.
    async fn may_hang(&self, function: &str) -> Result<(), Failure> {
        match (self.hangs == Some(function), self.call_time) {
            (false, _) => Ok(()),
            (true, None) => std::future::pending().await,
            (true, Some(time)) => {
                tokio::time::sleep(time).await;
                Err(Failure::new(Reaction::Retry, format!("no answer within {time:?} (limit call-time)")))
            }
        }
    }

    fn count(&self, function: &str) -> usize {
        self.asked.lock().iter().filter(|one| one.split(' ').next() == Some(function)).count()
    }
}

impl Instances for Fake {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        assert_eq!(need == Need::Metadata, self.is_first);
        if self.crashes {
            return Err(FindError::Crashed(failure(Reaction::Retry)));
        }
        self.may_hang("find").await?;
        Ok(nodes.iter().map(|node| (self.machine)(&node.name, self.ask("find", &node.name))).collect())
    }
}

fn ready<T: Send + 'static>(answer: T) -> Pin<Box<dyn Future<Output = T> + Send>> {
    std::future::ready(answer).boxed()
}

impl LoadBalancers for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::new(Descriptor {
            name: "fake".into(),
            version: "1".into(),
            revision: "1".into(),
            provider_id_schemes: vec!["fake".into()],
            ..Descriptor::default()
        })
    }

    fn configuration(&self) -> String {
        String::new()
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        ready((self.name)(&service.name, self.ask("name", &service.name)))
    }

    fn locks(&self, _: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        unreachable!("nobody changes anything")
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            let times = self.ask("get", &service.name);
            self.may_hang("get").await?;
            (self.places)(&service.name, times)
        })
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        ready((self.mark)(&service.name, self.ask("get-mark", &service.name)))
    }

    fn ensure(&self, _: Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        unreachable!("nothing is written")
    }

    fn ensure_unhurried(&self, _: Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        unreachable!("nothing is written")
    }

    fn update_backends(&self, _: Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        unreachable!("nothing is written")
    }

    fn delete(&self, _: Service) -> CallFuture<'_, Outcome> {
        unreachable!("nothing is written")
    }

    fn validate(&self, _: Service, _: Option<Service>, _: bool) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        unreachable!("that is no question about what exists")
    }

    fn selects_nodes(&self) -> bool {
        false
    }

    fn surveys(&self) -> bool {
        self.standing.is_some()
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        assert!(wishes.iter().all(|wish| wish.backends.len() == backends.len()));
        let standing = self.standing.clone().unwrap();
        let stands = move |wish: &Wish| standing(&wish.service.name, self.ask("survey", &wish.service.name));
        Box::pin(async move {
            self.may_hang("survey").await?;
            Ok(wishes.iter().map(stands).collect())
        })
    }
}

/// Objects by their names; those that are gone at the second look; and whether Services are others in each look.
#[derive(Default)]
struct Cluster {
    nodes: Vec<String>,
    services: Vec<String>,
    go: BTreeSet<String>,
    is_restless: bool,
    looks: Mutex<usize>,
    is_incomplete: bool,
    keeps_no_routes: bool,
}

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), provider_id: Some(format!("fake://{name}")), ..Node::default() }
}

fn service(name: &str) -> Service {
    Service { name: name.to_owned(), namespace: "default".into(), uid: format!("uid-{name}"), ..Service::default() }
}

/// So many Nodes `n0`… and Services `s0`….
fn cluster(nodes: usize, services: usize) -> Cluster {
    let all = |letter: char, many: usize| (0..many).map(|number| format!("{letter}{number}")).collect();
    Cluster { nodes: all('n', nodes), services: all('s', services), ..Cluster::default() }
}

impl Inventory for Cluster {
    fn complete(&self) -> BoxFuture<'_, ()> {
        if self.is_incomplete { std::future::pending().boxed() } else { ready(()) }
    }

    fn missing(&self) -> Option<String> {
        self.is_incomplete.then(|| "Nodes: the first list is not complete".to_owned())
    }

    fn nodes(&self, schemes: &[String], most: usize) -> Sampled<Node> {
        assert_eq!(schemes, ["fake://"]);
        *self.looks.lock() += 1;
        if *self.looks.lock() > 1 && !self.go.is_empty() {
            return Sampled::default();
        }
        Sampled { total: self.nodes.len(), items: self.nodes.iter().take(most).map(|name| node(name)).collect() }
    }

    fn working_nodes(&self, schemes: &[String], most: usize) -> Sampled<Node> {
        self.nodes(schemes, most)
    }

    fn services(&self, _: &Descriptor, most: usize) -> Sampled<Service> {
        let look = *self.looks.lock();
        if look > 1 && !self.go.is_empty() {
            return Sampled::default();
        }
        let name = |name: &String| if self.is_restless { format!("{name}-{look}") } else { name.clone() };
        let items = self.services.iter().take(most).map(|one| service(&name(one))).collect();
        Sampled { total: self.services.len(), items }
    }

    fn node(&self, name: &str) -> Option<Node> {
        (!self.go.contains(name)).then(|| node(name))
    }

    fn service(&self, _: &Descriptor, _: &str, name: &str) -> Option<Service> {
        (!self.go.contains(name) && !self.is_restless).then(|| service(name))
    }

    fn backends(&self) -> Arc<[Backend]> {
        self.nodes.iter().map(|name| Backend { name: name.clone(), ..Backend::default() }).collect()
    }

    fn routed(&self, _: &Descriptor) -> Option<Vec<Node>> {
        (!self.keeps_no_routes).then(|| self.nodes.iter().map(|name| node(name)).collect())
    }
}

const BALANCERS: Extent = Extent { balancers: true, routes: false };

async fn compared(old: &Fake, new: &Fake, cluster: &Cluster) -> Result<Report, Unanswered> {
    compare(old, new, cluster, BALANCERS, &CompareLimits::default()).await
}

/// The differences in one text each.
async fn differences(old: &Fake, new: &Fake, cluster: &Cluster) -> Vec<String> {
    compared(old, new, cluster).await.unwrap().differences.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn two_that_say_the_same_are_asked_once_and_differ_in_nothing() {
    let (old, new) = (good(), good());
    let report = compared(&old, &new, &cluster(3, 2)).await.unwrap();
    let wanted = |total| Compared { total, compared: total };
    assert_eq!(report, Report { nodes: wanted(3), services: wanted(2), ..Report::default() });
    for asked in [&old, &new] {
        assert_eq!(
            ["find", "name", "get", "get-mark"].map(|function| asked.count(function)),
            [3, 3, 2, 2],
            "and a name that nobody has"
        );
    }
    assert_eq!(compared(&old, &new, &cluster(0, 0)).await.unwrap(), Report::default());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_the_new_one_finds_less_of_is_a_difference() {
    type Answers = fn(&str) -> Finding;
    let cases: [(&str, Answers, &str); 8] = [
        ("absent", |_| Finding::Absent, "the machine does not exist"),
        (
            "another ID",
            |name| found(name, |one| one.provider_id = "fake://x".into()),
            "its provider ID is \"fake://x\"",
        ),
        ("another type", |name| found(name, |one| one.instance_type = "large".into()), "\"large\", and was \"small\""),
        ("no zone", |name| found(name, |one| one.zone.clear()), "its zone is \"\""),
        ("another region", |name| found(name, |one| one.region = "south".into()), "its region is \"south\""),
        ("no address", |name| found(name, |one| one.addresses.clear()), "InternalIP 10.0.0.1 of the last good one"),
        ("fails", |_| Finding::Unknown(failure(Reaction::Retry)), "fails where the last good one answers: on purpose"),
        ("another's", |_| Finding::Unknown(failure(Reaction::Elsewhere)), "fails where the last good one answers"),
    ];
    for (which, answer, part) in cases {
        let new = Fake {
            machine: says(move |name, _| if name == "n1" { answer(name) } else { found(name, |_| {}) }),
            ..good()
        };
        let told = differences(&good(), &new, &cluster(3, 0)).await;
        assert!(told.len() == 1 && told[0].starts_with("Node n1: ") && told[0].contains(part), "{which}: {told:?}");
        assert_eq!(new.count("find"), 6, "{which}: two looks");
    }
    let told = differences(&good(), &Fake { crashes: true, ..good() }, &cluster(3, 0)).await;
    assert_eq!((told.len(), &*told[0]), (3, "Node n0: it fails where the last good one answers: on purpose"));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_one_before_knows_is_no_difference() {
    let old = Fake {
        machine: says(|name, _| match name {
            "n0" => Finding::Absent,
            "n1" => Finding::Unknown(failure(Reaction::Retry)),
            _ => found(name, |one| one.zone.clear()),
        }),
        places: says(|name, _| match name {
            "s0" => Ok(None),
            "s1" => Err(failure(Reaction::Retry)),
            _ => Ok(Some(vec![])),
        }),
        ..good()
    };
    let new = Fake {
        machine: says(|name, _| {
            found(name, |one| one.addresses.push(Address::new(AddressKind::ExternalIp, "192.0.2.1")))
        }),
        ..good()
    };
    assert_eq!(differences(&old, &new, &cluster(3, 3)).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_is_not_found_or_is_another_one_is_a_difference_with_and_without_a_survey() {
    let without = [
        (Fake { name: says(|_, _| Ok("other".into())), ..good() }, "it calls the load balancer \"other\""),
        (Fake { places: says(|_, _| Ok(None)), ..good() }, "it finds no load balancer"),
        (
            Fake { places: says(|_, _| Ok(Some(vec![ingress("192.0.2.9")]))), ..good() },
            "is 192.0.2.9, and 192.0.2.1 by",
        ),
        (Fake { places: says(|_, _| Ok(Some(vec![]))), ..good() }, "is none, and 192.0.2.1 by"),
        (
            Fake { places: says(|_, _| Err(failure(Reaction::Invalid))), ..good() },
            "fails where the last good one answers",
        ),
        (Fake { mark: says(|_, _| Ok(None)), ..good() }, "it would change no load balancer"),
        (
            Fake { mark: says(|_, _| Ok(Some(Mark { load_balancer: "x".into(), uid: None }))), ..good() },
            "it would change the load balancer \"x\"",
        ),
    ];
    for (new, part) in without {
        let told = differences(&good(), &new, &cluster(0, 1)).await;
        assert!(told.len() == 1 && told[0].starts_with("Service default/s0: ") && told[0].contains(part), "{told:?}");
    }
    let differs = |_: &str, _| Standing::Differs(vec!["ports".into()]);
    let unknown = |_: &str, _| Standing::Unknown(failure(Reaction::Retry));
    let with = [
        (surveying(|_, _| Standing::Missing), "it finds no load balancer"),
        (surveying(|_, _| Standing::InStep(vec![ingress("192.0.2.9")])), "is 192.0.2.9"),
        (surveying(unknown), "fails where the last good one answers"),
        (Fake { name: says(|_, _| Ok("other".into())), ..surveying(in_step) }, "it calls the load balancer \"other\""),
        (Fake { places: says(|_, _| Ok(Some(vec![ingress("192.0.2.9")]))), ..surveying(differs) }, "is 192.0.2.9"),
    ];
    for (new, part) in with {
        let told = differences(&surveying(in_step), &new, &cluster(1, 1)).await;
        assert!(told.len() == 1 && told[0].contains(part), "{told:?} does not say {part}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_new_revision_would_change_is_no_difference_and_a_survey_saves_the_single_questions() {
    let differs = |_: &str, _| Standing::Differs(vec!["ports".into()]);
    let new = surveying(in_step);
    assert_eq!(differences(&surveying(in_step), &new, &cluster(2, 100)).await, [""; 0]);
    assert_eq!(["survey", "name", "get", "get-mark"].map(|function| new.count(function)), [100, 101, 0, 0]);
    for (old, new) in [(surveying(in_step), surveying(differs)), (surveying(differs), surveying(in_step))] {
        let report = compared(&old, &new, &cluster(2, 100)).await.unwrap();
        assert_eq!((report.differences.len(), report.services.compared), (0, 100));
        assert_eq!([new.count("get"), new.count("get-mark")], [20, 20]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_survey_a_sample_is_asked_for_and_the_rest_is_compared_by_name() {
    let new = good();
    let report = compared(&good(), &new, &cluster(0, 100)).await.unwrap();
    assert_eq!(report.services, Compared { total: 100, compared: 20 });
    assert_eq!(["name", "get"].map(|function| new.count(function)), [101, 20]);
    let new =
        Fake { name: says(|name, _| Ok(if name == "s77" { "x".into() } else { format!("lb-{name}") })), ..good() };
    let told = differences(&good(), &new, &cluster(0, 100)).await;
    assert!(told.len() == 1 && told[0].starts_with("Service default/s77: "), "{told:?}");
    let told = differences(&Fake { name: says(|_, _| Ok("lb".into())), ..good() }, &good(), &cluster(2, 0)).await;
    assert!(told.len() == 1 && told[0].starts_with("Service that is to come: it calls "), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_no_difference_and_passes() {
    let down = |reaction| Fake { machine: says(move |_, _| Finding::Unknown(failure(reaction))), ..good() };
    for (old, new) in [
        (Reaction::Retry, Reaction::Retry),
        (Reaction::Unauthorized, Reaction::Throttled),
        (Reaction::Elsewhere, Reaction::Retry),
    ] {
        let error = compared(&down(old), &down(new), &cluster(3, 1)).await.unwrap_err().to_string();
        assert!(error.contains("neither answers about any of the Nodes: on purpose"), "{old:?} {new:?}: {error}");
    }
    // The cloud asks for a pause, the last good one has a listing that it shares.
    let error = compared(&good(), &down(Reaction::Throttled), &cluster(3, 1)).await.unwrap_err();
    assert!(error.to_string().contains("Nodes"), "{error}");
    let down = || surveying(|_, _| Standing::Unknown(failure(Reaction::Retry)));
    let error = compared(&down(), &down(), &cluster(1, 3)).await.unwrap_err();
    assert!(error.to_string().contains("neither answers about any of the Services"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_neither_can_tell_is_left_out_and_what_the_new_one_alone_can_tell_is_good() {
    let partly = |reaction| Fake {
        machine: says(
            move |name, _| if name == "n0" { Finding::Unknown(failure(reaction)) } else { found(name, |_| {}) },
        ),
        ..good()
    };
    let report = compared(&partly(Reaction::Retry), &partly(Reaction::Throttled), &cluster(3, 0)).await.unwrap();
    assert_eq!((report.nodes.compared, report.differences.len()), (2, 0));
    let broken = Fake { crashes: true, ..good() };
    assert_eq!(compared(&broken, &good(), &cluster(3, 0)).await.unwrap().nodes.compared, 0);
    // Nobody can say more, now or later.
    let foreign = Fake { machine: says(|_, _| Finding::Unknown(failure(Reaction::Elsewhere))), ..good() };
    assert_eq!(compared(&foreign, &foreign, &cluster(3, 0)).await.unwrap().nodes.compared, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_by_the_second_look_is_no_difference() {
    let begun = tokio::time::Instant::now();
    let at_first = |first: Finding| Fake {
        machine: says(move |name, times| if times == 0 { first.clone() } else { found(name, |_| {}) }),
        ..good()
    };
    for first in [Finding::Absent, Finding::Unknown(failure(Reaction::Retry))] {
        assert_eq!(differences(&good(), &at_first(first), &cluster(2, 0)).await, [""; 0]);
    }
    assert_eq!(begun.elapsed(), 2 * CompareLimits::default().pause);
    // The machine is switched off and deleted meanwhile, as the last good one sees at the second look too.
    let goes = |name: &str, times: usize| if times == 0 { found(name, |_| {}) } else { Finding::Absent };
    let new = Fake { machine: says(|_, _| Finding::Absent), ..good() };
    assert_eq!(differences(&Fake { machine: says(goes), ..good() }, &new, &cluster(2, 0)).await, [""; 0]);
    // Node and Service are deleted meanwhile.
    let new = Fake { machine: says(|_, _| Finding::Absent), places: says(|_, _| Ok(None)), ..good() };
    let all = cluster(1, 1);
    let go = all.nodes.iter().chain(&all.services).cloned().collect();
    assert_eq!(differences(&good(), &new, &Cluster { go, ..all }).await, [""; 0]);
}
