//! The first component, which is asked about what the objects say that there is.

use super::*;

/// A component without a predecessor.
fn first() -> Fake {
    Fake { is_first: true, ..good() }
}

/// Services have the address that [`good`] components give.
pub(super) struct Recorded(pub(super) Cluster);

impl Inventory for Recorded {
    fn complete(&self) -> BoxFuture<'_, ()> {
        self.0.complete()
    }

    fn missing(&self) -> Option<String> {
        self.0.missing()
    }

    fn nodes(&self, _: &[String], _: usize) -> Sampled<Node> {
        unreachable!("a Node whose kubelet is silent may have lost its machine")
    }

    fn working_nodes(&self, schemes: &[String], most: usize) -> Sampled<Node> {
        self.0.working_nodes(schemes, most)
    }

    fn services(&self, provider: &Descriptor, most: usize) -> Sampled<Service> {
        let mut services = self.0.services(provider, most);
        for service in &mut services.items {
            if service.name != "unserved" {
                service.ingress = vec![ingress("192.0.2.1")];
            }
        }
        services
    }

    fn node(&self, _: &str) -> Option<Node> {
        unreachable!("it is asked once")
    }

    fn service(&self, _: &Descriptor, _: &str, _: &str) -> Option<Service> {
        unreachable!("it is asked once")
    }

    fn backends(&self) -> Arc<[Backend]> {
        self.0.backends()
    }

    fn routed(&self, _: &Descriptor) -> Option<Vec<Node>> {
        unreachable!("no object says which routes there are")
    }
}

async fn confirmed(new: &Fake, cluster: Cluster) -> Result<Report, Unconfirmed> {
    confirm(new, &Recorded(cluster), true, &CompareLimits::default()).await
}

/// What is warned of.
async fn warnings(new: &Fake, cluster: Cluster) -> Vec<String> {
    confirmed(new, cluster).await.unwrap().differences.iter().map(ToString::to_string).collect()
}

async fn refusal(new: &Fake, cluster: Cluster) -> String {
    let error = confirmed(new, cluster).await.unwrap_err();
    assert!(matches!(error, Unconfirmed::NothingFound(_)), "{error:?}");
    error.to_string()
}

/// It finds nothing from the object with this number on.
fn blind_from(from: usize) -> Fake {
    let is_lost = move |name: &str| name[1..].parse::<usize>().unwrap() >= from;
    Fake {
        machine: says(move |name, _| if is_lost(name) { Finding::Absent } else { found(name, |_| {}) }),
        places: says(move |name, _| Ok(Some(vec![ingress("192.0.2.1")]).filter(|_| !is_lost(name)))),
        ..first()
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_what_the_objects_say_is_taken_without_a_word_and_asked_once() {
    let new = first();
    let report = confirmed(&new, cluster(4, 3)).await.unwrap();
    let wanted = |total| Compared { total, compared: total };
    assert_eq!(report, Report { nodes: wanted(4), services: wanted(3), ..Report::default() });
    assert_eq!(["find", "get", "name"].map(|function| new.count(function)), [4, 3, 0]);
    assert_eq!(confirmed(&first(), cluster(0, 0)).await.unwrap(), Report::default());
}

/// A wrong project, or another name for everything: all would be made a second time, and all Nodes be without a machine.
#[tokio::test(start_paused = true)]
async fn who_finds_nothing_of_three_objects_of_a_kind_is_refused_with_the_list() {
    let told = refusal(&blind_from(0), cluster(4, 0)).await;
    let text = "it finds none of the machines of 4 Nodes whose kubelets report: \
        Node n0: it says that the machine fake://n0 does not exist; Node n1: ";
    assert!(told.starts_with(text), "{told}");
    let told = refusal(&blind_from(0), cluster(0, 3)).await;
    let text = "it finds none of the load balancers of 3 Services whose records name them: \
        Service default/s0: it finds no load balancer; ";
    assert!(told.starts_with(text), "{told}");
    // One kind is enough.
    let renamed = Fake { places: says_none(), ..first() };
    assert!(refusal(&renamed, cluster(4, 3)).await.contains("load balancers of 3 Services"));
    let surveyed = Fake { is_first: true, ..surveying(|_, _| Standing::Missing) };
    assert!(refusal(&surveyed, cluster(1, 600)).await.contains("of 500 Services"), "as many as are asked about");
}

fn says_none() -> Says<Result<Option<Vec<Ingress>>, Failure>> {
    says(|_, _| Ok(None))
}

#[tokio::test(start_paused = true)]
async fn who_finds_a_part_or_nothing_of_two_objects_is_taken_with_a_warning() {
    let told = warnings(&blind_from(1), cluster(4, 4)).await;
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(told[0], "Node n1: it says that the machine fake://n1 does not exist");
    assert_eq!(told[5], "Service default/s3: it finds no load balancer");
    assert_eq!(warnings(&blind_from(0), cluster(2, 2)).await.len(), 4);
    let moved = says(|_: &str, _| Ok(Some(vec![ingress("192.0.2.9")])));
    let told = warnings(&Fake { places: moved, ..first() }, cluster(0, 3)).await;
    assert_eq!(told.len(), 3);
    assert_eq!(
        told[0],
        "Service default/s0: the address of its load balancer is 192.0.2.9, and 192.0.2.1 in its status"
    );
}

#[tokio::test(start_paused = true)]
async fn what_it_cannot_tell_counts_for_nothing_and_an_outage_keeps_nobody_from_starting() {
    let down = Fake {
        machine: says(|_, _| Finding::Unknown(failure(Reaction::Retry))),
        places: says(|_, _| Err(failure(Reaction::Unauthorized))),
        ..first()
    };
    let report = confirmed(&down, cluster(5, 5)).await.unwrap();
    assert_eq!((report.nodes.compared, report.services.compared, report.differences.len()), (0, 0, 0));
    assert_eq!(warnings(&Fake { crashes: true, ..first() }, cluster(5, 0)).await, [""; 0]);
    // It leaves them to somebody else.
    let elsewhere = Fake {
        machine: says(|_, _| Finding::Unknown(failure(Reaction::Elsewhere))),
        places: says(|_, _| Err(failure(Reaction::Elsewhere))),
        ..first()
    };
    assert_eq!(warnings(&elsewhere, cluster(5, 5)).await, [""; 0]);
    // Two are lost, and of the third nobody knows.
    let partly = says(|name: &str, _| match name {
        "n0" => Finding::Unknown(failure(Reaction::Throttled)),
        _ => Finding::Absent,
    });
    assert_eq!(warnings(&Fake { machine: partly, ..first() }, cluster(3, 0)).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_service_without_an_address_promises_nothing() {
    let unserved = Cluster { services: vec!["unserved".to_owned(); 3], ..Cluster::default() };
    assert_eq!(warnings(&Fake { places: says_none(), ..first() }, unserved).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn before_the_objects_are_known_nothing_is_taken() {
    let unlisted = Cluster { is_incomplete: true, ..cluster(1, 0) };
    let error = confirmed(&first(), unlisted).await.unwrap_err();
    assert!(matches!(error, Unconfirmed::Unanswered(_)), "{error:?}");
    assert!(error.to_string().contains("the first list is not complete within 180s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn where_it_makes_no_load_balancers_none_are_asked_for() {
    let new = Fake { places: says_none(), ..first() };
    let report = confirm(&new, &Recorded(cluster(1, 3)), false, &CompareLimits::default()).await.unwrap();
    assert_eq!((report.services, new.count("get")), (Compared::default(), 0));
}
