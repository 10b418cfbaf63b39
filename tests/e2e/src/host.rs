//! The program under test: `wasm-ccm run` as a process of its own, with its log and its health port.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
pub use ccm_built::{component, program};
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::provider_page::ProviderPage;

/// The service account that `manifests/base` makes.
pub const SERVICE_ACCOUNT: (&str, &str) = ("kube-system", "wasm-ccm");

/// A port on loopback that is given to a program which listens there. It is bound, so that nobody gets it who asks for any port;
/// whoever asks for this one, as servers do (`SO_REUSEADDR`), listens there while this value does not.
pub struct Port {
    number: u16,
    _bound: TcpSocket,
}

impl Port {
    /// Takes one.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn take() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let number = socket.local_addr()?.port();
        Ok(Self { number, _bound: socket })
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// A running `wasm-ccm run`. Dropping it kills the process.
pub struct Host {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    port: Port,
    readers: JoinSet<()>,
}

impl Host {
    /// Starts the host with these flags; kubeconfig, port and format of the log are given already, and that there is no
    /// leader election, unless a flag is about that.
    ///
    /// # Errors
    ///
    /// The program is not there or does not start.
    pub fn start(kubeconfig: &Path, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self> {
        Self::start_in(kubeconfig, &[], flags)
    }

    /// The same with more variables in its environment.
    ///
    /// # Errors
    ///
    /// The program is not there or does not start.
    pub fn start_in(
        kubeconfig: &Path,
        environment: &[(&str, &str)],
        flags: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self> {
        let flags: Vec<OsString> = flags.into_iter().map(Into::into).collect();
        let is_about_election = |flag: &OsString| flag.to_string_lossy().starts_with("--leader-elect");
        let alone = if flags.iter().any(is_about_election) { None } else { Some("--leader-elect=false") };
        let mut command = Command::new(program()?);
        command
            .args(["run", "--bind-address=127.0.0.1", "--logging-format=json"])
            .args(alone)
            .args(flags)
            .envs(environment.iter().copied());
        Self::spawn(command, kubeconfig)
    }

    /// Starts the host as a pod would: with this command line and nothing in its environment but these variables. Added is only
    /// what differs outside of a pod: which cluster, and which port.
    ///
    /// # Errors
    ///
    /// The program is not there or does not start.
    pub fn start_pod(
        kubeconfig: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        command_line: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self> {
        let mut command = Command::new(program()?);
        command.env_clear().envs(environment).args(command_line.into_iter().map(Into::into));
        Self::spawn(command, kubeconfig)
    }

    fn spawn(mut command: Command, kubeconfig: &Path) -> Result<Self> {
        let port = Port::take()?;
        let mut child = command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--secure-port={}", port.number()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut readers = JoinSet::new();
        let errors = child.stderr.take().context("the host has no standard error")?;
        let kept = Arc::clone(&log);
        readers.spawn(async move {
            let mut lines = BufReader::new(errors).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().push(line);
            }
        });
        Ok(Self { child, log, port, readers })
    }

    /// Process ID.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().ok_or_else(|| anyhow!("the host has ended; its log:\n{}", self.log_text()))
    }

    /// The health port.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Lines of the log so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The log as one text.
    pub fn log_text(&self) -> String {
        self.log().join("\n")
    }

    /// Waits until a line of the log contains all of `parts`, and returns it.
    ///
    /// # Errors
    ///
    /// No line did within `limit`; the error shows the log.
    pub async fn await_log(&self, limit: Duration, parts: &[&str]) -> Result<String> {
        let find = || self.log.lock().iter().find(|line| parts.iter().all(|part| line.contains(part))).cloned();
        let waited = ccm_cluster::poll_until("a line in the host's log", limit, || find().is_some()).await;
        waited.with_context(|| format!("no line with {parts:?}; the log:\n{}", self.log_text()))?;
        find().ok_or_else(|| anyhow!("the line is gone"))
    }

    /// What a page of the health port answers: status and text.
    ///
    /// # Errors
    ///
    /// The port does not answer.
    pub async fn page(&self, path: &str) -> Result<(u16, String)> {
        self.page_with(path, &[]).await
    }

    /// The same for whoever sends these headers.
    ///
    /// # Errors
    ///
    /// The port does not answer.
    pub async fn page_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<(u16, String)> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port()).parse()?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let request =
            headers.iter().fold(http::Request::get(path), |request, (name, value)| request.header(*name, *value));
        let request = request.body(Vec::new())?;
        match client.request_text(request).await {
            Ok(text) => Ok((200, text)),
            Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
            Err(error) => Err(error.into()),
        }
    }

    /// What `/providerz` says of the only provider; nothing while the port is not open.
    pub async fn provider(&self) -> ProviderPage {
        let Ok((200, text)) = self.page("/providerz?format=json").await else { return ProviderPage::default() };
        let all: BTreeMap<String, ProviderPage> = serde_json::from_str(&text).unwrap_or_default();
        all.into_values().next().unwrap_or_default()
    }

