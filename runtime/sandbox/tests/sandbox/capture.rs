//! Keeps what this thread logs. Tests that use it run on a single thread.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Lines are kept until this is dropped.
pub(crate) struct Capture {
    lines: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// ` name=value` of every field.
    pub(crate) fields: String,
}

impl Capture {
    pub(crate) fn start() -> Self {
        everywhere();
        let lines = Arc::new(Mutex::default());
        let subscriber = tracing_subscriber::registry().with(Keep(Arc::clone(&lines)));
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Lines of the provider itself since the last time that somebody asked, and those of the host about it.
    pub(crate) fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.lines.lock())
    }
}

/// While there is one subscriber, a place that logs asks that of the thread which comes by first whether to be silent for
/// ever, and other tests have none.
pub(crate) fn everywhere() {
    static EVERYWHERE: Once = Once::new();
    EVERYWHERE.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}

struct Keep(Arc<Mutex<Vec<Line>>>);

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !matches!(event.metadata().target(), "provider" | "ccm_egress::log") {
            return;
        }
        let mut line = Line { level: *event.metadata().level(), message: String::new(), fields: String::new() };
        event.record(&mut line);
        self.0.lock().push(line);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.unwrap();
    }
}

/// A line that the guest wrote.
pub(crate) fn guest_line(level: Level, message: &str) -> Line {
    Line { level, message: message.to_owned(), fields: " provider=\"hostile\"".to_owned() }
}
