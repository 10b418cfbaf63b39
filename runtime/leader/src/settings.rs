//! What the operator sets, and who this process is.

use anyhow::{Context as _, Result};

use crate::timing::Timing;

/// What one process's part in an election is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// `HOSTNAME_UUID`: another one for each process.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
}

impl Settings {
    /// The settings of this process, with an identity that no other process has.
    ///
    /// # Errors
    ///
    /// The machine does not tell its name.
    pub fn new(namespace: String, name: String, timing: Timing) -> Result<Self> {
        Ok(Self { namespace, name, identity: identity()?, timing })
    }
}

/// The host's name, so that people know where to look, and a number that no other process has.
fn identity() -> Result<String> {
    let read = |file: &str| {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("{file}: the identity for leader election is made from it; --leader-elect=false does without, where there is one replica"))?;
        anyhow::Ok(text.trim().to_owned())
    };
    Ok(format!("{}_{}", read("/proc/sys/kernel/hostname")?, read("/proc/sys/kernel/random/uuid")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_on_one_host_are_two_candidates() {
        let [one, other] = [identity().unwrap(), identity().unwrap()];
        assert_ne!(one, other);
        let (host, uuid) = one.rsplit_once('_').unwrap();
        assert!(!host.is_empty() && uuid.len() == 36, "{one}");
    }
}
