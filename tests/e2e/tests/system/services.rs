//! 4: whose Services are served and by whom, what people are told, and that what is as it should be costs nothing.

use std::time::Duration;

use ccm_cluster::await_absent;
use ccm_e2e::balancer_cloud::{Act, Balancer, BalancerCloud, Fault, Kind, Requests, When};
use ccm_e2e::host::component;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::look::await_event;
use crate::service_look::{
    FINALIZER, QUICK, annotated, assert_one_each, await_reason, await_served, await_service, balancing, change, cloud,
    delete, has_finalizer, ips, is_bare, is_served, owned, readiness, serve, serve_whole, services, the, told,
    two_nodes,
};
use crate::stage::{Actor, LIMIT, Stage, cloudlycke};

/// The class that the second provider serves.
const SECOND: &str = "cloudlycke.io/second";

fn of_class(class: &str) -> Value {
    json!({ "spec": { "loadBalancerClass": class } })
}

/// A host with two providers: that of the cloud that counts first, Cloudlycke for a class.
fn two_providers(stage: &Stage, cloud: &BalancerCloud) -> Actor {
    let flags = cloud.flags();
    let after = |prefix: &str| flags.iter().find_map(|flag| flag.strip_prefix(prefix)).unwrap();
    let file = stage.file(
        "providers.yaml",
        json!([
            {
                "source": component("guests/balancer.wasm").unwrap(),
                "grants": {
                    "endpoints": { "api": after("--endpoint=api=") },
                    "allowHttp": true,
                    "allowLoopback": true,
                },
                "credentials": { "token": after("--credential=token=") },
            },
            { "source": cloudlycke(), "loadBalancerClasses": [SECOND] },
        ])
        .to_string(),
    );
    let providers = format!("--providers={}", file.display());
    stage.start([providers.as_str()].into_iter().chain(QUICK))
}

/// A Service, a fault of the cloud that it meets, and what it then says: reason, what is in the cloud's words, what in ours.
struct Case {
    name: &'static str,
    differs: Value,
    status: Option<u16>,
    reason: &'static str,
    said: &'static str,
    ours: &'static str,
}

impl Case {
    fn new(name: &'static str, differs: Value, reason: &'static str, said: &'static str, ours: &'static str) -> Self {
        Self { name, differs, status: None, reason, said, ours }
    }

    fn answer(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }
}

const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const PENDING: &str = ": checked again until the cloud is done";
const RETRY: &str = " (retry): retried with back-off";
const INVALID: &str = " (invalid): not retried before the Service changes";
const CONFLICT: &str = " (conflict): retried with back-off";
const QUOTA: &str = " (quota): retried slowly";
const REFUSED: &str = " (unauthorized): retried slowly, and at once with other credentials";

