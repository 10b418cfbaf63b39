//! Load balancers that are compared with the cloud: what counts as a comparison.

use std::time::Duration;

use ccm_e2e::balancer_cloud::{Act, Fault, Kind, Requests, When};
use serde_json::json;

use crate::service_look::{annotated, await_reason, await_served, balancing, change, cloud, serve, two_nodes};
use crate::stage::{LIMIT, Stage};

const VERIFIED: &str = "ccm_load_balancer_verification_timestamp_seconds";
const OPERATIONS: &str = "ccm_load_balancer_operations_total";
const IDLE: &str = "balancer.example/idle-seconds";

/// Whoever alerts on the time of the last comparison learns that there was none.
#[tokio::test]
async fn a_survey_that_fails_or_learns_nothing_is_no_comparison() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let first = balancing(&stage, &cloud, &[]);
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;
    first.end().await;
    let surveyed = |outcome: &'static str| ["operation=\"survey\"".to_owned(), format!("outcome=\"{outcome}\"")];
    for (case, outcome, is_compared) in
        [("the listing fails", "retry", false), ("nothing is known", "ok", false), ("all is known", "ok", true)]
    {
        // The first is the online check of the provider, the second the gate's look at what the records name. Where the check came before
        // the Nodes were known, it is made again and again until it is answered.
        let failing = if case == "the listing fails" { 2..40 } else { 0..0 };
        let of = Requests::Of(Kind::List);
        let plan = |nth: usize| cloud.plan(Fault { of, nth, when: When::Before, act: Act::Answer(500) });
        let planned: Vec<_> = failing.map(plan).collect();
        let is_wrong = case == "nothing is known";
        change(client, "web", &annotated([(IDLE, if is_wrong { "soon" } else { "60" })])).await;
        // One that is not done in time goes on beside the work, and is another thing.
        let host = balancing(&stage, &cloud, &["--v=4", "--service-survey-timeout=60s"]);
        host.ready().await;
        let labels = surveyed(outcome);
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        host.await_count(OPERATIONS, &labels, LIMIT, |count| count == 1.0).await.unwrap();
        host.await_log(LIMIT, &["load balancers surveyed"]).await.unwrap();
        if is_wrong {
            await_reason(client, "web", "InvalidService").await;
        } else {
            await_served(client, "web").await;
        }
        // The gate's look and the survey.
        assert!(planned.iter().take(2).all(|planned| planned.is_reached()), "{case}");
        cloud.call_off();
        assert_eq!(host.metric(VERIFIED).await.unwrap() > 0.0, is_compared, "{case}");
        host.end().await;
    }
}
