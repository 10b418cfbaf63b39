//! A configuration that changes while its component serves.

use ccm_sandbox::Provider;

use super::*;
use crate::config::grants::GrantSettings;
use crate::context::{self, Carryover};
use crate::gate::{self, Haste};
use crate::release::{Release, Version};
use crate::source::Packed;

fn conf(folder: &Path, text: &str) {
    std::fs::write(folder.join("cloud.conf"), text).unwrap();
}

fn project(name: &str) -> String {
    format!("[Global]\napi-url = https://api.test/\nmood = {name}\ntoken = token-of-{name}\n")
}

/// A keeper whose component reads a cloud-config, which is of the project `one`, and its slot.
async fn configured(folder: &Path) -> (Keeper, Slot<Provider>) {
    configured_with(folder, vec![]).await
}

/// The same that is granted these files besides.
async fn configured_with(folder: &Path, allow_files: Vec<PathBuf>) -> (Keeper, Slot<Provider>) {
    let source = folder.join("p.wasm");
    std::fs::copy(ccm_built::component("guests/scripted.wasm").unwrap(), &source).unwrap();
    conf(folder, &project("one"));
    let record = ProviderRecord {
        source: source.display().to_string(),
        cloud_config: Some(folder.join("cloud.conf")),
        grants: GrantSettings { allow_files, ..GrantSettings::default() },
        ..ProviderRecord::default()
    };
    let mut keeper = keeper_of(record, &folder.join("state"), None).await;
    let slot = keeper.bootstrap().await.unwrap();
    (keeper, slot)
}

/// The project that a provider was told of, and the generation.
fn shows(slot: &Slot<Provider>) -> (bool, bool, u64) {
    let serving = slot.component();
    (is_of(&serving, "one"), is_of(&serving, "two"), slot.standing().generation)
}

/// Whether a provider was told of this project.
fn is_of(provider: &Provider, project: &str) -> bool {
    provider.files()["cloud-config"].contains(&format!("\"{project}\""))
}

#[tokio::test]
async fn a_configuration_is_refused_until_it_is_mended_and_the_one_before_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, slot) = configured(folder.path()).await;
    let is_refused = |keeper: &Keeper| keeper.audience.metrics.refused_of(&keeper.source);
    keeper.configure().await;
    assert_eq!(is_refused(&keeper), [false, false]);
    assert_eq!((shows(&slot), keeper.configuration.told.as_deref()), ((true, false, 1), None), "nothing has changed");
    let cases = [
        ("[Global\n".to_owned(), "line 1"),
        (project("two").replace("api.test", "other.test"), "another host (other.test)"),
        (project("two").replace("token-of-two", "short"), "less than 8 bytes"),
    ];
    for (text, says) in cases {
        conf(folder.path(), &text);
        keeper.configure().await;
        let told = keeper.configuration.told.clone().unwrap_or_default();
        assert!(told.contains(says) && told.contains("cloud.conf"), "{told}");
        assert_eq!(shows(&slot), (true, false, 1), "{told}");
        assert!(keeper.configuration.retry.due.is_some(), "{told}");
        assert_eq!(is_refused(&keeper), [false, true], "{told}");
    }
    conf(folder.path(), &project("two"));
    keeper.configure().await;
    assert_eq!((shows(&slot), keeper.configuration.told.as_deref()), ((false, true, 2), None));
    assert_eq!(is_refused(&keeper), [false, false]);
    assert!(!slot.standing().is_on_probation() && keeper.configuration.retry.due.is_none());
    // Another token alone is for egress.
    conf(folder.path(), &project("two").replace("token-of-two", "token-of-later"));
    keeper.configure().await;
    assert_eq!(shows(&slot), (false, true, 2));
}

