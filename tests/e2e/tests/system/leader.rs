//! Leader election: several hosts, one of which writes. Who wrote what, the API server's audit log tells: each host logs in
//! as another user.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ccm_cluster::{NodeFixture, Write, await_object, poll_until, register_nodes};
use ccm_e2e::alerts;
use ccm_e2e::balancer_cloud::{Act, BalancerCloud, CloudSettings, Fault, Kind, Requests, When};
use ccm_e2e::host::{Host, component};
use futures::StreamExt as _;
use http::Method;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::look::{await_all_untainted, await_untainted, is_tainted, nodes, patch};
use crate::mistakes::ended;
use crate::stage::{LIMIT, RIVAL, Stage, cloudlycke};
use crate::way::Way;

/// Times of an election that a test can wait for, and that a leader keeps on a machine with ten times as much to do as it can.
const SHORT: [&str; 3] =
    ["--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=500ms"];
/// With it nobody sees a Lease end in time: who leads was given it.
const ENDLESS: [&str; 2] = ["--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m"];
/// With the flags' defaults.
const DEFAULT: [&str; 1] = ["--leader-elect=true"];
/// A cluster with a record of writes, and two users for hosts: the other one may do what `manifests/base` allows, too.
struct Arena(Stage);

impl Deref for Arena {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl Arena {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let client = stage.client();
        let subjects = Some(vec![Subject {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "User".into(),
            name: RIVAL.into(),
            namespace: None,
        }]);
        let all: Api<ClusterRoleBinding> = Api::all(client.clone());
        let mut binding = all.get("wasm-ccm").await.unwrap();
        (binding.metadata, binding.subjects) = (named(RIVAL), subjects.clone());
        all.create(&PostParams::default(), &binding).await.unwrap();
        for namespace in ["kube-system", "default"] {
            let all: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
            let mut binding = all.get("wasm-ccm").await.unwrap();
            (binding.metadata, binding.subjects) = (named(RIVAL), subjects.clone());
            all.create(&PostParams::default(), &binding).await.unwrap();
        }
        Self(stage)
    }

    /// The hosts' users: that of the manifest, and the rival.
    fn users(&self) -> [String; 2] {
        [self.user().to_owned(), RIVAL.to_owned()]
    }

    fn host(&self, user: &str, flags: &[&str]) -> Host {
        self.host_with(user, &cloudlycke(), flags)
    }

    fn host_with(&self, user: &str, provider: &Path, flags: &[&str]) -> Host {
        let provider = format!("--provider={}", provider.display());
        let flags = [provider.as_str()].into_iter().chain(flags.iter().copied());
        Host::start(self.cluster.kubeconfig_of(user).unwrap(), flags).unwrap()
    }

    /// Writes of a user that are not about the election itself.
    fn work_of(&self, user: &str) -> Vec<Write> {
        let mut writes = self.cluster.writes().unwrap();
        writes.retain(|write| write.user == user && write.resource != "leases" && write.namespace != "kube-system");
        writes
    }

    async fn register(&self, name: &str) {
        NodeFixture::new(name).internal_ip("10.0.0.1").register(self.client()).await.unwrap();
    }
}

fn named(name: &str) -> kube::core::ObjectMeta {
    kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}

async fn lookups(host: &Host) -> f64 {
    host.count("ccm_provider_calls_total", &["function=\"instances.find\""]).await.unwrap()
}

async fn lease(client: &Client) -> LeaseSpec {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    leases.get("cloud-controller-manager").await.unwrap().spec.unwrap()
}

/// Texts of the Events about the Lease, and who said them.
async fn election_events(client: &Client) -> Vec<(String, String)> {
    let all: Api<Event> = Api::namespaced(client.clone(), "kube-system");
    let mut all = all.list(&ListParams::default()).await.unwrap().items;
    all.retain(|event| event.regarding.as_ref().is_some_and(|about| about.kind.as_deref() == Some("Lease")));
    all.sort_by_key(|event| event.event_time.clone());
    let told = |event: Event| {
        let words = (event.type_.as_deref(), event.reason.as_deref(), event.reporting_controller.as_deref());
        assert_eq!(words, (Some("Normal"), Some("LeaderElection"), Some("cloud-controller-manager")));
        let about = event.regarding.unwrap();
        assert!(about.name.as_deref() == Some("cloud-controller-manager") && about.uid.is_some());
        (event.reporting_instance.unwrap(), event.note.unwrap())
    };
    all.into_iter().map(told).collect()
}

async fn leads(host: &Host) -> bool {
    host.count("leader_election_master_status", &["name=\"cloud-controller-manager\""]).await.unwrap_or_default() == 1.0
}

