//! Every request of every task fails in every way, and what comes of it is what comes of it when nothing fails.

use std::time::Duration;

use ccm_cloud::Ingress;
use ccm_sim_digitalocean::{
    Act, BalancerSpec, Certificate, CertificateKind, Command, Counters, Droplet, Endpoint, Exchange, FAULTS, Fault,
    Requests, When,
};

use crate::rig::{Rig, skip};
use crate::wish::{Call, ID, Wish, annotation, backends, network, tls};

/// So often in a row: what the host repeats by itself the provider does not see, unless it fails each time.
pub(crate) const TIMES: [usize; 2] = [1, 3];

/// All that is shared between calls is forgotten after that.
pub(crate) const LONG: Duration = Duration::from_secs(2 * 3_600);

/// ID of none.
const DELETED: &str = "6f0c9ab5-5d0c-4000-8000-000000000000";

/// What somebody else has in the account.
const FOREIGN: &str = "somebody-else";

#[derive(Debug, Clone, Copy)]
enum Task {
    Make,
    Change,
    FollowNodes,
    Delete,
    /// A load balancer that the Service does not know of, since whoever made it crashed before that was written.
    DeleteUnknown,
    /// Likewise, and the Service knows of one that has been deleted behind its back.
    DeleteMistaken,
    /// A load balancer of nobody, with the name that is asked for.
    TakeByName,
    /// One of another Service, with the ID that is on this one.
    TakeById,
}

impl Task {
    /// Whether a load balancer has to be made for it.
    const fn makes(self) -> bool {
        matches!(self, Self::Make)
    }
}

/// What it comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    /// Load balancers of the account, with their states.
    balancers: Vec<(BalancerSpec, Option<&'static str>)>,
    tags: Vec<String>,
    /// Whether the Service says which load balancer it has, and where.
    is_known: bool,
    ingress: usize,
}

struct Run {
    end: End,
    counters: Counters,
}

async fn rig() -> Rig {
    let rig = Rig::start(&[("cluster-id", "c-1")]).await;
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));
    let mut foreign = Wish::new(FOREIGN, &[(ccm_cloud::Protocol::Tcp, 80)], &[("name", FOREIGN)]);
    foreign.until_done(&rig, Call::Ensure, None).await;
    rig
}

/// Does a task, perhaps with a fault, and clears up.
async fn run(rig: &Rig, mut wish: Wish, task: Task, fault: Option<Fault>) -> Run {
    let cloud = &rig.cloud;
    if !task.makes() {
        wish.until_done(rig, Call::Ensure, None).await;
    }
    let call = match task {
        Task::Make => Call::Ensure,
        Task::Change => {
            wish.set("http-idle-timeout-seconds", "120");
            wish.set("deny-rules", "ip:203.0.113.9");
            wish.service.ports.pop();
            wish.backends = backends(2..=4);
            Call::Ensure
        }
        Task::FollowNodes => {
            wish.backends = backends(2..=5);
            Call::UpdateBackends
        }
        Task::Delete => Call::Delete,
        Task::DeleteUnknown => {
            wish.service.annotations.remove(ID);
            Call::Delete
        }
        Task::DeleteMistaken => {
            wish.service.annotations.insert(ID.to_owned(), DELETED.to_owned());
            Call::Delete
        }
        Task::TakeByName => {
            let id = wish.service.annotations.remove(ID).unwrap();
            assert!(cloud.tamper(&id, |spec| spec.tags = vec!["somebodys".to_owned()]));
            Call::Ensure
        }
        Task::TakeById => {
            wish.service.uid = "00000000-0000-4000-8000-0000000000bb".to_owned();
            Call::Ensure
        }
    };
    skip(LONG).await;
    cloud.reset_counters();
    let mut planned = fault.map(|fault| cloud.plan(fault));
    let holds = fault.is_some_and(|fault| fault.act == Act::Hold);
    wish.until_done(rig, call, planned.as_mut().filter(|_| holds)).await;
    let counters = cloud.counters();
    cloud.forget_faults();
    skip(LONG).await;

    let all = cloud.balancers();
    let own = all.iter().find(|balancer| balancer.spec.name != FOREIGN);
    if !matches!(call, Call::Delete) {
        let own = own.expect("it is there");
        assert_eq!(wish.id(), Some(own.id.as_str()), "the Service says which it has");
        let ip = own.ip.to_string();
        assert!(wish.service.ingress.iter().any(|ingress: &Ingress| ingress.ip.as_ref() == Some(&ip)), "and where");
    }
    let tags = own.map(|own| own.spec.tags.iter().filter(|tag| tag.starts_with("wasm-ccm-service:")).collect());
    let of_service = format!("wasm-ccm-service:{}:default:{}", wish.service.uid, wish.service.name);
    let asks = wish.service.annotations.contains_key(&annotation("name"));
    let expected = if asks { vec![&of_service] } else { vec![] };
    assert_eq!(tags.unwrap_or_else(|| expected.clone()), expected, "whose it is");
    let mut tags = cloud.tags();
    if matches!(call, Call::Delete) {
        let of_tag = |exchange: &&Exchange| exchange.endpoint == Some(Endpoint::DeleteTag);
        let is_refused = cloud.exchanges().iter().filter(of_tag).any(|exchange| exchange.fault.is_some());
        assert!(is_refused || !tags.contains(&of_service), "{of_service} goes after what had it");
        // Where it is refused, it may stay, and holds nobody.
        tags.retain(|tag| *tag != of_service);
    }
    let end = End {
        balancers: all.iter().map(|it| (it.spec.clone(), cloud.balancer_status(&it.id))).collect(),
        tags,
        is_known: wish.id().is_some(),
        ingress: wish.service.ingress.len(),
    };
    for balancer in all.into_iter().filter(|balancer| balancer.spec.name != FOREIGN) {
        cloud.command(Command::RemoveBalancer { id: balancer.id }).unwrap();
    }
    skip(LONG).await;
    Run { end, counters }
}

