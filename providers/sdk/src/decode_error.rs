//! Says where a body differs from the expected type. Never quotes the body, which may contain secrets.

use serde_json::error::Category;

/// Parts of the path that a message has room for.
const MAX_DEPTH: usize = 8;
/// Letters of a name in it.
const MAX_NAME: usize = 40;

pub(crate) fn describe(body: &[u8], error: &serde_json::Error) -> String {
    if body.trim_ascii().is_empty() {
        return "the answer has no body".to_owned();
    }
    let place = format!("line {} column {}", error.line(), error.column());
    if error.classify() != Category::Data {
        return format!("the answer is no JSON at {place}");
    }
    let path = path(body, offset(body, error.line(), error.column()));
    let at = if path.is_empty() { place } else { format!("{path}, {place}") };
    match reason(&error.to_string()) {
        Some(reason) => format!("the answer is not as expected at {at}: {reason}"),
        None => format!("the answer is not as expected at {at}"),
    }
}

/// What comes from the provider's types in the error of serde; the rest of its text may quote the body.
fn reason(error: &str) -> Option<String> {
    let error = error.rsplit_once(" at line ").map_or(error, |(before, _)| before);
    if error.starts_with("missing field `") {
        return Some(error.to_owned());
    }
    error.rsplit_once(", expected ").map(|(_, expected)| format!("expected {expected}"))
}

fn offset(body: &[u8], line: usize, column: usize) -> usize {
    let before: usize = body.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column
}

enum Step {
    Name(String),
    Index(usize),
}

/// Names and indices of the value that ends at `offset`: `droplets[3].networks`. The body is known to be JSON up to there.
fn path(body: &[u8], offset: usize) -> String {
    let mut steps = vec![];
    let mut text: Option<String> = None;
    let mut escaped = false;
    let mut last = String::new();
    // The byte at the offset is the last one that serde has looked at: a closing bracket belongs to what it closes.
    for byte in body.iter().take(offset.saturating_sub(1)) {
        if let Some(inside) = &mut text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => last = text.take().unwrap_or_default(),
                _ if inside.len() < MAX_NAME => {
                    inside.push(if byte.is_ascii_graphic() { char::from(*byte) } else { '?' })
                }
                _ => {}
            }
            continue;
        }
        match (byte, steps.last_mut()) {
            (b'"', _) => text = Some(String::new()),
            (b'{', _) => steps.push(Step::Name(String::new())),
            (b'[', _) => steps.push(Step::Index(0)),
            (b'}' | b']', _) => drop(steps.pop()),
            (b':', Some(Step::Name(name))) => name.clone_from(&last),
            (b',', Some(Step::Name(name))) => name.clear(),
            (b',', Some(Step::Index(index))) => *index += 1,
            _ => {}
        }
    }
    // At the end of an object or array, the whole is meant.
    if matches!(body.get(offset.saturating_sub(1)), Some(b'}' | b']')) {
        drop(steps.pop());
    }
    let mut path = String::new();
    for step in steps.iter().take(MAX_DEPTH) {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Name(name) if name.is_empty() => {}
            Step::Name(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct List {
        droplets: Vec<Droplet>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Droplet {
        id: u64,
        status: Option<Status>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Status {
        Active,
    }

    #[test]
    fn the_place_is_told_and_the_text_of_the_body_is_not() {
        for (body, expected) in [
            ("", "the answer has no body"),
            (" \n ", "the answer has no body"),
            ("<html>secret</html>", "the answer is no JSON at line 1 column 1"),
            (r#"{"droplets": ["#, "the answer is no JSON at line 1 column 14"),
            (
                r#"{"droplets": [{"id": 1}, {"id": "secret"}]}"#,
                "the answer is not as expected at droplets[1].id, line 1 column 40: expected u64",
            ),
            (
                "{\n  \"droplets\": [\n    {\"id\": 1},\n    {\"idd\": 2}\n  ]\n}",
                "the answer is not as expected at droplets[1], line 4 column 14: missing field `id`",
            ),
            (
                r#"{"droplets": [{"id": 1, "status": "secret"}]}"#,
                "the answer is not as expected at droplets[0].status, line 1 column 42: expected `active`",
            ),
            (
                r#"{"droplets": "secret, expected secret"}"#,
                "the answer is not as expected at droplets, line 1 column 38: expected a sequence",
            ),
            (r#"{"secret": 1}"#, "the answer is not as expected at line 1 column 13: missing field `droplets`"),
            ("[]", "the answer is not as expected at line 1 column 2: expected struct List with 1 element"),
            (
                r#"{"meta": {"a\"}]": [1, "x]"]}, "droplets": [{"id": -1}]}"#,
                "the answer is not as expected at droplets[0].id, line 1 column 53: expected u64",
            ),
        ] {
            let error = serde_json::from_str::<List>(body).expect_err(body);
            assert_eq!(describe(body.as_bytes(), &error), expected, "{error}");
        }
    }
}