/// Waits until the host leads.
async fn await_leader(host: &Host, limit: Duration) {
    host.await_log(limit, &["this process leads"]).await.unwrap();
    assert!(leads(host).await);
}

/// From the last renewal of a leader that has ended, in `old`, until the next one took the Lease, by their own record.
fn between(old: &LeaseSpec, new: &LeaseSpec) -> Duration {
    assert_ne!(old.holder_identity, new.holder_identity);
    let renewed = old.renew_time.as_ref().unwrap().0;
    new.acquire_time.as_ref().unwrap().0.duration_since(renewed).try_into().unwrap()
}

async fn await_standby(host: &Host) {
    let page = host.await_page("/readyz", 200, LIMIT).await.unwrap();
    assert!(page.contains("[+]nodes ok") && page.contains("stands by"), "{page}");
    // A look at the Lease tells who leads.
    host.await_log(LIMIT, &["leader, as the Lease says"]).await.unwrap();
    assert!(!leads(host).await);
}

#[tokio::test]
async fn case_260_of_two_hosts_one_writes_and_the_other_is_ready_and_writes_nothing() {
    const COUNT: usize = 20;
    let arena = Arena::new().await;
    let client = arena.client();
    let [first, second] = arena.users();
    let mut leader = arena.host(&first, &DEFAULT);
    await_leader(&leader, LIMIT).await;
    let mut standby = arena.host(&second, &DEFAULT);
    await_standby(&standby).await;

    let fixtures = (0..COUNT).map(|i| NodeFixture::new(format!("n{i}")).internal_ip(&format!("10.0.0.{}", i + 1)));
    register_nodes(client, fixtures).await.unwrap();
    await_all_untainted(client, COUNT).await;
    // It sees all that happens.
    standby.await_count("ccm_store_objects", &["kind=\"Node\""], LIMIT, |n| n == COUNT as f64).await.unwrap();

    let record = lease(client).await;
    let identity = record.holder_identity.unwrap();
    let (host, uuid) = identity.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && uuid.len() == 36, "{identity}");
    assert_eq!((record.lease_duration_seconds, record.lease_transitions), (Some(15), Some(0)));
    let page = standby.page("/readyz").await.unwrap().1;
    assert!(page.contains(&format!("leader: {identity}; this process, ")), "{page}");
    let page = leader.await_page("/readyz", 200, LIMIT).await.unwrap();
    assert!(page.contains(&format!("leader: this process, {identity}")), "{page}");
    for host in [&leader, &standby] {
        assert_eq!(host.page("/healthz/leaderElection").await.unwrap(), (200, "ok".to_owned()));
        let (status, page) = host.page("/healthz?verbose").await.unwrap();
        assert!(status == 200 && page.contains("[+]leaderElection ok"), "{page}");
    }

    // Which controllers run: those of the leader.
    let running = async |host: &Host| host.count("running_managed_controllers", &[]).await.unwrap();
    assert!(running(&leader).await >= 3.0);
    assert_eq!(running(&standby).await, 0.0);
    for (host, status) in [(&leader, 200), (&standby, 404)] {
        assert_eq!(host.page("/healthz/cloud-node-controller").await.unwrap().0, status);
    }

    // It has loaded its provider, and asked no cloud: these compute.
    let calls = async |labels: &[&str]| standby.count("ccm_provider_calls_total", labels).await.unwrap();
    let computed = calls(&["function=\"meta."]).await + calls(&["function=\"load-balancers.name\""]).await;
    assert_eq!(calls(&[]).await, computed);
    assert!(lookups(&leader).await >= 1.0);
    assert!(standby.terminate().await.unwrap().success());
    let log = standby.log_text();
    assert!(!log.contains("ERROR") && !log.contains("forbidden"), "{log}");
    assert_eq!(lease(client).await.holder_identity, Some(identity.clone()), "that of the leader is left alone");
    assert!(leader.terminate().await.unwrap().success());
    assert_eq!(lease(client).await.holder_identity.as_deref(), Some(""));
    let told = |what: &str| (identity.clone(), format!("{identity} {what}"));
    assert_eq!(election_events(client).await, [told("became leader"), told("stopped leading")]);

    assert!(arena.work_of(&first).len() >= 3 * COUNT);
    let writes = arena.cluster.writes().unwrap();
    let by_standby: Vec<&Write> = writes.iter().filter(|write| write.user == second).collect();
    assert_eq!(by_standby, Vec::<&Write>::new());
}

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_when_its_lease_has_ended_and_nothing_is_left_undone() {
    let arena = Arena::new().await;
    let client = arena.client();
    let [first, second] = arena.users();
    let mut leader = arena.host(&first, &SHORT);
    await_leader(&leader, LIMIT).await;
    arena.register("before").await;
    await_untainted(client, "before").await;
    let standby = arena.host(&second, &SHORT);
    await_standby(&standby).await;

    leader.signal("KILL").await.unwrap();
    leader.wait(LIMIT).await.unwrap();
    let last = lease(client).await;
    // Before anybody leads: the watch of the standby has told nobody of it.
    arena.register("between").await;
    await_leader(&standby, LIMIT).await;
    let waited = between(&last, &lease(client).await);
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    await_untainted(client, "between").await;
    arena.register("after").await;
    await_untainted(client, "after").await;
    assert_eq!(lease(client).await.lease_transitions, Some(1));
    let patched = arena.work_of(&second);
    assert!(patched.iter().all(|write| write.name != "before"), "what was done is not done again: {patched:?}");
}

