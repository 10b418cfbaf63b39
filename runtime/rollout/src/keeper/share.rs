//! Shares with the other replicas what becomes of components, and takes their word.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Severity;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Keeper, MAX_DELAY};
use crate::compare::naming;
use crate::last_good::DIED;
use crate::ledger::{Entry, Judgement, Peers, PeersError, Refusal, elsewhere};
use crate::release::Version;
use crate::slot::{Refusals, RefusedComponent};
use crate::source::Changes;

/// Before the others are asked or told again, when the API server did not answer.
const AGAIN: Duration = Duration::from_secs(10);

/// What a keeper shares with others.
pub(super) struct Share {
    peers: Arc<Peers>,
    /// Notices what they write.
    pub(super) changes: Changes,
    /// What they knew last.
    entry: Entry,
    /// What they have not been told yet.
    untold: Vec<Judgement>,
    /// When they are told again what they could not be told.
    pub(super) retry: Option<Instant>,
    /// Why nothing can be shared, as it was told last.
    trouble: Option<String>,
}

impl Share {
    /// `refused`: what this replica knows from before. It may have ended before it could tell the others.
    pub(super) fn new(peers: Arc<Peers>, source: &str, refused: &Refusals) -> Self {
        let (changes, entry) = (peers.changes(), Entry::of(source));
        let untold = refused.iter().map(|one| judged_refused(one.digest.clone(), one.why.clone())).collect();
        Self { peers, changes, entry, untold, retry: None, trouble: None }
    }

