//! What the vendor's OpenAPI document says, with the deviations that are known: what may be asked, and what may be answered.

mod references;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, anyhow, bail};
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use schema::{Schema, Way};

/// The facts of the document: `examples/distil.rs` makes them.
const FACTS: &str = include_str!("../../api/facts.json");
/// JSON Patch: what the document lacks, and production has.
const DEVIATIONS: &str = include_str!("../../api/deviations.json");

/// Answers that production gives and the document does not declare: `validate_only` has nothing to show.
const ALSO_ANSWERED: &[(Endpoint, u16)] = &[(Endpoint::CreateBalancer, 204), (Endpoint::UpdateBalancer, 204)];

pub(crate) struct Document {
    operations: Vec<Operation>,
}

struct Operation {
    endpoint: Endpoint,
    method: Method,
    template: Vec<Segment>,
    query: Vec<Parameter>,
    body: Option<Body>,
    answers: BTreeMap<String, Answer>,
}

enum Segment {
    Fixed(String),
    Parameter(Parameter),
}

struct Parameter {
    name: String,
    required: bool,
    schema: Schema,
}

struct Body {
    required: bool,
    schema: Schema,
}

struct Answer {
    /// None: it has no body.
    schema: Option<Schema>,
    /// Declared headers, and whether they are integers.
    headers: Vec<(String, bool)>,
}

/// A request as the document understands it.
pub(crate) struct Asked {
    pub(crate) endpoint: Endpoint,
    /// Values of the path, in its order.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    /// Null: there is none.
    pub(crate) body: Value,
    /// Against a schema: the real API refuses these.
    pub(crate) refused: Vec<String>,
    /// Unknown to the document: the real API lets these pass.
    pub(crate) strangers: Vec<String>,
}

impl Document {
    /// The one document; read once per process, which takes a moment.
    pub(crate) fn shared() -> Result<Arc<Self>> {
        static SHARED: OnceLock<Result<Arc<Document>, String>> = OnceLock::new();
        let read = || Self::read(FACTS, DEVIATIONS).map(Arc::new).map_err(|error| format!("{error:#}"));
        SHARED.get_or_init(read).clone().map_err(|error| anyhow!("the OpenAPI document: {error}"))
    }

    fn read(facts: &str, deviations: &str) -> Result<Self> {
        let facts: Value = serde_json::from_str(facts)?;
        let paths = facts.get("paths").context("no paths")?;
        let mut document = json!({ "paths": references::expand(&facts, paths)? });
        let deviations: json_patch::Patch = serde_json::from_str(deviations).context("deviations")?;
        json_patch::patch(&mut document, &deviations).context("a deviation fits no place of the document")?;
        let mut operations = Vec::new();
        let paths = document.get("paths").and_then(Value::as_object).context("no paths")?;
        for (path, methods) in paths {
            for (method, declared) in methods.as_object().into_iter().flatten() {
                let operation = Operation::read(path, method, declared);
                operations.push(operation.with_context(|| format!("{method} {path}"))?);
            }
        }
        Ok(Self { operations })
    }