/// Upstream leaves the Lease as it is, so that nobody leads for 15 s after each rollout (QUIRK-28).
#[tokio::test]
async fn a_leader_that_is_told_to_stop_finishes_and_the_next_one_leads_at_once() {
    const EACH: usize = 5;
    let arena = Arena::new().await;
    let client = arena.client();
    let [first, second] = arena.users();
    let way = Way::to(arena.cluster.client_of(&first).await.unwrap()).await;
    let mut leader = arena.host(&first, &[&ENDLESS[..], &[&way.flag()]].concat());
    await_leader(&leader, LIMIT).await;
    let standby = arena.host(&second, &ENDLESS);
    await_standby(&standby).await;
    let holder = lease(client).await.holder_identity;
    let names = |prefix: &str| -> BTreeSet<String> { (0..EACH).map(|i| format!("{prefix}{i}")).collect() };
    let mut writing = way.hold(|method, path| method == Method::PATCH && path.starts_with("/api/v1/nodes/"));
    for name in names("begun") {
        arena.register(&name).await;
    }
    for _ in 0..EACH {
        writing.next().await;
    }
    // In the middle of its work: it ends that, and begins nothing.
    leader.signal("TERM").await.unwrap();
    leader.await_log(LIMIT, &["SIGTERM: stopping"]).await.unwrap();
    for name in names("later") {
        arena.register(&name).await;
    }
    assert_eq!((lease(client).await.holder_identity, leads(&standby).await), (holder, false));
    drop(writing);

    assert!(leader.wait(LIMIT).await.unwrap().success());
    await_leader(&standby, LIMIT).await;
    await_all_untainted(client, 2 * EACH).await;
    let log = leader.log();
    let last = |text: &str| log.iter().rposition(|line| line.contains(text));
    assert!(last("node initialised").is_some() && last("node initialised") < last("Lease released"), "{log:?}");
    let of_nodes = |writes: &[Write]| -> BTreeSet<String> {
        let nodes = writes.iter().filter(|write| write.resource.starts_with("nodes"));
        nodes.map(|write| write.name.clone()).collect()
    };
    let (old, new) = (arena.work_of(&first), arena.work_of(&second));
    assert_eq!((of_nodes(&old), of_nodes(&new)), (names("begun"), names("later")));
    assert!(old.last().unwrap().received < new[0].received, "{:?} {:?}", old.last(), new[0]);
}

/// The Lease was released although the cloud could still carry out what was under way.
#[tokio::test]
async fn a_leader_whose_cloud_is_slow_when_it_is_told_to_stop_leaves_its_lease_to_end_by_itself() {
    let arena = Arena::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let (client, provider) = (arena.client(), component("guests/balancer.wasm").unwrap());
    let flags = cloud.flags();
    // With shorter times the end of the Lease, not of the controllers, would end the request.
    let flags: Vec<&str> = DEFAULT.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let [first, second] = arena.users();
    arena.register("n1").await;
    let mut leader = arena.host_with(&first, &provider, &flags);
    await_leader(&leader, LIMIT).await;
    let standby = arena.host_with(&second, &provider, &flags);
    await_standby(&standby).await;
    let created = Fault { of: Requests::Of(Kind::Create), nth: 1, when: When::After, act: Act::Hold };
    let mut created = cloud.plan(created);
    let web = json!({
        "metadata": { "name": "web" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }], "selector": { "app": "web" } },
    });
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    services.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    created.reached(LIMIT).await.unwrap();

    let code = leader.terminate().await.unwrap().code();
    assert_eq!(code, Some(1), "{}", leader.log_text());
    let last = lease(client).await;
    await_leader(&standby, LIMIT).await;
    let waited = between(&last, &lease(client).await);
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    let log = leader.log_text();
    assert!(log.contains("the Lease is not released") && !log.contains("Lease released"), "{log}");
    assert!(log.contains("service controller: queue service: 1 runs were given up before they had ended"), "{log}");
    let has_address = |web: &Service| {
        let status = web.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
        status.is_some_and(|ingress| !ingress.is_empty())
    };
    await_object(&services, "web", LIMIT, has_address).await.unwrap();
    assert_eq!(cloud.balancers().len(), 1, "the next leader found it");
}

