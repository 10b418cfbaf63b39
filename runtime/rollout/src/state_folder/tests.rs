use std::path::Path;

use super::*;

const SOURCE: &str = "/providers/cloud.wasm";

fn kept_in(folder: &Path) -> StateFolder {
    of(folder, SOURCE)
}

fn of(folder: &Path, source: &str) -> StateFolder {
    StateFolder::new(folder, source, &ProbationFiles::default())
}

async fn component(last_good: &StateFolder) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    last_good.component().await.unwrap().map(|packed| (packed.bytes, packed.signature))
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_kept_comes_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody has made it yet.
    let state = folder.path().join("a/b");
    assert_eq!(component(&kept_in(&state)).await, None);
    kept_in(&state).keep(b"one", Some(b"signature of one")).await.unwrap();
    assert_eq!(component(&kept_in(&state)).await, Some((b"one".to_vec(), Some(b"signature of one".to_vec()))));
}

#[tokio::test]
async fn the_next_component_takes_the_place_of_the_one_before_and_of_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    last_good.keep(b"one", Some(b"signature of one")).await.unwrap();
    last_good.keep(b"two", Some(b"signature of two")).await.unwrap();
    assert_eq!(component(&last_good).await, Some((b"two".to_vec(), Some(b"signature of two".to_vec()))));
    assert_eq!(files(folder.path()).len(), 2, "{:?}", files(folder.path()));
    last_good.keep(b"two", Some(b"another signature of two")).await.unwrap();
    assert_eq!(component(&last_good).await, Some((b"two".to_vec(), Some(b"another signature of two".to_vec()))));
    last_good.keep(b"two", None).await.unwrap();
    assert_eq!(component(&last_good).await, Some((b"two".to_vec(), None)));
    last_good.keep(b"three", None).await.unwrap();
    assert_eq!(component(&last_good).await, Some((b"three".to_vec(), None)));
    assert_eq!(files(folder.path()).len(), 1, "{:?}", files(folder.path()));
}

/// The signature of the new one once lay beside the component of before, which was not to be trusted any more then.
#[tokio::test]
async fn a_component_that_cannot_be_written_leaves_the_one_before_with_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    last_good.keep(b"one", Some(b"signature of one")).await.unwrap();
    // A full disk, as far as a test can have one.
    std::fs::create_dir(last_good.file("wasm.new")).unwrap();
    let error = format!("{:#}", last_good.keep(b"two", Some(b"signature of two")).await.unwrap_err());
    assert!(error.contains(last_good.file("wasm").to_str().unwrap()), "{error}");
    assert_eq!(component(&last_good).await, Some((b"one".to_vec(), Some(b"signature of one".to_vec()))));
}

#[tokio::test]
async fn what_was_half_written_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    std::fs::write(last_good.file("wasm.new"), "ha").unwrap();
    assert_eq!(component(&last_good).await, None);
    last_good.keep(b"whole", None).await.unwrap();
    assert_eq!(component(&last_good).await, Some((b"whole".to_vec(), None)));
}

#[tokio::test]
async fn each_source_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = ("/a.wasm", "configmap:kube-system/a");
    let (of_a, of_b) = (of(folder.path(), a), of(folder.path(), b));
    of_a.keep(b"a", None).await.unwrap();
    let mut refusals = Refusals::default();
    refusals.refuse("sha256:a", "it crashed".into());
    let refused = |source: &str| Remembered { refused: refusals.clone(), ..Remembered::of(source) };
    of_a.remember(&refused(a)).await.unwrap();
    assert_eq!(component(&of_b).await, None);
    assert_eq!(of_b.remembered().await, Remembered::of(b));
    assert_eq!(of_a.remembered().await, refused(a));
    // Of two sources with the same name in the folder, should that happen, or a file that somebody copied.
    std::fs::copy(of_a.file("json"), of_b.file("json")).unwrap();
    assert_eq!(of_b.remembered().await, Remembered::of(b));
}

#[tokio::test]
async fn a_memory_that_cannot_be_read_is_none_and_a_component_that_cannot_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (last_good, source) = (kept_in(folder.path()), SOURCE);
    for text in ["", "{", "[]", r#"{"refused": "sha256:a"}"#] {
        std::fs::write(last_good.file("json"), text).unwrap();
        assert_eq!(last_good.remembered().await, Remembered::of(source), "{text}");
    }
    std::fs::create_dir(last_good.file("wasm")).unwrap();
    let error = format!("{:#}", last_good.component().await.unwrap_err());
    assert!(error.contains(last_good.file("wasm").to_str().unwrap()), "{error}");
}

