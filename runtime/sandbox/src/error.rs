//! Why a component was not taken, and why a call gave no answer.

use std::time::Duration;

use ccm_cloud::{Failure, FindError, Reaction};
use ccm_egress::{FailedRequests, NoRoom, line};
use wasmtime::Trap;

/// The contract that this host speaks.
pub const CONTRACT: &str = "ccm:cloud@0.2.0";

/// Why bytes were not taken as a provider. The caller says where they came from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Larger than [`crate::Limits::component_bytes`].
    #[error("it has {size} bytes, the limit is {limit}; raise the limit component-bytes if that is right")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The setting.
        limit: usize,
    },
    /// Something else than WebAssembly.
    #[error(
        "it is not a WebAssembly component: {0}; build the provider for wasm32-unknown-unknown and give its .wasm file"
    )]
    NotWasm(&'static str),
    /// A core module.
    #[error(
        "it is a core WebAssembly module, not a component; build it with the linker wasm-component-ld, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Machine code that somebody compiled elsewhere.
    #[error(
        "it is compiled machine code (.cwasm), which this host never runs; give the .wasm component it was made from"
    )]
    Precompiled,
    /// The bytes break off, or break the rules of WebAssembly.
    #[error("it is damaged: {message} at byte {offset}; build or upload it again")]
    Malformed {
        /// The parser's words.
        message: String,
        /// Where.
        offset: u64,
    },
    /// Its code has functions of interfaces that it does not export: it breaks off between two exports.
    #[error("it is damaged: it has the code of {}, and does not export it; build or upload it again", .0.join(", "))]
    BrokenOff(Vec<String>),
    /// More of something than this host compiles. How many there are nobody knows: counting ends at the limit.
    #[error("it has more than {limit} {what}; raise the limit {setting} if that is right")]
    TooComplex {
        /// What is counted.
        what: &'static str,
        /// How many there may be.
        limit: usize,
        /// Name of the limit.
        setting: &'static str,
    },
    /// Written for another version of the contract.
    #[error(
        "it is made for {needed}, this host speaks {CONTRACT}; rebuild the provider, or use a host that speaks {needed}"
    )]
    ContractVersion {
        /// Package and version that it names.
        needed: String,
    },
    /// Imports that a provider may not have.
    #[error("it asks for {}, which this host does not offer; a provider may import only interfaces of {CONTRACT} and WASI 0.2", names(.0))]
    UnknownImports(Vec<String>),
    /// WASI imports while WASI is off.
    #[error("it asks for WASI ({}), which is off; build it for wasm32-unknown-unknown, or run the host with --wasi=deny-all", names(.0))]
    WasiOff(Vec<String>),
    /// An interface that every provider must offer is absent.
    #[error("it does not offer {}, which every provider of {CONTRACT} must export", .0.join(", "))]
    MissingExports(Vec<String>),
    /// Compiled again, and not the same.
    #[error("it is another component than the one that runs; load it as a new one")]
    Another,
    /// The names fit, the types do not.
    #[error("its types differ from those of {CONTRACT}: {}; rebuild it against the contract of this host", said(.0))]
    Types(wasmtime::Error),
    /// The compiler refused it.
    #[error("it does not compile: {}; build it again with a tool chain that knows wasmtime 48", said(.0))]
    Compile(wasmtime::Error),
    /// `describe` gave no answer.
    #[error("its function describe failed: {0}")]
    Describe(CallError),
    /// `describe` gave an answer that cannot be.
    #[error("its description is wrong: {0}")]
    Descriptor(String),
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine does not start on this machine: {0:#}")]
pub struct EngineError(pub(crate) wasmtime::Error);

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Longer than [`crate::Limits::call_time`].
    #[error("no answer within {0:?} (limit call-time); raise the limit if its cloud needs that long")]
    OutOfTime(Duration),
    /// More computing than [`crate::Limits::call_cpu`].
    #[error("more than {0:?} of computing (limit call-cpu){NEEDED}")]
    OutOfCpu(Duration),
    /// More memory than [`crate::Limits::memory_bytes`].
    #[error("more than {0} bytes of memory (limit memory-bytes){NEEDED}")]
    OutOfMemory(usize),
    /// The process has no more memory for calls: who, and how much there is.
    #[error("call of {0} stopped: {1}")]
    OutOfRoom(String, NoRoom),
    /// A larger table than [`crate::Limits::table_elements`].
    #[error("a table of more than {0} elements (limit table-elements){NEEDED}")]
    TableTooLarge(usize),
    /// The guest stopped itself, or did what it may not.
    #[error("the provider crashed: {}", crash(.0.as_ref(), .1))]
    Trap(Option<Trap>, wasmtime::Error),
    /// An answer that the contract does not allow.
    #[error("the provider's answer breaks the contract: {0}; use another version of it, or report this to its author")]
    BadAnswer(String),
}

