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

/// Who leads, as far as the Lease says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lead {
    /// A host, or nobody knows.
    #[default]
    Maybe,
    /// Nobody: nothing is tried.
    Nobody,
    /// Nobody can know: there is no Lease, or a free one, and no host that leads was reached. One that runs without election, or under
    /// another Lease, does not hold it.
    Unseen,
    /// Another manager has the Lease of the host.
    Stranger,
}

/// What came of asking.
#[derive(Default)]
pub(super) struct Asked {
    /// What the leader says.
    pub(super) answer: Option<Answer>,
    /// Who was asked, where there is an answer.
    pub(super) place: Option<String>,
    /// Whether a host that does not lead knows one that does, under another Lease. That it knows none says nothing: before it has its
    /// component, it has not looked.
    is_led_elsewhere: bool,
    /// What hosts that do not lead refuse: who refuses its first component does not become the leader.
    pub(super) refusals: Vec<Refusal>,
    /// Who leads, where there is no answer.
    pub(super) lead: Lead,
    /// What did not work.
    pub(super) tried: Vec<String>,
}

impl Asked {
    fn failed(tried: impl Into<String>) -> Self {
        Self { tried: vec![tried.into()], ..Self::default() }
    }

    /// Nobody has the Lease, as this says.
    fn unled(tried: impl Into<String>) -> Self {
        Self { lead: Lead::Unseen, ..Self::failed(tried) }
    }

    fn of(place: String, asked: Result<Answer, String>) -> Self {
        match asked {
            Ok(answer) if answer.leads => Self { answer: Some(answer), place: Some(place), ..Self::default() },
            Ok(answer) => {
                let tried = format!("{place} does not lead and knows nothing of objects: {}", answer.leader);
                let is_led_elsewhere = answer.holder.is_some();
                Self { refusals: answer.refusals, is_led_elsewhere, ..Self::failed(tried) }
            }
            Err(why) => Self::failed(format!("{place}: {why}")),
        }
    }

    /// Who leads, where nobody holds a Lease of the expected name.
    fn judged(self) -> Self {
        match self.lead {
            Lead::Unseen if self.is_led_elsewhere => Self { lead: Lead::Maybe, ..self },
            _ => self,
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

/// Asks whoever is at an address. No credential of the user goes there. `cluster` makes a token where one is wanted, and says who leads where
/// that is another one.
pub(super) async fn at(address: &Uri, cluster: Option<Place<'_>>, target: &Target) -> Asked {
    let place = format!("the host at {address}");
    match client_of(address) {
        Ok(client) => through(&client, place, cluster, target).await,
        Err(why) => Asked::of(place, Err(why)),
    }
}

/// Asks whoever is behind this client.
async fn through(client: &Client, place: String, cluster: Option<Place<'_>>, target: &Target) -> Asked {
    let tokens = cluster.as_ref().map(|cluster| (cluster.client, cluster.namespace));
    let asked = Asked::of(place, ask(client, &format!("{PREFIX}{}", target.path()), tokens).await);
    match cluster {
        Some(cluster) if asked.answer.is_none() => cluster.led(asked).await,
        _ => asked,
    }
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
        let Self { client, namespace, .. } = self;
        let hold = match self.hold().await {
            Ok(hold) => hold,
            Err(asked) if asked.lead == Lead::Unseen => return self.refusals(asked, target).await,
            Err(asked) => return asked,
        };
        let holder = &hold.holder;
        let pods = match pods::living(client, namespace).await {
            Ok(pods) => pods,
            Err(why) => {
                let (told, lead) = self.told(&hold).await;
                let asked = Asked::failed(format!("{told}; the pods in {namespace} cannot be read: {why}"));
                return Asked { lead, ..asked };
            }
        };
        let candidates: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod) && may_hold(pod, holder)).collect();
        let Some(pod) = candidates.first() else {
            let (told, lead) = self.told(&hold).await;
            let (label, value) = LABEL;
            let asked = Asked::failed(match lead {
                Lead::Nobody => told,
                _ => format!(
                    "{told}, but no running pod in {namespace} with the label {label}={value} matches it: give the URL of its health port with --address"
                ),
            });
            return Asked { lead, ..asked };
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
            let (told, lead) = self.told(&hold).await;
            asked.tried.push(told);
            asked.lead = lead;
        }
        asked
    }

    /// Who holds the Lease, if that may be a host; else what there is to say of it.
    async fn hold(&self) -> Result<Hold, Asked> {
        let Self { client, namespace, lease } = self;
        let what = format!("the Lease {namespace}/{lease}");
        let hold = match lease::look(client, namespace, lease).await {
            Err(why) => return Err(Asked::failed(format!("{what} cannot be read: {why}"))),
            Ok(None) => {
                let why = "no host has led, it has another name, or the host runs with --leader-elect=false";
                return Err(Asked::unled(format!("{what} does not exist: {why}")));
            }
            Ok(Some(hold)) if hold.holder.is_empty() => {
                let why = "no host leads, its Lease has another name, or the host runs with --leader-elect=false";
                return Err(Asked::unled(format!("nobody holds {what}: {why}")));
            }
            Ok(Some(hold)) => hold,
        };
        let Some(stranger) = hold.stranger() else { return Ok(hold) };
        let holder = &hold.holder;
        let tried = format!(
            "{holder} holds {what}, and is no host of wasm-ccm but {stranger}: two managers have one Lease (`wasm-ccm doctor`)"
        );
        Err(Asked { lead: Lead::Stranger, ..Asked::failed(tried) })
    }

    /// Adds who leads to what another one said.
    async fn led(&self, mut asked: Asked) -> Asked {
        let (told, lead) = match self.hold().await {
            Ok(hold) => self.told(&hold).await,
            Err(Asked { tried, lead, .. }) => (tried.join("; "), lead),
        };
        asked.tried.push(told);
        Asked { lead, ..asked }.judged()
    }

    /// Whether the holder leads: it is looked at again, for as long as it takes to see.
    async fn told(&self, hold: &Hold) -> (String, Lead) {
        let holder = &hold.holder;
        match lease::watch(self.client, self.namespace, self.lease).await {
            Ok(Some(Standing::Held(hold))) => (format!("{} leads", hold.holder), Lead::Maybe),
            Ok(Some(Standing::Expired(Hold { holder, promised, .. }))) => {
                (format!("nobody leads: {holder} is in the Lease, and did not renew it in {promised:?}"), Lead::Nobody)
            }
            Ok(Some(Standing::Unmoved(_))) => {
                (format!("{holder} is in the Lease, and whether it lives is not known"), Lead::Maybe)
            }
            Ok(Some(Standing::Free) | None) => ("nobody leads any more".to_owned(), Lead::Nobody),
            Err(_unread) => (format!("{holder} was in the Lease"), Lead::Maybe),
        }
    }

    /// Adds what hosts refuse while nobody leads, unless one of them leads after all.
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
            asked.is_led_elsewhere |= one.is_led_elsewhere;
            if one.answer.is_some() {
                return Asked { answer: one.answer, place: one.place, refusals: vec![], ..asked };
            }
            // Replicas mostly refuse the same.
            let others: Vec<Refusal> = one.refusals.into_iter().filter(|one| !asked.refusals.contains(one)).collect();
            asked.refusals.extend(others);
        }
        asked.judged()
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
