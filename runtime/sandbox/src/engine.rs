//! The engine, its ticker, and the way from bytes to a [`Component`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy};

use crate::bindings::ccm::cloud;
use crate::call::CallState;
use crate::pool::Pool;
use crate::probe::Probe;
use crate::provider::Linked;
use crate::{Component, EngineError, Limits, LoadError, Outline, wasi};

/// How often a computing guest is looked at. Calls yield to others on every tick.
pub const TICK: Duration = Duration::from_millis(10);

/// Stack of guest code, in bytes. Rust's default for a thread is four times as much, for deeper work than a provider does.
const WASM_STACK: usize = 512 << 10;
/// Stack of a call, guest and host functions together, in bytes.
const CALL_STACK: usize = 1 << 20;

/// One engine for all providers of the process. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    engine: Engine,
    /// Offers the contract and nothing else.
    plain: Arc<Linker<CallState>>,
    /// Offers the deny-all WASI as well.
    with_wasi: Arc<Linker<CallState>>,
    /// Compiling takes all of a core and tens of megabytes: one at a time.
    compiling: Arc<Semaphore>,
    /// As many as [`Pool::calls`].
    places: Arc<Semaphore>,
    probe: Probe,
}

impl Sandbox {
    /// Starts an engine and its ticker thread, which ends with the last clone.
    ///
    /// # Errors
    ///
    /// When the engine does not run on this machine, or the thread cannot be started.
    pub fn try_new() -> Result<Self, EngineError> {
        Self::with_pool(Pool::default())
    }

    /// The same, with other places for calls.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::try_new`], and when the places are more than this machine can address.
    pub fn with_pool(pool: Pool) -> Result<Self, EngineError> {
        Self::start(pool, Probe::default()).map_err(EngineError)
    }

    /// An engine whose guests are looked into at the end of every call, failed ones included. Their code is slower.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::with_pool`].
    #[cfg(feature = "memory-probe")]
    pub fn with_memory_probe(pool: Pool, probe: crate::MemoryProbe) -> Result<Self, EngineError> {
        Self::start(pool, Probe::new(probe)).map_err(EngineError)
    }

    fn start(pool: Pool, probe: Probe) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        probe.prepare(&mut config);
        config.epoch_interruption(true);
        config.max_wasm_stack(WASM_STACK);
        config.async_stack_size(CALL_STACK);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool.config()));
        let engine = Engine::new(&config)?;
        tick(&engine)?;
        let plain = contract(&engine)?;
        let mut with_wasi = contract(&engine)?;
        wasi::add_to_linker(&mut with_wasi)?;
        Ok(Self {
            engine,
            plain: Arc::new(plain),
            with_wasi: Arc::new(with_wasi),
            compiling: Arc::new(Semaphore::new(1)),
            places: Arc::new(Semaphore::new(usize::try_from(pool.calls.get()).unwrap_or(Semaphore::MAX_PERMITS))),
            probe,
        })
    }

    /// Checks, compiles, links and describes a component. Compiling happens on a thread of its own. `wasi` says whether a
    /// component that asks for WASI gets the one that denies everything, or is refused.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: nothing of the component stays.
    pub async fn load(&self, bytes: Vec<u8>, limits: Limits, wasi: bool) -> Result<Component, LoadError> {
        // Closed never: this struct holds it.
        let turn = Arc::clone(&self.compiling).acquire_owned().await;
        let sandbox = self.clone();
        let work = move || {
            // Kept here: who gives up waiting does not stop the compiler.
            let _turn = turn;
            let outline = Outline::read(&bytes, &limits, wasi)?;
            let start = Instant::now();
            let compiled = wasmtime::component::Component::new(&sandbox.engine, &bytes).map_err(LoadError::Compile)?;
            let linker = if outline.needs_wasi() { &sandbox.with_wasi } else { &sandbox.plain };
            let pre = linker.instantiate_pre(&compiled).map_err(LoadError::Types)?;
            let linked = Linked::try_new(pre, &outline.exports, sandbox.places, sandbox.probe)?;
            Ok((outline, linked, start.elapsed()))
        };
        let compiled = tokio::task::spawn_blocking(work).await;
        // A panic of the compiler is the component's fault, and not the end of the host.
        let (outline, linked, compiling) =
            compiled.map_err(|panic| LoadError::Compile(wasmtime::Error::new(panic)))??;
        linked.described(outline, limits, compiling).await
    }
}

/// An OS thread: a task would starve together with the guests that it should interrupt.
fn tick(engine: &Engine) -> wasmtime::Result<()> {
    let weak = engine.weak();
    let ticker = move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            // Not held while sleeping, so that the engine can go.
            drop(engine);
            #[expect(clippy::disallowed_methods, reason = "this thread does nothing but sleep and tick")]
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("epoch".to_owned()).spawn(ticker).map(drop).map_err(wasmtime::Error::new)
}

fn contract(engine: &Engine) -> wasmtime::Result<Linker<CallState>> {
    const fn state(state: &mut CallState) -> &mut CallState {
        state
    }
    let mut linker = Linker::new(engine);
    cloud::types::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::http::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::credentials::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::settings::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::cache::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::clock::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::log::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::events::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    cloud::nodes::add_to_linker::<_, HasSelf<CallState>>(&mut linker, state)?;
    Ok(linker)
}