#[tokio::test]
async fn two_providers_share_the_services_by_class_and_say_in_the_same_words_why_one_waits() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    // Nothing is ever built in this cloud.
    let cloud = cloud(Duration::from_secs(3_600)).await;
    let host = two_providers(&stage, &cloud);
    host.ready().await;

    let second = |differs: Value| {
        let mut differs = differs;
        differs["spec"]["loadBalancerClass"] = json!(SECOND);
        differs
    };
    let first = Case::new;
    let plain = || json!({});
    let idle = "balancer.example/idle-seconds";
    let cases = [
        first("building", plain(), "CloudPending", "lb-000001 is being built", PENDING),
        first("failing", plain(), "CloudFailed", "planned", RETRY).answer(500),
        first("poor", plain(), "QuotaExceeded", "planned", QUOTA).answer(402),
        first("refused", plain(), "CredentialsRefused", "planned", REFUSED).answer(401),
        first(
            "idle",
            annotated([(idle, "soon")]),
            "InvalidService",
            "metadata.annotations[balancer.example/idle-seconds]: \"soon\" is not a whole number of seconds",
            INVALID,
        ),
        first(
            "second-building",
            second(annotated([("cloudlycke.io/lb-delay", "1h")])),
            "CloudPending",
            "provisioning, ready in ",
            PENDING,
        ),
        first(
            "second-failing",
            second(annotated([("cloudlycke.io/lb-fail", "the cloud is upset")])),
            "CloudFailed",
            "the cloud is upset",
            RETRY,
        ),
        first(
            "second-outside",
            second(annotated([("cloudlycke.io/lb-address", "192.0.2.1")])),
            "InvalidService",
            "metadata.annotations[cloudlycke.io/lb-address]: address 192.0.2.1 is outside the pool",
            INVALID,
        ),
    ];
    for Case { name, differs, status, reason, said, ours } in cases {
        // The next try, after which it would say something else, gets nowhere before that was read.
        let next = status.map(|status| {
            let plan = |nth, act| cloud.plan(Fault { of: Requests::Of(Kind::Create), nth, when: When::Before, act });
            drop(plan(1, Act::Answer(status)));
            plan(2, Act::Hold)
        });
        serve(client, name, differs).await;
        let message = await_reason(client, name, reason).await;
        assert!(message.contains(said) && message.ends_with(ours), "{name}: {message}");
        if reason == "CloudPending" {
            await_event(client, name, "Normal", "LoadBalancerPending", &["the cloud is at work: ", said]).await;
            let told = told(client, name).await;
            assert!(told.iter().all(|line| line.starts_with("Normal ")), "{name}: {told:?}");
        } else {
            let event = await_event(client, name, "Warning", "SyncLoadBalancerFailed", &[said, ours]).await;
            assert!(event.starts_with(&format!("Error syncing load balancer: {message}")), "{name}: {event}");
            assert_eq!(event.ends_with(" s"), ours != INVALID, "when the next try is: {event}");
        }
        if let Some(next) = next {
            next.release();
            cloud.call_off();
        }
        // Also what waits for a minute, or for its owner.
        delete(client, name).await;
        await_absent(&services(client), name, LIMIT).await.unwrap();
    }

    // The ranges of the spec are the Service's; the annotation is for providers that declare it, and none of these does.
    serve(client, "second-ranges", second(plain())).await;
    let ready = await_service(client, "second-ranges", is_served).await;
    change(client, "second-ranges", &annotated([(RANGES, "10.0.0.0/8")])).await;
    serve_whole(client, "second-next", second(plain())).await;
    assert_eq!(readiness(&the(client, "second-ranges").await), readiness(&ready));
    await_event(client, "second-ranges", "Normal", "EnsuredLoadBalancer", &[]).await;
    host.events_written().await;
    let ensured = told(client, "second-ranges").await;
    let ensured = ensured.iter().filter(|line| line.contains("EnsuredLoadBalancer"));
    assert_eq!(ensured.count(), 1, "the annotation is no change");
    for name in ["second-ranges", "second-next"] {
        delete(client, name).await;
        await_absent(&services(client), name, LIMIT).await.unwrap();
    }

    // An address that somebody has.
    serve(client, "holder", second(annotated([("cloudlycke.io/lb-address", "203.0.113.7")]))).await;
    assert_eq!(ips(&await_served(client, "holder").await), ["203.0.113.7"]);
    serve(client, "late", second(annotated([("cloudlycke.io/lb-address", "203.0.113.7")]))).await;
    let message = await_reason(client, "late", "CloudConflict").await;
    assert!(message.contains("in use by default/holder") && message.ends_with(CONFLICT), "{message}");

    // Nobody's class is nobody's Service.
    let strange = serve(client, "strange", of_class("another.example/class")).await;
    serve(client, "plain", plain()).await;
    await_reason(client, "plain", "CloudPending").await;
    let owners: Vec<String> = cloud.balancers().into_iter().map(|balancer| balancer.spec.owner).collect();
    assert_eq!(owners, [the(client, "plain").await.uid().unwrap()], "those of the class never came here");
    assert_eq!(the(client, "strange").await, strange);
    assert_eq!(told(client, "strange").await, [""; 0]);
    host.end().await;
}

/// What was there at the start of a process: the versions of all Services, and what the cloud was asked for.
struct Before {
    services: Vec<Service>,
    reads: usize,
    writes: usize,
}

impl Before {
    async fn now(stage: &Stage, cloud: &BalancerCloud) -> Self {
        let services = services(stage.client()).list(&Default::default()).await.unwrap().items;
        Self { services, reads: cloud.reads(), writes: cloud.write_requests() }
    }
}

#[tokio::test]
async fn a_restart_with_nothing_changed_writes_nothing_and_does_not_hold_up_a_new_service() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let first = balancing(&stage, &cloud, &[]);
    // More than there are reads of the cloud at a start, so that one for each of them would show.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for name in names {
        serve(client, name, json!({ "spec": { "externalTrafficPolicy": "Local" } })).await;
    }
    for name in names {
        await_served(client, name).await;
    }
    assert_eq!(cloud.write_requests(), names.len(), "one write per load balancer");
    first.end().await;

    // Without a survey, which not every provider has, the controller asks for nothing either.
    for (round, flags, surveys) in [("surveyed", &[][..], 2), ("not surveyed", &["--service-survey-timeout=0s"], 0)] {
        let before = Before::now(&stage, &cloud).await;
        let host = balancing(&stage, &cloud, flags);
        host.ready().await;
        let new = format!("new-{surveys}");
        serve_whole(client, &new, json!({})).await;
        // All the others were in the queue before it, and have been looked at when nothing is left there.
        host.idle("service", 13).await;
        host.events_written().await;
        host.end().await;
        assert_eq!(cloud.write_requests() - before.writes, 1, "{round}: only the new one is made");
        // The online check of the provider, which is made again when it came before the Nodes were known; the gate's look at what the
        // records say; the survey, which is made again beside the work when it takes more than 5 s; and what the new one asks.
        let reads = cloud.reads() - before.reads;
        assert!(reads <= 2 + 1 + surveys + 1, "{round}: {reads} reads");
        for service in &before.services {
            assert_eq!(the(client, &service.name_any()).await, *service, "{round}");
        }
    }
    let written = stage.cluster.writes().unwrap();
    let about = |name: &str| {
        let of_host = written.iter().filter(|write| write.user == stage.user() && write.name == name);
        of_host.filter(|write| write.resource.starts_with("services")).count()
    };
    // The finalizer; then address, record and condition in one.
    assert_eq!(names.map(about), [2; 12]);
    assert_one_each(client, &cloud).await;
}

