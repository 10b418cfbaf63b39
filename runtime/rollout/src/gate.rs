//! The single steps that a component must pass before it becomes a provider, and the answer of a step that it does not pass: [`Rejected`].
//!
//! The order of the steps is not here: `pipeline` goes through them for `run`, and [`preflight`](crate::preflight) for `check` and `push`. Both
//! go as [`Step`] lists them. A rejected component was never put to use, and nothing of it stays. That is less than to be *refused*, which
//! happens to a component on probation, and which all replicas remember: a rejected one may be tried again.

mod identity;

use std::fmt;

use anyhow::{Result, anyhow, ensure};
use ccm_cloud::{Annotation, AnnotationGrant, Descriptor, Failure, Reaction};
use ccm_egress::line;
use ccm_sandbox::{CallError, Component, LoadError, Sandbox};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::compare::{Unanswered, Unconfirmed};
use crate::config::{ProviderConfig, Wasi};
use crate::ledger::Counters;
use crate::release::short;
use crate::slot::Refusals;
use crate::source::{FetchError, Packed};
use crate::trust::Signed;
use crate::unpack::unpack;
pub use identity::{Before, WAY_OUT, identity, offers};
pub(crate) use identity::{offered, signed_as};

/// A step of the gate, in their order; and the probation after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The source can be read, and holds one component.
    Source,
    /// It is not too large.
    Size,
    /// It can be unpacked.
    Container,
    /// It is signed, or known.
    Trust,
    /// It is a component for this contract, and not too complex.
    Parse,
    /// It asks for nothing that is not there.
    Imports,
    /// The compiler takes it.
    Compile,
    /// It offers what a provider must, with the right types.
    Exports,
    /// It can say who it is.
    Describe,
    /// It is who it should be.
    Identity,
    /// Files, endpoints and credentials are there, and granted.
    Grants,
    /// It finds nothing wrong with its configuration, and the cloud takes the credentials.
    Check,
    /// It finds what the last good one finds; the first one, what the cluster's objects say that there is.
    Compare,
    /// Not a step of the gate: the reason given for a component that failed its probation, here or on another replica, and is not tried again.
    Probation,
}

