//! Source ranges: which clients `spec.loadBalancerSourceRanges` lets in.

use ccm_sdk::types::{Problem, Service};

use crate::ordered;
use crate::service_spec::reader::masked;

/// What could not be read is neither of the two: an empty list would let everybody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceRanges {
    Everybody,
    Only(Networks),
}

/// At least one, such as `10.0.0.0/8`; in order, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Networks(Vec<String>);

impl SourceRanges {
    /// # Errors
    ///
    /// It has something that is no network.
    pub(crate) fn of(service: &Service) -> Result<Self, Problem> {
        let network = |range: &String| {
            masked(range.trim()).ok_or_else(|| {
                let message = format!(
                    "failed to parse spec.loadBalancerSourceRanges: it has {range:?}; allowed are networks such as \"10.0.0.0/8\""
                );
                Problem::fatal("spec.loadBalancerSourceRanges", message)
            })
        };
        let networks: Vec<String> = service.source_ranges.iter().map(network).collect::<Result<_, _>>()?;
        let networks = ordered::list(networks);
        Ok(if networks.is_empty() { Self::Everybody } else { Self::Only(Networks(networks)) })
    }
}

impl Networks {
    /// As rules of a load balancer.
    pub(crate) fn rules(&self) -> Vec<String> {
        self.0.iter().map(|network| format!("cidr:{network}")).collect()
    }

    /// As sources of a firewall.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.0.clone()
    }
}
