//! The import `log`: a provider's lines in the host's log, within bounds.

use crate::one_line::line;
use crate::process_secrets::ProcessSecrets;

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Details of one decision.
    Debug,
    /// A change of state.
    Info,
    /// Degraded, goes on.
    Warn,
    /// A person should look.
    Error,
}

/// How much one call may log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Lines per call. Default 50; then one line says how many were dropped.
    pub lines: usize,
    /// Bytes per line, fields included. Default 4,096; the rest is cut and marked with `…`.
    pub line_bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { lines: 50, line_bytes: 4096 }
    }
}

/// The lines of one call. Says on drop how many were too many.
pub struct CallLog {
    provider: String,
    limits: LogLimits,
    written: usize,
    dropped: usize,
    /// What no line shows.
    secrets: ProcessSecrets,
}

impl CallLog {
    /// The log of a call to `provider`.
    #[must_use]
    pub fn new(provider: &str, limits: LogLimits) -> Self {
        Self { provider: provider.to_owned(), limits, written: 0, dropped: 0, secrets: ProcessSecrets::default() }
    }

    /// No line shows these.
    #[must_use]
    pub fn without(mut self, secrets: ProcessSecrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Writes a line, or counts it as dropped.
    pub fn write(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        if self.written >= self.limits.lines {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        self.written = self.written.saturating_add(1);
        let pieces = fields.iter().flat_map(|(name, value)| [" ", name.as_str(), "=", value.as_str()]);
        let whole = joined(std::iter::once(message).chain(pieces), self.limits.line_bytes.saturating_mul(2));
        let line = line(&self.secrets.veil().text(&whole), self.limits.line_bytes);
        let provider = self.provider.as_str();
        match level {
            Level::Debug => tracing::debug!(target: "provider", provider, "{line}"),
            Level::Info => tracing::info!(target: "provider", provider, "{line}"),
            Level::Warn => tracing::warn!(target: "provider", provider, "{line}"),
            Level::Error => tracing::error!(target: "provider", provider, "{line}"),
        }
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        if self.dropped > 0 {
            tracing::warn!(
                provider = self.provider,
                dropped = self.dropped,
                "provider logged more than {} lines in one call, the rest is dropped",
                self.limits.lines
            );
        }
    }
}

/// All pieces, as far as there is room: what is cut off could not be shown, unless a line of secrets gets shorter without them.
fn joined<'a>(pieces: impl Iterator<Item = &'a str>, room: usize) -> String {
    // A secret at the end of what is shown is still whole.
    const MORE: usize = 256 << 10;
    let mut joined = String::new();
    for piece in pieces {
        let left = room.saturating_add(MORE).saturating_sub(joined.len());
        joined.push_str(piece.get(..piece.floor_char_boundary(left)).unwrap_or_default());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_line_the_rest_is_counted() {
        let mut log = CallLog::new("test", LogLimits { lines: 3, line_bytes: 100 });
        for _ in 0..10 {
            log.write(Level::Info, "again", &[]);
        }
        assert_eq!((log.written, log.dropped), (3, 7));
    }
}
