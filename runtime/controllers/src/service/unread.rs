//! Services that this process cannot read: whoever wrote such a Service need not see the log, so the Service says it in an Event.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ccm_apiserver::{EventRequest, service_reference};
use ccm_cloud::Severity;
use tokio::sync::watch;

use super::report::REPORTER;
use super::syncer::Syncer;
use crate::store::{Shown, Unread};
use crate::warnings::Warnings;

/// Most Events at once. The others have their turn with the next look.
const MOST: usize = 50;
/// Shortest time between two looks without a change.
const LOOK: Duration = Duration::from_secs(60);

/// What was said of each, by UID: another Service of the same name has said nothing yet.
type Told = HashMap<String, Warnings>;

/// Lets each of them say so, and again now and then, until the reflector ends.
pub(super) async fn run(syncer: &Syncer) {
    let repeat = syncer.settings.repeat_warning;
    let (mut unread, mut told) = (syncer.unread.clone(), Told::new());
    loop {
        let news = news(&mut unread, &mut told, repeat);
        // Others may wait for their turn.
        let look = if news.len() == MOST { LOOK } else { repeat.max(LOOK) };
        for request in news {
            syncer.recorder.record(request).await;
        }
        if let Ok(Err(_)) = tokio::time::timeout(look, unread.changed()).await {
            return;
        }
    }
}

fn news(unread: &mut watch::Receiver<Unread>, told: &mut Told, repeat: Duration) -> Vec<EventRequest> {
    let unread = unread.borrow_and_update();
    let there: HashSet<&str> = unread.values().map(|one| one.uid.as_str()).collect();
    told.retain(|uid, _| there.contains(uid.as_str()));
    // Those that have said something before come last: where they are news with each look, they would always come before the others.
    let (before, never): (Vec<_>, Vec<_>) = unread.iter().partition(|(_, one)| told.contains_key(&one.uid));
    let news = never.into_iter().chain(before).filter_map(|((namespace, name), one)| {
        let consequence = match one.shown {
            Shown::AsBefore => "goes on with the Service as it was before",
            Shown::New | Shown::LeftOut => "does nothing for the Service, and what the Service has in the cloud stays as it is",
        };
        let message = format!(
            "the Service cannot be read: {}. Until you correct that, or take away what is too much, the host {consequence}",
            one.why
        );
        let is_news = told.entry(one.uid.clone()).or_default().is_news(&message, repeat);
        is_news.then(|| EventRequest {
            about: service_reference(namespace, name, &one.uid),
            severity: Severity::Warning,
            reason: "ServiceUnreadable".into(),
            action: "SyncLoadBalancer",
            message,
            reporter: REPORTER,
            annotations: Default::default(),
        })
    });
    news.take(MOST).collect()
}
