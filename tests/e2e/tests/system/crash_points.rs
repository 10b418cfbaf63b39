//! A process that is killed at every step of what it does for a Service: whatever the cloud had done by then, the next one
//! finds its way from there. Steps are counted at the cloud: before a request has its effect, and after it, when nobody knows.
//! What is written to the API server lies between two of them.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_cluster::await_absent;
use ccm_e2e::alerts;
use ccm_e2e::balancer_cloud::{Act, Balancer, BalancerCloud, Fault, Kind, Requests, When};
use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::look::nodes;
use crate::service_look::{
    ID, assert_one_each, await_reason, await_served, await_service, balancing, change, cloud, delete, has_finalizer,
    ips, is_bare, is_served, owned, serve, services, the, two_nodes,
};
use crate::stage::{Actor, LIMIT, Stage};

/// What is done to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Make,
    Port,
    Members,
    Type,
    Delete,
}

impl Deed {
    /// Requests that it takes at least when nothing goes wrong. How many there are, each run finds out.
    const fn requests(self) -> usize {
        match self {
            // List, make, look whether it is built.
            Self::Make => 3,
            // Get, change.
            Self::Port | Self::Members => 2,
            // List, delete.
            Self::Type | Self::Delete => 2,
        }
    }

    async fn begin(self, client: &Client, name: &str) {
        match self {
            Self::Make => drop(serve(client, name, json!({})).await),
            Self::Port => drop(change(client, name, &json!({ "spec": { "ports": [{ "port": 443 }] } })).await),
            Self::Members => exclude(client, Some("true")).await,
            Self::Type => drop(change(client, name, &json!({ "spec": { "type": "ClusterIP" } })).await),
            Self::Delete => delete(client, name).await,
        }
    }

    /// Waits until it has come true.
    async fn done(self, client: &Client, cloud: &BalancerCloud, name: &str) {
        match self {
            Self::Make => drop(await_served(client, name).await),
            Self::Port => {
                let has_it = |all: &[Balancer]| all.len() == 1 && all[0].spec.ports[0]["port"] == 443;
                cloud.await_balancers(LIMIT, has_it).await.unwrap();
                await_served(client, name).await;
            }
            Self::Members => {
                let is_alone = |all: &[Balancer]| all.len() == 1 && all[0].spec.members == ["n1"];
                cloud.await_balancers(LIMIT, is_alone).await.unwrap();
            }
            Self::Type => drop(await_service(client, name, is_bare).await),
            Self::Delete => await_absent(&services(client), name, LIMIT).await.unwrap(),
        }
    }
}

/// Takes the second Node out of load balancers, or lets it in again.
async fn exclude(client: &Client, value: Option<&str>) {
    let label =
        json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": value } } });
    let patch = kube::api::Patch::Merge(&label);
    nodes(client).patch("n2", &Default::default(), &patch).await.unwrap();
}

/// Whose load balancers were ever made: one each.
fn made_for(cloud: &BalancerCloud) -> BTreeSet<String> {
    let made = cloud.writes().into_iter().filter(|write| write.kind == Kind::Create);
    let mut owners = BTreeSet::new();
    for write in made {
        assert!(owners.insert(write.owner), "{} was made for somebody who had one", write.id);
    }
    owners
}

async fn kill(mut host: Actor) {
    host.signal("KILL").await.unwrap();
    host.wait(LIMIT).await.unwrap();
}

/// Kills a host at each request of each of these deeds, on each side of its effect: at the first, the second and so on, until
/// the deed comes true without as many.
async fn at_every_request(provisioning: Duration, deeds: &[Deed]) {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(provisioning).await;
    let mut host = balancing(&stage, &cloud, &[]);
    host.ready().await;
    let (mut rounds, mut scrapes) = (0, vec![[alerts::scrape(&host).await.unwrap()]]);
    for (deed, when) in deeds.iter().flat_map(|deed| [(*deed, When::Before), (*deed, When::After)]) {
        for nth in 1.. {
            rounds += 1;
            let point = format!("{deed:?}-{when:?}-{nth}").to_lowercase();
            if deed != Deed::Make {
                serve(client, &point, json!({})).await;
                await_served(client, &point).await;
                let both = |all: &[Balancer]| all.len() == 1 && all[0].spec.members == ["n1", "n2"];
                cloud.await_balancers(LIMIT, both).await.unwrap();
            }
            let mut planned = cloud.plan(Fault { of: Requests::All, nth, when, act: Act::Hold });
            deed.begin(client, &point).await;
            let done = async {
                deed.done(client, &cloud, &point).await;
                // That is all of it: whoever is held up is not done.
                host.idle("service", 0).await;
            };
            let is_point = tokio::select! {
                biased;
                reached = planned.reached(LIMIT) => reached.map(|()| true).unwrap(),
                () = done => false,
            };
            if is_point {
                kill(host).await;
                planned.over(LIMIT).await.unwrap();
                if let Some(left) = services(client).get_opt(&point).await.unwrap() {
                    assert!(owned(&cloud, &left).is_empty() || has_finalizer(&left), "{point}: {left:?}");
                } else {
                    assert_eq!(cloud.balancers().len(), 0, "{point}: it went before its load balancer");
                }
                host = balancing(&stage, &cloud, &[]);
                deed.done(client, &cloud, &point).await;
                // What the one before has done already is done before this one answers.
                host.ready().await;
                scrapes.push([alerts::scrape(&host).await.unwrap()]);
            } else {
                cloud.call_off();
                assert!(
                    nth > deed.requests(),
                    "{point}: {} requests, and there were {} before",
                    nth - 1,
                    deed.requests()
                );
            }
            match deed {
                Deed::Type | Deed::Delete => assert_eq!(cloud.balancers().len(), 0, "{point}"),
                Deed::Make | Deed::Port | Deed::Members => {
                    await_served(client, &point).await;
                    assert_one_each(client, &cloud).await;
                }
            }
            if deed != Deed::Delete {
                delete(client, &point).await;
                await_absent(&services(client), &point, LIMIT).await.unwrap();
                exclude(client, None).await;
            }
            if !is_point {
                break;
            }
        }
    }
    // Nobody's was ever made twice, not even for a moment.
    assert_eq!(made_for(&cloud).len(), rounds);
    // A kubelet would have started them all in one pod.
    alerts::fires("WasmCCMRestartsOften", &scrapes).await.unwrap();
    host.ready().await;
    host.stop().await;
}

