//! What a watch learns of the API server, for whoever must know whether it still hears of changes. Nothing is asked for that: each request of
//! the watch is seen on its way, and so is the begin of its answer.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api_status::lacks_right;
use crate::counted::is_watch;
use crate::error_text::api_error_text;
use crate::pages::later_page;

/// How long a watch may be away before that is told. A watch that ends after its time, one that begins anew with a list, and a dropped
/// connection are back within seconds, and an API server that is restarted within this time. It is also as long as a silent
/// connection is kept by default.
pub const GRACE: Duration = Duration::from_secs(45);

/// The client for one watch, and what that learns. Nobody else may ask by way of this client.
#[must_use]
pub fn observed(client: &Client) -> (Client, Observed) {
    let namespace = client.default_namespace().to_owned();
    let (client, seen) = (client.clone(), Arc::new(watch::Sender::new(Seen::default())));
    let observed = Observed { seen: seen.subscribe() };
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, seen) = (client.clone(), Arc::clone(&seen));
        async move { ask(&client, &seen, request).await }
    });
    (Client::new(service, namespace), observed)
}

async fn ask(client: &Client, seen: &watch::Sender<Seen>, request: Request<Body>) -> kube::Result<Response<Body>> {
    let (is_watch, asked) = (is_watch(request.uri()), Moment::now());
    let page = later_page(request.uri()).map(ToOwned::to_owned);
    let is_list = !is_watch && page.is_none();
    seen.send_modify(|seen| seen.asked(asked, is_list));
    let answered = async {
        let answer = client.send(request).await?;
        if answer.status().is_success() { Ok((answer, None)) } else { refused(answer).await }
    };
    match answered.await {
        Ok((answer, refusal)) => {
            seen.send_modify(|seen| match refusal {
                None => seen.answered(is_watch, page.as_deref()),
                Some(failure) => seen.failed(Failure { page, ..failure }, asked),
            });
            Ok(answer)
        }
        Err(error) => {
            let failure = Failure { why: api_error_text(&error), page, ..Failure::default() };
            seen.send_modify(|seen| seen.failed(failure, asked));
            Err(error)
        }
    }
}

/// Reads why, and leaves the answer as it was.
async fn refused(answer: Response<Body>) -> kube::Result<(Response<Body>, Option<Failure>)> {
    let (head, body) = answer.into_parts();
    let bytes = body.collect_bytes().await?;
    let code = head.status.as_u16();
    // What stands before the API server may say something else.
    let is_status = serde_json::from_slice::<Kind>(&bytes).is_ok_and(|said| said.kind == "Status");
    let status = serde_json::from_slice::<Status>(&bytes).ok().filter(|_| is_status);
    // An API server that has too much to do says so without a Status.
    let is_busy = head.status == StatusCode::TOO_MANY_REQUESTS;
    let is_answer = is_busy || status.is_some() && !head.status.is_server_error();
    let mut failure = Failure { is_answer, ..Failure::default() };
    match status {
        Some(status) if !status.message.is_empty() => {
            failure.why = format!("{} ({code})", status.message);
            failure.lacks_right = lacks_right(&status);
        }
        _ => failure.why = format!("the answer has status {code}"),
    }
    Ok((Response::from_parts(head, Body::from(bytes)), Some(failure)))
}

/// What an answer says that it is.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

/// The last that went wrong.
#[derive(Debug, Clone, Default)]
struct Failure {
    why: String,
    /// The API server itself said so. A status of 500 and above may be that of a proxy which does not reach it.
    is_answer: bool,
    lacks_right: bool,
    /// It was a page of a list, with this query, and may be asked for again.
    page: Option<String>,
}

/// A right that is missing.
#[derive(Debug, Clone)]
struct Missing {
    /// Begin of the first request that was refused for it.
    since: Moment,
    /// What was said of that one. A later one may lack another right, and what is told stays the same.
    why: String,
}

/// When something began.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    time: Timestamp,
}

impl Moment {
    fn now() -> Self {
        Self { at: Instant::now(), time: Timestamp::now() }
    }

    fn is_long_ago(&self) -> bool {
        self.at.elapsed() >= GRACE
    }
}

#[derive(Debug, Clone, Default)]
struct Seen {
    /// Begin of the first request since the last answer.
    unanswered: Option<Moment>,
    /// Begin of the first request since the last watch that began well.
    unwatched: Option<Moment>,
    /// How many lists have begun since then.
    lists: usize,
    /// The last one since then.
    failure: Option<Failure>,
    /// Since then as well. Once it is older than [`GRACE`], whatever else goes wrong, such as a restart of the API server, does not give a right
    /// back. Before, it does: an API server that is restarted may forbid a request, and be away again.
    missing: Option<Missing>,
}

