//! The budget of requests: what the cloud says is left to the host that leads, as its page of metrics shows it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ccm_rollout::PeerSettings;
use ccm_status::Figures;
use http::Uri;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};

use super::finding::{Check, Finding};
use super::leases::Led;
use crate::ask::health_port::{client_of, series};
use crate::ask::lease;
use crate::ask::pods::{is_host, may_hold, port};

/// Where the figures are.
const METRICS: &str = "/metrics";
const LEADS: &str = "leader_election_master_status";
const REMAINING: &str = "ccm_cloud_requests_remaining";
const LIMIT: &str = "ccm_cloud_requests_limit";
const DOWN: &str = "ccm_cloud_circuit_open";
const ASKED_FOR: &str = "ccm_cloud_requests_total";
/// What of the page counts.
const FIGURES: [&str; 5] = [LEADS, REMAINING, LIMIT, DOWN, ASKED_FOR];
/// More endpoints than a host has, and as many as one of its components may have: whoever answers may be none.
const MOST: usize = 64;
/// No name of a provider or of an endpoint has more bytes, as far as it is kept.
const MAX_LABEL: usize = 256;
/// So many endpoints are told with their figures; the others are named, or counted.
const TOLD: usize = 5;
/// So many hosts are asked whether they lead.
const ASKED: usize = 3;
/// Less than this part of what the cloud allows is too little: that of the alert WasmCCMCloudBudgetExhausted.
const LOW: f64 = 0.05;

/// Why nothing is known, and the way out.
struct Silence {
    why: String,
    fix: String,
    /// Nobody said where the leader answers, and the way by the API server does not lead there, as with our manifests.
    is_usual: bool,
}

/// Whom to ask.
pub(super) struct Judge<'a> {
    pub(super) client: &'a Client,
    pub(super) peers: &'a PeerSettings,
    /// Those that live, or why they cannot be read.
    pub(super) pods: Result<&'a [Pod], &'a String>,
    pub(super) led: Led,
    /// It does not lead.
    pub(super) is_dry_run: bool,
    /// The health port of the leader; without it, the leader is found.
    pub(super) address: Option<&'a Uri>,
}

impl Judge<'_> {
    /// Asks the leader.
    pub(super) async fn read(&self) -> Vec<Finding> {
        if self.is_dry_run && self.address.is_none() {
            let found = "not judged: this is a dry run, which does not lead";
            let fix = "nothing; with --address, doctor reads what the cloud leaves to the dry run";
            return vec![Check::Budget.note(found, fix)];
        }
        let unled = match self.led {
            Led::No => Some(("not judged while nobody leads", "first let a host lead (see leases)")),
            Led::Unseen => Some((
                "not judged while no host is seen to lead",
                "first do what leases says, or give the address of the host that works with --address",
            )),
            Led::Yes | Led::Unknown => None,
        };
        if let Some((found, fix)) = unled.filter(|_| self.address.is_none()) {
            return vec![Check::Budget.unjudged(found, fix)];
        }
        match self.figures().await {
            Ok((place, told)) => judge(&told, &place),
            Err(Silence { why, fix, is_usual }) => {
                let found = format!("what the cloud leaves to the leader is not known: {why}");
                // Where nothing is wrong, a cluster as our manifests make it is fine.
                vec![if is_usual { Check::Budget.note(found, fix) } else { Check::Budget.unjudged(found, fix) }]
            }
        }
    }

    /// Who answered, and what.
    async fn figures(&self) -> Result<(String, Told), Silence> {
        let not_known = |why, fix| Silence { why, fix, is_usual: false };
        let usual = |why, fix| Silence { why, fix, is_usual: true };
        let Self { client, peers, address, .. } = self;
        let namespace = peers.namespace.as_str();
        if let Some(address) = address {
            let place = format!("the host at {address}");
            let asked = async { self.ask(&client_of(address)?, METRICS).await };
            let told = asked.await.map_err(|why| {
                not_known(format!("{place}: {why}"), "do what the message says, or correct --address".to_owned())
            })?;
            return Ok((place, told));
        }
        let pods = self.pods.map_err(|why| {
            not_known(why.clone(), format!("give a kubeconfig that may list pods in {namespace}, or --address"))
        })?;
        let hold = lease::look(client, namespace, &peers.lease).await;
        let hold =
            hold.map_err(|why| not_known(why, "give a kubeconfig that may read the Lease, or --address".to_owned()))?;
        let holder = hold.map(|hold| hold.holder).unwrap_or_default();
        let mut tried = vec![];
        // In the host network, those of one node cannot be told apart before they have answered: one may be a dry run.
        for pod in pods.iter().filter(|pod| is_host(pod) && may_hold(pod, &holder)).take(ASKED) {
            let (pod, port) = (pod.name_any(), port(pod));
            let path = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy{METRICS}");
            let place = format!("pod {namespace}/{pod}");
            match self.ask(client, &path).await {
                Ok(told) if told.leads => return Ok((place, told)),
                Ok(Told { unread: None, .. }) => tried.push((format!("{place} does not lead"), None)),
                Ok(Told { unread: Some(unread), .. }) => {
                    tried.push((format!("whether {place} leads was not seen on its page of metrics: {unread}"), None));
                }
                Err(why) => {
                    let fix = format!(
                        "`kubectl -n {namespace} port-forward {pod} {port}`, and in another terminal the same command with --address=https://127.0.0.1:{port}"
                    );
                    tried.push((format!("{place}: {why}"), Some(fix)));
                }
            }
        }
        let fix = tried.iter_mut().find_map(|(_, fix)| fix.take()).unwrap_or_else(|| {
            "give the URL of the leader's health port with --address, such as https://127.0.0.1:10258".to_owned()
        });
        let tried: Vec<String> = tried.into_iter().map(|(why, _)| why).collect();
        let nobody = || format!("the leader is no pod in {namespace}");
        Err(usual(if tried.is_empty() { nobody() } else { tried.join("; ") }, fix))
    }

    /// The figures of one host.
    async fn ask(&self, client: &Client, path: &str) -> Result<Told, String> {
        let cluster = Some((self.client, self.peers.namespace.as_str()));
        let mut told = Told::default();
        let unread = series(client, path, cluster, &FIGURES, |line| told.take(line, &self.peers.lease)).await?;
        Ok(Told { unread: unread.or(told.unread), ..told })
    }
}

