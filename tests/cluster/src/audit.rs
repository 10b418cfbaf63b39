//! The API server's own record of who wrote what, and when.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

pub(crate) const POLICY_FILE: &str = "audit-policy.yaml";
const LOG_FILE: &str = "audit.log";

/// Writes alone, without their contents, once each: when they were answered.
pub(crate) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
";

pub(crate) fn flags() -> [String; 2] {
    [format!("--audit-policy-file={POLICY_FILE}"), format!("--audit-log-path={LOG_FILE}")]
}

/// A write that reached the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Who wrote.
    pub user: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The resource, as `nodes` or `nodes/status`.
    pub resource: String,
    /// The object's namespace; empty where it has none.
    pub namespace: String,
    /// The object's name; empty where the API server makes it up.
    pub name: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// When the API server received it.
    pub received: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    user: User,
    verb: String,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// How long the log is; 0 where there is none.
pub(crate) fn length(folder: &Path) -> usize {
    std::fs::metadata(folder.join(LOG_FILE)).map_or(0, |log| usize::try_from(log.len()).unwrap_or(usize::MAX))
}

/// All writes after the first `from` bytes, in the order in which they were received. A line that was not complete by then is of before.
pub(crate) fn read(folder: &Path, from: usize) -> Result<Vec<Write>> {
    let text = std::fs::read_to_string(folder.join(LOG_FILE)).context("there is no audit log: Settings::audit")?;
    let lines = text.split_inclusive('\n').scan(0, |end, line| {
        let begin = *end;
        *end += line.len();
        Some((begin, line))
    });
    let text: String = lines.skip_while(|(begin, _)| *begin < from).map(|(_, line)| line).collect();
    // The last line may not be complete yet.
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut writes = complete.lines().map(parse).collect::<Result<Vec<Write>>>()?;
    writes.sort_by_key(|write| write.received);
    Ok(writes)
}

fn parse(line: &str) -> Result<Write> {
    let Line { user, verb, object_ref: object, response_status, request_received_timestamp } =
        serde_json::from_str(line).with_context(|| format!("a line of the audit log: {line}"))?;
    let Object { resource, subresource, namespace, name } = object;
    let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    let status = response_status.code;
    Ok(Write { user: user.username, verb, resource, namespace, name, status, received: request_received_timestamp })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server was writing when another test took its control plane over, and the rest of that line was no JSON.
    #[test]
    fn a_line_that_was_not_complete_is_of_before_and_one_that_is_not_complete_is_of_later() {
        let line = |user: &str| {
            let time = "2026-11-29T17:01:44.749895Z";
            format!(r#"{{"user":{{"username":"{user}"}},"verb":"patch","requestReceivedTimestamp":"{time}"}}"#)
        };
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (format!("{}\n", line("one")), format!("{}\n", line("two")));
        std::fs::write(folder.path().join(LOG_FILE), [&one, &two, r#"{"user":{"#].concat()).unwrap();
        for (from, users) in [
            (0, &["one", "two"][..]),
            (5, &["two"]),
            (one.len() - 1, &["two"]),
            (one.len(), &["two"]),
            (one.len() + 1, &[]),
            (one.len() + two.len(), &[]),
        ] {
            let writes = read(folder.path(), from).unwrap();
            assert_eq!(writes.iter().map(|write| write.user.as_str()).collect::<Vec<_>>(), users, "{from}");
        }
    }
}
