//! The contract's `instances`: the machines behind Nodes.

use std::sync::Arc;

use ccm_cloud::{Failure, FindError, Finding, Instances, Need, Node, Reaction};
use ccm_egress::Class;

use crate::call::{ChangeFlag, Subject, call};
use crate::{Provider, convert};

impl Provider {
    /// A provider ID is written once and for ever, so it must be the Node's own, or one that the provider takes care of.
    fn checked(&self, finding: Finding, own: Option<&str>) -> Finding {
        let Finding::Found(instance) = &finding else { return finding };
        let id = instance.provider_id.as_str();
        if id.is_empty() || own == Some(id) || self.descriptor.owns(id) {
            return finding;
        }
        let id = ccm_egress::line(id, 256);
        let text = format!(
            "the provider gave the provider ID {id:?}, which is none of its own (they begin with {})",
            self.descriptor.provider_ids().join(", ")
        );
        Finding::Unknown(Failure::new(Reaction::Retry, text))
    }
}

impl Instances for Provider {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            services: vec![],
            class: match need {
                // A deletion hangs on it.
                Need::Proof | Need::Existence => Class::Write,
                Need::Metadata => Class::Initialise,
                Need::Refresh => Class::Refresh,
            },
            read_only: true,
            proof: need == Need::Proof,
            judges: false,
            changes: ChangeFlag::default(),
            selected: None,
        };
        let asked = nodes.len();
        let own_ids: Vec<Option<String>> = nodes.iter().map(|node| node.provider_id.clone()).collect();
        let declared = &self.descriptor.annotations;
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, declared)).collect();
        let need = convert::need(need);
        let code = self.code();
        let exports = Arc::clone(&code.instances);
        let answer = call(
            &self.settings,
            &code.pre,
            "instances.find",
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_find(store, &nodes, need).await })
            },
            |answer| {
                let given = answer.as_ref().map_or(asked, Vec::len);
                (given != asked).then(|| format!("instances.find gave {given} findings for {asked} nodes"))
            },
        );
        let findings = answer.await?.map_err(convert::failure)?;
        let findings = findings.into_iter().map(convert::finding);
        Ok(findings.zip(own_ids).map(|(finding, own)| self.checked(finding, own.as_deref())).collect())
    }
}
