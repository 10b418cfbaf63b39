//! What a check found, and how it is told: one line each, with what is wrong and the fix.

use serde::Serialize;

use crate::paste::Paste;
use crate::plain::one_line;
use crate::verdict::Verdict;

/// Objects that a line names; `--output json` has all of them.
const NAMED: usize = 3;

/// What was found of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judgement {
    /// It is as it should be.
    Good,
    /// It works, and may not be what the operator meant.
    Note,
    /// Nobody can tell from here.
    Unjudged,
    /// It does not work, or will not.
    Wrong,
}

impl Judgement {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Unjudged => "unknown",
            Self::Wrong => "WRONG",
        }
    }
}

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// Which check.
    pub(super) check: Check,
    /// What it comes to.
    pub(super) judgement: Judgement,
    /// What it is about, where that is one object or several with the same trouble.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) objects: Vec<String>,
    /// What was found.
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// What is checked, in the order in which it is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    ApiServer,
    Clock,
    Rights,
    Leases,
    Hosts,
    Managers,
    Nodes,
    Providers,
    Dns,
    Proxy,
    Tls,
    Endpoints,
    Budget,
    Services,
    Webhook,
}

impl Check {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Clock => "clock",
            Self::Rights => "rights",
            Self::Leases => "leases",
            Self::Hosts => "hosts",
            Self::Managers => "managers",
            Self::Nodes => "nodes",
            Self::Providers => "providers",
            Self::Dns => "dns",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Endpoints => "endpoints",
            Self::Budget => "budget",
            Self::Services => "services",
            Self::Webhook => "webhook",
        }
    }

    pub(super) fn good(self, found: impl Into<String>) -> Finding {
        self.finding(Judgement::Good, found, None)
    }

    pub(super) fn note(self, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.finding(Judgement::Note, found, Some(fix.into()))
    }

    pub(super) fn unjudged(self, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.finding(Judgement::Unjudged, found, Some(fix.into()))
    }

    pub(super) fn wrong(self, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.finding(Judgement::Wrong, found, Some(fix.into()))
    }

    fn finding(self, judgement: Judgement, found: impl Into<String>, fix: Option<String>) -> Finding {
        Finding { check: self, judgement, objects: vec![], found: one_line(&found.into()), fix }
    }
}

impl Finding {
    /// Says what it is about.
    pub(super) fn about(self, objects: impl IntoIterator<Item = String>) -> Self {
        let mut objects: Vec<String> = objects.into_iter().map(|object| one_line(&object)).collect();
        objects.sort();
        Self { objects, ..self }
    }

    /// With commands that can be pasted. What is said of providers is ours as well, and names commands.
    pub(super) fn completed(self, paste: &Paste) -> Self {
        let Self { check, fix, found, .. } = self;
        let found = if check == Check::Providers { paste.complete(&found) } else { found };
        Self { found, fix: fix.map(|fix| paste.complete(&fix)), ..self }
    }

    fn line(&self) -> String {
        let mut line = format!("{:<8} {:<10}  ", self.judgement.as_str(), self.check.as_str());
        if !self.objects.is_empty() {
            let named: Vec<&str> = self.objects.iter().take(NAMED).map(String::as_str).collect();
            let more = self.objects.len() - named.len();
            line += &named.join(", ");
            line += &if more == 0 { ": ".to_owned() } else { format!(" and {more} more: ") };
        }
        line += &self.found;
        if let Some(fix) = &self.fix {
            line += "; fix: ";
            line += fix;
        }
        line
    }
}

/// All that was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    wrong: usize,
    unjudged: usize,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        let count = |judgement| findings.iter().filter(|finding| finding.judgement == judgement).count();
        Self { wrong: count(Judgement::Wrong), unjudged: count(Judgement::Unjudged), findings }
    }

    /// That of the worst finding.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match (self.wrong, self.unjudged) {
            (0, 0) => Verdict::Fine,
            (0, _) => Verdict::Unknown,
            _ => Verdict::Wrong,
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.findings.iter().map(Finding::line);
        let (wrong, unjudged) = (self.wrong, self.unjudged);
        let sum = format!("{wrong} wrong, {unjudged} could not be judged");
        lines.chain([sum]).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_that_of_the_worst_finding() {
        let (good, note) = (Check::Clock.good("a"), Check::Nodes.note("b", "c"));
        let (unjudged, wrong) = (Check::Rights.unjudged("d", "e"), Check::Leases.wrong("f", "g"));
        let verdict = |findings: &[&Finding]| Report::new(findings.iter().copied().cloned().collect()).verdict();
        assert_eq!(verdict(&[&good, &note]), Verdict::Fine);
        assert_eq!(verdict(&[&good, &unjudged]), Verdict::Unknown);
        assert_eq!(verdict(&[&unjudged, &wrong, &good]), Verdict::Wrong);
    }

    /// A cloud's message may hold what it wants.
    #[test]
    fn a_finding_is_one_line_without_what_a_terminal_obeys() {
        let objects = ["d", "c\n", "b", "a", "e"].map(str::to_owned);
        let finding = Check::Services.wrong("the cloud says:\r\n\u{1b}[2Jno", "ask it").about(objects);
        let text = Report::new(vec![finding.clone()]).text();
        let wanted = "WRONG    services    a, b, c and 2 more: the cloud says: [2Jno; fix: ask it\n1 wrong, 0 could not be judged";
        assert_eq!(text, wanted);
        assert_eq!(finding.objects, ["a", "b", "c", "d", "e"]);
    }
}
