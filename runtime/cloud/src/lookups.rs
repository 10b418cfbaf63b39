//! Several providers behind one question: a node goes to the provider that its provider ID names. Each provider has batches
//! of its own, so that a slow or broken one holds up nobody else's nodes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Batcher, Described, Failure, Instance, Need, Reaction};

/// A provider among others.
pub struct Member {
    /// Its name, for people and metrics.
    pub name: String,
    /// Whether it takes care of machines with this provider ID.
    pub claims: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// The way to it.
    pub batcher: Batcher,
}

/// Who takes care of a node. What is limited for each cloud by itself is counted by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keeper {
    /// The provider at this place in the operator's order.
    Provider(usize),
    /// Any of several: a node without provider ID.
    Any,
}

/// Asks all providers of this process. Cheap to clone.
///
/// | node | goes to |
/// |---|---|
/// | only one provider is configured | that one, whatever the scheme: it knows best what is foreign |
/// | a provider takes care of its provider ID | that provider |
/// | no provider ID | each provider in turn, as long as the answer is "not mine" |
/// | any other provider ID | nobody: reaction `elsewhere` |
///
/// A provider that cannot answer is not passed over: the next one could claim the node, and a provider ID is for ever.
#[derive(Clone)]
pub struct Lookups {
    members: Arc<[Member]>,
}

impl Lookups {
    /// The providers in the operator's order.
    #[must_use]
    pub fn new(members: Vec<Member>) -> Self {
        Self { members: members.into() }
    }

    /// Who takes care of machines with this provider ID: the provider that claims it, else nobody. Also where only one provider is configured: what it does not claim is not its to judge.
    #[must_use]
    pub fn keeper(&self, provider_id: Option<&str>) -> Option<Keeper> {
        let Some(provider_id) = provider_id else {
            return Some(if self.members.len() == 1 { Keeper::Provider(0) } else { Keeper::Any });
        };
        self.members.iter().position(|member| (member.claims)(provider_id)).map(Keeper::Provider)
    }

    /// All of them.
    pub fn keepers(&self) -> impl Iterator<Item = Keeper> {
        let any = (self.members.len() > 1).then_some(Keeper::Any);
        (0..self.members.len()).map(Keeper::Provider).chain(any)
    }

    /// Name of the provider; empty for [`Keeper::Any`].
    #[must_use]
    pub fn name_of(&self, keeper: Keeper) -> &str {
        let Keeper::Provider(place) = keeper else { return "" };
        self.members.get(place).map_or("", |member| &member.name)
    }

    /// The instance behind one node; none when every provider that was asked says that it does not exist.
    ///
    /// # Errors
    ///
    /// The failure of the first provider that cannot answer, or is not done when `limit` is over.
    pub async fn find(
        &self,
        node: impl Described + 'static,
        need: Need,
        limit: Duration,
    ) -> Result<Option<Box<Instance>>, Failure> {
        let asked = Mutex::new("");
        let found = tokio::time::timeout(limit, self.found(Arc::new(node), need, |name| *asked.lock() = name));
        found.await.unwrap_or_else(|_elapsed| Err(Failure::unanswered("instances.find", &asked.lock(), limit)))
    }

    /// Says whom it asks.
    async fn found<'a>(
        &'a self,
        node: Arc<dyn Described>,
        need: Need,
        asks: impl Fn(&'a str),
    ) -> Result<Option<Box<Instance>>, Failure> {
        if let [only] = &*self.members {
            asks(&only.name);
            return only.batcher.ask(node, need).await;
        }
        if let Some(id) = node.provider_id() {
            let Some(member) = self.members.iter().find(|member| (member.claims)(id)) else {
                return Err(foreign("no configured provider takes care of this provider ID"));
            };
            asks(&member.name);
            return member.batcher.ask(node, need).await;
        }
        let mut absent = false;
        for member in self.members.iter() {
            asks(&member.name);
            match member.batcher.ask(Arc::clone(&node), need).await {
                Ok(None) => absent = true,
                Err(failure) if failure.reaction == Reaction::Elsewhere => {}
                answer => return answer,
            }
        }
        if absent { Ok(None) } else { Err(foreign("every configured provider says that this node is not its own")) }
    }
}

