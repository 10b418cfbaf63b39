//! The gate for a component that nobody runs yet: `check` and `push` judge with the code of `run`.

use anyhow::{Result, ensure};
use ccm_cloud::Descriptor;
use ccm_sandbox::{Component, Pool, Sandbox};

use crate::config::ProviderConfig;
use crate::gate::{self, Haste, Rejected, Step, Unpacked, WAY_OUT};

/// A component of a file that passed the gate as far as it depends on nothing but itself.
pub struct Checked {
    /// Ready to be configured.
    pub component: Component,
    /// Its bytes, digest and signature.
    pub unpacked: Unpacked,
    /// As it lies in the file.
    pub packed: Vec<u8>,
}

/// The gate as far as it needs no configuration.
///
/// # Errors
///
/// The step, and why.
pub async fn component(config: &ProviderConfig) -> Result<Checked, Rejected> {
    let sandbox = sandbox(config)?;
    let source = config.source.fetch(None, config.limits.source_bytes).await?;
    let packed = source.bytes.clone();
    let unpacked = gate::unpacked(config, source).await?;
    let component = gate::load(&sandbox, config, &unpacked, Haste::Waiting).await?;
    let exports = &component.outline().exports;
    gate::identity(config, component.descriptor(), exports, None, |_| None)
        .map_err(|error| Rejected::at(Step::Identity, error))?;
    Ok(Checked { component, unpacked, packed })
}

/// What runs components of this configuration.
///
/// # Errors
///
/// The machine cannot.
pub(crate) fn sandbox(config: &ProviderConfig) -> Result<Sandbox, Rejected> {
    let sandbox = Sandbox::with_pool(Pool::default().with_room_for(&config.limits.sandbox));
    sandbox.map_err(|error| Rejected::at(Step::Compile, error.into()))
}

/// Whether a component that passed the gate goes where it should: another provider than the one that lies there is almost surely
/// a mistake. No more is asked, for what lies there may never have served, or failed its probation: who serves, and what depends
/// on it, is known to the host alone. What cannot be loaded or identified is not compared.
///
/// # Errors
///
/// The step, and why.
pub async fn aimed(config: &ProviderConfig, new: &Component, there: Unpacked) -> Result<(), Rejected> {
    if config.allow_provider_change {
        return Ok(());
    }
    let Ok(there) = gate::load(&sandbox(config)?, config, &there, Haste::Waiting).await else { return Ok(()) };
    is_same_provider(new.descriptor(), there.descriptor()).map_err(|error| Rejected::at(Step::Identity, error))
}

/// What a provider stays through all its versions: its name, and the scheme of the provider IDs that it writes.
fn is_same_provider(new: &Descriptor, there: &Descriptor) -> Result<()> {
    ensure!(new.name == there.name, "it calls itself {:?}, and {:?} lies there now; {WAY_OUT}", new.name, there.name);
    let (wanted, found) = (new.provider_id_schemes.first(), there.provider_id_schemes.first());
    let scheme = |scheme: Option<&String>| scheme.map_or("nothing", String::as_str).to_owned();
    ensure!(
        wanted == found,
        "it writes provider IDs that begin with {}, the one that lies there now with {}; {WAY_OUT}",
        scheme(wanted),
        scheme(found),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_or_scheme_than_lies_there_is_a_mistake_and_less_of_anything_else_is_none() {
        let descriptor = |name: &str, schemes: &[&str]| Descriptor {
            name: name.to_owned(),
            version: "1".to_owned(),
            provider_id_schemes: schemes.iter().map(|&scheme| scheme.to_owned()).collect(),
            ..Descriptor::default()
        };
        let there = descriptor("cloud", &["cloud", "older"]);
        for schemes in [&["cloud", "older"][..], &["cloud"], &["cloud", "new"]] {
            assert!(is_same_provider(&descriptor("cloud", schemes), &there).is_ok(), "{schemes:?}");
        }
        let cases = [
            ("other", &["cloud"][..], r#"it calls itself "other", and "cloud" lies there now"#),
            ("cloud", &["older", "cloud"], "begin with older, the one that lies there now with cloud"),
            ("cloud", &[], "begin with nothing, the one that lies there now with cloud"),
        ];
        for (name, schemes, part) in cases {
            let error = is_same_provider(&descriptor(name, schemes), &there).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.ends_with("if that is right, use --allow-provider-change"), "{error}");
        }
    }
}
