//! Credentials in use whose source is lost.

use std::collections::BTreeMap;

use ccm_sandbox::Provider;

use super::*;

/// Looks at the sources, for longer than from one look to the next, and tells what comes of it.
async fn looks(keeper: &mut Keeper, slot: &Slot<Provider>) {
    let following = slot.follow_credentials();
    assert!(tokio::time::timeout(Duration::from_secs(3), following).await.is_err(), "it never ends");
    keeper.catch_up().await;
}

/// What the metric says of the token, and the page of all credentials.
fn told(keeper: &Keeper) -> (Option<bool>, Vec<String>) {
    let page = keeper.surroundings.listeners.statuses.unreadable();
    (keeper.audience.metrics.is_unreadable("scripted", "token"), page)
}

/// Waits until there are so many Events about credentials.
async fn has_said(server: &Shared, times: usize) {
    let count = || server.lock().events.iter().filter(|event| *event == "Warning ProviderCredentialUnreadable").count();
    let said = async {
        while count() != times {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let said = tokio::time::timeout(Duration::from_secs(300), said).await;
    assert!(said.is_ok(), "{times} times: {:?}", server.lock().events);
}

/// It was one line in the log, all else was green, and the next restart was an outage.
#[tokio::test(start_paused = true)]
async fn a_lost_credential_is_on_the_page_and_in_the_metric_until_it_is_back_and_each_reason_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let (source, token) = (folder.path().join("p.wasm"), folder.path().join("token"));
    std::fs::copy(ccm_built::component("guests/scripted.wasm").unwrap(), &source).unwrap();
    let config = folder.path().join("cloud.conf");
    std::fs::write(&config, "[Global]\napi-url = https://api.test/\n").unwrap();
    std::fs::write(&token, "token-of-one").unwrap();
    let record = ProviderRecord {
        source: source.display().to_string(),
        cloud_config: Some(config),
        credentials: [("token".to_owned(), format!("file:{}", token.display()))].into(),
        ..ProviderRecord::default()
    };
    let server = Server::new(Some(BTreeMap::new()));
    let mut keeper = keeper_of(record, &folder.path().join("state"), Some((&server, settings(None)))).await;
    let slot = keeper.bootstrap().await.unwrap();
    looks(&mut keeper, &slot).await;
    assert_eq!(told(&keeper), (Some(false), vec![]));

    std::fs::remove_file(&token).unwrap();
    for _ in 0..2 {
        looks(&mut keeper, &slot).await;
        let (is_unreadable, page) = told(&keeper);
        assert_eq!(is_unreadable, Some(true), "{page:?}");
        let [line] = page.as_slice() else { panic!("{page:?}") };
        let (source, token) = (source.display().to_string(), token.display().to_string());
        let what = [source.as_str(), "\"token\"", token.as_str(), "No such file", "check the path"];
        for part in what.into_iter().chain(["until this process ends"]) {
            assert!(line.contains(part), "no {part} in {line}");
        }
        assert!(!line.contains("token-of-one"), "{line}");
        has_said(&server, 1).await;
    }

    std::fs::write(&token, "short").unwrap();
    looks(&mut keeper, &slot).await;
    let (is_unreadable, page) = told(&keeper);
    assert!(is_unreadable == Some(true) && page[0].contains("less than 8 bytes"), "{page:?}");
    has_said(&server, 2).await;

    for value in ["token-of-one", "token-of-two"] {
        std::fs::write(&token, value).unwrap();
        looks(&mut keeper, &slot).await;
        assert_eq!(told(&keeper), (Some(false), vec![]), "{value}");
    }
    has_said(&server, 2).await;
}
