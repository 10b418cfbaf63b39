//! `./just demo swap`: a provider takes over from another one under load, and six that are no good do not.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{
    ControlPlane, NodeFixture, Settings, UNINITIALIZED_TAINT, User, await_all, await_node, await_object,
};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component, program};
use ccm_e2e::manifest;
use ccm_e2e::provider_page::ProviderPage;
use ccm_e2e::successor::successor;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::process::Command;

use crate::load::Load;
use crate::{LIMIT, picture, say};

const MAP: &str = "cloudlycke";
const SOURCE: &str = "configmap:kube-system/cloudlycke";
/// What Cloudlycke 0.2.0 puts on Nodes, and 0.1.0 does not.
const LABEL: &str = "cloudlycke.io/edition";
/// A Service that stays, unlike those of the load.
const SHOP: &str = "shop";
/// Nodes and Services that come after each act before it counts.
const MORE: usize = 4;

/// The whole story.
pub(crate) async fn demo() -> Result<()> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let name = user.name.clone();
    ccm_cluster::ensure_binaries().await?;
    say("Starting a private Kubernetes: etcd and API server ...")?;
    let cluster = ControlPlane::start(Settings::default().user(user)).await?;
    say(&format!("Ready after {:.1} s.\n", cluster.ready_after().as_secs_f64()))?;
    let client = cluster.client().clone();
    manifest::apply_base(&client).await?;
    let mut stage = Stage {
        client,
        kubeconfig: cluster.kubeconfig(),
        folder: cluster.folder().join("pushed"),
        told: BTreeSet::new(),
    };
    std::fs::create_dir_all(&stage.folder)?;
    let (is_pushed, said) = stage.run_push(&component("providers/cloudlycke.wasm")?, &["--create"]).await?;
    ensure!(is_pushed, "{said}");
    say(&said)?;
    // Nobody wants to wait a minute here. A Service that failed is tried again within 10 s, and three calls that compute without an end,
    // one after the other, take less: both must fit in.
    let source = format!("--provider={SOURCE}");
    let flags = ["--cloud-provider=cloudlycke", &source, "--provider-probation=12s", "--limit=call-cpu=500ms"];
    say(&format!("wasm-ccm run {}\n", flags.join(" ")))?;
    let mut host = Host::start(cluster.kubeconfig_of(&name)?, flags)?;
    let happened = Box::pin(stage.acts(&host)).await;
    happened.with_context(|| format!("the host's log:\n{}", host.log_text()))?;
    let ended = host.terminate().await?;
    ensure!(ended.success(), "the host ended with {ended}; its log:\n{}", host.log_text());
    say("Host stopped, cluster gone.")
}

struct Stage {
    client: Client,
    /// Of the administrator: the host may only read.
    kubeconfig: PathBuf,
    folder: PathBuf,
    /// Events that were shown.
    told: BTreeSet<String>,
}

impl Stage {
    async fn acts(&mut self, host: &Host) -> Result<()> {
        host.await_page("/readyz", 200, LIMIT).await?;
        say("BEFORE  Cloudlycke 0.1.0 serves; nodes register, Services are made and deleted, all the time\n")?;
        self.shows(host, "node-before", None).await?;
        let mut load = Load::start(&self.client);
        load.goes_on(MORE).await?;
        host.await_provider(LIMIT, |page| page.phase == "proven").await?;
        say(&load.told(&[]).await?)?;

        say("NEXT    Cloudlycke 0.2.0 is pushed; it puts one label more on nodes\n")?;
        self.takes_over(host).await?;
        self.shows(host, "node-after", Some("second")).await?;
        load.goes_on(MORE).await?;
        host.await_provider(LIMIT, |page| page.phase == "proven").await?;
        say(&load.told(&[]).await?)?;

        let good = std::fs::read(component("providers/cloudlycke.wasm")?)?;
        let refused = [("garbage", b"#!/bin/sh\n".to_vec()), ("a component for another contract", foreign(good))];
        for (what, bytes) in refused {
            say(&format!(
                "NEXT    {what}: `push` refuses it, and whoever writes the ConfigMap without it gains nothing\n"
            ))?;
            self.is_refused(&bytes).await?;
            self.stays(host, &mut load, &[]).await?;
        }
        say("NEXT    one that calls load balancers otherwise, and would make each of them a second time\n")?;
        let file = self.file(&successor(&[("version", "0.3.0"), ("behaviour", "renamed")])?)?;
        self.push(&file).await?;
        let event = self.event("ProviderRejected").await?;
        ensure!(event.contains("step compare of the gate"), "{event}");
        say(&event)?;
        self.stays(host, &mut load, &[]).await?;
        let failing = [("crashes", "trap", "crashed"), ("computes without an end", "loop", "call-cpu")];
        for (what, behaviour, unanswered) in failing {
            say(&format!("NEXT    one that {what} with all that is new: nobody can tell before it serves\n"))?;
            let fields = [("version", "0.3.0"), ("behaviour", behaviour), ("when", "new")];
            let file = self.file(&successor(&fields)?)?;
            self.push(&file).await?;
            let event = self.event("ProviderRolledBack").await?;
            say(&event)?;
            self.stays(host, &mut load, &[unanswered]).await?;
        }
        say("NEXT    one that changes load balancers, and makes new ones where 0.2.0 does not find them\n")?;
        self.is_repaired(host).await?;
        self.stays(host, &mut load, &["does not find what it made", "was taken back"]).await?;
        say("END     the load ends\n")?;
        say(&load.end().await?)
    }