impl Step {
    /// For metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Size => "size",
            Self::Container => "container",
            Self::Trust => "trust",
            Self::Parse => "parse",
            Self::Imports => "imports",
            Self::Compile => "compile",
            Self::Exports => "exports",
            Self::Describe => "describe",
            Self::Identity => "identity",
            Self::Grants => "grants",
            Self::Check => "check",
            Self::Compare => "compare",
            Self::Probation => "probation",
        }
    }

    /// Whether the same bytes may pass later: what is around them can change.
    pub const fn may_pass_later(self) -> bool {
        matches!(self, Self::Source | Self::Trust | Self::Identity | Self::Grants | Self::Check)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Longest reason that is told, in bytes: a provider has many problems, and names what it likes.
pub(crate) const MAX_REASON: usize = 16 << 10;

/// Why a component was not taken.
#[derive(Debug)]
pub struct Rejected {
    /// Where it was stopped.
    pub step: Step,
    /// Of the unpacked component, when it came so far; of what the source holds, where that cannot be unpacked.
    pub digest: Option<String>,
    /// Why, with the way out.
    pub error: anyhow::Error,
}

impl Rejected {
    /// Stopped at `step`, before there was a digest.
    pub const fn at(step: Step, error: anyhow::Error) -> Self {
        Self { step, digest: None, error }
    }

    /// As an error that names the component and the step.
    pub fn named(self, component: impl fmt::Display) -> anyhow::Error {
        self.error.context(format!("{component} does not pass the gate (step {})", self.step))
    }

    /// Why, with all causes, for the log, for Events and for pages: in one line, whoever said it.
    pub(crate) fn reason(&self) -> String {
        line(&format!("{:#}", self.error), MAX_REASON)
    }

    /// Whether it waits for an answer alone: the cloud has said neither yes nor no, or not in time, or other calls have the memory. A crash does
    /// not pass by itself.
    pub fn is_passing(&self) -> bool {
        let reaction = self.error.downcast_ref::<Failure>().map(|failure| failure.reaction);
        let call = self.error.downcast_ref::<CallError>();
        self.error.is::<Unanswered>()
            || matches!(reaction, Some(Reaction::Retry | Reaction::Throttled | Reaction::Pending))
            || matches!(call, Some(CallError::OutOfTime(_) | CallError::OutOfRoom(..)))
    }

    fn of(self, digest: &str) -> Self {
        Self { digest: Some(digest.to_owned()), ..self }
    }

    /// Whether the same bytes may pass later: what is around them can change, and who did not answer may answer then.
    pub fn may_pass_later(&self) -> bool {
        self.step.may_pass_later()
            || self.is_out_of_room()
            || self.error.is::<Unanswered>()
            || self.error.is::<NothingFound>()
    }

    /// It found no memory to say what it is: other calls have that.
    fn is_out_of_room(&self) -> bool {
        matches!(self.error.downcast_ref(), Some(LoadError::Describe(CallError::OutOfRoom(..))))
    }

    /// Whether a proven component is rejected for want of an answer alone: neither it nor its cloud has said yes or no. A crash or timeout
    /// while it handles the cloud's answer counts as no answer.
    pub fn is_unanswered(&self) -> bool {
        self.is_passing() || self.is_out_of_room() || self.error.is::<CallError>()
    }
}

impl From<FetchError> for Rejected {
    fn from(error: FetchError) -> Self {
        let step = if matches!(error, FetchError::TooLarge { .. }) { Step::Size } else { Step::Source };
        Self::at(step, error.into())
    }
}

impl From<LoadError> for Rejected {
    fn from(error: LoadError) -> Self {
        let step = match &error {
            LoadError::TooLarge { .. } => Step::Size,
            LoadError::UnknownImports(_) | LoadError::WasiOff(_) => Step::Imports,
            LoadError::Compile(_) => Step::Compile,
            LoadError::MissingExports(_) | LoadError::Types(_) => Step::Exports,
            LoadError::Describe(_) | LoadError::Descriptor(_) => Step::Describe,
            // Not WebAssembly, or too much of it, or for another contract; and what a later version may add.
            _ => Step::Parse,
        };
        Self::at(step, error.into())
    }
}

/// A component that is trusted, and was not looked into.
#[derive(Clone)]
pub struct Unpacked {
    /// The component.
    pub bytes: Vec<u8>,
    /// `sha256:…`
    pub digest: String,
    /// As it lay beside the component.
    pub signature: Option<Vec<u8>>,
    /// What a key has said of it beside its bytes.
    pub signed: Option<Signed>,
    /// It was proven before this process, and kept: what it was allowed counts, whether or not it may serve.
    pub is_stored: bool,
}

/// The first steps: unpacks it, and asks whether it may be run at all.
///
/// # Errors
///
/// The step, and why.
pub async fn unpacked(config: &ProviderConfig, packed: Packed) -> Result<Unpacked, Rejected> {
    let Packed { bytes, signature, .. } = packed;
    let (limit, trust) = (config.limits.sandbox.component_bytes, config.trust.clone());
    let admit = move || {
        let digest_of = |bytes: &[u8]| format!("sha256:{:x}", Sha256::digest(bytes));
        let packed = digest_of(&bytes);
        let bytes = unpack(bytes, limit).map_err(|error| Rejected::at(Step::Container, error.into()).of(&packed))?;
        let digest = digest_of(&bytes);
        match trust.admits(&bytes, &digest, signature.as_deref()) {
            Ok(signed) => Ok(Unpacked { bytes, digest, signature, signed, is_stored: false }),
            Err(error) => Err(Rejected::at(Step::Trust, error).of(&digest)),
        }
    };
    // To unpack and to hash take a while, and so may a disk.
    let admitted = tokio::task::spawn_blocking(admit).await;
    admitted.map_err(|panic| Rejected::at(Step::Container, anyhow!(panic).context("unpacking it failed")))?
}

/// Refuses a signed component that may be older than one that was proven: whoever can write its source could put it back. Where the
/// operator asks for no signature, or names the component by its digest, every age will do. None is older than itself, if it was signed twice.
///
/// # Errors
///
/// Both counters, and the way out.
pub(crate) fn not_older(
    config: &ProviderConfig,
    new: &Unpacked,
    proven: &Counters,
    refused: &Refusals,
) -> Result<(), Rejected> {
    const WAY_OUT: &str = "to take it all the same, use --allow-downgrade, or name its digest (--provider-digest)";
    if config.trust.keys.is_empty() || config.allow_downgrade || config.trust.lists(&new.digest) {
        return Ok(());
    }
    let name = new.signed.as_ref().map(|signed| signed.name.as_str());
    let Some(highest) = proven.highest(name, refused).filter(|highest| highest.digest != new.digest) else {
        return Ok(());
    };
    let (least, before) = (highest.signed.counter, short(&highest.digest));
    let error = match &new.signed {
        Some(signed) if signed.counter >= least => return Ok(()),
        Some(Signed { name, counter, .. }) => anyhow!(
            "it is older than what was proven before: its signature has the counter {counter}, and that of {name} {before} had {least}; sign it again with a counter of at least {least} if it is right; {WAY_OUT}"
        ),
        None => anyhow!(
            "it may be older than what was proven before: its signature has no counter, and that of {} {before} had {least}; sign a statement about it with a counter of at least {least} (`wasm-ccm inspect --statement`); {WAY_OUT}",
            highest.signed.name
        ),
    };
    Err(Rejected::at(Step::Trust, error).of(&new.digest))
}

/// Whether anybody waits for the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// Nobody: another provider serves.
    None,
    /// The whole cluster, or a person.
    Waiting,
}

