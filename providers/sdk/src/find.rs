//! Finds the machines behind Nodes with few questions, and says that one is gone only with proof.
//!
//! | Nodes | asked |
//! |---|---|
//! | a few | each by ID, or by name where it has no provider ID; answers are shared |
//! | more | one listing, shared with others that ask at the same time |
//! | more, in an account that one call cannot list | what the calls so far have read; the others in a moment |
//! | more, in an account with more pages than these Nodes | its first page, then each that is not there by ID or name |
//! | not in the listing | what listings leave out, then each by ID |
//! | that are said to be gone | once more by ID, in this call, and whether the account still sees the cluster |
//!
//! Only the cloud's no to a question by ID says that a machine is gone: a listing may be of a moment ago, and to the credentials of
//! another account everything is missing. A provider says in [`Machines`] how its cloud is asked; [`find`] does the rest:
//!
//! ```
//! use ccm_sdk::find::{self, Listed, Machines};
//! use ccm_sdk::instances::{Finding, Instance, Need, State};
//! use ccm_sdk::paging::Paging;
//! use ccm_sdk::types::{Failure, Node};
//! use ccm_sdk::{Answer, Cloud, Request, nodes};
//!
//! ccm_sdk::records! {
//!     #[derive(Clone)]
//!     struct Server { id: String [id], name: String, status: String }
//! }
//!
//! const CLOUD: Cloud = Cloud::new("compute");
//! const SERVERS: Paging = Paging::marker("marker", "limit", 1_000).items("/servers");
//!
//! struct Servers;
//!
//! impl Machines for Servers {
//!     type Machine = Server;
//!     const NOUN: &'static str = "server";
//!
//!     fn id_of(&self, provider_id: &str) -> Result<String, String> {
//!         let id = provider_id.strip_prefix("mycloud:///").filter(|id| !id.is_empty());
//!         id.map(str::to_owned).ok_or_else(|| format!("{provider_id:?} is not like mycloud:///ID"))
//!     }
//!     fn get(&self, id: &str) -> Request {
//!         CLOUD.get("/servers/{id}").arg("id", id)
//!     }
//!     fn got(&self, answer: Answer) -> Result<Option<Server>, Failure> {
//!         answer.optional()?.map(|answer| answer.json_at("/server")).transpose()
//!     }
//!     fn all(&self) -> Result<Listed<Server>, Failure> {
//!         CLOUD.get("/servers").share(Self::SHARE).list(SERVERS).map(Listed::whole)
//!     }
//!     fn named(&self, name: &str) -> Result<Vec<Server>, Failure> {
//!         CLOUD.get("/servers").query("name", name).share(Self::SHARE).list(SERVERS)
//!     }
//!     fn names(&self, server: &Server) -> Vec<String> {
//!         vec![server.name.to_ascii_lowercase()]
//!     }
//!     fn look(&self) -> Request {
//!         CLOUD.get("/servers").query("limit", 1)
//!     }
//!     fn any(&self, answer: Answer) -> Result<bool, Failure> {
//!         answer.json_at::<Vec<Server>>("/servers").map(|servers| !servers.is_empty())
//!     }
//!     fn instance(&self, server: &Server, _need: Need) -> Result<Instance, Failure> {
//!         let state = if server.status == "SHUTOFF" { State::Stopped } else { State::Running };
//!         Ok(Instance::new(format!("mycloud:///{}", server.id), state))
//!     }
//! }
//!
//! fn find(nodes: &[Node], need: Need) -> Result<Vec<Finding>, Failure> {
//!     find::find(&Servers, nodes, need, nodes::provider_ids)
//! }
//! ```

mod listing;
mod proof;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::answer::Answer;
use crate::instances::{Finding, Instance, Need};
use crate::record::Item;
use crate::request::Request;
use crate::session::send_all;
use crate::types::{Failure, Node};

pub use self::listing::Listing;
pub use self::proof::sees_the_cluster;

/// Most questions by ID about what a listing does not show, per call. The others are asked about in the next call.
pub const MOST_SINGLE: usize = 20;

/// How a cloud is asked about its machines.
pub trait Machines {
    /// One of them. Its [id](Item::id) is that of its provider ID, without scheme.
    type Machine: Item + Clone;

    /// What the cloud calls one: `server`.
    const NOUN: &'static str;

    /// How old an answer may be that proves nothing. The host asks for all Nodes every few minutes, and for those in trouble
    /// more often.
    const SHARE: Duration = Duration::from_secs(30);

    /// So many Nodes are asked for one by one: a listing has pages full of machines of others.
    const FEW: usize = 4;

