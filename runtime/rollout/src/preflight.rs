//! The gate for a component that nobody runs yet: `check`, `push`, `doctor` and `annotations` judge with the
//! steps of `run`, in the same order.
//!
//! [`component`] goes as far as nothing but the component is needed: from `source` to `identity`. [`configured`] goes on with `grants` and `check`.
//! There is no `compare`: [`preview`](mod@crate::preview) does that.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{Alone, Descriptor};
use ccm_egress::Egress;
pub use ccm_egress::{Barrier, Blocked, Way};
use ccm_sandbox::{Component, Pool, Provider, Sandbox};
use futures::future::join_all;
use kube::Client;

use crate::check;
use crate::config::ProviderConfig;
pub use crate::context::Withheld;
use crate::context::{self, Carryover, ProcessSecrets, SharedContext, problem_text};
use crate::gate::{self, Haste, Rejected, Step, Unpacked, WAY_OUT};
use crate::pipeline::check_pair;

/// A component of a file that passed the gate as far as it depends on nothing but itself.
pub struct Checked {
    /// Ready to be configured.
    pub component: Component,
    /// Its bytes, digest and signature.
    pub unpacked: Unpacked,
    /// As it lies in the file.
    pub packed: Vec<u8>,
}

/// The gate as far as it needs no configuration. `client` is needed for a component in a ConfigMap.
///
/// # Errors
///
/// The step, and why.
pub async fn component(config: &ProviderConfig, client: Option<&Client>) -> Result<Checked, Rejected> {
    let sandbox = sandbox(config)?;
    let source = config.source.fetch(client, config.limits.source_bytes).await?;
    let packed = source.bytes.clone();
    let unpacked = gate::unpacked(config, source).await?;
    let component = gate::load(&sandbox, config, &unpacked, Haste::Waiting).await?;
    let exports = &component.summary().exports;
    gate::identity(config, component.declared(), exports, None, |_| None)
        .and_then(|()| gate::signed_as(unpacked.signed.as_ref(), component.declared()))
        .map_err(|error| Rejected::at(Step::Identity, error))?;
    let component = component.configured(config.name.as_deref(), &config.provider_id_prefixes);
    Ok(Checked { component, unpacked, packed })
}

/// Variables of this process that could count for the provider, and that it does not see: they are not granted.
pub fn withheld(config: &ProviderConfig, descriptor: &Descriptor) -> Withheld {
    Withheld::of(config, descriptor, &context::environment(config))
}

/// Variables that are granted, or set here under a name much like one that is read, and that none of these providers reads; none where there
/// are none.
pub fn unread<'a>(providers: impl IntoIterator<Item = (&'a ProviderConfig, &'a Descriptor)>) -> Option<String> {
    context::unread(providers)
}

/// What the operator may have forgotten or misspelt, with the way out.
pub fn notes(config: &ProviderConfig, descriptor: &Descriptor) -> Vec<String> {
    let forgotten = forgotten(&withheld(config, descriptor));
    forgotten.into_iter().chain(misspelt([(config, descriptor)])).collect()
}

/// What the operator may have forgotten to grant, with the way out.
pub(crate) fn forgotten(withheld: &Withheld) -> Option<String> {
    (!withheld.is_empty()).then(|| {
        format!(
            "set here, and not granted to the provider, which does not see it: {}; --allow-env={} grants it{}",
            withheld.told(),
            withheld.names(),
            withheld.caution()
        )
    })
}

/// What the operator may have misspelt, with the way out.
pub(crate) fn misspelt<'a>(
    providers: impl IntoIterator<Item = (&'a ProviderConfig, &'a Descriptor)>,
) -> Option<String> {
    unread(providers).map(|told| format!("granted or set here, and the provider does not read it: {told}; {UNREAD}"))
}

/// That providers can live in one process, each with its configuration.
///
/// # Errors
///
/// Two of them have one name, or the same provider IDs. Names both, with the way out.
pub fn together(providers: &[(&ProviderConfig, &Descriptor)]) -> Result<()> {
    for (place, (config, descriptor)) in providers.iter().enumerate() {
        for (other, before) in providers.iter().take(place) {
            check_pair((&other.label(), before), (&config.label(), descriptor))?;
        }
    }
    Ok(())
}

/// What to do about variables that nobody reads.
pub const UNREAD: &str = "correct the name, or leave it out";

/// What there is to say of a provider that passed.
pub struct Judged {
    /// What its operator should know.
    pub warnings: Vec<String>,
    /// What only the cloud could have told, and was not asked; none where there is no cloud to ask.
    pub unasked: Option<&'static str>,
}

