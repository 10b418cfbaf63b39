//! A provider with credentials and a cloud on loopback.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Alone, EventSink};
use ccm_egress::config::{AddressRules, CredentialSource, NetworkSettings, OperatorGrants, Secret};
use ccm_egress::observe::ExchangeObserver;
use ccm_egress::{
    Cache, Carryover, Egress, EgressConfig, LogLimits, Predecessor, ProcessSecrets, ProviderContext, Settings,
};
use ccm_sandbox::{CallObserver, Limits, Provider, Sandbox};

use crate::rig::{component, granted};

pub(crate) const SCRIPTED: &str = "guests/scripted.wasm";
pub(crate) const SESSION: &str = "guests/session.wasm";

/// Everything that an operator may give.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) limits: Limits,
    pub(crate) log: LogLimits,
    pub(crate) network: NetworkSettings,
    pub(crate) endpoints: BTreeMap<String, String>,
    pub(crate) credentials: BTreeMap<String, CredentialSource>,
    pub(crate) hidden: Vec<(String, Secret)>,
    /// Of the process.
    pub(crate) secrets: ProcessSecrets,
    pub(crate) settings: Settings,
    /// What outlives a provider.
    pub(crate) carryover: Arc<Carryover>,
    pub(crate) exchanges: Option<Arc<dyn ExchangeObserver>>,
    pub(crate) calls: Option<Arc<dyn CallObserver>>,
    pub(crate) events: Option<Arc<dyn EventSink>>,
}

impl Setup {
    #[must_use]
    pub(crate) fn endpoint(mut self, name: &str, url: String) -> Self {
        self.endpoints.insert(name.to_owned(), url);
        self
    }

    #[must_use]
    pub(crate) fn credential(mut self, name: &str, source: CredentialSource) -> Self {
        self.credentials.insert(name.to_owned(), source);
        self
    }

    pub(crate) async fn start(self, guest: &str) -> Provider {
        self.start_in(&Sandbox::try_new().unwrap(), guest).await
    }

    /// The provider that takes the place of another one.
    pub(crate) async fn replace(self, before: &Provider, guest: &str) -> Provider {
        self.start_with(&Sandbox::try_new().unwrap(), guest, Some(before)).await
    }

    pub(crate) async fn start_in(self, sandbox: &Sandbox, guest: &str) -> Provider {
        self.start_with(sandbox, guest, None).await
    }

    async fn start_with(self, sandbox: &Sandbox, guest: &str, before: Option<&Provider>) -> Provider {
        let component = sandbox.load(component(guest), self.limits, false).await.unwrap();
        let grants = OperatorGrants {
            base_urls: self.endpoints,
            allow_http: true,
            addresses: AddressRules { loopback: true },
            ..OperatorGrants::default()
        };
        let config = EgressConfig {
            grants,
            credentials: self.credentials,
            credential_uses: granted(),
            hidden: self.hidden,
            secrets: self.secrets,
            settings: self.network,
            observer: self.exchanges,
            ..EgressConfig::new(Arc::new(Alone))
        };
        let before = before.map(|before| Predecessor {
            descriptor: before.descriptor(),
            egress: before.egress(),
            is_configured_alike: true,
        });
        let context = ProviderContext {
            settings: self.settings,
            cache: Cache::new(Cache::DEFAULT_BYTES),
            log: self.log,
            egress: Some(Egress::open(config, component.descriptor(), &self.carryover, before).unwrap()),
            ..ProviderContext::closed()
        };
        component.into_provider(context, self.events, self.calls)
    }
}

pub(crate) fn secret(value: &str) -> Secret {
    Secret::new(value.as_bytes().to_vec())
}

/// A credential from the environment.
pub(crate) fn given(value: &str) -> CredentialSource {
    CredentialSource::Environment { variable: "CANARY".to_owned(), value: secret(value) }
}
