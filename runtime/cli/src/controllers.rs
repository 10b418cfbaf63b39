//! Flags of the controllers, one table for each.

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_controllers::{ClusterSettings, DeletionBudget, NodeLifecycleSettings, RouteSettings, ServiceSettings};
use ccm_rollout::config::duration::{parse, parse_period};
use clap::{ArgAction, Args};

/// When Nodes are deleted, and how many.
#[derive(Debug, Args)]
#[command(next_help_heading = "Deletion of Nodes")]
pub struct NodeLifecycleArgs {
    /// Time after which the host asks the cloud again about a Node that is not Ready; it doubles while the answer stays the same.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub node_monitor_period: Duration,
    /// Longest such time.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_period)]
    pub node_monitor_max_period: Duration,
    /// Minimum age of a Node; younger Nodes are left alone.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse)]
    pub node_deletion_min_age: Duration,
    /// Time from the cloud's first answer that a machine does not exist to the second question.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub node_deletion_second_look: Duration,
    /// Percentage of a provider's Nodes that may be deleted within --node-deletion-period, or --node-deletion-min-budget if that
    /// is more. Further deletions are held.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub node_deletion_percent: u8,
    /// The same as a number; at most half of the provider's Nodes, rounded up. With 0 for both, each deletion has to be
    /// confirmed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub node_deletion_min_budget: usize,
    /// The period of these two flags.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_period)]
    pub node_deletion_period: Duration,
    /// Names of Nodes that may be deleted beyond the budget, each once, comma-separated. The cloud is still asked twice.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = node_name)]
    pub confirm_node_deletions: Vec<String>,
    /// Also delete Nodes without a provider ID when the cloud does not know their names, as upstream does.
    #[arg(long)]
    pub delete_nodes_without_provider_id: bool,
}

impl NodeLifecycleArgs {
    /// As the controller takes them.
    pub fn settings(&self) -> NodeLifecycleSettings {
        NodeLifecycleSettings {
            monitor_period: self.node_monitor_period,
            max_monitor_period: self.node_monitor_max_period,
            min_age: self.node_deletion_min_age,
            second_look: self.node_deletion_second_look,
            budget: DeletionBudget {
                percent: self.node_deletion_percent,
                min: self.node_deletion_min_budget,
                period: self.node_deletion_period,
            },
            confirmed: self.confirm_node_deletions.iter().cloned().collect(),
            delete_without_provider_id: self.delete_nodes_without_provider_id,
            ..NodeLifecycleSettings::default()
        }
    }
}

/// Name of a Node: what is none, such as a pattern, would confirm nothing.
fn node_name(text: &str) -> Result<String, String> {
    let is_in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 253 || !text.chars().all(is_in_name) {
        return Err(format!("{text:?} is not the name of a Node"));
    }
    Ok(text.to_owned())
}

/// How load balancers are looked after.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load balancers")]
pub struct ServiceArgs {
    /// Services that the host works on at the same time, at most. A Service that waits for the cloud to finish does not count.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(31))]
    pub concurrent_service_syncs: NonZeroUsize,
    /// Time that a change of Nodes waits for further changes.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse)]
    pub service_node_debounce: Duration,
    /// Interval between comparisons of all load balancers with the cloud, plus or minus a third; 0s never compares.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse)]
    pub service_verify_period: Duration,
    /// Time that Services wait at start for a survey of all load balancers; 0s skips it. A survey that takes longer continues in the
    /// background.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse)]
    pub service_survey_timeout: Duration,
    /// Services that are ensured first for another revision or configuration of a provider, before the rest; 0 ensures all at once.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub service_revision_first: usize,
    /// Delay after the first failure; it doubles with each further failure.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub service_min_backoff: Duration,
    /// Longest delay after a failure.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period)]
    pub service_max_backoff: Duration,
}

impl ServiceArgs {
    /// As the controller takes them.
    pub fn settings(&self) -> ServiceSettings {
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

/// How routes to pods are kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Routes")]
pub struct RouteArgs {
    /// Keep a route in the cloud for each pod CIDR of a Node, where the provider offers routes and --cluster-cidr is given.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set)]
    pub configure_cloud_routes: bool,
    /// Interval between comparisons of all routes with the cloud without a change of Nodes, plus or minus a tenth.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period)]
    pub route_reconciliation_period: Duration,
    /// Time without further changes of Nodes after which the host compares routes.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse)]
    pub route_debounce: Duration,
    /// Longest time that a change of a Node waits while further changes arrive.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    pub route_max_wait: Duration,
    /// Routes in one call of the provider, at most.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(1_999))]
    pub route_batch: NonZeroUsize,
    /// Calls of the provider to find the routes that make a batch fail, at most. The others are tried again later.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(63))]
    pub route_max_calls: NonZeroUsize,
    /// Calls in a row without an answer, or that fail without blaming a route, after which the host considers the cloud down. What is left waits for
    /// the next comparison.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(7))]
    pub route_max_failures: NonZeroUsize,
    /// Events about Nodes without routes from one comparison, at most. The log says how many more there are.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(49))]
    pub route_max_events: NonZeroUsize,
}

impl RouteArgs {
    /// As the controller takes them.
    pub fn settings(&self) -> RouteSettings {
        RouteSettings {
            debounce: self.route_debounce,
            max_wait: self.route_max_wait,
            period: self.route_reconciliation_period,
            batch: self.route_batch,
            max_calls: self.route_max_calls,
            max_failures: self.route_max_failures,
            max_events: self.route_max_events,
            ..RouteSettings::default()
        }
    }
}

/// When providers are asked to look after the cluster as a whole.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster as a whole")]
pub struct ClusterArgs {
    /// Time without further changes of Nodes and Services after which the host calls providers.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse)]
    pub cluster_debounce: Duration,
    /// Longest time that a change waits while further changes arrive.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    pub cluster_max_wait: Duration,
    /// Interval between calls without a change.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period)]
    pub cluster_period: Duration,
}

impl ClusterArgs {
    /// As the controller takes them.
    pub fn settings(&self) -> ClusterSettings {
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
        node_lifecycle: NodeLifecycleArgs,
        #[command(flatten)]
        service: ServiceArgs,
        #[command(flatten)]
        route: RouteArgs,
        #[command(flatten)]
        cluster: ClusterArgs,
    }

    fn parsed(flags: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["x"], flags].concat())
    }

