//! A state folder that cannot be written to for a while.

use std::path::PathBuf;

use super::*;

/// Longer than anything takes that comes at all.
const LONG: Duration = Duration::from_secs(300);

/// What ends so cannot be written: a full disk, as far as a test can have one. Returns what to remove when it is to have room again.
fn no_room_for(ending: &str, state: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let kept = files.find(|path| path.extension().is_some_and(|ending| ending == "wasm")).unwrap();
    let half = kept.with_extension(format!("{ending}.new"));
    std::fs::create_dir(&half).unwrap();
    half
}

/// A keeper of its own runs, and has version 2 on probation, while `story` is told.
async fn with_one_on_probation(folder: &Path, story: impl AsyncFnOnce(&Path, Slot<Provider>)) {
    let (source, state) = (folder.join("p.wasm"), folder.join("state"));
    let (mut keeper, slot) = serving(&source, &state).await;
    let told = async {
        std::fs::write(&source, version("2")).unwrap();
        let comes = async {
            while !slot.standing().is_on_probation() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(LONG, comes).await.unwrap();
        story(&state, slot.clone()).await;
    };
    tokio::select! {
        () = Box::pin(keeper.follow(CancellationToken::new())) => panic!("nothing ends it"),
        () = told => {}
    }
}

/// The next process took the component as if nobody had refused it.
#[tokio::test(start_paused = true)]
async fn a_verdict_that_could_not_be_written_is_told_once_and_written_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let log = ccm_fake_api::Log::start();
    let story = async |state: &Path, slot: Slot<Provider>| {
        let full = no_room_for("json", state);
        let digest = slot.standing().serving().digest.clone();
        slot.peer_refused(Refusals::default().refuse(&digest, "it lied".to_owned()));
        tokio::time::sleep(LONG).await;
        assert_eq!((slot.standing().serving().version.as_str(), file(state, "json")), ("1", None));
        let noted = String::from_utf8(file(state, "trial").expect("a kill would forget the verdict")).unwrap();
        assert!(noted.contains(&digest), "{noted}");
        std::fs::remove_dir(full).unwrap();
        tokio::time::sleep(LONG).await;
        let written = String::from_utf8(file(state, "json").expect("nobody has tried again")).unwrap();
        assert!(written.contains(&digest) && written.contains("it lied"), "{written}");
        assert_eq!(file(state, "trial"), None);
    };
    with_one_on_probation(folder.path(), story).await;
    assert_eq!(log.lines("are not remembered").len(), 1);
}

/// The next process began with the one before.
#[tokio::test(start_paused = true)]
async fn a_proven_component_that_could_not_be_kept_is_kept_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let story = async |state: &Path, slot: Slot<Provider>| {
        let full = no_room_for("wasm", state);
        let node = Node { name: "n1".to_owned(), ..Node::default() };
        slot.find(vec![node], Need::Existence).await.unwrap();
        tokio::time::sleep(LONG).await;
        assert_eq!((slot.standing().proven.version.as_str(), slot.standing().is_on_probation()), ("2", false));
        assert!(file(state, "wasm") == Some(version("1")), "the one before stays");
        std::fs::remove_dir(full).unwrap();
        tokio::time::sleep(LONG).await;
        assert!(file(state, "wasm") == Some(version("2")), "nobody has tried again");
    };
    with_one_on_probation(folder.path(), story).await;
}

/// The next one on probation was to be kept in its place, and it was lost with that one.
#[tokio::test(start_paused = true)]
async fn a_proven_component_that_could_not_be_kept_is_kept_although_another_one_is_on_probation_by_then() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("p.wasm");
    let story = async |state: &Path, slot: Slot<Provider>| {
        let full = no_room_for("wasm", state);
        let node = Node { name: "n1".to_owned(), ..Node::default() };
        slot.find(vec![node], Need::Existence).await.unwrap();
        tokio::time::sleep(LONG).await;
        std::fs::write(&source, version("3")).unwrap();
        tokio::time::sleep(LONG).await;
        let standing = slot.standing();
        assert_eq!((standing.serving().version.as_str(), standing.proven.version.as_str()), ("3", "2"));
        assert!(file(state, "wasm") == Some(version("1")), "there is no room yet");
        std::fs::remove_dir(full).unwrap();
        tokio::time::sleep(LONG).await;
        assert!(file(state, "wasm") == Some(version("2")), "nobody has its bytes any more");
    };
    with_one_on_probation(folder.path(), story).await;
}

/// It was refused anew, and told to the others anew, at each try.
#[tokio::test]
async fn a_death_on_probation_that_could_not_be_written_is_told_once_and_noted_until_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (source, state) = (folder.path().join("p.wasm"), folder.path().join("state"));
    drop(serving(&source, &state).await);
    let mut keeper = keeper(&source, &state, None).await;
    keeper.state_folder.as_ref().unwrap().begin_probation("sha256:a").await.unwrap();
    let full = no_room_for("json", &state);
    let log = ccm_fake_api::Log::start();
    for _ in 0..2 {
        keeper.blame_the_dead().await;
        assert!(file(&state, "trial").is_some() && file(&state, "json").is_none());
    }
    assert_eq!(log.lines("a component is refused").len(), 1);
    std::fs::remove_dir(full).unwrap();
    keeper.blame_the_dead().await;
    assert!(file(&state, "trial").is_none() && file(&state, "json").is_some());
}
