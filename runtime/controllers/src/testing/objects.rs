//! Nodes and machines: say what the test is about, the rest is ordinary.

use ccm_cloud::{Address, AddressKind, Finding, Instance, InstanceState};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Age of every Node, in seconds.
const AGE: i64 = 30;

/// A Node in the making.
#[derive(Clone)]
pub(crate) struct Draft(pub(crate) Value);

/// An initialised Node without anything.
pub(crate) fn node(name: &str) -> Draft {
    let created = Timestamp::now() - SignedDuration::from_secs(AGE);
    Draft(json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "creationTimestamp": created },
        "spec": {},
        "status": {},
    }))
}

/// A Service of type LoadBalancer with one port.
pub(crate) fn service(name: &str) -> Draft {
    let created = Timestamp::now() - SignedDuration::from_secs(AGE);
    let uid = format!("uid-{name}");
    Draft(json!({
        "metadata": { "name": name, "namespace": "default", "uid": uid, "creationTimestamp": created },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "nodePort": 30_080 }],
            "ipFamilies": ["IPv4"],
        },
        "status": { "loadBalancer": {} },
    }))
}

impl Draft {
    /// As a kubelet registers it.
    pub(crate) fn tainted(self) -> Self {
        self.taint("node.cloudprovider.kubernetes.io/uninitialized")
    }

    pub(crate) fn taint(mut self, key: &str) -> Self {
        let taints = &mut self.0["spec"]["taints"];
        let entry = json!({ "key": key, "value": "true", "effect": "NoSchedule" });
        match taints.as_array_mut() {
            Some(taints) => taints.push(entry),
            None => *taints = json!([entry]),
        }
        self
    }

    pub(crate) fn provider_id(mut self, id: &str) -> Self {
        self.0["spec"]["providerID"] = json!(id);
        self
    }

    /// Status of its condition Ready.
    pub(crate) fn ready(mut self, status: &str) -> Self {
        self.0["status"]["conditions"] = json!([{ "type": "Ready", "status": status }]);
        self
    }

    /// Seconds since its creation.
    pub(crate) fn aged(mut self, seconds: i64) -> Self {
        self.0["metadata"]["creationTimestamp"] = json!(Timestamp::now() - SignedDuration::from_secs(seconds));
        self
    }

    pub(crate) fn label(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][name] = json!(value);
        self
    }

    pub(crate) fn provided_ip(mut self, value: &str) -> Self {
        self.0["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] = json!(value);
        self
    }

    pub(crate) fn address(mut self, kind: &str, value: &str) -> Self {
        let addresses = &mut self.0["status"]["addresses"];
        let entry = json!({ "type": kind, "address": value });
        match addresses.as_array_mut() {
            Some(addresses) => addresses.push(entry),
            None => *addresses = json!([entry]),
        }
        self
    }

    /// Anything else: `at` is a JSON pointer to something that exists.
    pub(crate) fn with(mut self, at: &str, name: &str, value: Value) -> Self {
        self.0.pointer_mut(at).unwrap()[name] = value;
        self
    }

    /// As another writer would change it.
    pub(crate) fn patched(mut self, patch: &Value) -> Self {
        ccm_fake_api::merge(&mut self.0, patch);
        self
    }

    pub(crate) fn object<K: serde::de::DeserializeOwned>(self) -> K {
        serde_json::from_value(self.0).unwrap()
    }
}

pub(crate) fn address(kind: AddressKind, value: &str) -> Address {
    Address::new(kind, value)
}

/// The three addresses of the reference.
fn full_list() -> Vec<Address> {
    vec![
        address(AddressKind::Hostname, "node0.cloud.internal"),
        address(AddressKind::InternalIp, "10.0.0.1"),
        address(AddressKind::ExternalIp, "132.143.154.163"),
    ]
}

/// A running machine with the full list of addresses, changed by `change`.
pub(crate) fn found(change: impl FnOnce(&mut Instance)) -> Finding {
    let mut instance = Instance {
        provider_id: "fake://12345".into(),
        instance_type: String::new(),
        addresses: full_list(),
        zone: String::new(),
        region: String::new(),
        labels: Default::default(),
        state: InstanceState::Running,
    };
    change(&mut instance);
    Finding::Found(Box::new(instance))
}
