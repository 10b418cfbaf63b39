//! A keeper with real components, a file as its source, and a state folder.

mod configuration;
mod exchange;
#[path = "../../../../tests/successor/fill.rs"]
mod fill;
mod kept;
mod peers;
mod replay;
mod sources;
mod unwritten;
mod variables;

use std::path::Path;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings};
use ccm_cloud::{Alone, Capability, EventSink, Instances as _, Need, Node, Severity, Subject};
use ccm_controllers::Metrics;
use ccm_sandbox::{CallEnd, CallObserver};
use futures::StreamExt as _;
use futures::future::join_all;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;

use super::*;
use crate::config::ProviderRecord;
use crate::context::{ProcessSecrets, SharedContext, Variables};
use crate::ledger::peers::tests::{Server, Shared, client, settings};
use crate::pipeline::Listeners;
use crate::preflight;
use crate::slot::Refusals;
use crate::state_folder::ProbationFiles;
use crate::status::ProviderStatuses;

/// Hears nothing.
struct Silent;

impl EventSink for Silent {
    fn emit(&self, _: Subject, _: Severity, _: String, _: String) {}
}

impl CallObserver for Silent {
    fn call_ended(&self, _: &str, _: CallEnd) {}
}

fn version(version: &str) -> Vec<u8> {
    let path = ccm_built::component("guests/successor.wasm").unwrap();
    fill::fill(std::fs::read(path).unwrap(), &[("version", version)]).unwrap()
}

/// Without election; of components that are proven with their first good answer.
async fn keeper(source: &Path, state: &Path, server: Option<&Shared>) -> Keeper {
    let peers = server.map(|server| (server, settings(None)));
    keeper_among(source, state, peers).await
}

/// The same among these replicas.
async fn keeper_among(source: &Path, state: &Path, peers: Option<(&Shared, PeerSettings)>) -> Keeper {
    let record = ProviderRecord { source: source.display().to_string(), ..ProviderRecord::default() };
    keeper_of(record, state, peers).await
}

/// The same of this provider.
async fn keeper_of(record: ProviderRecord, state: &Path, peers: Option<(&Shared, PeerSettings)>) -> Keeper {
    keepers_of(vec![record], state, peers, Box::new(|_| None)).await.remove(0)
}

/// Those of one process. `depends` as in [`Surroundings`].
async fn keepers_of(
    records: Vec<ProviderRecord>,
    state: &Path,
    peers: Option<(&Shared, PeerSettings)>,
    depends: Box<dyn Fn(Capability) -> Option<String> + Send + Sync>,
) -> Vec<Keeper> {
    let server = peers.as_ref().map(|(server, _)| *server);
    let configs: Vec<_> = records.into_iter().map(|record| record.check().unwrap()).collect();
    let away = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
    let client = server.map_or_else(|| Client::new(away, "default"), client);
    let shared = SharedContext {
        client: None,
        leadership: Arc::new(Alone),
        exchanges: None,
        nodes: None,
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: vec![],
        trace_http: false,
        offline: false,
        secrets: ProcessSecrets::default(),
    };
    let listeners = Listeners {
        events: Arc::new(Silent),
        observer: Arc::new(Silent),
        readiness: Arc::new(|_: &str, _| {}),
        statuses: ProviderStatuses::default(),
    };
    let metrics = Metrics::register(&mut Registry::default());
    let gate = ApiGate::new(client.clone(), metrics.api.clone(), ApiGateSettings::default());
    let (recorder, writer) = EventRecorder::new(gate, metrics.events.clone(), EventSettings::default());
    if server.is_some() {
        #[expect(
            clippy::disallowed_methods,
            reason = "what it writes is read by the test; it ends with the test's runtime"
        )]
        tokio::spawn(writer.run(CancellationToken::new()));
    }
    let sandbox = preflight::sandbox(&configs[0]).unwrap();
    let mut surroundings =
        Surroundings::new(sandbox, client, shared, listeners, depends, None, ProbationFiles::default());
    surroundings.variables = Variables::of(&configs);
    let settings = KeeperSettings {
        poll: Duration::from_secs(1),
        settle: Duration::ZERO,
        probation: ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 },
        state_dir: Some(state.to_owned()),
        peers: peers.map(|(_, settings)| settings),
    };
    let metrics = ProviderMetrics::register(&mut Registry::default());
    let pod = server.map(|_| ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("kube-system".to_owned()),
        name: Some("ccm".to_owned()),
        ..ObjectReference::default()
    });
    let (audience, surroundings) =
        (Audience { events: ProviderEvents::new(recorder, pod), metrics }, Arc::new(surroundings));
    let keepers = configs.into_iter().map(|config| {
        let (settings, audience) = (settings.clone(), audience.clone());
        Keeper::new(&surroundings, config, settings, audience)
    });
    join_all(keepers).await
}

