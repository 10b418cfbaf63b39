//! A process that starts while its last good component cannot serve.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_fake_api::Log;

use super::*;
use crate::config::grants::GrantSettings;
use crate::gate::{self, Step};
use crate::pipeline::NotAdmitted;

/// A keeper whose last good component finds fault with its cloud, and whose source holds `new`.
async fn started(folder: &Path, change: impl FnOnce(&mut ProviderRecord), new: &[(&str, &str)]) -> Keeper {
    started_after("complains", folder, change, new).await
}

/// The same where the last good component behaves so.
async fn started_after(
    behaviour: &str,
    folder: &Path,
    change: impl FnOnce(&mut ProviderRecord),
    new: &[(&str, &str)],
) -> Keeper {
    let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
    let source = folder.join("p.wasm");
    std::fs::write(&source, fill::fill(component.clone(), new).unwrap()).unwrap();
    std::fs::write(folder.join("cloud.yaml"), "token: token-of-the-operator\n").unwrap();
    let mut record = ProviderRecord {
        source: source.display().to_string(),
        cloud_config: Some(folder.join("cloud.yaml")),
        ..ProviderRecord::default()
    };
    change(&mut record);
    let keeper = keeper_of(record, &folder.join("state"), None).await;
    let stored = fill::fill(component, &[("version", "1"), ("behaviour", behaviour)]).unwrap();
    keeper.state_folder.as_ref().unwrap().keep(&stored, None).await.unwrap();
    keeper
}

type Fields = &'static [(&'static str, &'static str)];

/// What was tried first had no component before it: it could be of another provider, and use every credential.
#[tokio::test]
async fn what_the_last_good_component_was_allowed_counts_while_it_waits_for_its_cloud() {
    let rows: [(Fields, Option<(Step, &str)>); 4] = [
        (&[("version", "2")], None),
        (&[("version", "2"), ("name", "other")], Some((Step::Identity, "--allow-provider-change"))),
        (&[("version", "2"), ("scheme", "other")], Some((Step::Identity, "its provider IDs begin with other"))),
        (&[("version", "2"), ("secret", "token")], Some((Step::Grants, "--allow-grant-change"))),
    ];
    for (new, wanted) in rows {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = started(folder.path(), |_| (), new).await;
        let tried = keeper.try_once(&mut Some(String::new())).await;
        let rejected = tried.err().map(NotAdmitted::into_rejected);
        let told = rejected.map(|rejected| (rejected.step, format!("{:#}", rejected.error)));
        match (wanted, told) {
            (None, None) => {}
            (Some((step, part)), Some((stopped, error))) => {
                assert!(step == stopped && error.contains(part), "{new:?}: {stopped}: {error}");
            }
            (_, told) => panic!("{new:?}: {told:?}"),
        }
    }
}

#[tokio::test]
async fn the_operator_may_let_another_one_do_more_than_the_last_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let allow = |record: &mut ProviderRecord| {
        record.allow_provider_change = true;
        record.grants = GrantSettings { allow_grant_change: true, ..GrantSettings::default() };
    };
    let new = [("version", "2"), ("name", "other"), ("secret", "token")];
    let mut keeper = started(folder.path(), allow, &new).await;
    let taken = keeper.try_once(&mut Some(String::new())).await.ok().unwrap();
    assert_eq!(taken.release.version.name, "other");
}

/// An untried one that asks no cloud once took the place of the last good one while the cloud was down, was proven at once, and was kept
/// in its stead.
#[tokio::test]
async fn the_last_good_component_does_not_give_way_while_its_cloud_says_nothing() {
    // Whoever answers as the cloud may let it crash, or keep it busy until its time is over: that is no answer either.
    for (behaviour, allowed) in
        ["mute", "check-traps", "check-loops"].into_iter().flat_map(|behaviour| [(behaviour, false), (behaviour, true)])
    {
        let folder = tempfile::tempdir().unwrap();
        let allow = |record: &mut ProviderRecord| record.allow_provider_change = allowed;
        let mut keeper = started_after(behaviour, folder.path(), allow, &[("version", "2")]).await;
        match keeper.try_once(&mut Some(String::new())).await {
            Ok(taken) => assert_eq!((allowed, taken.release.version.version.as_str()), (true, "2")),
            Err(error) => {
                let rejected = error.into_rejected();
                let error = format!("{:#}", rejected.error);
                assert!(!allowed && rejected.step == Step::Check, "{behaviour}: {error}");
                assert!(error.contains("waits for its cloud") && error.contains("--allow-provider-change"), "{error}");
            }
        }
    }
}

