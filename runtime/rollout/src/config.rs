//! Everything that belongs to one provider, in one record. `--providers FILE` holds a list of them; the single-provider
//! flags of `run` are sugar for a list of one.

pub mod duration;
pub(crate) mod edition;
pub mod grants;
pub mod limit_preset;
pub mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{ConfigFile, ConfigFormat, Descriptor, Source};
use ccm_egress::config::{self as egress, Environment, Files, MAX_CONFIG_FILE, resolve};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source;
use crate::trust::Trust;
use grants::{CredentialPlace, GrantSettings, UseGrants, places, uses};
use limit_preset::LimitPreset;
use limits::{LimitSettings, ProviderLimits};

/// One provider, as the operator writes it.
// No `Debug`: a setting or URL may be a secret.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderRecord {
    /// Where the component is: a file, a folder with one component in it, or `configmap:NAMESPACE/NAME[/KEY]`.
    pub source: String,
    /// The name of the provider in metrics, logs, Events and the records of Services. The component must have this name, unless
    /// `component` is given. Any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that the component must have, if the provider has another `name`: for several providers of one component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// How the provider IDs of this provider begin, for example `openstack://RegionOne/`, if several providers have the same
    /// scheme. All provider IDs of its schemes if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_id_prefixes: Vec<String>,
    /// Path of the cloud-config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<PathBuf>,
    /// Values of settings that the provider declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Which hosts, files and variables the provider may use.
    #[serde(default)]
    pub grants: GrantSettings,
    /// Sources of credentials that the provider declares: `file:PATH`, `env:VARIABLE` or `secret:NAMESPACE/NAME/KEY`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, String>,
    /// Uses of a credential beyond one header of one endpoint that is for credentials, such as `identity:body:/v3/auth/tokens`.
    /// `wasm-ccm inspect FILE` prints those that the component declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credential_uses: BTreeMap<String, Vec<String>>,
    /// Which components the host accepts; all by default.
    #[serde(default)]
    pub trust: Trust,
    /// Accept a new component with another name or other provider IDs than the one that serves, without an interface that
    /// objects depend on, or that finds less than the old one; and a first component that finds no existing object.
    #[serde(default)]
    pub allow_provider_change: bool,
    /// Accept a signed component whose counter is lower than that of a component that was proven before, or whose signature has none.
    #[serde(default)]
    pub allow_downgrade: bool,
    /// What a component that imports WASI gets.
    #[serde(default)]
    pub wasi: Wasi,
    /// Values of `spec.loadBalancerClass` that the provider serves. Services without a class go to the first provider that
    /// makes load balancers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_classes: Vec<String>,
    /// The defaults of the limits.
    #[serde(default)]
    pub limits_preset: LimitPreset,
    /// Limits that differ from the defaults.
    #[serde(default)]
    pub limits: LimitSettings,
}

/// What a component that imports WASI gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wasi {
    /// A WASI 0.2 without files, sockets and environment; output goes to the log.
    #[default]
    DenyAll,
    /// The component is refused.
    Off,
}

impl FromStr for Wasi {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "deny-all" => Ok(Self::DenyAll),
            "off" => Ok(Self::Off),
            _ => Err(format!("{text:?} is neither deny-all nor off")),
        }
    }
}

/// One provider, checked.
// No `Debug`: a setting or URL may be a secret.
#[derive(Clone, PartialEq)]
pub struct ProviderConfig {
    /// Where its component is.
    pub source: source::Source,
    /// What the provider is called; as its component calls itself when absent.
    pub name: Option<String>,
    /// The name that the component must give itself; `name` when absent.
    pub component: Option<String>,
    /// What the provider IDs begin with that it takes care of; all of its schemes when empty.
    pub provider_id_prefixes: Vec<String>,
    /// Path of its cloud-config.
    pub cloud_config: Option<PathBuf>,
    /// Values of settings that it declares.
    pub settings: BTreeMap<String, String>,
    /// Where it may go, and what it may read.
    pub grants: GrantSettings,
    /// Where its credentials come from, by their names.
    pub credentials: BTreeMap<String, CredentialPlace>,
    /// What they may be used for beyond what needs no grant, by their names.
    pub credential_uses: UseGrants,
    /// Which components are taken.
    pub trust: Trust,
    /// See [`ProviderRecord::allow_provider_change`].
    pub allow_provider_change: bool,
    /// See [`ProviderRecord::allow_downgrade`].
    pub allow_downgrade: bool,
    /// What a component that asks for WASI gets.
    pub wasi: Wasi,
    /// Classes of Services whose load balancers it makes.
    pub load_balancer_classes: Vec<String>,
    /// All limits, defaults included.
    pub limits: ProviderLimits,
}