/// What a host says.
#[derive(Debug, Default)]
struct Told {
    /// Under the Lease that was asked for.
    leads: bool,
    /// By provider and endpoint.
    endpoints: BTreeMap<[String; 2], Left>,
    /// What of the page was not read.
    unread: Option<String>,
}

impl Told {
    /// A series of [`FIGURES`].
    fn take(&mut self, line: &str, lease: &str) {
        let figures = Figures::read(line);
        self.leads |= figures.one(LEADS, &[("name", lease)]) == Some(1.0);
        for name in [REMAINING, LIMIT, DOWN, ASKED_FOR] {
            for (key, value) in figures.by(name, ["provider", "endpoint"]) {
                let key = key.map(Cow::into_owned);
                if key.iter().any(String::is_empty) {
                    continue;
                }
                let too_much = if key.iter().any(|label| label.len() > MAX_LABEL) {
                    Some(format!("it names a provider or an endpoint with more than {MAX_LABEL} bytes"))
                } else if self.endpoints.len() >= MOST && !self.endpoints.contains_key(&key) {
                    Some(format!("it names more than {MOST} endpoints"))
                } else {
                    None
                };
                if too_much.is_some() {
                    self.unread = self.unread.take().or(too_much);
                    continue;
                }
                let left = self.endpoints.entry(key).or_default();
                match name {
                    REMAINING => left.remaining = Some(value),
                    LIMIT => left.limit = Some(value),
                    DOWN => left.is_down = value > 0.0,
                    _ => left.is_asked |= value > 0.0,
                }
            }
        }
    }
}

/// What is known of one endpoint.
#[derive(Debug, Default)]
struct Left {
    remaining: Option<f64>,
    limit: Option<f64>,
    is_down: bool,
    is_asked: bool,
}

fn judge(told: &Told, place: &str) -> Vec<Finding> {
    let check = Check::Budget;
    let is_known = |left: &Left| left.is_asked || left.is_down || left.remaining.is_some();
    let mut all: Vec<_> = told.endpoints.iter().filter(|(_, left)| is_known(left)).collect();
    let unread = told.unread.as_ref().map(|unread| {
        let found = format!("{place} may have said more of its requests on its page of metrics: {unread}");
        check.unjudged(found, "look at ccm_cloud_requests_remaining on its /metrics, or in your Prometheus")
    });
    if let ([], Some(unread)) = (all.as_slice(), &unread) {
        return vec![unread.clone()];
    }
    if all.is_empty() {
        let found = format!("{place} has asked no cloud since it started");
        return vec![check.note(found, "nothing, if its provider needs no cloud; else look whether it leads (see leases), and run doctor again later")];
    }
    let (mut findings, mut down, mut low) = (vec![], vec![], vec![]);
    for ([provider, endpoint], left) in all.iter().copied() {
        let about = format!("Endpoint {endpoint} of {provider}");
        if left.is_down {
            down.push(about.clone());
        }
        let Some(remaining) = left.remaining else { continue };
        let limit = left.limit.filter(|limit| *limit > 0.0);
        if limit.map_or(remaining <= 0.0, |limit| remaining / limit < LOW) {
            let of = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
            let until = "the cloud refuses all until it gives new ones";
            let found = match remaining <= 0.0 {
                true => format!("no request{of} is left: {until}"),
                false => format!("{remaining}{of} requests are left: when they are used up, {until}"),
            };
            low.push((about, found));
        }
    }
    let fix = "give the host a credential of its own account, so that nobody else uses its requests up, or lower requests-per-second with --limit: docs/guides/configure-a-provider.md, \"How the host asks a cloud\"";
    let mut others: Vec<String> = low.split_off(low.len().min(TOLD)).into_iter().map(|(about, _)| about).collect();
    // Those are named already.
    others.retain(|about| !down.contains(about));
    if !down.is_empty() {
        let found = format!("{place} considers it down, and sends only test requests");
        let fix = "doctor --online says whether it can be reached from here; the log of the host has the last errors";
        findings.push(check.wrong(found, fix).about(down));
    }
    findings.extend(low.into_iter().map(|(about, found)| check.wrong(found, fix).about([about])));
    if !others.is_empty() {
        findings.push(check.wrong(format!("less than {}% of the requests are left", LOW * 100.0), fix).about(others));
    }
    if findings.is_empty() {
        let told = |([provider, endpoint], left): (&[String; 2], &Left)| match (left.remaining, left.limit) {
            (Some(remaining), Some(limit)) => {
                format!("{remaining} of {limit} requests are left at {endpoint} of {provider}")
            }
            (Some(remaining), None) => format!("{remaining} requests are left at {endpoint} of {provider}"),
            (None, _) => format!("{endpoint} of {provider} names no limit"),
        };
        // Those with figures first.
        all.sort_by_key(|(_, left)| left.remaining.is_none());
        let more = all.len().saturating_sub(TOLD);
        let more = (more > 0).then(|| format!("and {more} more endpoints"));
        findings.push(check.good(all.into_iter().take(TOLD).map(told).chain(more).collect::<Vec<_>>().join("; ")));
    }
    findings.extend(unread);
    findings
}

#[cfg(test)]
mod tests;
