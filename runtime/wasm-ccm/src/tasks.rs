//! The tasks of the process: what runs, and how all of it ends.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ccm_controllers::GivenUp;
use ccm_leader::Campaign;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long everything may take to end after the signal; Kubernetes kills after 30 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the end of a process waits for its state folder.
const LONGEST_SAYING: Duration = Duration::from_secs(1);

/// How long a thread that reads files waits for more work. Each poll of a component needs one, once a second, so with the 10 seconds of tokio
/// as many threads as ever worked at once would stay, each with its own memory.
const IDLE_THREAD: Duration = Duration::from_millis(250);

/// The tasks of the process. One that ends before it is told to ends the process: a controller that is gone must not look
/// like one that has nothing to do.
#[derive(Default)]
pub(crate) struct Tasks {
    /// End when `stop` is cancelled.
    controllers: JoinSet<(&'static str, Result<(), GivenUp>)>,
    /// End later, or not by themselves.
    background: JoinSet<&'static str>,
    /// Controllers that ended before all of their work had.
    unfinished: Vec<String>,
    /// Writers of Events that have not ended; none where there never was one.
    writers: Option<HashSet<Id>>,
    /// The first panic after the process was told to end.
    panic: Option<JoinError>,
    /// The signal came, or a task ended: no more work is begun.
    pub(crate) stop: CancellationToken,
    /// The controllers have ended: what they left to write is written.
    pub(crate) drain: CancellationToken,
}

/// The background tasks that are waited for: the last that a process says of its work and of its components is an Event.
pub(crate) const EVENT_WRITER: &str = "event writer";
/// See [`EVENT_WRITER`].
pub(crate) const PROVIDER_EVENT_WRITER: &str = "event writer of providers";

impl Tasks {
    pub(crate) fn spawn_controller(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), GivenUp>> + Send + 'static,
    ) {
        self.controllers.spawn(async move { (name, work.await) });
    }

    /// Ends together with the controllers, and writes nothing.
    pub(crate) fn spawn_reader(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_controller(name, async move {
            work.await;
            Ok(())
        });
    }

    pub(crate) fn spawn_background(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.background.spawn(async move {
            work.await;
            name
        });
        if [EVENT_WRITER, PROVIDER_EVENT_WRITER].contains(&name) {
            self.writers.get_or_insert_default().insert(task.id());
        }
    }

    /// Stops on SIGTERM and SIGINT.
    pub(crate) fn spawn_signals(&mut self) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let stop = self.stop.clone();
        self.spawn_background("signals", async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            }
            stop.cancel();
            std::future::pending().await
        });
        Ok(())
    }

    /// The result of `work`, none when the process is to stop first.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Result<Option<T>> {
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(None),
            Some(ended) = self.controllers.join_next() => self.ended(ended),
            Some(ended) = self.background.join_next_with_id() => self.background_ended(ended),
            result = work => return Ok(Some(result)),
        };
        match ended {
            Ok(name) => bail!("the {name} ended by itself"),
            Err(panic) => Err(panic).context("a task of the process ended"),
        }
    }

    /// Lets everything end in order: controllers first, then what they left to write.
    ///
    /// # Errors
    ///
    /// Something did not end in time or panicked, or a controller gave work up, also before: what that sent may still take effect.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        let orderly = async {
            while let Some(ended) = self.controllers.join_next().await {
                self.panic = self.ended(ended).err().or(self.panic.take());
            }
            self.drain.cancel();
            while self.writers.as_ref().is_none_or(|writers| !writers.is_empty())
                && let Some(ended) = self.background.join_next_with_id().await
            {
                self.panic = self.panic.take().or(self.background_ended(ended).err());
            }
        };
        let in_time = tokio::time::timeout(STOP_TIMEOUT, orderly).await;
        if let Some(panic) = self.panic {
            return Err(panic).context("stopped before all work had ended");
        }
        if in_time.is_err() {
            bail!("not everything ended within {STOP_TIMEOUT:?}");
        }
        if !self.unfinished.is_empty() {
            bail!("stopped before all work had ended: {}", self.unfinished.join("; "));
        }
        tracing::info!("stopped");
        Ok(())
    }

    /// A writer that panicked is waited for no more either.
    fn background_ended(&mut self, ended: Result<(Id, &'static str), JoinError>) -> Result<&'static str, JoinError> {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        self.writers.as_mut().map(|writers| writers.remove(&id));
        ended.map(|(_, name)| name)
    }

    /// Remembers how a controller ended.
    fn ended(
        &mut self,
        ended: Result<(&'static str, Result<(), GivenUp>), JoinError>,
    ) -> Result<&'static str, JoinError> {
        match &ended {
            Ok((_, Ok(()))) => {}
            Ok((name, Err(error))) => self.unfinished.push(format!("{name}: {error}")),
            // Its work was dropped with it.
            Err(panic) => self.unfinished.push(panic.to_string()),
        }
        ended.map(|(name, _)| name)
    }
}

/// What the tasks run in, with so many threads for them.
pub(crate) fn runtime(workers: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(workers).thread_keep_alive(IDLE_THREAD).enable_all().build()
}

/// Whether the process ended so because a task of it panicked.
pub(crate) fn has_panicked(ended: &Result<()>) -> bool {
    ended.as_ref().is_err_and(|error| error.is::<JoinError>())
}

/// Says something to the state folder. A folder on a dead disk must keep neither the Lease nor the process.
pub(crate) async fn say_in_time(say: impl FnOnce() + Send + 'static) {
    drop(tokio::time::timeout(LONGEST_SAYING, tokio::task::spawn_blocking(say)).await);
}

/// Does `work`, and [ends](end) the process in order, however the work ends: it may leave Events that are still to be written.
pub(crate) async fn in_order(
    work: impl AsyncFnOnce(&mut Tasks, &mut Option<Campaign>) -> Result<Option<Result<()>>>,
    no_component_is_to_blame: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let (mut tasks, mut campaign) = (Tasks::default(), None);
    let ended = work(&mut tasks, &mut campaign).await;
    end(tasks, campaign, ended, no_component_is_to_blame).await
}

/// Ends the process and hands the Lease on last: `ended` is an error when a task has ended, none when the process is to stop, and otherwise why
/// the leadership is lost. `in_order` says that no component on probation is to blame; first of all, since Kubernetes may kill what takes too long.
async fn end(
    tasks: Tasks,
    campaign: Option<Campaign>,
    ended: Result<Option<Result<()>>>,
    in_order: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let (is_lost, ended) = match ended {
        Ok(Some(lost)) => (lost.is_err(), lost),
        Ok(None) => (false, Ok(())),
        Err(error) => (false, Err(error)),
    };
    if !has_panicked(&ended) {
        say_in_time(in_order).await;
    }
    let retired = match campaign {
        Some(mut campaign) if is_lost => {
            // Nothing more is written, nor waited for.
            drop(tasks);
            campaign.end().await;
            Ok(())
        }
        Some(campaign) => campaign.retire(tasks.stop()).await,
        None => tasks.stop().await,
    };
    // A panic goes before all else: a component on probation may be to blame.
    if has_panicked(&retired) { retired } else { ended.and(retired) }
}
