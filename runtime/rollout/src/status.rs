//! The page `/providerz`, as text and as JSON: which component serves, since when, and why a newer one does not.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ccm_egress::line;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::gate::{MAX_REASON, Step};
use crate::release::Version;
use crate::slot::SlotStanding;

/// Takes what must be true of a provider before the process is ready: the name of the check, and why it does not hold.
pub type Readiness = Arc<dyn Fn(&str, Result<(), String>) + Send + Sync>;

/// Longest line about a credential, in bytes.
const MAX_LINE: usize = 2048;

/// A component that was not, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotTaken {
    /// As the step has it: see [`Rejected::digest`](crate::gate::Rejected::digest).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The step of the gate.
    pub step: &'static str,
    /// Why, with the way out.
    pub reason: String,
    /// Since when it is known to be so.
    pub since: Timestamp,
}

/// A credential in use whose source gives no value any more: the value that was read last stays in use until the process ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableCredential {
    /// Its name.
    pub credential: String,
    /// Why, with the source and the way out, in a line.
    pub reason: String,
    /// Since when it is known to be so.
    pub since: Timestamp,
}

/// How long the last exchange took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// From the change to the bytes, in milliseconds: with the time in which they had to stay the same.
    pub read_ms: f64,
    /// The compiler, in milliseconds, with the wait for it: it compiles one component at a time.
    pub compile_ms: f64,
    /// From the unpacked bytes to the end of the exchange, without the compiler, in milliseconds: all other steps of the gate.
    pub takeover_ms: f64,
    /// The exchange itself, in milliseconds.
    pub exchange_ms: f64,
    /// From the exchange to the end of the first call that began on the new component, in milliseconds; none before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call_ms: Option<f64>,
}

/// What the page says of a provider. Whoever changes it says all of one moment at once: see [`ProviderStatuses::change`].
#[derive(Default)]
pub(crate) struct Known {
    /// How its components stand; none before the first one was taken.
    pub(crate) standing: Option<SlotStanding<Arc<Version>>>,
    /// What its source holds and does not serve.
    pub(crate) not_taken: Option<NotTaken>,
    /// What the files of its configuration say, and does not count.
    pub(crate) rejected_configuration: Option<NotTaken>,
    /// Credentials of the one that serves which cannot be read any more.
    pub(crate) unreadable: Vec<UnreadableCredential>,
    /// How long the last exchange took.
    pub(crate) times: Option<Times>,
}

/// How a provider stands, as it is shown.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// Who serves; none before the first one was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<Version>,
    /// `probation` or `proven`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// Who returns when the one that serves fails its probation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good: Option<Version>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Grows with every exchange of the component or of its configuration.
    pub generation: u64,
    /// What the source holds and does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<NotTaken>,
    /// Why the one that serves does not use what the files of its configuration say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_configuration: Option<NotTaken>,
    /// Credentials that it uses and that cannot be read any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable_credentials: Vec<UnreadableCredential>,
    /// How long the last exchange took; none before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
}

impl Known {
    fn status(&self) -> ProviderStatus {
        let standing = self.standing.as_ref();
        let candidate = standing.filter(|standing| standing.is_on_probation());
        ProviderStatus {
            serving: standing.map(|standing| Version::clone(standing.serving())),
            phase: standing.map(|standing| if standing.is_on_probation() { "probation" } else { "proven" }),
            last_good: candidate.map(|standing| Version::clone(&standing.proven)),
            since: standing.map(|standing| standing.since),
            generation: standing.map_or(0, |standing| standing.generation),
            refused: self.not_taken.clone(),
            refused_configuration: self.rejected_configuration.clone(),
            unreadable_credentials: self.unreadable.clone(),
            times: self.times,
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read_ms, compile_ms, takeover_ms, exchange_ms, .. } = self;
        write!(
            f,
            "read {read_ms:.0} ms, compiled {compile_ms:.0} ms, taken over {takeover_ms:.0} ms, exchanged {exchange_ms:.3} ms"
        )
    }
}

impl ProviderStatus {
    /// The phase of the one that serves, its generation, and since when.
    #[must_use]
    pub fn phase_text(&self) -> Option<String> {
        let (phase, since) = self.phase.zip(self.since.as_ref())?;
        Some(format!("{phase}, generation {}, since {since:.0}", self.generation))
    }

