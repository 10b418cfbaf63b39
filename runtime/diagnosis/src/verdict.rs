//! How a question ends.

use serde::Serialize;

/// What was found of the cluster or of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// As it should be, or not for this manager to take care of.
    Fine,
    /// Not as it should be.
    Wrong,
    /// Nothing wrong was found, and something could not be judged.
    #[default]
    Unknown,
}