    /// Waits until that is as it should be, and returns it.
    ///
    /// # Errors
    ///
    /// It was not within `limit`; the error shows it.
    pub async fn await_provider(&self, limit: Duration, holds: impl Fn(&ProviderPage) -> bool) -> Result<ProviderPage> {
        let mut last = ProviderPage::default();
        let look = async || {
            last = self.provider().await;
            Ok(holds(&last))
        };
        let waited = until(limit, look).await;
        waited.with_context(|| format!("/providerz says {last:#?}; the log:\n{}", self.log_text()))?;
        Ok(last)
    }

    /// The value of a metric without labels, or the sum over all labels.
    ///
    /// # Errors
    ///
    /// The port does not answer, or there is no such metric.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        self.metric_with(name, "").await
    }

    /// The sum of a metric over all that have this label, written as `name="value"`.
    ///
    /// # Errors
    ///
    /// The port does not answer, or there is no such metric.
    pub async fn metric_with(&self, name: &str, label: &str) -> Result<f64> {
        let (_, text) = self.page("/metrics").await?;
        let values: Vec<f64> = text
            .lines()
            .filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        ensure!(!values.is_empty(), "there is no metric {name} in:\n{text}");
        Ok(values.iter().sum())
    }

    /// The sum over all lines of a metric that contain all of `labels`, such as `outcome="ok"`; 0 when there is none.
    ///
    /// # Errors
    ///
    /// The port does not answer.
    pub async fn count(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let (_, text) = self.page("/metrics").await?;
        let of_metric = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let lines = text.lines().filter(of_metric).filter(|line| labels.iter().all(|label| line.contains(label)));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Waits until [`count`](Self::count) is as it should be, and returns it.
    ///
    /// # Errors
    ///
    /// It was not within `limit`; the error shows it.
    pub async fn await_count(
        &self,
        name: &str,
        labels: &[&str],
        limit: Duration,
        condition: impl Fn(f64) -> bool,
    ) -> Result<f64> {
        let mut last = Err(anyhow!("never asked"));
        let look = async || {
            // The port is not there at once.
            last = self.count(name, labels).await;
            Ok(last.as_ref().is_ok_and(|count| condition(*count)))
        };
        let waited = until(limit, look).await;
        waited.with_context(|| format!("{name} {labels:?} is {last:?}; the log:\n{}", self.log_text()))?;
        last
    }

    /// Waits until a page answers with this status, and returns its text.
    ///
    /// # Errors
    ///
    /// It did not within `limit`; the error shows what it says.
    pub async fn await_page(&self, path: &str, status: u16, limit: Duration) -> Result<String> {
        let mut last = (0, String::new());
        let look = async || {
            // The port is not there at once.
            last = self.page(path).await.unwrap_or_else(|error| (0, format!("{error:#}")));
            Ok(last.0 == status)
        };
        let waited = until(limit, look).await;
        waited.with_context(|| format!("{path} answers {last:?}, not {status}; the log:\n{}", self.log_text()))?;
        Ok(last.1)
    }

    /// Resident memory of the process in bytes: now, and its peak.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let read = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes: Option<u64> = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
            kilobytes.map(|kb| kb * 1024).ok_or_else(|| anyhow!("no {name} in:\n{status}"))
        };
        Ok((read("VmRSS:")?, read("VmHWM:")?))
    }

    /// Computing time so far.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        // After the name in brackets: field 3 is the first, fields 14 and 15 are user and system time in 1/100 s.
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Ends it as Kubernetes does, and waits.
    ///
    /// # Errors
    ///
    /// It did not end within 30 s.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal("TERM").await?;
        self.wait(Duration::from_secs(30)).await
    }

    /// Sends a signal: `TERM`, `KILL`, `STOP`, `CONT`.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub async fn signal(&self, name: &str) -> Result<()> {
        let kill = Command::new("kill").arg(format!("-{name}")).arg(self.pid()?.to_string()).status().await?;
        ensure!(kill.success(), "kill failed: {kill}");
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// It did not end within `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(ended) => {
                let ended = ended?;
                // What it said last is still on its way.
                tokio::time::timeout(limit, self.readers.join_next()).await.ok();
                Ok(ended)
            }
            Err(_) => bail!("the host runs on after {limit:?}; its log:\n{}", self.log_text()),
        }
    }
}

/// Waits until it holds; looks every 20 ms.
///
/// # Errors
///
/// It did not within `limit`, or the look failed.
pub async fn until(limit: Duration, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let waiting = async {
        while !holds().await? {
            ticks.tick().await;
        }
        Ok(())
    };
    tokio::time::timeout(limit, waiting).await.with_context(|| format!("waited in vain for {limit:?}"))?
}
