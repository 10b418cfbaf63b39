//! Nodes and Services as providers see them, for every controller. Knows none of the controllers.

pub(crate) mod node;
pub(crate) mod selector;
pub(crate) mod service;
mod source_ranges;
