//! Where calls take their memory from: places that are mapped once, when the engine starts.
//!
//! A call gets a fresh instance, in a place that was cleared after the call before. Mapping memory anew for each call costs
//! every thread of the process a pause (docs/decisions/0014-pooled-instances.md).

use std::num::NonZeroU32;

use wasmtime::PoolingAllocationConfig;

use crate::Limits;

/// Address space of one memory: all that a 32-bit memory can have. What a call really gets is [`Limits::memory_bytes`].
const MEMORY_SPACE: usize = 4 << 30;
/// Address space of one table, in elements: more than any limit, so that it is the limit that speaks.
const TABLE_SPACE: usize = 1 << 20;
/// Parts of a module that are limited per call are not limited per module.
const PER_MODULE: u32 = 1_000;
/// What the host may keep for one instance beside its memories, in bytes: 16 bytes per function that can be pointed at.
const INSTANCE_BYTES: usize = 16 << 20;

/// What stays of the stack of a call for the next one, in bytes: wiped by hand. It is about as much as most calls use, who would else wait for
/// the kernel to give each page of it again. What a guest fills beyond goes back.
const STACK_KEPT: usize = 64 << 10;

/// How many places there are, and how large. Only address space is taken for a place that was never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Most calls at the same time, of all providers together. Default 256. Further ones wait, and their own time has not
    /// begun yet.
    pub calls: NonZeroU32,
    /// Most linear memories of a call: not less than [`Limits::memories`] of any provider.
    pub memories: usize,
    /// Most tables of a call: not less than [`Limits::tables`].
    pub tables: usize,
    /// Most elements in a table: not less than [`Limits::table_elements`].
    pub table_elements: usize,
    /// Most core instances of a call: not less than [`Limits::instances`].
    pub instances: usize,
    /// Memory of all calls at the same time, with what the host keeps for them, in bytes. Default 1 GiB. Further ones wait.
    pub memory_bytes: usize,
    /// How many providers divide half of it. Default 1.
    pub providers: usize,
}

impl Default for Pool {
    fn default() -> Self {
        let Limits { memories, tables, table_elements, instances, .. } = Limits::default();
        let calls = NonZeroU32::MIN.saturating_add(255);
        Self { calls, memories, tables, table_elements, instances, memory_bytes: Self::MEMORY_BYTES, providers: 1 }
    }
}

impl Pool {
    /// Memory of all calls, unless set otherwise, in bytes.
    pub const MEMORY_BYTES: usize = 1 << 30;

    /// The same pool, with room for a provider that has these limits.
    #[must_use]
    pub fn with_room_for(self, limits: &Limits) -> Self {
        Self {
            memories: self.memories.max(limits.memories),
            tables: self.tables.max(limits.tables),
            table_elements: self.table_elements.max(limits.table_elements),
            instances: self.instances.max(limits.instances),
            ..self
        }
    }

    pub(crate) fn config(&self) -> PoolingAllocationConfig {
        let calls = self.calls.get();
        let in_all = |each: usize| calls.saturating_mul(u32::try_from(each).unwrap_or(u32::MAX));
        let mut config = PoolingAllocationConfig::new();
        config
            .total_component_instances(calls)
            .total_stacks(calls)
            .total_core_instances(in_all(self.instances))
            .total_memories(in_all(self.memories))
            .total_tables(in_all(self.tables))
            .max_memory_size(MEMORY_SPACE)
            .max_memories_per_module(PER_MODULE)
            .max_tables_per_module(PER_MODULE)
            .table_elements(self.table_elements.max(TABLE_SPACE))
            .max_core_instance_size(INSTANCE_BYTES)
            .max_component_instance_size(INSTANCE_BYTES)
            .async_stack_keep_resident(STACK_KEPT);
        config
    }
}