/// The rest of the gate, which needs the configuration: grants, and what the provider says about them.
///
/// With `online`, the cloud is asked whether it takes the credentials. Without it, no request leaves. `client` is needed for a credential in a
/// Secret.
///
/// # Errors
///
/// The step, and why.
pub async fn configured(
    config: &ProviderConfig,
    component: Component,
    client: Option<&Client>,
    cluster_name: &str,
    online: bool,
) -> Result<Judged, Rejected> {
    let (provider, empty) = granted(config, component, client, cluster_name, online).await?;
    judged(&provider, empty, online).await
}

/// What there is to say of a provider and of the ways to its cloud.
pub struct Examined {
    /// Whether the gate lets it pass.
    pub judged: Result<Judged, Rejected>,
    /// How its requests would leave. None where what it is granted is wrong.
    pub ways: Vec<Way>,
    /// What stands in those ways that were walked, in their order. Without `online`, none is walked.
    pub walked: Vec<Result<(), Blocked>>,
}

/// As [`configured`]; and says of each way to the cloud whether somebody answers there, whatever the provider says of it.
pub async fn examined(
    config: &ProviderConfig,
    component: Component,
    client: Option<&Client>,
    cluster_name: &str,
    online: bool,
) -> Examined {
    let (provider, empty) = match granted(config, component, client, cluster_name, online).await {
        Ok(granted) => granted,
        Err(rejected) => return Examined { judged: Err(rejected), ways: vec![], walked: vec![] },
    };
    let judged = judged(&provider, empty, online).await;
    // Now that it has looked into the catalogue of the cloud.
    let (ways, walked) = match provider.egress() {
        Some(egress) => {
            let ways = egress.ways();
            let walks = ways.iter().filter(|_| online).map(|way| egress.walk(way));
            let walked = join_all(walks).await;
            (ways, walked)
        }
        None => (vec![], vec![]),
    };
    Examined { judged, ways, walked }
}

async fn granted(
    config: &ProviderConfig,
    component: Component,
    client: Option<&Client>,
    cluster_name: &str,
    online: bool,
) -> Result<(Provider, Vec<String>), Rejected> {
    gate::annotations(config, component.declared(), None).map_err(|error| Rejected::at(Step::Grants, error))?;
    opened(config, component, client, cluster_name, online).await
}

