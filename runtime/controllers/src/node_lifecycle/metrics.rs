//! What operators see of the node lifecycle controller.

use ccm_cloud::Reaction;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AnswerLabel {
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ProviderLabel {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ChangeLabel {
    change: &'static str,
}

/// What the node lifecycle controller does. Upstream has no metrics here.
#[derive(Debug, Clone, Default)]
pub struct NodeLifecycleMetrics {
    pub(crate) not_ready: Gauge,
    held: Family<ProviderLabel, Gauge>,
    pub(crate) first_absent: Counter,
    looks: Family<AnswerLabel, Counter>,
    deletions: Family<ResultLabel, Counter>,
    taints: Family<ChangeLabel, Counter>,
}

impl NodeLifecycleMetrics {
    /// Registers the metrics of the node lifecycle controller.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Nodes that are not Ready and belong to a provider of this process";
        registry.register("ccm_node_lifecycle_not_ready_nodes", help, this.not_ready.clone());
        let help = "Nodes without a machine whose deletion is held, because too many were deleted before; with several providers, `provider` is empty for Nodes without a provider ID";
        registry.register("ccm_node_lifecycle_held_nodes", help, this.held.clone());
        let help = "First answers that a machine does not exist; a second answer decides";
        registry.register("ccm_node_lifecycle_first_absent", help, this.first_absent.clone());
        // What alerts count is there before the first time.
        drop(this.looks.get_or_create(&AnswerLabel { answer: Reaction::Unauthorized.as_str() }));
        let help = "Questions about machines of Nodes that are not Ready, by answer: `running`, `stopped`, `other`, `absent`, or the reaction to a failure";
        registry.register("ccm_node_lifecycle_looks", help, this.looks.clone());
        registry.register("ccm_node_lifecycle_deletions", "Deletions of Nodes, by result: `deleted`, `failed`, or `unneeded` because the Node was Ready, gone or another one at the last moment", this.deletions.clone());
        registry.register(
            "ccm_node_lifecycle_taints",
            "Changes of the shutdown taint: `added`, `removed`, `failed`",
            this.taints.clone(),
        );
        this
    }

    /// Nodes of this provider whose deletion is held; of any provider, when the name is empty.
    pub(crate) fn held(&self, provider: &str) -> Gauge {
        self.held.get_or_create_owned(&ProviderLabel { provider: provider.to_owned() })
    }

    /// `answer` is `running`, `stopped`, `other`, `absent` or a reaction of the contract.
    pub(crate) fn looked(&self, answer: &'static str) {
        self.looks.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// `result` is `deleted`, `failed`, or `unneeded` when the Node turned out to be Ready, gone or another one.
    pub(crate) fn deletion(&self, result: &'static str) {
        self.deletions.get_or_create(&ResultLabel { result }).inc();
    }

    /// `change` is `added`, `removed` or `failed`.
    pub(crate) fn tainted(&self, change: &'static str) {
        self.taints.get_or_create(&ChangeLabel { change }).inc();
    }
}
