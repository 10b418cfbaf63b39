//! How a command ends: one table of exit codes for all commands that judge something.

use std::process::ExitCode;

/// What a command found. Its exit code is in `docs/reference/flags.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Good,
    /// Something is wrong.
    Wrong,
    /// Something would be changed.
    Changes,
    /// Nothing wrong was found, and something could not be judged.
    Unjudged,
}

impl Verdict {
    const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Wrong => 1,
            Self::Changes => 2,
            Self::Unjudged => 3,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        verdict.code().into()
    }
}

impl From<ccm_diagnosis::Verdict> for Verdict {
    fn from(verdict: ccm_diagnosis::Verdict) -> Self {
        match verdict {
            ccm_diagnosis::Verdict::Fine => Self::Good,
            ccm_diagnosis::Verdict::Wrong => Self::Wrong,
            ccm_diagnosis::Verdict::Unknown => Self::Unjudged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/flags.md");
        let page = std::fs::read_to_string(page).unwrap();
        for verdict in [Verdict::Good, Verdict::Wrong, Verdict::Changes, Verdict::Unjudged] {
            let row = format!("| {} |", verdict.code());
            assert_eq!(page.matches(&row).count(), 1, "{verdict:?}");
        }
    }
}
