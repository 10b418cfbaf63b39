//! Flags of the service controller.

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_controllers::ServiceSettings;
use clap::Args;

use ccm_rollout::config::duration::{parse, parse_period};

/// How load balancers are looked after.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load balancers")]
pub(crate) struct ServiceArgs {
    /// Services for which the cloud is asked at the same time, at most. A Service whose cloud is still at work does not count.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(31))]
    pub(crate) concurrent_service_syncs: NonZeroUsize,
    /// Time that a change of Nodes waits for further changes.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse)]
    pub(crate) service_node_debounce: Duration,
    /// Interval between comparisons of all load balancers with the cloud, plus or minus a third; 0s never compares.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse)]
    pub(crate) service_verify_period: Duration,
    /// Time that Services wait at start for a look at all load balancers; 0s skips it. A look that takes longer continues in the
    /// background.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse)]
    pub(crate) service_survey_timeout: Duration,
    /// Services that are ensured first for another revision or configuration of a provider, before the rest; 0 ensures all at once.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) service_revision_first: usize,
    /// Delay after the first failure; it doubles with each further failure.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub(crate) service_min_backoff: Duration,
    /// Longest delay after a failure.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period)]
    pub(crate) service_max_backoff: Duration,
}

impl ServiceArgs {
    /// As the controller takes them.
    pub(crate) fn settings(&self) -> ServiceSettings {
        let mut settings = ServiceSettings {
            concurrent_syncs: self.concurrent_service_syncs,
            node_debounce: self.service_node_debounce,
            verify_period: self.service_verify_period,
            start_survey_timeout: self.service_survey_timeout,
            revision_first: self.service_revision_first,
            ..ServiceSettings::default()
        };
        settings.queue.min_backoff = self.service_min_backoff;
        settings.queue.max_backoff = self.service_max_backoff;
        settings
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: ServiceArgs,
    }

    fn settings(flags: &[&str]) -> ServiceSettings {
        Cli::try_parse_from(["x"].iter().chain(flags)).unwrap().args.settings()
    }

    #[test]
    fn without_flags_everything_is_as_the_controller_has_it() {
        assert_eq!(settings(&[]), ServiceSettings::default());
    }

    #[test]
    fn each_flag_sets_its_own_value() {
        let set = settings(&[
            "--concurrent-service-syncs=7",
            "--service-node-debounce=1s",
            "--service-verify-period=0s",
            "--service-survey-timeout=2s",
            "--service-revision-first=6",
            "--service-min-backoff=3s",
            "--service-max-backoff=4s",
        ]);
        let seconds = Duration::from_secs;
        assert_eq!((set.concurrent_syncs.get(), set.node_debounce), (7, seconds(1)));
        assert_eq!(set.revision_first, 6);
        assert_eq!((set.verify_period, set.start_survey_timeout), (Duration::ZERO, seconds(2)));
        assert_eq!((set.queue.min_backoff, set.queue.max_backoff), (seconds(3), seconds(4)));
    }
}
