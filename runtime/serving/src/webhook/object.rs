//! A Service as JSON, read in two steps: first where its parts are, which takes no memory, then those that are needed, if they are not too
//! many. Two characters of JSON (`{}`) can become hundreds of bytes, and whoever reaches the port can send them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceSpec, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Why an object is not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// More values than may be read.
    TooMany,
    /// Not a Service, and what is wrong.
    NotAService(String),
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self::NotAService(error.to_string())
    }
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// What is read of it. Managed fields, which may be the larger part of an object, are not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
}

/// Reads a Service that has at most so many `values`, and returns how many may follow.
pub(super) fn service(json: &RawValue, values: usize) -> Result<(Box<Service>, usize), Unreadable> {
    let Parts { metadata, spec, status } = serde_json::from_str(json.get())?;
    let mut left = Left(values);
    let metadata = match metadata {
        None => ObjectMeta::default(),
        Some(metadata) => ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: left.read::<BTreeMap<String, String>>(metadata.labels)?,
            annotations: left.read::<BTreeMap<String, String>>(metadata.annotations)?,
            finalizers: left.read::<Vec<String>>(metadata.finalizers)?,
            ..ObjectMeta::default()
        },
    };
    let (spec, status) = (left.read::<ServiceSpec>(spec)?, left.read::<ServiceStatus>(status)?);
    Ok((Box::new(Service { metadata, spec, status }), left.0))
}

/// Values that may still be read.
struct Left(usize);

impl Left {
    /// Counts before it reads.
    fn read<T: DeserializeOwned>(&mut self, part: Option<&RawValue>) -> Result<Option<T>, Unreadable> {
        let Some(part) = part else { return Ok(None) };
        self.0 = self.0.checked_sub(values(part.get())).ok_or(Unreadable::TooMany)?;
        Ok(Some(serde_json::from_str(part.get())?))
    }
}

/// How many values there are in valid JSON, or some more: lists and objects count, and what follows a comma.
fn values(json: &str) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count = count.saturating_add(1),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn read(object: &Value, values: usize) -> Result<(Box<Service>, usize), Unreadable> {
        service(&to_raw_value(object).unwrap(), values)
    }

    #[test]
    fn values_are_counted_and_texts_are_not() {
        for (json, count) in [("1", 1), (r#""a,[{\",""#, 1), ("[1,2]", 3), (r#"{"a":{},"b":[{}]}"#, 6)] {
            assert_eq!(values(json), count, "{json}");
        }
    }

    /// Three bytes each, of which nothing is left but an empty struct of many members.
    #[test]
    fn a_service_of_many_empty_parts_is_not_read() {
        for object in [
            json!({ "spec": { "ports": vec![json!({}); 1_000] } }),
            json!({ "status": { "conditions": vec![json!({}); 1_000] } }),
            json!({ "metadata": { "finalizers": vec![""; 1_000] } }),
        ] {
            assert_eq!(read(&object, 500).unwrap_err(), Unreadable::TooMany);
            // It is the number that is refused, and nothing else.
            assert_ne!(read(&object, 3_000).err(), Some(Unreadable::TooMany));
        }
    }

    #[test]
    fn what_nobody_reads_does_not_count() {
        let fields = json!({ "managedFields": vec![json!({}); 1_000], "ownerReferences": vec![json!({}); 1_000] });
        let (service, left) = read(&json!({ "metadata": fields }), 10).unwrap();
        assert_eq!((*service, left), (Service::default(), 10));
    }

    #[test]
    fn what_controllers_look_at_is_all_there() {
        let object = json!({
            "metadata": {
                "name": "web",
                "namespace": "default",
                "uid": "u",
                "resourceVersion": "7",
                "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
                "labels": { "a": "b" },
                "annotations": { "c": "d" },
                "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } },
        });
        let whole: Service = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(*read(&object, 100).unwrap().0, whole);
    }
}
