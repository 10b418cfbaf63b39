//! `wasm-ccm doctor`: looks for what keeps a cluster and its host from working together, and says of each what to do. It reads, and changes
//! nothing.
//!
//! | module | judges |
//! |---|---|
//! | [`server`] | the API server, its version, and its clock |
//! | [`rights`] | the rights of the host: every rule of `manifests/base/rbac.yaml` |
//! | [`leases`], [`managers`] | who leads, and other managers beside the host |
//! | [`nodes`] | taints and provider IDs |
//! | [`provider`] | component, configuration and credentials, as `run` would |
//! | [`services`] | Services that wait, or hang in their deletion |
//! | [`webhook`], [`certificate`] | the certificates of the admission webhook |
//!
//! What they find is a [`finding`]. Decisions are made from values alone, so that each has a test.

mod certificate;
mod finding;
mod leases;
mod managers;
mod nodes;
mod provider;
mod rights;
mod server;
mod services;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_controllers::{Node, ReflectorHandle};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::SignedDuration;
use kube::Client;
use tokio::task::JoinSet;

use crate::check;
use crate::cli::{DoctorArgs, Output};
use crate::exit::Verdict;
use crate::output;
use finding::{Check, Finding, Report};
use leases::Led;
use provider::{Judge, Providers};
use server::Clock;

/// What needs an API server.
const OF_CLUSTER: [Check; 6] =
    [Check::Rights, Check::Leases, Check::Managers, Check::Nodes, Check::Services, Check::Webhook];

/// How long the lists of Nodes and Services may take.
const LISTS: Duration = Duration::from_secs(60);

/// Judges all, and prints what was found.
///
/// # Errors
///
/// Flags that cannot be, or an answer that cannot be written.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Verdict> {
    drop(args.leader.settings()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = Report::new(runtime.block_on(Box::pin(examine(args))));
    // Does not wait for the compiler, which cannot be stopped.
    runtime.shutdown_background();
    output::print(&match args.output {
        Output::Json => serde_json::to_string_pretty(&report)?,
        Output::Text => report.text(),
    })?;
    Ok(report.verdict())
}

async fn examine(args: &DoctorArgs) -> Vec<Finding> {
    let cluster = match connect(args).await {
        Ok((client, url)) => {
            let (findings, clock) = server::reach(&client, &url).await;
            (findings, clock.map(|clock| (client, clock)))
        }
        Err(error) => {
            let fix = "correct --kubeconfig or --master";
            (vec![Check::ApiServer.wrong(format!("{error:#}"), fix)], None)
        }
    };
    let (mut findings, cluster) = cluster;
    let configured = args.configured();
    let configs = configured.as_ref().map(Clone::clone).unwrap_or_default();
    let judge = Judge {
        client: cluster.as_ref().map(|(client, _)| client),
        cluster_name: &args.cluster_name,
        online: args.online,
        is_named: args.names_a_source(),
    };
    let (of_providers, providers) = judge.all(configured).await;
    let Some((client, clock)) = &cluster else {
        findings.extend(of_providers);
        let unjudged = |check: Check| check.unjudged("not judged without an API server", "first reach the API server");
        findings.extend(OF_CLUSTER.map(unjudged));
        return findings;
    };
    let peers = args.leader.peers(None);
    findings.extend(rights::review(client, &args.rights_of, &peers, &configs, args.names_a_source()).await);
    let (of_leases, led) = leases::read(client, &peers, args.leader.leader_elect, &args.beside, clock.now()).await;
    findings.extend(of_leases);
    findings.extend(managers::read(client, &peers.namespace, &args.beside).await);
    let (of_nodes, of_services) = objects(client, *clock, &providers, led, args.waiting_after).await;
    findings.extend(of_nodes);
    findings.extend(of_providers);
    findings.extend(of_services);
    findings.extend(webhook::judge(client, clock.now()).await);
    findings
}

/// A client, and the address that it asks.
async fn connect(args: &DoctorArgs) -> Result<(Client, String)> {
    let way = ccm_apiserver::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    // Without a password that stands in the URL.
    let (scheme, host) = (way.cluster_url.scheme_str().unwrap_or("https"), way.cluster_url.host().unwrap_or_default());
    let port = way.cluster_url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let url = format!("{scheme}://{host}{port}");
    let client = Client::try_from(way).context("the API server's address or credentials cannot be used")?;
    Ok((client, url))
}

/// What Nodes and Services show.
async fn objects(
    client: &Client,
    clock: Clock,
    providers: &Providers,
    led: Led,
    patience: Duration,
) -> (Vec<Finding>, Vec<Finding>) {
    let mut readers = JoinSet::new();
    let read = tokio::time::timeout(LISTS, check::stores(client, &mut readers)).await;
    let why = match read {
        Ok(Ok(stores)) => {
            let nodes: Vec<Arc<Node>> = stores.nodes.reader().state();
            let services: Vec<Arc<Service>> = stores
                .services
                .as_ref()
                .map(ReflectorHandle::reader)
                .map(|services| services.state())
                .unwrap_or_default();
            let (now, patience) = (clock.now(), SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX));
            let of_nodes = nodes::judge(&nodes, providers.descriptors.as_deref(), patience, now);
            let of_services =
                services::judge(&services, &services::Judge { classes: &providers.classes, led, patience, now });
            return (of_nodes, of_services);
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(_elapsed) => format!("no complete answer within {LISTS:?}"),
    };
    let unjudged = |check: Check| {
        let fix = "give a kubeconfig that may list and watch Nodes and Services";
        vec![check.unjudged(format!("Nodes and Services cannot be read: {why}"), fix)]
    };
    (unjudged(Check::Nodes), unjudged(Check::Services))
}
