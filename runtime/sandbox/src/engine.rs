//! The engine, and the way from bytes to a [`Component`].

use std::sync::Arc;

use ccm_egress::MemoryBudget;
use rayon::ThreadPoolBuilder;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, RegallocAlgorithm};

use crate::bindings::ccm::cloud;
use crate::call::{CallState, Home};
use crate::pool::Pool;
use crate::probe::Probe;
use crate::provider::{Effort, Linked};
use crate::{Component, ComponentSummary, EngineError, Limits, LoadError, Provider, epoch, wasi};

/// Stack of guest code, in bytes. Rust's default for a thread is four times as much, for deeper work than a provider does.
const WASM_STACK: usize = 512 << 10;
/// Stack of a call, guest and host functions together, in bytes.
const CALL_STACK: usize = 1 << 20;
/// A module whose only function adds numbers that nobody gave it.
const INVALID: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x05\x01\x03\0\x6a\x0b";

/// An engine, and what it offers to components.
struct Machine {
    engine: Engine,
    effort: Effort,
    /// Offers the contract and nothing else.
    plain: Linker<CallState>,
    /// Offers the deny-all WASI as well.
    with_wasi: Linker<CallState>,
}

/// The engines of all providers of the process. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    machine: Arc<Machine>,
    /// For engines that live as long as the code that was made in a hurry.
    pool: Pool,
    /// Compiling takes tens of megabytes, and one or all of the cores: one at a time.
    compiling: Arc<Semaphore>,
    home: Home,
}

impl Machine {
    fn start(pool: Pool, probe: &Probe, effort: Effort) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        probe.prepare(&mut config);
        config.epoch_interruption(true);
        config.max_wasm_stack(WASM_STACK);
        config.async_stack_size(CALL_STACK);
        // A stack that a guest filled would stay in memory, as many as there were calls at once.
        config.async_stack_zeroing(true);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool.config()));
        config.parallel_compilation(effort == Effort::Quick);
        if effort == Effort::Quick {
            config.cranelift_opt_level(OptLevel::None);
            config.cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
        }
        let engine = Engine::new(&config)?;
        epoch::start_thread(&engine)?;
        let plain = contract(&engine)?;
        let mut with_wasi = contract(&engine)?;
        wasi::add_to_linker(&mut with_wasi)?;
        Ok(Self { engine, effort, plain, with_wasi })
    }

    fn compile(&self, bytes: &[u8], summary: &ComponentSummary, home: &Home) -> Result<Linked, LoadError> {
        let compiled = wasmtime::component::Component::new(&self.engine, bytes);
        self.forget_workspace();
        let compiled = compiled.map_err(LoadError::Compile)?;
        let linker = if summary.needs_wasi() { &self.with_wasi } else { &self.plain };
        let pre = linker.instantiate_pre(&compiled).map_err(LoadError::Types)?;
        Linked::try_new(pre, &summary.exports, self.effort, home.clone(), summary.instance_bytes())
    }

    /// An engine keeps what it compiled the largest function with for the next component: megabytes, which a process that waits has no
    /// use for. wasmtime has no call that frees them, but a function that turns out to be invalid takes them along.
    fn forget_workspace(&self) {
        let refused = wasmtime::Module::new(&self.engine, INVALID);
        debug_assert!(refused.is_err(), "the module is valid");
    }
}