/// QUIRK-19: upstream takes the finalizer from whatever has it.
#[tokio::test]
async fn a_service_of_another_classs_controller_keeps_its_finalizer_and_its_status() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let mut foreign = of_class("another.example/class");
    foreign["metadata"] = json!({ "finalizers": [FINALIZER] });
    for name in ["stays", "goes", "turns", "turns-later"] {
        serve(client, name, foreign.clone()).await;
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } } });
        let patch = Patch::Merge(&status);
        services(client).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    delete(client, "goes").await;
    let to_cluster_ip = json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } });
    change(client, "turns", &to_cluster_ip).await;
    let host = balancing(&stage, &cloud, &[]);
    // Whoever has the finalizer and no class is upstream's, and ours. It came last: all others have been seen by now.
    serve_whole(client, "own", json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
    // That of somebody else, who cleans up.
    change(client, "turns-later", &to_cluster_ip).await;
    let mut kept = vec![];
    for name in ["stays", "goes", "turns-later"] {
        kept.push(the(client, name).await);
    }
    delete(client, "own").await;
    await_absent(&services(client), "own", LIMIT).await.unwrap();
    await_service(client, "turns", is_bare).await;
    host.events_written().await;
    for service in &kept {
        assert_eq!(the(client, &service.name_any()).await, *service);
        assert_eq!(told(client, &service.name_any()).await, [""; 0]);
    }
    assert_eq!(cloud.balancers().len(), 0);
    host.end().await;
}

/// The class of a Service cannot be changed, but its type can, and back. A process that sees nothing of the moment between once
/// let the new provider overwrite what the old one's load balancer is found by. Where nobody serves the new class, the configuration may
/// be wrong: nothing is deleted before the Service goes.
#[tokio::test]
async fn a_service_that_changes_its_class_while_nobody_looks_leaves_nothing_at_the_provider_that_had_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let mut host = two_providers(&stage, &cloud);
    let of_second = |service: &Service| ips(service).iter().any(|ip| ip.starts_with("203.0.113."));
    for restarts in [false, true] {
        let name = |what: &str| format!("{what}-{}", if restarts { "restart" } else { "sleep" });
        let names = ["to-second", "from-second", "to-nobody"].map(name);
        for (name, class) in names.iter().zip([None, Some(SECOND), None]) {
            serve(client, name, class.map_or(json!({}), of_class)).await;
        }
        for name in &names {
            await_served(client, name).await;
        }
        assert_eq!(cloud.balancers().len(), 2);
        host.signal(if restarts { "KILL" } else { "STOP" }).await.unwrap();
        for (name, class) in names.iter().zip([json!(SECOND), json!(null), json!("another.example/class")]) {
            change(client, name, &json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } })).await;
            change(client, name, &json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": class } })).await;
        }
        if restarts {
            host.wait(LIMIT).await.unwrap();
            host = two_providers(&stage, &cloud);
        } else {
            host.signal("CONT").await.unwrap();
        }
        let [to_second, from_second, to_nobody] = &names;
        let moved = the(client, from_second).await.uid().unwrap();
        await_service(client, to_second, |service| is_served(service) && of_second(service)).await;
        // Without a class it may stay where it is: another order of the providers must not move what works. A host that slept
        // can still see the moment between, and then it goes to the first provider.
        let may_move = !restarts;
        let stays = |service: &Service| is_served(service) && (may_move || of_second(service));
        await_service(client, from_second, stays).await;
        let kept = the(client, to_nobody).await;
        if restarts {
            let parts = ["\"balancer\"", "does not serve the class \"another.example/class\""];
            await_event(client, to_nobody, "Warning", "LoadBalancerStranded", &parts).await;
            assert_eq!((has_finalizer(&kept), owned(&cloud, &kept).len()), (true, 1));
        }
        let kept = kept.uid().unwrap();
        let settled = |all: &[Balancer]| {
            all.iter().filter(|one| one.spec.owner != kept).all(|one| may_move && one.spec.owner == moved)
        };
        cloud.await_balancers(LIMIT, settled).await.unwrap();
        let from_second_now = await_service(client, from_second, is_served).await;
        assert_eq!(owned(&cloud, &from_second_now).len(), usize::from(!of_second(&from_second_now)));
        for name in &names {
            delete(client, name).await;
            await_absent(&services(client), name, LIMIT).await.unwrap();
        }
        assert_eq!(cloud.balancers().len(), 0);
    }
    host.end().await;
}
