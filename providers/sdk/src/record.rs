//! What a cloud answers, read generously: see [`records!`](crate::records).
//!
//! The types of a cloud's answers are many. With serde's own derive each of them brings some KB of a component; here a type only
//! says where its values go, and one reader fills them all.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Declares the types of a cloud's answers: structs that are read from JSON field by field.
///
/// An account has objects of others, and one that is odd must not hide the rest. So unknown fields are left out, a field that is
/// missing or `null` keeps its default, numbers and flags may be written as texts (`"80"`), and a text may be a number. What
/// follows a type says more: `= "key"` gives a field its name in JSON, `[required]` refuses an object without it, `[id]` does
/// as well and tells the objects of a list from each other, and `[flatten]` reads a record whose fields are among those of the
/// object itself. A field is a `String`, a `bool`, an integer, another record, or a
/// `Vec` or `Option` of these.
///
/// ```
/// ccm_sdk::records! {
///     /// A machine.
///     #[derive(Debug, Clone, PartialEq)]
///     pub struct Machine {
///         pub id: String [id],
///         pub kind: String = "type",
///         /// `None` where the cloud does not tell.
///         pub tags: Option<Vec<String>>,
///         pub place: Place,
///     }
///
///     #[derive(Debug, Clone, PartialEq)]
///     pub struct Place {
///         pub zone: String,
///         pub rack: u32,
///     }
/// }
///
/// # fn main() -> Result<(), serde_json::Error> {
/// let machine: Machine = serde_json::from_str(r#"{"id": 7, "type": null, "place": {"rack": "3"}, "colour": {}}"#)?;
/// assert_eq!((machine.id.as_str(), machine.kind.as_str(), machine.place.rack), ("7", "", 3));
/// assert!(serde_json::from_str::<Machine>(r#"{"type": "small"}"#).is_err(), "no ID");
/// # Ok(())
/// # }
/// ```
///
/// Requests give them with [`Answer::json`](crate::Answer::json), [`Answer::json_at`](crate::Answer::json_at) and
/// [`Request::list`](crate::Request::list).
#[macro_export]
macro_rules! records {
    ($($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[$field_about:meta])* $field_visible:vis $field:ident: $kind:ty $(= $key:literal)? $([$mark:ident])?),* $(,)?
    })*) => {$(
        $(#[$about])*
        #[derive(Default)]
        $visible struct $name { $($(#[$field_about])* $field_visible $field: $kind),* }

        impl $crate::record::Record for $name {
            fn field(&mut self, key: &str) -> Option<$crate::record::Slot<'_>> {
                $($crate::__field!(self key $field [$($mark)?] $($key)?);)*
                None
            }

            fn required(&self) -> &'static [&'static str] {
                $crate::__required!([] $([[$($mark)?] $field $($key)?])*)
            }
        }

        impl $crate::record::Value for $name {
            fn slot(&mut self) -> $crate::record::Slot<'_> {
                $crate::record::Slot::Record(self)
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut record = Self::default();
                $crate::record::read(deserializer, &mut record)?;
                Ok(record)
            }
        }

        $($($crate::__item!($mark $name $field);)?)*
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    ($record:ident $asked:ident $field:ident [flatten]) => {
        if let Some(slot) = $crate::record::Record::field(&mut $record.$field, $asked) {
            return Some(slot);
        }
    };
    ($record:ident $asked:ident $field:ident [$($mark:ident)?] $($key:literal)?) => {
        if $asked == $crate::__key!($field $($key)?) {
            return Some($crate::record::Value::slot(&mut $record.$field));
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __required {
    ([$($key:expr),*]) => {
        &[$($key),*]
    };
    ([$($known:expr),*] [[$($mark:ident)?] $field:ident $($key:literal)?] $($more:tt)*) => {
        $crate::__required!(@ [$($known),*] [$($mark)?] $field [$($key)?] $($more)*)
    };
    (@ [$($known:expr),*] [id] $($rest:tt)*) => {
        $crate::__required!(@ [$($known),*] [required] $($rest)*)
    };
    (@ [$($known:expr),*] [required] $field:ident [$($key:literal)?] $($more:tt)*) => {
        $crate::__required!([$($known,)* $crate::__key!($field $($key)?)] $($more)*)
    };
    (@ $known:tt $mark:tt $field:ident $key:tt $($more:tt)*) => {
        $crate::__required!($known $($more)*)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __item {
    (id $name:ident $field:ident) => {
        impl $crate::record::Item for $name {
            fn id(&self) -> String {
                self.$field.to_string()
            }
        }
    };
    ($mark:ident $name:ident $field:ident) => {};
}

/// Something that can be read; [`records!`](crate::records) makes more of them.
pub trait Value {
    /// Where it goes.
    fn slot(&mut self) -> Slot<'_>;
}

/// What a list is of.
pub trait Item: Value + Default {
    /// What tells it from all others of the list. It shows pages that come twice, drops what moved from one page to the next
    /// meanwhile, and is the marker of [`Paging::marker`](crate::paging::Paging::marker).
    fn id(&self) -> String;
}

/// A place for a value.
pub enum Slot<'a> {
    /// A text, or a number as text.
    Text(&'a mut String),
    /// `true` or `false`, also as a text.
    Flag(&'a mut bool),
    /// An integer, also as a text.
    Number(&'a mut dyn Number),
    /// An object.
    Record(&'a mut dyn Record),
    /// An array.
    List(&'a mut dyn List),
    /// What stays as it is for `null`.
    Maybe(&'a mut dyn Maybe),
}

/// An integer of any size.
pub trait Number {
    /// False when there is no room for it.
    fn set(&mut self, number: i128) -> bool;
}

/// An object with fields.
pub trait Record {
    /// Where the value of a key goes. `None`: it is left out.
    fn field(&mut self, key: &str) -> Option<Slot<'_>>;

    /// Keys without which it is none.
    fn required(&self) -> &'static [&'static str] {
        &[]
    }

    /// It has ended.
    fn leave(&mut self) {}
}

/// An array of any length.
pub trait List {
    /// Where the next item goes.
    fn grow(&mut self) -> Option<Slot<'_>>;
}

/// What may be missing.
pub trait Maybe {
    /// Where it goes, since it is there.
    fn fill(&mut self) -> Slot<'_>;
}

impl Value for String {
    fn slot(&mut self) -> Slot<'_> {
        Slot::Text(self)
    }
}

impl Value for bool {
    fn slot(&mut self) -> Slot<'_> {
        Slot::Flag(self)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Value for $number {
            fn slot(&mut self) -> Slot<'_> {
                Slot::Number(self)
            }
        }

        impl Number for $number {
            fn set(&mut self, number: i128) -> bool {
                Self::try_from(number).map(|number| *self = number).is_ok()
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 usize i32 i64);

impl<T: Value + Default> Value for Vec<T> {
    fn slot(&mut self) -> Slot<'_> {
        Slot::List(self)
    }
}

impl<T: Value + Default> List for Vec<T> {
    fn grow(&mut self) -> Option<Slot<'_>> {
        self.push(T::default());
        self.last_mut().map(T::slot)
    }
}

impl<T: Value + Default> Value for Option<T> {
    fn slot(&mut self) -> Slot<'_> {
        Slot::Maybe(self)
    }
}

impl<T: Value + Default> Maybe for Option<T> {
    fn fill(&mut self) -> Slot<'_> {
        self.insert(T::default()).slot()
    }
}

/// Reads a record; `null` is none.
#[doc(hidden)]
#[inline(never)]
pub fn read<'de, D: Deserializer<'de>>(deserializer: D, record: &mut dyn Record) -> Result<(), D::Error> {
    fill(deserializer, Slot::Record(record))
}

pub(crate) fn fill<'de, D: Deserializer<'de>>(deserializer: D, slot: Slot<'_>) -> Result<(), D::Error> {
    let expected = slot.expected();
    if Reader(slot).deserialize(deserializer)? { Ok(()) } else { Err(mistyped(expected)) }
}

/// Values at places of an answer: `/meta/total`.
pub(crate) struct Places<'p, 'v> {
    pub(crate) places: &'p mut [(&'static str, &'v mut dyn Value)],
    pub(crate) path: String,
}

impl Record for Places<'_, '_> {
    fn field(&mut self, key: &str) -> Option<Slot<'_>> {
        let depth = self.path.len();
        self.path.push('/');
        self.path.push_str(key);
        let leads_on = |place: &str| place.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if self.places.iter().any(|(place, _)| leads_on(place)) {
            return Some(Slot::Record(self));
        }
        let at = self.places.iter().position(|(place, _)| *place == self.path);
        self.path.truncate(depth);
        self.places.get_mut(at?).map(|(_, value)| value.slot())
    }

    fn leave(&mut self) {
        self.path.truncate(self.path.rfind('/').unwrap_or(0));
    }
}

/// Says whether there was a value.
struct Reader<'a>(Slot<'a>);

impl<'a> Slot<'a> {
    fn there(self) -> Self {
        match self {
            Self::Maybe(maybe) => maybe.fill().there(),
            slot => slot,
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Slot::Text(_) => "a text",
            Slot::Flag(_) => "a flag",
            Slot::Number(_) => "a number",
            Slot::Record(_) => "an object",
            Slot::List(_) => "a list",
            Slot::Maybe(_) => "a value",
        }
    }
}

/// Without the value, which may be a secret; `, expected` is what the message of an answer looks for. serde's own errors show the
/// value, and code that shows any value is 5 KB of a component.
#[inline(never)]
fn mistyped<E: Error>(expected: &str) -> E {
    E::custom(format_args!("another type, expected {expected}"))
}

fn set<E: Error>(slot: &mut dyn Number, number: Option<i128>) -> Result<bool, E> {
    match number {
        Some(number) if slot.set(number) => Ok(true),
        _ => Err(mistyped("a number")),
    }
}

impl Reader<'_> {
    fn number<E: Error>(self, number: i128) -> Result<bool, E> {
        match self.0.there() {
            Slot::Number(slot) => set(slot, Some(number)),
            Slot::Text(slot) => {
                *slot = number.to_string();
                Ok(true)
            }
            other => Err(mistyped(other.expected())),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.expected())
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        if let Slot::Record(record) = self.0 {
            record.leave();
        }
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        match self.0.there() {
            Slot::Flag(slot) => *slot = value,
            Slot::Text(slot) => *slot = if value { "true" } else { "false" }.to_owned(),
            other => return Err(mistyped(other.expected())),
        }
        Ok(true)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.number(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.number(value.into())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<bool, E> {
        Err(mistyped(self.0.expected()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        match self.0.there() {
            Slot::Text(slot) => value.clone_into(slot),
            Slot::Flag(slot) if matches!(value, "true" | "false") => *slot = value == "true",
            Slot::Number(slot) => return set(slot, value.parse::<i64>().ok().map(i128::from)),
            other => return Err(mistyped(other.expected())),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        match self.0.there() {
            Slot::List(list) => {
                while items.next_element_seed(Element(&mut *list))?.is_some() {}
                Ok(true)
            }
            other => Err(mistyped(other.expected())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        let record = match self.0.there() {
            Slot::Record(record) => record,
            other => return Err(mistyped(other.expected())),
        };
        let mut missing = record.required().to_vec();
        while let Some((at, slot)) = entries.next_key_seed(Key(&mut *record, &missing))? {
            let is_there = match slot {
                Some(slot) => entries.next_value_seed(Reader(slot))?,
                None => entries.next_value::<IgnoredAny>().map(|_| false)?,
            };
            if let Some(at) = at.filter(|_| is_there) {
                missing.swap_remove(at);
            }
        }
        record.leave();
        missing.first().map_or(Ok(true), |name| Err(A::Error::missing_field(name)))
    }
}

/// The next item of a list; `null` is none.
struct Element<'a>(&'a mut dyn List);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.grow().map_or(Ok(()), |slot| fill(deserializer, slot))
    }
}

/// A key, its place among those that are missing still, and where its value goes.
struct Key<'a, 'm>(&'a mut dyn Record, &'m [&'static str]);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a, '_> {
    type Value = (Option<usize>, Option<Slot<'a>>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'_> for Key<'a, '_> {
    type Value = (Option<usize>, Option<Slot<'a>>);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok((self.1.iter().position(|name| *name == key), self.0.field(key)))
    }
}

#[cfg(test)]
mod tests;
