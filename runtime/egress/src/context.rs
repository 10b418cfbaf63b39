//! What one provider may use outside its sandbox, and a digest over what the operator configured of it.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest;
use ccm_cloud::{Descriptor, NodeSelector};

use crate::cache::Cache;
use crate::egress::Egress;
use crate::log::LogLimits;
use crate::settings::Settings;

/// Everything that one provider may use. All its calls share it.
pub struct ProviderContext {
    /// What the operator configured for it.
    pub settings: Settings,
    /// Bytes that outlive a call.
    pub cache: Cache,
    /// How much a call may log.
    pub log: LogLimits,
    /// Its requests; none while the provider is asked who it is.
    pub egress: Option<Egress>,
    /// The cluster's Nodes; none while nobody watches them.
    pub nodes: Option<Arc<dyn NodeSelector>>,
    /// What the provider IDs begin with that it is told of: its own, once it has said who it is.
    pub provider_ids: Vec<String>,
    /// The first digits of its component's digest, for traces; empty where nobody calculated it.
    pub digest: String,
}

impl ProviderContext {
    /// Grants nothing.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            settings: Settings::default(),
            cache: Cache::new(0),
            log: LogLimits::default(),
            egress: None,
            nodes: None,
            provider_ids: vec![],
            digest: String::new(),
        }
    }

    /// A digest over what the operator configured: files and settings as the provider gets them, in which placeholders stand
    /// for secrets, base URLs, and the cluster's name and CIDRs. The same whenever the configuration is; a secret that
    /// changes does not change it. What the provider takes by itself, as defaults and catalogues, is no part of it: a new
    /// version of the component brings its own revision.
    #[must_use]
    pub fn configuration(&self, descriptor: &Descriptor) -> String {
        let settings = &self.settings;
        let default = |name: &str| descriptor.settings.iter().find(|setting| setting.name == name)?.default.as_ref();
        let mut sum = Sum(digest::Context::new(&digest::SHA256));
        for (name, text) in &settings.files {
            sum.add("file", &[name, text]);
        }
        for (name, value) in settings.values.iter().filter(|(name, value)| default(name) != Some(*value)) {
            sum.add("setting", &[name, value]);
        }
        for (name, url) in self.egress.iter().flat_map(Egress::configured) {
            sum.add("endpoint", &[name, url.as_str()]);
        }
        sum.add("cluster-name", &[&settings.cluster_name]);
        for cidr in &settings.cluster_cidrs {
            sum.add("cluster-cidr", &[cidr]);
        }
        sum.hex()
    }
}

struct Sum(digest::Context);

impl Sum {
    /// Lengths stand before words: no two lists of words look the same.
    fn add(&mut self, kind: &str, words: &[&str]) {
        for word in std::iter::once(kind).chain(words.iter().copied()) {
            let length = u64::try_from(word.len()).unwrap_or(u64::MAX);
            self.0.update(&length.to_be_bytes());
            self.0.update(word.as_bytes());
        }
    }

    fn hex(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}
