//! Where a provider's component comes from: a file, a folder with one file, or a ConfigMap read through the API.

mod changes;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ccm_apiserver::{api_error_text, lacks_right};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

pub(crate) use changes::{Changes, delays};

/// How long a ConfigMap is waited for.
const API_TIMEOUT: Duration = Duration::from_secs(30);
/// Names that a component's file or key may end in.
const ENDINGS: [&str; 3] = [".wasm", ".wasm.gz", ".wasm.zst"];
/// What the name of a component's detached signature ends in, after the component's own name.
pub const SIGNATURE: &str = ".sig";
/// No signature has as many bytes: no more of a file are read. The largest are bundles with an entry of a transparency log and a time
/// stamp with its certificates, about 12 KiB.
pub const MAX_SIGNATURE: usize = 32 << 10;

/// A place that holds a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, or a folder with exactly one component in it, such as a mounted ConfigMap.
    Path(PathBuf),
    /// `configmap:NAMESPACE/NAME[/KEY]`; without a key it must hold exactly one.
    ConfigMap {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// The key, when it is given.
        key: Option<String>,
    },
}

/// Why a source gave no component.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The path cannot be read.
    #[error("cannot read {}: {error}; check the path and who may read it", part(.file))]
    Unreadable {
        /// The file in the folder that the source is, none for the source itself.
        file: Option<String>,
        /// What the system said.
        error: std::io::Error,
    },
    /// A device, a pipe, a socket.
    #[error("{} is no regular file; give the component's file, or the folder that it is in", part(.0))]
    NotAFile(Option<String>),
    /// No file of a component's name in the folder, or no such key in the ConfigMap.
    #[error("it holds no component: a name must end in .wasm, .wasm.gz or .wasm.zst{}", found(.0))]
    Empty(Vec<String>),
    /// Nobody can tell which one is meant.
    #[error("it holds {} components ({}): leave one, or name the one you mean", .0.len(), .0.join(", "))]
    Ambiguous(Vec<String>),
    /// The ConfigMap has no such key.
    #[error("it has no key {key:?}{}", found(.keys))]
    NoKey {
        /// The key that was asked for.
        key: String,
        /// The keys that there are.
        keys: Vec<String>,
    },
    /// The ConfigMap does not exist.
    #[error(
        "the ConfigMap does not exist; create it with `kubectl create configmap {name} --namespace {namespace} --from-file=PROVIDER.wasm`"
    )]
    NoConfigMap {
        /// Where it should be.
        namespace: String,
        /// What it should be called.
        name: String,
    },
    /// The API server did not give it.
    #[error(
        "the API server did not give the ConfigMap: {}; {}",
        api_error_text(.0),
        self.way_out()
    )]
    Api(kube::Error),
    /// The API server did not answer.
    #[error("the API server did not answer within {API_TIMEOUT:?}")]
    ApiTimeout,
    /// A ConfigMap can be read only with a cluster.
    #[error("a ConfigMap can be read only with access to a cluster; give a file")]
    NoCluster,
    /// Larger than the limit, before it is unpacked.
    #[error("it has {size} bytes, the limit is {limit}; raise the limit source-bytes if that is right")]
    TooLarge {
        /// Its bytes.
        size: u64,
        /// The limit.
        limit: usize,
    },
}

impl FetchError {
    /// For an answer of the API server.
    fn way_out(&self) -> &'static str {
        match self {
            Self::Api(kube::Error::Api(status)) if lacks_right(status) => {
                "the manager needs the right to get it: add a rule for this ConfigMap to the Role in your overlay"
            }
            Self::Api(kube::Error::Api(status)) if status.code == 401 => "its credentials are wrong or have expired",
            _ => "look at the API server, and at the network to it",
        }
    }

    /// Whether the API server is away or has too much to do, which says nothing about the source.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::ApiTimeout => true,
            Self::Api(kube::Error::Api(status)) => status.code >= 500 || status.code == 429,
            Self::Api(_) => true,
            _ => false,
        }
    }
}

/// What is meant, for whoever knows the source already.
fn part(file: &Option<String>) -> String {
    file.as_ref().map_or_else(|| "it".to_owned(), |name| format!("{name} in it"))
}