/// `empty`: what is to be said of empty sections of its files.
async fn judged(provider: &Provider, empty: Vec<String>, online: bool) -> Result<Judged, Rejected> {
    let descriptor = provider.descriptor();
    let unreachable = provider.egress().map(Egress::unreachable).unwrap_or_default();
    let nowhere = nowhere(descriptor, unreachable).map_err(|error| Rejected::at(Step::Grants, error))?;
    let judged = async {
        let problems = check::problems(provider, online).await?;
        let (fatal, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
        if !fatal.is_empty() {
            bail!("its configuration is wrong: {}", problem_text(&fatal));
        }
        let wants_to_ask = || !online && provider.egress().is_some_and(Egress::wanted_to_ask);
        match provider.offers().await? {
            Err(_refused) if wants_to_ask() => {}
            offers => drop(offers.context("it cannot tell what it offers")?),
        }
        let unasked = match (online || descriptor.endpoints.is_empty(), wants_to_ask()) {
            (true, _) => None,
            (false, true) => Some("whether the cloud answers and accepts its credentials, and what it offers"),
            (false, false) => Some("whether the cloud answers and accepts its credentials"),
        };
        let others = others.into_iter().map(|problem| problem_text(&[problem]));
        Ok(Judged { warnings: nowhere.into_iter().chain(empty).chain(others).collect(), unasked })
    };
    judged.await.map_err(|error: anyhow::Error| Rejected::at(Step::Check, error))
}

/// The provider that a component is with this configuration, before anything is judged, and whichever annotations it is granted. It sends no
/// request.
///
/// # Errors
///
/// The step, and why.
pub async fn offline(config: &ProviderConfig, component: Component, cluster_name: &str) -> Result<Provider, Rejected> {
    Ok(opened(config, component, None, cluster_name, false).await?.0)
}

/// The provider that a component is with what it is granted, and what is to be said of empty sections of its files.
async fn opened(
    config: &ProviderConfig,
    component: Component,
    client: Option<&Client>,
    cluster_name: &str,
    online: bool,
) -> Result<(Provider, Vec<String>), Rejected> {
    let shared = SharedContext {
        client: client.cloned(),
        leadership: Arc::new(Alone),
        exchanges: None,
        nodes: None,
        cluster_name: cluster_name.to_owned(),
        cluster_cidrs: vec![],
        trace_http: false,
        offline: !online,
        secrets: ProcessSecrets::default(),
    };
    let descriptor = component.descriptor().clone();
    let opened = async {
        let files = config.files(&descriptor)?;
        let empty = context::empty_sections(&files);
        let context = context::open(config, &descriptor, files, &Carryover::default(), &shared, None, "").await?;
        anyhow::Ok((context, empty))
    };
    let (context, empty) = opened.await.map_err(|error| Rejected::at(Step::Grants, error))?;
    Ok((component.into_provider(context, None, None), empty))
}

/// What is to be said of endpoints without a base URL. A provider may find some of them by itself, in a catalogue that another one leads to.
///
/// # Errors
///
/// None of its endpoints has one: it can reach nothing.
fn nowhere(descriptor: &Descriptor, unreachable: Vec<(String, String)>) -> Result<Vec<String>> {
    let are_all = !unreachable.is_empty() && unreachable.len() == descriptor.endpoints.len();
    let told = |(name, advice): (String, String)| format!("endpoint {name} {advice}");
    if are_all {
        let all: Vec<String> = unreachable.into_iter().map(told).collect();
        bail!("it can reach none of its endpoints: {}", all.join("; "));
    }
    let is_found = |name: &str| descriptor.endpoints.iter().any(|one| one.name == name && one.is_found_elsewhere());
    Ok(unreachable.into_iter().filter(|(name, _)| !is_found(name)).map(told).collect())
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

/// Refuses to replace the component of another provider, which is almost surely a mistake. Checks nothing else: the old component may
/// never have served, or have failed its probation, and only the host knows what serves and what depends on it. Does not compare with
/// something that cannot be loaded or identified.
///
/// # Errors
///
/// The step, and why.
pub async fn aimed(config: &ProviderConfig, new: &Component, there: Unpacked) -> Result<(), Rejected> {
    if config.allow_provider_change {
        return Ok(());
    }
    let Ok(there) = gate::load(&sandbox(config)?, config, &there, Haste::Waiting).await else { return Ok(()) };
    is_same_provider(new.declared(), there.declared()).map_err(|error| Rejected::at(Step::Identity, error))
}

/// What a provider stays through all its versions: its name, and the scheme of the provider IDs that it writes.
fn is_same_provider(new: &Descriptor, there: &Descriptor) -> Result<()> {
    ensure!(
        new.name == there.name,
        "its name is {:?}, and the component that it would replace is {:?}; {WAY_OUT}",
        new.name,
        there.name
    );
    let (wanted, found) = (new.provider_id_schemes.first(), there.provider_id_schemes.first());
    let scheme = |scheme: Option<&String>| scheme.map_or("nothing", String::as_str).to_owned();
    ensure!(
        wanted == found,
        "its provider IDs begin with {}, those of the component that it would replace with {}; {WAY_OUT}",
        scheme(wanted),
        scheme(found),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Endpoint, Source};

    use super::*;

    #[test]
    fn endpoints_without_a_base_url_are_warned_of_and_without_any_the_component_does_not_pass() {
        let endpoint = |(name, key): (&str, Option<&str>)| Endpoint {
            name: name.to_owned(),
            purpose: String::new(),
            base_url: Source { keys: key.map(str::to_owned).into_iter().collect(), environment_variables: vec![] },
            default_base_url: None,
            tls: None,
        };
        let endpoints = [("identity", Some("cloud:auth-url")), ("compute", Some("cloud:compute")), ("network", None)];
        let descriptor = Descriptor { endpoints: endpoints.map(endpoint).to_vec(), ..Descriptor::default() };
        let without =
            |names: &[&str]| names.iter().map(|&name| (name.to_owned(), "has no base URL".to_owned())).collect();
        assert_eq!(nowhere(&descriptor, without(&[])).unwrap(), [""; 0]);
        assert_eq!(nowhere(&descriptor, without(&["compute"])).unwrap(), ["endpoint compute has no base URL"]);
        assert_eq!(nowhere(&descriptor, without(&["network"])).unwrap(), [""; 0], "it finds that one by itself");
        let error = nowhere(&descriptor, without(&["identity", "compute", "network"])).unwrap_err().to_string();
        let parts = ["identity", "compute", "network"].map(|name| format!("endpoint {name} has no base URL"));
        assert_eq!(error, format!("it can reach none of its endpoints: {}", parts.join("; ")));
        assert_eq!(nowhere(&Descriptor::default(), without(&[])).unwrap(), [""; 0], "it needs no network");
    }

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
            ("other", &["cloud"][..], r#"its name is "other", and the component that it would replace is "cloud""#),
            ("cloud", &["older", "cloud"], "begin with older, those of the component that it would replace with cloud"),
            ("cloud", &[], "begin with nothing, those of the component that it would replace with cloud"),
        ];
        for (name, schemes, part) in cases {
            let error = is_same_provider(&descriptor(name, schemes), &there).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.ends_with("if that is right, use --allow-provider-change"), "{error}");
        }
    }
}
