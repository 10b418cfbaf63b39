//! Applies our own manifests, and puts components into ConfigMaps.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, ValidationDirective};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _, discovery};

/// Applies every object of a manifest, server-side and with strict validation.
///
/// # Errors
///
/// Names the object that was refused.
pub async fn apply(client: &Client, manifest: &str) -> Result<()> {
    let path = folder().join(manifest);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    apply_all(client, &objects(&text)?).await.with_context(|| manifest.to_owned())
}

/// Applies what a host needs of `manifests/base` that runs outside of the cluster: its rights, and what its replicas share.
///
/// # Errors
///
/// Names the object that was refused.
pub async fn apply_base(client: &Client) -> Result<()> {
    apply(client, "base/rbac.yaml").await?;
    apply(client, "base/components.yaml").await
}

/// The folder of our manifests.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
}

/// The objects of a YAML text.
///
/// # Errors
///
/// One is no object.
pub fn objects(text: &str) -> Result<Vec<DynamicObject>> {
    Ok(serde_saphyr::from_multiple(text)?)
}

/// Applies objects, server-side and with strict validation.
///
/// # Errors
///
/// Names the object that was refused.
pub async fn apply_all(client: &Client, objects: &[DynamicObject]) -> Result<()> {
    let mut how = PatchParams::apply("ccm-e2e");
    how.field_validation = Some(ValidationDirective::Strict);
    for object in objects {
        let types = object.types.clone().context("an object without kind")?;
        let kind = GroupVersionKind::try_from(&types)?;
        let (resource, _) = discovery::pinned_kind(client, &kind).await.with_context(|| format!("{types:?}"))?;
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = object.name_any();
        api.patch(&name, &how, &Patch::Apply(object)).await.with_context(|| format!("{} {name}", kind.kind))?;
    }
    Ok(())
}

/// Writes a ConfigMap that holds a component, gzipped.
///
/// # Errors
///
/// The file cannot be read, or the API server refuses the ConfigMap.
pub async fn put_component(client: &Client, namespace: &str, name: &str, component: &Path) -> Result<usize> {
    let key = component.file_name().context("a component has a file name")?.to_string_lossy().into_owned() + ".gz";
    let packed = packed(component)?;
    let size = packed.len();
    put_config_map(client, namespace, name, [(key, packed)]).await?;
    Ok(size)
}

/// A component as it goes into a ConfigMap: gzipped.
///
/// # Errors
///
/// The file cannot be read.
pub fn packed(component: &Path) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&std::fs::read(component)?)?;
    Ok(gzip.finish()?)
}

/// Writes a ConfigMap that holds exactly these keys.
///
/// # Errors
///
/// The API server refuses it.
pub async fn put_config_map(
    client: &Client,
    namespace: &str,
    name: &str,
    keys: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> Result<()> {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        binary_data: Some(keys.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect()),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.patch(name, &PatchParams::apply("ccm-e2e"), &Patch::Apply(&map)).await?;
    Ok(())
}
