//! Distils facts from the vendor's OpenAPI document: what validation needs of the operations that are simulated, and no sentence.
//!
//! ```text
//! cargo run -p ccm-sim-digitalocean --example distil -- specification/DigitalOcean-public.v2.yaml >tests/clouds/digitalocean/api/facts.json
//! ```
//!
//! The document is YAML or JSON, in one file or many. What repeats is written once, under `shared`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use ccm_sim_digitalocean::Endpoint;
use serde_json::{Map, Value, json};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("usage: distil OPENAPI-DOCUMENT")?;
    let facts = facts(Path::new(&path))?;
    let mut text = String::new();
    write(&facts, 0, &mut text);
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

fn facts(document: &Path) -> Result<Value> {
    let mut files = Files::default();
    let root = files.read(document)?;
    let mut paths = Map::new();
    let mut missing: Vec<&Endpoint> = Endpoint::ALL.iter().collect();
    for (path, methods) in object(root.get("paths").context("no paths")?)? {
        let methods = files.resolve(document, methods, 0).with_context(|| path.clone())?;
        let mut operations = Map::new();
        for (method, declared) in object(&methods)? {
            let id = declared.get("operationId").and_then(Value::as_str).unwrap_or_default();
            if let Some(place) = missing.iter().position(|endpoint| endpoint.id() == id) {
                missing.swap_remove(place);
                let operation = operation(declared).with_context(|| format!("{method} {path}"))?;
                operations.insert(method.clone(), operation);
            }
        }
        if !operations.is_empty() {
            paths.insert(path.clone(), Value::Object(operations));
        }
    }
    ensure!(missing.is_empty(), "the document lacks {missing:?}");
    Ok(share(Value::Object(paths)))
}

/// The files of a document, each read once.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, Value>);

impl Files {
    fn read(&mut self, path: &Path) -> Result<Value> {
        if let Some(read) = self.0.get(path) {
            return Ok(read.clone());
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = if path.extension().is_some_and(|extension| extension == "json") {
            serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?
        } else {
            serde_saphyr::from_str(&text).with_context(|| format!("{}", path.display()))?
        };
        Ok(self.0.entry(path.to_owned()).or_insert(value).clone())
    }

    /// With all `$ref` replaced by what they mean.
    fn resolve(&mut self, file: &Path, value: &Value, depth: usize) -> Result<Value> {
        ensure!(depth < 100, "{}: a $ref leads back to itself", file.display());
        if let Some(Value::String(reference)) = value.get("$ref") {
            let (name, pointer) = reference.split_once('#').unwrap_or((reference, ""));
            let file = if name.is_empty() { file.to_owned() } else { file.with_file_name(name) };
            let target = self.read(&file)?;
            let target = target.pointer(pointer).with_context(|| format!("{reference} leads nowhere"))?;
            return self.resolve(&file, target, depth + 1);
        }
        Ok(match value {
            Value::Object(members) => {
                let each =
                    members.iter().map(|(name, value)| Ok((name.clone(), self.resolve(file, value, depth + 1)?)));
                Value::Object(each.collect::<Result<_>>()?)
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.resolve(file, item, depth + 1)).collect::<Result<_>>()?)
            }
            other => other.clone(),
        })
    }
}

fn operation(declared: &Value) -> Result<Value> {
    let mut own = Map::new();
    let mut put = |name: &str, value: Value| drop(own.insert(name.to_owned(), value));
    put("operationId", json!(declared.get("operationId")));
    if let Some(parameters) = declared.get("parameters").and_then(Value::as_array).filter(|all| !all.is_empty()) {
        put("parameters", parameters.iter().map(parameter).collect::<Result<_>>()?);
    }
    if let Some(body) = declared.get("requestBody") {
        let required = body.get("required") == Some(&json!(true));
        put("requestBody", json!({ "required": required, "content": content(body)? }));
    }
    put("responses", each(declared.get("responses").context("no responses")?, response)?);
    Ok(Value::Object(own))
}

fn parameter(declared: &Value) -> Result<Value> {
    let known = ["in", "name", "required", "schema", "description", "example"];
    let unknown = object(declared)?.keys().find(|name| !known.contains(&name.as_str()));
    ensure!(unknown.is_none(), "a parameter has {unknown:?}, which is unknown here");
    let required = declared.get("required") == Some(&json!(true));
    let schema = schema(declared.get("schema").context("a parameter without schema")?)?;
    Ok(json!({ "in": declared.get("in"), "name": declared.get("name"), "required": required, "schema": schema }))
}

