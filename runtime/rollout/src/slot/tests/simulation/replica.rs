//! What a replica is made of, and how it takes the word of the other one.

use tokio::sync::mpsc;

use crate::ledger::LedgerEntry;
use crate::slot::testing::{Does, Fake};
use crate::slot::{News, Refusals, Slot};

/// What a state folder holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) proven: Option<String>,
    pub(super) refused: Refusals,
    /// Who was on probation at the kill.
    pub(super) died: Option<String>,
}

/// A component with a place to serve, and what is told of it.
pub(super) struct KeptSlot {
    pub(super) slot: Slot<Fake>,
    pub(super) news: mpsc::UnboundedReceiver<News>,
}

#[derive(Default)]
pub(super) struct Replica {
    /// None: it is not ready.
    pub(super) place: Option<KeptSlot>,
    pub(super) folder: Folder,
    /// What it takes as its first component, and what that does.
    pub(super) chosen: Option<(String, Does)>,
    /// The configuration that its files hold.
    pub(super) files: u32,
    /// What the ConfigMap held when it looked last.
    pub(super) heard: LedgerEntry,
}
