//! Finds the process that leads, and asks it. Whatever does not work is told, and is no reason to stop.

use ccm_rollout::status::Refusal;
use http::Uri;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};

use super::page::{Answer, PREFIX};
use super::target::Target;
use crate::ask::health_port::{client_of, page};
use crate::ask::lease::{self, Hold, Standing};
use crate::ask::pods::{self, LABEL, is_host, may_hold, port};

/// So many hosts are asked what they refuse while nobody leads.
const ASKED: usize = 3;

/// What came of asking.
#[derive(Default)]
pub(super) struct Asked {
    /// What the leader says.
    pub(super) answer: Option<Answer>,
    /// Who was asked, where there is an answer.
    pub(super) place: Option<String>,
    /// What hosts that do not lead refuse: who refuses its first component does not become the leader.
    pub(super) refusals: Vec<Refusal>,
    /// What did not work.
    pub(super) tried: Vec<String>,
}

impl Asked {
    fn failed(tried: impl Into<String>) -> Self {
        Self { tried: vec![tried.into()], ..Self::default() }
    }

    fn of(place: String, asked: Result<Answer, String>) -> Self {
        match asked {
            Ok(answer) if answer.leads => Self { answer: Some(answer), place: Some(place), ..Self::default() },
            Ok(answer) => {
                let tried = format!("{place} does not lead and knows nothing of objects: {}", answer.leader);
                Self { refusals: answer.refusals, ..Self::failed(tried) }
            }
            Err(why) => Self::failed(format!("{place}: {why}")),
        }
    }

    /// Nothing but why, where it is a host that leads under another Lease: what that one does not know of is not unknown.
    fn unless_another(self, holder: &str) -> Self {
        match (&self.answer, &self.place) {
            (Some(answer), Some(place)) if !answer.leader.contains(holder) => {
                Self::failed(format!("{place} is not {holder}, and leads under another Lease: {}", answer.leader))
            }
            _ => self,
        }
    }
}

/// Asks whoever is at an address. No credential of the user goes there. `cluster`, with the namespace of the host, makes a token where one is wanted.
pub(super) async fn at(address: &Uri, cluster: Option<(&Client, &str)>, target: &Target) -> Asked {
    let answer = match client_of(address) {
        Ok(client) => ask(&client, &format!("{PREFIX}{}", target.path()), cluster).await,
        Err(why) => Err(why),
    };
    Asked::of(format!("the host at {address}"), answer)
}

/// Where the hosts are.
pub(super) struct Place<'a> {
    pub(super) client: &'a Client,
    /// Of the Lease and the pods.
    pub(super) namespace: &'a str,
    /// The name of the Lease.
    pub(super) lease: &'a str,
}

impl Place<'_> {
    /// Finds who holds the Lease, and asks its pod through the API server.
    pub(super) async fn found(&self, target: &Target) -> Asked {
        let Self { client, namespace, lease } = self;
        let what = format!("the Lease {namespace}/{lease}");
        let hold = match lease::look(client, namespace, lease).await {
            Err(why) => return Asked::failed(format!("{what} cannot be read: {why}")),
            Ok(None) => {
                let tried = format!("{what} does not exist: no host has led, or it has another name");
                return self.refusals(Asked::failed(tried), target).await;
            }
            Ok(Some(hold)) => hold,
        };
        let holder = &hold.holder;
        if holder.is_empty() {
            let asked = Asked::failed(format!("nobody holds {what}: no host leads"));
            return self.refusals(asked, target).await;
        }
        if let Some(stranger) = hold.stranger() {
            return Asked::failed(format!(
                "{holder} holds {what}, and is no host of wasm-ccm but {stranger}: two managers have one Lease (`wasm-ccm doctor`)"
            ));
        }
        let pods = match pods::living(client, namespace).await {
            Ok(pods) => pods,
            Err(why) => {
                let told = self.told(&hold).await;
                return Asked::failed(format!("{told}; the pods in {namespace} cannot be read: {why}"));
            }
        };
        let candidates: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod) && may_hold(pod, holder)).collect();
        let Some(pod) = candidates.first() else {
            let told = self.told(&hold).await;
            let (label, value) = LABEL;
            return Asked::failed(format!(
                "{told}, and is no pod in {namespace} that lives and has the label {label}={value}: say with --address where its health port is"
            ));
        };
        // In the host network, those of one node cannot be told apart before they have answered.
        let mut asked = Asked::default();
        for pod in candidates.iter().take(ASKED) {
            let one = self.ask(pod, "the leader, ", target).await.unless_another(holder);
            asked.tried.extend(one.tried);
            if one.answer.is_some() {
                asked = Asked { answer: one.answer, place: one.place, ..asked };
                break;
            }
        }
        if asked.answer.is_none() {
            let (pod, port) = (pod.name_any(), port(pod));
            asked.tried.push(format!(
                "to ask it nevertheless: kubectl -n {namespace} port-forward {pod} {port}, and in another terminal the same command with \
                 --address=https://127.0.0.1:{port}"
            ));
            asked.tried.push(self.told(&hold).await);
        }
        asked
    }

    /// Whether the holder leads: it is looked at again, for as long as it takes to see.
    async fn told(&self, hold: &Hold) -> String {
        let holder = &hold.holder;
        match lease::watch(self.client, self.namespace, self.lease).await {
            Ok(Some(Standing::Held(hold))) => format!("{} leads", hold.holder),
            Ok(Some(Standing::Expired(hold))) => {
                format!("nobody leads: {} is in the Lease, and did not renew it in {:?}", hold.holder, hold.promised)
            }
            Ok(Some(Standing::Unmoved(_))) => format!("{holder} is in the Lease, and whether it lives is not known"),
            Ok(Some(Standing::Free) | None) => "nobody leads any more".to_owned(),
            Err(_unread) => format!("{holder} was in the Lease"),
        }
    }

    /// Adds what hosts refuse while nobody leads.
    async fn refusals(&self, mut asked: Asked, target: &Target) -> Asked {
        let pods = match pods::living(self.client, self.namespace).await {
            Ok(pods) => pods,
            Err(why) => {
                asked.tried.push(format!("the pods in {} cannot be read: {why}", self.namespace));
                return asked;
            }
        };
        let hosts: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod)).collect();
        if hosts.is_empty() {
            asked.tried.push(format!("no pod of a host lives in {}", self.namespace));
        }
        for pod in hosts.into_iter().take(ASKED) {
            let one = self.ask(pod, "", target).await;
            asked.tried.extend(one.tried);
            if one.answer.is_some() || !one.refusals.is_empty() {
                return Asked { answer: one.answer, place: one.place, refusals: one.refusals, ..asked };
            }
        }
        asked
    }

    async fn ask(&self, pod: &Pod, who: &str, target: &Target) -> Asked {
        let (namespace, name, port) = (self.namespace, pod.name_any(), port(pod));
        let path = format!("/api/v1/namespaces/{namespace}/pods/https:{name}:{port}/proxy{PREFIX}{}", target.path());
        Asked::of(format!("{who}pod {namespace}/{name}"), ask(self.client, &path, Some((self.client, namespace))).await)
    }
}

async fn ask(client: &Client, path: &str, cluster: Option<(&Client, &str)>) -> Result<Answer, String> {
    let body = page(client, path, cluster).await?;
    serde_json::from_slice(&body).map_err(|_garbage| "it answers something else than an explanation".to_owned())
}

#[cfg(test)]
mod tests;
