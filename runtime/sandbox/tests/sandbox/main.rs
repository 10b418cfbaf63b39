//! The sandbox against real components: what is refused before it runs, what a call sees, and what an attack achieves.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

use bolero as _; // a fuzz run builds this as well, and its sanitizer hooks are in there
use ccm_egress::http; // for the vectors of ccm-egress

mod balancers;
mod balancers_outcomes;
mod calls;
mod canary;
mod capture;
#[path = "../../../egress/src/egress/tests/cloud.rs"]
mod cloud;
mod cloudlycke;
mod cluster;
mod configuration;
mod crashes;
mod denials;
mod failed_requests;
mod hostile;
mod hurry;
mod limits;
mod load;
mod network_limits;
mod probe;
mod requests;
mod rig;
mod room;
mod rotation;
mod selectors;
mod server;
mod sessions;
mod setup;
mod signing;
mod splice;
mod turns;
mod wasi;
