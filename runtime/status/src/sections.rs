//! The sections of the page.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::figures::Figures;
use crate::status::{Held, Provider, Refused, Rows, Trouble, Unmanaged};

/// Most characters of one text: what a provider or its cloud says can be as long as a body.
const MAX_TEXT: usize = 400;

/// A text, without what is too much of it.
pub(crate) fn text(whole: &str) -> Cow<'_, str> {
    match whole.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => Cow::Owned(format!("{}…", whole.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(whole),
    }
}

/// A count with commas: `9,950`.
pub(crate) fn counted(count: usize) -> String {
    grouped(&count.to_string())
}

/// A figure of the metrics, which are whole numbers here.
fn figure(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(place);
        if place > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) const fn plural<'t>(count: usize, one: &'t str, more: &'t str) -> &'t str {
    if count == 1 { one } else { more }
}

/// How many of a list are not shown.
pub(crate) fn more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p .quiet { "and " (counted(all.saturating_sub(shown))) " more" } } }
}

// === Components ===

pub(crate) fn components(providers: &[Provider], figures: &Figures<'_>, rows: usize) -> Markup {
    html! {
        section #components {
            h2 { "Components" }
            @if providers.is_empty() { p .quiet { "No source of a component has been looked at yet." } }
            @for provider in providers.iter().take(rows) { (component(provider, figures)) }
            (more(providers.len(), providers.len().min(rows)))
        }
    }
}

fn component(provider: &Provider, figures: &Figures<'_>) -> Markup {
    let loads = |result| {
        let wanted = [("source", provider.source.as_str()), ("result", result)];
        figure(figures.sum("ccm_provider_loads_total", &wanted))
    };
    html! {
        article {
            h3 {
                @match &provider.serving {
                    Some(serving) => { (text(serving)) }
                    None => { span .bad { "no component serves: nothing is written to the cluster for it" } }
                }
            }
            small { (text(&provider.source)) }
            dl {
                @if provider.serving.is_some() {
                    dt { "phase" } dd { (text(&provider.phase)) }
                    dt { "digest" } dd { (text(&provider.digest)) }
                }
                @if let Some(last_good) = &provider.last_good { dt { "last good" } dd { (text(last_good)) } }
                @if let Some(last_load) = &provider.last_load { dt { "last swap" } dd { (text(last_load)) } }
                dt { "so far" }
                dd { (loads("taken")) " taken, " (loads("rejected")) " rejected, " (loads("rolled-back")) " rolled back" }
                @for Refused { what, at, reason } in &provider.refused {
                    dt .bad { "not taken" }
                    dd { (text(what)) " " (text(at)) ": " (text(reason)) }
                }
                @for why in &provider.unreadable { dt .bad { "credential" } dd { (text(why)) } }
            }
        }
    }
}

// === Objects ===

/// A list of objects that are not as they should be.
pub(crate) struct List<'s> {
    /// Of its section.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Who knows of them.
    pub(crate) controller: &'static str,
    /// What `explain` is asked for.
    pub(crate) explain: &'static str,
    pub(crate) of: Option<&'s Rows<Trouble>>,
}

pub(crate) fn troubles(List { id, title, controller, explain, of }: &List<'_>, rows: usize) -> Markup {
    html! {
        section id=(id) {
            h2 { (title) @if let Some(troubles) = of { ": " (counted(troubles.all)) } }
            @match of {
                None => { p .quiet { "Not known: no " (controller) " controller runs in this process." } }
                Some(Rows { all: 0, .. }) => { p .good { "none" } }
                Some(Rows { all, first }) => {
                    ul { @for one in first.iter().take(rows) { (trouble(one)) } }
                    (more(*all, first.len().min(rows)))
                    p .quiet { "More of one: " code { "wasm-ccm explain " (explain) } }
                }
            }
        }
    }
}

/// Services that have no trouble and are not done.
pub(crate) fn waiting(figures: &Figures<'_>) -> Markup {
    const WAITING: [(&str, &str); 2] = [
        ("ccm_services_pending", "Services that wait for their first address, with and without trouble: "),
        ("ccm_services_outdated", "Services that wait to be ensured again for another revision of their provider: "),
    ];
    let now = WAITING.map(|(metric, says)| (says, figures.sum(metric, &[])));
    html! {
        @for (says, count) in now.into_iter().filter(|(_, count)| *count > 0.0) { p { (says) (figure(count)) } }
    }
}

fn trouble(Trouble { name, reason, why, next }: &Trouble) -> Markup {
    html! {
        li {
            b { (text(name)) } " " span .tag.bad { (text(reason)) }
            @if let Some(why) = why { p { (text(why)) } }
            @if let Some(next) = next { small { (text(next)) } }
        }
    }
}

/// Nodes that no manager is asked to initialise, if there are any.
pub(crate) fn unmanaged(unmanaged: Option<&Unmanaged>, rows: usize) -> Markup {
    let Some(Unmanaged { found, fix, nodes: Rows { all: all @ 1.., first } }) = unmanaged else { return html! {} };
    html! {
        section #unmanaged {
            h2 { "Nodes that nobody initialises: " (counted(*all)) }
            p .bad { (plural(*all, "It ", "Each ")) (text(found)) }
            ul { @for name in first.iter().take(rows) { li { b { (text(name)) } } } }
            (more(*all, first.len().min(rows)))
            p .quiet {
                "To do: "
                // Commands stand between backticks.
                @for (place, part) in text(fix).split('`').enumerate() {
                    @if place.is_multiple_of(2) { (part) } @else { code { (part) } }
                }
            }
        }
    }
}

