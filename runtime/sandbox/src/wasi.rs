//! WASI 0.2 for components of other tool chains: everything is there, and nothing can be reached through it: no
//! files, no sockets, no environment, no arguments. Clocks and random numbers work; output goes to the provider's log.

use std::sync::Arc;

use bytes::Bytes;
use ccm_egress::{CallLog, Level};
use parking_lot::Mutex;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_io::bindings::wasi::io::poll;

use crate::call::CallState;

pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    poll::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Waiting, the only part of this WASI that takes time: others compute meanwhile.
impl poll::Host for CallState {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        let turn = self.turn.clone();
        turn.waiting(poll::Host::poll(&mut self.table, pollables)).await
    }
}

impl poll::HostPollable for CallState {
    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let turn = self.turn.clone();
        turn.waiting(poll::HostPollable::block(&mut self.table, pollable)).await
    }

    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        poll::HostPollable::ready(&mut self.table, pollable).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        poll::HostPollable::drop(&mut self.table, pollable)
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let log = &self.log;
        let ctx = self.wasi.get_or_insert_with(|| deny_all(log));
        WasiCtxView { ctx, table: &mut self.table }
    }
}

fn deny_all(log: &Arc<Mutex<CallLog>>) -> WasiCtx {
    let output = |level| LogStream(Arc::new(Output { log: Arc::clone(log), level, line: Mutex::default() }));
    // A fresh builder grants nothing; sockets are switched off by kind as well.
    WasiCtx::builder()
        .stdout(output(Level::Info))
        .stderr(output(Level::Warn))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(MOST_RANDOM)
        .build()
}

/// Most random bytes that are made at once: the host has them beside the memory of the guest, which may wait for room meanwhile. More end the
/// call.
const MOST_RANDOM: u64 = 64 << 10;
/// Bytes of a line that was not finished yet; a longer one is written as several.
const LINE: usize = 4096;

/// Turns what a guest prints into lines of its log. All streams that a guest opens on an output share it.
#[derive(Clone)]
struct LogStream(Arc<Output>);

struct Output {
    log: Arc<Mutex<CallLog>>,
    level: Level,
    line: Mutex<Vec<u8>>,
}

impl Output {
    fn take(&self, bytes: &[u8]) {
        let mut line = self.line.lock();
        for &byte in bytes {
            if byte == b'\n' || line.len() >= LINE {
                self.finish(&mut line);
            }
            if byte != b'\n' {
                line.push(byte);
            }
        }
    }

    fn finish(&self, line: &mut Vec<u8>) {
        if !line.is_empty() {
            self.log.lock().write(self.level, &String::from_utf8_lossy(line), &[]);
            line.clear();
        }
    }
}

/// The call is over: what has no end of line yet is a line as well.
impl Drop for Output {
    fn drop(&mut self) {
        self.finish(&mut self.line.lock());
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for it, which is not offered.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.take(&bytes);
        Ok(())
    }

    /// Does nothing: languages flush after every piece of a line.
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LINE)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use ccm_egress::LogLimits;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
    use wasmtime_wasi::p2::bindings::random::{insecure, random};

    use super::*;

    /// Messages of the log.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            event.record(&mut self.clone());
        }
    }

    impl Visit for Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        }
    }

    /// What is in the log when a guest has printed these pieces, each of them flushed.
    fn printed(pieces: &[&[u8]], lines: usize) -> Vec<String> {
        let kept = Lines::default();
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, || {
            let log = CallLog::new("test", LogLimits { lines, line_bytes: 10_000 });
            let output = Output { log: Arc::new(Mutex::new(log)), level: Level::Info, line: Mutex::default() };
            let mut stream = LogStream(Arc::new(output));
            // Another stream on the same output, as a guest may open.
            let mut other = stream.p2_stream();
            for (number, piece) in pieces.iter().enumerate() {
                let target: &mut dyn OutputStream = if number % 2 == 0 { &mut stream } else { other.as_mut() };
                target.write(Bytes::copy_from_slice(piece)).unwrap();
                target.flush().unwrap();
            }
        });
        kept.0.lock().clone()
    }

    /// 64 MiB at once were nobody's memory: calls that waited for room had them all the same, hundreds of them at the same time.
    #[test]
    fn so_many_random_bytes_are_made_at_once_and_no_more() {
        let log = CallLog::new("test", LogLimits::default());
        let mut wasi = deny_all(&Arc::new(Mutex::new(log)));
        for (bytes, is_made) in [(0, true), (MOST_RANDOM, true), (MOST_RANDOM + 1, false), (u64::MAX, false)] {
            let secure = random::Host::get_random_bytes(wasi.random(), bytes);
            let insecure = insecure::Host::get_insecure_random_bytes(wasi.random(), bytes);
            for made in [secure, insecure] {
                let made = made.ok().map(|made| u64::try_from(made.len()).unwrap());
                assert_eq!(made, is_made.then_some(bytes));
            }
        }
    }

    #[test]
    fn pieces_become_lines_and_the_last_one_needs_no_end() {
        let cases: [(&[&[u8]], &[&str]); 5] = [
            (&[b"one\ntwo\n"], &["one", "two"]),
            (&[b"x = ", b"5", b"\n"], &["x = 5"]),
            (&[b"\n\n", b"a\n\n"], &["a"]),
            (&[b"no end"], &["no end"]),
            (&[b"not \xff text"], &["not \u{fffd} text"]),
        ];
        for (pieces, lines) in cases {
            assert_eq!(printed(pieces, 50), lines, "{pieces:?}");
        }
    }

    #[test]
    fn a_line_that_never_ends_and_lines_that_never_end_are_bounded() {
        let long = vec![b'x'; LINE * 2 + 1];
        assert_eq!(printed(&[&long, b"y\n"], 50), ["x".repeat(LINE), "x".repeat(LINE), "xy".to_owned()]);
        assert_eq!(
            printed(&[&b"line\n".repeat(1_000)], 2),
            ["line", "line", "provider logged more than 2 lines in one call, the rest is dropped"]
        );
    }
}