impl ProviderRecord {
    /// Checks what can be checked without the component.
    ///
    /// # Errors
    ///
    /// Names the field and what would be right.
    pub fn check(self) -> Result<ProviderConfig> {
        let source: source::Source = self.source.parse().map_err(anyhow::Error::msg).context("source")?;
        let limits = self.limits.resolve(self.limits_preset).context("limits")?;
        for class in &self.load_balancer_classes {
            drop(load_balancer_class(class).map_err(anyhow::Error::msg).context("loadBalancerClasses")?);
        }
        match (&self.component, &self.name) {
            (Some(_), None) => {
                bail!("component needs a name: what the provider is called among those of this component")
            }
            (Some(_), Some(name)) => check_name(name).context("name")?,
            (None, _) => {}
        }
        for prefix in &self.provider_id_prefixes {
            check_prefix(prefix).context("providerIdPrefixes")?;
        }
        drop(self.grants.operator().context("grants")?);
        self.trust.check().context("trust")?;
        let credentials = places(&self.credentials)?;
        for (name, place) in &credentials {
            place.check(limits.network.limits.min_credential_bytes).with_context(|| format!("credential {name}"))?;
        }
        if let Some(path) = &self.cloud_config {
            drop(read_bytes(path).with_context(|| cloud_config(path))?);
        }
        Ok(ProviderConfig {
            source,
            name: self.name,
            component: self.component,
            provider_id_prefixes: self.provider_id_prefixes,
            cloud_config: self.cloud_config,
            settings: self.settings,
            grants: self.grants,
            credentials,
            credential_uses: uses(&self.credential_uses)?,
            trust: self.trust,
            allow_provider_change: self.allow_provider_change,
            allow_downgrade: self.allow_downgrade,
            wasi: self.wasi,
            load_balancer_classes: self.load_balancer_classes,
            limits,
        })
    }
}

/// It stands in labels of metrics and in annotations, as the names of components do.
fn check_name(name: &str) -> Result<()> {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = (1..=63).contains(&name.len()) && name.chars().all(is_inside);
    ensure!(
        is_label && !name.starts_with('-') && !name.ends_with('-'),
        "{name:?} is no DNS label, such as openstack-east (a-z, 0-9, -; at most 63)"
    );
    Ok(())
}

/// Ends with a slash, so that `openstack://Region1` does not take what is of `Region10`.
fn check_prefix(prefix: &str) -> Result<()> {
    let has_scheme = prefix.split_once("://").is_some_and(|(scheme, _)| !scheme.is_empty());
    ensure!(
        has_scheme && prefix.ends_with('/'),
        "{prefix:?} is no beginning of a provider ID with a slash at its end, such as openstack://RegionOne/"
    );
    Ok(())
}

/// A label key, as the API server takes it for `spec.loadBalancerClass`.
///
/// # Errors
///
/// A sentence with an example.
pub fn load_balancer_class(text: &str) -> Result<String, String> {
    let part = |text: &str, max: usize| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= max
            && ends(text.chars().next())
            && ends(text.chars().last())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if part(name, 63) && prefix.is_none_or(|prefix| part(prefix, 253)) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no load balancer class, such as `internal` or `example.com/internal`"))
}

