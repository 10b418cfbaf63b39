//! Providers: whether `run` would take each component with its configuration, judged by the gate of `run`.

use anyhow::Result;
use ccm_cloud::{Descriptor, Failure, Reaction};
use ccm_controllers::CloudRequest;
use ccm_rollout::Trust;
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::gate::{Rejected, Step};
use ccm_rollout::preflight::{self, Checked, Examined, Judged};
use ccm_rollout::source::Source;
use kube::Client;

use super::finding::{Check, Finding, Judgement};
use super::network;
use crate::throttled;

/// What is known of the providers of the process.
#[derive(Default)]
pub(super) struct Providers {
    /// None where one of them could not be loaded.
    pub(super) descriptors: Option<Vec<Descriptor>>,
    /// Classes of Services that they serve, besides none.
    pub(super) classes: Vec<String>,
}

impl Providers {
    /// Whether one of them may ask a cloud for something. That is not known of one that could not be loaded.
    pub(super) fn asks_a_cloud(&self) -> bool {
        self.descriptors.as_ref().is_none_or(|all| all.iter().any(|provider| !provider.endpoints.is_empty()))
    }
}

/// How providers are judged.
pub(super) struct Judge<'a> {
    pub(super) client: Option<&'a Client>,
    pub(super) cluster_name: String,
    /// Ask the cloud as well.
    pub(super) online: bool,
    /// Whether the operator said where components are.
    pub(super) is_named: bool,
}

