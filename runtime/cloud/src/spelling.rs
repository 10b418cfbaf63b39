//! Which name was probably meant by one that nobody knows.

/// Letters of a name that may differ from the one that was probably meant: one in so many, and no more than this.
const ONE_LETTER_IN: usize = 3;
const MOST_LETTERS: usize = 3;
const MOST_BYTES: usize = 4 * MOST_LETTERS;

/// In how many letters `name` differs from `known`, if it may be that one misspelt. Upper and lower case are the same.
#[must_use]
pub fn letters(name: &str, known: &str) -> Option<usize> {
    // A component may know names of any length.
    if name.len().abs_diff(known.len()) > MOST_BYTES {
        return None;
    }
    let letters = strsim::osa_distance(&name.to_ascii_lowercase(), &known.to_ascii_lowercase());
    (letters <= (known.len() / ONE_LETTER_IN).min(MOST_LETTERS)).then_some(letters)
}

/// The one of these that was probably meant by `name`.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().filter_map(|known| Some((letters(name, known)?, known)));
    near.min_by_key(|(letters, _)| *letters).map(|(_, known)| known)
}

/// What to do about a name that nobody knows: the one that was probably meant, else to leave it out.
#[must_use]
pub fn way_out_of(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "leave it out".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_nearest_one_and_another_name_to_none() {
        let known = ["memory-bytes", "memories", "call-time"];
        for (name, meant) in [
            ("memory-byte", Some("memory-bytes")),
            ("Memory_Bytes", Some("memory-bytes")),
            ("memorys", Some("memories")),
            ("call-tiem", Some("call-time")),
            ("calls", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
