//! `wasm-ccm doctor`: looks for what keeps a cluster and its host from working together, and says of each what to do. It reads, and changes
//! nothing.
//!
//! | module | judges |
//! |---|---|
//! | [`server`] | the API server, its version, and its clock |
//! | [`rights`], [`grant`] | the rights of the host: every rule of `manifests/base/rbac.yaml`, and the command that gives them |
//! | [`purpose`] | nothing: it finds out whether the hosts work, or are a dry run, which needs less |
//! | [`leases`], [`managers`] | who leads, and other managers beside the host |
//! | [`hosts`] | the pods of the host: whether they run, and could on a new cluster |
//! | [`nodes`] | taints and provider IDs |
//! | [`provider`] | component, configuration and credentials, as `run` would |
//! | [`network`] | the ways to the cloud: names, proxies, certificates, and whether somebody answers |
//! | [`budget`] | how many requests the cloud leaves to the leader |
//! | [`services`] | Services that wait, or are stuck in deletion |
//! | [`webhook`], [`certificate`] | the certificates of the admission webhook |
//!
//! What they find is a [`finding`]. Decisions are made from values alone, so that each has a test.

mod budget;
mod certificate;
mod finding;
mod grant;
mod hosts;
mod leases;
mod managers;
mod network;
mod nodes;
mod provider;
mod purpose;
mod rights;
mod server;
mod services;
mod webhook;

use std::time::Duration;

use anyhow::Result;
use ccm_rollout::PeerSettings;
use ccm_rollout::config::ProviderConfig;
use http::Uri;
use k8s_openapi::jiff::SignedDuration;
use kube::Client;

use crate::ask::{Access, objects, pods};
use crate::paste::Paste;
use crate::plain::without_keys;
use finding::{Check, Finding};
use leases::Led;
use provider::{Judge, Providers};
use purpose::Purpose;
use server::Clock;

pub use finding::Report;
pub use rights::RightsOf;

/// What needs an API server.
const OF_CLUSTER: [Check; 8] = [
    Check::Rights,
    Check::Leases,
    Check::Hosts,
    Check::Managers,
    Check::Nodes,
    Check::Budget,
    Check::Services,
    Check::Webhook,
];

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
    /// The host is a dry run, also where none can be seen.
    pub is_dry_run: bool,
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
    /// Judge the providers, and nothing of the cluster: no API server is asked.
    pub providers_only: bool,
    /// The Lease of the hosts.
    pub peers: PeerSettings,
    /// Whether there is a leader election.
    pub is_elected: bool,
    /// The health port of the leader; without it, the leader is found by its Lease.
    pub address: Option<Uri>,
}

/// Judges all.
pub async fn doctor(settings: DoctorSettings) -> Report {
    let PeerSettings { namespace, lease, .. } = &settings.peers;
    let paste = Paste::new(&settings.access).with_host(settings.address.as_ref(), namespace, lease);
    let findings = Box::pin(examine(settings)).await;
    Report::new(findings.into_iter().map(|finding| finding.completed(&paste)).collect())
}

async fn examine(settings: DoctorSettings) -> Vec<Finding> {
    if settings.providers_only {
        let judge = judge_of_providers(&settings, None);
        return Box::pin(judge.all(settings.providers)).await.0;
    }
    let (mut findings, cluster) = reach(&settings.access).await;
    if let Some((client, clock)) = cluster {
        findings.extend(Box::pin(of_cluster(&client, clock, settings)).await);
        return findings;
    }
    let judge = judge_of_providers(&settings, None);
    findings.extend(Box::pin(judge.all(settings.providers)).await.0);
    let unjudged = |check: Check| check.unjudged("not judged without an API server", "first reach the API server");
    findings.extend(OF_CLUSTER.map(unjudged));
    findings
}

fn judge_of_providers<'a>(settings: &DoctorSettings, client: Option<&'a Client>) -> Judge<'a> {
    let (cluster_name, online, is_named) = (settings.cluster_name.clone(), settings.online, settings.is_source_named);
    Judge { client, cluster_name, online, is_named }
}

/// All but the API server itself.
async fn of_cluster(client: &Client, clock: Clock, settings: DoctorSettings) -> Vec<Finding> {
    let configs = settings.providers.as_ref().map(Clone::clone).unwrap_or_default();
    let judge = judge_of_providers(&settings, Some(client));
    let judging = judge.all(settings.providers);
    let mut findings = vec![];
    let PeerSettings { namespace, .. } = &settings.peers;
    let pods = pods::living(client, namespace).await;
    let hosts = purpose::hosts(client, namespace, pods.as_deref()).await;
    let purpose = Purpose::of(&hosts, settings.is_dry_run);
    let leases = leases::Judge {
        peers: &settings.peers,
        is_elected: settings.is_elected,
        is_dry_run: purpose.is_dry_run(),
        beside: &settings.beside,
        pods: pods.as_deref(),
    };
    // To look at a Lease takes some seconds, as does the compiler.
    let ((of_leases, led), (of_providers, providers)) = tokio::join!(leases.read(client, clock), Box::pin(judging));
    let wanted = rights::Wanted {
        peers: &settings.peers,
        providers: &configs,
        is_named: settings.is_source_named,
        purpose,
        hosts: &hosts,
    };
    findings.extend(rights::review(client, &settings.rights_of, &wanted).await);
    findings.extend(of_leases);
    let patience = patience(settings.waiting_after);
    findings.extend(hosts::judge(pods.as_deref(), namespace, patience, clock.now()));
    findings.extend(managers::judge(pods.as_deref(), &settings.peers, &settings.beside, purpose));
    let (of_nodes, of_services) = listed(client, clock, &providers, led, patience).await;
    findings.extend(of_nodes);
    findings.extend(of_providers);
    if providers.asks_a_cloud() {
        let budget = budget::Judge {
            client,
            peers: &settings.peers,
            pods: pods.as_deref(),
            led,
            is_dry_run: purpose.is_dry_run(),
            address: settings.address.as_ref(),
        };
        findings.extend(budget.read().await);
    }
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
            (vec![Check::ApiServer.wrong(without_keys(&error, &format!("{error:#}")), fix)], None)
        }
    }
}

