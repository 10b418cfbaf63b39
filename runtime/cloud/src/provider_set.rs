//! Several providers behind one [`Instances`]: nodes go to the provider that their provider ID names.

use std::sync::Arc;

use crate::{Failure, FindError, Finding, Instances, Need, Node, Reaction};

/// A provider in a [`ProviderSet`].
pub struct Member<I> {
    /// Schemes of provider IDs that it takes care of, without `://`.
    pub schemes: Vec<String>,
    /// The provider.
    pub instances: Arc<I>,
}

/// All providers of this process.
///
/// | node | goes to |
/// |---|---|
/// | only one provider is configured | that one, whatever the scheme: it knows best what is foreign |
/// | scheme of a provider | that provider |
/// | no provider ID | each provider in turn, until one has found it |
/// | any other scheme | nobody: `unknown`, reaction `elsewhere` |
pub struct ProviderSet<I> {
    members: Vec<Member<I>>,
}

impl<I: Instances> ProviderSet<I> {
    /// The providers in the operator's order.
    #[must_use]
    pub const fn new(members: Vec<Member<I>>) -> Self {
        Self { members }
    }

    /// Which members to ask about a node, in order.
    fn route<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = usize> + 'a {
        let alone = self.members.len() == 1;
        self.members.iter().enumerate().filter_map(move |(index, member)| {
            let asked = alone
                || match (&node.provider_id, node.scheme()) {
                    (None, _) => true,
                    (Some(_), Some(scheme)) => member.schemes.iter().any(|own| own == scheme),
                    (Some(_), None) => false,
                };
            asked.then_some(index)
        })
    }
}

impl<I: Instances> Instances for ProviderSet<I> {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        if let [only] = self.members.as_slice() {
            return only.instances.find(nodes, need).await;
        }
        let mut findings: Vec<Option<Finding>> = vec![None; nodes.len()];
        for (index, member) in self.members.iter().enumerate() {
            let (places, asked): (Vec<usize>, Vec<Node>) = nodes
                .iter()
                .enumerate()
                .filter(|(place, node)| {
                    let found = matches!(findings.get(*place), Some(Some(Finding::Found(_))));
                    !found && self.route(node).any(|member| member == index)
                })
                .map(|(place, node)| (place, node.clone()))
                .unzip();
            if asked.is_empty() {
                continue;
            }
            let answer = match member.instances.find(asked, need).await {
                Ok(answer) => answer,
                // One cloud that is away does not hide the others.
                Err(FindError::Failed(failure)) => vec![Finding::Unknown(failure); places.len()],
                Err(crashed) => return Err(crashed),
            };
            for (place, finding) in places.into_iter().zip(answer) {
                if let Some(slot) = findings.get_mut(place) {
                    *slot = Some(merge(slot.take(), finding));
                }
            }
        }
        let foreign = || Failure::new(Reaction::Elsewhere, "no configured provider takes care of this provider ID");
        Ok(findings.into_iter().map(|finding| finding.unwrap_or_else(|| Finding::Unknown(foreign()))).collect())
    }
}

/// A node without provider ID is absent only when every provider says so.
fn merge(before: Option<Finding>, now: Finding) -> Finding {
    match (before, now) {
        (Some(unknown @ Finding::Unknown(_)), Finding::Absent) => unknown,
        (_, now) => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instance, InstanceState};

    /// Knows the machines whose name begins with its own name.
    struct Cloud(&'static str);

    impl Instances for Cloud {
        async fn find(&self, nodes: Vec<Node>, _: Need) -> Result<Vec<Finding>, FindError> {
            Ok(nodes
                .into_iter()
                .map(|node| match node.name.as_str() {
                    "down" => Finding::Unknown(Failure::new(Reaction::Retry, self.0)),
                    name if name.starts_with(self.0) => Finding::Found(Box::new(Instance {
                        provider_id: format!("{}://{name}", self.0),
                        instance_type: String::new(),
                        addresses: vec![],
                        zone: String::new(),
                        region: String::new(),
                        labels: Default::default(),
                        state: InstanceState::Running,
                    })),
                    _ => Finding::Absent,
                })
                .collect())
        }
    }

    fn node(name: &str, provider_id: Option<&str>) -> Node {
        Node { name: name.into(), provider_id: provider_id.map(Into::into), ..Node::default() }
    }

    fn set(names: &[&'static str]) -> ProviderSet<Cloud> {
        let members =
            names.iter().map(|name| Member { schemes: vec![(*name).into()], instances: Arc::new(Cloud(name)) });
        ProviderSet::new(members.collect())
    }

    fn told(finding: &Finding) -> String {
        match finding {
            Finding::Found(instance) => instance.provider_id.clone(),
            Finding::Absent => "absent".into(),
            Finding::Unknown(failure) => failure.reaction.as_str().into(),
        }
    }

    #[tokio::test]
    async fn nodes_go_where_their_provider_id_says() {
        let cases = [
            (node("red-1", Some("red://1")), "red://red-1"),
            (node("blue-1", Some("blue://1")), "blue://blue-1"),
            (node("blue-2", None), "blue://blue-2"),
            (node("green-1", None), "absent"),
            (node("down", None), "retry"),
            (node("red-2", Some("blue://2")), "absent"),
            (node("red-3", Some("aws:///zone/i-1")), "elsewhere"),
            (node("red-4", Some("noscheme")), "elsewhere"),
        ];
        let (nodes, wanted): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
        let findings = set(&["red", "blue"]).find(nodes, Need::Metadata).await.unwrap();
        assert_eq!(findings.iter().map(told).collect::<Vec<_>>(), wanted);
    }

    #[tokio::test]
    async fn a_single_provider_sees_every_node_and_judges_foreign_ones_itself() {
        let findings = set(&["red"]).find(vec![node("red-1", Some("aws:///z/i-1"))], Need::Metadata).await.unwrap();
        assert_eq!(findings.iter().map(told).collect::<Vec<_>>(), ["red://red-1"]);
    }
}
