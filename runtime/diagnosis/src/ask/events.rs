//! The Events of an object.

use std::cmp::Reverse;

use ccm_apiserver::NODE_EVENTS;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::api_server::each;
use crate::explain::Target;

/// So many are kept, the newest.
const KEPT: usize = 5;

/// One Event.
#[derive(Debug, Default, Clone)]
pub(crate) struct EventTold {
    pub(crate) is_warning: bool,
    /// A kubelet tells of other things: disks, memory, images.
    pub(crate) is_of_kubelet: bool,
    /// Of the object that it is about, where it says so.
    pub(crate) uid: Option<String>,
    pub(crate) reason: String,
    pub(crate) note: String,
    pub(crate) at: Option<Timestamp>,
}

impl EventTold {
    fn of(event: Event) -> Self {
        let at =
            event.series.as_ref().map(|series| series.last_observed_time.0).or(event.event_time.map(|time| time.0));
        let at = at.or_else(|| event.deprecated_last_timestamp.map(|time| time.0));
        Self {
            is_warning: event.type_.as_deref() == Some("Warning"),
            is_of_kubelet: event.reporting_controller.as_deref() == Some("kubelet"),
            uid: event.regarding.and_then(|about| about.uid).filter(|uid| !uid.is_empty()),
            reason: event.reason.unwrap_or_default(),
            note: event.note.unwrap_or_default(),
            at,
        }
    }

    /// Whether it may be about the object with this UID: it says no other one. Kubelets say the name of their Node.
    pub(crate) fn is_about(&self, target: &Target, uid: &str) -> bool {
        let is_name = |told: &str| matches!(target, Target::Node { name } if name == told);
        self.uid.as_deref().is_none_or(|told| uid.is_empty() || told == uid || is_name(told))
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        let ago = self.at.map(|at| Timestamp::now().duration_since(at).as_secs().max(0));
        let ago = ago.map(|seconds| format!(", {seconds} s ago")).unwrap_or_default();
        format!("{kind} {}{ago}: {}", self.reason, self.note)
    }
}

/// The newest Events of an object, the newest first.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn of(client: &Client, target: &Target) -> Result<Vec<EventTold>, String> {
    let namespace = match target {
        Target::Service { namespace, .. } => namespace.as_str(),
        Target::Node { .. } => NODE_EVENTS,
    };
    let about = format!("regarding.kind={},regarding.name={}", target.kind(), target.name());
    newest(client, namespace, &about).await.map_err(|why| format!("Events of {target} cannot be read: {why}"))
}

/// What hosts said lately of components that they refuse. It holds also when nobody leads: who refuses its first component does not.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn rejections(client: &Client, namespace: &str) -> Result<Vec<EventTold>, String> {
    let told = newest(client, namespace, "reason=ProviderRejected").await;
    told.map_err(|why| format!("Events of providers in {namespace} cannot be read: {why}"))
}

async fn newest(client: &Client, namespace: &str, fields: &str) -> Result<Vec<EventTold>, String> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let mut newest: Vec<EventTold> = vec![];
    // The list has no order: the newest may be on the last page.
    let take = |event| {
        newest.push(EventTold::of(event));
        newest.sort_by_key(|event| Reverse(event.at));
        newest.truncate(KEPT);
    };
    each(client, &path, Some(fields), take).await?;
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// The newest of 600 Events was on the third page, and the first was read alone.
    #[tokio::test]
    async fn the_newest_events_are_found_on_whatever_page_they_are() {
        let answer = |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(query.contains("regarding.kind%3DService%2Cregarding.name%3Dweb"), "{query}");
            let page = query.split('&').find_map(|part| part.strip_prefix("continue="));
            let page: i32 = page.map_or(0, |page| page.parse().unwrap());
            let event = |number: i32| {
                let time = format!("2026-11-26T10:{:02}:{:02}.000000Z", number / 60, number % 60);
                json!({ "metadata": {}, "eventTime": time, "reason": format!("R{number}"), "type": "Normal" })
            };
            let token = if page < 2 { (page + 1).to_string() } else { String::new() };
            let items: Vec<_> = (0..200).map(|number| event(page * 200 + number)).collect();
            let list = json!({ "metadata": { "continue": token }, "items": items }).to_string();
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let target = Target::Service { namespace: "default".into(), name: "web".into() };
        let told = of(&client, &target).await.unwrap();
        let reasons: Vec<&str> = told.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, ["R599", "R598", "R597", "R596", "R595"]);
    }
}
