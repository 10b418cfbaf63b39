//! Errors of the API server during `push`, and what you can do about them.

use ccm_apiserver::{api_error_text, is_namespace_ending, lacks_right};
use http::Uri;
use kube::core::Status;

/// The error, and the way out where there is one that helps.
pub(super) fn tell(error: &kube::Error, server: &Uri, namespace: &str) -> String {
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            let told = ccm_apiserver::causes(error);
            let told = told.split_once("Error: ").map_or(&*told, |(_, rest)| rest);
            format!("the API server at {} does not answer: {told}; check --kubeconfig and --master", address(server))
        }
        kube::Error::Api(status) => match way_out(status, namespace) {
            Some(way_out) => format!("{}; {way_out}", api_error_text(error)),
            None => api_error_text(error),
        },
        _ => api_error_text(error),
    }
}

fn way_out(status: &Status, namespace: &str) -> Option<String> {
    if lacks_right(status) {
        let rights = "push needs the verbs get and patch for this ConfigMap, and create where there is none yet";
        return Some(rights.to_owned());
    }
    let message = &status.message;
    let fixed = match status.code {
        401 => {
            "the credentials of the kubeconfig (in a pod, of its service account) are wrong or have expired: renew them, or give another one with --kubeconfig"
        }
        403 if is_namespace_ending(status) => "wait until it is gone and make it anew, or name another one",
        404 if is_namespace_ending(status) => {
            return Some(format!("make it (kubectl create namespace {namespace}), or name another one"));
        }
        409 => "somebody else changed it meanwhile: push again",
        422 if message.contains("immutable") => "delete it and push again, or push to another name",
        _ => return None,
    };
    Some(fixed.to_owned())
}

/// Without a path, and without user and password.
fn address(server: &Uri) -> String {
    let authority = server.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{}://{host}", server.scheme_str().unwrap_or("http"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(error: &kube::Error) -> String {
        tell(error, &Uri::from_static("https://me:secret@10.0.0.1:6443/path"), "clouds")
    }

    #[test]
    fn each_answer_that_a_user_can_do_something_about_says_what() {
        let ending = json!({ "kind": "configmaps", "causes": [{ "reason": "NamespaceTerminating" }] });
        let none = Value::Null;
        let cases = [
            (401, "Unauthorized", "Unauthorized", none.clone(), Some("credentials of the kubeconfig")),
            (
                403,
                "Forbidden",
                "configmaps \"x\" is forbidden: User \"u\" cannot patch resource",
                none.clone(),
                Some("get and patch"),
            ),
            (403, "Forbidden", "configmaps \"x\" is forbidden: exceeded quota: small", none.clone(), None),
            (
                403,
                "Forbidden",
                "configmaps \"x\" is forbidden: unable to create",
                ending,
                Some("wait until it is gone"),
            ),
            (
                404,
                "NotFound",
                "namespaces \"clouds\" not found",
                json!({ "kind": "namespaces" }),
                Some("kubectl create namespace clouds"),
            ),
            (404, "NotFound", "the server could not find the requested resource", none.clone(), None),
            (409, "Conflict", "the object has been modified", none.clone(), Some("push again")),
            (
                422,
                "Invalid",
                "data: Forbidden: field is immutable when `immutable` is set",
                none.clone(),
                Some("delete it and push again"),
            ),
            (422, "Invalid", "data: Invalid value", none.clone(), None),
            (500, "InternalError", "etcdserver: no leader", none, None),
        ];
        for (code, reason, message, details, way_out) in cases {
            let status = json!({ "code": code, "reason": reason, "message": message, "details": details });
            let told = told(&kube::Error::Api(serde_json::from_value(status).unwrap()));
            let Some(rest) = told.strip_prefix(&format!("{message} ({code} {reason})")) else { panic!("{told}") };
            match way_out {
                Some(part) => assert!(rest.starts_with("; ") && rest.contains(part), "{told}"),
                None => assert_eq!(rest, "", "{told}"),
            }
        }
    }

    #[test]
    fn an_api_server_that_does_not_answer_is_named_without_a_password() {
        let told = told(&kube::Error::Service("connection refused".into()));
        let wanted = "the API server at https://10.0.0.1:6443 does not answer: connection refused; check --kubeconfig and --master";
        assert_eq!(told, wanted);
    }
}
