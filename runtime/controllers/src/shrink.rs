//! Gives back memory after a crowd.

use std::collections::HashMap;
use std::hash::Hash;

/// Room that a map may always keep.
const KEPT: usize = 1_024;

/// To be called when something was removed. A map keeps the room for as many entries as it ever had: for thousands of Nodes that
/// joined together, MiB that nothing uses.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    // Far below, so that what comes and goes does not make it grow again at once.
    if map.capacity() > KEPT.max(map.len().saturating_mul(8)) {
        map.shrink_to(map.len().saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_keeps_room_for_what_it_has_and_not_for_what_it_had() {
        let mut map: HashMap<u32, u32> = (0..5_000).map(|i| (i, i)).collect();
        for i in 0..4_000 {
            map.remove(&i);
            shrink(&mut map);
        }
        assert!(map.capacity() > 4_000, "a fifth may be full again soon: {}", map.capacity());
        for i in 4_000..4_990 {
            map.remove(&i);
            shrink(&mut map);
        }
        assert!(map.capacity() <= KEPT && map.len() == 10, "{}", map.capacity());
    }
}
