//! An explanation for people: one fact per line, with the label in front.

use std::fmt::Write as _;

use super::reason::Explanation;
use crate::plain::one_line as line;
use crate::verdict::Verdict;

impl Explanation {
    /// For people. Nothing in it moves a terminal: what others wrote is shown without control characters.
    #[must_use]
    pub fn text(&self) -> String {
        of(self)
    }
}

fn of(explanation: &Explanation) -> String {
    let Explanation { object, summary, provider, class, decision, failure, next, advice, .. } = explanation;
    let Explanation { held, refused, dry_run, events, asked, tried, verdict, leader, .. } = explanation;
    let word = match verdict {
        Verdict::Fine => "as it should be",
        Verdict::Wrong => "not as it should be",
        Verdict::Unknown => "not known",
    };
    let mut text = format!("{object}: {word}: {}\n", line(summary));
    let mut fact = |label: &str, value: &str| {
        // A String takes everything.
        let _written = writeln!(text, "  {label:10} {}", line(value));
    };
    let optional = [("provider", provider), ("class", class), ("decision", decision)];
    optional.iter().for_each(|(label, value)| value.iter().for_each(|value| fact(label, value)));
    if let Some(failure) = failure {
        let ago = failure.seconds_ago.map(|seconds| format!(" ({seconds:.0} s ago)")).unwrap_or_default();
        fact("last try", &format!("{}{ago}", failure.message));
        if let Some(reaction) = failure.reaction.as_deref().filter(|reaction| !reaction.is_empty()) {
            fact("reaction", reaction);
        }
    }
    held.iter().for_each(|held| fact("held", held));
    next.iter().for_each(|next| fact("next try", next));
    dry_run.iter().for_each(|line| fact("dry run", line));
    refused.iter().for_each(|refused| fact("refused", refused));
    events.iter().for_each(|event| fact("event", event));
    match asked {
        Some(place) => fact("asked", &leader.as_ref().map_or(place.clone(), |leader| format!("{place}: {leader}"))),
        None => fact("asked", "no host could be asked: this is what the object and its Events say"),
    }
    tried.iter().for_each(|tried| fact("tried", tried));
    advice.iter().for_each(|advice| fact("to do", advice));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::reason::Failure;
    use super::*;

    #[test]
    fn an_explanation_is_read_from_top_to_bottom() {
        let explanation = Explanation {
            object: "service default/web".into(),
            verdict: Verdict::Wrong,
            summary: "the cloud failed".into(),
            provider: Some("cloud".into()),
            decision: Some("ensure the load balancer".into()),
            failure: Some(Failure {
                message: "POST /x: 503".into(),
                reaction: Some("retry".into()),
                seconds_ago: None,
            }),
            next: Some("in 4 s".into()),
            advice: vec!["wait".into()],
            dry_run: vec!["would write\nsomething".into()],
            events: vec!["Warning X: \u{1b}[2Jgone\nnext".into()],
            asked: Some("the host at https://127.0.0.1:1/".into()),
            leader: Some("leader: this process".into()),
            ..Explanation::default()
        };
        let told = "service default/web: not as it should be: the cloud failed
  provider   cloud
  decision   ensure the load balancer
  last try   POST /x: 503
  reaction   retry
  next try   in 4 s
  dry run    would write something
  event      Warning X: [2Jgone next
  asked      the host at https://127.0.0.1:1/: leader: this process
  to do      wait";
        assert_eq!(of(&explanation), told);
    }
}