/// Nothing was pinned before the last good one was opened with all that it needs: the next one could use any credential.
#[tokio::test]
async fn what_the_last_good_component_declared_counts_although_it_cannot_be_opened_now() {
    for (new, is_refused) in [("token,password,admin", true), ("token,password", false)] {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "password-of-the-operator").unwrap();
        // For the next one: the last good one does not know it.
        let given = |record: &mut ProviderRecord| {
            record.credentials = [("password".to_owned(), format!("file:{}", password.display()))].into();
        };
        let mut keeper = started(folder.path(), given, &[("version", "2"), ("secret", new)]).await;
        let both = "token: token-of-the-operator\nadmin: root-of-the-operator\n";
        std::fs::write(folder.path().join("cloud.yaml"), both).unwrap();
        let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
        let stored = fill::fill(component, &[("version", "1"), ("secret", "token")]).unwrap();
        keeper.state_folder.as_ref().unwrap().keep(&stored, None).await.unwrap();
        let mut waits = Some(String::new());
        let tried = keeper.try_once(&mut waits).await;
        assert!(waits.is_some_and(|why| why.contains("no such credential")), "the last good one cannot be used");
        let told = tried.err().map(|error| format!("{:#}", error.into_rejected().error));
        assert_eq!(told.is_some(), is_refused, "{told:?}");
        assert!(told.is_none_or(|told| told.contains("--allow-grant-change") && told.contains("admin")));
    }
}

/// The file of the last good component.
fn kept_in(state: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|ending| ending == "wasm")).unwrap()
}

/// What keeps the last good one out passes after the first call: from then on the folder holds `next`, which stands for the same component.
struct Passes {
    state: PathBuf,
    next: Vec<u8>,
    is_over: AtomicBool,
}

impl CallObserver for Passes {
    fn call_ended(&self, _: &str, _: CallEnd) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let kept = kept_in(&self.state);
            // What nobody can read is a folder here.
            std::fs::remove_dir(&kept).ok();
            std::fs::write(kept, &self.next).unwrap();
        }
    }
}

/// While credentials were rotated, one in the source that found less was taken seconds after the cloud had said no to the last good one: it was
/// proven at once, and kept in its stead. Whoever only passes the gate beside it is not taken, and pins nothing.
#[tokio::test]
async fn the_last_good_component_is_asked_again_before_an_untried_one_takes_its_place() {
    // The source holds version 2.
    for (second, wanted) in [("good", Ok("1")), ("complains", Ok("2")), ("mute", Err("waits for its cloud"))] {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = started(folder.path(), |_| (), &[("version", "2")]).await;
        let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
        let next = fill::fill(component, &[("version", "1"), ("behaviour", second)]).unwrap();
        let passes = Passes { state: folder.path().join("state"), next: next.clone(), is_over: AtomicBool::new(false) };
        Arc::get_mut(&mut keeper.surroundings).unwrap().listeners.observer = Arc::new(passes);
        let log = Log::start();
        match (keeper.try_once(&mut Some(String::new())).await, wanted) {
            (Ok(taken), Ok(wanted)) => {
                assert_eq!(taken.release.version.version, wanted, "{second}");
                keeper.begin(taken);
                keeper.begun().await;
                let kept = file(&folder.path().join("state"), "wasm");
                assert_eq!(kept == Some(next), wanted == "1", "{second}");
            }
            (Err(error), Err(part)) => {
                let error = format!("{:#}", error.into_rejected().error);
                assert!(error.contains(part), "{second}: {error}");
            }
            (tried, _) => panic!("{second}: {:?}", tried.map(|taken| taken.release.version.version.clone()).ok()),
        }
        let taken = log.lines("provider taken");
        assert_eq!(taken.len(), usize::from(wanted.is_ok()), "{second}: {taken:?}");
    }
}

