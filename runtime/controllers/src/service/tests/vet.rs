//! Addresses that a provider names and that cannot be those of a load balancer.

use ccm_cloud::{Ingress, Outcome, SharedAddresses};
use serde_json::json;

use super::*;
use crate::service::job::Job;

fn at(ip: &str) -> Outcome {
    Outcome { ingress: vec![Ingress { ip: Some(ip.to_owned()), ..Ingress::default() }], ..Outcome::default() }
}

/// A cluster with a Node, a Service with a load balancer, and one with a ClusterIP.
fn cluster() -> Bench {
    let mut bench = Bench::new();
    bench.syncer = {
        let mut syncer = Arc::into_inner(bench.syncer).unwrap();
        let ranges = vec!["10.96.0.0/16".parse().unwrap()];
        syncer.addresses = ClusterAddresses::new(AddressSources {
            service_ranges: ranges,
            pod_ranges: vec!["10.244.0.0/16".to_owned(), "none".to_owned()],
            servers: vec!["198.51.100.6".to_owned()],
            nodes: Some(bench.nodes.as_reader()),
            services: Some(syncer.store.clone()),
            ..AddressSources::default()
        });
        Arc::new(syncer)
    };
    let pods = json!(["10.32.1.0/24", "fd00:32::/64"]);
    drop(bench.label(vec![node("n0").address("InternalIP", "10.0.0.7").with("/spec", "podCIDRs", pods), node("n1")]));
    let taken = json!([{ "ip": "203.0.113.7" }]);
    bench.add(service("victim").with("/status/loadBalancer", "ingress", taken));
    let inner = service("inner").with("/spec", "type", json!("ClusterIP"));
    let inner = inner.with("/spec", "clusterIPs", json!(["172.20.0.9"]));
    bench.add(inner.with("/spec", "externalIPs", json!(["203.0.113.70"])));
    bench.add(service("web"));
    bench
}

/// All of these were once written to the status, and kube-proxy led the traffic of the cluster to the Service.
#[tokio::test(start_paused = true)]
async fn an_address_of_the_cluster_of_a_node_or_of_another_service_is_not_written() {
    for (ip, part) in [
        ("169.254.169.254", "a link-local address"),
        ("127.0.0.1", "a loopback address"),
        ("10.96.0.10", "in the range of Services, 10.96.0.0/16"),
        ("172.20.0.9", "the ClusterIP of Service default/inner"),
        ("198.51.100.6", "an address of the API server"),
        ("10.0.0.7", "an address of node n0"),
        ("203.0.113.7", "the address of Service default/victim"),
        ("::ffff:203.0.113.7", "the address of Service default/victim"),
        ("10.244.3.7", "in a range of pods, 10.244.0.0/16"),
        ("10.32.1.7", "in a range of pods, 10.32.1.0/24"),
        ("fd00:32::7", "in a range of pods, fd00:32::/64"),
        ("203.0.113.70", "in spec.externalIPs of Service default/inner"),
    ] {
        let mut bench = cluster();
        bench.cloud.script("ensure", "web", [at(ip)]);
        let verdict = bench.sync("web").await;
        assert!(matches!(verdict, Verdict::Backoff | Verdict::After(_)), "{ip}: {verdict:?}");
        assert_eq!(bench.json("web")["status"]["loadBalancer"], json!({}), "{ip}");
        let condition = bench.condition("web");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("CloudConflict")), "{ip}");
        let events = bench.events().await;
        let warning = events.iter().find(|event| event.contains("SyncLoadBalancerFailed")).unwrap();
        for part in [part, "it is not written", "correct the load balancer"] {
            assert!(warning.contains(part), "{ip}: {warning}");
        }
    }
}

