//! JSON and YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

use super::value::{ConfigFileError, ConfigValue, MAX_CONFIG_FILE, Position, Shape};
use super::veil::{FileVeil, Hiding};

/// Deepest nesting of YAML, three times that of a clouds.yaml: parsing recurses, with 35 KiB of stack per level in an
/// unoptimised build. JSON's is 128.
const MAX_DEPTH: usize = 20;
/// Most values of a YAML file, those counted that aliases repeat.
const MAX_NODES: usize = 100_000;

/// A value, and where it stands.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Clone)]
pub(super) enum Kind {
    Null,
    /// A boolean or a number, with its spelling.
    Typed {
        text: String,
        json: Value,
    },
    Text(String),
    List(Vec<Node>),
    Mapping(Vec<(String, Node)>),
}

impl Node {
    pub(super) fn value(&self) -> Option<ConfigValue<'_>> {
        let shape = match &self.kind {
            Kind::Null => return None,
            Kind::Typed { text, .. } | Kind::Text(text) => Shape::Text(text),
            Kind::List(items) => Shape::List(items.iter().map(Self::text).collect()),
            Kind::Mapping(_) => Shape::Mapping,
        };
        Some(ConfigValue { shape, line: self.line })
    }

    /// A single value as text.
    fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Typed { text, .. } | Kind::Text(text) => Some(text),
            Kind::Null | Kind::List(_) | Kind::Mapping(_) => None,
        }
    }

    pub(super) fn at(&self, path: &[impl AsRef<str>]) -> Option<&Self> {
        path.iter().try_fold(self, |node, part| match &node.kind {
            Kind::Mapping(pairs) => pairs.iter().rev().find(|(name, _)| name == part.as_ref()).map(|(_, node)| node),
            Kind::List(items) => items.get(part.as_ref().parse::<usize>().ok()?),
            Kind::Null | Kind::Typed { .. } | Kind::Text(_) => None,
        })
    }

    /// JSON without secrets. `around` is what hides the values in a whole list or mapping.
    pub(super) fn veiled(&self, veil: &mut FileVeil<'_>, path: &mut Vec<String>, around: Option<&Hiding>) -> Value {
        let own = veil.hiding(path);
        let hiding = own.as_ref().filter(|own| own.is_credential() || around.is_none()).or(around);
        match &self.kind {
            Kind::Null => Value::Null,
            // A truth is no secret, and hiding it would make every `true` that a cloud says one.
            Kind::Typed { json: Value::Bool(truth), .. } if !hiding.is_some_and(Hiding::is_credential) => {
                (*truth).into()
            }
            Kind::Typed { json, .. } if hiding.is_none() => json.clone(),
            Kind::Typed { text, .. } | Kind::Text(text) => veil.text(text, hiding, path).into(),
            Kind::List(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| item.veiled_under(index.to_string(), veil, path, hiding)).collect()
            }
            Kind::Mapping(pairs) => {
                let pairs = pairs.iter();
                pairs.map(|(name, node)| (name.clone(), node.veiled_under(name.clone(), veil, path, hiding))).collect()
            }
        }
    }

    fn veiled_under(
        &self,
        part: String,
        veil: &mut FileVeil<'_>,
        path: &mut Vec<String>,
        around: Option<&Hiding>,
    ) -> Value {
        path.push(part);
        let json = self.veiled(veil, path, around);
        path.pop();
        json
    }
}

/// A JSON text.
pub(super) fn json(text: &str) -> Result<Node, ConfigFileError> {
    // Checks numbers and escapes too, which a raw value does not, and says where.
    let checked = serde_json::from_str::<Value>(text).map(drop);
    let raw: &RawValue = checked.and_then(|()| serde_json::from_str(text)).map_err(|error| json_error(text, &error))?;
    let lines: Vec<usize> = text.match_indices('\n').map(|(offset, _)| offset).collect();
    json_node(raw, text.as_ptr().addr(), &lines).map_err(|error| json_error(text, &error))
}

/// The value in `raw`, which is part of the text that begins at `start`: only so its line is known.
fn json_node(raw: &RawValue, start: usize, lines: &[usize]) -> Result<Node, serde_json::Error> {
    let raw = raw.get();
    let offset = raw.as_ptr().addr().saturating_sub(start);
    let line = lines.partition_point(|&end| end < offset).saturating_add(1);
    let kind = match raw.as_bytes().first() {
        Some(b'{') => {
            let RawPairs(pairs) = serde_json::from_str(raw)?;
            let nodes = pairs.into_iter().map(|(name, raw)| Ok((name, json_node(raw, start, lines)?)));
            Kind::Mapping(nodes.collect::<Result<_, serde_json::Error>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw)?;
            Kind::List(items.into_iter().map(|raw| json_node(raw, start, lines)).collect::<Result<_, _>>()?)
        }
        _ => match serde_json::from_str(raw)? {
            Value::Null => Kind::Null,
            Value::String(text) => Kind::Text(text),
            json => Kind::Typed { text: raw.to_owned(), json },
        },
    };
    Ok(Node { line, kind })
}

