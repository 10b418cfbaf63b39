//! A provider with credentials and a cloud on loopback.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Alone, Descriptor, EventSink, Source};
use ccm_egress::Door;
use ccm_egress::addresses::AddressRules;
use ccm_egress::cache::Cache;
use ccm_egress::capture::Captured;
use ccm_egress::credentials::{CredentialSource, Credentials};
use ccm_egress::endpoints::{Bindings, Endpoints, OperatorGrants};
use ccm_egress::log::LogLimits;
use ccm_egress::network::{Network, NetworkParts, NetworkSettings};
use ccm_egress::observe::ExchangeObserver;
use ccm_egress::secret::Secret;
use ccm_egress::settings::Settings;
use ccm_sandbox::{CallObserver, Limits, Provider, Sandbox};

use crate::rig::component;

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
    pub(crate) settings: Settings,
    /// What outlives a provider.
    pub(crate) captured: Arc<Captured>,
    pub(crate) bindings: Bindings,
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

    pub(crate) async fn start_in(mut self, sandbox: &Sandbox, guest: &str) -> Provider {
        let component = sandbox.load(component(guest), self.limits, false).await.unwrap();
        let network = self.network(component.descriptor());
        let door = Door {
            settings: self.settings,
            cache: Cache::new(Cache::DEFAULT_BYTES),
            log: self.log,
            network: Some(network),
            ..Door::closed()
        };
        component.into_provider(door, self.events, self.calls)
    }

    fn network(&mut self, descriptor: &Descriptor) -> Network {
        let operator = OperatorGrants {
            base_urls: std::mem::take(&mut self.endpoints),
            allow_http: true,
            addresses: AddressRules { loopback: true },
            ..OperatorGrants::default()
        };
        let nowhere = |_: &Source| None;
        let settings = self.network.clone();
        let bindings = self.bindings.clone();
        let endpoints =
            Endpoints::resolve(&descriptor.endpoints, &operator, nowhere, settings.client, bindings).unwrap();
        let (given, hidden) = (std::mem::take(&mut self.credentials), std::mem::take(&mut self.hidden));
        let least = settings.limits.min_credential_bytes;
        let credentials = Credentials::new(descriptor, given, hidden, Arc::clone(&self.captured), least);
        let parts = NetworkParts {
            provider: descriptor.name.clone(),
            endpoints,
            credentials,
            settings,
            leadership: Arc::new(Alone),
            observer: self.exchanges.clone(),
        };
        Network::new(parts, descriptor)
    }
}

pub(crate) fn secret(value: &str) -> Secret {
    Secret::new(value.as_bytes().to_vec())
}

/// A credential from the environment.
pub(crate) fn given(value: &str) -> CredentialSource {
    CredentialSource::Environment { variable: "CANARY".to_owned(), value: secret(value) }
}
