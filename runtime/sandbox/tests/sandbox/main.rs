//! The sandbox against real components: what is refused before it runs, what a call sees, and what an attack achieves.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod calls;
mod canary;
mod capture;
mod cloud;
mod hostile;
mod limits;
mod load;
mod probe;
mod rig;
mod rotation;
mod server;
mod sessions;
mod splice;
mod turns;
mod wasi;