/// The same with each fault at each request.
async fn every_fault(wish: fn() -> Wish, task: Task) {
    let rig = rig().await;
    let good = run(&rig, wish(), task, None).await;
    let again = run(&rig, wish(), task, None).await;
    assert_eq!(again.end, good.end, "nothing is left of a run");
    let requests = good.counters.reads + good.counters.writes;
    assert!(requests > 0);
    for nth in 1..=requests {
        for &(when, act) in FAULTS {
            for times in TIMES {
                let fault = Fault { times, ..Fault::new(Requests::All, nth, when, act) };
                let run = run(&rig, wish(), task, Some(fault)).await;
                assert_eq!(run.end, good.end, "{task:?} of {requests} requests with {fault:?}");
                let creations = |counters: &Counters| counters.requests.get(&Endpoint::CreateBalancer).copied();
                if !task.makes() {
                    assert_eq!(creations(&run.counters), None, "{task:?} with {fault:?}");
                }
            }
        }
    }
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn a_load_balancer_is_made_once_whatever_fails() {
    every_fault(tls, Task::Make).await;
}

#[tokio::test]
async fn one_for_nodes_without_provider_id_is_made_once_whatever_fails() {
    every_fault(network, Task::Make).await;
}

#[tokio::test]
async fn a_change_arrives_whatever_fails() {
    every_fault(tls, Task::Change).await;
}

#[tokio::test]
async fn nodes_are_followed_whatever_fails() {
    every_fault(tls, Task::FollowNodes).await;
}

#[tokio::test]
async fn nothing_is_left_and_nothing_foreign_touched_whatever_fails() {
    every_fault(tls, Task::Delete).await;
    every_fault(network, Task::DeleteUnknown).await;
    every_fault(tls, Task::DeleteUnknown).await;
}

/// With a name that is asked for, and the ID of one that is gone: it is the tag that tells whose the other one is.
#[tokio::test]
async fn one_that_the_service_does_not_know_of_is_not_left_because_it_names_another() {
    every_fault(tls, Task::DeleteMistaken).await;
}

#[tokio::test]
async fn one_that_is_taken_over_says_whose_it_is_whatever_fails() {
    every_fault(tls, Task::TakeByName).await;
    every_fault(tls, Task::TakeById).await;
}

/// The worst of them: the load balancer is made, nobody hears of it, and listings do not show it yet.
#[tokio::test]
async fn one_that_no_listing_shows_yet_is_not_made_twice() {
    let rig = rig().await;
    rig.cloud.set(|settings| settings.listing_lag = Duration::from_secs(90));
    for act in [Act::Hangup, Act::Hold, Act::Status(500), Act::Html(502), Act::Truncated] {
        let fault = Fault::new(Requests::Of(Endpoint::CreateBalancer), 1, When::After, act);
        let run = run(&rig, tls(), Task::Make, Some(fault)).await;
        assert_eq!(run.end.balancers.len(), 2, "{act:?}: {:#?}", run.end);
        assert!(run.counters.requests[&Endpoint::CreateBalancer] > 1, "{act:?}: it was tried again, and refused");
    }
    rig.cloud.check().unwrap();
}

/// A renewal in the middle: the Service names the certificate by ID, and Let's Encrypt has another one now.
#[tokio::test]
async fn a_renewed_certificate_stays_whatever_fails() {
    let rig = rig().await;
    let certificate =
        || rig.cloud.put_certificate(Certificate::new("renewed", CertificateKind::LetsEncrypt, "a.example.com"));
    let mut requests = usize::MAX;
    let mut nth = 0;
    while nth <= requests {
        for &(when, act) in FAULTS {
            let old = certificate();
            let mut wish = tls();
            wish.service.annotations.remove(&annotation("certificate-name"));
            wish.set("certificate-id", &old);
            wish.until_done(&rig, Call::Ensure, None).await;
            let new = rig.cloud.renew(&old).unwrap();
            wish.backends = backends(1..=4);
            skip(LONG).await;
            rig.cloud.reset_counters();
            let fault = Fault { times: 3, ..Fault::new(Requests::All, nth, when, act) };
            let mut planned = (nth > 0).then(|| rig.cloud.plan(fault));
            wish.until_done(&rig, Call::Ensure, planned.as_mut().filter(|_| act == Act::Hold)).await;
            if nth == 0 {
                requests = rig.requests();
            }
            rig.cloud.forget_faults();
            let own =
                rig.cloud.balancers().into_iter().find(|balancer| Some(balancer.id.as_str()) == wish.id()).unwrap();
            let ids: Vec<&str> = own.spec.forwarding_rules.iter().map(|rule| rule.certificate_id.as_str()).collect();
            assert_eq!(ids, ["", &new, &new, "", "", &new], "{nth} {when:?} {act:?}");
            assert_eq!(own.spec.droplet_ids, [1, 2, 3, 4], "{nth} {when:?} {act:?}");
            assert_eq!(wish.service.annotations[&annotation("certificate-id")], old, "people's own annotation");
            rig.cloud.command(Command::RemoveBalancer { id: own.id }).unwrap();
            rig.cloud.command(Command::RemoveCertificate { id: new }).unwrap();
            skip(LONG).await;
            if nth == 0 {
                break;
            }
        }
        nth += 1;
    }
    rig.cloud.check().unwrap();
}
