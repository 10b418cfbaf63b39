//! Paths made from templates.

use crate::types::Failure;
use crate::{percent, quoted};

/// What may stand in a path besides letters, digits and `%`.
const IN_PATH: &str = "-._~!$&'()*+,;=:@/";

/// A template with every `{name}` replaced by its argument, which never leaves its segment.
///
/// # Errors
///
/// `invalid` for an argument that would, since arguments come from objects of the cluster; `unsupported` for a template that is
/// wrong itself.
pub(crate) fn fill(template: &str, arguments: &[(String, String)]) -> Result<String, Failure> {
    let mut path = String::with_capacity(template.len());
    let mut used = 0;
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| wrong(template, "has a brace without its other half"))?;
        let (_, value) = arguments
            .iter()
            .find(|(argument, _)| argument == name)
            .ok_or_else(|| wrong(template, &format!("has no argument {name}")))?;
        path.push_str(before);
        path.push_str(&argument(name, value)?);
        used += 1;
        rest = after;
    }
    path.push_str(rest);
    if used < arguments.len() {
        return Err(wrong(template, "was given an argument that it has no place for, or twice"));
    }
    check(template, &path)?;
    Ok(path)
}

fn argument(name: &str, value: &str) -> Result<String, Failure> {
    let reason = if value.is_empty() {
        "is empty"
    } else if value == "." || value == ".." || value.contains(['/', '\\']) {
        "would lead to another place"
    } else if value.contains(char::is_control) {
        "has control characters"
    } else if percent::looks_encoded(value) {
        "is percent-encoded already"
    } else {
        return Ok(percent::encode(value, percent::UNRESERVED));
    };
    let shown: String = value.chars().take(64).collect();
    Err(Failure::invalid(format!("{name} {} cannot be part of a request: it {reason}", quoted(&shown))))
}

/// Also finds what several arguments make together, and templates that were made from data.
fn check(template: &str, path: &str) -> Result<(), Failure> {
    let segments = path.strip_prefix('/').ok_or_else(|| wrong(template, "does not begin with a slash"))?;
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'%' || IN_PATH.as_bytes().contains(&byte)) {
        return Err(wrong(template, "has characters that a path cannot have"));
    }
    let mut segments = segments.split('/').peekable();
    while let Some(segment) = segments.next() {
        let lower = segment.to_ascii_lowercase();
        let leads_away = matches!(lower.replace("%2e", ".").as_str(), "." | "..");
        let empty = segment.is_empty() && segments.peek().is_some();
        if leads_away || empty || lower.contains("%2f") || lower.contains("%5c") {
            return Err(Failure::invalid(format!("the path of {template} would lead to another place")));
        }
    }
    Ok(())
}

fn wrong(template: &str, what: &str) -> Failure {
    Failure::unsupported(format!("a mistake in the provider: the route {template} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Reaction;

    fn filled(template: &str, arguments: &[(&str, &str)]) -> Result<String, Failure> {
        let arguments: Vec<_> = arguments.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        fill(template, &arguments)
    }

    #[test]
    fn arguments_stay_in_their_segment() {
        for (id, expected) in [
            ("1234", "/v2/droplets/1234/x"),
            ("a b", "/v2/droplets/a%20b/x"),
            ("a?b#c&d=e", "/v2/droplets/a%3Fb%23c%26d%3De/x"),
            ("aa:bb", "/v2/droplets/aa%3Abb/x"),
            ("100%", "/v2/droplets/100%25/x"),
            ("...", "/v2/droplets/.../x"),
            (".a", "/v2/droplets/.a/x"),
            ("ü", "/v2/droplets/%C3%BC/x"),
            ("{id}", "/v2/droplets/%7Bid%7D/x"),
        ] {
            assert_eq!(filled("/v2/droplets/{id}/x", &[("id", id)]).as_deref(), Ok(expected), "{id}");
        }
    }

    #[test]
    fn arguments_that_would_lead_elsewhere_are_refused_as_what_the_object_asks_for() {
        for id in [
            "", ".", "..", "/", "a/b", "../x", "a\\b", "%2f", "%2F", "a%2fb", "%2e%2e", "%252e", "%5c", "a\nb", "\0",
            "a%41",
        ] {
            let failure = filled("/v2/droplets/{id}", &[("id", id)]).expect_err(id);
            assert_eq!(failure.reaction, Reaction::Invalid, "{id}");
            assert!(failure.message.starts_with("id \""), "{}", failure.message);
        }
    }

    #[test]
    fn templates_made_from_data_lead_nowhere_else_either() {
        assert_eq!(
            filled("/v2/.{a}{b}", &[("a", ".x"), ("b", ".")]).map_err(|failure| failure.reaction),
            Err(Reaction::Invalid)
        );
        assert_eq!(filled("/v2/.{a}", &[("a", ".x")]).as_deref(), Ok("/v2/..x"), "harmless in a longer name");
        for template in ["/v2/../x", "/v2//x", "/v2/%2e%2E/x", "/v2/a%2fb", "/v2/a%5Cb", "/.", "//"] {
            assert_eq!(filled(template, &[]).expect_err(template).reaction, Reaction::Invalid, "{template}");
        }
    }

    #[test]
    fn long_arguments_are_cut_in_the_message() {
        let failure = filled("/{id}", &[("id", &"/".repeat(10_000))]).expect_err("slashes");
        assert!(failure.message.len() < 200, "{}", failure.message.len());
    }

    #[test]
    fn a_wrong_template_is_a_mistake_of_the_provider() {
        for (template, arguments) in [
            ("/v2/{id", &[("id", "1")][..]),
            ("/v2/{id}", &[]),
            ("/v2/x", &[("id", "1")]),
            ("/v2/{id}", &[("id", "1"), ("id", "2")]),
            ("v2/x", &[]),
            ("", &[]),
            ("/v2/x?page=1", &[]),
            ("/v2/a b", &[]),
            ("/v2/a\\b", &[]),
        ] {
            let failure = filled(template, arguments).expect_err(template);
            assert_eq!(failure.reaction, Reaction::Unsupported, "{template}");
        }
    }

    #[test]
    fn a_slash_at_the_end_is_kept() {
        assert_eq!(filled("/", &[]).as_deref(), Ok("/"));
        assert_eq!(filled("/v3/", &[]).as_deref(), Ok("/v3/"));
    }
}
