//! Which components of a provider are behind what is recorded of a load balancer, so that what a bad one wrote is found after a
//! rollback.

use std::fmt;

/// Most that are told apart. An ordinary exchange ensures nothing, so there may be several between two ensures.
const MOST: usize = 4;
/// Longest name of one.
const MAX_NAME: usize = 64;

/// Short digests of the components that wrote a load balancer since it was last ensured, the last one at the end. Empty where
/// nobody knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writers(Vec<String>);

impl Writers {
    /// One alone has written everything.
    pub(crate) fn only(component: &str) -> Self {
        let mut this = Self::default();
        this.add(component);
        this
    }

    /// One more has written something.
    pub(crate) fn add(&mut self, component: &str) {
        if component.is_empty() || component.len() > MAX_NAME || !component.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return;
        }
        self.0.retain(|known| known != component);
        self.0.push(component.to_owned());
        let beyond = self.0.len().saturating_sub(MOST);
        self.0.drain(..beyond);
    }

    /// These and others.
    pub(crate) fn and(mut self, others: &Self) -> Self {
        others.iter().for_each(|component| self.add(component));
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads what was displayed. What cannot be read is left out: it is no reason to doubt the rest of a record.
    pub(crate) fn read(text: &str) -> Self {
        let mut this = Self::default();
        text.split(',').for_each(|component| this.add(component));
        this
    }
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_read_as_they_are_written_each_once_and_few_of_them() {
        let rows: [(&[&str], &str); 5] = [
            (&[], ""),
            (&["a1"], "a1"),
            (&["a1", "b2", "a1"], "b2,a1"),
            (&["1", "2", "3", "4", "5"], "2,3,4,5"),
            (&["", "a b", "a,b", "é", "a1"], "a1"),
        ];
        for (added, text) in rows {
            let mut writers = Writers::default();
            added.iter().for_each(|component| writers.add(component));
            assert_eq!(writers.to_string(), text);
            assert_eq!(Writers::read(text), writers, "{text}");
        }
        assert_eq!(Writers::read("a1,-,b2").to_string(), "a1,b2");
    }
}