    /// Pushes the next version, and says how it was taken.
    async fn takes_over(&self, host: &Host) -> Result<()> {
        self.push(&component("providers/cloudlycke-next.wasm")?).await?;
        let pushed = Timestamp::now();
        let is_new = |page: &ProviderPage| page.serving.version == "0.2.0" && page.times.first_call_ms.is_some();
        let page = host.await_provider(LIMIT, is_new).await?;
        let times = page.times;
        let first_call = times.first_call_ms.context("a call was awaited")?;
        let exchanged = page.since.duration_since(pushed).as_secs_f64() * 1e3;
        let row = |what: &str, time: f64| format!("  {time:>8.2} ms  {what}\n");
        say(&format!("  /providerz: {}, generation {}\n", page.serving.digest, page.generation))?;
        say(&[
            row("from the push to the first call that ended on it; of that:", exchanged + first_call),
            row("  until it was read, and had stayed the same for half a second", times.read_ms),
            row("  the compiler", times.compile_ms),
            row("  the rest of the gate", times.takeover_ms),
            row("  the exchange itself", times.exchange_ms),
            row("  from there to the end of the first call", first_call),
        ]
        .concat())
    }

    /// The host refuses it as well as `push`.
    async fn is_refused(&mut self, bytes: &[u8]) -> Result<()> {
        let (is_pushed, said) = self.run_push(&self.file(bytes)?, &[]).await?;
        ensure!(!is_pushed, "it was pushed: {said}");
        say(&said)?;
        let written = ConfigMap {
            binary_data: Some([("cloudlycke.wasm".to_owned(), ByteString(bytes.to_vec()))].into()),
            ..ConfigMap::default()
        };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "kube-system");
        api.patch(MAP, &PatchParams::default(), &Patch::Merge(&written)).await?;
        let event = self.event("ProviderRejected").await?;
        say(&event)
    }

    /// A component has changed a load balancer before it is rolled back: the one that returns ensures it again. Nobody can tell before
    /// it serves: it does well with all that is there.
    async fn is_repaired(&mut self, host: &Host) -> Result<()> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        // Of another kind than those of the load, so that it is among the first that are ensured for another revision.
        let shop = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": SHOP },
            "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{ "port": 443 }] },
        });
        services.create(&PostParams::default(), &serde_json::from_value(shop)?).await?;
        let good = Writer::serving(&host.provider().await);
        good.await_written(&services).await?;
        say(&format!("  Service {SHOP}: its load balancer was written by {good}\n"))?;

        let fields = [("version", "0.3.0"), ("revision", "2")];
        let file = self.file(&successor(&fields)?)?;
        self.push(&file).await?;
        let bad = Writer::serving(&host.await_provider(LIMIT, |page| page.serving.version == "0.3.0").await?);
        bad.await_written(&services).await?;
        say(&format!("  Service {SHOP}: its load balancer was written by {bad}\n"))?;

        let event = self.event("ProviderRolledBack").await?;
        say(&event)?;
        good.await_written(&services).await?;
        say(&format!("  Service {SHOP}: its load balancer was written again by {good}\n"))
    }

    /// Cloudlycke 0.2.0 serves, and nothing is lost.
    async fn stays(&self, host: &Host, load: &mut Load, failures: &[&str]) -> Result<()> {
        load.goes_on(MORE).await?;
        let page = host.await_provider(LIMIT, |page| page.serving.version == "0.2.0").await?;
        say(&format!("  /providerz: cloudlycke 0.2.0 serves, {}, generation {}", page.phase, page.generation))?;
        say(&load.told(failures).await?)
    }

    /// A Node that registers now has the label, or not.
    async fn shows(&self, host: &Host, name: &str, edition: Option<&str>) -> Result<()> {
        NodeFixture::new(name).internal_ip("10.9.0.1").register(&self.client).await?;
        let node = await_node(&self.client, name, LIMIT, |node| !picture::has_taint(node, UNINITIALIZED_TAINT)).await?;
        let label = node.labels().get(LABEL).map(String::as_str);
        ensure!(label == edition, "{name} has {label:?}");
        let page = host.provider().await;
        say(&format!("  {:11}  {:15}  {LABEL}", "NODE", "PROVIDER"))?;
        say(&format!("  {name:11}  {:15}  {}\n", page.serving.version, label.unwrap_or("-")))
    }

    fn file(&self, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join("new.wasm");
        std::fs::write(&path, bytes)?;
        Ok(path)
    }

    async fn push(&self, file: &Path) -> Result<()> {
        let (is_pushed, said) = self.run_push(file, &[]).await?;
        ensure!(is_pushed, "{said}");
        say(&said)
    }

    /// Whether it was pushed, and what is said, as a person sees it.
    async fn run_push(&self, file: &Path, flags: &[&str]) -> Result<(bool, String)> {
        let mut command = Command::new(program()?);
        command.arg("push").arg(file).arg(SOURCE).args(flags).arg("--kubeconfig").arg(&self.kubeconfig);
        let pushed = tokio::time::timeout(LIMIT, command.kill_on_drop(true).output()).await;
        let output = pushed.with_context(|| format!("wasm-ccm push runs on after {LIMIT:?}"))??;
        let said = [output.stdout, output.stderr].concat();
        let folder = file.parent().context("a file is in a folder")?.display().to_string() + "/";
        let name = file.file_name().unwrap_or_default().display();
        let flags: String = flags.iter().map(|flag| format!(" {flag}")).collect();
        let mut text = format!("  $ wasm-ccm push {name} {SOURCE}{flags}\n");
        for line in String::from_utf8_lossy(&said).replace(&folder, "").lines() {
            text += &format!("  {line}\n");
        }
        Ok((output.status.success(), text))
    }

    /// The next Event about the ConfigMap with this reason.
    async fn event(&mut self, reason: &str) -> Result<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "kube-system");
        let selection = watcher::Config::default().fields(&format!("reason={reason},involvedObject.name={MAP}"));
        let message = |event: &Event| event.message.clone().filter(|text| !self.told.contains(text));
        let events =
            await_all(&api, selection, LIMIT, |events| events.values().any(|event| message(event).is_some())).await?;
        let text = events.values().find_map(message).context("an Event was awaited")?;
        self.told.insert(text.clone());
        Ok(format!("  Event {reason}: {text}\n"))
    }
}

