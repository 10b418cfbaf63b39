//! What a component says of itself.

use std::num::NonZeroU32;

use ccm_cloud::{
    Annotation, AnnotationRole, Attributes, Budget, ConfigFile, ConfigFormat, Credential, CredentialUse, Descriptor,
    Endpoint, Place, Setting, SharedAddresses, Source, TlsSources, ValueKind,
};
use ccm_egress::line;

use super::{MAX_MESSAGE, Read};
use crate::bindings::exports::ccm::cloud::meta;

/// What a component says of itself reaches logs and terminals: one line, bounded, without control characters.
fn text(text: String) -> String {
    let shown = line(&text, MAX_MESSAGE);
    if shown == text { text } else { shown }
}

fn texts(texts: Vec<String>) -> Vec<String> {
    texts.into_iter().map(text).collect()
}

pub(crate) fn descriptor(descriptor: meta::Descriptor) -> Read<Descriptor> {
    check_budgets(&descriptor)?;
    Ok(Descriptor {
        name: text(descriptor.name),
        version: text(descriptor.version),
        revision: text(descriptor.revision),
        provider_id_schemes: texts(descriptor.provider_id_schemes),
        provider_id_prefixes: vec![],
        files: descriptor.files.into_iter().map(config_file).collect(),
        endpoints: descriptor.endpoints.into_iter().map(endpoint).collect(),
        credentials: descriptor.credentials.into_iter().map(credential).collect(),
        settings: descriptor.settings.into_iter().map(setting).collect(),
        annotations: descriptor.annotations.into_iter().map(annotation).collect(),
        budgets: descriptor.budgets.into_iter().map(budget).collect(),
        shared_addresses: SharedAddresses::default(),
        more: descriptor.more.into_iter().collect::<Attributes>(),
    })
}

fn budget(budget: meta::Budget) -> Budget {
    // `check_budgets` has seen that none is zero.
    let number = |number: Option<u32>| number.and_then(NonZeroU32::new);
    Budget {
        endpoints: texts(budget.endpoints),
        per_second: number(budget.per_second),
        burst: number(budget.burst),
        per_minute: number(budget.per_minute),
        per_hour: number(budget.per_hour),
    }
}

/// What is wrong with numbers that [`Descriptor`] cannot hold.
fn check_budgets(descriptor: &meta::Descriptor) -> Read<()> {
    let numbers = |budget: &meta::Budget| [budget.per_second, budget.burst, budget.per_minute, budget.per_hour];
    let is_zero = |budget: &&meta::Budget| numbers(budget).contains(&Some(0));
    let Some(wrong) = descriptor.budgets.iter().find(is_zero) else { return Ok(()) };
    let endpoints = line(&wrong.endpoints.join(", "), MAX_MESSAGE);
    Err(format!("its budget of {endpoints} lets no request through (leave out what is not limited)"))
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
        ca_certificates: source(tls.ca_certificates),
        verify: source(tls.verify),
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
        default: setting.default_value.map(text),
        allowed: texts(setting.allowed),
        value: source(setting.value),
    }
}

fn annotation(annotation: meta::Annotation) -> Annotation {
    Annotation {
        name: text(annotation.name),
        purpose: text(annotation.purpose),
        kind: value_kind(annotation.kind),
        default: annotation.default_value.map(text),
        allowed: texts(annotation.allowed),
        role: match annotation.role {
            meta::AnnotationRole::Asked => AnnotationRole::Asked,
            meta::AnnotationRole::Written => AnnotationRole::Written,
            meta::AnnotationRole::Both => AnnotationRole::Both,
        },
    }
}
