//! What the page shows, as plain values.

/// All of it. Texts may have been written by anybody: the page escapes them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// The host's version.
    pub version: String,
    /// When the page was made, for people.
    pub at: String,
    /// Whether this process leads: no other one knows anything of objects.
    pub leads: bool,
    /// Who leads, as `/readyz` says it.
    pub leader: String,
    /// The lines of `/readyz` and `/healthz` about what does not hold.
    pub failing: Vec<String>,
    /// What `/providerz` says.
    pub providers: Vec<Provider>,
    /// What `/metrics` says.
    pub metrics: String,
    /// Services that are not as they should be; none where no service controller runs.
    pub services: Option<Rows<Trouble>>,
    /// Nodes that wait for their initialisation; none where no node controller runs.
    pub uninitialised: Option<Rows<Trouble>>,
    /// Nodes that no manager is asked to initialise; none where no node controller runs.
    pub unmanaged: Option<Unmanaged>,
    /// Nodes that are not Ready; none where no node lifecycle controller runs.
    pub unready: Option<Rows<Trouble>>,
    /// Deletions of Nodes that exceed a budget; none where no node lifecycle controller runs.
    pub held: Option<Rows<Held>>,
    /// What would be written; none for a process that writes.
    pub dry_run: Option<DryRun>,
}

/// What a dry run would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// When it looked last, for people; none before everything was looked at.
    pub as_of: Option<String>,
    /// Since when it looks and what it waits for, for people; none between two looks.
    pub looking: Option<String>,
    /// How many of the writes change a cloud or the cluster. The others are notes of the host to itself.
    pub changes: usize,
    /// Of how many of the writes it is left out what they are.
    pub left_out: usize,
    /// Changes first.
    pub writes: Rows<PendingWrite>,
    /// Objects of which it is not known what would be written.
    pub unknown: Rows<Trouble>,
}

/// A write that is kept back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingWrite {
    /// Kind and name.
    pub object: String,
    /// Where it goes, and what it is.
    pub write: String,
    /// Since when, for people.
    pub since: String,
}

/// The first of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// How many there are.
    pub all: usize,
    /// The first of them: [`ROWS`](crate::ROWS) are enough.
    pub first: Vec<T>,
}

/// An object that is not as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// As `kubectl` calls it.
    pub name: String,
    /// In a word or two.
    pub reason: String,
    /// What was tried and what came of it, where that is known.
    pub why: Option<String>,
    /// What happens next, where that is known.
    pub next: Option<String>,
}

/// Nodes that no manager is asked to initialise. They have one reason and one way out, which are told once: there may be thousands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmanaged {
    /// What is seen of each.
    pub found: String,
    /// What to do.
    pub fix: String,
    /// Their names.
    pub nodes: Rows<String>,
}

/// A deletion that exceeds a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The Node.
    pub name: String,
    /// Which budget, and how large it is.
    pub budget: String,
}

/// How a provider stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provider {
    /// Where its components come from.
    pub source: String,
    /// Name and version of the one that serves; none before the first one was taken.
    pub serving: Option<String>,
    /// Its digest.
    pub digest: String,
    /// Its phase, its generation, and since when.
    pub phase: String,
    /// Who returns when it fails its probation.
    pub last_good: Option<String>,
    /// How long the last exchange took.
    pub last_load: Option<String>,
    /// What is not used.
    pub refused: Vec<Refused>,
    /// Credentials in use that cannot be read any more: since when and why.
    pub unreadable: Vec<String>,
}

/// A component or a configuration that is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Which of the two, with its digest.
    pub what: String,
    /// At which step of the gate, and since when.
    pub at: String,
    /// Why, with the way out.
    pub reason: String,
}