fn response(declared: &Value) -> Result<Value> {
    let mut own = Map::new();
    if let Some(headers) = declared.get("headers") {
        let header = |header: &Value| Ok(json!({ "schema": schema(header.get("schema").context("no schema")?)? }));
        own.insert("headers".to_owned(), each(headers, header)?);
    }
    if declared.get("content").is_some() {
        own.insert("content".to_owned(), content(declared)?);
    }
    Ok(Value::Object(own))
}

/// By media type.
fn content(declared: &Value) -> Result<Value> {
    let media = |media: &Value| Ok(json!({ "schema": schema(media.get("schema").context("no schema")?)? }));
    each(declared.get("content").context("no content")?, media)
}

/// Keywords of OpenAPI 3.0 that say what a value may be, and those that do not. Another one is an error: it may forbid something.
const FACTS: &[&str] = &[
    "type",
    "format",
    "nullable",
    "readOnly",
    "writeOnly",
    "required",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "discriminator",
];
const SENTENCES: &[&str] =
    &["title", "description", "example", "examples", "default", "deprecated", "externalDocs", "xml"];

fn schema(declared: &Value) -> Result<Value> {
    if declared.is_boolean() {
        return Ok(declared.clone()); // additionalProperties
    }
    let mut own = Map::new();
    for (keyword, value) in object(declared)? {
        let fact = match keyword.as_str() {
            "properties" => each(value, schema)?,
            "items" | "not" | "additionalProperties" => schema(value)?,
            "allOf" | "anyOf" | "oneOf" => {
                value.as_array().context("no list")?.iter().map(schema).collect::<Result<_>>()?
            }
            // Their order means nothing.
            "required" | "enum" => {
                let mut values = value.as_array().context("no list")?.clone();
                values.sort_by_key(Value::to_string);
                Value::Array(values)
            }
            known if FACTS.contains(&known) => value.clone(),
            known if SENTENCES.contains(&known) || known.starts_with("x-") => continue,
            unknown => bail!("a schema has {unknown:?}, which is unknown here"),
        };
        own.insert(keyword.clone(), fact);
    }
    Ok(Value::Object(own))
}

fn each(members: &Value, distil: impl Fn(&Value) -> Result<Value>) -> Result<Value> {
    let distilled =
        object(members)?.iter().map(|(name, value)| Ok((name.clone(), distil(value).with_context(|| name.clone())?)));
    Ok(Value::Object(distilled.collect::<Result<_>>()?))
}

fn object(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().with_context(|| format!("no object but {value:.80}"))
}

/// Shorter ones are easier to read where they are.
const WORTH_SHARING: usize = 100;

fn share(paths: Value) -> Value {
    let mut places = BTreeMap::new();
    count(&paths, &mut places);
    places.retain(|_, count| *count > 1);
    let mut sharing = Sharing { places, names: BTreeMap::new(), shared: Map::new() };
    let paths = sharing.replace(paths, "paths");
    json!({ "paths": paths, "shared": sharing.shared })
}

/// At how many places each object is; what is inside of one that repeats counts once.
fn count(value: &Value, places: &mut BTreeMap<String, usize>) {
    match value {
        Value::Object(members) => {
            let text = value.to_string();
            if text.len() >= WORTH_SHARING {
                let count = places.entry(text).or_default();
                *count += 1;
                if *count > 1 {
                    return;
                }
            }
            members.values().for_each(|member| count_in(member, places));
        }
        other => count_in(other, places),
    }
}

fn count_in(value: &Value, places: &mut BTreeMap<String, usize>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| count(item, places)),
        Value::Object(_) => count(value, places),
        _ => (),
    }
}

struct Sharing {
    /// Texts of what repeats.
    places: BTreeMap<String, usize>,
    /// Names by text.
    names: BTreeMap<String, String>,
    shared: Map<String, Value>,
}

