//! What is known of the router and of ports from the calls before. All of it may be forgotten: then it is asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::cidr::Cidr;

use super::Entry;
use crate::api::routers::Hop;

/// The router, as it was read last.
const TABLE: &str = "routes";
/// Routes whose ports need no look.
const KNOWN: &str = "routes-known";
/// There while what is known is young enough.
const LOOKED: &str = "routes-looked-at";

/// After so long, ports are looked at again.
const PERIOD: Duration = Duration::from_mins(60);
/// The host looks at routes every five minutes.
const RECENT: Duration = Duration::from_mins(6);

/// Routes and tags of the router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) routes: Vec<Hop>,
    pub(super) tags: Vec<String>,
}

impl Table {
    pub(super) fn kept() -> Option<Self> {
        let mut table = Self::default();
        for line in lines(TABLE)? {
            match line.split_once(' ') {
                Some((destination, nexthop)) => {
                    table.routes.push(Hop { destination: destination.to_owned(), nexthop: nexthop.to_owned() });
                }
                None => table.tags.push(line),
            }
        }
        Some(table)
    }

    pub(super) fn keep(&self) {
        let routes = self.routes.iter().map(|hop| format!("{} {}\n", hop.destination, hop.nexthop));
        let tags = self.tags.iter().filter(|tag| !tag.contains([' ', '\n'])).map(|tag| format!("{tag}\n"));
        let text: String = routes.chain(tags).collect();
        cache::put(TABLE, text.as_bytes(), RECENT);
    }

    /// The router is being changed.
    pub(super) fn forget() {
        cache::forget(TABLE);
    }
}

/// Routes whose ports need no look, and those that led to a Node.
#[derive(Debug, Default)]
pub(super) struct Known {
    is_due: bool,
    /// They lead to a Node, or did when they were looked at last.
    ours: BTreeSet<Entry>,
    /// Of these, they have their pair.
    complete: BTreeSet<Entry>,
    /// They lead to a port of somebody else.
    others: BTreeSet<Entry>,
}

impl Known {
    /// When it is time to look at all ports, nothing is known of them.
    pub(super) fn kept() -> Self {
        let is_due = cache::get(LOOKED).is_none();
        let mut known = Self { is_due, ..Self::default() };
        for line in lines(KNOWN).into_iter().flatten() {
            let mut words = line.split(' ');
            let entry = |mut words: std::str::Split<'_, char>| {
                Some(Entry { network: Cidr::masked(words.next()?)?, hop: words.next()?.parse().ok()? })
            };
            match words.next() {
                Some("pair") => {
                    let entry = entry(words);
                    known.ours.extend(entry);
                    known.complete.extend(entry.filter(|_| !is_due));
                }
                Some("ours") => known.ours.extend(entry(words)),
                Some("other") if !is_due => known.others.extend(entry(words)),
                _ => {}
            }
        }
        known
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn is_complete(&self, entry: &Entry) -> bool {
        self.complete.contains(entry)
    }

    pub(super) fn is_others(&self, entry: &Entry) -> bool {
        self.others.contains(entry)
    }

    pub(super) fn is_ours(&self, entry: &Entry) -> bool {
        self.ours.contains(entry)
    }

    pub(super) fn ours(&mut self, entry: Entry) {
        self.ours.insert(entry);
    }

    pub(super) fn complete(&mut self, entry: Entry) {
        self.ours.insert(entry);
        self.complete.insert(entry);
    }

    pub(super) fn others(&mut self, entry: Entry) {
        self.others.insert(entry);
    }

    /// What was so of it is so no more.
    pub(super) fn forget(&mut self, entry: &Entry) {
        self.ours.remove(entry);
        self.complete.remove(entry);
        self.others.remove(entry);
    }

    /// For the calls that follow.
    pub(super) fn keep(self) {
        let line = |word: &str, entry: &Entry| format!("{word} {} {}\n", entry.network, entry.hop);
        let complete = self.complete.iter().map(|entry| line("pair", entry));
        let ours = self.ours.difference(&self.complete).map(|entry| line("ours", entry));
        let others = self.others.iter().map(|entry| line("other", entry));
        let text: String = complete.chain(ours).chain(others).collect();
        cache::put(KNOWN, text.as_bytes(), PERIOD.saturating_mul(2));
        if self.is_due {
            cache::put(LOOKED, b"", PERIOD);
        }
    }
}

fn lines(key: &str) -> Option<Vec<String>> {
    let text = String::from_utf8(cache::get(key)?).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}
