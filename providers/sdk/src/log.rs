//! Lines for the host's log.
//!
//! The host puts name and version of the provider on every line, cuts long ones, and drops what exceeds a fixed number of
//! lines per call: write the line that sums up a call before those about its parts.
//!
//! ```no_run
//! ccm_sdk::log::info("machines found", &[("found", &12), ("absent", &0)]);
//! ```

use std::fmt::Display;

use crate::bindings::provider::ccm::cloud::log::Level;
use crate::transport;

/// Names and values of a line. Names are snake case, unique within the line.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// For whoever looks for the reason of one decision.
pub fn debug(message: &str, fields: Fields<'_>) {
    line(Level::Debug, message, fields);
}

/// A change of state, or the sum of a call.
pub fn info(message: &str, fields: Fields<'_>) {
    line(Level::Info, message, fields);
}

/// Something is worse than it should be, and the provider copes.
pub fn warn(message: &str, fields: Fields<'_>) {
    line(Level::Warn, message, fields);
}

/// A person should act.
pub fn error(message: &str, fields: Fields<'_>) {
    line(Level::Error, message, fields);
}

fn line(level: Level, message: &str, fields: Fields<'_>) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    transport::log(level, message, &fields);
}
