//! Flags of the cluster controller.

use std::time::Duration;

use ccm_controllers::ClusterSettings;
use clap::Args;

use ccm_rollout::config::duration::{parse, parse_period};

/// When providers are asked to look after the cluster as a whole.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster as a whole")]
pub(crate) struct ClusterArgs {
    /// Time without further changes of Nodes and Services after which a change counts.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse)]
    pub(crate) cluster_debounce: Duration,
    /// Longest time that a change waits when changes do not end.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    pub(crate) cluster_max_wait: Duration,
    /// Interval between calls without a change.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period)]
    pub(crate) cluster_period: Duration,
}

impl ClusterArgs {
    /// As the controller takes them.
    pub(crate) fn settings(&self) -> ClusterSettings {
        ClusterSettings {
            debounce: self.cluster_debounce,
            max_wait: self.cluster_max_wait,
            period: self.cluster_period,
            ..ClusterSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: ClusterArgs,
    }

    fn settings(flags: &[&str]) -> ClusterSettings {
        Cli::try_parse_from(["x"].iter().chain(flags)).unwrap().args.settings()
    }

    #[test]
    fn flags_set_their_own_value_and_are_otherwise_as_the_controller_has_it() {
        assert_eq!(settings(&[]), ClusterSettings::default());
        let set = settings(&["--cluster-debounce=1s", "--cluster-max-wait=3s", "--cluster-period=1m"]);
        let seconds = Duration::from_secs;
        assert_eq!((set.debounce, set.max_wait, set.period), (seconds(1), seconds(3), seconds(60)));
    }
}