/// A component, as the records of Services name it.
struct Writer {
    version: String,
    /// The first digits of its digest.
    digits: String,
}

impl Writer {
    fn is_last(&self, record: &str) -> bool {
        record.split(" by=").nth(1).and_then(|writers| writers.split(',').next_back()) == Some(&self.digits)
    }

    fn serving(page: &ProviderPage) -> Self {
        let digits = page.serving.digest.trim_start_matches("sha256:").chars().take(12).collect();
        Self { version: page.serving.version.clone(), digits }
    }

    /// Waits until the record of the shop says that it was written by this one last.
    async fn await_written(&self, services: &Api<Service>) -> Result<()> {
        let is_so = |service: &Service| {
            let conditions =
                service.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            let record = conditions.iter().find(|condition| condition.type_ == "LoadBalancerRecorded");
            record.is_some_and(|record| record.status == "True" && self.is_last(&record.message))
        };
        await_object(services, SHOP, LIMIT, is_so).await?;
        Ok(())
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sha256:{})", self.version, self.digits)
    }
}

/// The component as if it were built for a version of the contract that is not there yet.
fn foreign(mut component: Vec<u8>) -> Vec<u8> {
    let (ours, other) = (b"@0.2.0", b"@0.9.0");
    let at: Vec<usize> =
        component.windows(ours.len()).enumerate().filter(|(_, part)| part == ours).map(|(at, _)| at).collect();
    for at in at {
        if let Some(part) = component.get_mut(at..at + other.len()) {
            part.copy_from_slice(other);
        }
    }
    component
}
