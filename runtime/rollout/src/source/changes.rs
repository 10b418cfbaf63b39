//! Tells when a source may hold something else than before. Who asks reads it, and compares what it reads.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use backon::ExponentialBuilder;
use ccm_apiserver::{api_error_text, lacks_right};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use super::{SIGNATURE, Source, is_component};

/// A look at a path that costs no reading: what is there, and when it was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look(Vec<(PathBuf, PathBuf, [u64; 2], [i64; 4])>);

/// Waits for changes of a source.
pub(crate) enum Changes {
    /// A path: looked at again and again, since a change of a link, of a mount or of a file on another machine is told by no
    /// event.
    Path { path: PathBuf, period: Duration, seen: Option<Look> },
    /// A ConfigMap: watched, without its content.
    ConfigMap {
        events: Pin<Box<dyn Stream<Item = watcher::Result<()>> + Send>>,
        shown: String,
        /// What was told of the watch last.
        told: Option<String>,
    },
}

impl Changes {
    /// Begins to watch. `period` is how often a path is looked at. Without a `client`, a ConfigMap never changes.
    pub(crate) fn of(source: &Source, client: Option<&Client>, period: Duration) -> Self {
        match source {
            Source::Path(path) => Self::Path { path: path.clone(), period, seen: None },
            Source::ConfigMap { namespace, name, .. } => {
                let shown = source.to_string();
                let Some(client) = client else {
                    return Self::ConfigMap { events: Box::pin(futures::stream::pending()), shown, told: None };
                };
                let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client.clone(), namespace);
                let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
                let events = watcher(api, config).filter_map(async |event| match event {
                    // Nothing is known yet. A delay that it ended would never grow: it comes before each failure too.
                    Ok(watcher::Event::Init) => None,
                    // The end of a list as well: it tells that there is none any more.
                    Ok(_) => Some(Ok(())),
                    Err(error) => Some(Err(error)),
                });
                Self::ConfigMap { events: Box::pin(events.backoff(delays())), shown, told: None }
            }
        }
    }

    /// Waits until there may be a change. The first time it may return at once.
    ///
    /// # Cancel safety
    ///
    /// No change is lost.
    pub(crate) async fn next(&mut self) {
        match self {
            Self::Path { path, period, seen } => loop {
                let look = look(path).await;
                if seen.as_ref() != Some(&look) {
                    *seen = Some(look);
                    return;
                }
                tokio::time::sleep(*period).await;
            },
            Self::ConfigMap { events, shown, told } => match events.next().await {
                Some(Ok(())) => *told = None,
                Some(Err(error)) => {
                    // Reading it may work all the same: the watch comes back with a delay, and each time it is read.
                    let error = failure(&error);
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(source = shown, error, "cannot watch the ConfigMap, trying again");
                        *told = Some(error);
                    }
                }
                None => std::future::pending().await,
            },
        }
    }
}

/// Between two attempts to watch: up to twice ten seconds, since a change is seen only afterwards. They begin anew with what the watch
/// tells, not with the API server's return. All are shorter than [`ccm_apiserver::GRACE`]: what was refused once is not refused for so long
/// only because nobody has asked again.
pub(crate) fn delays() -> watcher::ExponentialBackoff {
    let delays =
        ExponentialBuilder::new().with_min_delay(Duration::from_millis(800)).with_max_delay(Duration::from_secs(10));
    delays.with_jitter().without_max_times().into()
}

fn failure(error: &watcher::Error) -> String {
    let (text, is_right) = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            (api_error_text(error), matches!(error, kube::Error::Api(status) if lacks_right(status)))
        }
        watcher::Error::WatchError(status) => (status.message.clone(), lacks_right(status)),
        watcher::Error::NoResourceVersion => (error.to_string(), false),
    };
    // An API server that is away is no reason to look for a right.
    let way_out = "; the manager needs the rights to get, list and watch it: add a rule for this ConfigMap to the Role in your overlay";
    if is_right { text + way_out } else { text }
}

/// What the path, or each component and signature in the folder that it is, leads to.
async fn look(path: &Path) -> Look {
    let mut signature = path.as_os_str().to_owned();
    signature.push(SIGNATURE);
    let mut entries = vec![path.to_owned(), signature.into()];
    if let Ok(mut folder) = tokio::fs::read_dir(path).await {
        while let Ok(Some(entry)) = folder.next_entry().await {
            // What else lies there may change all the time.
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_component(name.strip_suffix(SIGNATURE).unwrap_or(&name)) {
                entries.push(entry.path());
            }
        }
    }
    entries.sort();
    let mut found = Vec::with_capacity(entries.len());
    for entry in entries {
        let real = tokio::fs::canonicalize(&entry).await.unwrap_or_default();
        let Ok(metadata) = tokio::fs::metadata(&entry).await else { continue };
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        found.push((entry, real, [metadata.ino(), metadata.len()], times));
    }
    Look(found)
}

#[cfg(test)]
mod tests;
