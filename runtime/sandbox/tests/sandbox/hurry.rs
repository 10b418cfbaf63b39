//! The first component is compiled in a hurry, and well when there is time.

use ccm_cloud::{Finding, Instances as _, Need, Node};
use ccm_egress::ProviderContext;
use ccm_sandbox::{Limits, LoadError, Provider, Sandbox};

use crate::rig::{CLOUDLYCKE, HOSTILE, component, map, node};

async fn hurried(sandbox: &Sandbox) -> Provider {
    let component = sandbox.load_in_a_hurry(component(CLOUDLYCKE), Limits::default(), false).await.unwrap();
    component.into_provider(ProviderContext::closed(), None, None)
}

async fn provider_id(provider: &Provider) -> String {
    let capacity = map(&[("cpu", "4"), ("memory", "16Gi")]);
    match provider.find(vec![Node { capacity, ..node("a") }], Need::Metadata).await.unwrap().remove(0) {
        Finding::Found(instance) => instance.provider_id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_provider_works_at_once_and_later_with_better_code() {
    let sandbox = Sandbox::try_new().unwrap();
    let provider = hurried(&sandbox).await;
    assert!(provider.is_unoptimised());
    let before = provider_id(&provider).await;
    sandbox.optimise(&provider, component(CLOUDLYCKE), false).await.unwrap();
    assert!(!provider.is_unoptimised());
    assert_eq!(provider_id(&provider).await, before);
}

/// The wait was a part of the takeover: that took 370 ms while the last good component was compiled well in the background.
#[tokio::test]
async fn the_time_of_the_compiler_includes_the_wait_while_it_compiles_another_component() {
    let sandbox = Sandbox::try_new().unwrap();
    let [well, quickly] = [(); 2].map(|()| component(CLOUDLYCKE));
    let first = sandbox.load(well, Limits::default(), false);
    let second = sandbox.load_in_a_hurry(quickly, Limits::default(), false);
    let (first, second) = tokio::join!(first, second);
    let [first, second] = [first, second].map(|loaded| loaded.unwrap().compiling());
    assert!(second >= first, "{second:?} after {first:?}");
}

#[tokio::test]
async fn a_provider_never_runs_the_code_of_another() {
    let sandbox = Sandbox::try_new().unwrap();
    let provider = hurried(&sandbox).await;
    let error = sandbox.optimise(&provider, component(HOSTILE), false).await.unwrap_err();
    assert!(matches!(error, LoadError::Another), "{error}");
    assert!(provider.is_unoptimised());
    provider_id(&provider).await;
}

#[tokio::test]
async fn what_is_refused_is_refused_in_a_hurry_too() {
    let sandbox = Sandbox::try_new().unwrap();
    let limits = Limits { functions: 10, ..Limits::default() };
    let error = sandbox.load_in_a_hurry(component(CLOUDLYCKE), limits, false).await.err().unwrap();
    assert!(matches!(error, LoadError::TooComplex { .. }), "{error}");
}
