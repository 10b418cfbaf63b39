//! Annotations of Services: those by which people ask for something, and those that a provider writes.

use std::collections::BTreeMap;

use ccm_cloud::Descriptor;
use k8s_openapi::api::core::v1::Service;

use super::digest::Digest;

/// What begins so is ours, and no provider's.
const OURS: &str = "wasm-ccm.io/";
/// "Once more, please", with any value: the load balancer is ensured although nothing has changed. That value is taken away when it
/// is done; another one, which came meanwhile, asks for more.
pub(crate) const ENSURE: &str = "wasm-ccm.io/ensure";
/// The name of a provider: its load balancer is left as it is and belongs to this Service no more, as long as this stands here.
pub const ORPHAN: &str = "wasm-ccm.io/orphan";
/// Where an older release kept its record. Anybody may write there, so nothing is believed of it, and it is taken away.
pub(crate) const RECORD_OF_BEFORE: &str = "wasm-ccm.io/ensured";

pub(crate) fn annotation<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    service.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The one that goes when a load balancer was ensured, whatever it says.
pub(crate) fn done(service: &Service) -> Option<String> {
    annotation(service, RECORD_OF_BEFORE).map(|_| RECORD_OF_BEFORE.to_owned())
}

/// Those that go when a Service has no load balancer any more, beside the provider's.
pub(crate) fn goes_with_the_load_balancer(name: &str) -> bool {
    matches!(name, ENSURE | RECORD_OF_BEFORE)
}

/// Whether an annotation is part of what a Service asks its provider for. What only the provider writes is not: a job number of the
/// cloud would make each update an ensure.
pub(crate) fn is_asked(descriptor: &Descriptor, name: &str) -> bool {
    let mut declared = descriptor.annotations.iter().filter(|known| known.covers(name)).peekable();
    !name.starts_with(OURS) && declared.peek().is_some() && declared.all(|known| known.is_asked())
}

/// Whether a provider may write an annotation.
pub(crate) fn is_written(descriptor: &Descriptor, name: &str) -> bool {
    !name.starts_with(OURS) && descriptor.annotations.iter().any(|known| known.is_written() && known.covers(name))
}

/// What the provider has written, or somebody in its place.
pub(crate) fn written<'a>(service: &'a Service, descriptor: &Descriptor) -> BTreeMap<&'a str, &'a str> {
    let all = service.metadata.annotations.iter().flatten();
    all.filter(|(name, _)| is_written(descriptor, name)).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The same after these `changes`, of which one without a value removes.
pub(crate) fn written_after(
    service: &Service,
    descriptor: &Descriptor,
    changes: &BTreeMap<String, Option<String>>,
) -> Digest {
    let mut written = written(service, descriptor);
    for (name, value) in changes.iter().filter(|(name, _)| is_written(descriptor, name)) {
        match value {
            Some(value) => drop(written.insert(name, value)),
            None => drop(written.remove(name.as_str())),
        }
    }
    Digest::of(&written)
}

/// Sets a value, or removes it.
pub(crate) fn set(annotations: &mut ccm_cloud::Attributes, name: String, value: Option<String>) {
    match value {
        Some(value) => drop(annotations.insert(name, value)),
        None => drop(annotations.remove(&name)),
    }
}
