//! Flags of the election, and what they come to.

use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_controllers::JournalPlace;
use ccm_diagnosis::LEASE;
use ccm_leader::{Settings, Timing};
use ccm_rollout::PeerSettings;
use ccm_rollout::config::duration::parse_period;
use clap::{ArgAction, Args, ValueEnum};

/// Kinds of locks; upstream has dropped all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResourceLock {
    /// A Lease of `coordination.k8s.io/v1`.
    Leases,
}

/// Flags of the election, with upstream's names and defaults.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderArgs {
    /// Elect the replica that may write; false if there is only one replica.
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true, default_missing_value = "true",
        num_args = 0..=1, require_equals = true
    )]
    pub leader_elect: bool,
    /// Time that a standby waits after the last renewal of the leader.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_period)]
    pub(super) leader_elect_lease_duration: Duration,
    /// Time for which the leader continues without a renewal; then it exits.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    pub(super) leader_elect_renew_deadline: Duration,
    /// Interval between attempts to renew or acquire the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_period)]
    pub(super) leader_elect_retry_period: Duration,
    /// Kind of the lock.
    #[arg(long, value_enum, default_value = "leases")]
    leader_elect_resource_lock: ResourceLock,
    /// Name of the Lease; replicas of one manager share it.
    #[arg(long, value_name = "NAME", default_value = LEASE.1)]
    pub(super) leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = LEASE.0)]
    pub(super) leader_elect_resource_namespace: String,
}

impl LeaderArgs {
    /// Where the replicas meet, also where there is no election: a new pod learns there what the one before found out. `identity`: of this
    /// process in the election, if there is one.
    pub fn peers(&self, identity: Option<&str>) -> PeerSettings {
        let (namespace, lease) = (&self.leader_elect_resource_namespace, &self.leader_elect_resource_name);
        PeerSettings { namespace: namespace.clone(), lease: lease.clone(), identity: identity.map(ToOwned::to_owned) }
    }

    /// Where deletions of Nodes are noted for the next leader, also where there is no election: a restart is another leader as well.
    pub fn journal(&self) -> JournalPlace {
        JournalPlace {
            namespace: self.leader_elect_resource_namespace.clone(),
            config_map: ccm_rollout::CONFIG_MAP.to_owned(),
            manager: self.leader_elect_resource_name.clone(),
        }
    }

    /// The settings; none when there is no election.
    ///
    /// # Errors
    ///
    /// Names the flags that do not go together.
    pub fn settings(&self) -> Result<Option<Settings>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let ResourceLock::Leases = self.leader_elect_resource_lock;
        for (flag, value) in [
            ("--leader-elect-resource-name", &self.leader_elect_resource_name),
            ("--leader-elect-resource-namespace", &self.leader_elect_resource_namespace),
        ] {
            // The rest of the rules is the API server's to tell; these would make another path of it.
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            ensure!(!value.is_empty() && value.chars().all(is_name), "{flag}={value:?} is no name of an object");
        }
        let timing = Timing::try_new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        )?;
        let (namespace, name) = (&self.leader_elect_resource_namespace, &self.leader_elect_resource_name);
        Settings::new(namespace.clone(), name.clone(), timing).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        leader: LeaderArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<Settings>> {
        Cli::try_parse_from([&["run"], flags].concat())?.leader.settings()
    }

    #[test]
    fn flags_of_upstream_have_upstreams_defaults() {
        let settings = settings(&[]).unwrap().unwrap();
        let seconds = Duration::from_secs;
        assert_eq!(settings.timing, Timing::try_new(seconds(15), seconds(10), seconds(2)).unwrap());
        assert_eq!((settings.namespace.as_str(), settings.name.as_str()), ("kube-system", "cloud-controller-manager"));
    }

    #[test]
    fn election_is_switched_as_a_flag_of_go_is() {
        for (flags, on) in [
            (&["--leader-elect"][..], true),
            (&["--leader-elect=true"], true),
            (&["--leader-elect=false"], false),
            // Nobody checks times that do not count.
            (&["--leader-elect=false", "--leader-elect-lease-duration=1s"], false),
        ] {
            assert_eq!(settings(flags).unwrap().is_some(), on, "{flags:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_the_name_of_its_flag() {
        for (flag, part) in [
            ("--leader-elect-resource-lock=endpoints", "[possible values: leases]"),
            ("--leader-elect-renew-deadline=15s", "--leader-elect-lease-duration=15s must be longer than"),
            ("--leader-elect-retry-period=0s", "--leader-elect-retry-period"),
            ("--leader-elect-resource-name=a/b", "--leader-elect-resource-name=\"a/b\" is no name"),
            ("--leader-elect-resource-namespace=", "--leader-elect-resource-namespace=\"\" is no name"),
        ] {
            let error = settings(&[flag]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
