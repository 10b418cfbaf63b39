//! A cluster whose routes are in place, and whose Nodes a network plugin told so in its own words.

use ccm_controllers::{PodRanges, RouteSettings};

use super::provider::{Fake, asked_of, asks, cluster};
use super::reads::counting;
use super::*;
use crate::planner::{Target, plan};
use crate::report::ObjectPlan;

const NODES: usize = 300;

fn name(number: usize) -> String {
    format!("n{number:03}")
}

fn cidr(number: usize) -> String {
    format!("10.{}.{}.0/24", number / 256, number % 256)
}

/// A Node of which a network plugin says that its network works.
fn of_a_plugin(number: usize) -> Value {
    let conditions = json!([
        { "type": "Ready", "status": "True" },
        { "type": "NetworkUnavailable", "status": "False", "reason": "CalicoIsUp" },
    ]);
    json!({
        "metadata": { "name": name(number), "uid": name(number), "resourceVersion": "7" },
        "spec": { "providerID": format!("red://{}", name(number)), "podCIDR": cidr(number), "podCIDRs": [cidr(number)] },
        "status": { "conditions": conditions },
    })
}

/// A dry run of routes alone, what it asks for, and the provider that keeps them.
async fn routed() -> (Bench, Asked, Arc<Fake>) {
    let (client, asked) = counting(cluster((0..NODES).map(of_a_plugin).collect(), vec![]));
    let mut bench = bench(client, vec![]).await;
    let parts = &mut bench.parts;
    let routes = (0..NODES).map(|number| (cidr(number), name(number))).collect();
    let red = Arc::new(Fake { routes, ..Fake::new("red", &parts.journal) });
    asks(parts, &[&red]);
    parts.controllers = Controllers { node: false, node_lifecycle: false, service: false, cluster: false };
    let ranges = PodRanges::parse(&["10.0.0.0/8".to_owned()]).unwrap();
    parts.settings.route = Some((RouteSettings::default(), ranges));
    (bench, asked, red)
}

/// Each look once read every such Node and held all of them: 90 MB of 5,000 Nodes, every five minutes.
#[tokio::test(start_paused = true)]
async fn nodes_that_would_be_told_of_their_network_are_not_read_again_at_each_look() {
    let (Bench { parts, registry, _readers }, asked, _) = routed().await;
    let pending = parts.pending.clone();
    assert!(tokio::time::timeout(3_600 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let looks = looks(&registry);
    assert!(looks >= 12, "{looks} looks");
    let page = pending.first(1);
    assert_eq!((page.writes, page.changes, page.unknown), (NODES, NODES, 0), "{page:?}");
    let asked = asked.lock();
    assert_eq!(asked.len(), 0, "{looks} looks: {:?}", asked.first());
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_each_node_would_be_told_of_its_network_and_reads_and_holds_none_of_them() {
    let (bench, asked, red) = routed().await;
    let DryRunParts { client, journal, nodes, services, addresses, controllers, settings, .. } = bench.parts;
    let (client, held) = (read_only(&client, Arc::clone(&journal)), Arc::clone(&journal));
    let providers = vec![asked_of(&red, &Looking::default())];
    let parts = PlanParts { client, journal, providers, nodes, services, addresses, controllers, settings };
    let mut text = String::new();
    let mut found = |object: ObjectPlan| {
        text += &object.to_string();
        Ok(())
    };
    let totals = plan(parts, Target::All, &mut found).await.unwrap();
    assert!(totals.has_changes() && !totals.has_unknown(), "{totals}");
    assert!(totals.to_string().contains(&format!("to the cluster: {NODES}, ")), "{totals}");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("Routes red"));
    for (place, line) in lines.by_ref().take(NODES).enumerate() {
        let wanted = format!("  {}. cluster PATCH /api/v1/nodes/{}/status {{", place + 1, name(place));
        let is_said = line.contains(r#""reason":"RouteCreated","status":"False","type":"NetworkUnavailable""#);
        assert!(line.starts_with(&wanted) && is_said, "{wanted}: {line}");
    }
    assert_eq!(lines.next(), None);
    assert_eq!((asked.lock().len(), held.written.bytes()), (0, 0));
}