/// Its disk gave an error once, and what the source held took its place, untried.
#[tokio::test]
async fn the_last_good_component_is_asked_again_where_its_file_could_not_be_read_for_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = started_after("good", folder.path(), |_| (), &[("version", "2")]).await;
    let state = folder.path().join("state");
    let kept = kept_in(&state);
    let next = std::fs::read(&kept).unwrap();
    std::fs::remove_file(&kept).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let passes = Passes { state, next, is_over: AtomicBool::new(false) };
    Arc::get_mut(&mut keeper.surroundings).unwrap().listeners.observer = Arc::new(passes);
    let taken = keeper.try_once(&mut Some(String::new())).await.ok().unwrap();
    assert_eq!(taken.release.version.version, "1");
}

async fn refuse_what_the_source_holds(keeper: &mut Keeper) {
    let packed = keeper.fetch().await.unwrap();
    let digest = gate::unpacked(&keeper.config, packed).await.unwrap().digest;
    keeper.remembered.refused.refuse(&digest, "it lied".to_owned());
}

/// Its disk gave an error for good: the process waited for it for ever, although nobody else served.
#[tokio::test]
async fn a_refused_component_serves_where_nobody_leads_and_the_last_good_one_cannot_be_read() {
    for is_there in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = started(folder.path(), |_| (), &[("version", "2")]).await;
        refuse_what_the_source_holds(&mut keeper).await;
        if !is_there {
            let kept = kept_in(&folder.path().join("state"));
            std::fs::remove_file(&kept).unwrap();
            std::fs::create_dir(kept).unwrap();
        }
        match keeper.try_once(&mut Some(String::new())).await {
            Ok(taken) => assert_eq!((is_there, taken.release.version.version.as_str()), (false, "2")),
            Err(error) => {
                let error = format!("{:#}", error.into_rejected().error);
                assert!(is_there && error.contains("failed its probation before (it lied)"), "{error}");
            }
        }
    }
}

/// It waited for the one that could be read from the start, and not for the one that could be read a moment later.
#[tokio::test]
async fn a_refused_component_does_not_serve_where_the_last_good_one_can_be_read_while_it_is_in_the_gate() {
    for (second, wanted) in [("good", Ok("1")), ("complains", Err("failed its probation before (it lied)"))] {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = started(folder.path(), |_| (), &[("version", "2")]).await;
        refuse_what_the_source_holds(&mut keeper).await;
        let state = folder.path().join("state");
        let kept = kept_in(&state);
        std::fs::remove_file(&kept).unwrap();
        std::fs::create_dir(&kept).unwrap();
        let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
        let next = fill::fill(component, &[("version", "1"), ("behaviour", second)]).unwrap();
        let passes = Passes { state, next, is_over: AtomicBool::new(false) };
        Arc::get_mut(&mut keeper.surroundings).unwrap().listeners.observer = Arc::new(passes);
        match (keeper.try_once(&mut Some(String::new())).await, wanted) {
            (Ok(taken), Ok(wanted)) => assert_eq!(taken.release.version.version, wanted),
            (Err(error), Err(part)) => {
                let error = format!("{:#}", error.into_rejected().error);
                assert!(error.contains(part), "{error}");
            }
            (tried, _) => panic!("{second}: {:?}", tried.map(|taken| taken.release.version.version.clone()).ok()),
        }
    }
}

/// It was written over the last good one, which could be read again by the next start.
#[tokio::test]
async fn a_refused_component_that_serves_is_kept_in_no_place_but_an_empty_one() {
    for is_there in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = started(folder.path(), |_| (), &[("version", "2")]).await;
        refuse_what_the_source_holds(&mut keeper).await;
        let kept = kept_in(&folder.path().join("state"));
        std::fs::remove_file(&kept).unwrap();
        if is_there {
            // What leads to itself can be replaced, and not be read.
            std::os::unix::fs::symlink(&kept, &kept).unwrap();
        }
        let taken = keeper.try_once(&mut Some(String::new())).await.ok().unwrap();
        keeper.begin(taken);
        keeper.begun().await;
        assert_eq!(std::fs::symlink_metadata(&kept).unwrap().is_symlink(), is_there);
    }
}
