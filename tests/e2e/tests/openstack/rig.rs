//! A cluster, a project, and a host between them.

use std::path::PathBuf;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::component;
use ccm_e2e::openstack_lab::{Lab, Proxy, Server, Tenant};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, discovery};

use crate::stage::{Actor, Stage};

/// Places of credentials in the body of a login, whether or not the address of Keystone ends in the version.
const LOGINS: [&str; 3] = [
    "password=identity:body-json:/auth/identity/password/user/password",
    "application-credential-id=identity:body-json:/auth/identity/application_credential/id",
    "application-credential-secret=identity:body-json:/auth/identity/application_credential/secret",
];

/// Where the token comes from, and where it goes.
const TOKEN: [&str; 5] = [
    "session-token=identity:capture-header:X-Subject-Token",
    "session-token=compute:header:X-Auth-Token",
    "session-token=network:header:X-Auth-Token",
    "session-token=load-balancer:header:X-Auth-Token",
    "session-token=key-manager:header:X-Auth-Token",
];

/// So that nobody waits for delays that are meant for real clouds. Whatever is said of a secret is said here.
const FLAGS: [&str; 7] = [
    "--cloud-provider=openstack",
    "--allow-http",
    "--allow-loopback",
    "--service-min-backoff=200ms",
    "--service-max-backoff=1s",
    "--trace-http",
    "--v=4",
];

/// Without these a Node would have to be a minute old.
pub(crate) const QUICK: [&str; 4] = [
    "--node-deletion-min-age=0",
    "--node-deletion-second-look=1s",
    "--node-monitor-period=1s",
    "--node-monitor-max-period=5s",
];

/// What a test has.
pub(crate) struct Rig {
    pub(crate) stage: Stage,
    pub(crate) lab: Lab,
    pub(crate) proxy: Proxy,
    pub(crate) tenant: Tenant,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::on(Stage::new().await).await
    }

    /// The same on a cluster that is there.
    pub(crate) async fn on(stage: Stage) -> Self {
        let lab = Lab::find().unwrap();
        let tenant = Tenant::new(&lab).await.unwrap();
        Self { stage, proxy: Proxy::start(&lab).await.unwrap(), lab, tenant }
    }

    pub(crate) fn client(&self) -> &Client {
        self.stage.client()
    }

    /// How an application credential logs in.
    pub(crate) fn by_credential(&self) -> String {
        let Tenant { credential, secret, .. } = &self.tenant;
        format!("application-credential-id = {credential}\napplication-credential-secret = {secret}\n")
    }

    /// How the user logs in, with this password.
    pub(crate) fn by_password(&self, password: &str) -> String {
        let name = &self.tenant.name;
        format!("username = {name}\npassword = {password}\ntenant-name = {name}\ndomain-id = default\n")
    }

    /// Writes the `cloud.conf`: a login, and sections besides.
    pub(crate) fn configure(&self, login: &str, more: &str) -> PathBuf {
        let url = self.proxy.auth_url();
        self.stage.file("cloud.conf", format!("[Global]\nauth-url = {url}\nregion = RegionOne\n{login}{more}"))
    }

    /// Sections for load balancers in the network with addresses outside, and routes through the router.
    pub(crate) fn sections(&self) -> String {
        let Tenant { subnet, router, .. } = &self.tenant;
        let outside = self.lab.said("public_network").unwrap();
        format!(
            "[LoadBalancer]\nsubnet-id = {subnet}\nfloating-network-id = {outside}\n[Route]\nrouter-id = {router}\n"
        )
    }

    /// A host with what [`configure`](Self::configure) has written.
    pub(crate) fn start(&self, config: &std::path::Path, flags: &[&str]) -> Actor {
        let provider = component("providers/openstack.wasm").unwrap();
        let own = [format!("--provider={}", provider.display()), format!("--cloud-config={}", config.display())];
        let uses = LOGINS.iter().chain(&TOKEN).map(|granted| format!("--credential-use={granted}"));
        let flags = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned());
        self.stage.start(own.into_iter().chain(uses).chain(flags))
    }

    /// A host that logs in with the application credential.
    pub(crate) fn host(&self, flags: &[&str]) -> Actor {
        self.start(&self.configure(&self.by_credential(), &self.sections()), flags)
    }

    /// Servers with Nodes that are done.
    pub(crate) async fn members<const N: usize>(&self, names: [&str; N]) -> [Server; N] {
        let servers = self.tenant.boot(names).await.unwrap();
        for (name, server) in names.iter().zip(&servers) {
            initialised(name, server).register(self.client()).await.unwrap();
        }
        servers
    }

    /// The host ends well, nobody has seen a secret, and the project goes.
    pub(crate) async fn end(self, host: Actor) {
        self.assert_hidden(&host).await;
        host.end().await;
        self.tenant.remove().await.unwrap();
    }

    /// No byte of a secret is in the log, on a page of the health port, or in an object of the cluster.
    pub(crate) async fn assert_hidden(&self, host: &Actor) {
        let Tenant { password, secret, .. } = &self.tenant;
        let secrets: Vec<String> = self.proxy.tokens().into_iter().chain([password.clone(), secret.clone()]).collect();
        let mut texts = vec![("the log".to_owned(), host.log_text())];
        for page in ["/metrics", "/providerz", "/providerz?format=json"] {
            texts.push((page.to_owned(), host.page(page).await.unwrap().1));
        }
        let cluster = discovery::Discovery::new(self.client().clone()).run().await.unwrap();
        for (kind, capabilities) in cluster.groups().flat_map(discovery::ApiGroup::recommended_resources) {
            if !capabilities.supports_operation(discovery::verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(self.client().clone(), &kind);
            let all = api.list(&ListParams::default()).await.unwrap();
            texts.push((kind.plural.clone(), serde_json::to_string(&all.items).unwrap()));
        }
        assert!(
            ["events", "nodes", "services"].iter().all(|kind| texts.iter().any(|(name, _)| name == kind)),
            "nothing was searched"
        );
        for (place, text) in texts {
            let shown = secrets.iter().find(|secret| text.contains(secret.as_str()));
            assert!(shown.is_none(), "{shown:?} is in {place}:\n{text}");
        }
    }
}

/// A Node of a server, as it is after its initialisation.
pub(crate) fn initialised(name: &str, server: &Server) -> NodeFixture {
    let fixture = NodeFixture::new(name).initialized().provider_id(&provider_id(server));
    fixture.address("InternalIP", &server.address)
}

/// What the Go manager calls a server.
pub(crate) fn provider_id(server: &Server) -> String {
    format!("openstack:///{}", server.id)
}
