//! What a component may take. Every number is a setting.

use std::pin::Pin;
use std::time::Duration;

use ccm_egress::{CallMemory, NoRoom};
use wasmtime::ResourceLimiterAsync;

use crate::turn::Turn;

/// Limits of one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest component, unpacked, in bytes. Default 16 MiB; ours have 0.2 to 0.9 MB.
    pub component_bytes: usize,
    /// Most functions in all its modules, and most instances, aliases and wrapped functions when all components in it are
    /// unfolded. Default 50,000. Counted before the compiler sees it: a compile cannot be stopped.
    pub functions: usize,
    /// Most types in all its modules and components. Default 20,000.
    pub types: usize,
    /// Most imports, exports, globals, tags and segments in all its modules. Default 50,000; ours have some hundred. The host keeps some
    /// bytes for each of them, in every instance.
    pub module_items: usize,
    /// Most endpoints that it declares. Default 64. The host keeps a budget for each of them, and metrics have labels.
    pub endpoints: usize,
    /// Most credentials that it declares. Default 64. The host looks for some thirty forms of each of them in all that a cloud says.
    pub credentials: usize,
    /// Most entries of all lists in its description, and of the lists in those. Default 4,000; the largest real one has some hundred.
    pub declarations: usize,
    /// Most bytes in one function body. Default 256 KiB: compile time grows with the square of a function's size, 47 KB took
    /// 0.2 s and 635 KB took 20 s. The largest function of our providers has 20 KB.
    pub function_bytes: usize,
    /// Linear memory of a call in bytes, all memories together. Default 64 MiB. More is refused to the guest, which then
    /// usually aborts.
    pub memory_bytes: usize,
    /// Most linear memories. Default 4.
    pub memories: usize,
    /// Most tables. Default 16.
    pub tables: usize,
    /// Most elements in a table. Default 20,000.
    pub table_elements: usize,
    /// Most core instances. Default 16.
    pub instances: usize,
    /// Most handles of resources, in the component's table and in the host's. Default 1,000.
    pub handles: usize,
    /// Most bytes that a guest hands to the host in one host call, or as the answer of a call. Default 8 MiB.
    pub host_call_bytes: usize,
    /// Time of a call, waiting included. Default 60 s.
    pub call_time: Duration,
    /// Computing time of a call, counted in ticks of [`crate::TICK`]. Default 2 s.
    pub call_cpu: Duration,
    /// How many calls of this provider may compute beyond their first tick at the same time. Default 1, so that one bad
    /// provider leaves a core to the others. One more computes for a tick; the others wait.
    pub busy_calls: usize,
    /// Most Events per call. Default 20; more are dropped and counted in the log.
    pub events: usize,
    /// Most bytes of annotations that one outcome writes on a Service, names and values. Default 16 KiB. The API server takes 256 KiB
    /// for all annotations of an object; what it refuses waits in memory.
    pub annotation_bytes: usize,
    /// Most routes that a provider may find. Default 50,000: Kubernetes is made for 5,000 Nodes, each with two. The host keeps them between
    /// two calls.
    pub routes: usize,
    /// Most bytes of any text of a route that a provider finds. Default 1 KiB.
    pub route_text_bytes: usize,
    /// Most attributes that a provider adds to a route. Default 32.
    pub route_attributes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            component_bytes: 16 << 20,
            functions: 50_000,
            types: 20_000,
            module_items: 50_000,
            endpoints: 64,
            credentials: 64,
            declarations: 4_000,
            function_bytes: 256 << 10,
            memory_bytes: 64 << 20,
            memories: 4,
            tables: 16,
            table_elements: 20_000,
            instances: 16,
            handles: 1_000,
            host_call_bytes: 8 << 20,
            call_time: Duration::from_secs(60),
            call_cpu: Duration::from_secs(2),
            busy_calls: 1,
            events: 20,
            annotation_bytes: 16 << 10,
            routes: 50_000,
            route_text_bytes: 1024,
            route_attributes: 32,
        }
    }
}

/// Bytes of an element of a table.
const ELEMENT: usize = size_of::<usize>();

/// Counts the memory of one call, against its own limit and against what the process has. `wasmtime::StoreLimits` would limit each memory
/// alone.
pub(crate) struct MemoryMeter {
    limits: Limits,
    call: CallMemory,
    turn: Turn,
    /// Bytes of all memories now, which is also the peak: memories never shrink.
    pub(crate) bytes: usize,
    /// Whether the guest asked for more memory than it may have.
    pub(crate) memory_refused: bool,
    /// Whether it asked for a larger table than it may have.
    pub(crate) table_refused: bool,
    /// Whether the process has no room for what it asked for.
    pub(crate) no_room: Option<NoRoom>,
}

impl MemoryMeter {
    pub(crate) const fn new(limits: Limits, call: CallMemory, turn: Turn) -> Self {
        Self { limits, call, turn, bytes: 0, memory_refused: false, table_refused: false, no_room: None }
    }

    /// Waits for room in the process. Others compute meanwhile.
    pub(crate) async fn room(&mut self, by: usize) -> wasmtime::Result<()> {
        if self.call.try_grow(by) {
            return Ok(());
        }
        let grown = self.turn.waiting(self.call.grow(by)).await;
        if let Err(error) = &grown {
            self.no_room = Some(*error);
        }
        grown.map_err(wasmtime::Error::new)
    }
}

type Granted<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<bool>> + Send + 'a>>;

// As the macro `async_trait` writes it.
impl ResourceLimiterAsync for MemoryMeter {
    fn memory_growing<'s, 'a>(&'s mut self, current: usize, desired: usize, maximum: Option<usize>) -> Granted<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            // The memory's own type forbids it: nothing is taken, so nothing is counted.
            if maximum.is_some_and(|maximum| desired > maximum) {
                return Ok(false);
            }
            let more = desired.saturating_sub(current);
            let bytes = self.bytes.saturating_add(more);
            let granted = bytes <= self.limits.memory_bytes;
            if granted {
                self.room(more).await?;
                self.bytes = bytes;
            } else {
                self.memory_refused = true;
            }
            Ok(granted)
        })
    }

    fn table_growing<'s, 'a>(&'s mut self, current: usize, desired: usize, _: Option<usize>) -> Granted<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let granted = desired <= self.limits.table_elements;
            self.table_refused |= !granted;
            if granted {
                self.room(desired.saturating_sub(current).saturating_mul(ELEMENT)).await?;
            }
            Ok(granted)
        })
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}
