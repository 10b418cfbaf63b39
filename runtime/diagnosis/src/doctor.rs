//! `wasm-ccm doctor`: looks for what keeps a cluster and its host from working together, and says of each what to do. It reads, and changes
//! nothing.
//!
//! | module | judges |
//! |---|---|
//! | [`server`] | the API server, its version, and its clock |
//! | [`rights`], [`grant`] | the rights of the host: every rule of `manifests/base/rbac.yaml`, and the command that gives them |
//! | [`leases`], [`managers`] | who leads, and other managers beside the host |
//! | [`nodes`] | taints and provider IDs |
//! | [`provider`] | component, configuration and credentials, as `run` would |
//! | [`services`] | Services that wait, or hang in their deletion |
//! | [`webhook`], [`certificate`] | the certificates of the admission webhook |
//!
//! What they find is a [`finding`]. Decisions are made from values alone, so that each has a test.

mod certificate;
mod finding;
mod grant;
mod leases;
mod managers;
mod nodes;
mod provider;
mod rights;
mod server;
mod services;
mod webhook;

use std::time::Duration;

use anyhow::Result;
use ccm_rollout::PeerSettings;
use ccm_rollout::config::ProviderConfig;
use k8s_openapi::jiff::SignedDuration;
use kube::Client;

use crate::ask::{Access, objects, pods};
use finding::{Check, Finding};
use leases::Led;
use provider::{Judge, Providers};
use server::Clock;

pub use finding::Report;
pub use rights::RightsOf;

/// What needs an API server.
const OF_CLUSTER: [Check; 6] =
    [Check::Rights, Check::Leases, Check::Managers, Check::Nodes, Check::Services, Check::Webhook];

/// How long the lists of Nodes and Services may take.
const LISTS: Duration = Duration::from_secs(60);

/// What is examined.
pub struct DoctorSettings {
    /// How to reach the API server.
    pub access: Access,
    /// The name of the cluster, for the provider.
    pub cluster_name: String,
    /// Whose rights are checked.
    pub rights_of: RightsOf,
    /// Managers that may run beside the host: names of Leases or of programs.
    pub beside: Vec<String>,
    /// A Node or a Service that waits for longer is told.
    pub waiting_after: Duration,
    /// The providers of the host, or why the flags name none.
    pub providers: Result<Vec<ProviderConfig>>,
    /// Whether the operator said where components are.
    pub is_source_named: bool,
    /// Ask the cloud as well.
    pub online: bool,
    /// The Lease of the hosts.
    pub peers: PeerSettings,
    /// Whether there is a leader election.
    pub is_elected: bool,
}

/// Judges all.
pub async fn doctor(settings: DoctorSettings) -> Report {
    Report::new(Box::pin(examine(settings)).await)
}

async fn examine(settings: DoctorSettings) -> Vec<Finding> {
    let (mut findings, cluster) = reach(&settings.access).await;
    let configs = settings.providers.as_ref().map(Clone::clone).unwrap_or_default();
    let judge = Judge {
        client: cluster.as_ref().map(|(client, _)| client),
        cluster_name: &settings.cluster_name,
        online: settings.online,
        is_named: settings.is_source_named,
    };
    let judging = judge.all(settings.providers);
    let Some((client, clock)) = &cluster else {
        findings.extend(Box::pin(judging).await.0);
        let unjudged = |check: Check| check.unjudged("not judged without an API server", "first reach the API server");
        findings.extend(OF_CLUSTER.map(unjudged));
        return findings;
    };
    let PeerSettings { namespace, .. } = &settings.peers;
    let pods = pods::living(client, namespace).await;
    let leases = leases::Judge {
        peers: &settings.peers,
        is_elected: settings.is_elected,
        beside: &settings.beside,
        pods: pods.as_deref().unwrap_or_default(),
    };
    // To look at a Lease takes some seconds, as does the compiler.
    let ((of_leases, led), (of_providers, providers)) = tokio::join!(leases.read(client, *clock), Box::pin(judging));
    findings
        .extend(rights::review(client, &settings.rights_of, &settings.peers, &configs, settings.is_source_named).await);
    findings.extend(of_leases);
    findings.extend(managers::judge(pods.as_deref(), &settings.peers, &settings.beside));
    let (of_nodes, of_services) = listed(client, *clock, &providers, led, settings.waiting_after).await;
    findings.extend(of_nodes);
    findings.extend(of_providers);
    findings.extend(of_services);
    findings.extend(webhook::judge(client, clock.now()).await);
    findings
}

/// The API server, if it answers, and its clock.
async fn reach(access: &Access) -> (Vec<Finding>, Option<(Client, Clock)>) {
    match access.connect().await {
        Ok(cluster) => {
            let (findings, clock) = server::reach(&cluster.client, &cluster.place).await;
            (findings, clock.map(|clock| (cluster.client, clock)))
        }
        Err(error) => {
            let fix = "correct --kubeconfig or --master";
            (vec![Check::ApiServer.wrong(format!("{error:#}"), fix)], None)
        }
    }
}

/// What Nodes and Services show.
async fn listed(
    client: &Client,
    clock: Clock,
    providers: &Providers,
    led: Led,
    patience: Duration,
) -> (Vec<Finding>, Vec<Finding>) {
    let lists = async { tokio::join!(objects::nodes(client), objects::services(client)) };
    let Ok((nodes, services)) = tokio::time::timeout(LISTS, lists).await else {
        let why = || format!("no complete answer within {LISTS:?}");
        return (vec![unread(Check::Nodes, "Nodes", &why())], vec![unread(Check::Services, "Services", &why())]);
    };
    let (now, patience) = (clock.now(), SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX));
    let of_nodes = match &nodes {
        Ok(nodes) => nodes::judge(nodes, providers.descriptors.as_deref(), patience, now),
        Err(why) => vec![unread(Check::Nodes, "Nodes", why)],
    };
    let of_services = match services {
        Ok(services) => {
            let (classes, nodes) = (providers.classes.as_slice(), nodes.as_deref().ok());
            services::judge(&services, &services::Judge { classes, led, nodes, patience, now })
        }
        Err(why) => vec![unread(Check::Services, "Services", &why)],
    };
    (of_nodes, of_services)
}

fn unread(check: Check, kind: &str, why: &str) -> Finding {
    check.unjudged(format!("{kind} cannot be read: {why}"), format!("give a kubeconfig that may list {kind}"))
}