/// Lets the thread of the election run only when no other thread of the machine's first core wants to, and all threads of
/// the host on that core: whatever that thread would do about a lost Lease comes late. Returns the thread.
fn starve_election(host: &Host) -> String {
    let pid = host.pid().unwrap().to_string();
    let run = |program: &str, args: &[&str]| {
        let done = ended(Command::new(program).args(args));
        assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run("taskset", &["--all-tasks", "--cpu-list", "--pid", "0", &pid]);
    let mut starved = vec![];
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let task = task.unwrap();
        if std::fs::read_to_string(task.path().join("comm")).unwrap().trim() == "leader-election" {
            let thread = task.file_name().to_string_lossy().into_owned();
            run("chrt", &["--idle", "--pid", "0", &thread]);
            starved.push(thread);
        }
    }
    assert_eq!(starved.len(), 1);
    starved.remove(0)
}

/// The end of that: on a busy machine it would come late by minutes. Whoever has ended needs none.
fn feed_election(thread: &str) {
    ended(Command::new("chrt").args(["--other", "--pid", "0", thread]));
}

/// A process that is stopped in the middle of its work, and wakes when another one leads: not one of the writes that it was
/// about to send may arrive. Nor may it matter that nobody has told it yet: time alone closes the gates.
#[tokio::test]
async fn a_leader_that_sleeps_past_its_lease_writes_nothing_after_the_first_write_of_the_next_one() {
    const COUNT: usize = 60;
    const ROUNDS: usize = 2;
    let arena = Arena::new().await;
    let client = arena.client();
    let users = arena.users();
    let fixtures = (0..COUNT).map(|i| NodeFixture::new(format!("n{i}")).internal_ip(&format!("10.0.0.{}", i + 1)));
    register_nodes(client, fixtures).await.unwrap();
    // Always something to write: whoever is done is made undone.
    let unrest = async {
        loop {
            let all = nodes(client).list(&ListParams::default()).await.unwrap().items;
            let done: Vec<Node> = all.into_iter().filter(|node| !is_tainted(node)).collect();
            let taint = json!({ "spec": { "taints": [{
                "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule",
            }] } });
            let undo = |node: Node| {
                let taint = taint.clone();
                async move { patch(client, &node.name_any(), &taint).await }
            };
            futures::stream::iter(done).map(undo).buffer_unordered(8).collect::<Vec<_>>().await;
        }
    };
    let rounds = async {
        let mut leader = arena.host(&users[0], &SHORT);
        await_leader(&leader, LIMIT).await;
        for round in 0..ROUNDS {
            let [old, new] = [&users[round % 2], &users[(round + 1) % 2]];
            let standby = arena.host(new, &SHORT);
            await_standby(&standby).await;
            let before = arena.work_of(new).len();
            let so_far = arena.work_of(old).len();
            poll_until("writes of the leader", LIMIT, || arena.work_of(old).len() > so_far + 20).await.unwrap();

            leader.signal("STOP").await.unwrap();
            await_leader(&standby, LIMIT).await;
            let more_of_the_next = async |more: usize| {
                poll_until("writes of the next", LIMIT, || arena.work_of(new).len() > before + more).await.unwrap();
            };
            more_of_the_next(20).await;
            let election = starve_election(&leader);
            leader.signal("CONT").await.unwrap();
            more_of_the_next(60).await;
            feed_election(&election);
            let ended = leader.wait(LIMIT).await.unwrap();
            assert_eq!(ended.code(), Some(1), "round {round}: {}", leader.log_text());
            let log = leader.log_text();
            assert!(
                log.contains("leadership lost, nothing more is written") && log.contains("was not renewed within 12s")
            );
            // What might still be on its way arrives before these.
            more_of_the_next(arena.work_of(new).len() - before + 20).await;

            let first_of_new = arena.work_of(new)[before].clone();
            let late: Vec<Write> =
                arena.work_of(old).into_iter().filter(|write| write.received >= first_of_new.received).collect();
            assert_eq!(late, [], "round {round}: after {first_of_new:?}; log of the old leader:\n{log}");
            leader = standby;
        }
        assert!(leads(&leader).await);
        assert_eq!(lease(client).await.lease_transitions, Some(i32::try_from(ROUNDS).unwrap()));
    };
    tokio::select! {
        () = unrest => unreachable!(),
        () = rounds => {}
    }
}

