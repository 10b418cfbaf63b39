//! A cluster, a project, and a host between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_cluster::{NodeFixture, await_absent};
use ccm_e2e::host::{component, program};
use ccm_e2e::openstack_lab::{Lab, Of, Proxy, Server, Tenant, granted, until};
use ccm_e2e::planned::{Planned, at_rest};
use k8s_openapi::ByteString;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, discovery};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::service_look::{delete, services};
use crate::stage::{Actor, LIMIT, Stage};

/// So that nobody waits for delays that are meant for real clouds. Whatever is said of a secret is said here.
const FLAGS: [&str; 4] = ["--service-min-backoff=200ms", "--service-max-backoff=1s", "--trace-http", "--v=4"];

/// Without these a Node would have to be a minute old.
pub(crate) const QUICK: [&str; 4] = [
    "--node-deletion-min-age=0",
    "--node-deletion-second-look=1s",
    "--node-monitor-period=1s",
    "--node-monitor-max-period=5s",
];

/// The Secret with the `cloud.conf`, as in the overlay.
pub(crate) const CONFIG: &str = "cloud-config";

/// All that a project has, by kind and ID.
pub(crate) type Inventory = BTreeMap<String, Value>;

/// What a test has.
pub(crate) struct Rig {
    pub(crate) stage: Stage,
    pub(crate) lab: Lab,
    pub(crate) proxy: Proxy,
    pub(crate) tenant: Tenant,
    /// Flags of the last host of each cluster, by the kubeconfig.
    flags: Mutex<BTreeMap<PathBuf, Vec<String>>>,
    unended: Unended,
}

/// A test that forgets to ask whether a plan is empty at its end is none that passes.
#[derive(Default)]
struct Unended(AtomicBool);

impl Unended {
    fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        let is_ended = self.0.load(Ordering::Relaxed) || std::thread::panicking();
        assert!(is_ended, "this test ends without Rig::end, which asks for an empty plan");
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::on(Stage::new().await).await
    }

    /// The same on a cluster that is there.
    pub(crate) async fn on(stage: Stage) -> Self {
        let lab = Lab::find().unwrap();
        let tenant = Tenant::new(&lab).await.unwrap();
        let (flags, unended) = (Mutex::default(), Unended::default());
        Self { stage, proxy: Proxy::start(&lab).await.unwrap(), lab, tenant, flags, unended }
    }

    pub(crate) fn client(&self) -> &Client {
        self.stage.client()
    }

    /// Writes the `cloud.conf`: a login, and sections besides.
    pub(crate) fn configure(&self, login: &str, more: &str) -> PathBuf {
        self.stage.file("cloud.conf", self.proxy.cloud_conf(login, more))
    }

    /// Sections for load balancers in the network with addresses outside, and routes through the router.
    pub(crate) fn sections(&self) -> String {
        self.tenant.sections("").unwrap()
    }

    /// A host with what [`configure`](Self::configure) has written.
    pub(crate) fn start(&self, config: &Path, flags: &[&str]) -> Actor {
        self.start_on(&self.stage, config, flags)
    }

    /// The same in another cluster.
    pub(crate) fn start_on(&self, stage: &Stage, config: &Path, flags: &[&str]) -> Actor {
        stage.start(self.flags_of(stage, config, flags))
    }

    /// The flags of a host, which are those of plans from now on.
    pub(crate) fn flags_of(&self, stage: &Stage, config: &Path, flags: &[&str]) -> Vec<String> {
        let provider = component("providers/openstack.wasm").unwrap();
        let own = [format!("--provider={}", provider.display()), format!("--cloud-config={}", config.display())];
        let flags = granted().chain(own).chain(FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned()));
        let flags: Vec<String> = flags.collect();
        self.flags.lock().insert(stage.kubeconfig().to_owned(), flags.clone());
        flags
    }

    /// A host that logs in with the application credential.
    pub(crate) fn host(&self, flags: &[&str]) -> Actor {
        self.start(&self.configure(&self.tenant.by_credential(), &self.sections()), flags)
    }

    /// Servers with Nodes that are done.
    pub(crate) async fn members<const N: usize>(&self, names: [&str; N]) -> [Server; N] {
        let servers = self.tenant.boot(names).await.unwrap();
        for (name, server) in names.iter().zip(&servers) {
            initialised(name, server).register(self.client()).await.unwrap();
        }
        servers
    }

    /// A rig whose Nodes are done and whose host is ready, with what the project had before that.
    pub(crate) async fn ready<const N: usize>(
        names: [&str; N],
        flags: &[&str],
    ) -> (Self, [Server; N], Inventory, Actor) {
        let rig = Self::new().await;
        let servers = rig.members(names).await;
        let before = rig.tenant.inventory().await.unwrap();
        let host = rig.host(flags);
        host.ready().await;
        (rig, servers, before, host)
    }

    /// What there is comes to rest: a host of each cluster would write nothing. No fault may wait for requests.
    pub(crate) async fn settled(&self) {
        self.rests(Planned::is_empty).await;
    }

    /// The same before the first host has run: what a host would only note for itself is no change.
    pub(crate) async fn settled_but_for_notes(&self) {
        self.rests(Planned::changes_nothing).await;
    }

    async fn rests(&self, is_wanted: impl Fn(&Planned) -> bool) {
        let all = self.flags.lock().clone();
        assert!(!all.is_empty(), "no host was started here");
        for (kubeconfig, flags) in &all {
            let changes = || self.proxy.count(Of::Writes);
            // The host, and Octavia, may still be at work.
            let (planned, _) = at_rest(LIMIT, changes, async || plan(kubeconfig, flags).await, &is_wanted).await;
            self.secrets().assert_not_in("a plan", &format!("{}{}", planned.text, planned.error));
            assert!(is_wanted(&planned), "not settled: {planned:?}");
        }
    }

    /// Deletes a Service that is [settled](Self::settled), and waits until it is gone.
    pub(crate) async fn remove(&self, name: &str) {
        self.settled().await;
        delete(self.client(), name).await;
        await_absent(&services(self.client()), name, LIMIT).await.unwrap();
    }

    /// Waits until the project has what it had before, no more and no less, and [ends](Self::end).
    pub(crate) async fn end_as(self, before: &Inventory, host: Actor) {
        until(LIMIT, async || Ok(self.tenant.inventory().await? == *before)).await.unwrap();
        self.end(host).await;
    }

    /// All is [settled](Self::settled), the host ends well, nobody has seen a secret, and the project goes.
    pub(crate) async fn end(self, host: Actor) {
        self.settled().await;
        self.finish(host).await;
    }

    /// The same where no plan can be empty, or none can be made: `why`.
    pub(crate) async fn end_unsettled(self, host: Actor, why: &str) {
        assert!(!why.is_empty());
        self.finish(host).await;
    }

    async fn finish(self, host: Actor) {
        self.unended.end();
        self.assert_hidden(&host).await;
        let log = host.stop().await;
        assert!(!log.to_lowercase().contains("forbidden"), "the host lacked a permission:\n{log}");
        self.secrets().assert_not_in("the log at the end", &log);
        self.tenant.remove().await.unwrap();
    }

    /// No byte of a secret is in the log, on a page of the health port, or in an object of the cluster but the Secret that an operator made.
    pub(crate) async fn assert_hidden(&self, host: &Actor) {
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
            let mut all = api.list(&ListParams::default()).await.unwrap().items;
            all.retain(|object| kind.plural != "secrets" || object.metadata.name.as_deref() != Some(CONFIG));
            texts.push((kind.plural.clone(), serde_json::to_string(&all).unwrap()));
        }
        assert!(
            ["events", "nodes", "services"].iter().all(|kind| texts.iter().any(|(name, _)| name == kind)),
            "nothing was searched"
        );
        let secrets = self.secrets();
        texts.iter().for_each(|(place, text)| secrets.assert_not_in(place, text));
    }

    /// What nobody may see: an application credential's ID is one half of it.
    fn secrets(&self) -> Secrets {
        let Tenant { password, secret, credential, .. } = &self.tenant;
        Secrets(self.proxy.tokens().into_iter().chain([password, secret, credential].map(Clone::clone)).collect())
    }
}

