//! WASI 0.2 for components of other tool chains: everything is there, and everything is denied. No files, no sockets, no
//! environment, no arguments; output goes to the provider's log.

use std::sync::Arc;

use bytes::Bytes;
use ccm_egress::log::{CallLog, Level};
use parking_lot::Mutex;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::call::CallState;

pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let log = &self.log;
        let ctx = self.wasi.get_or_insert_with(|| deny_all(log));
        WasiCtxView { ctx, table: &mut self.table }
    }
}

fn deny_all(log: &Arc<Mutex<CallLog>>) -> WasiCtx {
    let output = |level| LogStream { log: Arc::clone(log), level, line: Arc::default() };
    // A fresh builder grants nothing; sockets are switched off by kind as well.
    WasiCtx::builder()
        .stdout(output(Level::Info))
        .stderr(output(Level::Warn))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// Bytes of a line that was not finished yet; a longer one is written as several.
const LINE: usize = 4096;

/// Turns what a guest prints into lines of its log.
#[derive(Clone)]
struct LogStream {
    log: Arc<Mutex<CallLog>>,
    level: Level,
    /// Shared by all streams that a guest opens on this output.
    line: Arc<Mutex<Vec<u8>>>,
}

impl LogStream {
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
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.finish(&mut self.line.lock());
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LINE)
    }
}
