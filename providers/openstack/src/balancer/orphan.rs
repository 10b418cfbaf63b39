//! Releases a load balancer from its Service. It stays as it is, and clients notice nothing.
//!
//! What leads there is the tag, and the name, as the Go manager has it. Listeners lose their tags as well, so that none of them is
//! taken for that of a later Service. The floating IP keeps its description: its load balancer does not lead to it.

use ccm_sdk::Done;
use ccm_sdk::types::Failure;
use serde_json::{Map, json};

use super::step::Step;
use super::work::Work;
use crate::api::octavia::{self, Balancer, Thing};

impl Work<'_> {
    /// # Errors
    ///
    /// It is not done yet.
    pub(super) fn orphan(&self, done: &mut Done) -> Result<(), Failure> {
        let mut all = self.own_or_going()?;
        if let Some(known) = self.by_id()?
            && !all.iter().any(|balancer| balancer.id == known.id)
            && (self.spec.names.are_own(&known.tags) || self.is_owner(&known) || self.is_sharer(&known)?)
        {
            all.push(known);
        }
        if all.is_empty() {
            // What only its name leads to may be another cluster's.
            all.extend(self.unmarked(&mut Done::new())?);
        }
        if all.is_empty() {
            self.await_unheard()?;
        }
        // One that does not end keeps no other.
        let mut release = |balancer: &Balancer| self.run(balancer, || self.releasing(balancer), done);
        let ends: Vec<Result<(), Failure>> = all.iter().map(&mut release).collect();
        ends.into_iter().collect()
    }

    fn releasing(&self, balancer: &Balancer) -> Result<Vec<Step>, Failure> {
        let names = &self.spec.names;
        let mut steps = vec![];
        for listener in octavia::listeners(&balancer.id)? {
            let left = names.without_own(&listener.tags);
            if names.are_own(&listener.tags) && left != listener.tags {
                let says = format!("tags of listener {}", listener.protocol_port);
                steps.push(Step::change(Thing::Listener, &listener.id, json!({ "tags": left }), &says));
            }
        }
        let mut body = Map::new();
        let left = names.without_own(&balancer.tags);
        if left != balancer.tags {
            body.insert("tags".to_owned(), json!(left));
        }
        if self.is_owner(balancer) && names.others(&balancer.tags).is_empty() {
            body.insert("name".to_owned(), json!(format!("released-{}", balancer.id)));
        }
        if !body.is_empty() {
            let says = format!("name and tags of load balancer {}", balancer.id);
            steps.push(Step::change(Thing::Balancer, &balancer.id, body.into(), &says));
        }
        Ok(steps)
    }
}
