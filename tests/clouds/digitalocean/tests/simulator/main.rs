//! What the simulator does, seen from outside.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod client;
mod control;
mod faults;
mod life;
mod limits;
mod listings;
mod refused;
mod scopes;
mod tokens;
