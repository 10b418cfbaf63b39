//! A provider that takes over from another one while the host works, and may be no good at it.
//!
//! What it is called and how it behaves stands in a form in its bytes (`form`), so that one build is many components:
//!
//! | field | what it says | without it |
//! |---|---|---|
//! | `name` | what it calls itself | `cloudlycke` |
//! | `scheme` | schemes of provider IDs, with commas between them | those of `providers/cloudlycke` |
//! | `version`, `revision` | what `describe` says; the version is a label of each Node as well | `1`, `1` |
//! | `behaviour` | see `BEHAVIOURS` | `good` |
//! | `when` | `new`: it behaves so only for Nodes without provider ID and Services without address; `exists`: only when it is asked whether a machine exists; `PREFIX*`: only for Nodes and Services with such a name; and is `good` otherwise | always |
//! | `secret` | a key of the cloud-config that holds a credential | no credential |
//! | `endpoint` | the default URL of an endpoint | no endpoint |

#[cfg(not(feature = "bare"))]
mod balancers;
#[cfg(not(feature = "bare"))]
mod cluster;
mod form;

use std::hint::black_box;
use std::time::Duration;

use ccm_sdk::instances::{self, Finding, Instance, Need, State};
use ccm_sdk::meta::{self, Capability, ConfigFile, ConfigFormat, Credential, Descriptor, Endpoint, Source};
use ccm_sdk::types::{Failure, Node, Problem};

use crate::form::{field, field_or};

/// Of each Node: which version has found it.
const VERSION_LABEL: &str = "successor.io/version";
/// The file of `--cloud-config`.
const FILE: &str = "cloud-config";

/// How it behaves.
///
/// | | machines | load balancers | the cluster as a whole |
/// |---|---|---|---|
/// | `good` | are there, and as their Nodes say | are where they are already, or at an address of their own | is in order |
/// | `trap` | it crashes | it crashes | it crashes |
/// | `loop` | it computes without an end | the same | the same |
/// | `absent` | are not there, whatever is asked | as `good` | as `good` |
/// | `unknown` | cannot be told, try again | as `good` | the same |
/// | `elsewhere` | are another cloud's | as `good` | as `good` |
/// | `throttled` | the cloud asks for a pause | the same | the same |
/// | `refuse` | as `good` | are refused: the Service is invalid | so is each Service |
/// | `too-few` | an answer is missing | are done and nowhere | as `good` |
/// | `complains` | as `good`, and its configuration is wrong | as `good` | as `good` |
/// | `cannot-delete` | as `good` | it crashes when one is to be deleted | as `good` |
/// | `renamed` | as `good` | have another name, and are not found | as `good` |
/// | `mute` | as `good`, and it cannot tell what it offers | as `good` | as `good` |
/// | `describe-traps`, `describe-loops` | it never says who it is | | |
/// | `check-traps`, `check-loops` | it never says whether its configuration is right | | |
///
/// It does not offer to look after the cluster as a whole, so that no host asks for that by itself.
const BEHAVIOURS: [&str; 17] = [
    "good",
    "trap",
    "loop",
    "absent",
    "unknown",
    "elsewhere",
    "throttled",
    "refuse",
    "too-few",
    "complains",
    "cannot-delete",
    "renamed",
    "mute",
    "describe-traps",
    "describe-loops",
    "check-traps",
    "check-loops",
];

struct Successor;

#[cfg(not(feature = "bare"))]
ccm_sdk::export!(Successor: meta, instances, load_balancers, cluster);
#[cfg(feature = "bare")]
ccm_sdk::export!(Successor: meta, instances);

fn behaviour() -> String {
    field_or("behaviour", "good")
}

/// The same for a question that is about nothing `new`, not about whether a machine `exists`, or about none of the names that are meant.
fn behaviour_when<'a>(new: bool, exists: bool, names: impl IntoIterator<Item = &'a str>) -> String {
    let is_so = match field("when").as_deref() {
        Some("new") => new,
        Some("exists") => exists,
        _ => names.into_iter().any(is_meant),
    };
    if is_so { behaviour() } else { "good".to_owned() }
}

/// Whether it behaves in its own way for objects with this name.
fn is_meant(name: &str) -> bool {
    let when = field("when");
    let prefix = when.as_deref().and_then(|when| when.strip_suffix('*'));
    prefix.is_none_or(|prefix| name.starts_with(prefix))
}

