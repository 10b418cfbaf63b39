//! The objects of our manifests and of the chart, by their names: `wasm-ccm`, and what begins with `wasm-ccm-`, where the manifests put
//! them. Who may make objects elsewhere has no say in what is removed. Only names and annotations are read, and nothing of what is in a Secret.

use std::collections::BTreeSet;

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
/// Where the manifests put these two besides the host's namespace: there the API server's own addresses are.
const BESIDES: (&str, [&str; 2]) = ("default", ["Role", "RoleBinding"]);

/// What is there, in the order in which it goes; or which list cannot be read, and why.
pub(super) async fn find(client: &Client, namespace: &str) -> Vec<Result<(Step, Item), String>> {
    let lists = KINDS.map(|(_, _, path)| async move { list(client, &path.replace("NAMESPACE", namespace)).await });
    judge(join_all(lists).await, namespace)
}

/// The lists are those of [`KINDS`].
fn judge(lists: Vec<Result<Vec<PartialObjectMeta>, String>>, namespace: &str) -> Vec<Result<(Step, Item), String>> {
    let lists: Vec<_> = KINDS.into_iter().zip(lists).collect();
    let all = || lists.iter().flat_map(|(_, list)| list.iter().flatten());
    // Many may write in the other namespaces: an object there can be of a release, and names none.
    let releases =
        all().filter(|one| one.namespace().is_none_or(|place| place == namespace) && is_ours(&one.name_any()));
    let releases: BTreeSet<&str> = releases.filter_map(|one| release(one, namespace)).collect();
    let mut found = vec![];
    for ((step, kind, _), list) in &lists {
        match list {
            Ok(all) => found.extend(all.iter().filter(|one| is_in_place(kind, one, namespace)).map(|one| {
                let release = release(one, namespace).filter(|release| releases.contains(release));
                item(kind, one, release.map(|release| (release, namespace))).map(|item| (*step, item))
            })),
            Err(why) => found.push(Err(format!("{kind}s: {why}"))),
        }
    }
    found
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

/// Whether it is named as ours and is where the manifests put such an object.
fn is_in_place(kind: &str, object: &PartialObjectMeta, namespace: &str) -> bool {
    let is_there = |place: String| place == namespace || (place == BESIDES.0 && BESIDES.1.contains(&kind));
    is_ours(&object.name_any()) && object.namespace().is_none_or(is_there)
}

/// The Helm release that it says it is of, if that is in the namespace where the chart can be installed at all.
fn release<'a>(object: &'a PartialObjectMeta, namespace: &str) -> Option<&'a str> {
    let [release, of] = RELEASE.map(|name| object.annotations().get(name).map(String::as_str));
    release.filter(|release| is_word(release) && of == Some(namespace))
}

