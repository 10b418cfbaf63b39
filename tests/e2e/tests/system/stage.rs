//! Where a system test plays: a private cluster, in which the host may do what `manifests/base` allows and nothing else.

use std::ffi::OsString;
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use ccm_cluster::{ControlPlane, Settings, User};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component, until};
use ccm_e2e::manifest;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

/// For everything that takes a second, and for a cloud that takes minutes where other builds and tests share the machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Clusters at the same time: each takes 300 MB. Tests mostly wait.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| {
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    Semaphore::new(threads.unwrap_or(4).clamp(2, 8))
});

/// Clusters that no test uses now, as the last one left them. They end with this process.
static IDLE: Mutex<Vec<(Settings, ControlPlane)>> = Mutex::new(vec![]);

/// A user that a test may give rights to.
pub(crate) const RIVAL: &str = "rival";

/// Lines of the host's log that a failed test shows.
const LOG_TAIL: usize = 40;

/// A cluster that goes back when its test has passed.
pub(crate) struct Lent {
    settings: Settings,
    cluster: Option<ControlPlane>,
}

impl Lent {
    /// One that another test had, without anything that was done there; else a new one.
    async fn take(settings: Settings) -> Self {
        loop {
            let idle = {
                let mut idle = IDLE.lock();
                let place = idle.iter().position(|(of, _)| *of == settings);
                place.map(|place| idle.swap_remove(place).1)
            };
            let Some(mut cluster) = idle else { break };
            match cluster.reset().await {
                Ok(()) => return Self { settings, cluster: Some(cluster) },
                // Nothing is wrong with a test that leaves what cannot be taken back.
                Err(error) => {
                    let mut told = std::io::stderr().lock();
                    writeln!(told, "a cluster is not used again: {error:#}").ok();
                }
            }
        }
        let mut cluster = ControlPlane::start(settings.clone()).await.unwrap();
        cluster.remember().await.unwrap();
        Self { settings, cluster: Some(cluster) }
    }
}

impl Deref for Lent {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.cluster.as_ref().unwrap()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Etcd and API server alone write nothing but what they are asked to. Others are of use for this test only.
        let Settings { scheduler, controller_manager, kwok, logs, api_server_flags, .. } = &self.settings;
        let is_quiet = !(*scheduler || *controller_manager || *kwok) && logs.is_none() && api_server_flags.is_empty();
        if let Some(cluster) = self.cluster.take()
            && is_quiet
            && !std::thread::panicking()
        {
            IDLE.lock().push((self.settings.clone(), cluster));
        }
    }
}

/// A cluster for one test.
pub(crate) struct Stage {
    pub(crate) cluster: Lent,
    user: String,
    folder: TempDir,
    _place: SemaphorePermit<'static>,
}

impl Stage {
    /// etcd and API server alone.
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let this = Self::bare(settings).await;
        manifest::apply_base(this.client()).await.unwrap();
        this.allowed().await;
        this
    }

    /// The same before anything of ours was applied.
    pub(crate) async fn bare(settings: Settings) -> Self {
        let place = PLACES.acquire().await.unwrap();
        let (namespace, account) = SERVICE_ACCOUNT;
        let user = User::service_account(namespace, account);
        let name = user.name.clone();
        // All of them, so that more tests can have the same one.
        let settings = Settings { audit: true, ..settings.user(user).user(User::new(RIVAL)) };
        let cluster = Lent::take(settings).await;
        Self { cluster, user: name, folder: tempfile::tempdir().unwrap(), _place: place }
    }

    /// Waits until the API server has read the rules that were applied, which it does a moment later: a host would be forbidden what
    /// it may do.
    pub(crate) async fn allowed(&self) {
        for (resource, verb, namespace) in [("nodes", "list", None), ("leases", "create", Some("kube-system"))] {
            let group = if resource == "leases" { "coordination.k8s.io" } else { "" };
            let attributes = ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            };
            self.await_allowed(&self.user, attributes).await;
        }
    }

    /// Lets [`RIVAL`] read Nodes and Services, and nothing else; returns its kubeconfig.
    pub(crate) async fn reader(&self) -> &Path {
        let meta = json!({ "name": "reader" });
        let rules =
            json!([{ "apiGroups": [""], "resources": ["nodes", "services"], "verbs": ["get", "list", "watch"] }]);
        let role: ClusterRole = serde_json::from_value(json!({ "metadata": meta, "rules": rules })).unwrap();
        Api::all(self.client().clone()).create(&PostParams::default(), &role).await.unwrap();
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" });
        let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": RIVAL });
        let binding = json!({ "metadata": meta, "roleRef": role, "subjects": [subject] });
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        Api::all(self.client().clone()).create(&PostParams::default(), &binding).await.unwrap();
        let attributes = ResourceAttributes {
            resource: Some("services".to_owned()),
            verb: Some("watch".to_owned()),
            ..ResourceAttributes::default()
        };
        self.await_allowed(RIVAL, attributes).await;
        self.cluster.kubeconfig_of(RIVAL).unwrap()
    }

    /// Waits until a user may do this.
    pub(crate) async fn await_allowed(&self, user: &str, attributes: ResourceAttributes) {
        let spec = SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client().clone());
        let asking =
            async { while !reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed {} };
        tokio::time::timeout(LIMIT, asking).await.unwrap_or_else(|_| panic!("never allowed: {review:?}"));
    }

    /// The administrator's.
    pub(crate) fn client(&self) -> &Client {
        self.cluster.client()
    }

    /// Name of the user that hosts log in as.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.cluster.kubeconfig_of(&self.user).unwrap()
    }

    /// For files of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file there.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn start(&self, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Actor {
        Actor(Host::start(self.kubeconfig(), flags).unwrap())
    }

    /// A host whose provider does what the scripts of Nodes say ([`crate::cloud`]).
    pub(crate) fn scripted(&self, environment: &[(&str, &str)], flags: &[&str]) -> Actor {
        let provider = format!("--provider={}", scripted().display());
        let flags = ["--cloud-provider=scripted", "--node-status-update-frequency=1h", &provider]
            .into_iter()
            .chain(flags.iter().copied());
        Actor(Host::start_in(self.kubeconfig(), environment, flags).unwrap())
    }

    /// A host whose provider is the Cloudlycke component, straight from its file.
    pub(crate) fn cloudlycke(&self, flags: &[&str]) -> Actor {
        let provider = format!("--provider={}", cloudlycke().display());
        self.start(["--cloud-provider=cloudlycke", &provider].iter().chain(flags))
    }

    /// The same with a cloud-config.
    pub(crate) fn configured(&self, config: &str, flags: &[&str]) -> Actor {
        let file = self.file("cloud-config.yaml", config);
        let flag = format!("--cloud-config={}", file.display());
        self.cloudlycke(&[&[flag.as_str()], flags].concat())
    }
}