fn throttled() -> Failure {
    Failure::throttled("slower, on purpose").after(Duration::from_secs(5))
}

/// Crashes, or computes until it is stopped, when it is told to.
fn misbehave(behaviour: &str) {
    match behaviour {
        "trap" => std::process::abort(),
        "loop" => spin(),
        _ => {}
    }
}

fn spin() -> ! {
    let mut turns: u64 = 0;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

impl meta::Guest for Successor {
    fn describe() -> Descriptor {
        match behaviour().as_str() {
            "describe-traps" => std::process::abort(),
            "describe-loops" => spin(),
            _ => {}
        }
        Descriptor {
            name: field_or("name", "cloudlycke"),
            version: field_or("version", "1"),
            revision: field_or("revision", "1"),
            provider_id_schemes: schemes(),
            files: vec![ConfigFile {
                name: FILE.to_owned(),
                format: ConfigFormat::Yaml,
                path_keys: vec![],
                default_paths: vec![],
            }],
            endpoints: field("endpoint").into_iter().map(endpoint).collect(),
            credentials: field_or("secret", "").split(',').filter(|key| !key.is_empty()).map(credential).collect(),
            settings: vec![],
            annotations: vec![],
            budgets: vec![],
            more: vec![],
        }
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        if behaviour() == "mute" {
            return Err(Failure::retry("what it offers cannot be told on purpose"));
        }
        Ok(if cfg!(feature = "bare") { vec![] } else { vec![Capability::LoadBalancers] })
    }

    fn check(_online: bool) -> Result<Vec<Problem>, Failure> {
        let behaviour = behaviour();
        Ok(match behaviour.as_str() {
            "check-traps" => std::process::abort(),
            "check-loops" => spin(),
            "complains" => vec![Problem::fatal(FILE, "it complains on purpose")],
            known if BEHAVIOURS.contains(&known) => vec![],
            other => vec![Problem::fatal("@form", format!("there is no behaviour {other}"))],
        })
    }
}

fn schemes() -> Vec<String> {
    field_or("scheme", "cloudlycke,kind,k3s,kwok").split(',').map(ToOwned::to_owned).collect()
}

fn endpoint(url: String) -> Endpoint {
    Endpoint {
        name: "api".to_owned(),
        purpose: "Shows that nobody granted it.".to_owned(),
        base_url: Source { keys: vec![], environment_variables: vec![] },
        default_base_url: Some(url),
        tls: None,
    }
}

fn credential(key: &str) -> Credential {
    Credential {
        purpose: "Is hidden.".to_owned(),
        required: false,
        value: Source { keys: vec![format!("{FILE}:{key}")], environment_variables: vec![] },
        uses: vec![],
        name: key.to_owned(),
    }
}

impl instances::Guest for Successor {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        let is_new = nodes.iter().any(|node| node.provider_id.is_none());
        let behaviour =
            behaviour_when(is_new, !matches!(need, Need::Metadata), nodes.iter().map(|node| node.name.as_str()));
        misbehave(&behaviour);
        if behaviour == "throttled" {
            return Err(throttled());
        }
        let finding = |node: &Node| match behaviour.as_str() {
            _ if !is_meant(&node.name) => Finding::Found(instance(node)),
            "absent" => Finding::Absent,
            "elsewhere" => Finding::Unknown(Failure::elsewhere("the machine is another cloud's on purpose")),
            "unknown" => Finding::Unknown(Failure::retry("the machine cannot be told on purpose")),
            _ => Finding::Found(instance(node)),
        };
        let left_out = usize::from(behaviour == "too-few");
        Ok(nodes.iter().skip(left_out).map(finding).collect())
    }
}

fn instance(node: &Node) -> Instance {
    // What a Node has already cannot be changed, or came from the one before.
    let named = || format!("{}://{}", schemes().first().map_or("", String::as_str), node.name);
    let is_known = node.provider_id.is_some();
    let label = |name: &str| {
        let label = node.labels.iter().find(|(known, _)| known == name).filter(|_| is_known);
        label.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    Instance {
        provider_id: node.provider_id.clone().unwrap_or_else(named),
        instance_type: label("node.kubernetes.io/instance-type"),
        addresses: if is_known { node.addresses.clone() } else { vec![] },
        zone: label("topology.kubernetes.io/zone"),
        region: label("topology.kubernetes.io/region"),
        labels: vec![(VERSION_LABEL.to_owned(), field_or("version", "1"))],
        state: State::Running,
        more: vec![],
    }
}