#[tokio::test]
async fn a_process_that_is_killed_at_any_request_of_a_new_service_leaves_one_load_balancer() {
    at_every_request(Duration::from_millis(300), &[Deed::Make]).await;
}

#[tokio::test]
async fn a_process_that_is_killed_at_any_request_of_a_change_finishes_it_later() {
    at_every_request(Duration::ZERO, &[Deed::Port, Deed::Members]).await;
}

#[tokio::test]
async fn a_process_that_is_killed_at_any_request_of_a_deletion_leaves_nothing() {
    at_every_request(Duration::ZERO, &[Deed::Delete, Deed::Type]).await;
}

/// As soon as the write is seen, which is before or after the next step.
#[tokio::test]
async fn a_process_that_is_killed_at_any_write_to_a_service_leaves_one_load_balancer_and_then_none() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::from_millis(300)).await;
    type Moment = (&'static str, fn(&Service) -> bool);
    let made: [Moment; 3] = [
        ("finalizer", has_finalizer),
        ("id", |service| service.annotations().contains_key(ID)),
        ("address", |service| !ips(service).is_empty()),
    ];
    for (moment, seen) in made {
        let host = balancing(&stage, &cloud, &[]);
        serve(client, moment, json!({})).await;
        await_service(client, moment, seen).await;
        kill(host).await;
    }
    let host = balancing(&stage, &cloud, &[]);
    for (moment, _) in made {
        await_served(client, moment).await;
    }
    assert_one_each(client, &cloud).await;
    assert_eq!(made_for(&cloud).len(), made.len());

    // Address, record and finalizer go in one write, when nothing is left in the cloud.
    let [(stays, _), (goes, _), (waits, _)] = made;
    change(client, stays, &json!({ "spec": { "type": "ClusterIP" } })).await;
    await_service(client, stays, |service| !has_finalizer(service)).await;
    kill(host).await;
    assert!(is_bare(&the(client, stays).await), "{:?}", the(client, stays).await);
    delete(client, goes).await;
    let host = balancing(&stage, &cloud, &[]);
    await_absent(&services(client), goes, LIMIT).await.unwrap();
    kill(host).await;
    let left = the(client, waits).await;
    assert_eq!((cloud.balancers().len(), owned(&cloud, &left).len(), is_served(&left)), (1, 1, true));
    let host = balancing(&stage, &cloud, &[]);
    delete(client, waits).await;
    await_absent(&services(client), waits, LIMIT).await.unwrap();
    assert!(is_bare(&the(client, stays).await));
    assert_eq!((cloud.balancers().len(), made_for(&cloud).len()), (0, made.len()));
    host.end().await;
}

/// The cloud has the change, and the Service does not ask for it any more. What it was written down for says so: nobody is asked
/// how things stand.
#[tokio::test]
async fn a_change_that_its_owner_takes_back_after_a_crash_is_taken_back_in_the_cloud_too() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let no_survey = ["--service-survey-timeout=0s"];
    let mut host = balancing(&stage, &cloud, &no_survey);
    let port = |port: u16| json!({ "spec": { "ports": [{ "port": port }] } });
    let port_of = |service: &Service| owned(&cloud, service)[0].spec.ports[0]["port"].clone();
    for (name, act) in [("failed", Act::Answer(500)), ("crashed", Act::Hold)] {
        serve(client, name, json!({})).await;
        let service = await_served(client, name).await;
        let mut last = cloud.plan(Fault { of: Requests::Of(Kind::Replace), nth: 1, when: When::After, act });
        if act != Act::Hold {
            // The next try, which would see that all is well, gets nowhere.
            last = cloud.plan(Fault { of: Requests::Of(Kind::Get), nth: 2, when: When::Before, act: Act::Hold });
        }
        change(client, name, &port(443)).await;
        last.reached(LIMIT).await.unwrap();
        if act != Act::Hold {
            await_reason(client, name, "CloudFailed").await;
        }
        kill(host).await;
        last.over(LIMIT).await.unwrap();
        assert_eq!(port_of(&service), 443, "{name}");
        change(client, name, &port(80)).await;
        host = balancing(&stage, &cloud, &no_survey);
        let back = |all: &[Balancer]| !all.is_empty() && all.iter().all(|one| one.spec.ports[0]["port"] == 80);
        cloud.await_balancers(LIMIT, back).await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        await_served(client, name).await;
    }
    assert_one_each(client, &cloud).await;
    host.end().await;
}
