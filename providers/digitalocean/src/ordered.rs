//! Order, and each once. What the standard library sorts with is made for speed, and each type of item brings some 4 KB of it: sets
//! that grow item by item bring none.

use std::collections::BTreeSet;

pub(crate) fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

pub(crate) fn list<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    set(items).into_iter().collect()
}
