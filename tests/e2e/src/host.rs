//! The program under test: `wasm-ccm run` as a process of its own, with its log and its health port.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// The service account that `manifests/base` makes.
pub const SERVICE_ACCOUNT: (&str, &str) = ("kube-system", "wasm-ccm");

/// A running `wasm-ccm run`. Dropping it kills the process.
pub struct Host {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    port: u16,
    _readers: JoinSet<()>,
}

impl Host {
    /// Starts the host with these flags; kubeconfig, port and format of the log are given already.
    ///
    /// # Errors
    ///
    /// The program is not there or does not start.
    pub fn start(kubeconfig: &Path, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self> {
        // Free now; nobody else on this machine asks for one in this moment.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let program = program()?;
        let mut child = Command::new(&program)
            .arg("run")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--bind-address=127.0.0.1", "--logging-format=json"])
            .arg(format!("--secure-port={port}"))
            .args(flags.into_iter().map(Into::into))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
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
        Ok(Self { child, log, port, _readers: readers })
    }

    /// Process ID.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().ok_or_else(|| anyhow!("the host has ended; its log:\n{}", self.log_text()))
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
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let request = http::Request::get(path).body(Vec::new())?;
        match client.request_text(request).await {
            Ok(text) => Ok((200, text)),
            Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
            Err(error) => Err(error.into()),
        }
    }

    /// The value of a metric without labels, or the sum over all labels.
    ///
    /// # Errors
    ///
    /// The port does not answer, or there is no such metric.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let (_, text) = self.page("/metrics").await?;
        let values: Vec<f64> = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        ensure!(!values.is_empty(), "there is no metric {name} in:\n{text}");
        Ok(values.iter().sum())
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

    /// Ends it as Kubernetes does, and waits.
    ///
    /// # Errors
    ///
    /// It did not end within 30 s.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        let kill = Command::new("kill").args(["-TERM", &self.pid()?.to_string()]).status().await?;
        ensure!(kill.success(), "kill failed: {kill}");
        self.wait(Duration::from_secs(30)).await
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// It did not end within `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(ended) => Ok(ended?),
            Err(_) => bail!("the host runs on after {limit:?}; its log:\n{}", self.log_text()),
        }
    }
}

/// The program that was built together with this one.
///
/// # Errors
///
/// It was not.
pub fn program() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    // Tests lie one folder deeper than programs.
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join("wasm-ccm")).find(|path| path.is_file());
    beside
        .with_context(|| format!("there is no wasm-ccm beside {}: run `cargo build -p wasm-ccm` first", this.display()))
}

/// A component that the recipes built: `providers/cloudlycke.wasm`, `guests/hostile.wasm`.
///
/// # Errors
///
/// It was not built.
pub fn component(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name);
    ensure!(path.is_file(), "{} is not built: run `./just build-providers`, for guests `./just test`", path.display());
    Ok(path.canonicalize()?)
}