/// The steps that need nothing but the bytes: to a component that said who it is.
///
/// # Errors
///
/// The step, and why.
pub async fn load(
    sandbox: &Sandbox,
    config: &ProviderConfig,
    unpacked: &Unpacked,
    haste: Haste,
) -> Result<Component, Rejected> {
    let Unpacked { bytes, digest, .. } = unpacked;
    let wasi = config.wasi == Wasi::DenyAll;
    let (bytes, limits) = (bytes.clone(), config.limits.sandbox);
    let loaded = match haste {
        Haste::Waiting => sandbox.load_in_a_hurry(bytes, limits, wasi).await,
        Haste::None => sandbox.load(bytes, limits, wasi).await,
    };
    loaded.map_err(|error| Rejected::from(error).of(digest))
}

/// Annotations that a refusal names.
const NAMED: usize = 3;

/// A first component finds nothing of what the cluster's objects say that there is. The objects may go, or the cloud-config be mended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; check the account, project and region of its configuration; {WAY_OUT}")]
pub struct NothingFound(pub(crate) Unconfirmed);

/// Whether a component declares only annotations that are its own, or that the operator grants; and of the latter no more than the one
/// `before`.
///
/// # Errors
///
/// The annotations, and the flag that allows them.
pub fn annotations(config: &ProviderConfig, new: &Descriptor, before: Option<&Descriptor>) -> Result<()> {
    let granted = config.grants.annotations()?;
    let is_open = |one: &&Annotation| !granted.iter().any(|grant| grant.covers(&one.name));
    let open: Vec<_> = new.foreign_annotations().into_iter().filter(is_open).collect();
    ensure!(
        open.is_empty(),
        "it wants to use annotations that are not of its own domain: {}; if you want it to, grant them with {}",
        told(&open),
        annotation_flags(&open),
    );
    // A component that chose its name chose the prefix with it.
    if config.component.is_none() && config.name.is_none() {
        let by_prefix = new.annotations.iter().filter(|one| one.is_own_by_prefix(&new.name)).filter(is_open);
        let by_prefix: Vec<_> = by_prefix.collect();
        ensure!(
            by_prefix.is_empty(),
            "it calls itself {:?}, and wants to use the annotations of that cloud: {}; if that is its name, set --cloud-provider={}; else grant them with --allow-annotation",
            new.name,
            told(&by_prefix),
            new.name,
        );
    }
    let wider = before.map(|before| before.wider_annotations(new)).unwrap_or_default();
    ensure!(
        wider.is_empty() || config.grants.allow_grant_change,
        "it wants to use more annotations that are not of its own domain than the one that serves: {}; if that is right, use --allow-grant-change",
        told(&wider)
    );
    Ok(())
}

/// The first annotations, with what becomes of them, and how many more there are: some components declare fifty.
fn told(annotations: &[&Annotation]) -> String {
    let one =
        |one: &&Annotation| format!("{} ({})", one.name, if one.is_written() { "reads and writes" } else { "reads" });
    let first: Vec<String> = annotations.iter().take(NAMED).map(one).collect();
    let more = annotations.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more, which `wasm-ccm inspect` lists") };
    first.join(", ") + &more
}

/// The flags that grant annotations, ready to paste.
#[must_use]
pub fn annotation_flags(annotations: &[&Annotation]) -> String {
    let flags = annotations.iter().map(|one| match AnnotationGrant::parse(&one.name) {
        Ok(_) => format!("--allow-annotation='{}'", one.name),
        Err(_) => format!("another name than {:?}, which nobody can grant", one.name),
    });
    flags.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