/// What to do about a limit.
const NEEDED: &str = "; raise the limit if the provider needs more";

/// Words of the engine about a limit, and the name of that.
const ENGINE_LIMITS: [(&str, &str); 6] = [
    ("too much data is being copied between the host and the guest", "host-call-bytes"),
    ("memory count too high", "memories"),
    ("table count too high", "tables"),
    ("instance count too high", "instances"),
    ("store handle limit exceeded", "handles"),
    ("resource table has no free keys", "handles"),
];

impl CallError {
    /// The word of [`Self::OutOfRoom`].
    pub(crate) const NO_ROOM: &str = "no-room";

    /// A word for metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::OutOfTime(_) => "out-of-time",
            Self::OutOfCpu(_) => "out-of-cpu",
            Self::OutOfMemory(_) => "out-of-memory",
            Self::OutOfRoom(..) => Self::NO_ROOM,
            Self::TableTooLarge(_) => "table-too-large",
            Self::Trap(..) => "trap",
            Self::BadAnswer(_) => "bad-answer",
        }
    }

    /// For whoever asked: nobody knows what such a call had done before. It is `retry`: it never proves anything about a machine.
    pub(crate) fn into_failure(self, function: &str, provider: &str) -> Failure {
        Failure::new(Reaction::Retry, format!("{function} of {provider}: {self}"))
    }

    /// The same for whoever asked about several nodes.
    pub(crate) fn into_find_error(self, function: &str, provider: &str, failed: &FailedRequests) -> FindError {
        // The cloud may be slow, or other calls may need the memory: fewer nodes would not help.
        let would_help = !matches!(self, Self::OutOfTime(_) | Self::OutOfRoom(..));
        let failure = failed.of_whole(self.into_failure(function, provider));
        if would_help { FindError::Crashed(failure) } else { FindError::Failed(failure) }
    }
}

/// Most bytes of what a library says of a component.
const MAX_SAID: usize = 512;

/// What a library says of a component, in one short line: it spans lines, and repeats names of the component, which may have a hundred
/// kilobytes of anything.
pub(crate) fn one_line(words: &str) -> String {
    line(&words.split_whitespace().collect::<Vec<_>>().join(" "), MAX_SAID)
}

fn said(error: &wasmtime::Error) -> String {
    one_line(&format!("{error:#}"))
}

/// Most names that are told; a component may have thousands.
const MAX_NAMES: usize = 20;

fn names(names: &[String]) -> String {
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    let told: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    told.join(", ") + more
}

/// The trap, else the innermost cause: the outer ones are backtraces of guest code. The limit, where that was it; and what to do.
fn crash(trap: Option<&Trap>, error: &wasmtime::Error) -> String {
    let cause = || error.chain().last().map(ToString::to_string).unwrap_or_default();
    let said = one_line(&trap.map_or_else(cause, ToString::to_string));
    match ENGINE_LIMITS.into_iter().find(|(words, _)| said.contains(words)) {
        Some((_, limit)) => format!("{said} (limit {limit}){NEEDED}"),
        None => format!("{said}; what it logged before may say why"),
    }
}
