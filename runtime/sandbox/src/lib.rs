//! Runs providers that are WebAssembly components, and offers the traits of `ccm-cloud` on their behalf.
//!
//! A [`Sandbox`] is one engine. [`Sandbox::load`] checks and compiles bytes to a [`Component`]; with what the operator grants
//! it becomes a [`Provider`]. Every call of a provider gets a fresh store and instance under [`Limits`], and nothing of a
//! guest outlives its call.
//!
//! | brake | how | when it bites |
//! |---|---|---|
//! | time | `tokio::time::timeout` around the call | [`CallError::OutOfTime`] |
//! | computing | epoch ticks from an OS thread, counted per call | [`CallError::OutOfCpu`] |
//! | memory | all linear memories of the store summed up | [`CallError::OutOfMemory`] |
//! | memory of all calls | [`ccm_egress::MemoryBudget`]: memories, tables, and what the host keeps for calls | further calls wait, else [`CallError::OutOfRoom`] |
//! | calls at the same time | places of the [`Pool`] | further calls wait |
//! | data to the host | wasmtime's host call fuel | [`CallError::Trap`] |
//! | compiling | size and counts looked at before the compiler sees the bytes | [`LoadError::TooComplex`] |

mod answer;
mod bindings;
mod call;
mod cluster;
mod component_summary;
mod computing;
mod container_memory;
mod convert;
mod descriptor;
mod engine;
mod epoch;
mod error;
#[cfg(test)]
mod fuzz;
mod host;
mod http;
mod instance_size;
mod instances;
mod leaving;
mod limits;
mod load_balancers;
mod pool;
mod probe;
mod provider;
mod routes;
mod tally;
mod threads;
mod turn;
mod wasi;

pub use call::{CallEnd, CallObserver};
pub use ccm_egress::{MemoryBudget, NoRoom};
pub use component_summary::ComponentSummary;
pub use container_memory::container_memory;
pub use engine::Sandbox;
pub use epoch::TICK;
pub use error::{CONTRACT, CallError, EngineError, LoadError};
pub use limits::Limits;
pub use pool::Pool;
#[cfg(feature = "memory-probe")]
pub use probe::MemoryProbe;
pub use provider::{Component, Provider};
pub use threads::worker_threads;
