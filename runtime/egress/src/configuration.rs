//! Whether the operator's configuration is the one of another time.

use std::fmt::Write as _;

use aws_lc_rs::digest;
use ccm_cloud::Descriptor;

use crate::Door;
use crate::network::Network;

impl Door {
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
        for (name, url) in self.network.iter().map(Network::endpoints).flat_map(|endpoints| endpoints.configured()) {
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
