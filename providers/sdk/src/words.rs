//! Words that mean something: the few values that a setting, an annotation or a field of the cloud has.

use crate::quoted;

/// A set of words, made by [`words!`](macro@crate::words).
pub trait Word: Sized {
    /// All of them, for messages and for declarations.
    const ALL: &'static [&'static str];

    /// What the word means.
    fn parse(text: &str) -> Option<Self>;
}

/// Declares an enum that is written as words. It can be read with `parse` (or [`str::parse`], whose error lists the words) and
/// written with `text` or `{}`; `ALL` are the words.
///
/// ```
/// ccm_sdk::words! {
///     /// Who can reach a load balancer.
///     pub enum Network {
///         External = "EXTERNAL",
///         Internal = "INTERNAL",
///     }
/// }
///
/// # fn main() {
/// assert_eq!(Network::parse("INTERNAL"), Some(Network::Internal));
/// assert_eq!(Network::External.text(), "EXTERNAL");
/// assert_eq!("PUBLIC".parse::<Network>().unwrap_err(), "must be one of `EXTERNAL`, `INTERNAL`, not \"PUBLIC\"");
/// # }
/// ```
#[macro_export]
macro_rules! words {
    ($($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$variant_about:meta])* $variant:ident = $text:literal),* $(,)?
    })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visible enum $name { $($(#[$variant_about])* $variant),* }

        impl $name {
            /// All of them, for messages and for declarations.
            $visible const ALL: &[&str] = &[$($text),*];

            /// What the word means.
            $visible fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The word.
            $visible const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl $crate::words::Word for $name {
            const ALL: &'static [&'static str] = Self::ALL;

            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.text())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::parse(text).ok_or_else(|| $crate::words::none_of(text, Self::ALL))
            }
        }
    )*};
}

/// Says which words there are.
#[inline(never)]
pub fn none_of(text: &str, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    format!("must be one of {}, not {}", words.join(", "), quoted(text))
}

/// The word that `text` was probably meant to be: one that differs in a letter or two, or in capitals.
///
/// ```
/// use ccm_sdk::words::nearest;
///
/// assert_eq!(nearest("auth-ulr", &["auth-url", "username"]), Some("auth-url"));
/// assert_eq!(nearest("colour", &["auth-url", "username"]), None);
/// ```
pub fn nearest<'w>(text: &str, words: &[&'w str]) -> Option<&'w str> {
    let text = text.to_ascii_lowercase();
    let with_distance =
        words.iter().map(|word| (distance(text.as_bytes(), word.to_ascii_lowercase().as_bytes()), *word));
    // Of a short word two letters are all of it.
    let near = with_distance.filter(|(distance, word)| *distance <= (word.len() / 3).min(2));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// How many letters to add, take off, exchange or swap with the next.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (vec![], (0..=other.len()).collect());
    let at =
        |row: &[usize], place: Option<usize>| place.and_then(|place| row.get(place)).copied().unwrap_or(usize::MAX);
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, with) in other.iter().enumerate() {
            let exchanged = at(&last, Some(j)).saturating_add(usize::from(letter != with));
            let swaps = j > 0 && i > 0 && other.get(j - 1) == Some(letter) && one.get(i - 1) == Some(with);
            let swapped = if swaps { at(&before, j.checked_sub(1)).saturating_add(1) } else { usize::MAX };
            let added = at(&row, Some(j)).min(at(&last, Some(j + 1))).saturating_add(1);
            row.push(exchanged.min(swapped).min(added));
        }
        before = std::mem::replace(&mut last, row);
    }
    at(&last, Some(other.len()))
}

/// A few names, in order, and how many more there are: `a, b, c [+2 more]`.
///
/// ```
/// assert_eq!(ccm_sdk::words::few(["b", "a", "c"].map(str::to_owned), 2), "a, b [+1 more]");
/// ```
pub fn few(names: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut names = crate::ordered::list(names);
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    let shown = names.join(", ");
    if more > 0 { format!("{shown} [+{more} more]") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::words! {
        /// How fast.
        enum Pace { Slow = "slow", Fast = "FAST" }
    }

    #[test]
    fn a_word_is_read_as_it_is_written_and_others_are_refused_with_the_list() {
        assert_eq!(
            (Pace::parse("slow"), Pace::parse("fast"), Pace::ALL),
            (Some(Pace::Slow), None, &["slow", "FAST"][..])
        );
        assert_eq!((Pace::Fast.to_string().as_str(), "FAST".parse()), ("FAST", Ok(Pace::Fast)));
        assert_eq!("quick".parse::<Pace>(), Err("must be one of `slow`, `FAST`, not \"quick\"".to_owned()));
    }

    #[test]
    fn a_misspelt_word_has_a_nearest_one_and_another_word_has_none() {
        let words = ["auth-url", "username", "user-id", "zone", "region"];
        for (text, expected) in [
            ("auth-ulr", Some("auth-url")),
            ("AUTH-URL", Some("auth-url")),
            ("auth_url", Some("auth-url")),
            ("usernam", Some("username")),
            ("userid", Some("user-id")),
            ("zon", Some("zone")),
            ("zo", None),
            ("", None),
            ("password", None),
        ] {
            assert_eq!(nearest(text, &words), expected, "{text}");
        }
    }

    #[test]
    fn names_are_few_and_in_order() {
        let reversed = |count: u32| (1..=count).rev().map(|id| format!("n{id}"));
        for (count, most, expected) in [
            (0, 3, ""),
            (1, 3, "n1"),
            (3, 3, "n1, n2, n3"),
            (4, 3, "n1, n2, n3 [+1 more]"),
            // As text.
            (10, 3, "n1, n10, n2 [+7 more]"),
            (3, 1, "n1 [+2 more]"),
        ] {
            assert_eq!(few(reversed(count), most), expected);
        }
    }
}
