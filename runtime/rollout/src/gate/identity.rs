//! The step `identity`: whether a component is the one that the operator asked for, and can stand in for the last good one.

use anyhow::{Result, anyhow, ensure};
use ccm_cloud::{Capability, Descriptor};
use ccm_egress::line;
use ccm_sandbox::Provider;

use crate::config::ProviderConfig;
use crate::trust::Signed;

/// How an operator lets a component be another one than that before.
pub const WAY_OUT: &str = "if that is right, use --allow-provider-change";

/// Most bytes that are told of what a component declares.
const MAX_TOLD: usize = 1024;

/// The one in whose place a component is put.
pub struct Before<'a> {
    pub(super) descriptor: &'a Descriptor,
    pub(super) offers: Vec<Capability>,
}

/// Optional interfaces that objects can depend on.
const OPTIONAL: [(Capability, &str); 3] =
    [(Capability::LoadBalancers, "load-balancers"), (Capability::Routes, "routes"), (Capability::Cluster, "cluster")];

impl<'a> From<&'a Provider> for Before<'a> {
    fn from(provider: &'a Provider) -> Self {
        Self { descriptor: provider.declared(), offers: offered(provider) }
    }
}

/// Which optional interfaces work, as a provider said last.
pub(crate) fn offered(provider: &Provider) -> Vec<Capability> {
    OPTIONAL.into_iter().map(|(capability, _)| capability).filter(|one| provider.has(*one)).collect()
}

impl<'a> Before<'a> {
    /// One that was kept and does not serve now: nobody knows what it offers.
    pub(crate) const fn kept(descriptor: &'a Descriptor) -> Self {
        Self { descriptor, offers: vec![] }
    }
}

fn is_exported(exports: &[String], interface: &str) -> bool {
    exports.iter().any(|name| name.split(['/', '@']).nth(1) == Some(interface))
}

/// Whether a component is the one that the operator asked for, and can stand in for the last good one.
///
/// # Errors
///
/// What differs, and the flag that allows it.
pub fn identity(
    config: &ProviderConfig,
    new: &Descriptor,
    exports: &[String],
    before: Option<Before<'_>>,
    depends: impl Fn(Capability) -> Option<String>,
) -> Result<()> {
    if let Some(wanted) = config.component.as_ref().or(config.name.as_ref()).filter(|wanted| **wanted != new.name) {
        return Err(anyhow!(
            "it calls itself {:?}, the operator asks for {wanted:?} (--cloud-provider, or component or name in the list of providers); change one of the two",
            new.name
        ));
    }
    let has_scheme =
        |prefix: &&String| new.provider_id_schemes.iter().any(|own| prefix.starts_with(&format!("{own}://")));
    if let Some(prefix) = config.provider_id_prefixes.iter().find(|prefix| !has_scheme(prefix)) {
        return Err(anyhow!(
            "the operator leaves it provider IDs that begin with {prefix} (providerIdPrefixes), and its own begin with {}; change one of the two",
            told(&new.provider_ids())
        ));
    }
    let Some(before) = before else { return Ok(()) };
    let old = before.descriptor;
    if config.allow_provider_change {
        return Ok(());
    }
    ensure!(new.name == old.name, "it calls itself {:?}, and {:?} serves; {WAY_OUT}", new.name, old.name);
    ensure!(
        new.provider_id_schemes.first() == old.provider_id_schemes.first()
            && old.provider_id_schemes.iter().all(|scheme| new.provider_id_schemes.contains(scheme)),
        "its provider IDs begin with {}, those of the one that serves with {}: no provider would manage the existing Nodes; {WAY_OUT}",
        told(&new.provider_id_schemes),
        told(&old.provider_id_schemes),
    );
    if let Some((interface, object)) = missed(&before, |_, interface| is_exported(exports, interface), depends) {
        return Err(anyhow!("it does not export {interface}, and {object} depends on it; {WAY_OUT}"));
    }
    dropped_secrets(old, new)
}

/// Refuses a component that is another one than the key said.
///
/// # Errors
///
/// Both names.
pub(crate) fn signed_as(signed: Option<&Signed>, new: &Descriptor) -> Result<()> {
    match signed {
        Some(signed) if signed.name != new.name => Err(anyhow!(
            "it calls itself {:?}, and its signature is for {:?}; sign a statement with the name that it has",
            new.name,
            signed.name
        )),
        _ => Ok(()),
    }
}

/// Whether a component offers, with this configuration, what objects depend on: to export it is not enough.
///
/// # Errors
///
/// The interface and one of the objects, and the flag that allows it.
pub fn offers(
    config: &ProviderConfig,
    offers: &[Capability],
    before: Option<Before<'_>>,
    depends: impl Fn(Capability) -> Option<String>,
) -> Result<()> {
    let Some(before) = before.filter(|_| !config.allow_provider_change) else { return Ok(()) };
    match missed(&before, |capability, _| offers.contains(&capability), depends) {
        Some((interface, object)) => Err(anyhow!(
            "it does not offer {interface} with this configuration, and {object} depends on it; mend the configuration, or {WAY_OUT}"
        )),
        None => Ok(()),
    }
}

/// An interface that the last good one has, the new one has not, and an object needs.
fn missed(
    before: &Before<'_>,
    has: impl Fn(Capability, &str) -> bool,
    depends: impl Fn(Capability) -> Option<String>,
) -> Option<(&'static str, String)> {
    let mut lost = OPTIONAL
        .into_iter()
        .filter(|(capability, interface)| before.offers.contains(capability) && !has(*capability, interface));
    lost.find_map(|(capability, interface)| Some((interface, depends(capability)?)))
}

/// What a component declares, as far as people read it: it may be thousands.
fn told(declared: &[String]) -> String {
    line(&declared.join(", "), MAX_TOLD)
}

/// Keys that were secret stay so: what is in the cloud-config has not changed with the component.
fn dropped_secrets(old: &Descriptor, new: &Descriptor) -> Result<()> {
    let keys = |descriptor: &Descriptor| {
        let values = descriptor.credentials.iter().map(|credential| &credential.value);
        values.flat_map(|value| value.keys.iter().chain(&value.environment_variables)).cloned().collect::<Vec<_>>()
    };
    let kept = keys(new);
    let dropped: Vec<String> = keys(old).into_iter().filter(|key| !kept.contains(key)).collect();
    ensure!(dropped.is_empty(), "it no longer says that {} are secret; {WAY_OUT}", told(&dropped));
    Ok(())
}
