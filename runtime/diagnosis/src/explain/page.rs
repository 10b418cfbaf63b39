//! `/explain/v1/service/NAMESPACE/NAME` and `/explain/v1/node/NAME` on the health port: what this process knows of one object, as JSON.
//!
//! Where only this machine reaches the port, whoever does may read it, as the other pages. So it tells what Events and conditions of
//! the object tell, of one object that the caller can name, and lists none.

use std::sync::Arc;

use ccm_controllers::{Explainer, LifecycleExplanation, NodeExplanation, ServiceExplanation};
use ccm_leader::Seen;
use ccm_rollout::status::{ProviderStatuses, Refusal};
use ccm_serving::https::{Page, TEXT, page};
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::target::Target;

/// Where all of it is.
pub(super) const PREFIX: &str = "/explain/v1/";

/// What the page says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// Whether this process leads: no other one knows anything of objects.
    pub leads: bool,
    /// Who leads, as `/readyz` says it.
    pub leader: String,
    /// The holder in the Lease, where that is another process than this one, and it knows it.
    pub holder: Option<String>,
    /// None where no service controller runs, or another kind was asked for.
    pub service: Option<ServiceExplanation>,
    /// None where no node controller runs, or another kind was asked for.
    pub node: Option<NodeExplanation>,
    /// None where no node lifecycle controller runs, or another kind was asked for.
    pub lifecycle: Option<LifecycleExplanation>,
    /// Components and configurations that are not used.
    pub refusals: Vec<Refusal>,
    /// What a dry run would write, in lines; none for a process that writes.
    pub dry_run: Option<Vec<String>>,
    /// Whether one of these writes deletes the object.
    pub would_delete: bool,
}

/// What a dry run would write to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WouldWrite {
    /// For people.
    pub lines: Vec<String>,
    /// Whether it would delete the object.
    pub deletes: bool,
}

/// Says what a dry run would write to an object.
pub type AskedOfDryRun = Arc<dyn Fn(&Target) -> WouldWrite + Send + Sync>;

/// What answers are made of.
#[derive(Clone)]
pub struct Explained {
    /// The controllers of the process.
    pub explainer: Explainer,
    /// None without leader election.
    pub leader: Option<Seen>,
    /// Its providers.
    pub providers: ProviderStatuses,
    /// None for a process that writes.
    pub dry_run: Option<AskedOfDryRun>,
}

/// What a request asks for; none where it is for another page.
pub fn asked(request: &Request<impl Sized>) -> Option<Result<Target, String>> {
    let path = request.uri().path().strip_prefix(PREFIX)?;
    (request.method() == Method::GET || request.method() == Method::HEAD).then(|| Target::of_path(path))
}

impl Explained {
    /// The page about `target`.
    pub async fn page(&self, target: Result<Target, String>) -> Page {
        let target = match target {
            Ok(target) => target,
            Err(why) => return page(StatusCode::NOT_FOUND, TEXT, why + "\n"),
        };
        let answer = self.answer(&target).await;
        match serde_json::to_string_pretty(&answer) {
            Ok(text) => page(StatusCode::OK, "application/json", text + "\n"),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("explain: {error}\n")),
        }
    }

    async fn answer(&self, target: &Target) -> Answer {
        let alone = match &self.dry_run {
            Some(_) => "dry run: this process writes nothing",
            None => "leader: this process, without election",
        };
        let would_write = self.dry_run.as_ref().map(|asked| asked(target));
        let mut answer = Answer {
            leads: self.leader.as_ref().is_none_or(Seen::leads),
            leader: self.leader.as_ref().map_or_else(|| alone.to_owned(), Seen::line),
            holder: self.leader.as_ref().and_then(Seen::holder),
            refusals: self.providers.refusals(),
            would_delete: would_write.as_ref().is_some_and(|would_write| would_write.deletes),
            dry_run: would_write.map(|would_write| would_write.lines),
            ..Answer::default()
        };
        match target {
            Target::Service { namespace, name } => answer.service = self.explainer.service(namespace, name).await,
            Target::Node { name } => {
                (answer.node, answer.lifecycle) =
                    tokio::join!(self.explainer.node(name), self.explainer.lifecycle(name));
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(path: &str) -> Option<(u16, String)> {
        let dry_run: Option<AskedOfDryRun> = None;
        let explained =
            Explained { explainer: Explainer::default(), leader: None, providers: Default::default(), dry_run };
        let target = asked(&Request::get(path).body(()).unwrap())?;
        let response = explained.page(target).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Some((status, String::from_utf8(body.to_vec()).unwrap()))
    }

    #[tokio::test]
    async fn a_process_without_controllers_says_that_it_knows_nothing() {
        for path in ["/explain/v1/service/default/web", "/explain/v1/node/n1.example"] {
            let (status, text) = get(path).await.unwrap();
            let answer: Answer = serde_json::from_str(&text).unwrap();
            let leader = "leader: this process, without election".to_owned();
            assert_eq!((status, answer), (200, Answer { leads: true, leader, ..Answer::default() }), "{path}");
        }
    }

    #[tokio::test]
    async fn a_dry_run_says_what_it_would_write_and_that_it_does_not() {
        let would_write =
            |target: &Target| WouldWrite { lines: vec![format!("would write to {target}")], deletes: true };
        let dry_run: Option<AskedOfDryRun> = Some(Arc::new(would_write));
        let explained =
            Explained { explainer: Explainer::default(), leader: None, providers: Default::default(), dry_run };
        let answer = explained.answer(&Target::Node { name: "n1".into() }).await;
        assert_eq!(answer.dry_run, Some(vec!["would write to node n1".to_owned()]));
        assert!(answer.would_delete);
        assert_eq!(answer.leader, "dry run: this process writes nothing");
    }

    #[tokio::test]
    async fn what_names_no_object_is_refused_and_other_pages_are_not_ours() {
        let bad = ["service/web", "service/default/", "service/a/b/c", "node/", "node/../x", "pod/a/b", "node/%2e", ""];
        for path in bad {
            let (status, text) = get(&format!("{PREFIX}{path}")).await.unwrap();
            assert_eq!(status, 404, "{path}: {text}");
            assert!(text.contains("service/NAMESPACE/NAME"), "{path}: {text}");
        }
        assert_eq!(get("/metrics").await, None);
        assert!(asked(&Request::head("/explain/v1/node/n1").body(()).unwrap()).is_some());
        let post = Request::post("/explain/v1/node/n1").body(()).unwrap();
        assert!(asked(&post).is_none(), "nothing is done here");
    }
}
