//! Who this provider is.

use ccm_sdk::describe;
use ccm_sdk::meta::{ConfigFile, ConfigFormat, Descriptor};

use crate::{annotations, config, identity};

const VERSION: &str = if cfg!(feature = "next") { "0.2.0" } else { env!("CARGO_PKG_VERSION") };

pub(crate) fn descriptor() -> Descriptor {
    Descriptor {
        provider_id_schemes: identity::SCHEMES.map(str::to_owned).to_vec(),
        files: vec![ConfigFile {
            name: config::FILE.to_owned(),
            format: ConfigFormat::Yaml,
            path_keys: vec![],
            default_paths: vec![],
        }],
        annotations: describe::annotations(annotations::ALL),
        ..Descriptor::new(identity::SCHEME, VERSION)
    }
}
