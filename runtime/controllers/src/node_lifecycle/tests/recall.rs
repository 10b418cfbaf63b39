//! What is done while it is not known what the last leader deleted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::controller::{EVENTS, NAMESPACE, NOTES, SHARED, absent, run};
use super::{OLD, lost};
use crate::node_lifecycle::{NodeLifecycleSettings, QUEUE};
use crate::testing::{FakeApi, FakeCloud, found, node};

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

/// The page of a proxy passed for the API server's word that nothing stands there, and the budget began anew.
#[tokio::test(start_paused = true)]
async fn what_something_in_between_says_tells_nothing_of_what_was_deleted() {
    let (minute, notes) = (Duration::from_secs(60), format!("GET {NOTES}"));
    for (status, text) in [(403, "<html>Forbidden</html>"), (400, r#"{ "error": "no" }"#), (401, "Unauthorized")] {
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
