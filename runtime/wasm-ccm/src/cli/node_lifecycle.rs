//! Flags of the node lifecycle controller.

use std::time::Duration;

use ccm_controllers::{DeletionBudget, NodeLifecycleSettings};
use clap::Args;

use ccm_rollout::config::duration::{parse, parse_period};

/// When Nodes are deleted, and how many.
#[derive(Debug, Args)]
#[command(next_help_heading = "Deletion of Nodes")]
pub(crate) struct NodeLifecycleArgs {
    /// Time after which the cloud is asked again about a Node that is not Ready; it doubles while the answer stays the same.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub(crate) node_monitor_period: Duration,
    /// Longest such time.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_period)]
    pub(crate) node_monitor_max_period: Duration,
    /// Minimum age of a Node; younger Nodes are left alone.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse)]
    pub(crate) node_deletion_min_age: Duration,
    /// Time from the cloud's first answer that a machine does not exist to the second question.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub(crate) node_deletion_second_look: Duration,
    /// Percentage of a provider's Nodes that may be deleted within --node-deletion-period, or --node-deletion-min-budget if that
    /// is more. Further deletions are held.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) node_deletion_percent: u8,
    /// The same as a number; at most half of the provider's Nodes, rounded up. With 0 for both, each deletion has to be
    /// confirmed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) node_deletion_min_budget: usize,
    /// The period of these two flags.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_period)]
    pub(crate) node_deletion_period: Duration,
    /// Names of Nodes that may be deleted beyond the budget, each once, comma-separated. The cloud is still asked twice.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub(crate) confirm_node_deletions: Vec<String>,
    /// Also delete Nodes without a provider ID when the cloud does not know their names, as upstream does.
    #[arg(long)]
    pub(crate) delete_nodes_without_provider_id: bool,
}

impl NodeLifecycleArgs {
    /// As the controller takes them.
    pub(crate) fn settings(&self) -> NodeLifecycleSettings {
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
fn name(text: &str) -> Result<String, String> {
    let is_in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 253 || !text.chars().all(is_in_name) {
        return Err(format!("{text:?} is not the name of a Node"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: NodeLifecycleArgs,
    }

    fn settings(flags: &[&str]) -> Result<NodeLifecycleSettings, clap::Error> {
        Ok(Cli::try_parse_from([&["x"], flags].concat())?.args.settings())
    }

    #[test]
    fn without_flags_the_defaults_of_the_controller_count() {
        assert_eq!(settings(&[]).unwrap(), NodeLifecycleSettings::default());
    }

    #[test]
    fn each_flag_has_its_setting() {
        let given = settings(&[
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
        let wanted = NodeLifecycleSettings {
            monitor_period: Duration::from_secs(7),
            max_monitor_period: Duration::from_secs(120),
            min_age: Duration::ZERO,
            second_look: Duration::from_secs(1),
            budget: DeletionBudget { percent: 0, min: 1, period: Duration::from_secs(3_600) },
            confirmed: ["a", "b.example", "c"].map(str::to_owned).into(),
            delete_without_provider_id: true,
            ..NodeLifecycleSettings::default()
        };
        assert_eq!(given.unwrap(), wanted);
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
        ] {
            assert!(settings(&[flag]).is_err(), "{flag}");
        }
    }
}
