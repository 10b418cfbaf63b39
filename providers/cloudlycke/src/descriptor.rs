//! Who this provider is.

use ccm_sdk::meta::{Annotation, ConfigFile, ConfigFormat, Descriptor, ValueKind};

use crate::annotations::{INSTANCE_TYPE, LB_ADDRESS, LB_DELAY, LB_FAIL, LB_MODE, LB_READY_AT, REGION, STATE, ZONE};
use crate::balancer::Mode;
use crate::{config, identity};

const VERSION: &str = if cfg!(feature = "next") { "0.2.0" } else { env!("CARGO_PKG_VERSION") };

pub(crate) fn descriptor() -> Descriptor {
    Descriptor {
        name: "cloudlycke".to_owned(),
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
        annotations: vec![
            Annotation {
                default: Some(config::State::Running.to_string()),
                allowed: config::State::ALL.iter().map(|&word| word.to_owned()).collect(),
                ..annotation(STATE, "On a Node: the state of its machine in the cloud.")
            },
            annotation(INSTANCE_TYPE, "On a Node: its instance type, a label value."),
            annotation(ZONE, "On a Node: its zone, a label value."),
            annotation(REGION, "On a Node: its region, a label value."),
            annotation(
                LB_FAIL,
                "On a Service: every change of its load balancer except deletion fails with this text.",
            ),
            Annotation {
                kind: ValueKind::Duration,
                ..annotation(LB_DELAY, "On a Service: time until a new load balancer is ready.")
            },
            annotation(LB_ADDRESS, "On a Service: an address of the pool; takes precedence over spec.loadBalancerIP."),
            Annotation {
                allowed: Mode::ALL.iter().map(|&word| word.to_owned()).collect(),
                ..annotation(LB_MODE, "On a Service: where its addresses come from.")
            },
            Annotation {
                kind: ValueKind::Integer,
                written: true,
                ..annotation(LB_READY_AT, "On a Service: when its load balancer is ready, in milliseconds since 1970.")
            },
        ],
        more: vec![],
    }
}

fn annotation(name: &str, purpose: &str) -> Annotation {
    Annotation {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        kind: ValueKind::Text,
        default: None,
        allowed: vec![],
        written: false,
    }
}