struct RawPairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawPairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = RawPairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(RawPairs(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

fn json_error(text: &str, error: &serde_json::Error) -> ConfigFileError {
    // Its column counts bytes.
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default().as_bytes();
    let bytes = line.get(..error.column()).unwrap_or(line);
    let column = bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count().max(1);
    let place = Position { line: error.line().max(1), column };
    let message = error.to_string();
    // Other kinds may quote a value.
    let message = match error.classify() {
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof => {
            message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message)
        }
        serde_json::error::Category::Data | serde_json::error::Category::Io => "a value that cannot be read",
    };
    place.error(format!("not JSON: {message}"))
}

/// A YAML text.
pub(super) fn yaml(text: &str) -> Result<Node, ConfigFileError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_total_scalar_bytes: 4 * MAX_CONFIG_FILE,
        },
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Option<Spanned<Parsed>>>(text, options) {
        Ok(Some(parsed)) => Ok(parsed_node(parsed, text)),
        Ok(None) => Ok(Node { line: 1, kind: Kind::Null }),
        Err(error) => Err(yaml_error(&error)),
    }
}

/// A value as the YAML parser gives it.
enum Parsed {
    Null,
    Typed(Value),
    Text(String),
    List(Vec<Spanned<Parsed>>),
    Mapping(Vec<(String, Spanned<Parsed>)>),
}

fn parsed_node(parsed: Spanned<Parsed>, text: &str) -> Node {
    let kind = match parsed.value {
        Parsed::Null => Kind::Null,
        Parsed::Text(text) => Kind::Text(text),
        Parsed::Typed(json) => {
            Kind::Typed { text: spelling(parsed.defined, text).unwrap_or_else(|| json.to_string()), json }
        }
        Parsed::List(items) => Kind::List(items.into_iter().map(|item| parsed_node(item, text)).collect()),
        Parsed::Mapping(pairs) => {
            Kind::Mapping(pairs.into_iter().map(|(name, value)| (name, parsed_node(value, text))).collect())
        }
    };
    Node { line: usize::try_from(parsed.referenced.line()).unwrap_or(usize::MAX), kind }
}

/// How a number or a truth is written, unless it has a tag.
fn spelling(location: serde_saphyr::Location, text: &str) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    let raw = text.get(start..end)?;
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.' | '_');
    (!raw.is_empty() && raw.chars().all(plain)).then(|| raw.to_owned())
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_none<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        Parsed::deserialize(deserializer)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Parsed, E> {
        Ok(Parsed::Typed(truth.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Parsed, E> {
        Ok(Parsed::Typed(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Parsed, E> {
        Ok(Parsed::Typed(number.into()))
    }

    // More digits than JSON readers keep: text keeps them all.
    fn visit_i128<E>(self, number: i128) -> Result<Parsed, E> {
        Ok(Number::from_i128(number).map_or_else(|| Parsed::Text(number.to_string()), |n| Parsed::Typed(n.into())))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Parsed, E> {
        Ok(Number::from_u128(number).map_or_else(|| Parsed::Text(number.to_string()), |n| Parsed::Typed(n.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Parsed, E> {
        Ok(Number::from_f64(number).map_or_else(|| Parsed::Text(number.to_string()), |n| Parsed::Typed(n.into())))
    }

    fn visit_str<E>(self, text: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Parsed, E> {
        Ok(Parsed::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parsed, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Parsed::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Parsed::Mapping(pairs))
    }
}

/// One sentence of our own: the parser's may show the source, speak to its caller, or take several lines.
fn yaml_error(error: &serde_saphyr::Error) -> ConfigFileError {
    use serde_saphyr::Error;
    let mut inner = error.without_snippet();
    while let Error::AliasError { error, .. } = inner {
        inner = error.without_snippet();
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let place = error.location().map_or(Position { line: 1, column: 1 }, |location| Position {
        line: count(location.line()),
        column: count(location.column()),
    });
    let message = match inner {
        Error::DuplicateMappingKey { key: Some(key), .. } if is_name(key) => format!("the name {key:?} is there twice"),
        Error::DuplicateMappingKey { .. } => "a name is there twice".to_owned(),
        Error::MultipleDocuments { .. } => {
            "a second document begins here, only one is read; take out the `---`".to_owned()
        }
        Error::Eof { .. } => "the text ends too early".to_owned(),
        Error::UnknownAnchor { .. } => "an alias (*name) of an anchor (&name) that is not above it".to_owned(),
        Error::NonFiniteFloat { .. } => "a number that is not finite; write text in quotes".to_owned(),
        Error::UnsupportedTag { .. } => "a tag (!name) that is not known here; take it out".to_owned(),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            "what `<<` merges must be a mapping or a list of mappings".to_owned()
        }
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } | Error::AliasExpansionLimitExceeded { .. } => {
            format!("too large or too deep; at most {MAX_NODES} values, aliases unfolded, and {MAX_DEPTH} levels")
        }
        Error::AliasReplayStackDepthExceeded { .. } | Error::AliasReplayCounterOverflow { .. } => {
            "too many aliases within aliases".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias that is part of itself".to_owned(),
        // The parser's sentences are fixed but for this one, which shows a character.
        Error::ExternalMessage { msg, .. } if !msg.contains("unexpected character") => {
            msg.lines().next().unwrap_or_default().to_owned()
        }
        Error::ExternalMessage { .. } => "unexpected character".to_owned(),
        _ => "a value that cannot be read".to_owned(),
    };
    place.error(format!("not YAML: {message}"))
}

/// Whether it is what people call settings, and no value that slipped into a name's place.
fn is_name(key: &str) -> bool {
    key.len() <= 40 && key.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.'))
}
