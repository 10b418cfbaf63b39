//! The epoch thread: interrupts guests that compute for too long.
//!
//! It is an OS thread. A task would starve together with the guests that it interrupts.

use std::time::Duration;

use wasmtime::Engine;

/// The interval at which the host looks at a guest that computes. Calls yield to others on every tick.
pub const TICK: Duration = Duration::from_millis(10);

/// Starts the thread. It ends with the engine.
pub(crate) fn start_thread(engine: &Engine) -> wasmtime::Result<()> {
    let weak = engine.weak();
    let ticks = move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            // Not held while sleeping, so that the engine can go.
            drop(engine);
            #[expect(clippy::disallowed_methods, reason = "this thread does nothing but sleep and tick")]
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("epoch".to_owned()).spawn(ticks).map(drop).map_err(wasmtime::Error::new)
}