    /// Which operation this is, and what is wrong with it. None: the document has none like it.
    pub(crate) fn asked(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<Asked> {
        let segments: Vec<String> = path.trim_start_matches('/').split('/').map(decoded).collect();
        let (operation, path) = self.operations.iter().find_map(|operation| {
            let values = operation.path_values(method, &segments)?;
            Some((operation, values))
        })?;
        let mut asked = Asked {
            endpoint: operation.endpoint,
            path,
            query: pairs(query),
            body: Value::Null,
            refused: Vec::new(),
            strangers: Vec::new(),
        };
        operation.check_parameters(&mut asked);
        operation.check_body(headers, body, &mut asked);
        Some(asked)
    }

    /// What is wrong with an answer.
    pub(crate) fn check_answer(
        &self,
        endpoint: Endpoint,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Vec<String> {
        let Some(operation) = self.operations.iter().find(|operation| operation.endpoint == endpoint) else {
            return vec![format!("{endpoint}: not in the document")];
        };
        let declared = operation.answers.get(status.to_string().as_str());
        if declared.is_none() && ALSO_ANSWERED.contains(&(endpoint, status)) {
            return if body.is_empty() { Vec::new() } else { vec!["a body where there is none".to_owned()] };
        }
        if declared.is_none() && status < 400 {
            return vec![format!("status {status}: not in the document")];
        }
        let Some(answer) = declared.or_else(|| operation.answers.get("default")) else {
            return vec![format!("status {status}: not in the document")];
        };
        answer.check(headers, body)
    }

    #[cfg(test)]
    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.operations.iter().map(|operation| operation.endpoint)
    }
}

impl Operation {
    fn read(path: &str, method: &str, declared: &Value) -> Result<Self> {
        let id = declared.get("operationId").and_then(Value::as_str).context("no operationId")?;
        let endpoint = Endpoint::of(id).with_context(|| format!("operation {id} is unknown here"))?;
        let (mut query, mut in_path) = (Vec::new(), BTreeMap::new());
        for parameter in declared.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let name = parameter.get("name").and_then(Value::as_str).context("a parameter without name")?.to_owned();
            let schema = Schema::new(parameter.get("schema").context("a parameter without schema")?)?;
            let required = parameter.get("required") == Some(&Value::Bool(true));
            let own = Parameter { name: name.clone(), required, schema };
            match parameter.get("in").and_then(Value::as_str) {
                Some("query") => query.push(own),
                Some("path") => drop(in_path.insert(name, own)),
                other => bail!("parameter {name} is in {other:?}"),
            }
        }
        let mut template = Vec::new();
        for part in path.trim_start_matches('/').split('/') {
            template.push(match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) => Segment::Parameter(in_path.remove(name).with_context(|| format!("no parameter {name}"))?),
                None => Segment::Fixed(part.to_owned()),
            });
        }
        let body = match declared.get("requestBody") {
            Some(body) => Some(Body {
                required: body.get("required") == Some(&Value::Bool(true)),
                schema: Schema::new(json_content(body).context("a body that is not JSON")?)?,
            }),
            None => None,
        };
        let mut answers = BTreeMap::new();
        for (status, answer) in declared.get("responses").and_then(Value::as_object).into_iter().flatten() {
            answers.insert(status.clone(), Answer::read(answer)?);
        }
        let method = Method::from_bytes(method.to_uppercase().as_bytes())?;
        Ok(Self { endpoint, method, template, query, body, answers })
    }

    /// None: this is another operation.
    fn path_values(&self, method: &Method, segments: &[String]) -> Option<Vec<String>> {
        if self.method != *method || self.template.len() != segments.len() {
            return None;
        }
        let mut values = Vec::new();
        for (segment, value) in self.template.iter().zip(segments) {
            match segment {
                Segment::Fixed(own) if own == value => (),
                Segment::Fixed(_) => return None,
                Segment::Parameter(_) => values.push(value.clone()),
            }
        }
        Some(values)
    }

    fn check_parameters(&self, asked: &mut Asked) {
        let in_path = self.template.iter().filter_map(|segment| match segment {
            Segment::Parameter(parameter) => Some(parameter),
            Segment::Fixed(_) => None,
        });
        for (parameter, value) in in_path.zip(&asked.path) {
            asked.refused.extend(parameter.errors([value.as_str()].into_iter()));
        }
        for parameter in &self.query {
            let given: Vec<&str> = values(&asked.query, &parameter.name).collect();
            if !given.is_empty() {
                asked.refused.extend(parameter.errors(given.into_iter()));
            } else if parameter.required {
                asked.refused.push(format!("parameter {}: missing", parameter.name));
            }
        }
        for (name, _) in &asked.query {
            if !self.query.iter().any(|parameter| parameter.name == *name) {
                asked.strangers.push(format!("parameter {name}: not in the document"));
            }
        }
    }

    fn check_body(&self, headers: &HeaderMap, bytes: &[u8], asked: &mut Asked) {
        let Some(body) = &self.body else {
            if !bytes.is_empty() {
                asked.strangers.push("a body where there is none".to_owned());
            }
            return;
        };
        if bytes.is_empty() {
            if body.required {
                asked.refused.push("no body".to_owned());
            }
            return;
        }
        if !is_json(headers) {
            asked.strangers.push("content-type is not application/json".to_owned());
        }
        match serde_json::from_slice(bytes) {
            Ok(value) => {
                asked.refused.extend(body.schema.errors(&value));
                asked.strangers.extend(body.schema.strangers(&value, Way::Request));
                asked.body = value;
            }
            Err(error) => asked.refused.push(format!("the body is not JSON: {error}")),
        }
    }
}

impl Parameter {
    fn errors<'a>(&self, given: impl ExactSizeIterator<Item = &'a str>) -> Vec<String> {
        let kind = self.schema.declared().get("type").and_then(Value::as_str).unwrap_or("string");
        let count = given.len();
        let mut read = given.map(|text| match kind {
            "integer" => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
            "boolean" => text.parse::<bool>().map_or_else(|_| Value::from(text), Value::from),
            _ => Value::from(text),
        });
        let value = match kind {
            "array" => read.collect(),
            _ if count == 1 => read.next().unwrap_or_default(),
            _ => return vec![format!("parameter {}: given {count} times", self.name)],
        };
        self.schema.errors(&value).into_iter().map(|error| format!("parameter {}{error}", self.name)).collect()
    }
}

impl Answer {
    fn read(declared: &Value) -> Result<Self> {
        let schema = json_content(declared).map(Schema::new).transpose()?;
        let headers = declared.get("headers").and_then(Value::as_object).into_iter().flatten();
        let is_integer = |header: &Value| header.pointer("/schema/type").is_some_and(|kind| kind == "integer");
        Ok(Self { schema, headers: headers.map(|(name, header)| (name.clone(), is_integer(header))).collect() })
    }

    fn check(&self, headers: &HeaderMap, body: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for (name, is_integer) in &self.headers {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            match value {
                None => found.push(format!("header {name}: missing")),
                Some(value) if *is_integer && value.parse::<i64>().is_err() => {
                    found.push(format!("header {name}: {value:?} is not an integer"));
                }
                Some(_) => (),
            }
        }
        let Some(schema) = &self.schema else {
            if !body.is_empty() {
                found.push("a body where there is none".to_owned());
            }
            return found;
        };
        if !is_json(headers) {
            found.push("content-type is not application/json".to_owned());
        }
        match serde_json::from_slice(body) {
            Ok(value) => {
                found.extend(schema.errors(&value));
                found.extend(schema.strangers(&value, Way::Response));
            }
            Err(error) => found.push(format!("the body is not JSON: {error}")),
        }
        found
    }
}

/// The values of a parameter of the query.
pub(crate) fn values<'a>(query: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    query.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn json_content(declared: &Value) -> Option<&Value> {
    declared.get("content")?.get("application/json")?.get("schema")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(hyper::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let given = query.split('&').filter(|pair| !pair.is_empty());
    given
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (form(name), form(value)))
        .collect()
}

fn form(text: &str) -> String {
    decoded(&text.replace('+', " "))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
