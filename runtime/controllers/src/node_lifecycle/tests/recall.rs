//! What is done while it is not known what the last leader deleted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::controller::{EVENTS, NAMESPACE, NOTES, SHARED, absent, run, run_beside};
use super::{OLD, lost};
use crate::explain::{LifecycleExplanation, Next};
use crate::node_lifecycle::{NodeLifecycleSettings, NodeLifecycleView, QUEUE};
use crate::testing::{FakeApi, FakeCloud, Log, found, node};

/// Each Node ran once a second, and with each run of one of them the Events were listed. The Ready ones waited as well.
#[tokio::test(start_paused = true)]
async fn until_it_is_known_nodes_cost_nothing_and_then_they_are_looked_at_at_once() {
    const EACH: usize = 100;
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::default()));
    for number in 0..EACH {
        let ready = node(&format!("ready{number}")).aged(OLD).ready("True").provider_id("fake://1");
        // Its machine runs again.
        let ready = if number == 0 { ready.taint("node.cloudprovider.kubernetes.io/shutdown") } else { ready };
        api.add(ready.0);
        let name = format!("lost{number}");
        cloud.answer(&name, [found(|_| ())]);
        api.add(lost(&name).0);
    }
    // At 0, 1, 3, 7, 15, 30 s, and so on; the 21st time, after 255 s, there is an answer.
    api.refuse(EVENTS, 503, 20);
    let metrics = run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(257)).await;
    assert_eq!(api.count(EVENTS), 21);
    let sizes: Vec<usize> = cloud.calls().iter().map(Vec::len).collect();
    assert_eq!(sizes, [EACH]);
    let runs = metrics.queue.of(QUEUE).adds.get();
    assert!(runs <= 4 * 100, "{runs} runs of 200 Nodes");
    let lines = api.lines();
    let untainted = lines.iter().position(|line| line == "PATCH /api/v1/nodes/ready0");
    let second = lines.iter().enumerate().filter(|(_, line)| *line == EVENTS).nth(1).map(|(place, _)| place);
    assert!(untainted.is_some() && untainted < second, "{untainted:?} {second:?}");
}

/// It was said to wait for a change of its own, which did not help.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_says_for_what_and_the_log_says_when_it_waits_no_longer() {
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::default()));
    cloud.answer("lost", [found(|_| ())]);
    api.add(lost("lost").0);
    api.add(node("ready").aged(OLD).ready("True").provider_id("fake://1").0);
    // At 0, 1, 3 and 7 s; at 15 s there is an answer.
    api.refuse(EVENTS, 503, 4);
    let log = Log::start();
    let looks = |view: NodeLifecycleView| async move {
        let mut told = vec![];
        for seconds in [5, 12] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            told.push([view.explain("lost").await.unwrap(), view.explain("ready").await.unwrap()]);
        }
        told
    };
    let (settings, time) = (NodeLifecycleSettings::default(), Duration::from_secs(18));
    let (_, told) = run_beside(&api, &cloud, settings, time, vec![], |_, view| looks(view)).await;
    let [[waits, ready], [known, _]]: [[LifecycleExplanation; 2]; 2] = told.try_into().unwrap();
    assert!(waits.failure.is_some_and(|why| why.contains("what was deleted before the start")));
    assert!(matches!(waits.next, Next::In(seconds) if (1.5..2.5).contains(&seconds)), "{:?}", waits.next);
    assert_eq!((waits.state.as_str(), ready.failure, ready.next), ("not-ready", None, Next::OnChange));
    assert_eq!((known.answer.as_deref(), known.failure), (Some("running"), None));
    assert_eq!(log.lines("not known what was deleted before the start").len(), 1);
    assert_eq!(log.lines("wait no longer for what was deleted before the start").len(), 1);
}

/// The page of a proxy passed for the API server's word that nothing stands there, and the budget began anew.
#[tokio::test(start_paused = true)]
async fn what_something_in_between_says_tells_nothing_of_what_was_deleted() {
    let (minute, notes) = (Duration::from_secs(60), format!("GET {NOTES}"));
    let texts = [(403, "<html>Forbidden</html>"), (400, r#"{ "error": "no" }"#), (401, "Unauthorized"), (200, "{}")];
    for (status, text) in texts {
        for asked in [&*notes, EVENTS] {
            let (api, cloud) = absent(12);
            run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
            assert_eq!(api.count("DELETE"), 3);
            // The other place knows nothing.
            api.with(|state| match asked {
                EVENTS => state.config_map_data(NAMESPACE, SHARED).clear(),
                _ => state.edit_events(&json!({ "reportingController": "somebody" })),
            });
            api.interfere(asked, status, text, 6);
            run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
            assert_eq!(api.count("DELETE"), 3, "{asked}: {status} {text}");
        }
    }
}
