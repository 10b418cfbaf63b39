//! An explanation for people: one fact per line, with the label in front.

use std::borrow::Cow;
use std::fmt::Write as _;

use ccm_cloud::names_request;

use super::reason::Explanation;
use super::{advice, failed_request};
use crate::plain::{about, one_line as line};
use crate::verdict::Verdict;

impl Explanation {
    /// For people. Nothing in it moves a terminal: what others wrote is shown without control characters.
    #[must_use]
    pub fn text(&self) -> String {
        of(self)
    }
}

/// So much of a text is shown, in bytes: a condition and an Event may be as long as somebody likes. JSON has all of it.
const MAX_TEXT: usize = 2_000;
/// Of a message, so that what stands after it in the line is shown as well.
const MAX_MESSAGE: usize = 1_800;

fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(most)) {
        Some(start) if start.len() < text.len() => Cow::Owned(format!("{start}…")),
        _ => Cow::Borrowed(text),
    }
}

/// How often it has failed, where that is more than once.
fn tries(tries: u32) -> String {
    if tries > 1 { format!(", the {tries}{} failure in a row", ordinal(tries)) } else { String::new() }
}

const fn ordinal(number: u32) -> &'static str {
    match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
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
    let mut text = format!("{object}: {word}: {}\n", cut(&line(summary), MAX_TEXT));
    let mut fact = |label: &str, value: &str| {
        // A String takes everything.
        let _written = writeln!(text, "  {label:10} {}", cut(&line(value), MAX_TEXT));
    };
    let optional = [("provider", provider), ("class", class), ("decision", decision)];
    optional.iter().for_each(|(label, value)| value.iter().for_each(|value| fact(label, value)));
    if let Some(failure) = failure {
        let ago = failure.seconds_ago.map(|seconds| format!(" ({} ago{})", about(seconds), tries(failure.tries)));
        fact("last try", &format!("{}{}", cut(&failure.message, MAX_MESSAGE), ago.unwrap_or_default()));
        if let Some(request) = &failure.request {
            let is_named = names_request(&failure.message, request.request_id.as_deref(), &request.operation);
            let doubt = if is_named { "" } else { "; the last that failed in this try, and maybe not the reason" };
            fact("request", &format!("{}{doubt}", failed_request::place(request)));
            fact("answer", &failed_request::outcome(request));
        }
        if let Some(reaction) = failure.reaction.as_deref().filter(|reaction| !reaction.is_empty()) {
            let meaning = advice::meaning(reaction).map(|meaning| format!(": {meaning}")).unwrap_or_default();
            fact("reaction", &format!("{reaction}{meaning}"));
        }
    }
    held.iter().for_each(|held| fact("held", held));
    next.iter().for_each(|next| fact("next try", next));
    dry_run.iter().for_each(|line| fact("dry run", line));
    refused.iter().for_each(|refused| fact("refused", refused));
    events.iter().for_each(|event| fact("event", event));
    match asked {
        Some(place) => fact("asked", &leader.as_ref().map_or(place.clone(), |leader| format!("{place}: {leader}"))),
        None => fact("asked", "no leader could be asked: this is what the object and its Events say"),
    }
    tried.iter().for_each(|tried| fact("tried", tried));
    advice.iter().for_each(|advice| fact("to do", advice));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use ccm_controllers::CloudRequest;

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
                seconds_ago: Some(3.0),
                tries: 2,
                request: Some(CloudRequest {
                    operation: "POST /x".into(),
                    method: "POST".into(),
                    endpoint: "api".into(),
                    origin: "https://api.example".into(),
                    path: "/x".into(),
                    status: Some(503),
                    request_id: Some("r-1\u{1b}[2J".into()),
                    sent: 3,
                    seconds_ago: 4.0,
                    ..CloudRequest::default()
                }),
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
  last try   POST /x: 503 (3 s ago, the 2nd failure in a row)
  request    POST https://api.example/x (endpoint api); the last that failed in this try, and maybe not the reason
  answer     503 Service Unavailable, request ID r-1 [2J (sent 3 times, 4 s ago)
  reaction   retry: the host tries again, each time a bit later
  next try   in 4 s
  dry run    would write something
  event      Warning X: [2Jgone next
  asked      the host at https://127.0.0.1:1/: leader: this process
  to do      wait";
        assert_eq!(of(&explanation), told);
    }

    #[test]
    fn a_request_of_which_the_message_does_not_speak_is_told_with_a_doubt() {
        let request = |id: &str, operation: &str| CloudRequest {
            request_id: Some(id.to_owned()),
            operation: operation.to_owned(),
            status: Some(422),
            ..CloudRequest::default()
        };
        for (id, operation, is_named) in
            [("r-12", "x", true), ("r-1", "x", false), ("", "POST /x", true), ("", "", false)]
        {
            let message = "POST /x: 422 (request ID r-12)".to_owned();
            let failure = Failure { message, request: Some(request(id, operation)), ..Failure::default() };
            let text = of(&Explanation { failure: Some(failure), ..Explanation::default() });
            assert_eq!(!text.contains("and maybe not the reason"), is_named, "{id} {operation}: {text}");
        }
    }

    #[test]
    fn a_text_of_any_length_is_cut_and_what_stands_after_it_is_not() {
        let failure = Failure { message: "x".repeat(1 << 20), seconds_ago: Some(3.0), ..Failure::default() };
        let events = vec!["\u{fc}".repeat(1 << 20)];
        let explanation = Explanation { failure: Some(failure), events, ..Explanation::default() };
        let text = of(&explanation);
        assert!(text.len() < 5_000 && text.contains("x\u{2026} (3 s ago)"), "{}", text.len());
        assert!(text.contains("\u{fc}\u{2026}\n"), "{text}");
    }

    #[test]
    fn a_row_of_failures_is_counted_as_people_count() {
        let told = [0, 1, 2, 3, 4, 11, 12, 13, 21, 111].map(tries);
        let wanted = ["", "", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"];
        for (told, wanted) in told.iter().zip(wanted) {
            assert!(told.contains(wanted) && (told.is_empty() == wanted.is_empty()), "{told} {wanted}");
        }
    }
}
