//! Answers, and pages of them.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Ask;
use crate::document::values;

/// The most on a page, and what is on one unless asked for.
const PER_PAGE: (usize, usize) = (200, 20);

/// A status and a body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Null: there is none.
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) const fn nothing() -> Self {
        Self { status: 204, body: Value::Null }
    }

    pub(crate) fn one(status: u16, name: &str, object: Value) -> Self {
        Self { status, body: Value::Object(Map::from_iter([(name.to_owned(), object)])) }
    }

    pub(crate) fn refused(status: u16, message: impl Into<String>) -> Self {
        let id = match status {
            400 => "bad_request",
            401 => "unauthorized",
            403 => "forbidden",
            404 => "not_found",
            409 => "conflict",
            422 => "unprocessable_entity",
            429 => "too_many_requests",
            _ => "server_error",
        };
        Self { status, body: json!({ "id": id, "message": message.into() }) }
    }

    /// The other shape of an error, which firewalls and tags have for a 400.
    pub(crate) fn refused_with_causes(causes: &[String]) -> Self {
        Self { status: 400, body: json!({ "error": "Bad Request", "messages": null, "root_causes": causes }) }
    }

    pub(crate) fn absent() -> Self {
        Self::refused(404, "The resource you requested could not be found.")
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.status < 300
    }
}

/// The page that is asked for.
pub(super) fn page<T>(ask: &Ask<'_>, name: &str, all: &[T], show: impl Fn(&T) -> Value) -> Reply {
    // The document has looked at them: what is no number here was refused before.
    let number = |name, default: usize| {
        values(ask.query, name).next().and_then(|text| text.parse::<usize>().ok()).filter(|n| *n > 0).unwrap_or(default)
    };
    let (page, per_page) = (number("page", 1), number("per_page", PER_PAGE.1).min(PER_PAGE.0));
    let last = all.len().div_ceil(per_page).max(1);
    let first_shown = (page - 1).saturating_mul(per_page);
    let shown: Vec<Value> = all.iter().skip(first_shown).take(per_page).map(show).collect();
    let link = |page: usize| {
        let others = ask.query.iter().filter(|(name, _)| name != "page" && name != "per_page");
        let others: String = others.map(|(name, value)| format!("&{name}={value}")).collect();
        json!(format!("{}{}?page={page}&per_page={per_page}{others}", ask.link_base, ask.path))
    };
    let mut links = Map::new();
    if page > 1 {
        links.insert("first".to_owned(), link(1));
        links.insert("prev".to_owned(), link(page - 1));
    }
    if page < last {
        links.insert("next".to_owned(), link(page + 1));
        links.insert("last".to_owned(), link(last));
    }
    let links = if links.is_empty() { json!({}) } else { json!({ "pages": links }) };
    let body = Map::from_iter([
        (name.to_owned(), Value::Array(shown)),
        ("links".to_owned(), links),
        ("meta".to_owned(), json!({ "total": all.len() })),
    ]);
    Reply { status: 200, body: Value::Object(body) }
}

/// The body as what the endpoint takes.
pub(super) fn read<T: DeserializeOwned>(body: &Value) -> Result<T, Reply> {
    T::deserialize(body).map_err(|error| Reply::refused(422, error.to_string()))
}
