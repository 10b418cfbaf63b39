//! Starts, stops and hands out a control plane.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::Write as _,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{
    net::TcpSocket,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use crate::{
    Settings, User, Write, audit, binaries,
    component::Component,
    credentials::{self, ADMIN, KUBECONFIG},
    flags,
    janitor::Janitor,
    reset::Origin,
};

/// Ready takes 2.5 s on an idle machine; two cores that compile and run several control planes at once need far more.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Between two looks at a starting API server. Nothing can be watched before it serves.
const POLL: Duration = Duration::from_millis(50);

/// How long one such look may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A running control plane. Dropping it ends every process and removes every file, before `drop` returns.
pub struct ControlPlane {
    // In the order of destruction: programs first, then their guard and their folder, the port last.
    components: Mutex<Components>,
    janitor: Janitor,
    folder: TempDir,
    _port: TcpSocket,
    programs: &'static Path,
    logs: PathBuf,
    settings: Settings,
    port: u16,
    client: Client,
    kubeconfigs: BTreeMap<String, PathBuf>,
    ready_after: Duration,
    /// What there was after the start, for [`reset`](Self::reset).
    origin: Option<Origin>,
    /// Where in the audit log the time after the last reset begins.
    audited: usize,
}

#[derive(Debug, Default)]
struct Components {
    others: Vec<Component>,
    api_server: Option<Component>,
    etcd: Option<Component>,
}

impl Components {
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Component> {
        self.etcd.iter_mut().chain(&mut self.api_server).chain(&mut self.others)
    }

    fn check(&mut self) -> Result<()> {
        self.iter_mut().try_for_each(Component::check)
    }
}

impl ControlPlane {
    /// Builds what is missing ([`ensure_binaries`](crate::ensure_binaries)), starts the components and waits until the
    /// API server is ready and its namespaces exist.
    ///
    /// # Errors
    /// A program is missing, ended by itself, or was not ready within two minutes; the error shows the end of its log.
    ///
    /// # Cancel safety
    /// Dropping the future ends what was started.
    pub async fn start(settings: Settings) -> Result<Self> {
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok(); // Err: somebody was first
        let programs = binaries::ensure_binaries().await?;
        let begin = Instant::now();

        let folder = tempfile::Builder::new().prefix("ccm-cluster-").tempdir()?;
        let janitor = Janitor::start(folder.path())?;
        let logs = settings.logs.clone().unwrap_or_else(|| folder.path().to_owned());
        fs::create_dir_all(&logs).with_context(|| format!("cannot make the folder of logs {}", logs.display()))?;
        let (socket, port) = reserve_port()?;

        let users: Vec<_> =
            [User::new(ADMIN).group("system:masters")].into_iter().chain(settings.users.iter().cloned()).collect();
        credentials::write_keys(folder.path())?;
        fs::write(folder.path().join(audit::POLICY_FILE), audit::POLICY)?;
        let kubeconfigs = credentials::write_users(folder.path(), &base_url(port), &users)?;
        let client = Client::try_from(read_kubeconfig(&folder.path().join(KUBECONFIG)).await?)?;
        let kubeconfigs = users.into_iter().map(|user| user.name).zip(kubeconfigs).collect();

        let mut this = Self {
            components: Mutex::default(),
            janitor,
            folder,
            _port: socket,
            programs,
            logs,
            settings,
            port,
            client,
            kubeconfigs,
            ready_after: Duration::ZERO,
            origin: None,
            audited: 0,
        };
        let etcd = this.spawn("etcd", flags::etcd())?;
        this.components.lock().etcd = Some(etcd);
        this.start_api_server().await?;
        this.start_others()?;
        this.ready_after = begin.elapsed();
        Ok(this)
    }