impl Judge<'_> {
    /// Judges all of them.
    pub(super) async fn all(&self, configured: Result<Vec<ProviderConfig>>) -> (Vec<Finding>, Providers) {
        let check = Check::Providers;
        let configs = match configured {
            Ok(configs) => configs,
            Err(error) => {
                let fix = "correct the flag or the file that the message names: `run` would not start with it";
                return (vec![check.wrong(format!("{error:#}"), fix)], Providers::default());
            }
        };
        let (mut findings, mut descriptors) = (vec![], vec![]);
        let mut unreachable = vec![];
        for config in &configs {
            match Box::pin(self.one(config, &mut findings)).await {
                Ok(descriptor) => descriptors.push(descriptor),
                Err(_unread) if self.is_unreachable(config) => unreachable.push(config.source.to_string()),
                Err(rejected) => findings.push(self.rejected(config, rejected)),
            }
        }
        if !unreachable.is_empty() {
            let found =
                "cannot be read: a ConfigMap is read through the API server, which was not reached (see api-server)";
            let fix = "first reach the API server, or judge a file with --provider=FILE";
            findings.push(check.unjudged(found, fix).about(unreachable));
        }
        let are_all = descriptors.len() == configs.len();
        // One that is not known may read them.
        if let Some(told) = preflight::unread(configs.iter().zip(&descriptors)).filter(|_| are_all) {
            let found = format!("granted or set here, and no provider reads it: {told}");
            findings.push(check.note(found, preflight::UNREAD));
        }
        let all: Vec<(&ProviderConfig, &Descriptor)> = configs.iter().zip(&descriptors).collect();
        // Where one of them is not known, the others have lost their places.
        if let Err(error) = if are_all { preflight::together(&all) } else { Ok(()) } {
            findings.push(check.wrong(format!("{error:#}"), "`run` does not start with both: do what this says"));
        }
        let classes = configs.iter().flat_map(|config| config.load_balancer_classes.iter().cloned()).collect();
        (findings, Providers { descriptors: are_all.then_some(descriptors), classes })
    }

    /// Errors are those of the component; what its configuration comes to is a finding.
    async fn one(&self, config: &ProviderConfig, findings: &mut Vec<Finding>) -> Result<Descriptor, Rejected> {
        let check = Check::Providers;
        let Checked { component, unpacked, packed } = preflight::component(config, self.client).await?;
        let descriptor = component.descriptor().clone();
        let name = format!("Provider {}", descriptor.name);
        let of = |finding: Finding| finding.about([name.clone()]);
        let (version, digest, limit) = (&descriptor.version, &unpacked.digest, config.limits.source_bytes);
        let taken = format!(
            "{version} ({digest}) from {} loads; it has {} of {limit} bytes, and {}",
            config.source,
            packed.len(),
            trusted(&config.trust, digest)
        );
        findings.push(of(check.good(taken)));
        // Those of proxies have a check of their own.
        let withheld = preflight::withheld(config, &descriptor).only(|name| !network::is_of_a_proxy(name));
        if !withheld.is_empty() {
            let found =
                format!("set here, and not granted to the provider, which does not see it: {}", withheld.told());
            let fix = format!("--allow-env={}, if the provider is to use it{}", withheld.names(), withheld.caution());
            findings.push(of(check.note(found, fix)));
        }
        // Some need none.
        let is_needed = !(descriptor.endpoints.is_empty() && descriptor.credentials.is_empty());
        if is_needed && !self.online && !is_configured(config) {
            let fix = "give the flags of `run` about the provider, such as --cloud-config, --endpoint and --credential, or --providers";
            findings.push(of(check.unjudged("its configuration and credentials are not known here", fix)));
            return Ok(descriptor);
        }
        let Examined { judged, ways, walked } =
            preflight::examined(config, component, self.client, &self.cluster_name, self.online).await;
        let barriers = network::walked(&ways, &walked);
        let is_blocked = barriers.iter().any(|finding| finding.judgement == Judgement::Wrong);
        match judged {
            Ok(Judged { warnings, unasked }) => {
                let fix = "if that is not what you mean, correct the configuration";
                findings.extend(warnings.into_iter().map(|warning| of(check.note(warning, fix))));
                findings.push(of(match self.online {
                    true => check.good("its configuration is right, and the cloud accepts the credentials"),
                    false => check.good("its configuration is right, and its credentials are there"),
                }));
                let told = |what| of(check.note(format!("not judged: {what}"), "doctor --online asks the cloud"));
                findings.extend(unasked.map(told));
            }
            // What stands in the way is told once.
            Err(rejected) if is_blocked && rejected.step == Step::Check && rejected.is_passing() => {
                let found = "whether the cloud accepts the credentials is not known: it could not be reached";
                findings.push(of(check.unjudged(found, "first do what the lines dns, proxy, tls and endpoints say")));
            }
            Err(rejected) => findings.push(of(self.rejected(config, rejected))),
        }
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        findings.extend(network::proxies(config, &ways, is_set));
        findings.extend(barriers);
        Ok(descriptor)
    }

    /// Whether the component is where only the API server leads to, and nobody leads to that.
    fn is_unreachable(&self, config: &ProviderConfig) -> bool {
        self.client.is_none() && matches!(config.source, Source::ConfigMap { .. })
    }

    fn rejected(&self, config: &ProviderConfig, rejected: Rejected) -> Finding {
        let check = Check::Providers;
        let (step, is_passing) = (rejected.step, rejected.is_passing());
        let failure = rejected.error.downcast_ref::<Failure>();
        let throttled = failure.filter(|failure| failure.reaction == Reaction::Throttled);
        let throttled = throttled.map(|failure| {
            let request = failure.request.as_deref().map(CloudRequest::from);
            throttled::advice(request.as_ref())
        });
        let told = format!("{:#}", rejected.named(&config.source));
        if step == Step::Source && !self.is_named {
            let fix = "say with --provider or --providers where `run` reads the component";
            return check.unjudged(told, fix);
        }
        match step {
            // The network is well.
            Step::Check if let Some(fix) = throttled => check.wrong(told, fix),
            // Nobody said no.
            Step::Check | Step::Compare if is_passing => check.wrong(
                told,
                "check the network from here to the cloud: DNS, firewall, --proxy or HTTPS_PROXY, and the CA of the endpoint (`wasm-ccm inspect FILE` shows where it is set)",
            ),
            _ => check.wrong(told, fix(step)),
        }
    }
}

