//! `/` on the health port: the status page. It has no fact of its own: here its view is filled with what the other pages say, and with what
//! the controllers remember.

use ccm_controllers::{HeldNode, Listed, Next, ServiceTrouble, Troubles, UninitialisedNode, UnreadyNode};
use ccm_diagnosis::{about, kubelet};
use ccm_leader::Seen;
use ccm_rollout::status::{NotTaken, ProviderStatus};
use ccm_serving::https::{Page, page};
use ccm_status::{HEADERS, Held, Provider, ROWS, Refused, Rows, Status, Trouble, Unmanaged};
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use k8s_openapi::jiff::Timestamp;

use crate::dry_run;
use crate::pages::Pages;

const HTML: &str = "text/html; charset=utf-8";

impl Pages {
    /// The status page.
    pub(crate) async fn status_page(&self) -> Page {
        let mut page = page(StatusCode::OK, HTML, self.status().await.render());
        for (name, value) in HEADERS {
            page.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        page
    }

    async fn status(&self) -> Status {
        let leads = self.leader.as_ref().is_none_or(Seen::leads);
        let alone = || match &self.dry_run {
            Some(_) => dry_run::lines_of_leader(&self.beside).collect::<Vec<_>>().join("; "),
            None => "leader: this process, without election".to_owned(),
        };
        let leader = self.leader.as_ref().map_or_else(alone, Seen::line);
        let (metrics, unread) = match self.metrics() {
            Ok(metrics) => (metrics, None),
            Err(error) => (String::new(), Some(format!("metrics cannot be read: {error}"))),
        };
        let Troubles { services, uninitialised, unmanaged, unready, held } = self.explainer.troubles(ROWS).await;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: format!("{:.0}", Timestamp::now()),
            leads,
            leader,
            failing: self.failing().into_iter().chain(unread).collect(),
            providers: self.providers.all().iter().map(|(source, known)| provider(source, known)).collect(),
            metrics,
            services: services.map(|listed| rows(listed, service)),
            uninitialised: uninitialised.map(|listed| rows(listed, uninitialised_node)),
            unmanaged: unmanaged.map(self::unmanaged),
            unready: unready.map(|listed| rows(listed, unready_node)),
            dry_run: self.dry_run.as_ref().map(dry_run::shown),
            held: held
                .map(|listed| rows(listed, |HeldNode { name, by }: HeldNode| Held { name, budget: by.to_string() })),
        }
    }
}

fn rows<T, R>(Listed { all, first }: Listed<T>, row: impl Fn(T) -> R) -> Rows<R> {
    Rows { all, first: first.into_iter().map(row).collect() }
}

fn service(ServiceTrouble { name, reason, why, next, waits_for_turn }: ServiceTrouble) -> Trouble {
    let next = match (next, waits_for_turn) {
        (Next::Running(_), Some(time)) => Some(format!("waiting for its turn for {}", about(time.as_secs_f64()))),
        _ => told(next, "try", "the Service or its provider changes"),
    };
    Trouble { name, reason: reason.to_owned(), why, next }
}

/// When there is the next `try` or `look`.
fn told(next: Next, what: &str, change: &str) -> Option<String> {
    Some(match next {
        Next::Unknown => return None,
        Next::Running(time) => format!("a {what} is under way for {}", about(time)),
        Next::In(left) => format!("next {what} in {}", about(left)),
        Next::OnChange => format!("next {what} when {change}"),
        Next::OnChangeOr(left) => format!("next {what} when {change}, else in {}", about(left)),
    })
}

fn uninitialised_node(node: UninitialisedNode) -> Trouble {
    let UninitialisedNode { name, why, reaction, unclaimed, next } = node;
    let reason = match (reaction, unclaimed) {
        (_, Some(time)) => format!("no provider has known it for {}", about(time.as_secs_f64())),
        (Some(reaction), None) => format!("the last try failed: {reaction}"),
        (None, None) => "it waits for the cloud's answer".to_owned(),
    };
    Trouble { name, reason, why, next: told(next, "try", "the Node changes") }
}

/// In the words of `doctor` and `explain`.
fn unmanaged(listed: Listed<String>) -> Unmanaged {
    let nodes = rows(listed, |name| name);
    let fix = match nodes.first.as_slice() {
        [one] => kubelet::fix(one),
        _ => kubelet::fix("NAME"),
    };
    Unmanaged { found: kubelet::FOUND.to_owned(), fix, nodes }
}

fn unready_node(UnreadyNode { name, answer, failure, next }: UnreadyNode) -> Trouble {
    let reason = match (answer, &failure) {
        (None, _) => "the cloud was not asked yet".to_owned(),
        (Some(reaction), Some(_)) => format!("the cloud gave no answer: {reaction}"),
        (Some(answer), None) => format!("machine: {answer}"),
    };
    Trouble { name, reason, why: failure, next: told(next, "look", "the Node changes") }
}

fn provider(source: &str, known: &ProviderStatus) -> Provider {
    let component = |refused: &NotTaken| {
        let digest = refused.digest.as_deref().map(|digest| format!(" {digest}")).unwrap_or_default();
        refused_at(format!("component{digest}"), refused)
    };
    let configuration = |refused: &NotTaken| refused_at("configuration".to_owned(), refused);
    Provider {
        source: source.to_owned(),
        serving: known.serving.as_ref().map(|serving| format!("{} {}", serving.name, serving.version)),
        digest: known.serving.as_ref().map(|serving| serving.digest.clone()).unwrap_or_default(),
        phase: known.phase_text().unwrap_or_default(),
        last_good: known.last_good.as_ref().map(ToString::to_string),
        last_load: known.times.as_ref().map(ToString::to_string),
        refused: known
            .refused
            .iter()
            .map(component)
            .chain(known.refused_configuration.iter().map(configuration))
            .collect(),
        unreadable: known.unreadable_credentials.iter().map(ToString::to_string).collect(),
    }
}

fn refused_at(what: String, refused: &NotTaken) -> Refused {
    Refused { what, at: refused.at(), reason: refused.reason.clone() }
}

#[cfg(test)]
mod tests;
