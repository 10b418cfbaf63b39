//! Droplets that the cloud refuses. Its no is to all that is written: one droplet that is gone while its Node is still there, or is in
//! another VPC, would keep new Nodes, new ports and new load balancers from everybody.
//!
//! The cloud is asked which ones it means, what is written goes without them, and their Nodes are named. They are tried again in a
//! while: a droplet may appear. A new load balancer is done with its address, and the host looks at it again an hour later, when it
//! compares all: so the look that gives the address asks for them once more.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::find::Machines as _;
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, cache, clock, send_all};

use super::done::REFUSED;
use crate::api::droplets;
use crate::backends::{Chosen, in_order, split};
use crate::find::Droplets;

/// When those that were refused are tried again.
const AGAIN: Duration = Duration::from_secs(300);

/// Those that are due so soon are tried again with one that is due.
const TOGETHER: Duration = Duration::from_secs(150);

/// Most droplets that are asked for one by one, after each no.
const MOST_SINGLE: usize = 20;

/// How long it is known which ones were asked for: longer than the host waits between two tries.
const ASKED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Those that were refused lately, in the host's cache.
const NOTED: &str = "droplets-refused";

/// ID, VPC, and the second since 1970 when it is tried again. No VPC: there is no such droplet.
type Noted = Vec<(u64, String, u64)>;

/// Those that one load balancer goes without.
#[derive(Debug, Default)]
pub(super) struct LeftOut<'a> {
    /// That of the load balancer, where it is known.
    vpc: Option<&'a str>,
    droplets: BTreeMap<u64, Refused>,
    /// Those that were refused, and are there now.
    appeared: BTreeMap<u64, Refused>,
}

#[derive(Debug)]
struct Refused {
    /// Its VPC; none: it is gone.
    vpc: String,
    /// When it is tried again, in seconds since 1970.
    again: u64,
}

impl Refused {
    /// Just now.
    fn of(vpc: String) -> Self {
        Self { vpc, again: (clock::since_epoch() + AGAIN).as_secs() }
    }
}

impl<'a> LeftOut<'a> {
    /// Of these droplets, those that were refused a moment ago.
    pub(super) fn known(ids: &[u64], vpc: Option<&'a str>) -> Self {
        let mut left_out = Self { vpc: vpc.filter(|vpc| !vpc.is_empty()), ..Self::default() };
        // Sorted: there may be thousands of each.
        let ids = in_order(ids.to_vec());
        for (id, vpc, again) in noted() {
            if ids.binary_search(&id).is_ok() && left_out.is_refused(&vpc) {
                left_out.droplets.insert(id, Refused { vpc, again });
            }
        }
        left_out
    }

    /// Asks for them once more, the newest first, as those are the likeliest to have appeared.
    pub(super) fn ask_again(&mut self) {
        let known = std::mem::take(&mut self.droplets);
        let ids: Vec<u64> = known.keys().rev().take(MOST_SINGLE).copied().collect();
        let there = self.ask_for(&ids);
        for (id, refused) in known {
            if there.contains(&id) {
                self.appeared.insert(id, refused);
            } else {
                self.droplets.entry(id).or_insert(refused);
            }
        }
    }

    /// Leaves those out again that have appeared: load balancers may hear of a droplet later. Returns whether there are any that
    /// are not left out already.
    pub(super) fn put_back(&mut self) -> bool {
        let before = self.droplets.len();
        for (id, refused) in std::mem::take(&mut self.appeared) {
            self.droplets.entry(id).or_insert(refused);
        }
        self.droplets.len() > before
    }

    /// Whether a droplet of that VPC is refused; none: it is gone.
    fn is_refused(&self, vpc: &str) -> bool {
        vpc.is_empty() || self.vpc.is_some_and(|own| !own.eq_ignore_ascii_case(vpc))
    }

    /// Asks which of the droplets the cloud's no is about: those that the load balancer has are asked for last. Returns whether
    /// any is.
    pub(super) fn ask(&mut self, answer: &Answer, ids: &[u64], has: &[u64]) -> bool {
        let (had, new) = split(ids, has);
        let words = answer.message().unwrap_or_default();
        let before = self.droplets.len();
        for ids in [new, had] {
            self.look_at(&ids, &words);
            if self.droplets.len() > before {
                self.note();
                return true;
            }
        }
        false
    }

    /// What cannot be asked is to blame for nothing.
    fn look_at(&mut self, ids: &[u64], words: &str) {
        let named: Vec<u64> = words.split(|letter: char| !letter.is_ascii_digit()).flat_map(str::parse).collect();
        let (ids, mut others) = split(ids, &named);
        if ids.len() + others.len() > MOST_SINGLE
            && let Ok(listed) = droplets::all(Droplets::SHARE)
        {
            let mut vpcs: BTreeMap<u64, String> =
                listed.droplets.into_iter().map(|droplet| (droplet.id, droplet.vpc_uuid)).collect();
            others.retain(|id| match vpcs.remove(id) {
                None => true,
                Some(vpc) => {
                    if !vpc.is_empty() && self.is_refused(&vpc) {
                        self.droplets.insert(*id, Refused::of(vpc));
                    }
                    false
                }
            });
        }
        let are_more = ids.len() + others.len() > MOST_SINGLE;
        let key = asked_key(self.vpc);
        let mut asked: Vec<u64> = are_more.then(|| cache::get_json(&key)).flatten().unwrap_or_default();
        // Those that were asked for last come last, or one that is gone might never be among those that are.
        let in_turn = |ids: &[u64]| [split(ids, &asked).1, split(&asked, ids).0].concat();
        let mut ids = [in_turn(&ids), in_turn(&others)].concat();
        ids.truncate(MOST_SINGLE);
        asked.retain(|id| !ids.contains(id));
        self.ask_for(&ids);
        if are_more {
            asked.extend(ids.iter().filter(|id| !self.droplets.contains_key(id)));
            cache::put_json(&key, &asked, ASKED_FOR);
        }
    }

