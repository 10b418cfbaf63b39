//! What the API server says to `push`, and what to do about it.

use http::Uri;

use crate::api;

/// The error, and the way out where there is one that helps.
pub(super) fn tell(error: &kube::Error, server: &Uri, namespace: &str) -> String {
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            let told = ccm_controllers::causes(error);
            let told = told.split_once("Error: ").map_or(&*told, |(_, rest)| rest);
            format!("the API server at {} does not answer: {told}; check --kubeconfig and --master", address(server))
        }
        kube::Error::Api(status) => match way_out(status.code, &status.message, namespace) {
            Some(way_out) => format!("{}; {way_out}", api::tell(error)),
            None => api::tell(error),
        },
        _ => api::tell(error),
    }
}

fn way_out(code: u16, message: &str, namespace: &str) -> Option<String> {
    let fixed = match code {
        401 => {
            "the credentials of the kubeconfig (in a pod, of its service account) are wrong or have expired: renew them, or give another one with --kubeconfig"
        }
        // Quotas and namespaces that are about to go are forbidden too, and say so.
        403 if message.contains(" cannot ") => {
            "push needs the verbs get and patch for this ConfigMap, and create where there is none yet"
        }
        404 if message.contains("namespaces ") => {
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
    use kube::core::Status;

    use super::*;

    fn told(error: &kube::Error) -> String {
        tell(error, &Uri::from_static("https://me:secret@10.0.0.1:6443/path"), "clouds")
    }

    #[test]
    fn each_answer_that_a_user_can_do_something_about_says_what() {
        let cases = [
            (401, "Unauthorized", Some("credentials of the kubeconfig")),
            (403, "configmaps \"x\" is forbidden: User \"u\" cannot patch resource", Some("get and patch")),
            (403, "configmaps \"x\" is forbidden: exceeded quota: small", None),
            (404, "namespaces \"clouds\" not found", Some("kubectl create namespace clouds")),
            (404, "the server could not find the requested resource", None),
            (409, "the object has been modified", Some("push again")),
            (422, "data: Forbidden: field is immutable when `immutable` is set", Some("delete it and push again")),
            (422, "data: Invalid value", None),
            (500, "etcdserver: no leader", None),
        ];
        for (code, message, way_out) in cases {
            let status = Status { code, message: message.to_owned(), reason: "Why".to_owned(), ..Status::default() };
            let told = told(&kube::Error::Api(Box::new(status)));
            let Some(rest) = told.strip_prefix(&format!("{message} ({code} Why)")) else { panic!("{told}") };
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
