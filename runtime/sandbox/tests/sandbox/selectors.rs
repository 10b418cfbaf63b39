//! Nodes that a guest chooses by their labels: the host knows which, and when to ask again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{LoadBalancers as _, NodeSelector, Service};
use ccm_egress::{Cache, ProviderContext};
use ccm_sandbox::{Limits, Sandbox};
use serde_json::{Value, json};

use crate::rig::{HOSTILE, SCRIPTED, backends, component, map, service};

/// Each selector matches a Node that is called like it.
struct Namesake;

impl NodeSelector for Namesake {
    fn matching(&self, selector: &str) -> Result<Vec<String>, String> {
        if selector == "=" { Err("no selector".to_owned()) } else { Ok(vec![format!("node {selector}")]) }
    }

    fn provider_ids(&self, _: &[String], _: usize) -> Result<Vec<String>, String> {
        Ok(vec![])
    }
}

/// A Service whose functions ask about these selectors.
fn asking(functions: &[&str], selectors: impl IntoIterator<Item = impl Into<String>>) -> Service {
    let steps: Vec<Value> = selectors.into_iter().map(|selector| json!({ "matching": selector.into() })).collect();
    let plans: BTreeMap<_, _> = functions.iter().map(|function| (*function, json!({ "steps": steps }))).collect();
    Service { annotations: map(&[("scripted.example/script", &json!(plans).to_string())]), ..service("web") }
}

#[tokio::test]
async fn an_outcome_has_the_selectors_that_were_asked_about_and_what_they_matched() {
    let component = Sandbox::try_new().unwrap().load(component(SCRIPTED), Limits::default(), true).await.unwrap();
    let context = ProviderContext {
        cache: Cache::new(Cache::DEFAULT_BYTES),
        nodes: Some(Arc::new(Namesake)),
        ..ProviderContext::closed()
    };
    let provider = component.into_provider(context, None, None);
    let both = ["ensure", "update-backends"];
    let all = provider.ensure(asking(&both, ["", "="]), backends(&[])).await;
    assert_eq!((all.selected, provider.selects_nodes()), (BTreeMap::new(), false), "labels do not matter to these");

    let service = asking(&both, ["pool=web", "", "pool=db", "pool=web"]);
    let wanted: BTreeMap<_, _> =
        ["pool=db", "pool=web"].map(|selector| (selector.to_owned(), vec![format!("node {selector}")])).into();
    assert_eq!(provider.ensure(service.clone(), backends(&[])).await.selected, wanted);
    assert_eq!(provider.update_backends(service, backends(&[])).await.selected, wanted);
    assert!(provider.selects_nodes());

    // Each is looked after from then on.
    let many = |count: usize| asking(&both, (0..count).map(|pool| format!("pool={pool}")));
    for (count, kept, refused) in [(16, 16, 0), (17, 16, 1)] {
        let outcome = provider.ensure(many(count), backends(&[])).await;
        let told = outcome.changes.iter().filter(|told| told.contains("a call has more than 16 label selectors"));
        assert_eq!((outcome.selected.len(), told.count()), (kept, refused), "{count}: {:?}", outcome.changes);
    }
    assert_eq!(provider.get(asking(&["get"], (0..40).map(|pool| format!("pool={pool}")))).await, Ok(None));
}

/// The host would look after all of them, and copy any of them.
#[tokio::test]
async fn however_many_and_however_long_selectors_are_a_call_keeps_few_and_others_go_on() {
    let component = Sandbox::try_new().unwrap().load(component(HOSTILE), Limits::default(), true).await.unwrap();
    let context = ProviderContext {
        cache: Cache::new(Cache::DEFAULT_BYTES),
        nodes: Some(Arc::new(Namesake)),
        ..ProviderContext::closed()
    };
    let provider = component.into_provider(context, None, None);
    for (name, kept, told) in [
        ("many-selectors", 16, "more than 16 label selectors; one with in (…)"),
        ("huge-selector", 0, "(limit host-call-bytes)"),
    ] {
        let outcome = provider.ensure(service(name), backends(&[])).await;
        let message = outcome.failure.map(|failure| failure.message).unwrap_or_default();
        assert!(outcome.selected.len() == kept && message.contains(told), "{name}: {message}");
        // All Nodes are no choice of any.
        let after = provider.ensure(service("any-selector"), backends(&[])).await;
        assert_eq!((after.failure, after.selected.len()), (None, 2), "after {name}");
    }
}