    fn text(&self, source: &str) -> String {
        let mut text = format!("provider {source}\n");
        let mut line = |name: &str, value: &str| {
            // A String takes everything.
            let _written = writeln!(text, "  {name:11} {value}");
        };
        match &self.serving {
            Some(serving) => {
                line("serving", &format!("{} {}", serving.name, serving.version));
                line("digest", &serving.digest);
            }
            None => line("serving", "none yet: nothing is written to the cluster for it"),
        }
        if let Some(phase) = self.phase_text() {
            line("phase", &phase);
        }
        if let Some(last_good) = &self.last_good {
            line("last good", &last_good.to_string());
        }
        if let Some(refused) = &self.refused {
            let digest = refused.digest.as_deref().map(|digest| format!("{digest} ")).unwrap_or_default();
            line("refused", &format!("{digest}{}: {}", refused.at(), refused.reason));
        }
        if let Some(refused) = &self.refused_configuration {
            line("config", &format!("refused {}: {}", refused.at(), refused.reason));
        }
        for unreadable in &self.unreadable_credentials {
            line("credential", &unreadable.to_string());
        }
        if let Some(times) = &self.times {
            line("last load", &times.to_string());
        }
        text
    }
}

/// Something that a provider's source or its files hold, and that is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusal {
    /// The source.
    pub source: String,
    /// Who serves instead; none where nobody does.
    pub serving: Option<String>,
    /// Whether it is a configuration; else a component.
    pub is_configuration: bool,
    /// The step of the gate.
    pub step: String,
    /// Why, with the way out.
    pub reason: String,
}

/// All providers of the process, by source. Cheap to clone.
#[derive(Clone, Default)]
pub struct ProviderStatuses(Arc<Mutex<BTreeMap<String, Known>>>);

impl ProviderStatuses {
    /// Something else is to be said of a provider; readers see all of it or nothing.
    pub(crate) fn change(&self, source: &str, change: impl FnOnce(&mut Known)) {
        change(self.0.lock().entry(source.to_owned()).or_default());
    }

    /// How each stands now, by source.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, ProviderStatus> {
        self.0.lock().iter().map(|(source, known)| (source.clone(), known.status())).collect()
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        self.all().iter().map(|(source, status)| status.text(source)).collect()
    }

    /// What they hold and do not use.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let of = |source: &str, known: &Known| {
            let serving = known.standing.as_ref().map(|standing| standing.serving().to_string());
            let refusal = |is_configuration| {
                let (source, serving) = (source.to_owned(), serving.clone());
                move |NotTaken { step, reason, .. }: &NotTaken| Refusal {
                    source: source.clone(),
                    serving: serving.clone(),
                    is_configuration,
                    step: (*step).to_owned(),
                    reason: reason.clone(),
                }
            };
            let component = known.not_taken.as_ref().map(refusal(false));
            component.into_iter().chain(known.rejected_configuration.as_ref().map(refusal(true)))
        };
        self.0.lock().iter().flat_map(|(source, known)| of(source, known)).collect()
    }

    /// Which credentials in use cannot be read any more, in a line each. The process is ready all the same: it works with what it has read.
    #[must_use]
    pub fn unreadable(&self) -> Vec<String> {
        let of = |source: &str, known: &Known| {
            let told = |one: &UnreadableCredential| line(&format!("provider {source}: credential {one}"), MAX_LINE);
            known.unreadable.iter().map(told).collect::<Vec<_>>()
        };
        self.0.lock().iter().flat_map(|(source, known)| of(source, known)).collect()
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.all()).unwrap_or_default() + "\n"
    }
}

impl UnreadableCredential {
    /// From now on.
    pub(crate) fn now(credential: String, reason: String) -> Self {
        Self { credential, reason, since: Timestamp::now() }
    }
}

impl fmt::Display for UnreadableCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, since, .. } = self;
        write!(
            f,
            "unreadable since {since:.0}: {reason}; the value that was read last stays in use until this process ends"
        )
    }
}

impl NotTaken {
    /// From now on. The reason may be the word of anybody: it makes no lines of its own.
    pub fn now(step: Step, digest: Option<String>, reason: &str) -> Self {
        Self { digest, step: step.as_str(), reason: line(reason, MAX_REASON), since: Timestamp::now() }
    }

    /// The step of the gate, and since when.
    #[must_use]
    pub fn at(&self) -> String {
        format!("at {}, {:.0}", self.step, self.since)
    }
}

/// For the page.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