/// Reads the list in a `--providers` file.
///
/// # Errors
///
/// Names the file, the entry and the field.
pub fn read_file(path: &Path) -> Result<Vec<ProviderConfig>> {
    let what = || format!("--providers {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    read_text(&text).with_context(what)
}

/// As [`read_file`], of what the file holds.
pub(crate) fn read_text(text: &str) -> Result<Vec<ProviderConfig>> {
    let records: Vec<ProviderRecord> = serde_saphyr::from_str(text).map_err(|error| {
        // The parser's words for it are those of its data model.
        match serde_saphyr::from_str::<serde_json::Value>(text) {
            Ok(value) if !value.is_array() => anyhow::anyhow!(
                "the file must be a list of providers; begin each with \"- source: \", followed by a path or configmap:NAMESPACE/NAME"
            ),
            _ => anyhow::anyhow!("{}", sentence(&error.to_string())),
        }
    })?;
    check_all(records)
}

/// The first line of the YAML parser's message, without what it says to programmers: that it is an error, and which option
/// of the parser would let it pass.
fn sentence(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    line.split_once(", set ").map_or(line, |(told, _)| told)
}

/// Checks a whole list.
///
/// # Errors
///
/// Names the entry.
pub fn check_all(records: Vec<ProviderRecord>) -> Result<Vec<ProviderConfig>> {
    ensure!(!records.is_empty(), "the list of providers is empty; it needs at least one entry with a source");
    let (mut labels, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut checked = Vec::new();
    for (number, record) in (1..).zip(records) {
        let what = match &record.name {
            Some(name) => format!("entry {number}, {name} ({})", record.source),
            None => format!("entry {number} ({})", record.source),
        };
        let provider = record.check().context(what.clone())?;
        if let Some(name) = &provider.name
            && !names.insert(name.clone())
        {
            bail!("{what}: the name {name} is given twice; give each provider its own");
        }
        if !labels.insert(provider.label()) {
            bail!(
                "{what}: the same source is listed twice; give each its own name, and the name of the component as component"
            );
        }
        checked.push(provider);
    }
    Ok(checked)
}

/// The JSON schema of a `--providers` file.
pub fn schema() -> schemars::Schema {
    let mut schema = schemars::schema_for!(Vec<ProviderRecord>);
    schema.insert("title".to_owned(), "Providers of wasm-ccm".into());
    schema
}

/// The bytes of a configuration file.
///
/// # Errors
///
/// What the system says; the caller names the file.
fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    const ADVICE: &str = "cannot read the file; check the path and who may read it";
    ensure!(std::fs::metadata(path).context(ADVICE)?.is_file(), "it is no regular file");
    // One byte more than allowed is refused by whoever parses it.
    let most = u64::try_from(MAX_CONFIG_FILE)?.saturating_add(1);
    let mut bytes = Vec::new();
    std::fs::File::open(path).context(ADVICE)?.take(most).read_to_end(&mut bytes).context(ADVICE)?;
    Ok(bytes)
}

fn parse(path: &Path, format: ConfigFormat) -> Result<Option<egress::ConfigFile>> {
    Ok(egress::ConfigFile::read(&read_bytes(path)?, format)?)
}

fn cloud_config(path: &Path) -> String {
    format!("cloud-config {}", path.display())
}

impl ProviderConfig {
    /// Which provider it is, among all of the process and over restarts: its source, with its name where several providers may have the
    /// same component.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.component, &self.name) {
            (Some(_), Some(name)) => format!("{} as {name}", self.source),
            _ => self.source.to_string(),
        }
    }

    /// The files that the component reads, by their declared names. The first is the cloud-config; others are where the
    /// cloud-config says or the component expects them, and count only when they are granted.
    ///
    /// # Errors
    ///
    /// Names the file and, for what cannot be parsed, the place in it.
    pub fn files(&self, descriptor: &Descriptor) -> Result<Files> {
        let mut files = Files::default();
        let Some((first, others)) = descriptor.files.split_first() else {
            return match &self.cloud_config {
                Some(path) => {
                    bail!(
                        "cloud-config {}: provider {} reads no such file; leave it out",
                        path.display(),
                        descriptor.name
                    )
                }
                None => Ok(files),
            };
        };
        if let Some(path) = &self.cloud_config
            && let Some(file) = parse(path, first.format).with_context(|| cloud_config(path))?
        {
            files.paths.insert(first.name.clone(), path.clone());
            files.parsed.insert(first.name.clone(), file);
        }
        for declared in others {
            let Some(path) = self.path_of(declared, descriptor, &files)? else { continue };
            let what = || format!("file {} ({})", path.display(), declared.name);
            if let Some(file) = parse(&path, declared.format).with_context(what)? {
                files.paths.insert(declared.name.clone(), path);
                files.parsed.insert(declared.name.clone(), file);
            }
        }
        Ok(files)
    }

    /// Where a further file is; none when nobody names one, or when the one that the component expects is not there.
    fn path_of(&self, declared: &ConfigFile, descriptor: &Descriptor, files: &Files) -> Result<Option<PathBuf>> {
        let source = Source { keys: declared.path_keys.clone(), environment_variables: vec![] };
        let named = resolve(&source, &files.parsed, &BTreeMap::new(), &Environment::default());
        if let Some((named, path)) = named.as_ref().and_then(|named| Some((named, named.text()?)))
            && !path.is_empty()
        {
            let granted = PathBuf::from(path);
            if self.grants.allow_files.contains(&granted) {
                return Ok(Some(granted));
            }
            // A component says which key is a path: only the operator can say that it may be read, and shown.
            if named.is_secret(&descriptor.credentials, &files.parsed) {
                bail!("the file that {} names ({}) is not granted; --allow-file grants it", named.place, declared.name);
            }
            bail!(
                "file {path:?} ({}) is named in the cloud-config but not granted; --allow-file {path:?} grants it",
                declared.name
            );
        }
        let mut expected = declared.default_paths.iter().map(PathBuf::from);
        Ok(expected.find(|path| self.grants.allow_files.contains(path) && path.exists()))
    }

    /// Whether its cloud-config is a text that can be a configuration: said at start, before any provider is there to say in
    /// which format it is.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no text.
    pub fn cloud_config_is_readable(&self) -> Result<()> {
        let Some(path) = &self.cloud_config else { return Ok(()) };
        let is_text = || egress::text(&read_bytes(path)?).map(drop).map_err(anyhow::Error::from);
        is_text().with_context(|| cloud_config(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<ProviderConfig>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_file(file.path())
    }

    #[test]
    fn a_full_record_is_understood() {
        let list = read(
            "- name: cloudlycke\n  source: configmap:kube-system/cloudlycke\n  settings: {mood: grim}\n  wasi: off\n  limits:\n    memory-bytes: 32MiB\n    call-time: 30s\n",
        )
        .unwrap();
        let [provider] = list.as_slice() else { panic!("{} providers", list.len()) };
        assert_eq!(provider.source.to_string(), "configmap:kube-system/cloudlycke");
        assert_eq!((provider.name.as_deref(), provider.wasi), (Some("cloudlycke"), Wasi::Off));
        let limits = &provider.limits.sandbox;
        assert_eq!((limits.memory_bytes, limits.call_time), (32 << 20, std::time::Duration::from_secs(30)));
        assert_eq!(provider.settings, BTreeMap::from([("mood".to_owned(), "grim".to_owned())]));
    }

    #[test]
    fn a_record_that_cannot_be_is_refused_with_its_place() {
        let cases = [
            ("", "list of providers is empty"),
            ("[]", "list of providers is empty"),
            ("- {source: ''}", "entry 1 ()"),
            ("- {source: a.wasm, name: b}\n- {source: '', name: c}", "entry 2, c ()"),
            ("source: a.wasm", "the file must be a list of providers; begin each with \"- source: \""),
            ("cloudlycke.wasm", "the file must be a list of providers"),
            ("- {source: a.wasm}\n- {source: a.wasm}", "listed twice"),
            ("- {source: a.wasm, component: a, name: x}\n- {source: b.wasm, name: x}", "the name x is given twice"),
            ("- {source: a.wasm, component: a}", "component needs a name"),
            ("- {source: a.wasm, component: a, name: a b}", "\"a b\" is no DNS label"),
            (
                "- {source: a.wasm, providerIdPrefixes: ['os://east']}",
                "a slash at its end, such as openstack://RegionOne/",
            ),
            ("- {source: a.wasm, providerIdPrefixes: ['://east/']}", "no beginning of a provider ID"),
            ("- {source: a.wasm, colour: red}", "colour"),
            ("- {source: a.wasm, limits: {memory: 1}}", "memory-bytes"),
            ("- {source: a.wasm, cloudConfig: /nowhere/x}", "/nowhere/x"),
            ("- {source: a.wasm, wasi: maybe}", "maybe"),
            ("- {source: a.wasm\n- b", "line"),
            ("- source: a.wasm\n  source: b.wasm", "--providers"),
            ("- {source: a.wasm, credentials: hunter2}", "line 1"),
            ("- {source: a.wasm, credentials: {a: [hunter2]}}", "line 1"),
            ("- {source: a.wasm, grants: {proxies: 'http://u:hunter2@proxy'}}", "line 1"),
            ("- {source: a.wasm, grants: {proxies: {a: 'http://u:hunter2@proxy/x'}}}", "--proxy a=..."),
            ("- {source: a.wasm, grants: {allowHttp: hunter2}}", "line 1"),
            ("- {source: a.wasm, settings: hunter2}", "line 1"),
            ("- {source: a.wasm, settings: {a: *hunter2}}", "line 1"),
            ("- hunter2", "line 1"),
        ];
        for (text, part) in cases {
            let error = format!("{:#}", read(text).err().unwrap());
            assert!(error.contains(part) && error.contains("--providers"), "{text:?}: {error:?} does not say {part:?}");
            assert!(!error.contains("error:") && !error.contains("Options"), "{text:?}: {error:?}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_load_balancer_class_is_what_the_api_server_takes() {
        for good in ["internal", "example.com/internal", "a", "a.b/c_d-e.F1"] {
            assert_eq!(load_balancer_class(good).as_deref(), Ok(good));
        }
        for bad in ["", "Not Valid!", "/internal", "example.com/", "-a", "a/b/c", &"a".repeat(64)] {
            assert!(load_balancer_class(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_schema_in_the_documentation_is_the_one_of_the_program() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers.schema.json");
        let mut schema = serde_json::to_string_pretty(&schema()).unwrap();
        schema.push('\n');
        let documented = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(documented, schema, "docs/providers.schema.json is not what the program says: run ./just reference");
    }
}
