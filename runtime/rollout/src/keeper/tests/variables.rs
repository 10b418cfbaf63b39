//! Variables that nobody reads, while components come and go.

use super::*;
use crate::config::grants::GrantSettings;

/// A component that was rejected took the place of the one that served: the log said that nobody reads what that one reads.
#[tokio::test]
async fn only_a_component_that_serves_says_which_variables_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    let reads_mood = std::fs::read(ccm_built::component("guests/scripted.wasm").unwrap()).unwrap();
    let reads_nothing = |behaviour: &str| {
        let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
        let fields = [("name", "scripted"), ("scheme", "scripted"), ("behaviour", behaviour)];
        fill::fill(component, &fields).unwrap()
    };
    let record = ProviderRecord {
        source: source.display().to_string(),
        allow_provider_change: true,
        grants: GrantSettings { allow_env: vec!["SCRIPTED_MOOD".to_owned()], ..GrantSettings::default() },
        ..ProviderRecord::default()
    };
    std::fs::write(&source, &reads_mood).unwrap();
    let mut keeper = keeper_of(record, &state, None).await;
    let slot = keeper.bootstrap().await.unwrap();
    keeper.begun().await;
    let told =
        |keeper: &Keeper| keeper.surroundings.variables.told().is_some_and(|told| told.contains("SCRIPTED_MOOD"));
    let first = slot.standing().serving().digest.clone();
    assert!(!told(&keeper));

    std::fs::write(&source, reads_nothing("complains")).unwrap();
    keeper.look().await;
    assert_eq!((&slot.standing().serving().digest, told(&keeper)), (&first, false), "it is rejected");

    for is_put_back in [true, false] {
        std::fs::write(&source, reads_nothing("good")).unwrap();
        keeper.look().await;
        let second = slot.standing().serving().digest.clone();
        assert!(second != first && told(&keeper), "it serves");
        if is_put_back {
            std::fs::write(&source, &reads_mood).unwrap();
            keeper.look().await;
        } else {
            slot.peer_refused(Refusals::default().refuse(&second, "it lied".to_owned()));
            keeper.catch_up().await;
        }
        assert_eq!((&slot.standing().serving().digest, told(&keeper)), (&first, false), "put back: {is_put_back}");
    }
}