/// A keeper without other replicas that serves version 1, which its source holds, and its slot.
async fn serving(source: &Path, state: &Path) -> (Keeper, Slot<Provider>) {
    std::fs::write(source, version("1")).unwrap();
    let mut keeper = keeper(source, state, None).await;
    let slot = keeper.bootstrap().await.unwrap();
    keeper.begun().await;
    (keeper, slot)
}

/// Looks at the source. Returns the note of a probation that the state folder has in the moment of the exchange.
async fn noted_at_the_exchange(keeper: &mut Keeper, slot: &Slot<Provider>, state: &Path) -> String {
    let mut generations = slot.generations();
    generations.mark_unchanged();
    let note = async {
        generations.changed().await.unwrap();
        file(state, "trial")
    };
    let ((), note) = tokio::join!(keeper.look(), note);
    String::from_utf8(note.expect("it served before that was noted")).unwrap()
}

/// The content of the file in the state folder that ends so.
fn file(state: &Path, ending: &str) -> Option<Vec<u8>> {
    let mut files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == ending))?;
    std::fs::read(file).ok()
}

/// Whoever is killed by the first call of a component has noted before who that was; whoever is killed while the component is kept,
/// which takes a while, blames nobody any more.
#[tokio::test]
async fn who_is_on_probation_is_noted_before_it_serves_and_no_longer_when_it_is_proven() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let (mut keeper, slot) = serving(&source, &state).await;
    assert_eq!((file(&state, "trial"), file(&state, "wasm")), (None, Some(version("1"))));

    std::fs::write(&source, version("2")).unwrap();
    let noted = noted_at_the_exchange(&mut keeper, &slot, &state).await;
    let standing = slot.standing();
    assert_eq!((standing.serving().version.as_str(), standing.is_on_probation()), ("2", true));
    assert!(noted.contains(&standing.serving().digest), "{noted}");

    let node = Node { name: "n1".to_owned(), ..Node::default() };
    slot.find(vec![node], Need::Existence).await.unwrap();
    assert!(!slot.standing().is_on_probation() && file(&state, "trial").is_some(), "nobody has told the keeper yet");
    let mut proves = std::pin::pin!(keeper.catch_up());
    while futures::poll!(&mut proves).is_pending() {
        let is_kept = file(&state, "wasm") == Some(version("2"));
        assert!(!is_kept || file(&state, "trial").is_none(), "it is kept, and would be to blame");
        tokio::task::yield_now().await;
    }
    assert_eq!((file(&state, "trial"), file(&state, "wasm")), (None, Some(version("2"))));
}

/// Its note was removed when that was told, and took the note of the next one with it; and the next one took its place though it was compared
/// with the one before.
#[tokio::test]
async fn who_is_proven_in_the_moment_of_the_exchange_is_kept_and_the_next_one_is_compared_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let (mut keeper, slot) = serving(&source, &state).await;
    std::fs::write(&source, version("2")).unwrap();
    keeper.look().await;

    std::fs::write(&source, version("3")).unwrap();
    let note = file(&state, "trial");
    {
        let mut look = std::pin::pin!(keeper.look());
        // Half of its note is written, or all of it where this thread had to wait for its turn.
        while file(&state, "new").is_none() && file(&state, "trial") == note {
            assert!(futures::poll!(&mut look).is_pending(), "it served before that was noted");
            tokio::task::yield_now().await;
        }
        let node = Node { name: "n1".to_owned(), ..Node::default() };
        slot.find(vec![node], Need::Existence).await.unwrap();
        assert_eq!((slot.standing().proven.version.as_str(), slot.standing().is_on_probation()), ("2", false));
        look.await;
    }
    assert_eq!((slot.standing().serving().version.as_str(), slot.standing().is_on_probation()), ("2", false));
    assert_eq!((file(&state, "trial"), file(&state, "wasm")), (None, Some(version("2"))));
    assert!(keeper.retry.due.is_some(), "nobody looks at what the source holds");

    let noted = noted_at_the_exchange(&mut keeper, &slot, &state).await;
    let standing = slot.standing();
    assert_eq!((standing.serving().version.as_str(), standing.proven.version.as_str()), ("3", "2"));
    assert!(noted.contains(&standing.serving().digest), "{noted}");
}