/// Whenever another component comes while a configuration is in the gate: that one serves, with what it was opened with, until it has
/// been through the gate with the new configuration itself.
#[tokio::test]
async fn a_configuration_in_the_gate_is_not_given_to_a_component_that_comes_meanwhile() {
    for polls in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, slot) = configured(folder.path()).await;
        conf(folder.path(), &project("two"));
        let first = slot.components().proven;
        let version =
            Version { version: "other".to_owned(), digest: format!("sha256:{polls:064}"), ..(*first.version).clone() };
        let other = Release { component: Arc::clone(&first.component), version: Arc::new(version) };
        {
            let mut configures = std::pin::pin!(keeper.configure());
            let mut is_over = false;
            for _ in 0..polls {
                is_over = is_over || futures::poll!(&mut configures).is_ready();
                tokio::task::yield_now().await;
            }
            slot.put(other.clone()).unwrap();
            if !is_over {
                configures.await;
            }
        }
        assert_eq!(*slot.standing().serving(), other.version, "{polls}");
        // It is looked at again unless the configuration passed the gate for this very component.
        let is_new = shows(&slot).1;
        keeper.catch_up().await;
        assert!(is_new || keeper.configuration.retry.due.is_some(), "{polls}");
        keeper.configure().await;
        assert_eq!((shows(&slot).1, slot.standing().serving()), (true, &other.version), "{polls}");
        assert!(is_of(&slot.proven(), "two"), "{polls}: the two answer from one configuration");
        assert!(slot.standing().is_on_probation(), "{polls}");
    }
}

/// It was the witness against the other one, with a configuration that nobody wanted any more.
#[tokio::test]
async fn a_configuration_is_given_to_both_components_of_a_probation() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, slot) = configured(folder.path()).await;
    let first = slot.components().proven;
    let version = Version { digest: format!("sha256:{:064}", 1), ..(*first.version).clone() };
    slot.put(Release { component: Arc::clone(&first.component), version: Arc::new(version) }).unwrap();
    conf(folder.path(), &project("two"));
    keeper.configure().await;
    assert!(slot.standing().is_on_probation());
    assert_eq!([slot.component(), slot.proven()].map(|one| is_of(&one, "two")), [true, true]);
    conf(folder.path(), "[Global\n");
    keeper.configure().await;
    assert_eq!(
        [slot.component(), slot.proven()].map(|one| is_of(&one, "two")),
        [true, true],
        "and neither gets a bad one"
    );
}

/// A keeper whose first component reads a cloud-config, on probation against it one that behaves so, and their slot.
async fn trying(folder: &Path, behaviour: &str) -> (Keeper, Slot<Provider>) {
    let source = folder.join("p.wasm");
    std::fs::write(&source, version("1")).unwrap();
    mood(folder, "one");
    let cloud_config = Some(folder.join("cloud.yaml"));
    let record = ProviderRecord { source: source.display().to_string(), cloud_config, ..ProviderRecord::default() };
    let mut keeper = keeper_of(record, &folder.join("state"), None).await;
    let slot = keeper.bootstrap().await.unwrap();
    let (config, surroundings) = (&keeper.config, &keeper.surroundings);
    let bytes = fill::fill(version("1"), &[("version", "2"), ("behaviour", behaviour)]).unwrap();
    let unpacked = gate::unpacked(config, Packed { bytes, signature: None, uid: None }).await.ok().unwrap();
    let loaded = gate::load(&surroundings.sandbox, config, &unpacked, Haste::None).await.ok().unwrap();
    let (descriptor, carryover) = (loaded.descriptor().clone(), Carryover::default());
    let files = config.files(&descriptor).unwrap();
    let context = context::open(config, &descriptor, files, &carryover, &surroundings.shared, None, "").await.unwrap();
    let version = Version { name: descriptor.name, version: descriptor.version, digest: unpacked.digest, signed: None };
    let component = Arc::new(loaded.into_provider(context, None, None));
    slot.put(Release { component, version: Arc::new(version) }).unwrap();
    keeper.catch_up().await;
    (keeper, slot)
}

fn mood(folder: &Path, mood: &str) {
    std::fs::write(folder.join("cloud.yaml"), format!("mood: {mood}\n")).unwrap();
}

