//! Files, variables and settings of a provider, as the operator gives them. Finds in them what a component declares.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_cloud::{Descriptor, Problem, Source};

use crate::config_file::{ConfigFile, Environment, declared, locate, resolve};
use crate::credentials::{CredentialSource, Edition, ToldFile};
use crate::endpoints::ConfiguredText;
use crate::secret::Secret;
use crate::settings::Settings;

/// The files of a provider by their declared names: what the operator wrote, and where.
#[derive(Default)]
pub struct Files {
    /// What stands in them.
    pub parsed: BTreeMap<String, ConfigFile>,
    /// Where they are.
    pub paths: BTreeMap<String, PathBuf>,
}

impl Files {
    /// What a provider gets of them: without secrets.
    #[must_use]
    pub fn shown(&self, descriptor: &Descriptor) -> BTreeMap<String, String> {
        let shown = |(name, file): (&String, &ConfigFile)| (name.clone(), file.for_guest(&declared(descriptor, name)));
        self.parsed.iter().map(shown).collect()
    }
}

/// What the operator configured for a provider.
#[derive(Default)]
pub struct Configuration {
    files: Files,
    environment: Environment,
    /// Settings as they are, without placeholders: keys of other sources are filled with them.
    values: BTreeMap<String, String>,
}

impl Configuration {
    /// No settings yet; see [`settings`](Self::settings).
    #[must_use]
    pub fn new(files: Files, environment: Environment) -> Self {
        Self { files, environment, values: BTreeMap::new() }
    }

    /// Files and settings as the provider may see them. `given` are those that the operator sets by name. Their values fill the
    /// keys of what is looked for from then on.
    ///
    /// # Errors
    ///
    /// Every setting that is wrong, at once.
    pub fn settings(
        &mut self,
        descriptor: &Descriptor,
        given: &BTreeMap<String, String>,
    ) -> Result<Settings, Vec<Problem>> {
        let parsed = &self.files.parsed;
        let mut settings = Settings { files: self.files.shown(descriptor), ..Settings::default() };
        self.values = settings.set_values(descriptor, given, parsed, &self.environment)?;
        Ok(settings)
    }

    /// The value of a granted variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name)
    }

    /// The single value of a source, unless it is empty.
    pub(crate) fn text(&self, descriptor: &Descriptor, source: &Source) -> Option<ConfiguredText> {
        let files = &self.files.parsed;
        let found = resolve(source, files, &self.values, &self.environment)?;
        let value = found.text().filter(|text| !text.is_empty())?.to_owned();
        let is_secret = found.is_secret(&descriptor.credentials, files);
        Some(ConfiguredText { value, is_secret, origin: found.place })
    }

    /// Where a credential is: at the first key, or else in the first granted variable, that has a value.
    pub(crate) fn credential(&self, descriptor: &Descriptor, source: &Source) -> Option<CredentialSource> {
        if let Some(key) = source.keys.iter().find_map(|key| locate(key, &self.files.parsed, &self.values)) {
            let path = self.files.paths.get(&key.file)?;
            let format = descriptor.files.iter().find(|declared| declared.name == key.file)?.format;
            return Some(CredentialSource::config_path(path.clone(), format, key.path));
        }
        source.environment_variables.iter().find_map(|variable| {
            let value = self.environment.get(variable).filter(|value| !value.is_empty())?;
            let value = Secret::new(value.as_bytes().to_vec());
            Some(CredentialSource::Environment { variable: variable.clone(), value })
        })
    }

    /// The files, as the provider is told of them.
    pub(crate) fn edition(&self, descriptor: &Descriptor) -> Edition {
        let told = |(name, file): (&String, &ConfigFile)| {
            let path = self.files.paths.get(name)?.clone();
            let format = descriptor.files.iter().find(|declared| declared.name == *name)?.format;
            let declared = declared(descriptor, name);
            Some(ToldFile { path, format, shown: file.for_guest(&declared), declared })
        };
        Edition::new(self.files.parsed.iter().filter_map(told).collect())
    }

    /// Every secret in the files, with the name of its credential or its key.
    pub(crate) fn hidden(&self, descriptor: &Descriptor) -> Vec<(String, Secret)> {
        let files = self.files.parsed.iter();
        files.flat_map(|(name, file)| file.hidden(&declared(descriptor, name))).collect()
    }
}
