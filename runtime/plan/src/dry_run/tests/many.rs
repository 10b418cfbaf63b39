//! A cluster with 10,000 Services, each with a write.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::provider::{Fake, asked_of};
use super::*;
use crate::planner::{Target, plan};
use crate::report::ObjectPlan;

const SERVICES: usize = 10_000;
/// Most Services that one list of ours may ask for at once: whoever may write Services may make each of them as large as the API server takes
/// any object.
const PAGE: usize = 20;

/// A Service that its owner gives up, of a provider that is not configured: its finalizer is to be removed.
fn given_up(number: usize) -> Value {
    let uid = "1";
    // The digest of this UID.
    let record = "v2 provider=gone service=391552c099c101b131feaf24c5795a6a";
    let metadata = json!({
        "namespace": "default", "name": format!("s{number:05}"), "uid": uid, "resourceVersion": "7",
        "finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "annotations": { "wasm-ccm.io/orphan": "gone" },
    });
    let condition = json!({
        "type": "LoadBalancerRecorded", "status": "Unknown", "reason": "NotCertain", "message": record,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    json!({ "metadata": metadata, "spec": { "type": "LoadBalancer" }, "status": { "conditions": [condition] } })
}

/// What it was asked: how often for each path, without numbers.
type Lists = Arc<Mutex<BTreeMap<&'static str, usize>>>;

fn large() -> (Client, Lists) {
    let asked: Lists = Arc::default();
    let told = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let told = Arc::clone(&told);
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=") {
                return std::future::pending().await;
            }
            let parameter = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            let path = request.uri().path();
            let number = path.strip_prefix("/api/v1/namespaces/default/services/s").and_then(|rest| rest.parse().ok());
            let answer = if let Some(number) = number {
                *told.lock().entry("one").or_default() += 1;
                given_up(number)
            } else if path == "/api/v1/services" {
                *told.lock().entry("list").or_default() += 1;
                // A list without a limit has all in one answer.
                let limit = parameter("limit").map_or(SERVICES, |limit| limit.parse().unwrap());
                assert!(limit <= PAGE, "{query}");
                let from: usize = parameter("continue").map_or(0, |from| from.parse().unwrap());
                let until = SERVICES.min(from + limit);
                let rest = (until < SERVICES).then(|| until.to_string());
                let items: Vec<Value> = (from..until).map(given_up).collect();
                json!({ "metadata": { "resourceVersion": "7", "continue": rest }, "items": items })
            } else {
                json!({ "metadata": { "resourceVersion": "7" }, "items": [] })
            };
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    (sealed(&Client::new(service, "default")), asked)
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_ten_thousand_services_ends_has_all_of_them_and_reads_its_lists_in_pages() {
    let (client, asked) = large();
    let DryRunParts { client, journal, nodes, services, addresses, controllers, settings, .. } =
        bench(client, vec![]).await.parts;
    let client = read_only(&client, Arc::clone(&journal));
    let parts = PlanParts { client, journal, providers: vec![], nodes, services, addresses, controllers, settings };
    let (mut text, mut objects) = (String::new(), 0);
    let mut found = |object: ObjectPlan| {
        objects += 1;
        let asked = asked.lock()["one"];
        assert!(asked <= 3 * objects, "{asked} requests for {objects} Services: they are gathered first");
        text += &format!("{object}\n");
        Ok(())
    };
    let totals = plan(parts, Target::All, &mut found).await.unwrap();
    assert_eq!((totals.looked_at, objects, totals.has_unknown()), (SERVICES, SERVICES, false));
    let asked = asked.lock().clone();
    assert!((SERVICES / PAGE..=2 * SERVICES / PAGE).contains(&asked["list"]), "{asked:?}");
    assert!((SERVICES..=3 * SERVICES).contains(&asked["one"]), "{asked:?}");
    assert!(totals.to_string().contains(&format!("to the cluster: {SERVICES}, ")), "{totals}");
    // What is said of one does not grow with the others.
    assert!(text.len() < 1_000 * SERVICES, "{} bytes", text.len());
}

/// `plan --all | head` once had the cloud asked about all of them, for nobody.
#[tokio::test(start_paused = true)]
async fn a_plan_that_nobody_takes_any_more_asks_nothing_more() {
    let (client, asked) = large();
    let DryRunParts { client, journal, nodes, services, addresses, controllers, settings, .. } =
        bench(client, vec![]).await.parts;
    let client = read_only(&client, Arc::clone(&journal));
    let red = Arc::new(Fake::new("red", &journal));
    let providers = vec![asked_of(&red, &Looking::default())];
    let parts = PlanParts { client, journal, providers, nodes, services, addresses, controllers, settings };
    let mut objects = 0;
    let mut found = |_: ObjectPlan| {
        objects += 1;
        anyhow::bail!("nobody reads it")
    };
    let error = plan(parts, Target::All, &mut found).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), objects), ("nobody reads it", 1));
    assert!(asked.lock()["one"] <= 3, "{asked:?}");
    assert_eq!(red.reconciled.load(Ordering::Relaxed), 0, "the cluster comes last");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_ten_thousand_services_shows_the_first_and_counts_all() {
    let (client, _) = large();
    let Bench { parts, registry, _readers } = bench(client, vec![]).await;
    let pending = parts.pending.clone();
    assert!(tokio::time::timeout(SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let first = pending.first(50);
    assert_eq!((first.list.writes.len(), first.writes, first.changes), (50, SERVICES, SERVICES));
    assert_eq!(pending.list().writes.len(), SERVICES);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = format!("ccm_dry_run_pending_writes{{kind=\"Service\",to=\"cluster\"}} {SERVICES}\n");
    assert!(text.contains(&line), "{text}");
}