/// Why a component that passed is trusted.
fn trusted(trust: &Trust, digest: &String) -> &'static str {
    match (trust.digests.contains(digest), trust.keys.is_empty()) {
        (true, _) => "its digest is one that you named",
        (false, false) => "one of your keys signed it",
        (false, true) => "nobody's signature is asked for (--provider-key)",
    }
}

/// Whether anything was said about how the provider is configured.
fn is_configured(config: &ProviderConfig) -> bool {
    let grants = &config.grants;
    config.cloud_config.is_some()
        || !config.settings.is_empty()
        || !config.credentials.is_empty()
        || !grants.endpoints.is_empty()
        || !grants.allow_env.is_empty()
}

/// What to do about a component that is stopped at a step.
const fn fix(step: Step) -> &'static str {
    match step {
        Step::Source => {
            "put the component there, `wasm-ccm push FILE configmap:NAMESPACE/NAME/KEY --create` for a ConfigMap, or correct --provider"
        }
        Step::Size => "take a smaller or compressed component, or raise the limit that the message names",
        Step::Container => "put the file there again: it was cut off or changed on its way",
        Step::Trust => {
            "sign the component with one of the keys, or name its digest: docs/guides/upgrade-a-provider.md, \"Trust\""
        }
        Step::Parse | Step::Imports | Step::Exports | Step::Describe => {
            "take a component that was built for this version of wasm-ccm; `wasm-ccm check FILE` tries it"
        }
        Step::Compile => "raise the limit that the message names, or take another component",
        Step::Identity => "correct --cloud-provider, or put the component of this provider there",
        Step::Grants => "do what the message says: docs/guides/configure-a-provider.md",
        Step::Check => "correct the configuration or the credential that the message names",
        Step::Compare | Step::Probation => "docs/guides/upgrade-a-provider.md, \"The gate\"",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ccm_cloud::FailedRequest;
    use ccm_rollout::config::ProviderRecord;
    use ccm_rollout::config::grants::GrantSettings;

    use super::*;

    fn config(source: &str, grants: GrantSettings) -> ProviderConfig {
        ProviderRecord { source: source.to_owned(), grants, ..ProviderRecord::default() }.check().unwrap()
    }

    async fn judged(source: &str, is_named: bool) -> (Vec<Finding>, Providers) {
        let judge = Judge { client: None, cluster_name: "c".to_owned(), online: false, is_named };
        judge.all(Ok(vec![config(source, GrantSettings::default())])).await
    }

    /// Whoever read it looked for a firewall, and the cloud had answered.
    #[test]
    fn a_used_up_quota_is_no_matter_of_the_network_and_told_with_whose_it_is() {
        let request = |status, limit: Option<&'static str>| FailedRequest {
            endpoint: "api".to_owned(),
            origin: String::new(),
            operation: "GET /account".to_owned(),
            method: "GET",
            path: String::new(),
            status,
            error: status.is_none().then_some("throttled"),
            held: Some("no turn for 30 s".to_owned()),
            limit,
            request_id: None,
            sent: 1,
            at: tokio::time::Instant::now(),
        };
        let fix = |reaction, request: Option<FailedRequest>| {
            let failure = Failure { request: request.map(Arc::new), ..Failure::new(reaction, "GET /account: 429") };
            let rejected = Rejected::at(Step::Check, anyhow::Error::from(failure).context("it cannot judge"));
            let judge = Judge { client: None, cluster_name: "c".to_owned(), online: true, is_named: true };
            let finding = judge.rejected(&config("a.wasm", GrantSettings::default()), rejected);
            assert!(finding.found.ends_with("it cannot judge: GET /account: 429"), "{}", finding.found);
            finding.fix.unwrap_or_default()
        };
        for (reaction, request, starts) in [
            (Reaction::Throttled, Some(request(Some(429), None)), "wait: no turn for 30 s; if it stays, lower"),
            (
                Reaction::Throttled,
                Some(request(None, Some("requests-per-hour"))),
                "wait; if it stays, raise the host's own limit requests-per-hour",
            ),
            (Reaction::Throttled, None, "wait: the cloud, or a limit of the host"),
            (Reaction::Retry, Some(request(Some(503), None)), "check the network from here to the cloud"),
        ] {
            let told = fix(reaction, request);
            assert!(told.starts_with(starts), "{told}");
        }
    }

    #[tokio::test]
    async fn a_component_that_run_would_refuse_is_wrong_with_its_step_and_a_fix() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_string_lossy().into_owned()
        };
        for (source, step) in [
            ("/nowhere/a.wasm".to_owned(), "source"),
            (file("broken.wasm.gz", &[0x1f, 0x8b, 1]), "container"),
            (file("text.wasm", b"(component)"), "parse"),
            (file("empty.wasm", b"\0asm\x0d\0\x01\0"), "exports"),
        ] {
            let (findings, providers) = judged(&source, true).await;
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert_eq!(finding.judgement, Judgement::Wrong);
            assert!(
                finding.found.starts_with(&format!("{source} does not pass the gate (step {step})")),
                "{finding:?}"
            );
            assert!(finding.fix.is_some() && providers.descriptors.is_none());
        }
    }

    /// Each of them was once a line that did not say why.
    #[tokio::test]
    async fn components_in_config_maps_are_told_once_and_why_when_no_api_server_is_there() {
        let judge = Judge { client: None, cluster_name: "c".to_owned(), online: false, is_named: true };
        let configs = ["configmap:a/b", "configmap:a/c"].map(|source| config(source, GrantSettings::default()));
        let (findings, providers) = judge.all(Ok(configs.to_vec())).await;
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(finding.judgement, Judgement::Unjudged);
        assert_eq!(finding.objects, ["configmap:a/b", "configmap:a/c"]);
        assert!(finding.found.contains("the API server, which was not reached"), "{finding:?}");
        assert!(providers.descriptors.is_none());
    }

    #[tokio::test]
    async fn a_source_that_nobody_named_is_not_judged() {
        let (findings, _) = judged("/nowhere/a.wasm", false).await;
        assert_eq!(findings[0].judgement, Judgement::Unjudged);
    }

    #[test]
    fn providers_without_endpoints_ask_no_cloud_and_of_those_unloaded_nobody_knows() {
        let endpoint = ccm_cloud::Endpoint {
            name: "api".to_owned(),
            purpose: String::new(),
            base_url: ccm_cloud::Source { keys: vec![], environment_variables: vec![] },
            default_base_url: None,
            tls: None,
        };
        let with = |endpoints: Vec<_>| Descriptor { endpoints, ..Descriptor::default() };
        for (descriptors, asks) in
            [(None, true), (Some(vec![with(vec![])]), false), (Some(vec![with(vec![]), with(vec![endpoint])]), true)]
        {
            assert_eq!(Providers { descriptors, classes: vec![] }.asks_a_cloud(), asks);
        }
    }

    #[tokio::test]
    async fn flags_that_run_would_refuse_are_wrong() {
        let judge = Judge { client: None, cluster_name: "c".to_owned(), online: false, is_named: true };
        let (findings, _) = judge.all(Err(anyhow::anyhow!("--providers x: no such file"))).await;
        assert_eq!((findings[0].judgement, findings.len()), (Judgement::Wrong, 1));
    }

    #[test]
    fn a_component_that_passed_is_told_with_whose_word_counted() {
        let trust = |keys: &[&str], digests: &[&str]| Trust {
            keys: keys.iter().map(Into::into).collect(),
            digests: digests.iter().map(|&digest| digest.to_owned()).collect(),
        };
        for (trust, part) in [
            (trust(&[], &[]), "nobody's signature is asked for (--provider-key)"),
            (trust(&["key.pem"], &[]), "one of your keys signed it"),
            (trust(&["key.pem"], &["sha256:1"]), "its digest is one that you named"),
            (trust(&["key.pem"], &["sha256:2"]), "one of your keys signed it"),
        ] {
            assert_eq!(trusted(&trust, &"sha256:1".to_owned()), part);
        }
    }
}