    /// A client of the administrator (group `system:masters`: no RBAC, no priority and fairness).
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// A client of one of [`Settings::users`].
    ///
    /// # Errors
    /// There is no such user.
    pub async fn client_of(&self, user: &str) -> Result<Client> {
        Ok(Client::try_from(read_kubeconfig(self.kubeconfig_of(user)?).await?)?)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBECONFIG)
    }

    /// The kubeconfig of one of [`Settings::users`].
    ///
    /// # Errors
    /// There is no such user.
    pub fn kubeconfig_of(&self, user: &str) -> Result<&Path> {
        let path = self.kubeconfigs.get(user);
        path.map(PathBuf::as_path).ok_or_else(|| anyhow!("there is no user {user:?}; Settings::users adds some"))
    }

    /// Base URL of the API server, the same for the whole life of the control plane.
    pub fn url(&self) -> String {
        base_url(self.port)
    }

    /// The folder that goes with the control plane; a test may keep files of its own there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Remembers what there is now: what [`reset`](Self::reset) returns to.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn remember(&mut self) -> Result<()> {
        self.origin = Some(Origin::now(self.folder.path().join("etcd:0")).await?);
        Ok(())
    }

    /// Takes back all that was written since [`remember`](Self::remember), below the API; the API server goes on and knows it.
    /// Clients belong to a runtime of tokio: [`client`](Self::client) is another one afterwards, of the runtime that is here now.
    ///
    /// # Errors
    /// It does not run, nothing was remembered, or there is something that cannot be taken back: begin with another one.
    pub async fn reset(&mut self) -> Result<()> {
        self.check()?;
        ensure!(self.components.lock().api_server.is_some(), "the API server does not run");
        self.client = Client::try_from(read_kubeconfig(&self.kubeconfig()).await?)?;
        self.origin.as_mut().context("nothing was remembered")?.restore(&self.client).await?;
        self.audited = audit::length(self.folder.path());
        Ok(())
    }

    /// All writes that were answered since the start or the last [`reset`](Self::reset), in the order in which the API server received them.
    ///
    /// # Errors
    /// [`Settings::audit`] is not set.
    pub fn writes(&self) -> Result<Vec<Write>> {
        audit::read(self.folder.path(), self.audited)
    }

    /// From the begin of [`start`](Self::start) to readiness, without building.
    pub const fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Kills the API server, as a crash would. Its port stays reserved: connections are refused.
    ///
    /// # Errors
    /// It had ended by itself already.
    pub async fn stop_api_server(&self) -> Result<()> {
        let Some(mut running) = self.components.lock().api_server.take() else { return Ok(()) };
        running.check()?;
        tokio::task::spawn_blocking(move || drop(running)).await?;
        Ok(())
    }

    /// Starts the API server on the same port and data, and waits until it is ready. Does nothing when it runs.
    ///
    /// # Errors
    /// It, or another component, ended by itself, or it was not ready within two minutes.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the API server starting.
    pub async fn start_api_server(&self) -> Result<()> {
        {
            let mut components = self.components.lock();
            if components.api_server.is_none() {
                components.api_server =
                    Some(self.spawn("kube-apiserver", flags::api_server(self.port, &self.settings))?);
            }
        }
        let Ok(ready) = timeout(START_TIMEOUT, self.until_ready()).await else {
            let tail = self.components.lock().api_server.as_ref().map(Component::log_tail).unwrap_or_default();
            return Err(anyhow!("kube-apiserver was not ready within {START_TIMEOUT:?}; {tail}"));
        };
        ready
    }

    /// Stops API server and etcd for a moment, and copies what etcd has, for [`restore`](Self::restore).
    ///
    /// # Errors
    /// As those of [`stop_api_server`](Self::stop_api_server) and [`start_api_server`](Self::start_api_server); or the copy fails.
    pub async fn backup(&self) -> Result<()> {
        self.replace_data(flags::ETCD_DATA, "etcd-backup").await
    }

    /// Replaces what etcd has by the backup: everything since is undone, and resource versions go on from where they were then. API
    /// server and etcd are away meanwhile.
    ///
    /// # Errors
    /// As those of [`backup`](Self::backup); or there is none.
    pub async fn restore(&self) -> Result<()> {
        self.replace_data("etcd-backup", flags::ETCD_DATA).await
    }

    async fn replace_data(&self, from: &str, to: &str) -> Result<()> {
        self.stop_api_server().await?;
        let etcd = self.components.lock().etcd.take();
        tokio::task::spawn_blocking(move || drop(etcd)).await?;
        let (from, to) = (self.folder().join(from), self.folder().join(to));
        fs::remove_dir_all(&to).or_else(|error| if to.exists() { Err(error) } else { Ok(()) })?;
        copy_folder(&from, &to)?;
        let etcd = self.spawn("etcd", flags::etcd())?;
        self.components.lock().etcd = Some(etcd);
        self.start_api_server().await
    }

    /// Says whether all components still run.
    ///
    /// # Errors
    /// One ended by itself; the error shows the end of its log.
    pub fn check(&self) -> Result<()> {
        self.components.lock().check()
    }

    async fn until_ready(&self) -> Result<()> {
        let mut config = read_kubeconfig(&self.kubeconfig()).await?;
        config.default_retry = false; // the retries of a client would slow down the looks
        config.connect_timeout = Some(PROBE_TIMEOUT);
        config.read_timeout = Some(PROBE_TIMEOUT);
        let client = Client::try_from(config)?;
        let namespaces = Api::<Namespace>::all(client.clone());

        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay); // a slow look must not be followed by a burst
        loop {
            ticks.tick().await;
            self.check()?;
            let readyz = http::Request::get("/readyz").body(Vec::new())?;
            // "default" is the last of the namespaces that the API server makes, a moment after it is ready.
            if client.request_text(readyz).await.is_ok()
                && namespaces.get_opt("default").await.is_ok_and(|n| n.is_some())
            {
                return Ok(());
            }
        }
    }

    fn start_others(&self) -> Result<()> {
        let kubeconfig = self.kubeconfig();
        let mut started = Vec::new();
        if self.settings.scheduler {
            started.push(self.spawn("kube-scheduler", flags::scheduler(&kubeconfig))?);
        }
        if self.settings.controller_manager {
            let flags = flags::controller_manager(&kubeconfig, &self.settings);
            started.push(self.spawn("kube-controller-manager", flags)?);
        }
        if self.settings.kwok {
            fs::write(self.folder.path().join("kwok-stages.yaml"), flags::KWOK_STAGES)?;
            started.push(self.spawn("kwok", flags::kwok(&kubeconfig))?);
        }
        self.components.lock().others = started;
        Ok(())
    }

    fn spawn(&self, name: &'static str, flags: Vec<String>) -> Result<Component> {
        let program = binaries::program(self.programs, name)?;
        let log = self.logs.join(format!("{name}.log"));
        Component::start(name, &program, flags, self.folder.path(), log, self.janitor.group())
    }
}

/// After a panic the logs are gone in a moment; what ended by itself was perhaps the reason.
impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Err(error) = self.check()
        {
            writeln!(std::io::stderr(), "{error:#}").ok();
        }
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").field("url", &self.url()).field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

async fn read_kubeconfig(path: &Path) -> Result<Config> {
    Ok(Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?)
}

fn base_url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

/// A port that nobody but the API server gets: the kernel never gives a bound one to a socket that asks for any port,
/// while the API server asks for this one and shares it. We do not listen, so all connections are the API server's.
fn reserve_port() -> Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}