fn found(names: &[String]) -> String {
    if names.is_empty() { "; it is empty".to_owned() } else { format!("; it holds {}", names.join(", ")) }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(reference) = text.strip_prefix("configmap:") else {
            let kind = text.split_once(':').map(|(kind, _)| kind);
            return if text.is_empty() {
                Err("it is empty; give a file, a folder or configmap:NAMESPACE/NAME[/KEY]".to_owned())
            } else if kind.is_some_and(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
                Err(format!(
                    "{text:?} is neither a path nor configmap:NAMESPACE/NAME[/KEY]; a file of that name is ./{text}"
                ))
            } else {
                Ok(Self::Path(text.into()))
            };
        };
        let parts: Vec<&str> = reference.split('/').collect();
        let (namespace, name, key) = match parts.as_slice() {
            [namespace, name] => (namespace, name, None),
            [namespace, name, key] => (namespace, name, Some(*key)),
            _ => return Err(format!("{text:?} is not configmap:NAMESPACE/NAME[/KEY]")),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!("{text:?} is not configmap:NAMESPACE/NAME[/KEY]: a part is empty"));
        }
        check_names(namespace, name, key)
            .map_err(|why| format!("{text:?} is not configmap:NAMESPACE/NAME[/KEY]: {why}"))?;
        Ok(Self::ConfigMap {
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            key: key.map(ToOwned::to_owned),
        })
    }
}

/// Refuses names that no API server can have: a typing error must not look like a ConfigMap that is still to come.
///
/// # Errors
///
/// Names the part that cannot be, and what would be right.
pub fn check_names(namespace: &str, name: &str, key: Option<&str>) -> Result<(), String> {
    if !is_label(namespace) || namespace.len() > 63 {
        return Err(format!(
            "the namespace {namespace:?} cannot be; it has at most 63 of a-z, 0-9 and -, and begins and ends with a letter or digit"
        ));
    }
    if !name.split('.').all(is_label) || name.len() > 253 {
        return Err(format!(
            "the name {name:?} cannot be; it has at most 253 of a-z, 0-9, - and ., and each part between dots begins and ends with a letter or digit"
        ));
    }
    let Some(key) = key else { return Ok(()) };
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !key.bytes().all(is_key) || key == "." || key.starts_with("..") || key.len() > 253 {
        return Err(format!(
            "the key {key:?} cannot be; it has at most 253 of a-z, A-Z, 0-9, -, _ and ., and does not begin with two dots"
        ));
    }
    Ok(())
}

/// A label of RFC 1123, whatever its length.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::ConfigMap { namespace, name, key: None } => write!(f, "configmap:{namespace}/{name}"),
            Self::ConfigMap { namespace, name, key: Some(key) } => write!(f, "configmap:{namespace}/{name}/{key}"),
        }
    }
}

/// What a source holds.
#[derive(Debug)]
pub struct Packed {
    /// The component as it lies there, perhaps compressed.
    pub bytes: Vec<u8>,
    /// What lies beside it under the same name and [`SIGNATURE`].
    pub signature: Option<Vec<u8>>,
    /// `metadata.uid` of the ConfigMap.
    pub uid: Option<String>,
}

impl Packed {
    /// Differs whenever the component or its signature does.
    pub fn mark(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.bytes.len().to_be_bytes());
        hash.update(&self.bytes);
        hash.update(self.signature.as_deref().unwrap_or_default());
        hash.finalize().into()
    }
}

impl Source {
    /// Reads what is there. `client` is needed for a ConfigMap; `limit` in bytes.
    ///
    /// # Errors
    ///
    /// See [`FetchError`]. The caller says which source.
    pub async fn fetch(&self, client: Option<&Client>, limit: usize) -> Result<Packed, FetchError> {
        let packed = match self {
            Self::Path(path) => read_path(path, limit).await?,
            Self::ConfigMap { namespace, name, key } => {
                let client = client.ok_or(FetchError::NoCluster)?.clone();
                let get = read_config_map(client, namespace, name, key.as_deref());
                tokio::time::timeout(API_TIMEOUT, get).await.map_err(|_elapsed| FetchError::ApiTimeout)??
            }
        };
        if packed.bytes.len() > limit {
            return Err(too_large(packed.bytes.len(), limit));
        }
        Ok(packed)
    }
}