/// `release`: the one that it is of, and its namespace.
///
/// # Errors
///
/// Its name can be no part of a command: names of roles and of their bindings may have all but `/` and `%` in them.
fn item(kind: &str, object: &PartialObjectMeta, release: Option<(&str, &str)>) -> Result<Item, String> {
    let name = object.name_any();
    let (place, scope) = match object.namespace() {
        Some(namespace) => (format!("{namespace}/"), format!(" --namespace {namespace}")),
        None => Default::default(),
    };
    if !is_word(&name) {
        return Err(format!("{kind} {place}{NAME}-…: its name is no word, so no command has it"));
    }
    let (found, command) = match release {
        Some((release, namespace)) => {
            (format!("of the Helm release {release}"), format!("helm uninstall {release} --namespace {namespace}"))
        }
        None => ("of the manifests".to_owned(), format!("kubectl{scope} delete {} {name}", kind.to_lowercase())),
    };
    Ok(Item { object: format!("{kind} {place}{name}"), found, command })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn object_of(metadata: &Value) -> PartialObjectMeta {
        serde_json::from_value(
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata }),
        )
        .unwrap()
    }

    /// Objects of these kinds, each with its metadata, in a host's namespace kube-system.
    fn judged(objects: &[(&str, Value)]) -> Vec<Result<Item, String>> {
        let of = |wanted: &str| {
            let of_kind = objects.iter().filter(|(kind, _)| *kind == wanted);
            Ok(of_kind.map(|(_, metadata)| object_of(metadata)).collect())
        };
        let lists = KINDS.map(|(_, kind, _)| of(kind)).into();
        judge(lists, "kube-system").into_iter().map(|one| one.map(|(_, item)| item)).collect()
    }

    fn commands(objects: &[(&str, Value)]) -> Vec<String> {
        judged(objects).into_iter().map(|one| one.unwrap().command).collect()
    }

    fn of_release(name: &str, namespace: Option<&str>, release: &str, of: &str) -> Value {
        let annotations = json!({ RELEASE[0]: release, RELEASE[1]: of });
        json!({ "name": name, "namespace": namespace, "annotations": annotations })
    }

    #[test]
    fn an_object_goes_by_its_kind_and_namespace_and_one_of_helm_with_its_release() {
        let map = ("ConfigMap", json!({ "name": "wasm-ccm-provider", "namespace": "kube-system" }));
        let role = ("ClusterRole", json!({ "name": "wasm-ccm" }));
        let told: Vec<_> = judged(&[map, role]).into_iter().map(Result::unwrap).collect();
        let told: Vec<_> = told.iter().map(|item| (item.object.as_str(), item.command.as_str())).collect();
        let of_map = "kubectl --namespace kube-system delete configmap wasm-ccm-provider";
        let of_role = ("ClusterRole wasm-ccm", "kubectl delete clusterrole wasm-ccm");
        assert_eq!(told, [("ConfigMap kube-system/wasm-ccm-provider", of_map), of_role]);
        let released = |name: &str| commands(&[("ClusterRole", of_release("wasm-ccm", None, name, "kube-system"))]);
        assert_eq!(released("ccm"), ["helm uninstall ccm --namespace kube-system"]);
        assert_eq!(released("ccm; ls"), ["kubectl delete clusterrole wasm-ccm"]);
    }

    /// Whoever might write one Service anywhere once had an administrator uninstall somebody else's release.
    #[test]
    fn who_makes_objects_of_our_name_elsewhere_has_no_say_in_what_is_removed() {
        let service = of_release("wasm-ccm-x", Some("shop"), "cilium", "kube-system");
        assert_eq!(judged(&[("Service", service)]), []);
        let elsewhere = of_release("wasm-ccm", Some("kube-system"), "cilium", "cilium");
        let by_name = "kubectl --namespace kube-system delete deployment wasm-ccm";
        assert_eq!(commands(&[("Deployment", elsewhere)]), [by_name]);
        // The manifests have a Role there, of the same release as the rest.
        let beside = |release: &str| ("Role", of_release("wasm-ccm", Some("default"), release, "kube-system"));
        let rest = || ("ServiceAccount", of_release("wasm-ccm", Some("kube-system"), "ccm", "kube-system"));
        let by_release = "helm uninstall ccm --namespace kube-system";
        assert_eq!(commands(&[beside("ccm"), rest()]), [by_release; 2]);
        assert_eq!(
            commands(&[beside("cilium"), rest()]),
            ["kubectl --namespace default delete role wasm-ccm", by_release]
        );
        // What has another name makes its release none of ours, wherever it is.
        for of_another in ["kube-system", "default"] {
            let agent = ("ConfigMap", of_release("cilium-config", Some(of_another), "cilium", "kube-system"));
            let cluster = ("ClusterRole", of_release("cilium", None, "cilium", "kube-system"));
            assert_eq!(
                commands(&[agent, cluster, beside("cilium"), rest()]),
                ["kubectl --namespace default delete role wasm-ccm", by_release]
            );
        }
        assert_eq!(judged(&[("ConfigMap", json!({ "name": "wasm-ccm-x", "namespace": "default" }))]), []);
    }

    #[test]
    fn a_name_that_is_no_word_stands_in_no_command() {
        for name in ["wasm-ccm-a;ls", "wasm-ccm-a\nls", "wasm-ccm-\u{1b}[2J", "wasm-ccm-$(ls)", "wasm-ccm- a"] {
            let roles = [
                ("Role", json!({ "name": name, "namespace": "kube-system" })),
                ("ClusterRole", of_release(name, None, "ccm", "kube-system")),
            ];
            let why = |what: &str| Err(format!("{what}wasm-ccm-…: its name is no word, so no command has it"));
            assert_eq!(judged(&roles), [why("Role kube-system/"), why("ClusterRole ")], "{name}");
        }
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
        let mut kinds = BTreeSet::new();
        for object in objects {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
            let (_, _, path) = KINDS.iter().find(|(_, known, _)| *known == kind).unwrap_or_else(|| panic!("no {kind}"));
            let partial = object_of(&object["metadata"]);
            assert!(is_in_place(kind, &partial, "kube-system"), "{kind} {name}");
            assert_eq!(path.strip_prefix("/apis/").map_or("", |path| path.split('/').next().unwrap()), group, "{kind}");
            kinds.insert(kind.to_owned());
        }
        assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
    }
}
