//! The rights of the host: every rule of `manifests/base/rbac.yaml`, as the API server judges it.

use std::collections::BTreeSet;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use ccm_rollout::PeerSettings;
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::config::grants::CredentialPlace;
use ccm_rollout::source::Source;
use futures::future::join_all;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::finding::{Check, Finding};
use super::grant::command;
use super::purpose::Purpose;
use crate::ask::answered;
use crate::ask::pods::reviews;

/// The one list of rights.
const MANIFEST: &str = include_str!("../../../../manifests/base/rbac.yaml");
/// The namespace of the manifest that stands for the one of the Lease.
const HOME: &str = "kube-system";
/// The name of the manifest that stands for the one of the Lease.
const LEASE: &str = "cloud-controller-manager";
/// What the host does with a Secret that a credential is in. A dry run does nothing else with any object that is kept.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Whose rights are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RightsOf {
    /// Of a ServiceAccount.
    Account {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Of whoever asks.
    Myself,
}

impl FromStr for RightsOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::Account { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            None if text == "self" => Ok(Self::Myself),
            _ => Err(format!("{text:?} is neither NAMESPACE/NAME, such as kube-system/wasm-ccm, nor self")),
        }
    }
}

/// One object of the manifest. Bindings have no rules.
#[derive(Deserialize)]
struct Object {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// One verb for one kind of objects, or for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: String,
    pub(super) group: String,
    /// With the subresource.
    pub(super) resource: String,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
}

impl Right {
    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource.as_str(), None),
        };
        ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            ..ResourceAttributes::default()
        }
    }

    /// What it is about.
    fn object(&self) -> String {
        let Self { group, resource, name, namespace, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let place = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        format!("{resource}{group}{name}{place}")
    }
}

/// What the host needs rights for.
pub(super) struct Wanted<'a> {
    pub(super) peers: &'a PeerSettings,
    pub(super) providers: &'a [ProviderConfig],
    /// Whether the operator said where components are. Where nobody said it, they are mounted, and not read through the API.
    pub(super) is_named: bool,
    pub(super) purpose: Purpose,
    /// Those that can be seen.
    pub(super) hosts: &'a [Pod],
}

