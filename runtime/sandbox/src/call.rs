//! One call: runs in a fresh store and instance under all limits, and drops both afterwards.

mod span;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_cloud::{EventSink, Service};
use ccm_egress::{
    CallLog, CallMemory, CallScope, Class, FailedRequests, MemoryBudget, MemoryShare, NoRoom, ProviderContext,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument as _;
use wasmtime::component::{Instance, InstancePre, ResourceTable};
use wasmtime::{Store, StoreContextMut, Trap, UpdateDeadline};

use crate::answer::Read;
use crate::leaving::Leaving;
use crate::limits::MemoryMeter;
use crate::probe::Probe;
use crate::tally::Tally;
use crate::turn::{Turn, Turns};
use crate::{CallError, Limits, TICK};

/// What a guest has left of its time when its last request was not answered.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What every call takes beside its instance: 512 KiB are the stack of a guest that recurses, the rest is for the store, for small
/// requests and for the answer of the call.
const CALL_BYTES: usize = 768 << 10;
/// What a guest can hand over at once within that, in bytes.
const SMALL_HANDOVER: usize = 64 << 10;

/// What is told of a call when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// The function, as `interface.function`.
    pub function: &'static str,
    /// `ok`, or a word of [`CallError::as_str`].
    pub outcome: &'static str,
    /// How long it took, waiting for the cloud and for a turn to compute included.
    pub time: Duration,
    /// How long it computed, in steps of [`TICK`], and what the host computed for it beyond one.
    pub cpu: Duration,
    /// Bytes of linear memory at the end, which is the peak.
    pub memory: usize,
}

impl CallEnd {
    /// Of a call that never began.
    const fn of_nothing(function: &'static str) -> Self {
        let time = Duration::ZERO;
        Self { function, outcome: CallError::NO_ROOM, time, cpu: time, memory: 0 }
    }
}

/// Is told of every call: metrics.
pub trait CallObserver: Send + Sync + 'static {
    /// Calls of this provider come from now on.
    fn begins(&self, _provider: &str) {}

    /// A call is over.
    fn call_ended(&self, provider: &str, end: CallEnd);
}

/// What a guest may touch, made for one call.
pub(crate) struct CallState {
    pub(crate) limits: Limits,
    pub(crate) context: Arc<ProviderContext>,
    pub(crate) log: Arc<Mutex<CallLog>>,
    pub(crate) events: Option<Arc<dyn EventSink>>,
    pub(crate) events_emitted: usize,
    /// Name and UID of the Nodes of this call.
    pub(crate) nodes: Vec<(String, String)>,
    /// The Services of this call.
    pub(crate) services: Vec<ServiceId>,
    /// What the network may do for this call.
    pub(crate) scope: CallScope,
    pub(crate) changes: ChangeFlag,
    pub(crate) selected: Option<Selected>,
    pub(crate) selects_nodes: Arc<AtomicBool>,
    /// None: later than the clock can say.
    pub(crate) end: Option<Instant>,
    pub(crate) memory: MemoryMeter,
    pub(crate) table: ResourceTable,
    /// Made when the guest first asks: most never do.
    pub(crate) wasi: Option<wasmtime_wasi::WasiCtx>,
    /// Bytes that all calls of the process have.
    budget: usize,
    pub(crate) turn: Turn,
    ticks: u32,
    /// How long the host computed for the guest while no tick could be seen.
    host_time: Duration,
    out_of_cpu: bool,
}

impl CallState {
    /// Counts what the guest hands to the host for as long as a host call takes. A little of it is counted with every call. What is
    /// there already cannot wait for room.
    pub(crate) fn hand_over(&mut self, bytes: usize) -> wasmtime::Result<HandedOver> {
        let bytes = if bytes > SMALL_HANDOVER { bytes } else { 0 };
        if bytes > 0 && !self.scope.memory.try_grow(bytes) {
            let error = NoRoom { budget: self.budget };
            self.memory.no_room = Some(error);
            return Err(wasmtime::Error::new(error));
        }
        Ok(HandedOver { memory: self.scope.memory.clone(), bytes })
    }