/// It was taken for a fault that lasts that the cloud said nothing for a moment, and the probation ended.
#[tokio::test]
async fn one_on_probation_that_cannot_answer_about_a_configuration_goes_only_when_that_does_not_pass() {
    for (behaviour, may_pass, why) in
        [("mute", true, "cannot be told on purpose"), ("complains", false, "it complains on purpose")]
    {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, slot) = trying(folder.path(), behaviour).await;
        mood(folder.path(), "two");
        keeper.configure().await;
        assert_eq!(
            (slot.standing().is_on_probation(), is_of(&slot.proven(), "two")),
            (may_pass, !may_pass),
            "{behaviour}"
        );
        if may_pass {
            let told = keeper.configuration.told.as_deref().unwrap();
            assert!(told.contains(why) && told.contains("2 (") && keeper.configuration.retry.due.is_some(), "{told}");
            // Somebody has mended what it could not do with.
            mood(folder.path(), "one");
            keeper.configure().await;
            assert_eq!((slot.standing().is_on_probation(), keeper.configuration.told.as_deref()), (true, None));
            mood(folder.path(), "two");
        }
        for _ in 0..20 {
            keeper.configure().await;
        }
        assert_eq!((slot.standing().is_on_probation(), is_of(&slot.component(), "two")), (false, true), "{behaviour}");
        let page = keeper.surroundings.listeners.statuses.json();
        assert!(page.contains(why), "the page does not say why it went: {page}");
    }
}

/// It was compared with one that still had the old configuration, found less, and was never looked at again.
#[tokio::test]
async fn a_component_that_was_refused_is_looked_at_again_with_another_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, slot) = configured(folder.path()).await;
    std::fs::write(folder.path().join("p.wasm"), b"no component").unwrap();
    keeper.look().await;
    assert!(keeper.judged.is_some() && keeper.retry.due.is_none(), "it is refused for good");
    conf(folder.path(), &project("two"));
    keeper.configure().await;
    assert!(is_of(&slot.component(), "two"));
    assert!(keeper.judged.is_none() && keeper.retry.due.is_some());
    keeper.look().await;
    assert!(keeper.judged.is_some(), "it is refused as before");
}

/// The file changed while the component was opened, and changed back: nothing ever ended its probation.
#[tokio::test]
async fn a_probation_apart_goes_on_as_any_other_once_both_have_one_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, slot) = configured(folder.path()).await;
    let first = slot.components().proven;
    let version = Version { digest: format!("sha256:{:064}", 1), ..(*first.version).clone() };
    slot.put_apart(Release { component: Arc::clone(&first.component), version: Arc::new(version) }).unwrap();
    assert!(slot.components().is_apart);
    keeper.configure().await;
    assert_eq!((slot.components().is_apart, slot.standing().is_on_probation()), (false, true));
    let generation = slot.standing().generation;
    keeper.configure().await;
    assert_eq!(slot.standing().generation, generation, "nothing is left to do");
}

/// A log that the operator had granted grew all the time, and the host looked at nothing else any more.
#[tokio::test(start_paused = true)]
async fn files_that_never_stay_the_same_keep_the_host_from_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (mut keeper, slot) = configured_with(folder.path(), vec![log.clone()]).await;
    keeper.settings.settle = Duration::from_secs(1);
    let grows = |file: PathBuf, text: Box<dyn Fn(usize) -> String>| async move {
        for number in 0.. {
            std::fs::write(&file, text(number)).unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // The component reads no such file.
    conf(folder.path(), &project("two"));
    tokio::select! {
        () = grows(log, Box::new(|number| number.to_string())) => {}
        () = keeper.configure() => {}
    }
    assert_eq!(shows(&slot), (false, true, 2));
    let begun = Instant::now();
    conf(folder.path(), &project("one0"));
    tokio::select! {
        () = grows(folder.path().join("cloud.conf"), Box::new(|number| project(&format!("one{number}")))) => {}
        () = keeper.configure() => {}
    }
    assert_eq!(
        (shows(&slot), begun.elapsed()),
        ((false, true, 2), Duration::from_secs(1)),
        "it waits once, and then it is others' turn"
    );
    assert!(keeper.configuration.retry.due.is_some());
}
