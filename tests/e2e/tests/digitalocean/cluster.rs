//! The public access firewall and the cluster's tag, whatever fails.

use std::time::Duration;

use ccm_cloud::{Cluster as _, Protocol, Reaction, Service, ServiceType};
use ccm_sim_digitalocean::{Act, Command, Droplet, FAULTS, Fault, FirewallSpec, Planned, Requests};

use crate::faults::{LONG, TIMES};
use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, network, tls};

/// What the cloud has of the cluster: its firewalls, and tags of its load balancers.
type End = (Vec<FirewallSpec>, Vec<Vec<String>>);

async fn rig() -> (Rig, Vec<Service>) {
    let given = [
        ("cluster-id", "c-1"),
        ("public-access-firewall-name", "public"),
        ("public-access-firewall-tags", "k8s,workers"),
    ];
    let rig = Rig::start(&given).await;
    for (id, tag) in (1..).zip(["k8s", "k8s", "k8s", "workers", "workers"]) {
        rig.cloud.put_droplet(Droplet { tags: vec![tag.to_owned()], ..Droplet::new(id, &format!("node-{id}")) });
    }
    let mut plain = network();
    plain.service.source_ranges = vec!["192.0.2.0/24".to_owned()];
    let mut ports = Wish::new("ports", &[(Protocol::Tcp, 22), (Protocol::Udp, 53)], &[]);
    ports.service.kind = ServiceType::NodePort;
    let mut regional = tls();
    for name in ["http3-port", "http2-ports", "tls-ports", "certificate-name", "redirect-http-to-https"] {
        regional.service.annotations.remove(&crate::wish::annotation(name));
    }
    for wish in [&mut plain, &mut regional] {
        wish.until_done(&rig, Call::Ensure, None).await;
    }
    (rig, vec![plain.service, ports.service, regional.service])
}

fn end(rig: &Rig) -> End {
    let firewalls = rig.cloud.firewalls().into_iter().map(|firewall| firewall.spec).collect();
    (firewalls, rig.cloud.balancers().into_iter().map(|balancer| balancer.spec.tags).collect())
}

/// As the controller: again, until nothing is wrong.
async fn reconcile(rig: &Rig, services: &[Service], mut planned: Option<&mut Planned>) {
    let mut failures = vec![];
    while failures.len() < 8 {
        let call = rig.provider.reconcile(vec![], services.to_vec());
        match rig.impatient(planned.as_deref_mut(), call).await {
            Ok(wrong) if wrong.is_empty() => return,
            wrong => failures.push(wrong),
        }
        skip(Duration::from_secs(30)).await;
    }
    panic!("not done: {failures:#?}");
}

/// From no firewall and no tags, or from wrong ones, with each fault at each request.
async fn every_fault(prepare: impl Fn(&Rig)) {
    let (rig, services) = rig().await;
    let run = async |fault: Option<Fault>| {
        prepare(&rig);
        skip(LONG).await;
        rig.cloud.reset_counters();
        let mut planned = fault.map(|fault| rig.cloud.plan(fault));
        let holds = fault.is_some_and(|fault| fault.act == Act::Hold);
        reconcile(&rig, &services, planned.as_mut().filter(|_| holds)).await;
        let requests = rig.requests();
        rig.cloud.forget_faults();
        skip(LONG).await;
        // What a lost answer leaves behind is seen to later, and then there is nothing to do.
        reconcile(&rig, &services, None).await;
        (requests, end(&rig))
    };
    run(None).await;
    let (requests, good) = run(None).await;
    let [firewall] = good.0.as_slice() else { panic!("not one firewall: {good:#?}") };
    assert_eq!(firewall.inbound_rules.len(), 5, "{firewall:#?}");
    assert!(good.1.iter().all(|tags| tags == &["k8s:c-1"]), "{good:#?}");
    for nth in 1..=requests {
        for &(when, act) in FAULTS {
            for times in TIMES {
                let fault = Fault { times, ..Fault::new(Requests::All, nth, when, act) };
                let (_, end) = run(Some(fault)).await;
                assert_eq!(end, good, "{fault:?}");
            }
        }
    }
    rig.cloud.check().unwrap();
}

fn without_tags(rig: &Rig) {
    for balancer in rig.cloud.balancers() {
        assert!(rig.cloud.tamper(&balancer.id, |spec| spec.tags.clear()));
    }
}

#[tokio::test]
async fn one_firewall_is_made_whatever_fails() {
    every_fault(|rig| {
        for firewall in rig.cloud.firewalls() {
            rig.cloud.command(Command::RemoveFirewall { id: firewall.id }).unwrap();
        }
        without_tags(rig);
    })
    .await;
}

#[tokio::test]
async fn no_rule_of_the_firewall_is_lost_whatever_fails() {
    every_fault(|rig| {
        for firewall in rig.cloud.firewalls() {
            assert!(rig.cloud.tamper_firewall(&firewall.id, |spec| {
                spec.inbound_rules.pop();
                spec.tags.clear();
            }));
        }
        without_tags(rig);
    })
    .await;
}

/// The cloud refuses it, and only a person can tell which of the two is wrong.
#[tokio::test]
async fn a_firewall_whose_tag_is_not_in_the_account_is_told_and_made_as_soon_as_it_is() {
    let given = [("public-access-firewall-name", "public"), ("public-access-firewall-tags", "k8s,workers")];
    let rig = Rig::start(&given).await;
    let droplet = |tags: &[&str]| Droplet {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Droplet::new(1, "node-1")
    };
    rig.cloud.put_droplet(droplet(&["k8s"]));
    let mut failures = rig.provider.reconcile(vec![], vec![]).await.unwrap();
    let (_, failure) = failures.pop().unwrap();
    assert_eq!((failure.reaction, failure.retry_after), (Reaction::Retry, Some(Duration::from_secs(60))));
    for words in
        ["the tag \"workers\"", "PUBLIC_ACCESS_FIREWALL_TAGS", "not in the account", "tag workers does not exist"]
    {
        assert!(failure.message.contains(words), "{words}: {failure}");
    }
    assert_eq!(rig.cloud.firewalls(), []);
    rig.cloud.put_droplet(droplet(&["k8s", "workers"]));
    assert_eq!(rig.provider.reconcile(vec![], vec![]).await, Ok(vec![]));
    assert_eq!(rig.cloud.firewalls()[0].spec.tags, ["k8s", "workers"]);
    rig.cloud.check().unwrap();
}