    /// Counts what the guest is given, until it asks the host again, and waits for room. A little of it is counted with every call.
    pub(crate) async fn hand_out(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if bytes > SMALL_HANDOVER {
            self.memory.room(bytes).await?;
            self.scope.hands_out(bytes);
        }
        Ok(())
    }

    /// Counts the answer of the call until that is over. It is there already, so it cannot wait for room; a small one is counted with every call.
    fn keep(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= SMALL_HANDOVER || self.scope.memory.try_grow(bytes) {
            return Ok(());
        }
        Err(NoRoom { budget: self.budget })
    }

    /// Counts what the host computes for the guest as the guest's: however long that takes, it is seen as one tick.
    pub(crate) fn computed<T>(&mut self, work: impl FnOnce(&Self) -> T) -> T {
        let start = Instant::now();
        let done = work(self);
        // That one tick, which comes afterwards, is not counted twice.
        self.host_time = self.host_time.saturating_add(start.elapsed().saturating_sub(TICK));
        done
    }

    /// What the host may still compute for the guest.
    pub(crate) fn cpu_left(&self) -> Duration {
        self.limits.call_cpu.saturating_sub(self.cpu())
    }

    /// Counts what the host has computed for the guest while that waited for `outcome`, also if nothing came of it. None: it was too much.
    pub(crate) fn waited<T>(&mut self, (outcome, computed): (Option<T>, Duration)) -> wasmtime::Result<T> {
        self.host_time = self.host_time.saturating_add(computed);
        outcome.ok_or_else(|| {
            self.out_of_cpu = true;
            wasmtime::Error::new(CallError::OutOfCpu(self.limits.call_cpu))
        })
    }

    fn cpu(&self) -> Duration {
        TICK.saturating_mul(self.ticks).saturating_add(self.host_time).saturating_add(self.turn.brief())
    }
}

/// What a guest has handed to the host, for as long as the host needs it.
pub(crate) struct HandedOver {
    memory: CallMemory,
    bytes: usize,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}

