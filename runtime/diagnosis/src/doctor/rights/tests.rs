use ccm_rollout::config::ProviderRecord;
use serde_json::json;

use super::*;

fn peers(namespace: &str, lease: &str) -> PeerSettings {
    PeerSettings { namespace: namespace.to_owned(), lease: lease.to_owned(), identity: None }
}

fn for_work<'a>(peers: &'a PeerSettings, providers: &'a [ProviderConfig], is_named: bool) -> Wanted<'a> {
    Wanted { peers, providers, is_named, purpose: Purpose::Work, hosts: &[] }
}

fn all(peers: &PeerSettings, sources: &[&str]) -> Vec<String> {
    let config =
        |source: &&str| ProviderRecord { source: (*source).to_owned(), ..ProviderRecord::default() }.check().unwrap();
    let providers: Vec<ProviderConfig> = sources.iter().map(config).collect();
    needed(&for_work(peers, &providers, true)).unwrap().iter().map(|right| told([right])).collect()
}

#[test]
fn every_rule_of_the_manifest_is_asked_about() {
    let all = all(&peers(HOME, LEASE), &["a.wasm"]);
    for right in [
        "delete nodes",
        "patch nodes/status",
        "patch services/status",
        "create events.events.k8s.io",
        "list servicecidrs.networking.k8s.io",
        "update leases.coordination.k8s.io cloud-controller-manager in kube-system",
        "create leases.coordination.k8s.io in kube-system",
        "patch configmaps wasm-ccm-components in kube-system",
        "list events.events.k8s.io in default",
        "get endpointslices.discovery.k8s.io kubernetes in default",
    ] {
        assert!(all.iter().any(|one| one == right), "{right}: {all:?}");
    }
    // As many as the manifest has: a rule of another form would be left out.
    let verbs = |line: &str| line.trim().strip_prefix("verbs: [").map(|verbs| verbs.split(',').count());
    let written: usize = MANIFEST.lines().filter_map(verbs).sum();
    // Those for ConfigMaps that components are read from.
    assert_eq!(all.len(), written - 3);
}

#[test]
fn names_of_the_lease_and_of_sources_are_those_of_the_flags() {
    let all = all(&peers("cloud", "second"), &["configmap:components/mine", "b.wasm"]);
    for right in [
        "get leases.coordination.k8s.io second in cloud",
        "watch configmaps mine in components",
        "patch configmaps wasm-ccm-components in cloud",
        "list events.events.k8s.io in default",
    ] {
        assert!(all.iter().any(|one| one == right), "{right}: {all:?}");
    }
    assert!(!all.iter().any(|one| one.contains(LEASE) || one.contains(HOME)), "{all:?}");
    let mounted = ProviderRecord { source: "configmap:a/b".to_owned(), ..ProviderRecord::default() }.check().unwrap();
    let rights = needed(&for_work(&peers("cloud", "second"), &[mounted], false)).unwrap();
    assert!(!told(&rights).contains("configmaps b"), "{rights:?}");
}

