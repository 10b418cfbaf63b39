//! Who this provider is.

use ccm_sdk::describe;
use ccm_sdk::meta::{ConfigFile, ConfigFormat, Descriptor};

use crate::{annotations, config, identity};

const VERSION: &str = if cfg!(feature = "next") { "0.2.0" } else { env!("CARGO_PKG_VERSION") };

pub(crate) fn descriptor() -> Descriptor {
    // Spelled out, so that the component does not have what delivers lists that stay empty: 6 KB.
    Descriptor {
        name: identity::SCHEME.to_owned(),
        version: VERSION.to_owned(),
        revision: "1".to_owned(),
        provider_id_schemes: identity::SCHEMES.map(str::to_owned).to_vec(),
        files: vec![ConfigFile {
            name: config::FILE.to_owned(),
            format: ConfigFormat::Yaml,
            path_keys: vec![],
            default_paths: vec![],
        }],
        endpoints: vec![],
        credentials: vec![],
        settings: vec![],
        annotations: describe::annotations(annotations::ALL),
        budgets: vec![],
        // In the mode `nodes`, Services have the addresses of Nodes, and all of them the same.
        more: vec![("shared-addresses".to_owned(), "nodes,services".to_owned())],
    }
}