/// A tenant may write any address there, and once kept all of a cloud from every load balancer with one Service.
#[tokio::test(start_paused = true)]
async fn of_the_external_ips_of_a_service_so_few_count_that_nobody_keeps_the_addresses_of_a_cloud() {
    let mut bench = cluster();
    let many: Vec<String> = (0..200).map(|number| format!("203.0.113.{}", number + 20)).collect();
    bench.edit("inner", &json!({ "spec": { "externalIPs": many } }));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Retry, "not yet")]);
    bench.sync("web").await;
    let job = bench.job("web").unwrap();
    let refused = |ip: &str| bench.syncer.vetted(&job, at(ip)).failure.map(|failure| failure.message);
    for kept in [20, 35] {
        let told = refused(&format!("203.0.113.{kept}")).unwrap();
        assert!(told.contains("in spec.externalIPs of Service default/inner"), "{told}");
    }
    for free in [36, 219] {
        assert_eq!(refused(&format!("203.0.113.{free}")), None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_has_stays_and_what_is_free_or_shared_by_grant_is_written() {
    let mut bench = cluster();
    for (name, ip) in [("web", "203.0.113.9"), ("victim", "203.0.113.7")] {
        bench.cloud.script("ensure", name, [at(ip)]);
        assert_eq!(bench.sync(name).await, Verdict::Done, "{name}");
    }
    for (ip, shared) in [
        ("203.0.113.8", SharedAddresses::default()),
        ("203.0.113.7", SharedAddresses { services: true, nodes: false }),
        ("10.0.0.7", SharedAddresses { services: false, nodes: true }),
    ] {
        let job = bench.job("web").unwrap();
        let mut provider = bench.syncer.provider(0).unwrap();
        let descriptor = Arc::make_mut(&mut Arc::get_mut(&mut provider).unwrap().descriptor);
        descriptor.shared_addresses = shared;
        let job = Job { provider, ..job };
        assert_eq!(bench.syncer.vetted(&job, at(ip)), at(ip), "{ip}");
        let metadata = bench.syncer.vetted(&job, at("169.254.169.254"));
        assert!(metadata.failure.is_some() && metadata.ingress.is_empty(), "no grant is for that");
    }
    // It came from another manager, or before this host looked.
    let job = bench.job("victim").unwrap();
    bench.add(service("late").with("/status/loadBalancer", "ingress", json!([{ "ip": "203.0.113.7" }])));
    assert_eq!(bench.syncer.vetted(&job, at("203.0.113.7")), at("203.0.113.7"));
}

/// As DigitalOcean's Services hand over a load balancer: the old one is disowned, and the new one names it.
#[tokio::test(start_paused = true)]
async fn an_address_that_its_service_gave_up_is_free() {
    for given_up in [json!({ "wasm-ccm.io/orphan": "fake" }), json!({ "fake.io/mode": "disowned" })] {
        let mut bench = cluster();
        bench.edit("victim", &json!({ "metadata": { "annotations": given_up } }));
        bench.cloud.fail("ensure", "victim", [failure(Reaction::Elsewhere, "nobody takes care of it")]);
        bench.sync("victim").await;
        bench.cloud.script("ensure", "web", [at("203.0.113.7")]);
        assert_eq!(bench.sync("web").await, Verdict::Done, "{given_up}");
        assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.7", "{given_up}");
    }
}

/// Both were asked before the store showed what either of them got, and both got it.
#[tokio::test(start_paused = true)]
async fn of_two_services_that_are_written_at_the_same_moment_one_gets_the_address() {
    let mut bench = cluster();
    bench.add(service("late"));
    for name in ["web", "late"] {
        bench.cloud.fail("ensure", name, [failure(Reaction::Retry, "not yet")]);
        bench.sync(name).await;
    }
    let [web, late] = ["web", "late"].map(|name| bench.job(name).unwrap());
    let refused = |bench: &Bench, job: &Job, outcome| bench.syncer.vetted(job, outcome).failure.map(|it| it.message);
    assert_eq!(refused(&bench, &web, at("203.0.113.9")), None);
    assert_eq!(refused(&bench, &web, at("203.0.113.9")), None, "its own");
    let told = refused(&bench, &late, at("203.0.113.9")).unwrap();
    assert!(told.contains("203.0.113.9, which is the address of Service default/web"), "{told}");
    // Its provider has another one for it by now.
    assert_eq!(refused(&bench, &web, at("203.0.113.10")), None);
    assert_eq!(refused(&bench, &late, at("203.0.113.9")), None);
    // The store has had time to show it, and does not.
    assert!(refused(&bench, &late, at("203.0.113.10")).is_some());
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(refused(&bench, &late, at("203.0.113.10")), None);
    assert!(refused(&bench, &web, at("203.0.113.10")).is_some());
    // Whoever is gone has nothing.
    bench.edit("late", &json!({ "metadata": { "uid": "another" } }));
    assert_eq!(refused(&bench, &web, at("203.0.113.10")), None);
}

/// A job for each of them, without anything in the status.
async fn jobs<const N: usize>(bench: &mut Bench, names: [&str; N]) -> [Job; N] {
    for name in names {
        bench.cloud.fail("ensure", name, [failure(Reaction::Retry, "not yet")]);
        bench.sync(name).await;
    }
    names.map(|name| bench.job(name).unwrap())
}

fn refused(bench: &Bench, job: &Job, ip: &str) -> Option<String> {
    bench.syncer.vetted(job, at(ip)).failure.map(|failure| failure.message)
}

/// It was once taken for the Service's own, by the status of before the call, and both had it.
#[tokio::test(start_paused = true)]
async fn what_a_status_has_lost_while_its_provider_was_asked_may_be_anothers_by_then() {
    let mut bench = cluster();
    let [victim, web] = jobs(&mut bench, ["victim", "web"]).await;
    assert_eq!(refused(&bench, &victim, "203.0.113.7"), None);
    bench.edit("victim", &json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.8" }] } } }));
    // The time of what the victim reserved is over, if it has reserved anything.
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(refused(&bench, &web, "203.0.113.7"), None);
    let told = refused(&bench, &victim, "203.0.113.7").unwrap();
    assert!(told.contains("203.0.113.7, which is the address of Service default/web"), "{told}");
}

/// The store showed it, which ended what was reserved, and whoever had looked at the store just before got it as well.
#[tokio::test(start_paused = true)]
async fn an_address_stays_reserved_for_a_while_after_the_store_has_shown_it() {
    let mut bench = cluster();
    bench.add(service("late"));
    let [web, late] = jobs(&mut bench, ["web", "late"]).await;
    assert_eq!(refused(&bench, &web, "203.0.113.9"), None);
    let shown = |ingress: Value| json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    bench.edit("web", &shown(json!([{ "ip": "203.0.113.9" }])));
    let now = bench.syncer.store.get(&key("web")).unwrap();
    assert_eq!(refused(&bench, &Job { service: now, ..web }, "203.0.113.9"), None);
    // As the store was before.
    bench.edit("web", &shown(json!([])));
    assert!(refused(&bench, &late, "203.0.113.9").is_some());
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(refused(&bench, &late, "203.0.113.9"), None, "not for ever");
}

/// The last one who shared it took what was reserved for all others along when it went.
#[tokio::test(start_paused = true)]
async fn whoever_shares_an_address_by_grant_ends_no_reservation_of_another_service() {
    let mut bench = cluster();
    bench.add(service("late"));
    let [web, late, victim] = jobs(&mut bench, ["web", "late", "victim"]).await;
    let mut provider = bench.syncer.provider(0).unwrap();
    let descriptor = Arc::make_mut(&mut Arc::get_mut(&mut provider).unwrap().descriptor);
    descriptor.shared_addresses = SharedAddresses { services: true, nodes: false };
    let late = Job { provider, ..late };
    for (job, ip) in [(&web, "203.0.113.9"), (&late, "203.0.113.9"), (&late, "203.0.113.10")] {
        assert_eq!(refused(&bench, job, ip), None, "{ip}");
    }
    let told = refused(&bench, &victim, "203.0.113.9").unwrap();
    assert!(told.contains("the address of Service default/web"), "{told}");
}