/// It was taken for nothing without a word, and so were the refusals and counters in it.
#[tokio::test]
async fn a_memory_that_cannot_be_read_is_told_with_what_follows_and_one_that_is_missing_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    let file = last_good.file(MEMORY);
    let log = ccm_fake_api::Log::start();
    last_good.remembered().await;
    last_good.remember(&Remembered::of(SOURCE)).await.unwrap();
    last_good.remembered().await;
    assert_eq!(log.lines("WARN"), [""; 0]);
    std::fs::write(&file, "{").unwrap();
    last_good.remembered().await;
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    last_good.remembered().await;
    let told = log.lines("does not know any more which components were refused");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains(file.to_str().unwrap()) && line.contains("--state-dir")), "{told:?}");
}

#[tokio::test]
async fn a_folder_where_nothing_can_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = format!("{:#}", kept_in(file.path()).keep(b"one", None).await.unwrap_err());
    assert!(error.contains(file.path().to_str().unwrap()), "{error}");
}

/// Of a process that was killed, nothing else is left.
#[tokio::test]
async fn a_component_on_probation_is_known_after_the_death_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    assert_eq!(last_good.died_on_probation().await, None);
    last_good.begin_probation("sha256:a").await.unwrap();
    last_good.begin_probation("sha256:b").await.unwrap();
    assert_eq!(kept_in(folder.path()).died_on_probation().await.as_deref(), Some("sha256:b"));
    assert_eq!(of(folder.path(), "/another.wasm").died_on_probation().await, None);
    last_good.end_probation().await;
    assert_eq!(kept_in(folder.path()).died_on_probation().await, None);
    last_good.end_probation().await;
}

#[tokio::test]
async fn an_orderly_end_blames_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let probation_files = ProbationFiles::default();
    let last_good = StateFolder::new(folder.path(), SOURCE, &probation_files);
    last_good.begin_probation("sha256:a").await.unwrap();
    assert_eq!(last_good.died_on_probation().await.as_deref(), Some("sha256:a"));
    probation_files.end_in_order();
    assert_eq!(last_good.died_on_probation().await, None);
    // Of a task that has not noticed yet.
    last_good.begin_probation("sha256:b").await.unwrap();
    assert_eq!(last_good.died_on_probation().await, None);
}

/// It may be the one that was on probation when the process began to end.
#[tokio::test]
async fn a_panic_while_the_process_ends_in_order_counts_against_whoever_is_on_probation_still() {
    for is_judged in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let probation_files = ProbationFiles::default();
        let last_good = StateFolder::new(folder.path(), SOURCE, &probation_files);
        last_good.begin_probation("sha256:a").await.unwrap();
        probation_files.end_in_order();
        assert_eq!(last_good.died_on_probation().await, None);
        if is_judged {
            last_good.end_probation().await;
        }
        probation_files.end_in_panic();
        assert_eq!(last_good.died_on_probation().await.is_some(), !is_judged);
    }
}

/// Any end that let values go counted as orderly, also after the panic of another task.
#[tokio::test]
async fn a_process_that_only_lets_everything_go_did_not_end_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let probation_files = ProbationFiles::default();
    StateFolder::new(folder.path(), SOURCE, &probation_files).begin_probation("sha256:a").await.unwrap();
    drop(probation_files);
    assert_eq!(kept_in(folder.path()).died_on_probation().await.as_deref(), Some("sha256:a"));
}

/// Nobody learned why a good component was refused after a restart; and a file that was gone already was told of.
#[tokio::test]
async fn a_probation_that_cannot_be_removed_is_told_once_and_one_that_is_gone_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let probation_files = ProbationFiles::default();
    let file = folder.path().join("a.trial");
    let ends = || probation_files.end(&file, &std::fs::remove_file(&file));
    assert!(!ends(), "it is gone");
    std::fs::create_dir(&file).unwrap();
    assert_eq!([ends(), ends()], [true, false]);
    std::fs::remove_dir(&file).unwrap();
    assert!(!ends(), "it is gone");
    std::fs::create_dir(&file).unwrap();
    assert!(ends(), "another time");
}

#[tokio::test]
async fn a_probation_that_cannot_be_read_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let last_good = kept_in(folder.path());
    for text in ["", "{", "sha256:a", r#"{"digest": "sha256:a"}"#] {
        std::fs::write(last_good.file(PROBATION), text).unwrap();
        assert_eq!(last_good.died_on_probation().await, None, "{text}");
    }
}

/// It was told after the first probation, a minute later, and a misspelt folder not at all.
#[tokio::test]
async fn a_folder_is_made_once_and_one_that_cannot_be_written_to_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("a/b");
    assert!(prepare(&missing).await.unwrap());
    assert!(!prepare(&missing).await.unwrap());
    assert_eq!(std::fs::read_dir(&missing).unwrap().count(), 0, "nothing is left of the attempt");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for unusable in [file.clone(), file.join("below")] {
        let error = format!("{:#}", prepare(&unusable).await.unwrap_err());
        let told =
            format!("--state-dir {}: cannot be written to, so that no component is kept there", unusable.display());
        assert!(error.starts_with(&told), "{error}");
        assert!(error.contains("name a folder that this user may write to"), "{error}");
    }
}
