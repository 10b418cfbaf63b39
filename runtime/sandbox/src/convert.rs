//! Between the words of the contract and those of `ccm-cloud`.

use std::time::Duration;

use ccm_cloud::{
    Address, AddressKind, Annotation, Attributes, Capability, ConfigFile, ConfigFormat, Credential, CredentialUse,
    Descriptor, Endpoint, Failure, Finding, Instance, InstanceState, Need, Node, Place, Problem, Reaction, Setting,
    Source, TlsSources, ValueKind,
};
use ccm_egress::log::line;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{instances, meta};

/// Most bytes of a message, most bytes of a field's name, and most problems that are taken from a provider: they go to logs,
/// Events and pages.
const MAX_MESSAGE: usize = 1024;
const MAX_FIELD: usize = 256;
const MAX_PROBLEMS: usize = 50;

/// Annotation that every provider gets: the kubelet's own choice of addresses.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// A node with only those annotations that the provider declared.
pub(crate) fn node(node: Node, declared: &[Annotation]) -> types::Node {
    let Node { name, uid, provider_id, system_uuid, addresses, labels, annotations, capacity, taints } = node;
    let annotations = annotations
        .into_iter()
        .filter(|(name, _)| name == PROVIDED_NODE_IP || declared.iter().any(|annotation| annotation.covers(name)))
        .collect();
    types::Node {
        name,
        uid,
        provider_id,
        system_uuid,
        addresses: addresses.into_iter().map(to_address).collect(),
        labels: labels.into_iter().collect(),
        annotations,
        capacity: capacity.into_iter().collect(),
        taints,
        more: vec![],
    }
}

fn to_address(address: Address) -> types::Address {
    let kind = match address.kind {
        AddressKind::InternalIp => types::AddressType::InternalIp,
        AddressKind::ExternalIp => types::AddressType::ExternalIp,
        AddressKind::Hostname => types::AddressType::Hostname,
        AddressKind::InternalDns => types::AddressType::InternalDns,
        AddressKind::ExternalDns => types::AddressType::ExternalDns,
    };
    types::Address { kind, value: address.value }
}

fn from_address(address: types::Address) -> Address {
    let kind = match address.kind {
        types::AddressType::InternalIp => AddressKind::InternalIp,
        types::AddressType::ExternalIp => AddressKind::ExternalIp,
        types::AddressType::Hostname => AddressKind::Hostname,
        types::AddressType::InternalDns => AddressKind::InternalDns,
        types::AddressType::ExternalDns => AddressKind::ExternalDns,
    };
    Address { kind, value: address.value }
}

pub(crate) const fn need(need: Need) -> instances::Need {
    match need {
        Need::Metadata | Need::Refresh => instances::Need::Metadata,
        Need::Existence => instances::Need::Existence,
        Need::Proof => instances::Need::Proof,
    }
}

pub(crate) fn finding(finding: instances::Finding) -> Finding {
    match finding {
        instances::Finding::Found(found) => Finding::Found(Box::new(instance(found))),
        instances::Finding::Absent => Finding::Absent,
        instances::Finding::Unknown(why) => Finding::Unknown(failure(why)),
    }
}

fn instance(instance: instances::Instance) -> Instance {
    let instances::Instance { provider_id, instance_type, addresses, zone, region, labels, state, more: _ } = instance;
    Instance {
        provider_id,
        instance_type,
        addresses: addresses.into_iter().map(from_address).collect(),
        zone,
        region,
        labels: labels.into_iter().collect(),
        state: match state {
            instances::State::Running => InstanceState::Running,
            instances::State::Stopped => InstanceState::Stopped,
            instances::State::Other => InstanceState::Other,
        },
    }
}

pub(crate) fn failure(failure: types::Failure) -> Failure {
    let reaction = match failure.reaction {
        types::Reaction::Retry => Reaction::Retry,
        types::Reaction::Throttled => Reaction::Throttled,
        types::Reaction::Pending => Reaction::Pending,
        types::Reaction::Unauthorized => Reaction::Unauthorized,
        types::Reaction::Invalid => Reaction::Invalid,
        types::Reaction::Conflict => Reaction::Conflict,
        types::Reaction::Quota => Reaction::Quota,
        types::Reaction::Unsupported => Reaction::Unsupported,
        types::Reaction::Elsewhere => Reaction::Elsewhere,
    };
    Failure {
        reaction,
        message: line(&failure.message, MAX_MESSAGE),
        retry_after: failure.retry_after_ms.map(|ms| Duration::from_millis(u64::from(ms))),
        field: failure.field.map(|field| line(&field, MAX_FIELD)),
    }
}

