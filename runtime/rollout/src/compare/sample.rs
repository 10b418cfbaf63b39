//! Samples a few objects, with at least one of every kind.

use std::collections::BTreeMap;

/// At most so many of `items`, always the same ones: of each kind as many as of the others, as far as there are, and these spread over
/// all of its kind. With more kinds than places, one each of kinds that are spread over all kinds.
pub(super) fn sample<T, K: Ord>(items: Vec<T>, most: usize, kind: impl Fn(&T) -> K) -> Vec<T> {
    if items.len() <= most {
        return items;
    }
    let mut kinds: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        kinds.entry(kind(&item)).or_default().push(item);
    }
    let mut kinds = spread(kinds.into_values().collect(), most);
    // The smallest first: what they leave is for the others.
    kinds.sort_by_key(Vec::len);
    let mut chosen = Vec::with_capacity(most);
    let mut left = kinds.len();
    for kind in kinds {
        let share = most.saturating_sub(chosen.len()).div_ceil(left.max(1));
        chosen.extend(spread(kind, share));
        left = left.saturating_sub(1);
    }
    chosen.truncate(most);
    chosen
}

/// So many of them, at the same distance from each other.
fn spread<T>(items: Vec<T>, most: usize) -> Vec<T> {
    let all = items.len();
    if all <= most {
        return items;
    }
    // Taken where a line from nothing to `most` reaches the next whole number.
    let is_taken = |place: usize| (place + 1) * most / all > place * most / all;
    items.into_iter().enumerate().filter(|(place, _)| is_taken(*place)).map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_sample_has_every_kind_and_is_spread_over_the_whole() {
        // 10,000 of one kind, one each of 30 others.
        let common = (0..10_000).map(|number| ("common".to_owned(), number));
        let rare = (0..30).map(|number| (format!("rare-{number}"), number));
        let all: Vec<(String, i32)> = common.chain(rare).collect();
        let chosen = sample(all.clone(), 500, |(kind, _)| kind.clone());
        assert_eq!(chosen.len(), 500);
        let kinds: BTreeSet<_> = chosen.iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds.len(), 31);
        let common: Vec<i32> = chosen.iter().filter(|(kind, _)| kind == "common").map(|(_, number)| *number).collect();
        assert_eq!(common.len(), 470);
        let widest = common.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(widest <= 22 && common[0] < 22 && *common.last().unwrap() > 9_978, "{common:?}");
        assert_eq!(sample(all, 500, |(kind, _)| kind.clone()), chosen, "another one the next time");
    }

    #[test]
    fn places_that_small_kinds_leave_are_for_the_others() {
        let all = [('a', 1), ('a', 2), ('b', 1), ('b', 2), ('b', 3), ('b', 4), ('c', 1)];
        let rows = [(9, "aabbbbc"), (7, "aabbbbc"), (6, "aabbbc"), (3, "abc"), (2, "bc"), (1, "c"), (0, "")];
        for (most, wanted) in rows {
            let mut chosen: Vec<char> =
                sample(all.to_vec(), most, |(kind, _)| *kind).iter().map(|(kind, _)| *kind).collect();
            chosen.sort_unstable();
            assert_eq!(chosen.into_iter().collect::<String>(), wanted, "{most}");
        }
    }
}