fn foreign(why: &str) -> Failure {
    Failure::new(Reaction::Elsewhere, why)
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::{BatchSettings, Descriptor, FindError, Finding, InstanceState, Instances, Node};

    const LIMIT: Duration = Duration::from_secs(300);

    /// Knows the machines whose name begins with its own name, and cannot tell about those that have `down` and its name in it. Never answers
    /// about one that `hangs`.
    struct Cloud(&'static str);

    impl Instances for Cloud {
        async fn find(&self, nodes: Vec<Node>, _: Need) -> Result<Vec<Finding>, FindError> {
            if nodes.iter().any(|node| node.name == format!("{}-hangs", self.0)) {
                return std::future::pending().await;
            }
            let answer = |node: Node| match node.name.as_str() {
                name if name.contains(&format!("{}-down", self.0)) => {
                    Finding::Unknown(Failure::new(Reaction::Retry, "down"))
                }
                name if name.contains(&format!("{}-foreign", self.0)) => Finding::Unknown(foreign("not mine")),
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
            };
            Ok(nodes.into_iter().map(answer).collect())
        }
    }

    fn claims(schemes: &[&str]) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
        let provider_id_schemes = schemes.iter().map(|&scheme| scheme.to_owned()).collect();
        let descriptor = Descriptor { provider_id_schemes, ..Descriptor::default() };
        Box::new(move |id| descriptor.owns(id))
    }

    /// What these clouds say about a node.
    async fn told(clouds: &[&'static str], name: &str, provider_id: Option<&str>) -> String {
        let mut work = JoinSet::new();
        let member = |name: &&'static str| {
            let (batcher, running) = Batcher::new(Arc::new(Cloud(name)), BatchSettings::default());
            work.spawn(running);
            let name = *name;
            Member { name: name.into(), claims: claims(&[name]), batcher }
        };
        let lookups = Lookups::new(clouds.iter().map(member).collect());
        let node = Node { name: name.into(), provider_id: provider_id.map(Into::into), ..Node::default() };
        match lookups.find(node, Need::Metadata, LIMIT).await {
            Ok(Some(instance)) => instance.provider_id,
            Ok(None) => "absent".into(),
            Err(failure) if failure.message.contains("no answer") => failure.message,
            Err(failure) => failure.reaction.as_str().into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_go_where_their_provider_id_says() {
        let cases = [
            ("red-1", Some("red://1"), "red://red-1"),
            ("blue-1", Some("blue://1"), "blue://blue-1"),
            ("red-2", Some("blue://2"), "absent"),
            ("red-3", Some("aws:///zone/i-1"), "elsewhere"),
            ("red-4", Some("noscheme"), "elsewhere"),
            ("blue-2", None, "blue://blue-2"),
            ("green-1", None, "absent"),
            ("blue-red-foreign", None, "blue://blue-red-foreign"),
            ("red-foreign-blue-foreign", None, "elsewhere"),
        ];
        for (name, provider_id, wanted) in cases {
            assert_eq!(told(&["red", "blue"], name, provider_id).await, wanted, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_is_away_does_not_lose_its_nodes_to_the_next() {
        assert_eq!(told(&["red", "blue"], "blue-red-down", None).await, "retry");
        assert_eq!(told(&["red", "blue"], "red-foreign-blue-down", None).await, "retry");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_takes_care_of_the_provider_ids_that_it_claims() {
        let member = |name: &'static str, schemes: &[&str]| {
            let (batcher, _work) = Batcher::new(Arc::new(Cloud(name)), BatchSettings::default());
            Member { name: name.into(), claims: claims(schemes), batcher }
        };
        let alone = Lookups::new(vec![member("red", &["red", "crimson"])]);
        let both = Lookups::new(vec![member("red", &["red", "crimson"]), member("blue", &["blue"])]);
        let (red, blue) = (Some(Keeper::Provider(0)), Some(Keeper::Provider(1)));
        let cases = [
            (Some("red://1"), red, red),
            (Some("crimson:///zone/1"), red, red),
            (Some("blue://1"), None, blue),
            (Some("aws:///zone/i-1"), None, None),
            (Some("reddish://1"), None, None),
            (Some("red:1"), None, None),
            (Some("red"), None, None),
            (Some(""), None, None),
            (None, red, Some(Keeper::Any)),
        ];
        for (provider_id, of_one, of_two) in cases {
            assert_eq!((alone.keeper(provider_id), both.keeper(provider_id)), (of_one, of_two), "{provider_id:?}");
        }
        assert_eq!(alone.keepers().map(|keeper| alone.name_of(keeper)).collect::<Vec<_>>(), ["red"]);
        assert_eq!(both.keepers().map(|keeper| both.name_of(keeper)).collect::<Vec<_>>(), ["red", "blue", ""]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_no_answer_in_time_is_named() {
        for (name, provider_id, wanted) in [
            ("red-hangs", Some("red://1"), "red"),
            ("blue-hangs", Some("blue://1"), "blue"),
            ("blue-hangs", None, "blue"),
        ] {
            let error = told(&["red", "blue"], name, provider_id).await;
            assert_eq!(error, format!("instances.find of {wanted}: no answer within 300s"), "{name}");
        }
        assert_eq!(told(&["red"], "red-hangs", None).await, "instances.find of red: no answer within 300s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_provider_sees_every_node_and_judges_foreign_ones_itself() {
        assert_eq!(told(&["red"], "red-1", Some("aws:///z/i-1")).await, "red://red-1");
    }
}
