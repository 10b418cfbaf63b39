//! A provider that attacks the host it runs in.
//!
//! `instances.find` does what the name of the first Node says: attacks (`attack`, `machines`), questions about what the host lets a
//! component see (`probe`), and, in a build for `wasm32-wasip2`, questions to WASI (`wasi`). What was seen comes back as
//! labels of the instance. A Node of any other name gets a well-behaved answer, so that one component shows both that an
//! attack is survived and that calls after it work. With a Service it is the same (`balancers`).

mod attack;
mod balancers;
mod machines;
mod probe;
mod wasi;

use ccm_sdk::instances::{self, Finding, Instance, Need, State};
use ccm_sdk::meta::{
    self, Annotation, AnnotationRole, Capability, ConfigFile, ConfigFormat, Descriptor, Setting, Source, ValueKind,
};
use ccm_sdk::types::{Attributes, Failure, Node, Problem};

struct Hostile;

ccm_sdk::export!(Hostile: meta, instances, load_balancers, load_balancer_survey, cluster);

impl meta::Guest for Hostile {
    fn describe() -> Descriptor {
        Descriptor {
            name: "hostile".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: "1".to_owned(),
            provider_id_schemes: vec!["hostile".to_owned()],
            files: vec![ConfigFile {
                name: probe::FILE.to_owned(),
                format: ConfigFormat::Yaml,
                path_keys: vec![],
                default_paths: vec![],
            }],
            endpoints: vec![],
            credentials: vec![],
            settings: vec![Setting {
                name: probe::SETTING.to_owned(),
                purpose: "Shows which settings a component sees.".to_owned(),
                kind: ValueKind::Text,
                default_value: Some("grim".to_owned()),
                allowed: vec![],
                value: Source {
                    keys: vec!["cloud-config:mood".to_owned()],
                    environment_variables: vec!["HOSTILE_MOOD".to_owned()],
                },
            }],
            annotations: vec![
                annotation("hostile.example/*", "Shows which annotations a component sees.", AnnotationRole::Asked),
                annotation(
                    "hostile.example/written-*",
                    "Shows which annotations a component may write.",
                    AnnotationRole::Both,
                ),
            ],
            budgets: vec![],
            more: vec![],
        }
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(match ccm_sdk::settings::get(probe::SETTING).as_deref() {
            Some("lying") => vec![Capability::Routes],
            Some("balancing") => vec![Capability::LoadBalancers],
            _ => vec![],
        })
    }

    fn check(_online: bool) -> Result<Vec<Problem>, Failure> {
        let complains = ccm_sdk::settings::get(probe::SETTING).as_deref() == Some("complaining");
        Ok(if complains { attack::problems() } else { vec![] })
    }
}

fn annotation(name: &str, purpose: &str, role: AnnotationRole) -> Annotation {
    Annotation {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        kind: ValueKind::Text,
        default_value: None,
        allowed: vec![],
        role,
    }
}

impl instances::Guest for Hostile {
    fn find(nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, Failure> {
        let behaviour = nodes.first().map_or("", |node| node.name.as_str());
        Ok(match behaviour {
            "spin" => attack::spin(),
            "grow" => attack::grow(),
            "recurse" => attack::recurse(),
            "panic" => attack::panic(),
            "unreachable" => std::process::abort(),
            "huge-string" => attack::huge_string(&nodes),
            "huge-answer" => attack::huge_answer(),
            "too-few" => well_behaved(&nodes).into_iter().skip(1).collect(),
            "too-many" => [well_behaved(&nodes), vec![Finding::Absent]].concat(),
            "foreign-id" => machines::foreign_id(&nodes),
            "bad-id" => machines::bad_id(&nodes),
            "changed-id" => machines::changed_id(&nodes),
            "doubled-id" => machines::doubled_id(&nodes),
            "many-labels" => machines::many_labels(&nodes),
            "huge-list" => machines::huge_list(&nodes),
            "bad-label" => machines::bad_label(&nodes),
            "bad-value" => machines::bad_value(&nodes),
            "foreign-label" => machines::foreign_label(&nodes),
            "bad-zone" => machines::bad_zone(&nodes),
            "bad-address" => machines::bad_address(&nodes),
            "cache-flood" => attack::cache_flood(&nodes),
            "cache-hoard" => attack::cache_hoard(&nodes),
            "cache-hoard-read" => labelled(&nodes, probe::hoard()),
            "send-all" => attack::send_all(&nodes),
            "request-flood" => attack::request_flood(&nodes),
            "chatty" => attack::chatty(),
            "log-flood" => attack::log_flood(&nodes),
            "event-flood" => attack::event_flood(&nodes),
            "settings" => labelled(&nodes, probe::settings()),
            "http" => labelled(&nodes, probe::http()),
            "annotations" => labelled(&nodes, probe::annotations(&nodes)),
            "clock" => labelled(&nodes, probe::clock()),
            "cache" => labelled(&nodes, probe::cache()),
            "cache-read" => labelled(&nodes, probe::cache_read()),
            "wasi-env" | "wasi-fs" | "wasi-net" | "wasi-stdout" | "wasi-sleep" => {
                labelled(&nodes, wasi::ask(behaviour)?)
            }
            _ => well_behaved(&nodes),
        })
    }
}

fn well_behaved(nodes: &[Node]) -> Vec<Finding> {
    nodes.iter().map(|node| found(&node.name, vec![])).collect()
}

/// What was seen stands on the first Node.
fn labelled(nodes: &[Node], labels: Attributes) -> Vec<Finding> {
    let mut findings = well_behaved(nodes);
    if let (Some(finding), Some(node)) = (findings.first_mut(), nodes.first()) {
        *finding = found(&node.name, labels);
    }
    findings
}

fn found(name: &str, labels: Attributes) -> Finding {
    Finding::Found(Instance {
        provider_id: format!("hostile://{name}"),
        instance_type: String::new(),
        addresses: vec![],
        zone: String::new(),
        region: String::new(),
        labels,
        state: State::Running,
        more: vec![],
    })
}

/// A label that tells what was seen.
fn label(name: &str, value: impl Into<String>) -> (String, String) {
    (format!("hostile.example/{name}"), value.into())
}
