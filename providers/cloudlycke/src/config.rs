//! The configuration file.
//!
//! | key | default | meaning |
//! | --- | --- | --- |
//! | `mode` | `adaptive` | `fixture` brings the two machines of the original demonstration |
//! | `region`, `zone` | `virtualbox` | of machines that have none of their own |
//! | `strict` | `false` | a Node that is not in `instances` has no machine; it may be deleted |
//! | `adoptForeign` | `false` | also take care of Nodes with another cloud's provider ID |
//! | `reportExternalIP` | `true` | a Node without external address has its first internal one as such |
//! | `instances[]` | | machines: `name` (of the Node), `id`, `instanceType`, `zone`, `region`, `state`, `addresses[]` |
//! | `instances[].addresses[]` | | `type` and `address`, as in a Node's status |
//! | `loadBalancer.mode` | `pool` | `nodes`: a load balancer has the addresses of its Nodes; `none`: there are none |
//! | `loadBalancer.pool4` | `203.0.113.0/24` | one network or several, at least a /30 each; no first and last addresses are given |
//! | `loadBalancer.pool6` | `2001:db8:c10d::/120` | one network or several; `[]` for none |
//! | `loadBalancer.provisionDelay` | `0s` | a new load balancer is being made so long |
//! | `loadBalancer.hostnameSuffix` | | each has the host name `NAMESPACE-NAME.SUFFIX` beside its first address |
//! | `routes.enabled` | `false` | keep routes |
//! | `routes.seed[]` | | routes that are there at first: `cidr`, and `node`; without it, a route leads nowhere |
//! | `clusterName` | | no effect: the host knows it |
//!
//! Every mistake is found in one go. Keys without effect are judged like the others, so that a file can be written today,
//! but the operator is told.

mod machine;
mod network;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::config::Section;
use ccm_sdk::label::LabelValue;
use ccm_sdk::types::{Failure, Node, Problem};

pub(crate) use self::machine::{Machine, Machines, Mode, State};
pub(crate) use self::network::{BalancerMode, LoadBalancers};

/// The file's name in the contract; the operator gives it with `--cloud-config`.
pub(crate) const FILE: &str = "cloud-config";

const DEFAULT_PLACE: &str = "virtualbox";

/// How long the host may wait before it asks again while the file is wrong: a person has to act first.
const MISCONFIGURED_RETRY: Duration = Duration::from_secs(30);

/// What the operator asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) region: LabelValue,
    pub(crate) zone: LabelValue,
    /// Nodes without a machine in the list have none.
    pub(crate) strict: bool,
    /// Also take care of Nodes whose provider ID is another cloud's.
    pub(crate) adopt_foreign: bool,
    /// A Node without external address has its internal one as such.
    pub(crate) report_external_ip: bool,
    /// That the operator listed, and those of the demonstration.
    pub(crate) machines: Machines,
    /// How load balancers come about.
    pub(crate) load_balancers: LoadBalancers,
    /// Routes that are there at first, and their Nodes; none when there are no routes.
    pub(crate) routes: Option<Vec<(Cidr, Option<String>)>>,
}

impl Config {
    /// The machine behind the Node: the one with its provider ID, else the one with its name.
    pub(crate) fn machine(&self, node: &Node) -> Option<&Machine> {
        let by_id = node.provider_id.as_ref().and_then(|id| self.machines.with_id(id));
        by_id.or_else(|| self.machines.named(&node.name))
    }
}

/// A file that was read, and everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Defaults stand where something is wrong.
    pub(crate) config: Config,
    pub(crate) problems: Vec<Problem>,
}

impl Reading {
    /// The configuration, if nothing in it is so wrong that acting on it could do harm.
    ///
    /// # Errors
    ///
    /// One failure that lists all fatal problems.
    pub(crate) fn usable(self) -> Result<Config, Failure> {
        let fatal: Vec<_> = self.problems.iter().filter(|problem| problem.fatal).map(ToString::to_string).collect();
        if fatal.is_empty() {
            return Ok(self.config);
        }
        let message = format!("the configuration has mistakes: {}", fatal.join("; "));
        Err(Failure::retry(message).after(MISCONFIGURED_RETRY))
    }
}

/// Reads the file, which arrives as JSON.
pub(crate) fn read(text: Option<&str>) -> Reading {
    let mut problems = vec![];
    let mut root = Section::whole(FILE, text, &mut problems);
    let config = sections(&mut root);
    root.finish();
    Reading { config, problems }
}

fn sections(root: &mut Section<'_>) -> Config {
    let place = |root: &mut Section<'_>, key| {
        root.parsed(key, str::parse).unwrap_or_else(|| LabelValue::literal(DEFAULT_PLACE))
    };
    let mode = root.parsed("mode", str::parse).unwrap_or(Mode::Adaptive);
    let region = place(root, "region");
    let zone = place(root, "zone");
    let strict = root.flag("strict").unwrap_or(false);
    let adopt_foreign = root.flag("adoptForeign").unwrap_or(false);
    let report_external_ip = root.flag("reportExternalIP").unwrap_or(true);
    let machines = machine::read(root, mode);
    let load_balancers = network::load_balancers(root);
    let routes = network::routes(root);
    if root.text("clusterName").is_some() {
        root.unused("clusterName", "has no effect; give the host `--cluster-name`");
    }
    Config { mode, region, zone, strict, adopt_foreign, report_external_ip, machines, load_balancers, routes }
}
