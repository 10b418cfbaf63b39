//! Objects with their past: a listing may show how they were a while ago.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::clock::Moment;

/// Objects in the order of their creation.
pub(crate) struct Collection<K, T> {
    rows: Vec<Row<T>>,
    places: HashMap<K, usize>,
}

struct Row<T> {
    /// From when on it was so, the oldest first; None: gone.
    versions: Vec<(Moment, Option<T>)>,
}

impl<K, T> Default for Collection<K, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), places: HashMap::new() }
    }
}

impl<K: Eq + Hash, T: Clone> Collection<K, T> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        let row = self.rows.get(*self.places.get(key)?)?;
        row.versions.last()?.1.as_ref()
    }

    /// Makes it, or changes it.
    pub(crate) fn put(&mut self, now: Moment, key: K, object: T) {
        if let Some(row) = self.places.get(&key).and_then(|place| self.rows.get_mut(*place)) {
            row.versions.push((now, Some(object)));
        } else {
            self.places.insert(key, self.rows.len());
            self.rows.push(Row { versions: vec![(now, Some(object))] });
        }
    }

    /// What it was; None: there was none.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, now: Moment, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let gone = self.get(key).cloned()?;
        let place = self.places.get(key)?;
        self.rows.get_mut(*place)?.versions.push((now, None));
        Some(gone)
    }

    /// All that there are.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().filter_map(|row| row.versions.last()?.1.as_ref())
    }

    /// All that there were at a moment.
    pub(crate) fn at(&self, moment: Moment) -> impl Iterator<Item = &T> {
        self.rows.iter().filter_map(move |row| {
            let then = row.versions.iter().rev().find(|(from, _)| *from <= moment)?;
            then.1.as_ref()
        })
    }

    /// Forgets how things were before a moment.
    pub(crate) fn forget(&mut self, before: Moment) {
        for row in &mut self.rows {
            let newer = row.versions.iter().filter(|(from, _)| *from > before).count();
            let old = row.versions.len() - newer;
            row.versions.drain(..old.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_listing_shows_the_past_and_a_get_the_present() {
        let at = Duration::from_secs;
        let mut all: Collection<String, u8> = Collection::default();
        all.put(at(1), "a".to_owned(), 1);
        all.put(at(2), "b".to_owned(), 2);
        all.put(at(3), "a".to_owned(), 3);
        all.remove(at(4), "b");
        for (moment, shown) in [(0, vec![]), (1, vec![1]), (2, vec![1, 2]), (3, vec![3, 2]), (4, vec![3])] {
            assert_eq!(all.at(at(moment)).copied().collect::<Vec<_>>(), shown, "at {moment}");
        }
        assert_eq!((all.get("a"), all.get("b")), (Some(&3), None));
        all.forget(at(3));
        assert_eq!(all.at(at(3)).copied().collect::<Vec<_>>(), [3, 2]);
        assert_eq!(all.at(at(2)).copied().collect::<Vec<_>>(), [2], "what a was then is forgotten");
        assert_eq!(all.all().copied().collect::<Vec<_>>(), [3]);
    }
}