#[tokio::test]
async fn a_leader_that_cannot_renew_ends_and_a_standby_waits_for_the_api_server() {
    let arena = Arena::new().await;
    let [first, second] = arena.users();
    let mut leader = arena.host(&first, &SHORT);
    await_leader(&leader, LIMIT).await;
    let mut standby = arena.host(&second, &SHORT);
    await_standby(&standby).await;
    let before = [alerts::scrape(&leader).await.unwrap(), alerts::scrape(&standby).await.unwrap()];
    arena.cluster.stop_api_server().await.unwrap();
    let ended = leader.wait(LIMIT).await.unwrap();
    assert_eq!(ended.code(), Some(1));
    let alone = [String::new(), alerts::scrape(&standby).await.unwrap()];
    alerts::fires("WasmCCMNoLeader", &[before, alone]).await.unwrap();
    let log = leader.log_text();
    assert!(log.contains("error: leadership lost: the Lease was not renewed within 12s: cannot "), "{log}");
    assert!(standby.pid().is_ok());
    arena.cluster.start_api_server().await.unwrap();
    await_leader(&standby, LIMIT).await;
    arena.register("later").await;
    await_untainted(arena.client(), "later").await;
    assert!(standby.terminate().await.unwrap().success());
}

#[tokio::test]
async fn an_api_server_that_is_away_for_less_than_the_renew_deadline_ends_no_leadership() {
    let arena = Arena::new().await;
    let [first, _] = arena.users();
    let patient = [
        "--leader-elect-lease-duration=150s",
        "--leader-elect-renew-deadline=120s",
        "--leader-elect-retry-period=500ms",
    ];
    let mut leader = arena.host(&first, &patient);
    await_leader(&leader, LIMIT).await;
    let before = alerts::scrape(&leader).await.unwrap();
    arena.cluster.stop_api_server().await.unwrap();
    leader.await_count("ccm_leader_election_renew_failures_total", &[], LIMIT, |n| n >= 3.0).await.unwrap();
    alerts::fires("WasmCCMLeaseRenewalsFail", &[[before], [alerts::scrape(&leader).await.unwrap()]]).await.unwrap();
    arena.cluster.start_api_server().await.unwrap();
    leader.await_log(LIMIT, &["leader election goes on"]).await.unwrap();
    arena.register("later").await;
    await_untainted(arena.client(), "later").await;
    assert!(leader.terminate().await.unwrap().success());
    assert_eq!(lease(arena.client()).await.lease_transitions, Some(0));
}

/// It could do nothing, and would keep others from doing it.
#[tokio::test]
async fn a_host_whose_provider_is_refused_does_not_become_the_leader() {
    let arena = Arena::new().await;
    let [first, second] = arena.users();
    let name = "--cloud-provider=another";
    let broken = arena.host_with(&first, &component("providers/cloudlycke.wasm").unwrap(), &[DEFAULT[0], name]);
    broken.await_log(LIMIT, &["provider not taken"]).await.unwrap();
    let good = arena.host(&second, &DEFAULT);
    await_leader(&good, LIMIT).await;
    assert!(!leads(&broken).await);
    assert_eq!(arena.cluster.writes().unwrap().iter().filter(|write| write.user == first).count(), 0);
}

/// Another manager, or somebody with kubectl.
#[tokio::test]
async fn case_261_a_lease_that_somebody_else_takes_ends_the_process_with_code_1() {
    let arena = Arena::new().await;
    let [first, _] = arena.users();
    let mut leader = arena.host(&first, &DEFAULT);
    await_leader(&leader, LIMIT).await;
    let taken = json!({ "spec": { "holderIdentity": "somebody-else" } });
    let leases: Api<Lease> = Api::namespaced(arena.client().clone(), "kube-system");
    leases.patch("cloud-controller-manager", &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    let ended = leader.wait(LIMIT).await.unwrap();
    assert_eq!(ended.code(), Some(1), "{}", leader.log_text());
    leader.await_log(LIMIT, &["error: leadership lost: ", "held by somebody-else"]).await.unwrap();
    assert_eq!(lease(arena.client()).await.holder_identity.as_deref(), Some("somebody-else"), "it is not taken back");
}