/// Which Service a call is about.
#[derive(Clone)]
pub(crate) struct ServiceId {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl From<&Service> for ServiceId {
    fn from(service: &Service) -> Self {
        let Service { namespace, name, uid, .. } = service;
        Self { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }
    }
}

/// What a call is about.
pub(crate) struct Subject {
    /// Name and UID of its Nodes.
    pub(crate) nodes: Vec<(String, String)>,
    /// Its Services.
    pub(crate) services: Vec<ServiceId>,
    /// How urgent its requests to the cloud are.
    pub(crate) class: Class,
    /// Whether it may not change the cloud.
    pub(crate) read_only: bool,
    /// Whether a Node may be deleted on the answer.
    pub(crate) proof: bool,
    /// Whether the cloud may be asked to judge.
    pub(crate) judges: bool,
    /// Set before the first request that may change the cloud.
    pub(crate) changes: ChangeFlag,
    /// Which Nodes it was told by their labels, where that is of interest.
    pub(crate) selected: Option<Selected>,
    /// Its requests to the cloud that failed.
    pub(crate) failed: FailedRequests,
}

/// Label selectors of a call, each with the Nodes that it matched.
#[derive(Clone, Default)]
pub(crate) struct Selected(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Selected {
    /// Most selectors of one call: the host looks after each of them from then on.
    pub(crate) const MAX: usize = 16;

    /// Keeps an answer, unless there are too many.
    pub(crate) fn keep(&self, selector: &str, nodes: &[String]) -> bool {
        let mut kept = self.0.lock();
        if kept.len() >= Self::MAX && !kept.contains_key(selector) {
            return false;
        }
        kept.insert(selector.to_owned(), nodes.to_vec());
        true
    }

    pub(crate) fn take(&self) -> BTreeMap<String, Vec<String>> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Whether a call has begun to change the cloud.
#[derive(Clone, Default)]
pub(crate) struct ChangeFlag(pub(crate) Arc<AtomicBool>);

impl ChangeFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Subject {
    /// A question of the host about the provider itself.
    pub(crate) fn provider() -> Self {
        Self::reading(Class::Initialise)
    }

    /// A call that may change the cloud, about no object.
    pub(crate) fn writing() -> Self {
        Self { read_only: false, ..Self::reading(Class::Write) }
    }

    /// A call that changes nothing, about no object.
    pub(crate) fn reading(class: Class) -> Self {
        Self {
            nodes: vec![],
            services: vec![],
            class,
            read_only: true,
            proof: false,
            judges: false,
            changes: ChangeFlag::default(),
            selected: None,
            failed: FailedRequests::default(),
        }
    }
}

/// What the calls of all providers share.
#[derive(Clone)]
pub(crate) struct Home {
    /// As many as [`Pool::calls`](crate::Pool::calls).
    pub(crate) places: Arc<Semaphore>,
    /// As much as [`Pool::memory_bytes`](crate::Pool::memory_bytes).
    pub(crate) memory: MemoryBudget,
    pub(crate) probe: Probe,
}

/// What a call needs.
pub(crate) struct CallSettings {
    pub(crate) limits: Limits,
    pub(crate) provider: String,
    pub(crate) context: Arc<ProviderContext>,
    pub(crate) events: Option<Arc<dyn EventSink>>,
    pub(crate) observer: Option<Arc<dyn CallObserver>>,
    pub(crate) turns: Turns,
    pub(crate) home: Home,
    /// Of the provider.
    pub(crate) memory: Arc<MemoryShare>,
    /// What the host needs for the instances of a call, in bytes.
    pub(crate) instance_bytes: usize,
    pub(crate) tally: Arc<Tally>,
    /// Set when the provider asked which Nodes a label selector matches.
    pub(crate) selects_nodes: Arc<AtomicBool>,
}

pub(crate) type Work<'a, R> = Pin<Box<dyn Future<Output = wasmtime::Result<R>> + Send + 'a>>;

/// Runs `work` on a fresh instance. What it answers is read by `read`, a function of [`answer`](crate::answer): an answer that it
/// complains about counts as none.
///
/// # Cancel safety
///
/// Dropping the future drops store and instance.
pub(crate) async fn call<R: Send + Leaving, T>(
    settings: &CallSettings,
    pre: &InstancePre<CallState>,
    function: &'static str,
    subject: Subject,
    work: impl for<'a> FnOnce(&'a mut Store<CallState>, &'a Instance) -> Work<'a, R> + Send,
    read: impl FnOnce(R) -> Read<T> + Send,
) -> Result<T, CallError> {
    let limits = settings.limits;
    let span = span::of(settings, function);
    // Held until the store is gone. An error means that the semaphore is closed, which nobody does.
    let _place = settings.home.places.acquire().await;
    let memory = match memory(settings).await {
        Ok(memory) => memory,
        Err(error) => {
            let error = CallError::OutOfRoom(settings.provider.clone(), error);
            ended(settings, function, Some(&error), CallEnd::of_nothing(function));
            span::ended(&span, CallError::NO_ROOM);
            return Err(error);
        }
    };
    let start = Instant::now();
    let mut store = fresh_store(settings, pre, subject, memory, start);
    let turn = store.data().turn.clone();
    let running = async {
        turn.begin().await;
        let instance = pre.instantiate_async(&mut store).await?;
        work(&mut store, &instance).await
    };
    let running = running.instrument(span.clone());
    let result = match tokio::time::timeout(limits.call_time, running).await {
        Err(_) => Err(match store.data().scope.memory.lacks_room() {
            Some(error) => CallError::OutOfRoom(settings.provider.clone(), error),
            None => CallError::OutOfTime(limits.call_time),
        }),
        Ok(Err(error)) => Err(classify(&settings.provider, store.data(), error)),
        Ok(Ok(mut answer)) => match store.data().keep(answer.bytes()) {
            Err(error) => Err(CallError::OutOfRoom(settings.provider.clone(), error)),
            Ok(()) => {
                // Before anything of it is said.
                if let Some(egress) = &settings.context.egress {
                    answer.clean(&egress.secrets().veil());
                }
                span.in_scope(|| read(answer)).map_err(CallError::BadAnswer)
            }
        },
    };
    settings.home.probe.look(function, &mut store);
    let state = store.data();
    let outcome = result.as_ref().map_or_else(CallError::as_str, |_| "ok");
    span::ended(&span, outcome);
    let end = CallEnd { function, outcome, time: start.elapsed(), cpu: state.cpu(), memory: state.memory.bytes };
    ended(settings, function, result.as_ref().err(), end);
    result
}

/// Memory for a call. It waits for no longer than a call may take.
async fn memory(settings: &CallSettings) -> Result<CallMemory, NoRoom> {
    let bytes = CALL_BYTES.saturating_add(settings.instance_bytes);
    if let Some(memory) = settings.memory.try_begin(bytes) {
        return Ok(memory);
    }
    let waiting = tokio::time::timeout(settings.limits.call_time, settings.memory.begin(bytes));
    waiting.await.unwrap_or(Err(NoRoom { budget: settings.home.memory.bytes() }))
}

fn ended(settings: &CallSettings, function: &'static str, error: Option<&CallError>, end: CallEnd) {
    settings.tally.ended(function, error);
    if let Some(observer) = &settings.observer {
        observer.call_ended(&settings.provider, end);
    }
}

fn fresh_store(
    settings: &CallSettings,
    pre: &InstancePre<CallState>,
    subject: Subject,
    memory: CallMemory,
    start: Instant,
) -> Store<CallState> {
    let limits = settings.limits;
    let turn = settings.turns.call();
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles);
    let secrets = settings.context.egress.as_ref().map(|egress| egress.secrets().clone()).unwrap_or_default();
    let state = CallState {
        limits,
        context: Arc::clone(&settings.context),
        log: Arc::new(Mutex::new(CallLog::new(&settings.provider, settings.context.log).without(secrets))),
        events: settings.events.clone(),
        events_emitted: 0,
        scope: scope(settings, &subject, memory.clone(), start),
        changes: subject.changes,
        selected: subject.selected,
        selects_nodes: Arc::clone(&settings.selects_nodes),
        nodes: subject.nodes,
        services: subject.services,
        end: start.checked_add(limits.call_time),
        memory: MemoryMeter::new(limits, memory, turn.clone()),
        budget: settings.home.memory.bytes(),
        table,
        wasi: None,
        turn,
        ticks: 0,
        host_time: Duration::ZERO,
        out_of_cpu: false,
    };
    let mut store = Store::new(pre.engine(), state);
    store.limiter_async(|state| &mut state.memory);
    store.set_hostcall_fuel(limits.host_call_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| Ok(on_tick(store)));
    store
}

/// Requests end a little before the call does, so that the guest can say what happened.
fn scope(settings: &CallSettings, subject: &Subject, memory: CallMemory, start: Instant) -> CallScope {
    let time = settings.limits.call_time;
    let deadline = start.checked_add(time.saturating_sub(LAST_WORDS.min(time / 10)));
    let network = settings.context.egress.as_ref().map(|egress| *egress.limits()).unwrap_or_default();
    let mut scope = CallScope::new(
        subject.class,
        subject.read_only,
        subject.proof,
        deadline,
        network.call_requests,
        network.call_response_bytes,
    );
    scope.judges = subject.judges;
    scope.memory = memory;
    scope.failed = subject.failed.clone();
    scope
}

/// Called when the guest computes while a tick passes.
fn on_tick(mut store: StoreContextMut<'_, CallState>) -> UpdateDeadline {
    let state = store.data_mut();
    if state.turn.ticked_before() {
        return UpdateDeadline::Continue(1);
    }
    state.ticks = state.ticks.saturating_add(1);
    if state.cpu() > state.limits.call_cpu {
        state.out_of_cpu = true;
        return UpdateDeadline::Interrupt;
    }
    UpdateDeadline::YieldCustom(1, Box::pin(state.turn.clone().pass_on()))
}

fn classify(provider: &str, state: &CallState, error: wasmtime::Error) -> CallError {
    if let Some(error) = state.memory.no_room {
        return CallError::OutOfRoom(provider.to_owned(), error);
    }
    if state.out_of_cpu {
        return CallError::OutOfCpu(state.limits.call_cpu);
    }
    // A guest that is refused memory aborts, which is a trap like any other.
    if state.memory.memory_refused {
        return CallError::OutOfMemory(state.limits.memory_bytes);
    }
    if state.memory.table_refused {
        return CallError::TableTooLarge(state.limits.table_elements);
    }
    CallError::Trap(error.downcast_ref::<Trap>().copied(), error)
}
