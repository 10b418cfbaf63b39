//! Many short texts in one piece of memory.

use std::collections::BTreeMap;
use std::fmt;

/// Pairs of texts, such as labels, one after the other in one text. A tree of them takes several times as much, with a piece of
/// memory for each text.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Pairs {
    text: Box<str>,
    /// Where each text ends, names and values by turns.
    ends: Box<[u32]>,
}

impl Pairs {
    /// In the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.ends.iter().scan(0, |begin, end| {
            let end = usize::try_from(*end).ok()?;
            self.text.get(std::mem::replace(begin, end)..end)
        });
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// The value of the first pair of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(own, value)| (own == name).then_some(value))
    }

    /// These, in order of their names, with `others`, which win.
    pub(crate) fn with(&self, others: &BTreeMap<String, String>) -> Self {
        let others = others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.iter().chain(others).collect::<BTreeMap<&str, &str>>().into_iter().collect()
    }

    /// What they take beside themselves.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// As they are told to clouds.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (name, value) in pairs {
            for part in [name.as_ref(), value.as_ref()] {
                text.push_str(part);
                // No object of the API server comes near 4 GiB.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_out_as_they_went_in() {
        let all = [("b", "1"), ("", "\0"), ("ä", ""), ("b", "2"), ("c", "3")];
        let pairs: Pairs = all.into_iter().collect();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), all);
        assert_eq!(["b", "", "ä", "a"].map(|name| pairs.get(name)), [Some("1"), Some("\0"), Some(""), None]);
        assert_eq!(Pairs::default().iter().next(), None);
    }

    #[test]
    fn others_are_added_in_order_and_win() {
        let pairs: Pairs = [("a", "1"), ("c", "1")].into_iter().collect();
        let others = [("b", "2"), ("c", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let expected: Pairs = [("a", "1"), ("b", "2"), ("c", "2")].into_iter().collect();
        assert_eq!(pairs.with(&others), expected);
        assert_eq!(expected.to_map().len(), 3);
    }

    /// As two texts of the same length would be.
    #[test]
    fn where_a_text_ends_makes_a_difference() {
        let [one, other]: [Pairs; 2] = [[("ab", "c")], [("a", "bc")]].map(|pairs| pairs.into_iter().collect());
        assert_ne!(one, other);
    }
}
