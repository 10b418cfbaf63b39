//! The files of a configuration, as a whole: whether they are those of before, and those in use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_sandbox::Provider;
use sha2::{Digest as _, Sha256};

use super::{ProviderConfig, read_bytes};

impl ProviderConfig {
    /// The files that may be part of the configuration: the cloud-config, and those that the operator granted besides.
    pub(crate) fn edition_files(&self) -> Vec<PathBuf> {
        self.cloud_config.iter().chain(&self.grants.allow_files).cloned().collect()
    }

    /// What tells one content of all files from the next.
    pub(crate) fn edition_mark(&self) -> [u8; 32] {
        let mut mark = Sha256::new();
        for path in self.edition_files() {
            // One that cannot be read is another content than an empty one.
            let content = read_bytes(&path).ok();
            mark.update(content.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
            mark.update(content.unwrap_or_default());
        }
        mark.finalize().into()
    }

    /// What the files tell this provider, or why they tell it nothing: others that the operator granted say nothing to it.
    pub(crate) fn says(&self, provider: &Provider) -> Result<BTreeMap<String, String>, String> {
        let descriptor = provider.descriptor();
        self.files(descriptor).map(|files| files.shown(descriptor)).map_err(|error| format!("{error:#}"))
    }

    /// Whether the files tell this provider what it was told: other values of its credentials are nothing else.
    pub(crate) fn is_in_use(&self, provider: &Provider) -> bool {
        self.says(provider).is_ok_and(|says| says == *provider.files())
    }
}
