use std::convert::Infallible;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use super::*;

const PERIOD: Duration = Duration::from_secs(1);

/// A path whose first look is over.
async fn watched(path: &Path) -> Changes {
    let mut changes = Changes::of(&Source::Path(path.to_owned()), None, PERIOD);
    changes.next().await;
    assert!(!tells(&mut changes).await, "nothing has changed");
    changes
}

/// Whether a change is told within a few looks. Time is paused.
async fn tells(changes: &mut Changes) -> bool {
    tokio::time::timeout(PERIOD * 3, changes.next()).await.is_ok()
}

/// A file of an hour ago: what is written now has another time, however fast the test is.
fn write_old(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    let hour = Duration::from_secs(3600);
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - hour).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_over_with_as_many_bytes_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.wasm");
    write_old(&file, "one");
    for path in [&file, folder.path()] {
        let mut changes = watched(path).await;
        fs::write(&file, "two").unwrap();
        assert!(tells(&mut changes).await, "{}", path.display());
        assert!(!tells(&mut changes).await, "{}: told twice", path.display());
        write_old(&file, "one");
    }
}

#[tokio::test(start_paused = true)]
async fn another_file_that_is_moved_there_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("cloud.wasm"), folder.path().join("other"));
    write_old(&file, "one");
    let mut changes = watched(&file).await;
    write_old(&other, "two");
    assert!(!tells(&mut changes).await, "it is not there yet");
    fs::rename(&other, &file).unwrap();
    assert!(tells(&mut changes).await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_and_comes_back_is_two_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.wasm");
    write_old(&file, "one");
    let mut changes = watched(&file).await;
    fs::remove_file(&file).unwrap();
    assert!(tells(&mut changes).await, "it is gone");
    assert!(!tells(&mut changes).await);
    fs::write(&file, "one").unwrap();
    assert!(tells(&mut changes).await, "it is back");
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_there_yet_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("providers");
    let mut changes = watched(&path).await;
    fs::create_dir(&path).unwrap();
    assert!(tells(&mut changes).await, "the folder");
    fs::write(path.join("cloud.wasm"), "one").unwrap();
    assert!(tells(&mut changes).await, "the file in it");
}

#[tokio::test(start_paused = true)]
async fn a_file_more_or_less_in_a_folder_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    write_old(&folder.path().join("cloud.wasm"), "one");
    let mut changes = watched(folder.path()).await;
    let signature = folder.path().join("cloud.wasm.sig");
    write_old(&signature, "signature");
    assert!(tells(&mut changes).await);
    fs::remove_file(&signature).unwrap();
    assert!(tells(&mut changes).await);
}

/// A component that is refused would else pass the whole gate again with each line of a log beside it.
#[tokio::test(start_paused = true)]
async fn what_is_written_beside_the_component_is_no_change() {
    let folder = tempfile::tempdir().unwrap();
    write_old(&folder.path().join("cloud.wasm"), "one");
    let log = folder.path().join("log.txt");
    write_old(&log, "a line\n");
    let mut changes = watched(folder.path()).await;
    fs::write(&log, "a line\nand another\n").unwrap();
    assert!(!tells(&mut changes).await);
}

/// A folder as the kubelet keeps it: `..data` leads to the folder of the moment, each key through it.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new() -> Self {
        let mount = Self(tempfile::tempdir().unwrap());
        mount.version("..1", "one");
        symlink("..1", mount.path("..data")).unwrap();
        symlink("..data/cloud.wasm", mount.path("cloud.wasm")).unwrap();
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn version(&self, name: &str, text: &str) {
        fs::create_dir(self.path(name)).unwrap();
        write_old(&self.path(name).join("cloud.wasm"), text);
    }
}

#[tokio::test(start_paused = true)]
async fn the_switch_of_a_mounted_config_map_is_a_change_of_the_folder_and_of_the_file() {
    for name in ["", "cloud.wasm"] {
        let mount = Mount::new();
        let mut changes = watched(&mount.path(name)).await;
        mount.version("..2", "two");
        symlink("..2", mount.path("..data_tmp")).unwrap();
        // The kubelet's order: the new folder is complete before the link is switched.
        tells(&mut changes).await;
        fs::rename(mount.path("..data_tmp"), mount.path("..data")).unwrap();
        assert!(tells(&mut changes).await, "{name:?}");
        fs::remove_dir_all(mount.path("..1")).unwrap();
        tells(&mut changes).await;
        assert!(!tells(&mut changes).await, "{name:?}");
        assert_eq!(fs::read(mount.path("cloud.wasm")).unwrap(), b"two");
    }
}

/// As the keeper does, which waits for other things at the same time.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_again_and_again_loses_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.wasm");
    write_old(&file, "one");
    let mut changes = watched(&file).await;
    fs::write(&file, "two").unwrap();
    let mut told = 0;
    for _ in 0..20 {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            () = changes.next() => told += 1,
        }
    }
    told += u32::from(tells(&mut changes).await);
    assert_eq!(told, 1);
}

#[tokio::test(start_paused = true)]
async fn a_config_map_without_a_cluster_never_changes() {
    let source: Source = "configmap:kube-system/cloud".parse().unwrap();
    let mut changes = Changes::of(&source, None, PERIOD);
    assert!(!tells(&mut changes).await);
}

/// Whoever may read the ConfigMap and not list it: the delay between two tries grows, and the failure is one line.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_tried_again_later_and_later() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let refused = tower::service_fn(move |_request: http::Request<kube::client::Body>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async {
            let text = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "configmaps is forbidden: User \"ccm\" cannot list it", "reason": "Forbidden", "code": 403}"#;
            Ok::<_, Infallible>(
                http::Response::builder().status(403).body(kube::client::Body::from(text.as_bytes().to_vec())).unwrap(),
            )
        }
    });
    let source: Source = "configmap:kube-system/cloud".parse().unwrap();
    let mut changes = Changes::of(&source, Some(&Client::new(refused, "kube-system")), PERIOD);
    let mut tries = async |time| {
        let before = asked.load(Ordering::Relaxed);
        let minutes = async {
            loop {
                changes.next().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(time), minutes).await.is_err());
        asked.load(Ordering::Relaxed) - before
    };
    let first = tries(120).await;
    assert!((8..=16).contains(&first), "{first} in two minutes");
    // However long it was away, whoever returns is soon noticed.
    for _ in 0..30 {
        assert!(tries(20).await >= 1);
    }
    let Changes::ConfigMap { told, .. } = &changes else { panic!() };
    let told = told.as_deref().unwrap();
    assert!(
        told.starts_with(
            "configmaps is forbidden: User \"ccm\" cannot list it (403 Forbidden); the manager needs the rights"
        ),
        "{told}"
    );
    let away = kube::Error::Service("connection refused".into());
    let told = failure(&watcher::Error::InitialListFailed(away));
    assert!(!told.contains("rights"), "{told}");
}
