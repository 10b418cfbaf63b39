//! Components over time: where they come from, which of them are taken, and which one serves.
//!
//! ```text
//! source ──▶ gate ──▶ slot, on probation ──▶ proven, kept in the state folder
//!             │                └ refused: the last good one serves again, and all replicas know it
//!             └ unpack, trust, compile, describe, identity, grants (context), check, compare; who does not pass one is rejected
//! ```
//!
//! A process begins with what the state folder holds, if that passes the gate, and else with the source. While the stored component only lacks
//! an answer, of its cloud or of the other replicas, the process waits for it. The first component has no probation. If another replica has
//! refused it and leads, the process ends, and begins anew without it.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what the operator says of a provider: its source, grants, limits |
//! | [`source`] | files, folders and ConfigMaps, and how their changes are noticed |
//! | [`gate`] | the single steps that a component must pass, and where it was rejected |
//! | [`compare`](mod@compare) | what a new component and the last good one find of what exists |
//! | [`preview`](mod@preview) | the same by hand, for `check --against` |
//! | [`preflight`] | the gate for `check` and `push`, which put nothing to use: the same order without `compare` |
//! | `pipeline` | the gate for `run`: all steps in their order, to a provider that can serve |
//! | `release` | a component that passed the gate: its code, name, version and digest |
//! | `slot` | which component serves, which one is on probation and which one returns; the controllers call through it |
//! | `keeper` | one provider: follows its source, takes what that holds through the gate into the slot, and tells what becomes of it |
//! | `state_folder` | the state folder: the proven component with its signature, refused ones, counters, and who was on probation at a crash |
//! | `ledger` | what all replicas know of components: proven and refused ones, how the leader's names load balancers, and counters of signed ones |
//! | [`push`](mod@push) | writes a component to a ConfigMap |
//! | [`Rollout`] | all providers of the process: loads the first components, follows the sources |
//! | `offers` | what a provider offers, asked again when its cloud answers again |
//! | [`offering`] | controllers that begin anew when an optional interface comes or goes |
//! | [`opened`] | providers of a command, which are opened once |
//! | [`status`] | the page `/providerz` |
//!
//! Controllers know nothing of this: they hold the slots that [`Rollout::bootstrap`] gives.

mod check;
pub mod compare;
mod component;
pub mod config;
pub mod context;
mod events;
#[cfg(test)]
mod fuzz;
pub mod gate;
mod keeper;
mod ledger;
mod metrics;
pub mod offering;
mod offers;
pub mod opened;
mod pipeline;
pub mod preflight;
pub mod preview;
pub mod push;
mod release;
mod retry;
mod rollout;
mod route_differences;
mod slot;
pub mod source;
pub mod state_folder;
pub mod status;
mod trust;
mod unpack;

pub use component::Component;
pub use events::host_pod;
pub use keeper::KeeperSettings;
pub use ledger::{CONFIG_MAP, PeerSettings};
pub use metrics::{CallMetrics, ExchangeMetrics, ProviderMetrics};
pub use release::Version;
pub use retry::backoff;
pub use rollout::{Followers, Rollout, RolloutParts};
pub use slot::{Handle, ProbationSettings, Slot};
pub use state_folder::ProbationFiles;
pub use status::Readiness;
pub use trust::{Signed, Trust};
pub use unpack::{UnpackError, unpack};

/// The place of a component that runs in the sandbox.
pub type ProviderSlot = Slot<ccm_sandbox::Provider>;