/// At most [`MAX_PROBLEMS`], fatal ones first.
pub(crate) fn problems(mut problems: Vec<types::Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| !problem.fatal);
    problems.truncate(MAX_PROBLEMS);
    let problem = |problem: types::Problem| Problem {
        field: line(&problem.field, MAX_FIELD),
        message: line(&problem.message, MAX_MESSAGE),
        fatal: problem.fatal,
    };
    problems.into_iter().map(problem).collect()
}

pub(crate) const fn capability(capability: meta::Capability) -> Capability {
    match capability {
        meta::Capability::LoadBalancers => Capability::LoadBalancers,
        meta::Capability::Routes => Capability::Routes,
        meta::Capability::Cluster => Capability::Cluster,
    }
}

/// What a component says of itself reaches logs and terminals: one line, bounded, without control characters.
fn text(text: String) -> String {
    let shown = line(&text, MAX_MESSAGE);
    if shown == text { text } else { shown }
}

fn texts(texts: Vec<String>) -> Vec<String> {
    texts.into_iter().map(text).collect()
}

pub(crate) fn descriptor(descriptor: meta::Descriptor) -> Descriptor {
    Descriptor {
        name: text(descriptor.name),
        version: text(descriptor.version),
        revision: text(descriptor.revision),
        provider_id_schemes: texts(descriptor.provider_id_schemes),
        files: descriptor.files.into_iter().map(config_file).collect(),
        endpoints: descriptor.endpoints.into_iter().map(endpoint).collect(),
        credentials: descriptor.credentials.into_iter().map(credential).collect(),
        settings: descriptor.settings.into_iter().map(setting).collect(),
        annotations: descriptor.annotations.into_iter().map(annotation).collect(),
        more: descriptor.more.into_iter().collect::<Attributes>(),
    }
}

fn config_file(file: meta::ConfigFile) -> ConfigFile {
    ConfigFile {
        name: text(file.name),
        format: match file.format {
            meta::ConfigFormat::Ini => ConfigFormat::Ini,
            meta::ConfigFormat::Json => ConfigFormat::Json,
            meta::ConfigFormat::Yaml => ConfigFormat::Yaml,
        },
        path_keys: texts(file.path_keys),
        default_paths: texts(file.default_paths),
    }
}

fn source(source: meta::Source) -> Source {
    Source { keys: texts(source.keys), environment_variables: texts(source.environment_variables) }
}

fn endpoint(endpoint: meta::Endpoint) -> Endpoint {
    let tls = |tls: meta::TlsSources| TlsSources {
        ca_file: source(tls.ca_file),
        client_certificate: source(tls.client_certificate),
        client_key: source(tls.client_key),
        skip_verification: source(tls.skip_verification),
    };
    Endpoint {
        name: text(endpoint.name),
        purpose: text(endpoint.purpose),
        base_url: source(endpoint.base_url),
        default_base_url: endpoint.default_base_url.map(text),
        tls: endpoint.tls.map(tls),
    }
}

fn credential(credential: meta::Credential) -> Credential {
    let credential_use = |used: meta::CredentialUse| CredentialUse {
        endpoint: text(used.endpoint),
        place: match used.place {
            meta::Place::Header(name) => Place::Header(text(name)),
            meta::Place::Query(name) => Place::Query(text(name)),
            meta::Place::Body => Place::Body,
            meta::Place::Signing => Place::Signing,
        },
        path: used.path.map(text),
    };
    Credential {
        name: text(credential.name),
        purpose: text(credential.purpose),
        required: credential.required,
        value: source(credential.value),
        uses: credential.uses.into_iter().map(credential_use).collect(),
    }
}

const fn value_kind(kind: meta::ValueKind) -> ValueKind {
    match kind {
        meta::ValueKind::Text => ValueKind::Text,
        meta::ValueKind::Boolean => ValueKind::Boolean,
        meta::ValueKind::Integer => ValueKind::Integer,
        meta::ValueKind::Duration => ValueKind::Duration,
        meta::ValueKind::PortList => ValueKind::PortList,
        meta::ValueKind::CidrList => ValueKind::CidrList,
        meta::ValueKind::Json => ValueKind::Json,
    }
}

fn setting(setting: meta::Setting) -> Setting {
    Setting {
        name: text(setting.name),
        purpose: text(setting.purpose),
        kind: value_kind(setting.kind),
        default: setting.default.map(text),
        allowed: texts(setting.allowed),
        value: source(setting.value),
    }
}

fn annotation(annotation: meta::Annotation) -> Annotation {
    Annotation {
        name: text(annotation.name),
        purpose: text(annotation.purpose),
        kind: value_kind(annotation.kind),
        default: annotation.default.map(text),
        allowed: texts(annotation.allowed),
        written: annotation.written,
    }
}