impl Sharing {
    /// `name` is what the value is called where it is.
    fn replace(&mut self, value: Value, name: &str) -> Value {
        match value {
            Value::Object(members) => {
                let text = Value::Object(members.clone()).to_string();
                if !self.places.contains_key(&text) {
                    return self.members(members, name);
                }
                let known = self.names.get(&text).cloned();
                let shared = known.unwrap_or_else(|| {
                    let free = |number: &usize| !self.shared.contains_key(&format!("{name}-{number}"));
                    let shared = format!("{name}-{}", (1..).find(free).unwrap_or_default());
                    self.shared.insert(shared.clone(), Value::Null); // taken
                    self.names.insert(text, shared.clone());
                    let replaced = self.members(members, name);
                    self.shared.insert(shared.clone(), replaced);
                    shared
                });
                json!({ "$ref": format!("#/shared/{shared}") })
            }
            Value::Array(items) => items.into_iter().map(|item| self.replace(item, name)).collect(),
            other => other,
        }
    }

    fn members(&mut self, members: Map<String, Value>, name: &str) -> Value {
        // These say what a value is to a schema, and not what it is about.
        let nameless = ["schema", "content", "application/json", "items", "properties", "headers", "responses"];
        let each = members.into_iter().map(|(own, member)| {
            let name = if nameless.contains(&own.as_str()) { name } else { &own };
            let replaced = self.replace(member, name);
            (own, replaced)
        });
        Value::Object(each.collect())
    }
}

/// Lines are this long at most, where what is on them can be broken.
const WIDTH: usize = 140;

/// What fits on a line is on one.
fn write(value: &Value, indent: usize, text: &mut String) {
    let line = value.to_string();
    let (brackets, items): (_, Vec<(String, &Value)>) = match value {
        Value::Object(members) if indent + line.len() > WIDTH => {
            ("{}", members.iter().map(|(name, member)| (format!("{}: ", Value::from(name.as_str())), member)).collect())
        }
        Value::Array(items) if indent + line.len() > WIDTH => {
            ("[]", items.iter().map(|item| (String::new(), item)).collect())
        }
        _ => return text.push_str(&line),
    };
    let (open, close) = brackets.split_at(1);
    text.push_str(open);
    for (place, (name, item)) in items.into_iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        text.push_str(&format!("{separator}\n{:indent$}{name}", "", indent = indent + 1));
        write(item, indent + 1, text);
    }
    text.push_str(&format!("\n{:indent$}{close}", ""));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vendor's document is not here; the facts are made of facts alone, in the form that this program gives them.
    #[test]
    fn facts_distilled_once_more_are_the_same() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/facts.json");
        let mut text = String::new();
        write(&facts(&file).unwrap(), 0, &mut text);
        assert!(
            format!("{text}\n") == std::fs::read_to_string(file).unwrap(),
            "api/facts.json is not what distil makes"
        );
    }

    #[test]
    fn a_document_of_many_files_is_put_together() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("root.yaml", "paths:\n  /a:\n    $ref: parts/a.yaml#/path\n");
        write("parts/a.yaml", "path:\n  get: { properties: { $ref: '../b.yaml' }, since: 2021-01-01 }\n");
        write("b.yaml", "name: { $ref: '#/other' }\nother: { type: string }\n");
        let (mut files, root) = (Files::default(), folder.path().join("root.yaml"));
        let read = files.read(&root).unwrap();
        let put_together = files.resolve(&root, &read["paths"], 0).unwrap();
        let b = json!({ "name": { "type": "string" }, "other": { "type": "string" } });
        assert_eq!(put_together, json!({ "/a": { "get": { "properties": b, "since": "2021-01-01" } } }));
        write("circle.yaml", "a: { $ref: '#/a' }\n");
        let circle = folder.path().join("circle.yaml");
        let read = files.read(&circle).unwrap();
        let error = files.resolve(&circle, &read, 0).unwrap_err();
        assert!(error.to_string().contains("leads back to itself"), "{error}");
    }

    #[test]
    fn sentences_go_names_stay_and_what_is_unknown_is_an_error() {
        let declared = json!({
            "description": "x", "example": 1, "x-internal": true, "default": "b", "enum": ["b", "a"],
            "properties": { "description": { "type": "string", "title": "x" }, "default": { "allOf": [{ "nullable": true }] } },
        });
        let expected = json!({
            "enum": ["a", "b"],
            "properties": { "description": { "type": "string" }, "default": { "allOf": [{ "nullable": true }] } },
        });
        assert_eq!(schema(&declared).unwrap(), expected);
        let error = schema(&json!({ "properties": { "a": { "if": {} } } })).unwrap_err();
        assert_eq!(format!("{error:#}"), "a: a schema has \"if\", which is unknown here");
    }
}
