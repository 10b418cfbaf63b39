//! Applies our own manifests, and puts components into ConfigMaps.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};

/// Applies every object of a manifest, server-side and with strict validation.
///
/// # Errors
///
/// Names the object that was refused.
pub async fn apply(client: &Client, manifest: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests").join(manifest);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text)?;
    for object in objects {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let (resource, namespaced) = match kind.as_str() {
            "ServiceAccount" => (ApiResource::erase::<ServiceAccount>(&()), true),
            "ClusterRole" => (ApiResource::erase::<ClusterRole>(&()), false),
            "ClusterRoleBinding" => (ApiResource::erase::<ClusterRoleBinding>(&()), false),
            "Role" => (ApiResource::erase::<Role>(&()), true),
            "RoleBinding" => (ApiResource::erase::<RoleBinding>(&()), true),
            _ => bail!("{manifest}: nobody here applies a {kind}"),
        };
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) if namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
            _ => Api::all_with(client.clone(), &resource),
        };
        let mut how = PatchParams::apply("ccm-e2e");
        how.field_validation = Some(kube::api::ValidationDirective::Strict);
        let name = object.name_any();
        api.patch(&name, &how, &Patch::Apply(&object)).await.with_context(|| format!("{manifest}: {kind} {name}"))?;
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
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&std::fs::read(component)?)?;
    let packed = gzip.finish()?;
    let size = packed.len();
    put_config_map(client, namespace, name, [(key, packed)]).await?;
    Ok(size)
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
