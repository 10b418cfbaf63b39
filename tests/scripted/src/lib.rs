//! A provider that does what an annotation of its Node or Service says: requests, bindings, questions about credentials. What
//! came of each step of a Node stands on the instance as a label, as JSON; `balancers` tells where that of a Service stands.
//!
//! Tests drive the host's imports with it through the contract, from inside a sandbox. Nodes without a script are found; with the
//! script `HEAD PATH` they are absent when the cloud answers 404 to that.

mod balancers;
mod script;

use ccm_sdk::instances::{self, Finding, Instance, Need, State};
use ccm_sdk::meta::{
    self, Annotation, AnnotationRole, Capability, ConfigFile, ConfigFormat, Credential, CredentialUse, Descriptor,
    Endpoint, Place, Setting, Source, TlsSources, ValueKind,
};
use ccm_sdk::types::{Attributes, Failure, Node, Problem, Reaction};

/// The annotation with the script.
const SCRIPT: &str = "scripted.example/script";
/// Annotations that it may write.
const WRITTEN: &str = "scripted.example/written-*";
/// Path of the login whose body may hold the password.
const LOGIN: &str = "/v3/auth/tokens";
/// Path of the calls that are signed as CloudStack's are.
const SIGNED: &str = "/client/api";

struct Scripted;

ccm_sdk::export!(Scripted: meta, instances, load_balancers, load_balancer_survey, load_balancer_orphan, cluster);

impl meta::Guest for Scripted {
    fn describe() -> Descriptor {
        Descriptor {
            name: "scripted".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: "1".to_owned(),
            provider_id_schemes: vec!["scripted".to_owned()],
            files: vec![
                file("cloud-config", ConfigFormat::Ini, vec![]),
                file("more", ConfigFormat::Yaml, vec!["cloud-config:Global.more-file".to_owned()]),
            ],
            endpoints: vec![
                endpoint("api", Some("https://api.scripted.example")),
                endpoint("identity", None),
                endpoint("found", None),
            ],
            credentials: vec![
                credential("token", vec![used("api", Place::Header("authorization".to_owned()), None)]),
                credential("password", vec![used("identity", Place::Body, Some(LOGIN))]),
                credential(
                    "session",
                    ["api", "identity", "found"]
                        .map(|e| used(e, Place::Header("x-auth-token".to_owned()), None))
                        .to_vec(),
                ),
                credential(
                    "api-key",
                    vec![used("api", Place::Query("apiKey".to_owned()), None), used("api", Place::Body, Some(SIGNED))],
                ),
                credential(
                    "secret-key",
                    vec![
                        used("api", Place::Signing, None),
                        used("api", Place::Query("signature".to_owned()), None),
                        used("api", Place::Body, Some(SIGNED)),
                    ],
                ),
                credential(
                    "key",
                    vec![
                        used("api", Place::Signing, None),
                        used("api", Place::Header("authorization".to_owned()), None),
                    ],
                ),
            ],
            settings: vec![Setting {
                name: "mood".to_owned(),
                purpose: "Shows where settings come from.".to_owned(),
                kind: ValueKind::Text,
                default_value: Some("grim".to_owned()),
                allowed: vec![],
                value: source("mood", "SCRIPTED_MOOD"),
            }],
            annotations: vec![
                annotation(SCRIPT, "What to do.", ValueKind::Json, AnnotationRole::Asked),
                annotation(WRITTEN, "What a script writes.", ValueKind::Text, AnnotationRole::Both),
            ],
            budgets: vec![],
            more: vec![("dry-run".to_owned(), "judge_only".to_owned())],
        }
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(vec![Capability::LoadBalancers, Capability::Cluster])
    }

    fn check(_online: bool) -> Result<Vec<Problem>, Failure> {
        Ok(vec![])
    }
}

fn annotation(name: &str, purpose: &str, kind: ValueKind, role: AnnotationRole) -> Annotation {
    Annotation { name: name.to_owned(), purpose: purpose.to_owned(), kind, default_value: None, allowed: vec![], role }
}

fn source(key: &str, variable: &str) -> Source {
    Source { keys: vec![format!("cloud-config:Global.{key}")], environment_variables: vec![variable.to_owned()] }
}

fn file(name: &str, format: ConfigFormat, path_keys: Vec<String>) -> ConfigFile {
    ConfigFile { name: name.to_owned(), format, path_keys, default_paths: vec![] }
}

fn endpoint(name: &str, default: Option<&str>) -> Endpoint {
    let upper = name.to_ascii_uppercase();
    let of = |what: &str| source(&format!("{name}-{what}"), &format!("SCRIPTED_{upper}_{}", what.to_ascii_uppercase()));
    Endpoint {
        name: name.to_owned(),
        purpose: "Takes requests.".to_owned(),
        base_url: of("url"),
        default_base_url: default.map(Into::into),
        tls: Some(TlsSources {
            ca_file: of("ca-file"),
            client_certificate: of("cert-file"),
            client_key: of("key-file"),
            ca_certificates: of("ca"),
            verify: of("verify"),
            skip_verification: of("insecure"),
        }),
    }
}

fn credential(name: &str, uses: Vec<CredentialUse>) -> Credential {
    let variable = format!("SCRIPTED_{}", name.to_ascii_uppercase().replace('-', "_"));
    Credential {
        name: name.to_owned(),
        purpose: "Is hidden.".to_owned(),
        required: false,
        value: source(name, &variable),
        uses,
    }
}

fn used(endpoint: &str, place: Place, path: Option<&str>) -> CredentialUse {
    CredentialUse { endpoint: endpoint.to_owned(), place, path: path.map(Into::into) }
}

impl instances::Guest for Scripted {
    fn find(nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, Failure> {
        // What a step says is of this Node alone; who cannot be understood ends the call.
        let unknown = |failure: Failure| match failure.reaction {
            Reaction::Invalid => Err(failure),
            _ => Ok(Finding::Unknown(failure)),
        };
        nodes.iter().map(|node| find(node).or_else(unknown)).collect()
    }
}

fn find(node: &Node) -> Result<Finding, Failure> {
    let script = node.annotations.iter().find(|(name, _)| name == SCRIPT);
    if let Some(path) = script.and_then(|(_, script)| script.strip_prefix("HEAD ")) {
        let machine = script::is_there(path)?;
        return if machine { Ok(found(node, vec![])) } else { Ok(Finding::Absent) };
    }
    let labels = script.map_or_else(|| Ok(vec![]), |(_, script)| script::run(script))?;
    Ok(found(node, labels))
}

fn found(node: &Node, labels: Attributes) -> Finding {
    Finding::Found(Instance {
        provider_id: format!("scripted://{}", node.name),
        instance_type: String::new(),
        addresses: vec![],
        zone: String::new(),
        region: String::new(),
        labels,
        state: State::Running,
        more: vec![],
    })
}
