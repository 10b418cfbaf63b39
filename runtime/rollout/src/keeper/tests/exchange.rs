//! What was true when a component was in the gate, and is not when it is put into its slot.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::gate::{self, Rejected, Step};
use crate::pipeline::Taken;

fn filled(component: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    fill::fill(std::fs::read(ccm_built::component(component).unwrap()).unwrap(), fields).unwrap()
}

fn record(source: &Path) -> ProviderRecord {
    ProviderRecord { source: source.display().to_string(), ..ProviderRecord::default() }
}

/// Takes what the source holds through the gate, and no further.
async fn admitted(keeper: &Keeper) -> Result<Taken, Rejected> {
    let before = keeper.slot().unwrap().components().proven;
    let unpacked = gate::unpacked(&keeper.config, keeper.fetch().await.unwrap()).await?;
    let admitted = keeper.surroundings.passes(&keeper.config, unpacked, Some(&before.component), None);
    admitted.await.map_err(|error| error.into_rejected())
}

async fn exchanged(keeper: &mut Keeper, taken: Taken) -> Result<bool, Rejected> {
    let against = keeper.slot().unwrap().components().proven.version.digest.clone();
    keeper.exchange(taken, &against, Duration::ZERO).await
}

/// Both passed the gate, each beside what the other one had then: two providers had one name, and the same Nodes.
#[tokio::test]
async fn of_two_providers_that_take_one_name_at_the_same_time_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sources = ["one", "two"].map(|name| folder.path().join(format!("{name}.wasm")));
    let holds = |place: usize, name: &str, version: &str| {
        let fields = [("name", name), ("scheme", name), ("version", version)];
        std::fs::write(&sources[place], filled("guests/successor.wasm", &fields)).unwrap();
    };
    holds(0, "one", "1");
    holds(1, "two", "1");
    let records = sources.iter().map(|source| ProviderRecord { allow_provider_change: true, ..record(source) });
    let state = folder.path().join("state");
    let mut keepers = keepers_of(records.collect(), &state, None, Box::new(|_| None)).await;
    for keeper in &mut keepers {
        keeper.bootstrap().await.unwrap();
    }
    let [one, two] = keepers.as_mut_slice() else { panic!("two") };
    holds(0, "three", "2");
    holds(1, "three", "3");
    let taken = [admitted(one).await.unwrap(), admitted(two).await.unwrap()];
    let [first, second] = taken;
    assert_eq!(one.audience.metrics.exchanges_of(one.label()).0, 0.0);
    assert!(exchanged(one, first).await.unwrap());
    let (count, seconds) = one.audience.metrics.exchanges_of(one.label());
    assert!(count == 1.0 && seconds > 0.0 && seconds < 1.0, "{count} exchanges took {seconds} s");
    let refused = exchanged(two, second).await.unwrap_err();
    let says = format!("{:#}", refused.error);
    assert!(refused.step == Step::Identity && says.contains("three") && says.contains("one.wasm"), "{says}");
    let names = [&*one, &*two].map(|keeper| keeper.slot().unwrap().component().descriptor().name.clone());
    assert_eq!(two.audience.metrics.exchanges_of(two.label()).0, 0.0, "what is refused is no exchange");
    assert_eq!((names, two.slot().unwrap().standing().is_on_probation()), (["three", "two"].map(str::to_owned), false));
    // What may return has a name as well.
    holds(1, "one", "4");
    let says = format!("{:#}", admitted(two).await.map(drop).unwrap_err().error);
    assert!(says.contains("one.wasm"), "{says}");
    assert_eq!(file(&state, "trial").map(|text| String::from_utf8(text).unwrap().contains("one.wasm")), Some(true));
}

/// A Service that was made while the component was in the gate was nobody's afterwards.
#[tokio::test]
async fn a_component_without_an_interface_that_an_object_has_come_to_depend_on_is_refused_at_the_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    std::fs::write(&source, version("1")).unwrap();
    let is_needed = Arc::new(AtomicBool::new(false));
    let needed = Arc::clone(&is_needed);
    let depends = move |capability| {
        let is_needed = capability == Capability::LoadBalancers && needed.load(Ordering::Relaxed);
        is_needed.then(|| "Service shop/web".to_owned())
    };
    let mut keeper = keepers_of(vec![record(&source)], &state, None, Box::new(depends)).await.remove(0);
    let slot = keeper.bootstrap().await.unwrap();
    std::fs::write(&source, filled("guests/successor-bare.wasm", &[("version", "2")])).unwrap();
    let taken = admitted(&keeper).await.unwrap();
    is_needed.store(true, Ordering::Relaxed);
    let refused = exchanged(&mut keeper, taken).await.unwrap_err();
    let says = format!("{:#}", refused.error);
    assert!(refused.step == Step::Identity && says.contains("Service shop/web depends on it"), "{says}");
    assert_eq!((slot.standing().serving().version.as_str(), file(&state, "trial")), ("1", None));
    // It is looked at again: the Service may go.
    keeper.look().await;
    assert!(keeper.retry.due.is_some());
    is_needed.store(false, Ordering::Relaxed);
    keeper.look().await;
    assert_eq!(slot.standing().serving().version, "2");
}
