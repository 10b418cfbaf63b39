//! What a file can hold. Without `serde_json::Value`, whose mappings are B-trees, a component is 10 KB smaller.

use std::fmt::{self, Formatter};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Keys and values, in the order of the file.
pub(super) type Mapping = Vec<(String, Value)>;

pub(super) enum Value {
    Null,
    Bool(bool),
    /// `None`: it is no whole number.
    Number(Option<i64>),
    Text(String),
    List(Vec<Value>),
    Mapping(Mapping),
}

impl Value {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// In words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "`true` or `false`",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Mapping(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Kind)
    }
}

struct Kind;

impl<'de> Visitor<'de> for Kind {
    type Value = Value;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(i64::try_from(number).ok()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(Some(number)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut mapping = vec![];
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(Value::Mapping(mapping))
    }
}

/// Whether this is how the host delivers an INI file.
pub(super) fn is_ini(entries: &[Value]) -> bool {
    let has = |entry: &Mapping, key| entry.iter().any(|(name, _)| name == key);
    !entries.is_empty()
        && entries
            .iter()
            .all(|entry| matches!(entry, Value::Mapping(entry) if has(entry, "section") && has(entry, "key")))
}

/// Entries as a mapping of sections, with sub-sections as mappings in them. Names of sections and keys are in lower case, those of
/// sub-sections as they are.
pub(super) fn sections(entries: Vec<Value>) -> Mapping {
    let mut root = vec![];
    for entry in entries {
        let Value::Mapping(parts) = entry else { continue };
        let (mut section, mut name, mut key, mut value) = (None, None, None, Value::Bool(true));
        for (part, found) in parts {
            match (part.as_str(), found) {
                ("section", Value::Text(text)) => section = Some(text.to_ascii_lowercase()),
                ("name", Value::Text(text)) => name = Some(text),
                ("key", Value::Text(text)) => key = Some(text.to_ascii_lowercase()),
                // A key without `=` is a yes.
                ("value", found) if !found.is_null() => value = found,
                _ => {}
            }
        }
        if let Some(place) = [section, name].into_iter().flatten().try_fold(&mut root, below) {
            add(place, key.unwrap_or_default(), value);
        }
    }
    root
}

fn below(mapping: &mut Mapping, key: String) -> Option<&mut Mapping> {
    let at = mapping.iter().position(|(name, value)| *name == key && matches!(value, Value::Mapping(_)));
    let at = at.unwrap_or_else(|| {
        mapping.push((key, Value::Mapping(vec![])));
        mapping.len() - 1
    });
    match mapping.get_mut(at)? {
        (_, Value::Mapping(inner)) => Some(inner),
        _ => None,
    }
}

/// What is there already becomes a list.
fn add(mapping: &mut Mapping, key: String, value: Value) {
    let known = mapping.iter_mut().find(|(name, known)| *name == key && !matches!(known, Value::Mapping(_)));
    match known {
        Some((_, Value::List(list))) => list.push(value),
        Some((_, known)) => {
            let first = std::mem::replace(known, Value::Null);
            *known = Value::List(vec![first, value]);
        }
        None => mapping.push((key, value)),
    }
}
