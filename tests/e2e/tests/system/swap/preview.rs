//! `wasm-ccm check --against`: the preview of an upgrade.

use std::path::Path;

use ccm_e2e::balancer_cloud::BalancerCloud;
use ccm_e2e::host::component as built;
use ccm_e2e::successor::{balancer_that_says, renamed_balancer};
use serde_json::{Value, json};

use super::compare::{another_build, balanced};
use super::routes::{SHORT, routed};
use super::tools::{kubeconfig, run, says};
use super::{SOURCE, component};
use crate::service_look::the;
use crate::stage::Stage;

/// Compares a component with another one, as the administrator.
async fn preview(
    stage: &Stage,
    cloud: &BalancerCloud,
    new: &Path,
    against: &str,
    more: &[&str],
) -> (Option<i32>, String) {
    let mut arguments = vec!["check".to_owned(), new.display().to_string(), format!("--against={against}")];
    arguments.extend(cloud.flags());
    arguments.extend([kubeconfig(stage), "--limit=compare-pause=100ms".to_owned()]);
    arguments.extend(more.iter().map(|&flag| flag.to_owned()));
    let told = tokio::task::spawn_blocking(move || run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    told.await.unwrap()
}

#[tokio::test]
async fn a_preview_says_what_a_host_would_find_and_writes_nothing() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage, &[]).await;
    let (writes, served) = (cloud.write_requests(), the(client, "web").await);
    let good = stage.file("good.wasm", another_build());
    let renamed = stage.file("renamed.wasm", renamed_balancer().unwrap());

    let says_good = ["new     balancer", "before  balancer", "2 of 2 Nodes and 1 of 1 Services", "nothing differs"];
    let file = built("guests/balancer.wasm").unwrap().display().to_string();
    for against in [SOURCE, &file] {
        says(&preview(&stage, &cloud, &good, against, &[]).await, 0, &says_good);
    }
    let lost = "differs Service default/web: it finds no load balancer, and the last good one finds it";
    let refused = "renamed.wasm: a host would refuse it (step compare): 1 difference";
    for more in [&[][..], &["--allow-provider-change"]] {
        says(&preview(&stage, &cloud, &renamed, SOURCE, more).await, 1, &[lost, "error: ", refused]);
    }
    let (code, told) = preview(&stage, &cloud, &renamed, SOURCE, &["--output=json"]).await;
    assert_eq!(code, Some(1), "{told}");
    // The error stands behind it.
    let json: Value = serde_json::Deserializer::from_str(&told).into_iter().next().unwrap().unwrap();
    let difference = &json["differences"][0];
    assert_eq!((&json["new"]["name"], &json["services"]), (&json!("balancer"), &json!({ "total": 1, "compared": 1 })));
    assert_eq!((&difference["kind"], &difference["name"]), (&json!("Service"), &json!("default/web")));

    assert_eq!((cloud.write_requests(), the(client, "web").await), (writes, served), "something was written");
    host.end().await;
}

#[tokio::test]
async fn a_preview_says_which_routes_a_component_does_not_find_and_changes_none() {
    let stage = Stage::new().await;
    let (cloud, host) = routed(&stage, &SHORT).await;
    let (table, writes) = (cloud.routes(), cloud.write_requests());
    let good = stage.file("good.wasm", another_build());
    let lost = stage.file("lost.wasm", balancer_that_says("lost").unwrap());
    let kept = "--setting=routes=true";
    let says_good = ["2 of 2 Nodes, 0 of 0 Services and 2 of 2 routes", "nothing differs"];
    says(&preview(&stage, &cloud, &good, SOURCE, &[kept]).await, 0, &says_good);
    let told = preview(&stage, &cloud, &lost, SOURCE, &[kept]).await;
    let differs =
        [1, 2].map(|i| format!(r#"differs Route 10.244.{i}.0/24: it does not find the route to Node "n{i}""#));
    says(&told, 1, &[&differs[0], &differs[1], "lost.wasm: a host would refuse it (step compare): 2 differences"]);
    let (code, told) = preview(&stage, &cloud, &lost, SOURCE, &[kept, "--output=json"]).await;
    let json: Value = serde_json::Deserializer::from_str(&told).into_iter().next().unwrap().unwrap();
    let first =
        json!({ "kind": "Route", "name": "10.244.1.0/24", "what": r#"it does not find the route to Node "n1""# });
    assert_eq!(
        (code, &json["differences"][0], &json["routes"]),
        (Some(1), &first, &json!({ "total": 2, "compared": 2 }))
    );
    // With this configuration neither offers routes.
    let says_nothing = ["2 of 2 Nodes and 0 of 0 Services", "nothing differs"];
    says(&preview(&stage, &cloud, &lost, SOURCE, &[]).await, 0, &says_nothing);
    assert_eq!((cloud.routes(), cloud.write_requests()), (table, writes), "something was written");
    host.end().await;
}

#[tokio::test]
async fn a_preview_says_which_of_the_two_a_host_would_not_even_compare() {
    let stage = Stage::new().await;
    let (cloud, host) = balanced(&stage, &[]).await;
    let good = stage.file("good.wasm", another_build());
    let bad = stage.file("bad.wasm", "garbage");
    let other = stage.file("other.wasm", component(&[("name", "other")]));
    let against = async |new: &Path, against: &str| preview(&stage, &cloud, new, against, &[]).await;
    says(&against(&bad, SOURCE).await, 1, &["bad.wasm: it does not pass the gate (step parse)"]);
    let told = against(&good, &bad.display().to_string()).await;
    says(&told, 1, &["the component of ", "bad.wasm: it does not pass the gate (step parse)"]);
    let says_other = ["other.wasm: it does not pass the gate (step identity)", "\"other\"", "--allow-provider-change"];
    says(&against(&other, SOURCE).await, 1, &says_other);
    says(&against(&good, "configmap:default/none").await, 1, &["configmap:default/none", "does not exist"]);
    says(&against(&good, "configmap:x").await, 1, &["--against: "]);
    host.end().await;
}
