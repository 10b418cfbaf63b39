//! The objects of our manifests and of the chart, by their names: `wasm-ccm`, and what begins with `wasm-ccm-`. Only names and labels are
//! read, and nothing of what is in a Secret.

use futures::future::join_all;
use kube::api::ListParams;
use kube::core::{ObjectList, PartialObjectMeta, Request};
use kube::{Client, ResourceExt as _};

use super::remains::{Item, Step, is_word};
use crate::ask::answered;

/// The name of most of them, and how the others' begin.
const NAME: &str = "wasm-ccm";
/// Where Helm writes the name and the namespace of the release that an object belongs to.
const RELEASE: [&str; 2] = ["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"];
/// Objects per page of a list.
const PAGE: u32 = 500;
/// No such kind.
const NOT_FOUND: u16 = 404;

/// Kinds in the order in which they go, with the path of their list: who works before what it needs, and policies after whom they limit.
const KINDS: [(Step, &str, &str); 17] = [
    (
        Step::Webhook,
        "ValidatingWebhookConfiguration",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ),
    (Step::Installation, "Deployment", "/apis/apps/v1/deployments"),
    (Step::Installation, "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    (Step::Installation, "Service", "/api/v1/services"),
    (Step::Installation, "PodMonitor", "/apis/monitoring.coreos.com/v1/podmonitors"),
    (Step::Installation, "PrometheusRule", "/apis/monitoring.coreos.com/v1/prometheusrules"),
    (Step::Installation, "Certificate", "/apis/cert-manager.io/v1/certificates"),
    (Step::Installation, "Issuer", "/apis/cert-manager.io/v1/issuers"),
    (Step::Installation, "ConfigMap", "/api/v1/configmaps"),
    (Step::Installation, "Secret", SECRETS),
    (Step::Installation, "RoleBinding", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    (Step::Installation, "Role", "/apis/rbac.authorization.k8s.io/v1/roles"),
    (Step::Installation, "ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    (Step::Installation, "ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    (Step::Installation, "ServiceAccount", "/api/v1/serviceaccounts"),
    (
        Step::Installation,
        "ValidatingAdmissionPolicyBinding",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    ),
    (
        Step::Installation,
        "ValidatingAdmissionPolicy",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    ),
];
/// Those of the host's namespace alone.
const SECRETS: &str = "/api/v1/namespaces/NAMESPACE/secrets";

/// What is there, in the order in which it goes; or which list cannot be read, and why.
pub(super) async fn find(client: &Client, namespace: &str) -> Vec<Result<(Step, Item), String>> {
    let lists = KINDS.map(|(step, kind, path)| async move {
        let path = path.replace("NAMESPACE", namespace);
        match list(client, &path).await {
            Ok(all) => {
                all.iter().filter(|one| is_ours(&one.name_any())).map(|one| Ok((step, item(kind, one)))).collect()
            }
            Err(why) => vec![Err(format!("{kind}s: {why}"))],
        }
    });
    join_all(lists).await.into_iter().flatten().collect()
}

/// All objects of a list, without what is in them; none where the API server does not know the kind.
async fn list(client: &Client, path: &str) -> Result<Vec<PartialObjectMeta>, String> {
    let (request, mut page) = (Request::new(path), ListParams::default().limit(PAGE));
    let mut all = vec![];
    loop {
        let asked = request.list_metadata(&page).map_err(|error| error.to_string())?;
        let answer = async {
            match client.request::<ObjectList<PartialObjectMeta>>(asked).await {
                Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
                answer => answer.map(Some),
            }
        };
        let Some(list) = answered(answer).await? else { return Ok(all) };
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn item(kind: &str, object: &PartialObjectMeta) -> Item {
    let name = object.name_any();
    let (place, scope) = match object.namespace() {
        Some(namespace) => (format!("{namespace}/"), format!(" --namespace {namespace}")),
        None => Default::default(),
    };
    let [release, of] = RELEASE.map(|name| object.annotations().get(name).filter(|value| is_word(value)));
    let (found, command) = match (release, of) {
        (Some(release), Some(namespace)) => {
            (format!("of the Helm release {release}"), format!("helm uninstall {release} --namespace {namespace}"))
        }
        _ => ("of the manifests".to_owned(), format!("kubectl{scope} delete {} {name}", kind.to_lowercase())),
    };
    Item { object: format!("{kind} {place}{name}"), found, command }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn object(metadata: &Value) -> PartialObjectMeta {
        serde_json::from_value(
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata }),
        )
        .unwrap()
    }

    #[test]
    fn an_object_goes_by_its_kind_and_namespace_and_one_of_helm_with_its_release() {
        let map = object(&json!({ "name": "wasm-ccm-provider", "namespace": "kube-system" }));
        let of_map = item("ConfigMap", &map);
        assert_eq!(of_map.object, "ConfigMap kube-system/wasm-ccm-provider");
        assert_eq!(of_map.command, "kubectl --namespace kube-system delete configmap wasm-ccm-provider");
        let role = item("ClusterRole", &object(&json!({ "name": "wasm-ccm" })));
        assert_eq!(
            (role.object.as_str(), role.command.as_str()),
            ("ClusterRole wasm-ccm", "kubectl delete clusterrole wasm-ccm")
        );
        let released = |name: &str| {
            let annotations = json!({ RELEASE[0]: name, RELEASE[1]: "kube-system" });
            item("ClusterRole", &object(&json!({ "name": "wasm-ccm", "annotations": annotations }))).command
        };
        assert_eq!(released("ccm"), "helm uninstall ccm --namespace kube-system");
        assert_eq!(released("ccm; ls"), "kubectl delete clusterrole wasm-ccm");
    }

    /// A page has 500 objects: a busy cluster has many pages of ConfigMaps.
    #[tokio::test]
    async fn what_is_on_a_later_page_is_found_and_without_that_page_the_list_is_not_known() {
        const LIST: &str = "/api/v1/configmaps";
        let page = |name: &str, token: &str| {
            let item = json!({ "metadata": { "name": name, "namespace": "kube-system" } });
            json!({ "metadata": { "continue": token }, "items": [item] })
        };
        for is_allowed in [true, false] {
            let answer = move |request: http::Request<Body>| {
                let query = request.uri().query().unwrap_or_default();
                assert!(query.contains("limit=500"), "{query}");
                let second = query.split('&').any(|part| part == "continue=second");
                let (status, body) = match (request.uri().path() == LIST, second) {
                    (false, _) => (200, json!({ "metadata": {}, "items": [] })),
                    (true, false) => (200, page("of-another", "second")),
                    (true, true) if is_allowed => (200, page("wasm-ccm-provider", "")),
                    (true, true) => {
                        (403, json!({ "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403 }))
                    }
                };
                let response = http::Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
                std::future::ready(Ok::<_, Infallible>(response.unwrap()))
            };
            let found = find(&Client::new(tower::service_fn(answer), "default"), "kube-system").await;
            match (is_allowed, found.as_slice()) {
                (true, [Ok((step, item))]) => {
                    assert_eq!(
                        (*step, item.object.as_str()),
                        (Step::Installation, "ConfigMap kube-system/wasm-ccm-provider")
                    );
                }
                (false, [Err(unread)]) => assert!(unread.starts_with("ConfigMaps: "), "{unread}"),
                _ => panic!("{is_allowed}: {found:?}"),
            }
        }
    }

    #[test]
    fn another_program_may_have_a_similar_name() {
        for (name, ours) in [("wasm-ccm", true), ("wasm-ccm-nodes", true), ("wasm-ccms", false), ("my-wasm-ccm", false)]
        {
            assert_eq!(is_ours(name), ours, "{name}");
        }
    }

    #[test]
    fn every_object_of_our_manifests_is_found() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
        let mut texts = vec![];
        for part in
            ["base", "monitoring", "optional", "optional/metrics", "optional/webhook", "optional/webhook-cert-manager"]
        {
            let files = std::fs::read_dir(folder.join(part)).unwrap().map(|file| file.unwrap().path());
            texts.extend(
                files
                    .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
                    .map(|file| std::fs::read_to_string(file).unwrap()),
            );
        }
        let objects: Vec<Value> =
            texts.iter().flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap()).collect();
        let objects = objects.iter().filter(|one| !one["apiVersion"].as_str().unwrap().starts_with("kustomize"));
        let mut kinds = std::collections::BTreeSet::new();
        for object in objects {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
            let (_, _, path) = KINDS.iter().find(|(_, known, _)| *known == kind).unwrap_or_else(|| panic!("no {kind}"));
            assert!(is_ours(name), "{kind} {name}");
            assert_eq!(path.strip_prefix("/apis/").map_or("", |path| path.split('/').next().unwrap()), group, "{kind}");
            kinds.insert(kind.to_owned());
        }
        assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
    }
}
