//! What runs, since when, and why what is there does not: `/providerz`, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

use crate::gate::Step;

/// A component that was put to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// What it calls itself.
    pub name: String,
    /// The version that it gives itself.
    pub version: String,
    /// `sha256:…` of the unpacked component.
    pub digest: String,
}

/// A component that was not, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// None when it did not come so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The step of the gate.
    pub step: &'static str,
    /// Why, with the way out.
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
    /// The compiler, in milliseconds.
    pub compile_ms: f64,
    /// From the compiler's end to the exchange, in milliseconds.
    pub takeover_ms: f64,
    /// The exchange itself, in milliseconds.
    pub exchange_ms: f64,
    /// From the exchange to the end of the first call that began on the new component, in milliseconds; none before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call_ms: Option<f64>,
}

/// How a provider stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Grows with every exchange.
    pub generation: u64,
    /// What the source holds and does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// How long the last exchange took; none before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name, self.version, short(&self.digest))
    }
}

impl ProviderStatus {
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
        if let (Some(phase), Some(since)) = (self.phase, &self.since) {
            line("phase", &format!("{phase}, generation {}, since {since:.0}", self.generation));
        }
        if let Some(last_good) = &self.last_good {
            line("last good", &last_good.to_string());
        }
        if let Some(Refused { digest, step, reason, since }) = &self.refused {
            let digest = digest.as_deref().map(|digest| format!("{digest} ")).unwrap_or_default();
            line("refused", &format!("{digest}at {step}, {since:.0}: {reason}"));
        }
        if let Some(times) = &self.times {
            let Times { read_ms, compile_ms, takeover_ms, exchange_ms, .. } = times;
            let times = format!(
                "read {read_ms:.0} ms, compiled {compile_ms:.0} ms, taken over {takeover_ms:.0} ms, exchanged {exchange_ms:.3} ms"
            );
            line("last load", &times);
        }
        text
    }
}

/// All providers of the process, by source. Cheap to clone.
#[derive(Clone, Default)]
pub struct ProviderStatuses(Arc<Mutex<BTreeMap<String, ProviderStatus>>>);

impl ProviderStatuses {
    /// Changes what is known of one.
    pub fn update(&self, source: &str, change: impl FnOnce(&mut ProviderStatus)) {
        change(self.0.lock().entry(source.to_owned()).or_default());
    }

    /// For people.
    pub fn text(&self) -> String {
        self.0.lock().iter().map(|(source, status)| status.text(source)).collect()
    }

    /// For programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&*self.0.lock()).unwrap_or_default() + "\n"
    }
}

impl Refused {
    /// From now on.
    pub fn now(step: Step, digest: Option<String>, reason: String) -> Self {
        Self { digest, step: step.as_str(), reason, since: Timestamp::now() }
    }
}

/// A digest as people compare it: `sha256:` and 12 digits.
pub fn short(digest: &str) -> &str {
    digest.get(.."sha256:".len() + 12).unwrap_or(digest)
}

/// For the page.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
