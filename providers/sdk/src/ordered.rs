//! Order, and each once. What the standard library sorts with is made for speed, and each type of item brings some 4 KB of it: sets
//! that grow item by item bring none. Collecting into a set sorts as well.

use std::collections::BTreeSet;

/// As a set.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

/// As a list.
///
/// ```
/// assert_eq!(ccm_sdk::ordered::list([3, 1, 3, 2]), [1, 2, 3]);
/// ```
pub fn list<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    set(items).into_iter().collect()
}
