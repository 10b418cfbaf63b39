//! Beside whom a dry run works: who holds the Lease for which this process would be a candidate without `--dry-run`. It only reads it.
//!
//! As candidates do, it believes no time that somebody else wrote: a Lease is held while its record changes, and for as long after that as its
//! holder wants to be waited for, up to [`LONGEST`].

use std::mem::discriminant;
use std::time::Duration;

use ccm_apiserver::causes;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::lease::{holder, promised, shown};

/// From one look at the Lease to the next.
const PERIOD: Duration = Duration::from_secs(5);
/// For one look.
const LIMIT: Duration = Duration::from_secs(10);
/// What a holder promises that does not say.
const PROMISED: Duration = Duration::from_secs(15);
/// No holder is waited for longer here, whatever it promises: nobody waits for it to lead, and whoever writes one Lease may promise 68 years.
/// OpenShift's managers promise 137 s and renew every 26 s; ours promise 15 s.
const LONGEST: Duration = PROMISED.saturating_mul(10);

/// What is in it can be [shown].
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Held(String),
    Nobodys,
    Unknown(String),
}

/// What pages say of the other manager. Cheap to clone.
#[derive(Clone, Default)]
pub struct Beside(watch::Sender<Option<String>>);

impl Beside {
    /// One line; none while nobody has found out.
    pub fn line(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Looks until it is dropped.
    pub async fn follow(self, client: Client, namespace: String, lease: String) {
        let api: Api<Lease> = Api::namespaced(client, &namespace);
        let place = format!("{namespace}/{lease}");
        let read = move || {
            let (api, lease) = (api.clone(), lease.clone());
            async move {
                match timeout(LIMIT, api.get_opt(&lease)).await {
                    Ok(Err(kube::Error::Api(status))) => Err(format!("{} ({})", status.message, status.code)),
                    Ok(answer) => answer.map_err(|error| causes(&error)),
                    Err(_elapsed) => Err(format!("no answer within {LIMIT:?}")),
                }
            }
        };
        self.look(&place, read).await;
    }

    async fn look<F: Future<Output = Result<Option<Lease>, String>>>(self, lease: &str, read: impl Fn() -> F) {
        let (mut record, mut known) = (Record::default(), None);
        loop {
            if let Some(now) = record.take(read().await) {
                let line = told(lease, &now);
                let is_news = match (&known, &now) {
                    // The same trouble has many words.
                    (Some(before), Standing::Unknown(_)) => discriminant(before) != discriminant(&now),
                    (before, now) => before.as_ref() != Some(now),
                };
                match now {
                    _ if !is_news => {}
                    Standing::Held(_) => tracing::info!("dry run: {line}"),
                    Standing::Nobodys | Standing::Unknown(_) => tracing::warn!("dry run: {line}"),
                }
                known = Some(now);
                self.0.send_replace(Some(line));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}

fn told(lease: &str, standing: &Standing) -> String {
    match standing {
        Standing::Held(holder) => format!("beside {holder}, which holds Lease {lease}"),
        Standing::Nobodys => format!(
            "beside nobody: no manager holds Lease {lease}, so none is at work, unless it has another Lease \
             (--leader-elect-resource-name) or none (--leader-elect=false). To let this process do the work, take --dry-run away"
        ),
        Standing::Unknown(why) => format!("who holds Lease {lease} cannot be read: {why}"),
    }
}

/// What was last in the Lease, and when it changed.
#[derive(Default)]
struct Record {
    last: Option<(Lease, Instant)>,
    /// Whether it has changed while we looked.
    has_moved: bool,
}

impl Record {
    /// How the Lease stands; none where that is not known yet.
    fn take(&mut self, read: Result<Option<Lease>, String>) -> Option<Standing> {
        let lease = match read {
            Ok(Some(lease)) if !holder(&lease).is_empty() => lease,
            Ok(_) => {
                *self = Self { last: None, has_moved: true };
                return Some(Standing::Nobodys);
            }
            Err(why) => return Some(Standing::Unknown(shown(&why))),
        };
        let now = Instant::now();
        let same = self.last.as_ref().filter(|(before, _)| before.spec == lease.spec);
        // The first one may be years old.
        self.has_moved |= self.last.is_some() && same.is_none();
        let since = same.map_or(now, |(_, since)| *since);
        let (name, patience) = (shown(holder(&lease)), promised(&lease).unwrap_or(PROMISED).min(LONGEST));
        self.last = Some((lease, since));
        if now.saturating_duration_since(since) > patience.saturating_add(PERIOD) {
            self.has_moved = false;
            return Some(Standing::Nobodys);
        }
        self.has_moved.then_some(Standing::Held(name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ccm_cloud::is_plain;
    use ccm_fake_api::{Lines, Log};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// What is read at each look.
    enum Reads {
        None,
        Renewed(&'static str),
        Left(&'static str),
        /// Not renewed, and wants to be waited for so many seconds.
        Promises(&'static str, i32),
        Fails(&'static str),
    }

    #[tokio::test(start_paused = true)]
    async fn who_works_beside_a_dry_run_is_told_once_per_change_and_that_nobody_does_as_well() {
        let lines = Lines::start();
        let (reads, looks) = (Mutex::new(Reads::Left("old_1")), AtomicUsize::new(0));
        let read = || async {
            let renewed = looks.fetch_add(1, Ordering::Relaxed);
            let lease = |holder: &str, renewals: usize, seconds: i32| {
                let spec =
                    json!({ "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": renewals });
                serde_json::from_value(json!({ "metadata": { "name": "ccm" }, "spec": spec })).unwrap()
            };
            match &*reads.lock() {
                Reads::None => Ok(None),
                Reads::Renewed(holder) => Ok(Some(lease(holder, renewed, 15))),
                Reads::Left(holder) => Ok(Some(lease(holder, 0, 15))),
                Reads::Promises(holder, seconds) => Ok(Some(lease(holder, 0, *seconds))),
                // An error with a time in it.
                Reads::Fails(why) => Err(format!("{why} {renewed}")),
            }
        };
        let beside = Beside::default();
        let mut work = std::pin::pin!(beside.clone().look("kube-system/ccm", read));
        let mut after = async |seconds: u64| {
            assert!(timeout(Duration::from_secs(seconds), work.as_mut()).await.is_err(), "it never ends");
            (beside.line(), lines.take())
        };
        assert_eq!(after(14).await, (None, 0), "the holder of before may live");
        for (next, seconds, line, said) in [
            (Reads::Left("old_1"), 600, "beside nobody: no manager holds Lease kube-system/ccm, ", 1),
            (Reads::Renewed("other_1"), 600, "beside other_1, which holds Lease kube-system/ccm", 1),
            (Reads::Renewed("other_2"), 600, "beside other_2, which holds Lease kube-system/ccm", 1),
            // Its leader is restarted at once.
            (Reads::Left("other_2"), 12, "beside other_2, ", 0),
            (Reads::Renewed("other_2"), 600, "beside other_2, ", 0),
            (Reads::Fails("503"), 600, "who holds Lease kube-system/ccm cannot be read: 503 ", 1),
            (Reads::Renewed("other_2"), 600, "beside other_2, ", 1),
            (Reads::Left("other_2"), 600, "beside nobody: ", 1),
            (Reads::Left(""), 600, "beside nobody: ", 0),
            (Reads::None, 600, "beside nobody: ", 0),
            (Reads::Renewed("other_1"), 600, "beside other_1, ", 1),
            // As long as some managers want, and 68 years.
            (Reads::Promises("other_1", 137), 130, "beside other_1, ", 0),
            (Reads::Promises("other_1", i32::MAX), 600, "beside nobody: ", 1),
            (Reads::Renewed("other_1"), 600, "beside other_1, ", 1),
            (Reads::None, 600, "beside nobody: ", 1),
        ] {
            *reads.lock() = next;
            let (told, lines) = after(seconds).await;
            let told = told.unwrap();
            assert!(told.starts_with(line) && lines == said, "{line}: {told}, {lines} lines");
        }
    }

    /// Holders that alternate once filled the log, and a holder could write checks that fail and lines of the log.
    #[tokio::test(start_paused = true)]
    async fn whatever_a_holder_or_the_api_server_says_is_one_short_line() {
        let log = Log::start();
        let long = "\u{fc}".repeat(1 << 19);
        let looks = AtomicUsize::new(0);
        let read = || async {
            let look = looks.fetch_add(1, Ordering::Relaxed);
            let text = format!("other_{look}\n[-]component failed: \u{1b}[2J{long}\n[+]dry-run ok");
            if look % 4 == 3 {
                return Err(text);
            }
            let spec = json!({ "holderIdentity": text, "leaseTransitions": look });
            Ok(Some(serde_json::from_value(json!({ "metadata": { "name": "ccm" }, "spec": spec })).unwrap()))
        };
        let beside = Beside::default();
        let work = beside.clone().look("kube-system/ccm", read);
        assert!(timeout(Duration::from_secs(42), work).await.is_err(), "it never ends");
        let said = log.lines("");
        let count = |text: &str| log.lines(text).len();
        let counts = [
            count(": dry run: beside other_1 [-]component failed:  [2J"),
            count(": dry run: who holds Lease kube-system/ccm cannot be read: other_3 [-]component failed:  [2J"),
        ];
        assert_eq!((counts, said.len()), ([1, 1], 8));
        for line in said.iter().chain(&beside.line()) {
            let is_short = line.chars().count() < 400 && line.chars().all(is_plain) && line.contains("\u{fc}\u{2026}");
            assert!(is_short, "{} bytes: {line:.300}", line.len());
        }
    }
}
