//! A panic ends the call with a trap, which carries no text. The hook writes it to the log before.

use std::panic::{self, PanicHookInfo};

use crate::log;

/// Sends the message and place of any later panic to the host's log.
pub(crate) fn forward() {
    panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("the panic has no text");
    match info.location() {
        Some(location) => log::error("the provider panicked", &[("panic", &message), ("at", &location)]),
        None => log::error("the provider panicked", &[("panic", &message)]),
    }
}