    /// Those that are gone or elsewhere are left out; returns those that are there. What cannot be asked is neither.
    fn ask_for(&mut self, ids: &[u64]) -> Vec<u64> {
        let mut there = vec![];
        let requests = ids.iter().map(|id| droplets::get(&id.to_string())).collect();
        for (id, answer) in ids.iter().copied().zip(send_all(requests)) {
            match answer.and_then(droplets::one) {
                Ok(None) => drop(self.droplets.insert(id, Refused::of(String::new()))),
                Ok(Some(droplet)) if droplet.id != id => {}
                Ok(Some(droplet)) if !droplet.vpc_uuid.is_empty() && self.is_refused(&droplet.vpc_uuid) => {
                    self.droplets.insert(id, Refused::of(droplet.vpc_uuid));
                }
                Ok(Some(_)) => there.push(id),
                Err(_) => {}
            }
        }
        there
    }

    /// Each keeps its own time: Nodes that come and go would postpone the others for ever.
    fn note(&self) {
        let mut all = noted();
        all.retain(|(id, _, _)| !self.droplets.contains_key(id));
        all.extend(self.droplets.iter().map(|(id, Refused { vpc, again })| (*id, vpc.clone(), *again)));
        cache::put_json(NOTED, &all, AGAIN);
    }

    /// Those of the wanted droplets that the cloud takes. Where it takes none, those that the load balancer has: none at all would be
    /// worse.
    pub(super) fn rest(&self, wanted: &[u64], has: &[u64]) -> Vec<u64> {
        if wanted.is_empty() || self.droplets.is_empty() {
            return wanted.to_vec();
        }
        let taken = |ids: &[u64]| ids.iter().copied().filter(|id| !self.droplets.contains_key(id)).collect::<Vec<_>>();
        [taken(wanted), taken(has)].into_iter().find(|ids| !ids.is_empty()).unwrap_or_else(|| in_order(has.to_vec()))
    }

    /// Names the Nodes, if any, and says when the first of them is tried again.
    pub(super) fn tell(&self, of: &str, chosen: &Chosen<'_>, done: &mut Done) -> Option<Failure> {
        let (gone, elsewhere): (Vec<_>, Vec<_>) = self.droplets.iter().partition(|(_, refused)| refused.vpc.is_empty());
        let names = |droplets: Vec<(&u64, &Refused)>| {
            let ids: Vec<u64> = droplets.into_iter().map(|(id, _)| *id).collect();
            (!ids.is_empty()).then(|| chosen.names_of(&ids))
        };
        let gone = names(gone).map(|names| {
            format!("{of} goes without Nodes whose droplets do not exist: {names}; if they will not come back, remove them with `kubectl delete node`")
        });
        let elsewhere = names(elsewhere).map(|names| {
            format!(
                "{of} goes without Nodes whose droplets are not in its VPC {}, as DigitalOcean takes no others: {names}; use Nodes of that VPC, or give these the label node.kubernetes.io/exclude-from-external-load-balancers",
                self.vpc.unwrap_or_default()
            )
        });
        let told: Vec<String> = gone.into_iter().chain(elsewhere).collect();
        if told.is_empty() {
            return None;
        }
        let message = format!("{}; they are tried again in a while", told.join("; "));
        told.into_iter().for_each(|told| done.warn(REFUSED, told));
        let again = self.droplets.values().map(|refused| refused.again).min()?;
        let left = Duration::from_secs(again).saturating_sub(clock::since_epoch());
        Some(Failure::pending(message).after(left))
    }
}

/// Those that were asked for, the last ones last, of load balancers in that VPC.
fn asked_key(vpc: Option<&str>) -> String {
    format!("droplets-asked/{}", vpc.unwrap_or_default())
}

fn noted() -> Noted {
    let mut noted: Noted = cache::get_json(NOTED).unwrap_or_default();
    let now = clock::since_epoch().as_secs();
    let is_due = |until: u64| move |(_, _, again): &(u64, String, u64)| *again <= until;
    // Together with one that is due: each with a time of its own would be a request of each load balancer.
    let soon = if noted.iter().any(is_due(now)) { now.saturating_add(TOGETHER.as_secs()) } else { now };
    noted.retain(|one| !is_due(soon)(one));
    noted
}

/// Of two that wait, the one that is tried again sooner, with the words of both.
pub(super) fn both(one: Option<Failure>, other: Option<Failure>) -> Option<Failure> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let message = format!("{}; {}", one.message, other.message);
            let wait = |failure: &Failure| failure.retry_after_ms.unwrap_or(u32::MAX);
            let sooner = if wait(&other) < wait(&one) { Failure { field: one.field, ..other } } else { one };
            Some(Failure { message, ..sooner })
        }
        (one, other) => one.or(other),
    }
}