pub(crate) fn held(held: Option<&Rows<Held>>, rows: usize) -> Markup {
    let Some(Rows { all, first }) = held else { return html! {} };
    html! {
        section #held {
            h2 { "Deletions of Nodes that are held: " (counted(*all)) }
            @if *all == 0 {
                p .good { "none" }
            } @else {
                ul {
                    @for Held { name, budget } in first.iter().take(rows) {
                        li { b { (text(name)) } p { (text(budget)) } }
                    }
                }
                (more(*all, first.len().min(rows)))
                p .quiet {
                    "If the machines exist, scale the host to zero replicas at once: the next Node is deleted as soon as "
                    "the limit allows. If they are gone, wait, or restart with " code { "--confirm-node-deletions=NAME" } "."
                }
            }
        }
    }
}

// === Figures ===

/// What a queue is asked for, with the head of its column.
const QUEUE_FIGURES: [(&str, &str); 4] = [
    ("waiting", "workqueue_depth"),
    ("added", "workqueue_adds_total"),
    ("tried again", "workqueue_retries_total"),
    ("panics", "ccm_reconcile_panics_total"),
];

const LONGEST_RUN: (&str, &str) = ("longest run", "workqueue_longest_running_processor_seconds");

/// The same of an endpoint.
const ENDPOINT_FIGURES: [(&str, &str); 3] = [
    ("at once", "ccm_cloud_requests_at_once"),
    ("waiting", "ccm_cloud_requests_waiting"),
    ("under way", "ccm_cloud_requests_under_way"),
];

const LEFT: &str = "left, as the cloud says";

pub(crate) fn queues(figures: &Figures<'_>, rows: usize, leads: bool) -> Markup {
    let queues = figures.by("workqueue_depth", ["name"]);
    html! {
        section #queues {
            h2 { "Controllers and their queues" }
            @if queues.is_empty() {
                p .quiet {
                    (if leads { "No controller has begun yet." } else { "None: only the leader runs controllers." })
                }
            } @else {
                table {
                    thead { tr {
                        th { "queue" }
                        @for (head, _) in QUEUE_FIGURES { th { (head) } }
                        th { (LONGEST_RUN.0) }
                    } }
                    tbody { @for [name] in queues.keys().take(rows) { (queue(figures, name)) } }
                }
                (more(queues.len(), queues.len().min(rows)))
            }
        }
    }
}

fn queue(figures: &Figures<'_>, name: &str) -> Markup {
    let of = [("name", name)];
    html! {
        tr {
            td { (text(name)) }
            // On a phone, each figure says what it is.
            @for (head, metric) in QUEUE_FIGURES { td data-is=(head) { (figure(figures.sum(metric, &of))) } }
            td data-is=(LONGEST_RUN.0) { (format!("{:.1} s", figures.sum(LONGEST_RUN.1, &of))) }
        }
    }
}

/// Requests by provider, endpoint and outcome.
type Requests<'t> = BTreeMap<[Cow<'t, str>; 3], f64>;

pub(crate) fn endpoints(figures: &Figures<'_>, rows: usize) -> Markup {
    // Once for all endpoints: this metric has a series for each operation.
    let requests = figures.by("ccm_cloud_requests_total", ["provider", "endpoint", "outcome"]);
    let asked = requests.keys().map(|[provider, endpoint, _]| [provider.clone(), endpoint.clone()]);
    let all: BTreeSet<_> =
        figures.by("ccm_cloud_requests_at_once", ["provider", "endpoint"]).into_keys().chain(asked).collect();
    html! {
        section #endpoints {
            h2 { "Requests to clouds" }
            @if all.is_empty() {
                p .quiet { "None were sent yet." }
            } @else {
                table {
                    thead { tr {
                        th { "endpoint" } th { (LEFT) }
                        @for (head, _) in ENDPOINT_FIGURES { th { (head) } }
                        th { "answered" } th { "failed" }
                    } }
                    tbody { @for [provider, name] in all.iter().take(rows) { (endpoint(figures, &requests, [provider, name])) } }
                }
                (more(all.len(), all.len().min(rows)))
            }
        }
    }
}

fn endpoint(figures: &Figures<'_>, requests: &Requests<'_>, [provider, name]: [&str; 2]) -> Markup {
    let of = [("provider", provider), ("endpoint", name)];
    let now = |metric: &str| figures.one(metric, &of).map_or_else(|| "–".to_owned(), figure);
    let of_it = requests.iter().filter(|([of, endpoint, _], _)| of == provider && endpoint == name);
    let (answered, failed) =
        of_it.fold((0.0, 0.0), |(answered, failed), ([_, _, outcome], count)| match outcome.as_ref() {
            "2xx" | "3xx" | "shared" => (answered + count, failed),
            _ => (answered, failed + count),
        });
    html! {
        tr {
            td {
                (text(provider)) " " (text(name))
                @if figures.sum("ccm_cloud_circuit_open", &of) > 0.0 { span .tag.bad { "down" } }
            }
            td data-is=(LEFT) {
                (now("ccm_cloud_requests_remaining"))
                @if let Some(limit) = figures.one("ccm_cloud_requests_limit", &of) { " of " (figure(limit)) }
            }
            @for (head, metric) in ENDPOINT_FIGURES { td data-is=(head) { (now(metric)) } }
            td data-is="answered" { (figure(answered)) }
            td .bad[failed > 0.0] data-is="failed" { (figure(failed)) }
        }
    }
}