/// What Nodes and Services show.
async fn listed(
    client: &Client,
    clock: Clock,
    providers: &Providers,
    led: Led,
    patience: SignedDuration,
) -> (Vec<Finding>, Vec<Finding>) {
    let lists = async { tokio::join!(objects::nodes(client), objects::services(client)) };
    let Ok((nodes, services)) = tokio::time::timeout(LISTS, lists).await else {
        let why = || format!("no complete answer within {LISTS:?}");
        return (vec![unread(Check::Nodes, "Nodes", &why())], vec![unread(Check::Services, "Services", &why())]);
    };
    let now = clock.now();
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

/// As times of objects are compared.
fn patience(waiting_after: Duration) -> SignedDuration {
    SignedDuration::try_from(waiting_after).unwrap_or(SignedDuration::MAX)
}

fn unread(check: Check, kind: &str, why: &str) -> Finding {
    check.unjudged(format!("{kind} cannot be read: {why}"), format!("give a kubeconfig that may list {kind}"))
}

#[cfg(test)]
mod tests {
    use ccm_rollout::config::ProviderRecord;
    use finding::Judgement;
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    fn settings() -> DoctorSettings {
        let record = ProviderRecord { source: "/nowhere/a.wasm".to_owned(), ..ProviderRecord::default() };
        DoctorSettings {
            access: Access::default(),
            cluster_name: "c".to_owned(),
            rights_of: RightsOf::Myself,
            is_dry_run: false,
            beside: vec![],
            waiting_after: Duration::ZERO,
            providers: Ok(vec![record.check().unwrap()]),
            is_source_named: false,
            online: false,
            providers_only: false,
            peers: PeerSettings { namespace: "kube-system".into(), lease: "mine".into(), identity: None },
            is_elected: true,
            address: None,
        }
    }

    /// What an API server comes to that answers all with this, or with nothing.
    async fn answered_with(answer: Option<(u16, &'static str)>) -> Vec<Finding> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let Some((status, body)) = answer else { return std::future::pending().await };
            let response = Response::builder().status(status).header("content-type", "application/json");
            Ok::<_, std::convert::Infallible>(response.body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        let client = Client::new(service, "default");
        Box::pin(of_cluster(&client, Clock::default(), settings())).await
    }

    /// It was printed byte by byte, in what people paste into an issue.
    #[tokio::test]
    async fn a_key_without_line_breaks_in_a_kubeconfig_is_not_repeated() {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = rcgen::generate_simple_self_signed(["admin".to_owned()]).unwrap();
        let certificate = file("tls.crt", made.cert.pem());
        let key = file("tls.key", made.signing_key.serialize_pem().replace('\n', "\\n"));
        let config = serde_json::json!({
            "clusters": [{
                "name": "c",
                "cluster": { "server": "https://127.0.0.1:6443", "certificate-authority": certificate },
            }],
            "users": [{ "name": "u", "user": { "client-certificate": certificate, "client-key": key } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
            "current-context": "x",
        });
        let access = Access { kubeconfig: Some(file("config", config.to_string())), master: None };
        let (findings, cluster) = reach(&access).await;
        let [Finding { found, judgement: Judgement::Wrong, .. }] = findings.as_slice() else { panic!("{findings:?}") };
        assert!(cluster.is_none() && found.contains("it is not PEM, or has lost its line breaks"), "{found}");
        assert!(!found.contains("45, 45"), "{found}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_cannot_ask_says_unknown_and_never_ok() {
        const REFUSED: &str = r#"{ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403 }"#;
        for answer in [None, Some((403, REFUSED)), Some((500, "{}")), Some((503, "")), Some((200, "<html>"))] {
            let findings = answered_with(answer).await;
            for check in [OF_CLUSTER.as_slice(), &[Check::Providers]].concat() {
                let of: Vec<&Finding> = findings.iter().filter(|finding| finding.check == check).collect();
                assert!(
                    of.iter().any(|finding| finding.judgement == Judgement::Unjudged),
                    "{answer:?} {check:?}: {findings:#?}"
                );
                assert!(
                    of.iter().all(|finding| finding.judgement == Judgement::Unjudged),
                    "{answer:?} {check:?}: {of:?}"
                );
                assert!(of.iter().all(|finding| finding.fix.is_some()), "{of:?}");
            }
            assert_eq!(Report::new(findings).verdict(), crate::Verdict::Unknown, "{answer:?}");
        }
    }
}