/// The Cloudlycke component.
pub(crate) fn cloudlycke() -> PathBuf {
    component("providers/cloudlycke.wasm").unwrap()
}

/// The component that does what scripts say.
pub(crate) fn scripted() -> PathBuf {
    component("guests/scripted.wasm").unwrap()
}

/// A running host. A test that fails shows the end of its log.
pub(crate) struct Actor(Host);

impl Actor {
    /// Waits until it has its provider and all Nodes.
    pub(crate) async fn ready(&self) {
        self.await_page("/readyz", 200, LIMIT).await.unwrap();
    }

    /// Waits until it leads and the first refresh of addresses has ended: a Node that is registered from now on meets the next one.
    pub(crate) async fn refreshed(&self) {
        let metric = "ccm_node_refresh_last_success_timestamp_seconds";
        self.await_count(metric, &[], LIMIT, |time| time > 0.0).await.unwrap();
    }

    /// Waits until no Event waits to be written.
    pub(crate) async fn events_written(&self) {
        self.await_count("ccm_events_waiting", &[], LIMIT, |waiting| waiting == 0.0).await.unwrap();
    }

    /// Waits until it is done with as many runs of a work queue at the least, and none is under way.
    pub(crate) async fn idle(&self, queue: &str, runs: u32) {
        self.ready().await;
        let name = format!("name={queue:?}");
        let (queue, least) = ([name.as_str()], f64::from(runs));
        let is_idle = async || {
            let ended = self.count("workqueue_work_duration_seconds_count", &queue).await?;
            // Asked for later: whoever began meanwhile is among these.
            let begun = self.count("workqueue_adds_total", &queue).await?;
            Ok(ended >= least && ended == begun)
        };
        until(LIMIT, is_idle).await.unwrap();
    }

    /// Calls of the provider's lookup so far.
    pub(crate) async fn lookups(&self) -> f64 {
        self.count("ccm_provider_calls_total", &["function=\"instances.find\""]).await.unwrap()
    }

    /// Ends it as Kubernetes does. It must end well, and must neither have panicked nor have lacked a permission.
    pub(crate) async fn end(self) {
        let log = self.stop().await;
        assert!(!log.to_lowercase().contains("forbidden"), "the host lacked a permission:\n{log}");
    }

    /// The same where permissions are lacking: on purpose, or since the API server has just started and has not read the
    /// rules. Returns the log.
    pub(crate) async fn stop(mut self) -> String {
        let ended = self.terminate().await.unwrap();
        assert!(ended.success(), "{ended}");
        let log = self.log_text();
        // A guest that panics says so in other words.
        assert!(!log.contains("' panicked at ") && !log.contains("a reconcile panicked"), "the host panicked");
        log
    }
}

impl From<Host> for Actor {
    fn from(host: Host) -> Self {
        Self(host)
    }
}

impl Deref for Actor {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.0
    }
}

impl DerefMut for Actor {
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.0
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.get(log.len().saturating_sub(LOG_TAIL)..).unwrap_or_default();
            writeln!(std::io::stderr(), "end of the host's log:\n{}", tail.join("\n")).ok();
        }
    }
}
