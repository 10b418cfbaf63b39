//! What this thread logs while a test runs.

use std::io::{Result, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// With nobody listening in another thread, a line met there first could be switched off for this one as well.
fn listen() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| drop(tracing::subscriber::set_global_default(tracing_subscriber::registry())));
}

/// How many lines the thread that started it logs, of whichever level, to its end.
pub struct Lines {
    count: Arc<AtomicUsize>,
    _guard: DefaultGuard,
}

struct Counting(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Counting {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Lines {
    /// Begins to count.
    #[must_use]
    pub fn start() -> Self {
        listen();
        let count: Arc<AtomicUsize> = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Counting(Arc::clone(&count)));
        Self { count, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Those since the last time.
    #[must_use]
    pub fn take(&self) -> usize {
        self.count.swap(0, Ordering::Relaxed)
    }
}

/// The log of the thread that started it, to its end.
pub struct Log {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Log {
    /// Begins to listen.
    #[must_use]
    pub fn start() -> Self {
        Self::with(FmtSpan::NONE)
    }

    /// With a line for each span that has ended.
    #[must_use]
    pub fn with_spans() -> Self {
        Self::with(FmtSpan::CLOSE)
    }

    fn with(spans: FmtSpan) -> Self {
        listen();
        let text = Text::default();
        let kept = text.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_span_events(spans);
        let subscriber = subscriber.with_writer(move || kept.clone()).finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Lines that contain `part`.
    #[must_use]
    pub fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.text.0.lock().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(ToOwned::to_owned).collect()
    }
}