    /// The ID in a provider ID.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    fn id_of(&self, provider_id: &str) -> Result<String, String>;

    /// Asks for one machine. Not shared: that is done where an answer of another call will do.
    fn get(&self, id: &str) -> Request;

    /// The answer to [`get`](Self::get); `None` when the cloud itself says that there is no such machine.
    ///
    /// # Errors
    ///
    /// The answer says neither.
    fn got(&self, answer: Answer) -> Result<Option<Self::Machine>, Failure>;

    /// All of the account.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    fn all(&self) -> Result<Listed<Self::Machine>, Failure>;

    /// The first page of [`all`](Self::all), where a request more pays for that.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    fn first_page(&self) -> Result<Option<FirstPage<Self::Machine>>, Failure> {
        Ok(None)
    }

    /// What [`all`](Self::all) leaves out, if the cloud has another listing of that.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    fn unlisted(&self) -> Result<Vec<Self::Machine>, Failure> {
        Ok(vec![])
    }

    /// Those that the cloud finds by a name. They may be more than those with exactly that name.
    ///
    /// # Errors
    ///
    /// They cannot be asked for.
    fn named(&self, name: &str) -> Result<Vec<Self::Machine>, Failure>;

    /// All that a Node may be called after this machine: its names, its addresses. Written as [`keys`](Self::keys) are.
    fn names(&self, machine: &Self::Machine) -> Vec<String>;

    /// What to look for among [`names`](Self::names) for a Node of that name, the best first: the next is tried where no machine
    /// has the one before. Without it: the name in lower case.
    fn keys(&self, node: &str) -> Vec<String> {
        vec![node.to_ascii_lowercase()]
    }

    /// The harmless read that says whether the account has machines at all.
    fn look(&self) -> Request;

    /// The answer to [`look`](Self::look): whether there is one.
    ///
    /// # Errors
    ///
    /// The answer says neither.
    fn any(&self, answer: Answer) -> Result<bool, Failure>;

    /// What a Node gets of its machine. That it exists and runs must not hang on the rest: for [`Need::Metadata`] alone is it an
    /// error that something is missing.
    ///
    /// # Errors
    ///
    /// Not all is known yet.
    fn instance(&self, machine: &Self::Machine, need: Need) -> Result<Instance, Failure>;
}

/// Machines of the account.
#[derive(Debug)]
pub struct Listed<M> {
    /// Those that are known.
    pub machines: Vec<M>,
    /// There are more, which further calls read, and this is what is said of them until then.
    pub unread: Option<Failure>,
}

impl<M> Listed<M> {
    /// All there are.
    pub fn whole(machines: Vec<M>) -> Self {
        Self { machines, unread: None }
    }
}

/// The first page of a listing.
#[derive(Debug)]
pub struct FirstPage<M> {
    /// What is on it.
    pub machines: Vec<M>,
    /// How many pages there are besides.
    pub further: usize,
}

/// What is known of the machine behind a Node.
#[derive(Debug, Clone)]
enum Answered<M> {
    Found(M),
    /// The cloud has said so to a question by ID.
    Absent,
    Unknown(Failure),
}

fn answered<C: Machines>(cloud: &C, id: &str, reply: Result<Answer, Failure>) -> Answered<C::Machine> {
    match reply.and_then(|answer| cloud.got(answer)) {
        Ok(Some(machine)) if machine.id().eq_ignore_ascii_case(id) => Answered::Found(machine),
        Ok(Some(machine)) => {
            let (noun, other) = (C::NOUN, machine.id());
            Answered::Unknown(Failure::retry(format!("asked for {noun} {id}, the answer is about {noun} {other}")))
        }
        Ok(None) => Answered::Absent,
        Err(failure) => Answered::Unknown(failure),
    }
}

/// A Node, and what to ask.
struct Wish<'a> {
    node: &'a Node,
    id: Option<Result<String, Failure>>,
}

impl Wish<'_> {
    fn id(&self) -> Option<&str> {
        self.id.as_ref()?.as_deref().ok()
    }

    /// For messages.
    fn words(&self, noun: &str) -> String {
        match self.id() {
            Some(id) => format!("{noun} {id} of node {}", self.node.name),
            None => format!("{noun} of node {}", self.node.name),
        }
    }
}

type Answers<C> = [Option<Answered<<C as Machines>::Machine>>];

