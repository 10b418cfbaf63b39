//! Machines by ID and by name.

use std::collections::BTreeMap;

use super::{Answered, FirstPage, Listed, MOST_SINGLE, Machines, Wish};
use crate::quoted;
use crate::record::Item;
use crate::types::Failure;

/// Machines of the account, all or some.
pub struct Listing<'c, C: Machines> {
    cloud: &'c C,
    machines: BTreeMap<String, C::Machine>,
    ids: BTreeMap<String, Vec<String>>,
    /// There are more, which are read in the next call.
    pub(super) unread: Option<Failure>,
}

impl<'c, C: Machines> Listing<'c, C> {
    /// An empty one.
    pub fn new(cloud: &'c C) -> Self {
        Self { cloud, machines: BTreeMap::new(), ids: BTreeMap::new(), unread: None }
    }

    /// Also says whether what is not in it is better asked for one by one: most machines of the account are those of others.
    pub(super) fn of_wishes(mut self, wishes: &[Wish<'_>]) -> Result<(Self, bool), Failure> {
        if wishes.len() <= MOST_SINGLE
            // Shared with the listing, should there be one.
            && let Some(FirstPage { machines, further }) = self.cloud.first_page()?
        {
            let mut listing = Self::new(self.cloud).with(machines);
            // Another page may have a machine of the same name.
            listing.ids.clear();
            let open = wishes.iter().filter(|wish| listing.answer(wish).is_none()).count();
            if open <= further {
                return Ok((listing, true));
            }
        }
        self = self.listed()?;
        if self.unread.is_none() && wishes.iter().any(|wish| self.answer(wish).is_none()) {
            self = self.unlisted()?;
        }
        Ok((self, false))
    }

    /// With all but what listings leave out, as far as is known.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub fn listed(self) -> Result<Self, Failure> {
        let Listed { machines, unread } = self.cloud.all()?;
        Ok(Self { unread, ..self.with(machines) })
    }

    fn unlisted(self) -> Result<Self, Failure> {
        let machines = self.cloud.unlisted()?;
        Ok(self.with(machines))
    }

    pub(super) fn whole(self) -> Result<Self, Failure> {
        let listing = self.listed()?;
        listing.unread.clone().map_or_else(|| listing.unlisted(), Err)
    }

    /// With these.
    #[must_use]
    pub fn with(mut self, machines: Vec<C::Machine>) -> Self {
        for machine in machines {
            let id = machine.id();
            for name in self.cloud.names(&machine).into_iter().filter(|name| !name.is_empty()) {
                let ids = self.ids.entry(name).or_default();
                // Two answers may show the same one, and one may have a name twice.
                if !ids.contains(&id) {
                    ids.push(id.clone());
                }
            }
            self.machines.insert(id, machine);
        }
        self
    }

    /// `None` when it is not in the listing, which proves nothing.
    pub(super) fn answer(&self, wish: &Wish<'_>) -> Option<Answered<C::Machine>> {
        match &wish.id {
            Some(Ok(id)) => self.machines.get(id).cloned().map(Answered::Found),
            Some(Err(failure)) => Some(Answered::Unknown(failure.clone())),
            None => self.named(&wish.node.name),
        }
    }

    /// The only one that a Node of that name can be.
    pub fn of_name(&self, name: &str) -> Option<&C::Machine> {
        let [id] = self.ids_of(name)? else { return None };
        self.machines.get(id)
    }

    fn ids_of(&self, name: &str) -> Option<&[String]> {
        self.cloud.keys(name).iter().find_map(|key| self.ids.get(key)).map(Vec::as_slice)
    }

    pub(super) fn named(&self, name: &str) -> Option<Answered<C::Machine>> {
        match self.ids_of(name)? {
            [id] => self.machines.get(id).cloned().map(Answered::Found),
            several => {
                let (noun, ids) = (C::NOUN, several.join(", "));
                let message = format!(
                    "{noun}s {ids} have the name {}; give the Node its provider ID with the kubelet's --provider-id, or \
                     rename all but one",
                    quoted(name)
                );
                Some(Answered::Unknown(Failure::conflict(message)))
            }
        }
    }
}
