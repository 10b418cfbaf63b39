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
        mark(&self.edition_files())
    }

    /// What the files tell this provider. Others that the operator granted say nothing to it.
    pub(crate) fn says(&self, provider: &Provider) -> Says {
        let descriptor = provider.descriptor();
        let files = self.files(descriptor).map_err(|error| format!("{error:#}"));
        let named = files.iter().flat_map(|files| files.paths.values());
        let content = mark(self.cloud_config.iter().chain(named));
        Says { told: files.map(|files| files.shown(descriptor)), content }
    }

    /// Whether the files tell this provider what it was told: other values of its credentials are nothing else.
    pub(crate) fn is_in_use(&self, provider: &Provider) -> bool {
        let descriptor = provider.descriptor();
        self.files(descriptor).is_ok_and(|files| files.shown(descriptor) == *provider.files())
    }
}

/// What the files tell a provider.
#[derive(PartialEq)]
pub(crate) struct Says {
    /// Without secrets; or why they tell it nothing.
    told: Result<BTreeMap<String, String>, String>,
    /// What tells one content of those files from the next.
    content: [u8; 32],
}

fn mark<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> [u8; 32] {
    let mut mark = Sha256::new();
    for path in files {
        // One that cannot be read is another content than an empty one.
        let content = read_bytes(path).ok();
        mark.update(content.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
        mark.update(content.unwrap_or_default());
    }
    mark.finalize().into()
}