/// Answers `instances.find`. `others` gives provider IDs of the cluster's Nodes, at most so many, the likeliest to be there first:
/// [`nodes::provider_ids`](crate::nodes::provider_ids).
///
/// # Errors
///
/// Nothing could be asked. What is wrong with one Node is its finding.
pub fn find<C: Machines>(
    cloud: &C,
    nodes: &[Node],
    need: Need,
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
) -> Result<Vec<Finding>, Failure> {
    let wish = |node| Wish { node, id: id_of(cloud, node) };
    let wishes: Vec<Wish<'_>> = nodes.iter().map(wish).collect();
    let mut single = need == Need::Proof || nodes.len() <= C::FEW;
    let mut listing = Listing::new(cloud);
    if !single {
        (listing, single) = listing.of_wishes(&wishes)?;
    }
    let mut answers: Vec<_> = wishes.iter().map(|wish| listing.answer(wish)).collect();
    if let Some(unread) = &listing.unread {
        let open = answers.iter_mut().filter(|answer| answer.is_none());
        open.for_each(|answer| *answer = Some(Answered::Unknown(unread.clone())));
    }
    by_id(cloud, &wishes, need, others, &mut answers);
    by_name(cloud, &wishes, single, &mut answers);
    let findings = wishes.iter().zip(answers).map(|(wish, answer)| {
        let unknown = |failure: Failure| Finding::Unknown(failure.context(wish.words(C::NOUN)));
        match answer {
            Some(Answered::Absent) => Finding::Absent,
            Some(Answered::Found(machine)) => cloud.instance(&machine, need).map_or_else(unknown, Finding::Found),
            Some(Answered::Unknown(failure)) => unknown(failure),
            None => unknown(Failure::retry("asked about in the next call")),
        }
    });
    Ok(findings.collect())
}

fn id_of<C: Machines>(cloud: &C, node: &Node) -> Option<Result<String, Failure>> {
    let provider_id = node.provider_id.as_deref().filter(|id| !id.is_empty())?;
    Some(cloud.id_of(provider_id).map_err(|wrong| {
        Failure::invalid(wrong)
            .context(format_args!("determining {} ID from providerID", C::NOUN))
            .field("spec.providerID")
    }))
}

/// Asks about what nothing is known of yet.
fn by_id<C: Machines>(
    cloud: &C,
    wishes: &[Wish<'_>],
    need: Need,
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
    answers: &mut Answers<C>,
) {
    let mut open = vec![];
    for (wish, answer) in wishes.iter().zip(answers) {
        if let (Some(id), None) = (wish.id(), &answer)
            && (open.len() < MOST_SINGLE || need == Need::Proof)
        {
            open.push((id, answer));
        }
    }
    // Nodes in trouble are asked about every few seconds; what is there need not be asked for as often.
    if need != Need::Proof {
        let requests = open.iter().map(|(id, _)| cloud.get(id).share(C::SHARE)).collect();
        let mut gone = vec![];
        for ((id, answer), reply) in open.into_iter().zip(send_all(requests)) {
            match answered(cloud, id, reply) {
                Answered::Absent => gone.push((id, answer)),
                known => *answer = Some(known),
            }
        }
        open = gone;
    }
    if open.is_empty() {
        return;
    }
    let ids: Vec<&str> = open.iter().map(|(id, _)| *id).collect();
    for ((_, answer), proven) in open.into_iter().zip(proof::of(cloud, &ids, others)) {
        *answer = Some(proven);
    }
}

/// Names are found by the cloud, which may know no addresses; a whole listing knows both.
fn by_name<C: Machines>(cloud: &C, wishes: &[Wish<'_>], single: bool, answers: &mut Answers<C>) {
    let mut all: Option<Result<Listing<'_, C>, Failure>> = None;
    for (wish, answer) in wishes.iter().zip(answers) {
        if wish.id.is_some() || answer.is_some() {
            continue;
        }
        let name = &wish.node.name;
        if !single {
            *answer = Some(no_such_name(C::NOUN, name));
            continue;
        }
        let found = match cloud.named(name) {
            Ok(machines) => Listing::new(cloud).with(machines).named(name),
            Err(failure) => Some(Answered::Unknown(failure)),
        };
        *answer = found.or_else(|| match all.get_or_insert_with(|| Listing::new(cloud).whole()) {
            Ok(listing) => Some(listing.named(name).unwrap_or_else(|| no_such_name(C::NOUN, name))),
            Err(failure) => Some(Answered::Unknown(failure.clone())),
        });
    }
}

fn no_such_name<M>(noun: &str, name: &str) -> Answered<M> {
    Answered::Unknown(Failure::retry(format!(
        "getting {noun} by name: no {noun} has the name or an address {}; name the Node as its {noun}, or give it its \
         provider ID with the kubelet's --provider-id",
        crate::quoted(name)
    )))
}
