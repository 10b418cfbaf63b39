//! Finds one value of a JSON document by its pointer (RFC 6901). It parses the rest of the document and keeps nothing of it: as a tree, a
//! document takes up to ninety times its size in memory.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Longest pointer, in bytes. A guest makes it: one of millions of slashes would take many times as much.
const MAX_POINTER: usize = 1024;

/// The value as the document spells it. `None` if the document has no such value, or is no JSON, and for a pointer that is too long. If an
/// object has several members of one name, the last one counts.
pub(crate) fn find<'a>(json: &'a [u8], pointer: &str) -> Option<&'a RawValue> {
    if pointer.len() > MAX_POINTER {
        return None;
    }
    let tokens: Vec<String> = match pointer.split_once('/') {
        None if pointer.is_empty() => vec![],
        Some(("", tokens)) => tokens.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
        _ => return None,
    };
    let mut json = serde_json::Deserializer::from_slice(json);
    let found = At(&tokens).deserialize(&mut json).ok()?;
    json.end().ok()?;
    found
}

/// What is left of the way.
#[derive(Clone, Copy)]
struct At<'t>(&'t [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.0.split_first() {
            None => <&RawValue>::deserialize(json).map(Some),
            Some((token, rest)) => json.deserialize_any(Step { token, rest: At(rest) }),
        }
    }
}

struct Step<'t> {
    token: &'t str,
    rest: At<'t>,
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_meant) = map.next_key_seed(Is(self.token))? {
            if is_meant {
                found = map.next_value_seed(self.rest)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let is_index = self.token == "0" || !self.token.starts_with(['+', '0']);
        let index: Option<usize> = self.token.parse().ok().filter(|_| is_index);
        let mut at = 0_usize;
        loop {
            if index == Some(at) {
                let Some(found) = list.next_element_seed(self.rest)? else { return Ok(None) };
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(found);
            }
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
            at = at.saturating_add(1);
        }
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether a name is this one.
struct Is<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn it_finds_what_a_reader_of_the_whole_document_finds() {
        let documents = [
            r#"{"a":{"b":[1,{"c":"x"},2.5,"\u00e4"],"~/":true,"":null},"a/b":7}"#,
            r#"{"a":1,"a":{"b":[10,11]}}"#,
            r#"{"a":{"b":[0]},"a":2}"#,
            r#"[[["deep"]]]"#,
            r#""text""#,
            "7",
            "null",
            "",
            "{",
            r#"{"a":1} x"#,
            r#"{"a":tru}"#,
        ];
        let pointers = [
            "",
            "/",
            "a",
            "/a",
            "/a/b",
            "/a/b/0",
            "/a/b/1/c",
            "/a/b/2",
            "/a/b/3",
            "/a/b/4",
            "/a/b/01",
            "/a/b/+1",
            "/a/b/-",
            "/a/~0~1",
            "/a/",
            "/a~1b",
            "/a/b/1/c/d",
            "/0/0/0",
            "/0/0",
            "/1",
            "/nothing",
        ];
        for document in documents {
            let whole: Option<Value> = serde_json::from_str(document).ok();
            for pointer in pointers {
                let wanted = whole.as_ref().and_then(|whole| whole.pointer(pointer));
                let found =
                    find(document.as_bytes(), pointer).map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
                assert_eq!(found.as_ref(), wanted, "{pointer:?} in {document}");
            }
        }
    }

    /// Where an answer says until when a token is good is the component's word alone: 8 MiB of slashes took 200 MB and more.
    #[test]
    fn a_pointer_that_is_too_long_leads_nowhere_and_is_not_taken_apart() {
        let found = |name: usize| {
            let name = "n".repeat(name);
            find(format!(r#"{{"{name}":7}}"#).as_bytes(), &format!("/{name}")).map(|raw| raw.get().to_owned())
        };
        assert_eq!((found(MAX_POINTER - 1).as_deref(), found(MAX_POINTER)), (Some("7"), None));
    }

    /// 8 MiB of it once took 750 MB: 640 bytes for each nine.
    #[test]
    fn a_document_of_small_values_is_not_kept() {
        let document = format!(r#"{{"a":[{}],"token":"secret"}}"#, vec![r#"{"":0}"#; 1_200_000].join(","));
        assert!(document.len() > 8 << 20);
        let found = find(document.as_bytes(), "/token").unwrap();
        // Where it stands, and no copy.
        let place = document.as_bytes().as_ptr_range();
        assert!(place.contains(&found.get().as_ptr()) && found.get() == r#""secret""#);
    }
}
