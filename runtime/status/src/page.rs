//! The page as a whole: its head, who leads, the verdict, and that it stays small.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figures::Figures;
use crate::sections::{List, components, counted, endpoints, held, plural, queues, text, troubles, unmanaged, waiting};
use crate::status::{DryRun, Rows, Status, Unmanaged};
use crate::would_write::would_write;

/// Most entries of one list.
pub const ROWS: usize = 50;

/// Most bytes of the page. Where the entries are so long that it would have more, its lists are shorter.
pub const MAX_PAGE: usize = 50_000;

/// What a process that does not lead cannot say.
const STANDBY: &str = "Services and Nodes are not known here: this process stands by. Open this page on the leader";

/// Its digest stands in [`POLICY`](crate::POLICY).
pub(crate) const STYLE: &str = include_str!("page.css");

impl Status {
    /// The page.
    #[must_use]
    pub fn render(&self) -> String {
        let (figures, mut rows) = (Figures::read(&self.metrics), ROWS);
        loop {
            let page = self.page(&figures, rows).into_string();
            if page.len() <= MAX_PAGE || rows == 0 {
                return page;
            }
            rows /= 2;
        }
    }

    fn page(&self, figures: &Figures<'_>, rows: usize) -> Markup {
        let verdict = self.verdict(figures);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    title { (verdict.word()) " wasm-ccm" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { "wasm-ccm " small { (text(&self.version)) } }
                        (verdict.shown())
                        p { (text(&self.leader)) }
                        // The verdict says it where there is nothing else.
                        @if self.stands_by() && matches!(verdict, Verdict::Attention(_)) { p { (STANDBY) } }
                    }
                    main {
                        (failing(&self.failing, rows))
                        (components(&self.providers, figures, rows))
                        @if let Some(dry_run) = &self.dry_run {
                            (would_write(dry_run, rows))
                        } @else {
                            @if self.leads { (self.objects(figures, rows)) }
                            (queues(figures, rows, self.leads))
                        }
                        (endpoints(figures, rows))
                    }
                    footer {
                        p {
                            // Relative, so that they work behind a proxy.
                            @for page in ["readyz", "providerz", "metrics"] { a href=(page) { (page) } " " }
                        }
                        small { "As of " (text(&self.at)) ". The page is read again every 15 s." }
                    }
                }
            }
        }
    }

    fn objects(&self, figures: &Figures<'_>, rows: usize) -> Markup {
        let node = "node NAME";
        html! {
            (troubles(&List {
                id: "services",
                title: "Services that are not ready",
                controller: "service",
                explain: "service NAMESPACE/NAME",
                of: self.services.as_ref(),
            }, rows))
            (waiting(figures))
            (troubles(&List {
                id: "uninitialised",
                title: "Nodes that are not initialised",
                controller: "node",
                explain: node,
                of: self.uninitialised.as_ref(),
            }, rows))
            (unmanaged(self.unmanaged.as_ref(), rows))
            (troubles(&List {
                id: "unready",
                title: "Nodes that are not Ready",
                controller: "node lifecycle",
                explain: node,
                of: self.unready.as_ref(),
            }, rows))
            (held(self.held.as_ref(), rows))
        }
    }

    /// Whether another process leads, or nobody. A dry run leads nothing, and looks at all objects.
    const fn stands_by(&self) -> bool {
        !self.leads && self.dry_run.is_none()
    }

    fn verdict(&self, figures: &Figures<'_>) -> Verdict {
        match self.attention(figures) {
            attention if !attention.is_empty() => Verdict::Attention(attention),
            _ if self.stands_by() => Verdict::Standby,
            _ => Verdict::Good,
        }
    }

    /// What somebody should look at, each in a few words.
    fn attention(&self, figures: &Figures<'_>) -> Vec<String> {
        let unused = self.providers.iter().map(|provider| provider.refused.len()).sum();
        let unreadable = self.providers.iter().map(|provider| provider.unreadable.len()).sum();
        let idle = self.providers.iter().filter(|provider| provider.serving.is_none()).count();
        let open = figures.series("ccm_cloud_circuit_open").filter(|(_, is_open)| *is_open > 0.0).count();
        let all = [
            (self.failing.len(), "check that fails", "checks that fail"),
            (idle, "provider without a component", "providers without a component"),
            (unused, "component or configuration not taken", "components or configurations not taken"),
            (unreadable, "credential that cannot be read", "credentials that cannot be read"),
            (many(self.services.as_ref()), "Service not ready", "Services not ready"),
            (many(self.uninitialised.as_ref()), "Node not initialised", "Nodes not initialised"),
            (
                many(self.unmanaged.as_ref().map(|Unmanaged { nodes, .. }| nodes)),
                "Node that nobody initialises",
                "Nodes that nobody initialises",
            ),
            (many(self.unready.as_ref()), "Node not Ready", "Nodes not Ready"),
            (many(self.held.as_ref()), "held deletion", "held deletions"),
            (open, "endpoint down", "endpoints down"),
            (self.dry_run.as_ref().map_or(0, |dry_run| dry_run.changes), "write kept back", "writes kept back"),
            (
                many(self.dry_run.as_ref().map(|DryRun { unknown, .. }| unknown)),
                "object not known",
                "objects not known",
            ),
        ];
        let told = all.into_iter().filter(|(count, ..)| *count > 0);
        told.map(|(count, one, more)| format!("{} {}", counted(count), plural(count, one, more))).collect()
    }
}

fn many<T>(rows: Option<&Rows<T>>) -> usize {
    rows.map_or(0, |rows| rows.all)
}

/// What is said first.
enum Verdict {
    /// Nothing that this process knows of needs attention, and it knows everything.
    Good,
    /// The same of a process that does not know the objects: good is nothing that it could say.
    Standby,
    /// What needs attention.
    Attention(Vec<String>),
}

impl Verdict {
    /// For the title.
    const fn word(&self) -> &'static str {
        match self {
            Self::Good => "OK",
            Self::Standby => "standby",
            Self::Attention(_) => "!",
        }
    }

    fn shown(&self) -> Markup {
        html! {
            @match self {
                Self::Good => { p #verdict .verdict.good { "Nothing needs attention" } }
                Self::Standby => { p #verdict .verdict { (STANDBY) } }
                Self::Attention(what) => { p #verdict .verdict.bad { (what.join(", ")) } }
            }
        }
    }
}

fn failing(lines: &[String], rows: usize) -> Markup {
    html! {
        @if !lines.is_empty() {
            section #failing {
                h2 { "Checks that fail" }
                ul { @for line in lines.iter().take(rows) { li { (text(line)) } } }
                (crate::sections::more(lines.len(), lines.len().min(rows)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