impl Sandbox {
    /// Starts an engine and its [epoch thread](crate::TICK), which ends with the last clone.
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
        Ok(Self {
            machine: Arc::new(Machine::start(pool, &probe, Effort::Full)?),
            pool,
            compiling: Arc::new(Semaphore::new(1)),
            home: Home {
                places: Arc::new(Semaphore::new(usize::try_from(pool.calls.get()).unwrap_or(Semaphore::MAX_PERMITS))),
                memory: MemoryBudget::new(pool.memory_bytes, pool.providers),
                probe,
            },
        })
    }

    /// The memory of all calls.
    #[must_use]
    pub fn memory(&self) -> MemoryBudget {
        self.home.memory.clone()
    }

    /// Checks, compiles, links and describes a component. Compiling happens on a thread of its own. `wasi` says whether a
    /// component that asks for WASI gets the one that denies everything, or is refused.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: nothing of the component stays.
    pub async fn load(&self, bytes: Vec<u8>, limits: Limits, wasi: bool) -> Result<Component, LoadError> {
        self.load_with(bytes, limits, wasi, Effort::Full).await
    }

    /// The same several times sooner, with code that is several times slower: for a provider that is waited for.
    /// [`optimise`](Self::optimise) makes up for it later.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub async fn load_in_a_hurry(&self, bytes: Vec<u8>, limits: Limits, wasi: bool) -> Result<Component, LoadError> {
        self.load_with(bytes, limits, wasi, Effort::Quick).await
    }

    /// Compiles the component of a provider that was [loaded in a hurry](Self::load_in_a_hurry) again. The provider runs the
    /// better code from its next call on; for everybody else it stays what it is.
    ///
    /// # Errors
    ///
    /// It goes on with the code that it has.
    pub async fn optimise(&self, provider: &Provider, bytes: Vec<u8>, wasi: bool) -> Result<(), LoadError> {
        let component = self.load_with(bytes, provider.settings.limits, wasi, Effort::Full).await?;
        provider.run_code_of(component)
    }

    /// Whoever is in a hurry has an engine of its own, which ends with the code: a second one for good would cost memory for nothing.
    fn machine_for(&self, effort: Effort) -> Arc<Machine> {
        let quick = match effort {
            Effort::Quick => Machine::start(self.pool, &self.home.probe, effort).map(Arc::new).ok(),
            Effort::Full => None,
        };
        quick.unwrap_or_else(|| Arc::clone(&self.machine))
    }

    async fn load_with(
        &self,
        bytes: Vec<u8>,
        limits: Limits,
        wasi: bool,
        effort: Effort,
    ) -> Result<Component, LoadError> {
        let start = Instant::now();
        // Never closed: `self` owns it.
        let turn = Arc::clone(&self.compiling).acquire_owned().await;
        let waited = start.elapsed();
        let sandbox = self.clone();
        let work = move || {
            // Kept here: who gives up waiting does not stop the compiler.
            let _turn = turn;
            let summary = ComponentSummary::read(&bytes, &limits, wasi)?;
            let start = Instant::now();
            let linked =
                on_threads_of_its_own(effort, || sandbox.machine_for(effort).compile(&bytes, &summary, &sandbox.home))?;
            Ok((summary, linked, waited.saturating_add(start.elapsed())))
        };
        let compiled = tokio::task::spawn_blocking(work).await;
        // A panic of the compiler is the component's fault, and not the end of the host.
        let (summary, linked, compiling) =
            compiled.map_err(|panic| LoadError::Compile(wasmtime::Error::new(panic)))??;
        linked.described(summary, limits, compiling).await
    }
}

/// Threads that have compiled keep memory that the allocator gave them, for as long as they live: a megabyte for good, if they were those of
/// the process. Without threads to be had it is done on those.
fn on_threads_of_its_own<T: Send>(effort: Effort, work: impl FnOnce() -> T + Send) -> T {
    let threads = match effort {
        Effort::Quick => 0, // one for each core
        Effort::Full => 1,
    };
    match ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "compiler".to_owned()).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that is refused before the compiler begins would free nothing.
    #[test]
    fn the_invalid_module_is_refused_for_the_body_of_its_function() {
        let sandbox = Sandbox::try_new().unwrap();
        let refused = wasmtime::Module::new(&sandbox.machine.engine, INVALID).unwrap_err();
        assert!(format!("{refused:#}").contains("type mismatch"), "{refused:#}");
    }
}