fn too_large(size: usize, limit: usize) -> FetchError {
    FetchError::TooLarge { size: u64::try_from(size).unwrap_or(u64::MAX), limit }
}

async fn read_path(path: &Path, limit: usize) -> Result<Packed, FetchError> {
    let unreadable = |file: &Option<String>| {
        let file = file.clone();
        move |error| FetchError::Unreadable { file, error }
    };
    let mut file = None;
    let mut full = path.to_owned();
    let mut metadata = tokio::fs::metadata(path).await.map_err(unreadable(&file))?;
    if metadata.is_dir() {
        let name = only_component(path).await?;
        full = path.join(&name);
        file = Some(name);
        metadata = tokio::fs::metadata(&full).await.map_err(unreadable(&file))?;
    }
    if !metadata.is_file() {
        return Err(FetchError::NotAFile(file));
    }
    // Looked at before reading, so that a mistaken path to something huge does not fill the memory.
    if metadata.len() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(FetchError::TooLarge { size: metadata.len(), limit });
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let open = tokio::fs::File::open(&full).await.map_err(unreadable(&file))?;
    open.take(most).read_to_end(&mut bytes).await.map_err(unreadable(&file))?;
    let mut beside = full.into_os_string();
    beside.push(SIGNATURE);
    let signature = match tokio::fs::File::open(&beside).await {
        Ok(open) => {
            let mut signature = Vec::new();
            open.take(MAX_SIGNATURE as u64).read_to_end(&mut signature).await.map_err(unreadable(&file))?;
            Some(signature)
        }
        // Whether one is needed is for others to say.
        Err(_) => None,
    };
    Ok(Packed { bytes, signature, uid: None })
}

async fn only_component(folder: &Path) -> Result<String, FetchError> {
    let unreadable = |error| FetchError::Unreadable { file: None, error };
    let mut entries = tokio::fs::read_dir(folder).await.map_err(unreadable)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(unreadable)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A mounted ConfigMap keeps its books in entries that begin with two dots.
        if !name.starts_with("..") {
            names.push(name);
        }
    }
    only(names)
}

/// Whether a file or key of this name may hold a component.
pub fn is_component(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The one name that may be a component's.
fn only(mut names: Vec<String>) -> Result<String, FetchError> {
    names.sort();
    let mut components: Vec<String> = names.iter().filter(|name| is_component(name)).cloned().collect();
    match (components.pop(), components.is_empty()) {
        (Some(name), true) => Ok(name),
        (Some(name), false) => {
            components.push(name);
            Err(FetchError::Ambiguous(components))
        }
        (None, _) => Err(FetchError::Empty(names)),
    }
}

/// The key of the only component in a ConfigMap; none when it holds none.
///
/// # Errors
///
/// It holds several.
pub fn component_key(map: &ConfigMap) -> Result<Option<String>, FetchError> {
    let names = map.binary_data.iter().flat_map(|data| data.keys()).chain(map.data.iter().flat_map(|data| data.keys()));
    match only(names.cloned().collect()) {
        Ok(key) => Ok(Some(key)),
        Err(FetchError::Empty(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read_config_map(client: Client, namespace: &str, name: &str, key: Option<&str>) -> Result<Packed, FetchError> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let Some(map) = api.get_opt(name).await.map_err(FetchError::Api)? else {
        return Err(FetchError::NoConfigMap { namespace: namespace.to_owned(), name: name.to_owned() });
    };
    let mut binary = map.binary_data.unwrap_or_default();
    let mut text = map.data.unwrap_or_default();
    let keys: Vec<String> = binary.keys().chain(text.keys()).cloned().collect();
    let key = match key {
        Some(key) => key.to_owned(),
        None => only(keys.clone())?,
    };
    let mut value =
        |key: &str| binary.remove(key).map(|bytes| bytes.0).or_else(|| text.remove(key).map(String::into_bytes));
    let signature = value(&format!("{key}{SIGNATURE}"));
    let bytes = value(&key).ok_or(FetchError::NoKey { key, keys })?;
    Ok(Packed { bytes, signature, uid: map.metadata.uid })
}

#[cfg(test)]
mod tests;
