//! The contract's `instances`: the machines behind Nodes.

use std::sync::Arc;

use ccm_cloud::{FindError, Finding, Instances, Need, Node};
use ccm_egress::Class;

use crate::answer::{Asked, findings, unless_failed};
use crate::call::{Subject, call};
use crate::{Provider, convert};

const FUNCTION: &str = "instances.find";

impl Instances for Provider {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let class = match need {
            // A deletion hangs on it.
            Need::Proof | Need::Existence => Class::Write,
            Need::Metadata => Class::Initialise,
            Need::Refresh => Class::Refresh,
        };
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            proof: need == Need::Proof,
            ..Subject::reading(class)
        };
        let failed = subject.failed.clone();
        let is_one = nodes.len() == 1;
        let own_ids = nodes.iter().map(|node| node.provider_id.clone()).collect();
        let asked = Asked { own_ids, descriptor: &self.descriptor, function: FUNCTION };
        let entering = self.entering();
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, &entering)).collect();
        let need = convert::need(need);
        let code = self.code();
        let exports = Arc::clone(&code.instances);
        let answer = call(
            &self.settings,
            &code.pre,
            FUNCTION,
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_find(store, &nodes, need).await })
            },
            unless_failed(|given| findings(given, &asked)),
        );
        match answer.await {
            Ok(Ok(mut findings)) => {
                for finding in &mut findings {
                    if let Finding::Unknown(failure) = finding {
                        failed.explain(failure, is_one);
                    }
                }
                Ok(findings)
            }
            Ok(Err(failure)) => Err(failed.of_whole(failure).into()),
            Err(error) => Err(error.into_find_error(FUNCTION, &self.descriptor.name, &failed)),
        }
    }
}