/// All rights of a host once counted as missing, and a command was offered that gave a dry run the rights to write.
#[test]
fn a_dry_run_needs_what_its_component_leaves_it_and_looks_like_one_without_the_rest() {
    let peers = peers(HOME, LEASE);
    let work = for_work(&peers, &[], false);
    let dry = needed(&Wanted { purpose: Purpose::DryRun, ..work }).unwrap();
    let component = include_str!("../../../../../manifests/optional/dry-run/kustomization.yaml");
    let lines = component.lines().filter_map(|line| line.trim().strip_prefix("- {apiGroups: "));
    let verbs = |line: &str| {
        let verbs = line.rsplit_once("verbs: [").unwrap().1.strip_suffix("]}").unwrap();
        verbs.split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    let left: Vec<String> = lines.flat_map(verbs).collect();
    assert!(left.iter().all(|verb| READ.contains(&verb.as_str())), "{left:?}");
    // Those in the namespace default stay as they are: one list, one get.
    assert_eq!(dry.len(), left.len() + 2, "{}", told(&dry));

    let all = needed(&work).unwrap();
    let lacks = |is_missing: &dyn Fn(&Right) -> bool| {
        are_of_dry_run(&all, &all.iter().filter(|right| is_missing(right)).collect::<Vec<_>>())
    };
    let is_write = |right: &Right| !dry.contains(right);
    assert!(lacks(&is_write));
    assert!(lacks(&|right| is_write(right) && !right.resource.ends_with("reviews")), "one that Prometheus reads");
    assert!(!lacks(&|right| is_write(right) && right.resource != "nodes"), "it may change Nodes");
    assert!(!lacks(&|_| true), "nothing was installed");
}

/// It was once told that nothing is missing, and refused every token of Prometheus.
#[test]
fn a_dry_run_whose_port_others_reach_needs_to_ask_whose_a_token_is() {
    let both = "create tokenreviews.authentication.k8s.io; create subjectaccessreviews.authorization.k8s.io";
    for (address, wanted) in [("0.0.0.0", both), ("127.0.0.1", "")] {
        let container =
            json!({ "name": "wasm-ccm", "args": ["run", "--dry-run", format!("--bind-address={address}")] });
        let hosts = [serde_json::from_value(json!({ "spec": { "containers": [container] } })).unwrap()];
        let peers = peers(HOME, LEASE);
        let dry = Wanted { purpose: Purpose::DryRun, hosts: &hosts, ..for_work(&peers, &[], false) };
        let needed = needed(&dry).unwrap();
        assert_eq!(told(needed.iter().filter(|right| !READ.contains(&right.verb.as_str()))), wanted, "{address}");
    }
}

/// No answer was once a denial.
#[tokio::test]
async fn an_answer_without_a_ruling_is_none() {
    for (status, wanted) in [
        ("null", Err("its answer says nothing".to_owned())),
        (r#"{ "allowed": true, "evaluationError": "x" }"#, Ok(Ruling::Allowed)),
        (r#"{ "allowed": false }"#, Ok(Ruling::Denied(None))),
        (r#"{ "allowed": false, "evaluationError": "x" }"#, Ok(Ruling::Denied(Some("x".to_owned())))),
        (r#"{ "allowed": false, "reason": "y", "evaluationError": "" }"#, Ok(Ruling::Denied(Some("y".to_owned())))),
    ] {
        let body = format!(
            r#"{{ "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {{}}, "spec": {{}}, "status": {status} }}"#
        );
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let body = kube::client::Body::from(body.clone().into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        let right = &needed(&for_work(&peers(HOME, LEASE), &[], false)).unwrap()[0];
        assert_eq!(is_allowed(&Client::new(service, "default"), None, right).await, wanted, "{status}");
    }
}

#[test]
fn a_secret_of_a_credential_is_asked_about_and_verbs_are_told_together() {
    let place = |name: &str| (name.to_owned(), "secret:cloud/keys/KEY".replace("KEY", name));
    let credentials = ["user", "password"].map(place).into();
    let record = ProviderRecord { source: "a.wasm".to_owned(), credentials, ..ProviderRecord::default() };
    let rights = needed(&for_work(&peers(HOME, LEASE), &[record.check().unwrap()], false)).unwrap();
    let secrets: Vec<&Right> = rights.iter().filter(|right| right.resource == "secrets").collect();
    assert_eq!(secrets.len(), 3, "{secrets:?}");
    assert_eq!(told(secrets), "get, list, watch secrets keys in cloud");
    assert!(told(&rights).starts_with("get, list, watch, patch, delete nodes; patch nodes/status; "));
}

/// The command that should have given an account its rights had its own kubeconfig in it.
#[tokio::test]
async fn who_asks_for_himself_is_sent_to_an_administrator() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
        let (kind, group) = match request.uri().path() {
            path if path.ends_with("/selfsubjectreviews") => ("SelfSubjectReview", "authentication.k8s.io"),
            path if path.ends_with("/selfsubjectaccessreviews") => ("SelfSubjectAccessReview", "authorization.k8s.io"),
            path if path.ends_with("/subjectaccessreviews") => ("SubjectAccessReview", "authorization.k8s.io"),
            path => panic!("nobody asks for {path}"),
        };
        async move {
            let body = String::from_utf8(request.into_body().collect_bytes().await.unwrap().to_vec()).unwrap();
            let status = match kind {
                "SelfSubjectReview" => json!({ "userInfo": { "username": "poor" } }),
                _ => json!({ "allowed": body.contains("subjectaccessreviews") && kind.starts_with("Self") }),
            };
            let answer = json!({ "kind": kind, "apiVersion": format!("{group}/v1"), "metadata": {}, "spec": {}, "status": status });
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    let client = Client::new(service, "default");
    let access = crate::ask::Access { kubeconfig: Some("/k/poor".into()), master: None };
    let paste = crate::paste::Paste::new(&access);
    let account = RightsOf::Account { namespace: "a".into(), name: "b".into() };
    for (of, starts, has, not) in [
        (
            RightsOf::Myself,
            "with the kubeconfig of an administrator: `echo '",
            "' | kubectl --kubeconfig=FILE apply ",
            "/k/poor",
        ),
        (account, "`echo '", "' | kubectl --kubeconfig=/k/poor apply ", "administrator"),
    ] {
        let rights = needed(&for_work(&peers(HOME, LEASE), &[], false)).unwrap();
        let finding = judge(&client, &of, rights, Purpose::Work).await.unwrap().completed(&paste);
        let fix = finding.fix.unwrap();
        assert!(fix.starts_with(starts) && fix.contains(has) && !fix.contains(not), "{of:?}: {fix}");
    }
}