    /// Waits until there is something to hear or to tell.
    pub(super) async fn next(share: Option<&mut Self>) {
        let Some(Self { changes, retry, .. }) = share else { return std::future::pending().await };
        let again = async {
            match retry {
                Some(at) => tokio::time::sleep_until(*at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changes.next() => {}
            () = again => {}
        }
    }
}

impl Keeper {
    /// The other replicas; none where nothing is shared.
    pub(crate) fn peers(&self) -> Option<Arc<Peers>> {
        self.share.as_ref().map(|share| Arc::clone(&share.peers))
    }

    /// A component that was on trial when the process before this one died is refused, unless it has proved itself elsewhere; once it is
    /// known what the others know.
    pub(super) async fn blame_the_dead(&mut self) {
        let Some(last_good) = self.last_good.clone() else { return };
        let Some(digest) = last_good.died_on_trial().await else { return };
        if self.share.as_ref().is_some_and(|share| share.entry.proven.as_ref() == Some(&digest)) {
            tracing::info!(
                source = self.source,
                digest,
                "the component that was on probation has proved itself at another replica"
            );
            return last_good.end_trial().await;
        }
        tracing::warn!(source = self.source, digest, "a component is refused: {DIED}");
        self.remembered.refused.add(RefusedComponent { digest: digest.clone(), why: DIED.to_owned() });
        match last_good.remember(&self.remembered).await {
            Ok(()) => last_good.end_trial().await,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(source = self.source, error, "what was refused is not remembered; check --state-dir");
            }
        }
        self.untold(judged_refused(digest, DIED.to_owned()));
    }

    fn untold(&mut self, judgement: Judgement) {
        if let Some(share) = &mut self.share {
            share.untold.push(judgement);
        }
    }

    /// A component failed its trial: the others do not take it.
    pub(super) async fn share_refused(&mut self, failed: &Version, why: &str) {
        self.untold(judged_refused(failed.digest.clone(), why.to_owned()));
        self.listen().await;
    }

    /// A component passed its trial: it passes those of the others, too.
    pub(super) async fn share_proven(&mut self, proven: &Version) {
        let Some(slot) = self.slot().cloned() else { return };
        let Some(share) = &mut self.share else { return };
        share.untold.push(Judgement::Proven(proven.digest.clone()));
        if share.peers.leads()
            && let Some(name) = naming::naming(&*slot.proven()).await
        {
            share.untold.push(Judgement::Named(name));
        }
        self.listen().await;
    }

    /// Tells the others what they do not know yet, and hears what they have found out. What cannot be told is told later.
    pub(super) async fn listen(&mut self) {
        // It is in the log, and is tried again.
        drop(self.try_listen().await);
    }

    async fn try_listen(&mut self) -> Result<(), PeersError> {
        let Some(share) = &mut self.share else { return Ok(()) };
        let heard = async {
            if share.untold.is_empty() { share.peers.read().await } else { share.peers.tell(&share.untold).await }
        };
        // It is part of many futures, and rarely runs.
        let heard = Box::pin(heard).await;
        match heard {
            Ok(entry) => {
                share.untold.clear();
                share.retry = None;
                if share.trouble.take().is_some() {
                    tracing::info!(source = self.source, "this replica shares verdicts about components again");
                }
                share.entry = entry;
                self.hear();
                Ok(())
            }
            Err(error) => {
                self.nothing_is_shared(&error).await;
                Err(error)
            }
        }
    }

    /// Takes the word of the others.
    pub(super) fn hear(&self) {
        let (Some(share), Some(slot)) = (&self.share, self.slot()) else { return };
        share.entry.tell(slot);
    }

    /// Takes their word before there is a slot. Returns how the one that leads names load balancers.
    ///
    /// # Errors
    ///
    /// They could not be asked this time: a component that they refused is not to be taken for want of an answer. Where only the operator
    /// can mend that, the process works without.
    pub(super) async fn hear_first(&mut self) -> Result<Option<String>, PeersError> {
        if let Err(error) = self.try_listen().await
            && !error.is_for_the_operator()
        {
            return Err(error);
        }
        let Some(entry) = self.share.as_ref().map(|share| share.entry.clone()) else { return Ok(None) };
        for Refusal { digest, reason, .. } in &entry.refused {
            if self.remembered.refused.why(digest).is_none() {
                self.remembered.refused.add(RefusedComponent { digest: digest.clone(), why: elsewhere(reason) });
            }
        }
        Ok(entry.naming)
    }

    /// Who serves while this process has no component yet: whoever leads.
    pub(super) async fn served_by(&self) -> Option<String> {
        match self.peers()?.leader().await {
            Ok(leader) => leader,
            // Without the API server nobody serves whom this process could help.
            Err(error) => Some(format!("nobody knows who ({error})")),
        }
    }

    async fn nothing_is_shared(&mut self, error: &PeersError) {
        let Some(share) = &mut self.share else { return };
        let delay = if error.is_for_the_operator() { MAX_DELAY } else { AGAIN };
        share.retry = Some(Instant::now() + delay);
        let text = error.to_string();
        if share.trouble.as_ref() == Some(&text) {
            return;
        }
        share.trouble = Some(text.clone());
        let text = format!("this replica cannot share verdicts about components with the others: {text}");
        tracing::warn!(source = self.source, "{text}");
        if error.is_for_the_operator() {
            self.tell(Severity::Warning, "ProviderNotShared", text).await;
        }
    }

    /// The proven one was refused by another replica.
    pub(super) async fn contested(&mut self, proven: &Version, why: &str) {
        let text = format!("{proven} serves here, but {why}; put a fixed component into the source");
        tracing::warn!(source = self.source, "{text}");
        self.tell(Severity::Warning, "ProviderRefusedElsewhere", text).await;
    }

    /// The first component was refused elsewhere. It never had a trial: it was taken while another replica had it on trial. While that one
    /// leads, nothing is lost when this process begins anew, and then it waits for a better one.
    pub(super) async fn give_way(&mut self, first: &Version) {
        let Some(peers) = self.peers().filter(|peers| !peers.leads()) else { return };
        if let Ok(Some(leader)) = peers.leader().await {
            tracing::error!(
                source = self.source,
                leader,
                "{first} was this process's first component, and another replica refused it: this process ends, and refuses the component after its restart while another replica leads"
            );
            self.gives_way = true;
        }
    }

    /// Notes in the state folder who is on trial now.
    pub(super) async fn note_trial_of_now(&mut self) {
        let view = self.slot().map(|slot| slot.view()).filter(|view| view.is_on_trial);
        self.note_trial(view.map(|view| view.serving.digest.clone()).as_deref()).await;
    }

    /// Notes in the state folder that the component with this digest is on trial; none is where there is no digest.
    pub(super) async fn note_trial(&mut self, digest: Option<&str>) {
        let Some(last_good) = &self.last_good else { return };
        let Some(digest) = digest else { return last_good.end_trial().await };
        if let Err(error) = last_good.begin_trial(digest).await {
            let error = format!("{error:#}");
            tracing::warn!(
                source = self.source,
                error,
                "a death of the process will not count against the component on probation; check --state-dir"
            );
        }
    }
}

fn judged_refused(digest: String, reason: String) -> Judgement {
    Judgement::Refused(Refusal { digest, reason, at: Timestamp::now() })
}