impl Seen {
    fn asked(&mut self, now: Moment, is_list: bool) {
        self.unanswered.get_or_insert(now);
        self.unwatched.get_or_insert(now);
        self.lists = self.lists.saturating_add(usize::from(is_list));
    }

    /// A list that can be had says nothing about the watch, and a page nothing but that the same one can be had.
    fn answered(&mut self, is_watch: bool, page: Option<&str>) {
        self.unanswered = None;
        if is_watch {
            self.unwatched = None;
            self.lists = 0;
            self.failure = None;
            self.missing = None;
        } else if page.is_some() {
            self.failure.take_if(|failure| failure.page.as_deref() == page);
        }
    }

    /// What was asked at this time failed.
    fn failed(&mut self, failure: Failure, asked: Moment) {
        if failure.is_answer {
            self.unanswered = None;
        }
        if failure.lacks_right {
            self.missing.get_or_insert_with(|| Missing { since: asked, why: failure.why.clone() });
        } else {
            self.missing.take_if(|missing| !missing.since.is_long_ago());
        }
        self.failure = Some(failure);
    }

    fn unanswered(&self, since: Moment) -> Away {
        let silent = match self.unanswered {
            Some(begun) if begun.is_long_ago() => "the API server does not answer",
            _ => "lists are answered, and no watch follows: something in between may answer them",
        };
        let why = self.failure.as_ref().map_or(silent, |failure| failure.why.as_str());
        Away { since: since.time, why: why.to_owned(), lacks_right: false }
    }

    /// An API server that starts forbids everything before it has read its rules, however long it was away before.
    fn unheard(&self, since: Moment) -> Away {
        match &self.missing {
            Some(missing) if missing.since.is_long_ago() => {
                Away { since: since.time, why: missing.why.clone(), lacks_right: true }
            }
            _ => self.unanswered(since),
        }
    }

    /// When the next grace is over.
    fn grace_ends(&self) -> Option<Instant> {
        let missing = self.missing.as_ref().map(|missing| missing.since);
        let begun = [self.unanswered, self.unwatched, missing].into_iter().flatten();
        begun.filter(|moment| !moment.is_long_ago()).map(|moment| moment.at + GRACE).min()
    }
}

/// What is missing for longer than [`GRACE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// When it was first asked for in vain.
    pub since: Timestamp,
    /// What the API server says of the right that is missing, else the last answer or error.
    pub why: String,
    /// Whether a watch does not hear because a right is missing: for longer than [`GRACE`] the API server has said so and nothing else went
    /// wrong, and no watch has begun since.
    pub lacks_right: bool,
}

/// What a watch has learnt so far. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Observed {
    seen: watch::Receiver<Seen>,
}

impl Observed {
    /// Whether the watch hears of changes, as far as is known.
    ///
    /// # Errors
    ///
    /// It does not, for longer than [`GRACE`].
    pub fn hears(&self) -> Result<(), Away> {
        let seen = self.seen.borrow();
        // A list of many pages may take longer. One that was answered and cannot be read is followed by the next one.
        let is_silent = seen.unanswered.is_some_and(|since| since.is_long_ago());
        let is_in_vain = seen.failure.is_some() || is_silent || seen.lists > 1;
        match seen.unwatched {
            Some(since) if is_in_vain && since.is_long_ago() => Err(seen.unheard(since)),
            _ => Ok(()),
        }
    }

    /// Whether the API server answers, as far as is known. A refusal is an answer, where the API server itself says it.
    ///
    /// # Errors
    ///
    /// It does not, for longer than [`GRACE`].
    pub fn answered(&self) -> Result<(), Away> {
        let seen = self.seen.borrow();
        match seen.unanswered {
            Some(since) if since.is_long_ago() => Err(seen.unanswered(since)),
            _ => Ok(()),
        }
    }

    /// Waits until one of these may be another one. False when the watch ended before.
    pub async fn changed(&mut self) -> bool {
        let ends = self.seen.borrow().grace_ends();
        let over = async {
            match ends {
                Some(ends) => tokio::time::sleep_until(ends).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.seen.changed() => changed.is_ok(),
            () = over => true,
        }
    }
}

#[cfg(test)]
mod tests;
