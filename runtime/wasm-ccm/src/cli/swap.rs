//! Flags of how a provider is exchanged while the host runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use ccm_rollout::config::duration::{parse, parse_period};
use ccm_rollout::{KeeperSettings, ProbationSettings};

/// When a source counts as changed, and how a new component proves itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exchange of providers")]
pub(crate) struct SwapArgs {
    /// How often a file or folder is looked at; ConfigMaps (configmap:) are watched.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_period)]
    pub(crate) provider_poll: Duration,
    /// How long a source must stay the same before its content counts: it may be half written.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = parse)]
    pub(crate) provider_settle: Duration,
    /// How long at least a new component is on probation: nothing is deleted on its word alone, and the one before returns
    /// when it fails.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse)]
    pub(crate) provider_probation: Duration,
    /// How many good answers it must have given by the end of its probation.
    /// Failures and the questions of the admission webhook do not count.
    #[arg(long, value_name = "N", default_value_t = ProbationSettings::default().calls)]
    pub(crate) provider_probation_calls: u32,
    /// How many calls without an answer, or that fail where the one before does not, end a probation.
    #[arg(long, value_name = "N", default_value_t = ProbationSettings::default().faults, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) provider_probation_faults: u32,
    /// A folder for the last good component of each provider: with it the host can start while the source is gone or broken.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: Option<PathBuf>,
}

impl SwapArgs {
    /// As the keepers take them.
    pub(crate) fn settings(&self) -> KeeperSettings {
        KeeperSettings {
            poll: self.provider_poll,
            settle: self.provider_settle,
            probation: ProbationSettings {
                time: self.provider_probation,
                calls: self.provider_probation_calls,
                faults: self.provider_probation_faults,
            },
            state_dir: self.state_dir.clone(),
        }
    }
}