/// All rights that a host with this Lease and these providers needs.
fn needed(wanted: &Wanted<'_>) -> Result<Vec<Right>> {
    let Wanted { peers, providers, is_named, purpose, hosts } = *wanted;
    let objects: Vec<Object> = serde_saphyr::from_multiple(MANIFEST).context("manifests/base/rbac.yaml")?;
    let sources: Vec<(&str, &str)> = providers
        .iter()
        .filter_map(|provider| match &provider.source {
            Source::ConfigMap { namespace, name, .. } if is_named => Some((namespace.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    let mut rights = vec![];
    for object in objects.iter().filter(|object| matches!(object.kind.as_str(), "Role" | "ClusterRole")) {
        for rule in &object.rules {
            let is_for_sources = rule.resources == ["configmaps"] && rule.resource_names.is_empty();
            let places: Vec<(Option<&str>, Option<&str>)> = if is_for_sources {
                // Only where a component is read through the API.
                sources.iter().map(|(namespace, name)| (Some(*namespace), Some(*name))).collect()
            } else {
                let namespace = object.metadata.namespace.as_deref();
                let namespace = namespace.map(|name| if name == HOME { peers.namespace.as_str() } else { name });
                let name = |name: &'static str| if name == LEASE { peers.lease.as_str() } else { name };
                match rule.resource_names.as_slice() {
                    [] => vec![(namespace, None)],
                    names => names
                        .iter()
                        .map(|one| (namespace, Some(if one == LEASE { name(LEASE) } else { one })))
                        .collect(),
                }
            };
            for (namespace, name) in places {
                for group in &rule.api_groups {
                    for resource in &rule.resources {
                        rights.extend(rule.verbs.iter().map(|verb| Right {
                            verb: verb.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.map(ToOwned::to_owned),
                            namespace: namespace.map(ToOwned::to_owned),
                        }));
                    }
                }
            }
        }
    }
    let places = providers.iter().flat_map(|provider| provider.credentials.values());
    // A Secret may have several credentials.
    let secrets: BTreeSet<(&String, &String)> = places
        .filter_map(|place| match place {
            CredentialPlace::Secret { namespace, name, .. } => Some((namespace, name)),
            _ => None,
        })
        .collect();
    for (namespace, name) in secrets {
        rights.extend(READ.map(|verb| Right {
            verb: verb.to_owned(),
            group: String::new(),
            resource: "secrets".to_owned(),
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
        }));
    }
    if purpose.is_dry_run() {
        let reviews: BTreeSet<&str> = hosts.iter().flat_map(reviews).collect();
        rights.retain(|right| READ.contains(&right.verb.as_str()) || reviews.contains(right.resource.as_str()));
    }
    Ok(rights)
}

/// Rights, those of one kind of objects together.
fn told<'a>(rights: impl IntoIterator<Item = &'a Right>) -> String {
    let mut told: Vec<(String, Vec<&str>)> = vec![];
    for right in rights {
        let object = right.object();
        match told.last_mut().filter(|(last, _)| *last == object) {
            Some((_, verbs)) => verbs.push(&right.verb),
            None => told.push((object, vec![&right.verb])),
        }
    }
    let each = told.into_iter().map(|(object, verbs)| format!("{} {object}", verbs.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}

/// The user that a ServiceAccount is.
fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// What the API server says of one right.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ruling {
    Allowed,
    /// With what went wrong while it looked, such as a binding to a role that does not exist.
    Denied(Option<String>),
}

/// Asks about all of them.
pub(super) async fn review(client: &Client, of: &RightsOf, wanted: &Wanted<'_>) -> Vec<Finding> {
    let check = Check::Rights;
    let rights = match needed(wanted) {
        Ok(rights) => rights,
        Err(error) => return vec![check.unjudged(format!("{error:#}"), "report this: the program contains the file")],
    };
    if let RightsOf::Account { namespace, name } = of
        && is_absent(client, namespace, name).await
    {
        let found = format!("the ServiceAccount {namespace}/{name} does not exist");
        let fix = "apply your overlay or Helm release, which makes it; if the host has another account, run doctor again with --rights-of=NAMESPACE/NAME; if it runs by hand, with --rights-of=self and its kubeconfig";
        return vec![check.wrong(found, fix)];
    }
    match judge(client, of, rights, wanted.purpose).await {
        Ok(finding) => vec![finding],
        Err(why) => vec![check.unjudged(
            format!("the API server does not judge the rights of the host: {why}"),
            "give a kubeconfig that may create SubjectAccessReviews, as an administrator's may",
        )],
    }
}

async fn judge(client: &Client, of: &RightsOf, rights: Vec<Right>, purpose: Purpose) -> Result<Finding, String> {
    let (who, ask_about) = match of {
        RightsOf::Myself => (myself(client).await?, None),
        RightsOf::Account { namespace, name } => {
            let account = user(namespace, name);
            match may_ask(client).await? {
                true => (account, Some((namespace, name))),
                // In the pod, the account itself asks.
                false => match myself(client).await? {
                    me if me == account => (account, None),
                    me => return Err(format!("{me} may not ask about {account}")),
                },
            }
        }
    };
    let asked = rights.iter().map(|right| is_allowed(client, ask_about, right));
    let answers = join_all(asked).await.into_iter().collect::<Result<Vec<Ruling>, String>>()?;
    let (mut missing, mut troubles) = (vec![], BTreeSet::new());
    for (right, answer) in rights.iter().zip(answers) {
        if let Ruling::Denied(trouble) = answer {
            missing.push(right);
            troubles.extend(trouble);
        }
    }
    Ok(match missing.as_slice() {
        [] if purpose.is_dry_run() => Check::Rights.good(format!(
            "this is a dry run: {who} has all {} rights that it needs, and more is not asked for",
            rights.len()
        )),
        [] => Check::Rights.good(format!("{who} has all {} rights that the host needs", rights.len())),
        _ => {
            let grant = command(&who, &missing, ask_about.is_none());
            // Whoever gives them to a dry run takes the lock from it.
            let unless = match purpose == Purpose::Unknown && are_of_dry_run(&rights, &missing) {
                true => "nothing, if the host is a dry run: doctor --dry-run judges it as one; else ",
                false => "",
            };
            let dry_run = if purpose.is_dry_run() { "this is a dry run, and " } else { "" };
            let fix = format!(
                "{unless}{grant}; or apply your overlay or Helm release again, if the names are those of the manifests; if the host has another account, run doctor again with --rights-of=NAMESPACE/NAME"
            );
            let troubles: Vec<String> = troubles.into_iter().collect();
            let troubles = if troubles.is_empty() {
                String::new()
            } else {
                format!(" (the API server adds: {})", troubles.join("; "))
            };
            Check::Rights.wrong(format!("{dry_run}{who} may not: {}{troubles}", told(missing)), fix)
        }
    })
}

/// Whether what is missing may be so on purpose: all that is read is allowed, and nothing may be changed.
fn are_of_dry_run(rights: &[Right], missing: &[&Right]) -> bool {
    let is_read = |right: &Right| READ.contains(&right.verb.as_str());
    // A dry run that Prometheus reads may create reviews.
    let is_change = |right: &&Right| !is_read(right) && right.verb != "create";
    !missing.iter().any(|right| is_read(right)) && rights.iter().filter(is_change).all(|right| missing.contains(&right))
}

/// Whether there is no such account: then nobody gave it any right. Who may not look takes it to be there.
async fn is_absent(client: &Client, namespace: &str, name: &str) -> bool {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    matches!(answered(accounts.get_opt(name)).await, Ok(None))
}

/// Whether we may ask about others.
async fn may_ask(client: &Client) -> Result<bool, String> {
    let right = Right {
        verb: "create".to_owned(),
        group: "authorization.k8s.io".to_owned(),
        resource: "subjectaccessreviews".to_owned(),
        name: None,
        namespace: None,
    };
    Ok(is_allowed(client, None, &right).await? == Ruling::Allowed)
}

/// Who we are to the API server.
async fn myself(client: &Client) -> Result<String, String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let review = SelfSubjectReview::default();
    let review = answered(api.create(&parameters, &review)).await?;
    let user = review.status.and_then(|status| status.user_info).and_then(|info| info.username);
    user.ok_or_else(|| "it does not say who we are".to_owned())
}

async fn is_allowed(client: &Client, account: Option<(&String, &String)>, right: &Right) -> Result<Ruling, String> {
    let parameters = PostParams::default();
    let resource_attributes = Some(right.attributes());
    let status = match account {
        Some((namespace, name)) => {
            let groups = ["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()];
            let groups = groups.into_iter().chain([format!("system:serviceaccounts:{namespace}")]).collect();
            let user = Some(user(namespace, name));
            let spec =
                SubjectAccessReviewSpec { user, groups: Some(groups), resource_attributes, ..Default::default() };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            answered(Api::<SubjectAccessReview>::all(client.clone()).create(&parameters, &review)).await?.status
        }
        None => {
            let spec = SelfSubjectAccessReviewSpec { resource_attributes, ..SelfSubjectAccessReviewSpec::default() };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            answered(Api::<SelfSubjectAccessReview>::all(client.clone()).create(&parameters, &review)).await?.status
        }
    };
    let status = status.ok_or_else(|| "its answer says nothing".to_owned())?;
    // Bindings that lead nowhere stand in the reason.
    let trouble = [status.evaluation_error, status.reason].into_iter().flatten().find(|text| !text.is_empty());
    Ok(if status.allowed { Ruling::Allowed } else { Ruling::Denied(trouble) })
}

#[cfg(test)]
mod tests;
