//! Services: the subresource `status`, strategic merge patches and JSON patches as far as the service controller sends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Call, FakeApi, State, merge};

impl State {
    pub(super) fn answer_service(&mut self, verb: &str, key: &str, call: &Call) -> (u16, Value) {
        let Some(service) = self.services.get(key).cloned() else { return (404, Value::Null) };
        match verb {
            "GET" => (200, service),
            "PATCH" => {
                assert!(call.line.ends_with("/status"), "only the status may be patched: {}", call.line);
                let patched = match call.content_type.as_str() {
                    "application/strategic-merge-patch+json" => strategic(service, call.body.clone()),
                    "application/json-patch+json" => operations(service, &call.body),
                    other => panic!("unexpected patch {other}"),
                };
                patched.map_or_else(|status| (status, Value::Null), |patched| (200, self.store_service(key, patched)))
            }
            _ => panic!("unexpected request {}", call.line),
        }
    }

    /// A Service that waits for nothing but its finalizers is gone with the last of them.
    pub fn store_service(&mut self, key: &str, mut service: Value) -> Value {
        self.version += 1;
        service["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_held = service["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if service["metadata"]["deletionTimestamp"].is_string() && !is_held {
            self.services.remove(key);
        } else {
            self.services.insert(key.to_owned(), service.clone());
        }
        service
    }

    /// Another writer.
    pub fn edit_service(&mut self, name: &str, patch: &Value) {
        let key = format!("default/{name}");
        let mut service = self.services[&key].clone();
        merge(&mut service, patch);
        self.store_service(&key, service);
    }
}

fn strategic(mut service: Value, mut patch: Value) -> Result<Value, u16> {
    // A subresource changes its part only, and metadata.
    patch.as_object_mut().unwrap().remove("spec");
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        if metadata.remove("uid").is_some_and(|uid| uid != service["metadata"]["uid"]) {
            // The field is immutable.
            return Err(422);
        }
        metadata.remove("$setElementOrder/finalizers");
        let is_ending = service["metadata"]["deletionTimestamp"].is_string();
        for finalizer in metadata.remove("finalizers").iter().flat_map(|list| list.as_array().unwrap()) {
            // What is being deleted takes no new one.
            if is_ending {
                return Err(422);
            }
            let list = &mut service["metadata"]["finalizers"];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(finalizer.clone());
        }
    }
    let conditions = patch.get_mut("status").and_then(|status| status.as_object_mut()?.remove("conditions"));
    for condition in conditions.iter().flat_map(|list| list.as_array().unwrap()) {
        let list = &mut service["status"]["conditions"];
        if list.is_null() {
            *list = json!([]);
        }
        let list = list.as_array_mut().unwrap();
        match list.iter_mut().find(|old| old["type"] == condition["type"]) {
            Some(old) => *old = condition.clone(),
            None => list.push(condition.clone()),
        }
    }
    merge(&mut service, &patch);
    let entries = service.pointer_mut("/status/loadBalancer/ingress");
    for entry in entries.into_iter().filter_map(Value::as_array_mut).flatten() {
        // As the real one fills it in.
        if entry["ip"].is_string() && entry["ipMode"].is_null() {
            entry["ipMode"] = json!("VIP");
        }
    }
    Ok(service)
}

fn operations(mut service: Value, patch: &Value) -> Result<Value, u16> {
    for operation in patch.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        match operation["op"].as_str().unwrap() {
            "test" => {
                if service.pointer(path) != Some(&operation["value"]) {
                    return Err(422);
                }
            }
            "remove" => {
                let (parent, name) = path.rsplit_once('/').unwrap();
                let name = name.replace("~1", "/").replace("~0", "~");
                let removed = match service.pointer_mut(parent) {
                    Some(Value::Object(parent)) => parent.remove(&name).is_some(),
                    Some(Value::Array(parent)) => {
                        let place: usize = name.parse().unwrap();
                        place < parent.len() && !parent.remove(place).is_null()
                    }
                    _ => false,
                };
                if !removed {
                    return Err(422);
                }
            }
            other => panic!("unexpected operation {other}"),
        }
    }
    Ok(service)
}

impl<N: DeserializeOwned> FakeApi<N> {
    /// Adds a Service, and returns it as the API server has it.
    pub fn add_service(&self, service: Value) -> Service {
        let part = |name: &str| service["metadata"][name].as_str().unwrap().to_owned();
        let key = format!("{}/{}", part("namespace"), part("name"));
        serde_json::from_value(self.state.lock().store_service(&key, service)).unwrap()
    }

    /// Another writer.
    pub fn edit_service(&self, name: &str, patch: &Value) {
        self.state.lock().edit_service(name, patch);
    }

    /// A Service as it was in a backup, with the resource version of that time, which is also that of the API server now.
    pub fn restore_service(&self, service: Value) {
        let part = |name: &str| service["metadata"][name].as_str().unwrap().to_owned();
        let mut state = self.state.lock();
        state.version = part("resourceVersion").parse().unwrap();
        state.services.insert(format!("{}/{}", part("namespace"), part("name")), service);
    }

    /// As `kubectl delete`.
    pub fn delete_service(&self, name: &str) {
        self.edit_service(name, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    }

    /// Gone, whatever its finalizers.
    pub fn destroy_service(&self, name: &str) {
        let mut state = self.state.lock();
        state.version += 1;
        state.services.remove(&format!("default/{name}"));
    }

    /// None when it is gone.
    pub fn service(&self, name: &str) -> Option<Value> {
        self.state.lock().services.get(&format!("default/{name}")).cloned()
    }

    /// All Services.
    pub fn services(&self) -> Vec<Service> {
        let services = self.state.lock().services.clone();
        services.into_values().map(|service| serde_json::from_value(service).unwrap()).collect()
    }

    /// What a watch would show: all Services by their names, when anything has changed since the last call.
    pub fn watched(&self) -> impl FnMut() -> Option<BTreeMap<String, Service>> + use<N> {
        let (state, mut seen) = (Arc::clone(&self.state), 0);
        move || {
            let state = state.lock();
            if std::mem::replace(&mut seen, state.version) == state.version {
                return None;
            }
            let parsed =
                state.services.values().map(|service| serde_json::from_value::<Service>(service.clone()).unwrap());
            Some(parsed.map(|service| (service.metadata.name.clone().unwrap(), service)).collect())
        }
    }
}