    #[test]
    fn without_flags_everything_is_as_the_controllers_have_it() {
        let cli = parsed(&[]).unwrap();
        assert_eq!(cli.node_lifecycle.settings(), NodeLifecycleSettings::default());
        assert_eq!(cli.service.settings(), ServiceSettings::default());
        assert_eq!(cli.route.settings(), RouteSettings::default());
        assert!(cli.route.configure_cloud_routes);
        assert_eq!(cli.cluster.settings(), ClusterSettings::default());
    }

    #[test]
    fn each_flag_of_the_node_lifecycle_controller_sets_its_own_value() {
        let given = parsed(&[
            "--node-monitor-period=7s",
            "--node-monitor-max-period=2m",
            "--node-deletion-min-age=0",
            "--node-deletion-second-look=1s",
            "--node-deletion-percent=0",
            "--node-deletion-min-budget=1",
            "--node-deletion-period=1h",
            "--confirm-node-deletions=a,b.example",
            "--confirm-node-deletions=c",
            "--delete-nodes-without-provider-id",
        ]);
        let expected = NodeLifecycleSettings {
            monitor_period: Duration::from_secs(7),
            max_monitor_period: Duration::from_secs(120),
            min_age: Duration::ZERO,
            second_look: Duration::from_secs(1),
            budget: DeletionBudget { percent: 0, min: 1, period: Duration::from_secs(3_600) },
            confirmed: ["a", "b.example", "c"].map(str::to_owned).into(),
            delete_without_provider_id: true,
            ..NodeLifecycleSettings::default()
        };
        assert_eq!(given.unwrap().node_lifecycle.settings(), expected);
    }

    #[test]
    fn each_flag_of_the_service_controller_sets_its_own_value() {
        let given = parsed(&[
            "--concurrent-service-syncs=7",
            "--service-node-debounce=1s",
            "--service-verify-period=0s",
            "--service-survey-timeout=2s",
            "--service-revision-first=6",
            "--service-min-backoff=3s",
            "--service-max-backoff=4s",
        ]);
        let set = given.unwrap().service.settings();
        let seconds = Duration::from_secs;
        assert_eq!((set.concurrent_syncs.get(), set.node_debounce), (7, seconds(1)));
        assert_eq!(set.revision_first, 6);
        assert_eq!((set.verify_period, set.start_survey_timeout), (Duration::ZERO, seconds(2)));
        assert_eq!((set.queue.min_backoff, set.queue.max_backoff), (seconds(3), seconds(4)));
    }

    #[test]
    fn each_flag_of_the_route_controller_sets_its_own_value() {
        let given = parsed(&[
            "--route-reconciliation-period=10s",
            "--route-debounce=2s",
            "--route-max-wait=3s",
            "--route-batch=4",
            "--route-max-calls=5",
            "--route-max-failures=6",
            "--route-max-events=7",
        ]);
        let set = given.unwrap().route.settings();
        let seconds = Duration::from_secs;
        assert_eq!((set.period, set.debounce, set.max_wait), (seconds(10), seconds(2), seconds(3)));
        let numbers = [set.batch, set.max_calls, set.max_failures, set.max_events].map(NonZeroUsize::get);
        assert_eq!(numbers, [4, 5, 6, 7]);
        let wants = |flags: &[&str]| parsed(flags).unwrap().route.configure_cloud_routes;
        assert!(wants(&["--configure-cloud-routes"]) && wants(&["--configure-cloud-routes=true"]));
        assert!(!wants(&["--configure-cloud-routes=false"]));
    }

    #[test]
    fn each_flag_of_the_cluster_controller_sets_its_own_value() {
        let given = parsed(&["--cluster-debounce=1s", "--cluster-max-wait=3s", "--cluster-period=1m"]);
        let set = given.unwrap().cluster.settings();
        let seconds = Duration::from_secs;
        assert_eq!((set.debounce, set.max_wait, set.period), (seconds(1), seconds(3), seconds(60)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for flag in [
            "--node-monitor-period=0",
            "--node-deletion-second-look=0s",
            "--node-deletion-percent=101",
            "--node-deletion-percent=-1",
            "--node-deletion-period=0",
            "--confirm-node-deletions=*",
            "--confirm-node-deletions=a,",
            "--confirm-node-deletions=A",
            "--route-reconciliation-period=0",
            "--route-batch=0",
            "--route-max-calls=0",
            "--route-max-failures=0",
            "--route-max-events=0",
            "--configure-cloud-routes=perhaps",
        ] {
            assert!(parsed(&[flag]).is_err(), "{flag}");
        }
    }
}
