//! Writes a component to a ConfigMap, after the gate: `wasm-ccm push`.

mod answers;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use ccm_cloud::Descriptor;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::config::ProviderConfig;
use crate::gate::Unpacked;
use crate::preflight::{self, Checked};
use crate::source::{SIGNATURE, component_key, is_component};
use crate::unpack::unpack;

/// Who owns the keys that are written; a digest of the key goes after it.
const MANAGER: &str = "wasm-ccm-push";
/// Larger components are packed: the API server and etcd then carry less, and `kubectl get -o yaml` stays readable.
const PACK_FROM: usize = 256 << 10;
/// What the API server takes in one ConfigMap, all keys together.
const MAX_CONFIG_MAP: usize = 1 << 20;
/// Beside the component and its signature: names of keys.
const ROOM: usize = 4 << 10;

/// Where a component is pushed to.
pub struct Target {
    /// Reaches the API server.
    pub client: Client,
    /// The API server's address, for messages.
    pub server: Uri,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key in it; none: the one that holds a component already, else the file's name.
    pub key: Option<String>,
    /// Whether the ConfigMap and the key are made where they are not there. Without it they may be misspelt.
    pub creates: bool,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configmap:{}/{}", self.namespace, self.name)
    }
}

impl Target {
    /// Refuses to make what is not there, unless it is asked for: hosts watch the ConfigMap that they were told of, and nobody would read a
    /// misspelt one.
    fn must_be_there(&self, map: Option<&ConfigMap>) -> Result<()> {
        if self.creates {
            return Ok(());
        }
        let Some(map) = map else {
            bail!("{self} does not exist; correct the namespace or the name, or create the ConfigMap with --create");
        };
        let Some(key) = &self.key else { return Ok(()) };
        let text = map.data.iter().flatten().map(|(key, _)| key.as_str());
        let keys: Vec<&str> = map.binary_data.iter().flatten().map(|(key, _)| key.as_str()).chain(text).collect();
        if !keys.contains(&key.as_str()) {
            let has = if keys.is_empty() { "it is empty".to_owned() } else { format!("it has {}", keys.join(", ")) };
            bail!("{self} has no key {key}, {has}; correct the key, or add it with --create");
        }
        Ok(())
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// `configmap:NAMESPACE/NAME/KEY`.
    pub target: String,
    /// Name of the provider.
    pub provider: String,
    /// Version of the component.
    pub version: String,
    /// Of the component.
    pub bytes: usize,
    /// As it lies in the ConfigMap.
    pub stored_bytes: usize,
    /// Digest of the component that lay there; or what lay there instead.
    pub before: String,
    /// Digest of the component that lies there now.
    pub now: String,
    /// Of the ConfigMap.
    pub resource_version: String,
    /// What whoever pushed it should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl fmt::Display for Pushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, provider, version, bytes, stored_bytes, before, now, resource_version, warning } = self;
        write!(f, "{target}: {provider} {version}, {bytes} bytes")?;
        if bytes != stored_bytes {
            write!(f, ", {stored_bytes} packed")?;
        }
        let same = if before == now { " (the same component)" } else { "" };
        write!(f, "\nbefore {before}\nnow    {now}{same}, resourceVersion {resource_version}")?;
        warning.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Writes a component that passed the gate, from a file of this name.
///
/// # Errors
///
/// Another provider lies there, the component has a size that no ConfigMap holds, or what the API server says.
pub async fn push(config: &ProviderConfig, checked: &Checked, file: &str, target: &Target) -> Result<Pushed> {
    let Target { client, server, namespace, name, key, .. } = target;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || target.to_string();
    let said = |error: kube::Error| anyhow!("{}", answers::tell(&error, server, namespace));
    let before = maps.get_opt(name).await.map_err(said).with_context(what)?;
    target.must_be_there(before.as_ref())?;
    let Checked { component, unpacked, packed } = checked;
    let upload = Upload::new(packed, unpacked, file, key.as_deref(), before.as_ref()).with_context(what)?;
    let (old, old_digest) = upload.before(before.as_ref(), config.limits.sandbox.component_bytes);
    if let Some(old) = old {
        preflight::aimed(config, component, old).await.map_err(|rejected| rejected.named(&config.source))?;
    }
    let moved = before.as_ref().and_then(|before| upload.moves(before));
    if let Some(moved) = &moved {
        let moved = maps.patch(name, &PatchParams::default(), &Patch::Merge(moved)).await;
        moved.map_err(said).with_context(what)?;
    }
    let params = PatchParams::apply(&upload.manager()).force();
    let applied = maps.patch(name, &params, &Patch::Apply(upload.map(namespace, name))).await;
    let applied = applied.map_err(said).with_context(|| match &moved {
        Some(_) => format!("{target}: what stood in data stands in binaryData now, and is as it was"),
        None => what(),
    });
    let mut now = applied?;
    let lost = before.as_ref().and_then(|before| upload.stale_signature(before));
    let left = upload.stale_signature(&now);
    if let Some(stale) = &left {
        // Somebody else put it there, and it would fit nothing.
        let gone = json!({ "binaryData": { stale: null }, "data": { stale: null } });
        let removed = maps.patch(name, &PatchParams::default(), &Patch::Merge(gone)).await;
        now = removed.map_err(said).with_context(what)?;
    }
    let resource_version = now.metadata.resource_version.unwrap_or_default();
    let warning = lost.or(left).map(|signature| without(&signature));
    Ok(Pushed { resource_version, warning, ..upload.pushed(&what(), component.descriptor(), unpacked, old_digest) })
}

/// What is written.
struct Upload {
    key: String,
    bytes: Vec<u8>,
    signature: Option<Vec<u8>>,
}

impl Upload {
    fn new(
        packed: &[u8],
        unpacked: &Unpacked,
        file: &str,
        key: Option<&str>,
        before: Option<&ConfigMap>,
    ) -> Result<Self> {
        let signature = unpacked.signature.clone();
        // What is packed already stays so: it may be packed better.
        let packs = packed == unpacked.bytes && packed.len() > PACK_FROM;
        let bytes = if packs { gzip(packed)? } else { packed.to_vec() };
        let ending = match (is_component(file), packs) {
            (true, true) => ".gz",
            (true, false) => "",
            // Under another name nobody would find it there.
            (false, true) => ".wasm.gz",
            (false, false) => ".wasm",
        };
        let key = match key {
            Some(key) => key.to_owned(),
            // Under the name that is there already: two components in one ConfigMap are none.
            None => before.map(component_key).transpose()?.flatten().unwrap_or_else(|| format!("{file}{ending}")),
        };
        let others = before.map(|map| size_without(map, &key)).unwrap_or_default();
        let beside = signature.as_ref().map_or(0, Vec::len).saturating_add(ROOM);
        let size = bytes.len().saturating_add(beside).saturating_add(others);
        let taken = if others == 0 { String::new() } else { format!(", {others} bytes of which other keys take") };
        ensure!(
            size <= MAX_CONFIG_MAP,
            "it has {} bytes packed, and a ConfigMap holds 1 MiB{taken}; make it smaller (opt-level = \"z\", lto, strip; wasm-opt -Oz), or mount it as a file",
            bytes.len()
        );
        Ok(Self { key, bytes, signature })
    }

    fn map(&self, namespace: &str, name: &str) -> ConfigMap {
        let mut binary = BTreeMap::from([(self.key.clone(), ByteString(self.bytes.clone()))]);
        if let Some(signature) = &self.signature {
            binary.insert(self.signature_key(), ByteString(signature.clone()));
        }
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            binary_data: Some(binary),
            ..ConfigMap::default()
        }
    }

    /// One for each key: what the same one set before and does not send again, server-side apply takes away.
    fn manager(&self) -> String {
        let digest = format!("{:x}", Sha256::digest(&self.key));
        format!("{MANAGER}-{digest:.16}")
    }

    fn signature_key(&self) -> String {
        format!("{}{SIGNATURE}", self.key)
    }

    /// What brings keys of ours out of `data`, where `kubectl` puts what is text: no key may stand in both, and applying removes
    /// none of somebody else. Their values stay for as long as nothing else is written.
    fn moves(&self, before: &ConfigMap) -> Option<Value> {
        let signature = self.signature.as_ref().map(|_| self.signature_key());
        let ours = |key: &String| *key == self.key || Some(key) == signature.as_ref();
        let text: Vec<(&String, &String)> = before.data.iter().flatten().filter(|(key, _)| ours(key)).collect();
        if text.is_empty() {
            return None;
        }
        let gone: BTreeMap<_, ()> = text.iter().map(|(key, _)| (key, ())).collect();
        let there: BTreeMap<_, _> =
            text.iter().map(|(key, text)| (key, ByteString(text.as_bytes().to_vec()))).collect();
        // Whoever changed it meanwhile must not find that undone.
        let version = &before.metadata.resource_version;
        Some(json!({ "metadata": { "resourceVersion": version }, "data": gone, "binaryData": there }))
    }

    /// A signature of another component, which is still there.
    fn stale_signature(&self, now: &ConfigMap) -> Option<String> {
        let key = self.signature_key();
        let is_there = now.binary_data.as_ref().is_some_and(|data| data.contains_key(&key))
            || now.data.as_ref().is_some_and(|data| data.contains_key(&key));
        (self.signature.is_none() && is_there).then_some(key)
    }

    /// What it takes the place of, and the digest of that or what is there instead.
    fn before(&self, map: Option<&ConfigMap>, limit: usize) -> (Option<Unpacked>, String) {
        let binary = |map: &ConfigMap| Some(map.binary_data.as_ref()?.get(&self.key)?.0.clone());
        let text = |map: &ConfigMap| Some(map.data.as_ref()?.get(&self.key)?.clone().into_bytes());
        let Some(packed) = map.and_then(|map| binary(map).or_else(|| text(map))) else {
            return (None, "nothing".to_owned());
        };
        match unpack(packed, limit) {
            Ok(bytes) => {
                let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
                let there = Unpacked { bytes, digest: digest.clone(), signature: None, signed: None, is_stored: false };
                (Some(there), digest)
            }
            Err(error) => (None, format!("no component: {error}")),
        }
    }

    /// Before the answer of the API server.
    fn pushed(&self, what: &str, descriptor: &Descriptor, unpacked: &Unpacked, before: String) -> Pushed {
        Pushed {
            target: format!("{what}/{}", self.key),
            provider: descriptor.name.clone(),
            version: descriptor.version.clone(),
            bytes: unpacked.bytes.len(),
            stored_bytes: self.bytes.len(),
            before,
            now: unpacked.digest.clone(),
            resource_version: String::new(),
            warning: None,
        }
    }
}

/// What is said when a signature is taken away.
fn without(signature: &str) -> String {
    format!(
        "the key {signature} was removed, because there is no signature next to the file: hosts with --provider-key refuse the component; sign it, and push both"
    )
}

/// Without time and name, so that the same component has the same bytes.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Bytes of the other keys; a signature belongs to its component.
fn size_without(map: &ConfigMap, key: &str) -> usize {
    let other = |name: &str| name != key && name.strip_suffix(SIGNATURE) != Some(key);
    let text = map.data.iter().flatten().filter(|(name, _)| other(name)).map(|(_, value)| value.len());
    let binary = map.binary_data.iter().flatten().filter(|(name, _)| other(name)).map(|(_, value)| value.0.len());
    text.chain(binary).sum()
}

#[cfg(test)]
mod tests;
