//! What is wrong with a Service, as far as its load balancer goes.

use ccm_sdk::types::Problem;

use crate::kind::Kind;

/// What is wrong with a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    /// Whatever the type of the load balancer is.
    pub(super) all: Vec<Problem>,
    /// What stops REGIONAL ones, and has no effect on others.
    pub(super) regional: Vec<Problem>,
}

impl Problems {
    /// Those of a load balancer of that type. `None`: it is not known, and nothing is refused on a guess.
    pub(crate) fn of(self, kind: Option<Kind>) -> Vec<Problem> {
        let Self { mut all, regional } = self;
        match kind {
            Some(Kind::Regional) => all.extend(regional),
            // One remark names all of them.
            Some(Kind::Network) => {}
            None => all.extend(regional.into_iter().map(|problem| Problem { fatal: false, ..problem })),
        }
        all
    }
}
