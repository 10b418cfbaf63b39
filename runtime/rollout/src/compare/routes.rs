//! Asks both components for all routes, with one call each.
//!
//! | the last good one | the new one | |
//! |---|---|---|
//! | answers | answers | compared, target by target, as during a probation |
//! | answers | fails | a difference; after `throttled` nobody can tell |
//! | fails | answers | the new one may be the repair |
//! | fails | fails | nothing is compared: perhaps nobody has configured routes, and the probation asks both again |

use std::collections::BTreeMap;

use ccm_cloud::{Node, Routes};

use super::verdict::{ComparisonVerdict, of_whole};
use crate::route_differences::{Target, compared};

/// What a verdict is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RouteKey {
    /// All of them: one of the two has no answer.
    All,
    /// One.
    To(Target),
}

impl RouteKey {
    /// As a difference calls it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::All => "to any Node".to_owned(),
            Self::To(target) => target.network(),
        }
    }
}

/// What both say.
pub(super) async fn look(
    old: &impl Routes,
    new: &impl Routes,
    nodes: Vec<Node>,
) -> BTreeMap<RouteKey, ComparisonVerdict> {
    match tokio::join!(old.get_all(nodes.clone()), new.get_all(nodes)) {
        (Ok(old), Ok(new)) => {
            let verdict = |(target, differs): (Target, Option<_>)| {
                let verdict = differs.map_or(ComparisonVerdict::Same, |differs: crate::route_differences::Differs| {
                    ComparisonVerdict::Differs(format!("it {} the route to {}", differs.as_str(), target.node()))
                });
                (RouteKey::To(target), verdict)
            };
            compared(&new, &old).into_iter().map(verdict).collect()
        }
        (Err(_), Err(_)) => BTreeMap::new(),
        (old, new) => BTreeMap::from([(RouteKey::All, of_whole(&old, &new))]),
    }
}
