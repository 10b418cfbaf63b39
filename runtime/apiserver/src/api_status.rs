//! What an answer of the API server means. Its status code alone says too little: a missing right, a quota, a webhook and a namespace
//! that ends all are 403, and a proxy in between has a 404 of its own.

use kube::core::Status;
use kube::core::response::reason;

/// Cause of a refusal in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// What the namespaces themselves are called in details.
const NAMESPACES: &str = "namespaces";
/// The reason that kube gives where it finds no Status in what was answered.
const NO_STATUS: &str = "Failed to parse error data";

/// Whether the API server certainly says this itself. What stands before it answers with any code, and with a page for people or a text of its
/// own: that says nothing of objects and rights. An API server with too much to do answers with a text as well, and says no more than that.
#[must_use]
pub fn is_answer(status: &Status) -> bool {
    status.is_failure() && status.reason != NO_STATUS && status.code >= 400
}

/// Whether the sender lacks a right. Not everything that is forbidden is about rights, and there is no reason or cause for it: the
/// sentence is the same for each way of authorization.
#[must_use]
pub fn lacks_right(status: &Status) -> bool {
    let is_sentence = status.message.contains("User \"") && status.message.contains("\" cannot ");
    status.is_forbidden() && causes(status).next().is_none() && is_sentence
}

/// Whether the object's namespace is being deleted and takes nothing new, or is gone.
#[must_use]
pub fn is_namespace_ending(status: &Status) -> bool {
    let is_gone = status.reason == reason::NOT_FOUND && kind(status) == NAMESPACES;
    is_gone || status.is_forbidden() && causes(status).any(|cause| cause == NAMESPACE_TERMINATING)
}

/// Whether the API server says that there is no such object. Only this answer proves it: trusting another one would abandon what belongs to
/// the object.
pub(crate) fn is_object_missing(status: &Status) -> bool {
    status.reason == reason::NOT_FOUND && !matches!(kind(status), "" | NAMESPACES)
}

fn kind(status: &Status) -> &str {
    status.details.as_ref().map_or("", |details| details.kind.as_str())
}

fn causes(status: &Status) -> impl Iterator<Item = &str> {
    status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.reason.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(code: u16, reason: &str, message: &str, details: &Value) -> Status {
        let status = json!({ "code": code, "reason": reason, "message": message, "details": details });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn only_a_status_is_an_answer_of_the_api_server() {
        let said = |text: &str| serde_json::from_str::<Status>(text).unwrap();
        // A webhook need not say a reason.
        for text in [
            r#"{ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 }"#,
            r#"{ "kind": "Status", "status": "Failure", "message": "admission webhook \"x\" denied the request", "code": 400 }"#,
        ] {
            assert!(is_answer(&said(text)), "{text}");
        }
        for text in [
            r#"{ "message": "Forbidden" }"#,
            r#"{ "code": 403, "message": "no", "reason": "Forbidden" }"#,
            r#"{ "status": "Success" }"#,
            r#"{ "status": "Failure" }"#,
            "{}",
        ] {
            assert!(!is_answer(&said(text)), "{text}");
        }
        assert!(!is_answer(&Status::failure("<html>Forbidden</html>", NO_STATUS).with_code(403)));
    }

    /// As the API server (1.33 to 1.36) and what stands before it say it.
    #[test]
    fn answers_of_one_code_are_told_apart_by_what_else_they_say() {
        let ending =
            "events \"a\" is forbidden: unable to create new content in namespace b because it is being terminated";
        let events = json!({ "name": "a", "kind": "events", "group": "events.k8s.io" });
        let cause = json!({ "reason": "NamespaceTerminating", "message": "namespace b is being terminated", "field": "metadata.namespace" });
        let mut terminating = events.clone();
        terminating["causes"] = json!([cause]);
        let right = "events.events.k8s.io is forbidden: User \"system:serviceaccount:a:b\" cannot create resource \"events\" in API group \"events.k8s.io\" in the namespace \"c\"";
        let unread = format!("{right}: RBAC: clusterrole.rbac.authorization.k8s.io \"x\" not found");
        let quota = "events \"a\" is forbidden: exceeded quota: small, requested: count/events=1, used: count/events=5, limited: count/events=5";
        let webhook = "admission webhook \"x.example\" denied the request: you cannot do that";
        let none = Value::Null;
        // Code, reason, message, details; lacks a right, namespace is ending, object is missing.
        let cases = [
            (403, "Forbidden", right, json!({ "kind": "events" }), [true, false, false]),
            (403, "Forbidden", unread.as_str(), json!({ "kind": "events" }), [true, false, false]),
            (403, "Forbidden", ending, terminating, [false, true, false]),
            (403, "Forbidden", quota, events.clone(), [false; 3]),
            (403, "Forbidden", webhook, none.clone(), [false; 3]),
            (403, "Failed to parse error data", "<html>Forbidden</html>", none.clone(), [false; 3]),
            (404, "NotFound", "events \"a\" not found", events, [false, false, true]),
            (
                404,
                "NotFound",
                "namespaces \"b\" not found",
                json!({ "name": "b", "kind": "namespaces" }),
                [false, true, false],
            ),
            (404, "NotFound", "the server could not find the requested resource", json!({}), [false; 3]),
            (404, "Failed to parse error data", "404 page not found", none, [false; 3]),
        ];
        for (code, reason, message, details, expected) in cases {
            let status = status(code, reason, message, &details);
            let told = [lacks_right(&status), is_namespace_ending(&status), is_object_missing(&status)];
            assert_eq!(told, expected, "{status:?}");
        }
    }
}