/// A component in the gate waited for as long as the API server did not say what other replicas knew.
#[tokio::test(start_paused = true)]
async fn the_gate_goes_on_while_peers_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let server = Server::new(Some([].into()));
    let mut keeper = keeper(&source, &state, Some(&server)).await;
    server.lock().is_silent = true;
    let share = keeper.share.as_mut().unwrap();
    let shown = futures::stream::once(std::future::ready(Ok(()))).chain(futures::stream::pending());
    share.changes = Changes::ConfigMap { events: Box::pin(shown), shown: String::new(), told: None };
    let begun = Instant::now();
    let gate = async move {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        begun.elapsed()
    };
    let ended = keeper.meanwhile(gate).await;
    assert_eq!(ended, Duration::from_secs(8), "it waited for the answer, which is given up on after 5 s");
    assert_eq!((begun.elapsed(), server.lock().reads), (ended, 1), "nobody waits for more");
}

/// It fell back on what the source held, which has no probation as the first one.
#[tokio::test]
async fn a_last_good_component_waits_until_the_others_answer_and_no_untried_one_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let _before = serving(&source, &state).await;
    std::fs::write(&source, version("2")).unwrap();
    for failing in [0..1, 1..2] {
        let server = Server::new(Some([].into()));
        server.lock().failing_reads = failing.clone();
        let mut keeper = keeper(&source, &state, Some(&server)).await;
        let slot = keeper.bootstrap().await.unwrap();
        assert_eq!(slot.standing().serving().version, "1", "{failing:?}");
    }
}

/// The page said that the component before served, and nothing of the one that had failed; or that this one served, and was refused.
#[tokio::test]
async fn the_page_never_says_of_two_moments_who_serves_and_who_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let (mut keeper, slot) = serving(&source, &state).await;
    let statuses = keeper.surroundings.listeners.statuses.clone();
    let says = || {
        let page: serde_json::Value = serde_json::from_str(&statuses.json()).unwrap();
        let page = &page[source.display().to_string()];
        let step = page["refused"]["step"].as_str().map(ToOwned::to_owned);
        (page["serving"]["version"].as_str().unwrap().to_owned(), page["generation"].as_u64().unwrap(), step)
    };
    let serves = |version: &str, generation, refused: Option<&str>| {
        (version.to_owned(), generation, refused.map(ToOwned::to_owned))
    };
    // Looks, and gives all that the page says meanwhile.
    let look = async |keeper: &mut Keeper| {
        let mut said = vec![says()];
        let mut looks = std::pin::pin!(keeper.look());
        while futures::poll!(&mut looks).is_pending() {
            said.push(says());
            tokio::task::yield_now().await;
        }
        said.push(says());
        said.dedup();
        said
    };
    std::fs::write(&source, b"no component").unwrap();
    assert_eq!(look(&mut keeper).await, [serves("1", 1, None), serves("1", 1, Some("parse"))]);
    std::fs::write(&source, version("2")).unwrap();
    assert_eq!(look(&mut keeper).await, [serves("1", 1, Some("parse")), serves("2", 2, None)]);
    std::fs::write(&source, b"no component").unwrap();
    look(&mut keeper).await;
    std::fs::write(&source, version("1")).unwrap();
    assert_eq!(look(&mut keeper).await, [serves("2", 2, Some("parse")), serves("1", 3, None)]);
    std::fs::write(&source, version("2")).unwrap();
    look(&mut keeper).await;
    slot.peer_refused(Refusals::default().refuse(&slot.standing().serving().digest, "it lied".to_owned()));
    assert_eq!((slot.standing().generation, says()), (5, serves("2", 4, None)), "nobody has told the keeper yet");
    keeper.catch_up().await;
    assert_eq!(says(), serves("1", 5, Some("probation")));
}

/// It went on with slow code for as long as it served.
#[tokio::test(start_paused = true)]
async fn a_first_component_that_found_no_memory_is_compiled_again_when_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, slot) = serving(&folder.path().join("p.wasm"), &folder.path().join("state")).await;
    let calls = keeper.surroundings.sandbox.memory().share("");
    let mut taken = vec![];
    for bytes in [64 << 20, 1 << 20, 1 << 10] {
        taken.extend(std::iter::from_fn(|| calls.try_begin(bytes)));
    }
    let log = ccm_fake_api::Log::start();
    let mut optimises = Box::pin(keeper.optimise.take().unwrap().run(slot.clone()));
    // It begins after half a minute, and what is compiled waits for a minute until it can say what it is.
    tokio::select! {
        () = &mut optimises => panic!("it ended without memory"),
        () = tokio::time::sleep(Duration::from_secs(100)) => {}
    }
    assert_eq!(log.lines("provider not compiled with all optimisations").len(), 1);
    assert!(slot.component().is_unoptimised());
    drop(taken);
    optimises.await;
    assert!(!slot.component().is_unoptimised());
}