/// `wasm-ccm plan --all` with the flags of a host.
async fn plan(kubeconfig: &Path, flags: &[String]) -> Planned {
    let mut command = Command::new(program().unwrap());
    command.args(["plan", "--all", "--output=json", "--kubeconfig"]).arg(kubeconfig).args(flags);
    Planned::of(&mut command, LIMIT).await
}

struct Secrets(Vec<String>);

impl Secrets {
    /// As they are, in base64, at whatever place of a longer text that was encoded, and with any of their characters percent-encoded.
    fn assert_not_in(&self, place: &str, text: &str) {
        let decoded = percent_decoded(text);
        for secret in &self.0 {
            let shown = text.contains(secret.as_str())
                || decoded.contains(secret.as_str())
                || in_base64(secret).iter().any(|encoded| text.contains(encoded));
            assert!(!shown, "{secret:?} is in {place}:\n{text}");
        }
    }
}

/// What a text that contains this one has of it in base64, in both alphabets: it can begin at three places of a group.
fn in_base64(secret: &str) -> Vec<String> {
    let at = |shift: usize| {
        let bytes = [vec![0; shift], secret.as_bytes().to_vec()].concat();
        let whole = bytes.len() / 3 * 3;
        let Value::String(text) = json!(ByteString(bytes[..whole].to_vec())) else { panic!("base64 is text") };
        // The first group has bits of what is before.
        let text = text[if shift == 0 { 0 } else { 4 }..].to_owned();
        [text.replace('+', "-").replace('/', "_"), text]
    };
    (0..3).flat_map(at).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte.or(Some(b'%')));
        bytes.extend_from_slice(&part.as_bytes()[if byte.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_secret_is_found_in_whatever_form() {
    let secrets = Secrets(vec!["canary/secret+1".to_owned()]);
    let base64 = |text: &str| serde_json::to_string(&ByteString(text.as_bytes().to_vec())).unwrap();
    for shown in [
        "a canary/secret+1.".to_owned(),
        "canary%2Fsecret%2b1".to_owned(),
        base64("canary/secret+1"),
        base64("user:canary/secret+1"),
        base64("key:canary/secret+1\n"),
        base64("is canary/secret+1 and more"),
    ] {
        let found = std::panic::catch_unwind(|| secrets.assert_not_in("a text", &shown));
        assert!(found.is_err(), "{shown}");
    }
    secrets.assert_not_in("a text", "100% of canary/secret and of %2Fsecret+1, %zz, %");
}

/// A Node of a server, as it is after its initialisation.
pub(crate) fn initialised(name: &str, server: &Server) -> NodeFixture {
    let fixture = NodeFixture::new(name).initialized().provider_id(&server.provider_id());
    fixture.address("InternalIP", &server.address).hostname_last()
}
