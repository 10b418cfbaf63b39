//! Tells which credentials in use cannot be read any more. Requests carry the values that were read last, so that nothing else shows it before
//! the next start of the process, which has none.

use ccm_cloud::Severity;
use ccm_egress::{SourceState, line};

use super::Keeper;
use crate::status::UnreadableCredential;

/// Longest reason, in bytes.
const MAX_REASON: usize = 1024;

/// How the sources of the credentials in use stand, as it was told last.
#[derive(Default)]
pub(super) struct Sources {
    /// Whose credentials these are.
    provider: String,
    states: Vec<SourceState>,
    unreadable: Vec<UnreadableCredential>,
}

impl Keeper {
    /// The sources of whoever serves stand so now. The page and the metric say it as long as it is so, and an Event says each reason once.
    pub(super) async fn hear_sources(&mut self, states: Vec<SourceState>) {
        let Some(serving) = self.serving() else { return };
        let before = std::mem::take(&mut self.sources);
        let (mut unreadable, mut news) = (vec![], vec![]);
        for SourceState { credential, unreadable: why } in &states {
            let told = before.unreadable.iter().find(|one| one.credential == *credential);
            let Some(reason) = why.as_ref().map(|why| line(why, MAX_REASON)) else {
                if told.is_some() {
                    tracing::info!(source = self.source, credential, "the credential can be read again");
                }
                continue;
            };
            unreadable.push(match told.filter(|told| told.reason == reason) {
                Some(told) => told.clone(),
                None => {
                    news.push(reason.clone());
                    UnreadableCredential::now(credential.clone(), reason)
                }
            });
        }
        self.audience.metrics.sources((&before.provider, &before.states), (&serving.name, &states));
        self.shows(|known| known.unreadable.clone_from(&unreadable));
        self.sources = Sources { provider: serving.name.clone(), states, unreadable };
        for reason in news {
            let text = format!(
                "{reason}; {serving} continues to serve with the value that was read last, until this process ends: restore the credential before"
            );
            self.tell(Severity::Warning, "ProviderCredentialUnreadable", text).await;
        }
    }
}
