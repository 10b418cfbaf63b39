//! Values that the chart refuses, each with its name and what is wrong with it.

use super::super::overlay::Manifests;
use super::{Helm, IMAGE, chart};

#[tokio::test]
async fn values_that_are_wrong_are_refused_with_their_name_and_what_is_wrong() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &["cloudlycke"]);
    let good = ["provider=cloudlycke", IMAGE[0], IMAGE[1]];
    assert!(!helm.render(&chart, &good).await.is_empty());
    let flags = ["--secure-port=10258", "--bind-address=0.0.0.0", "--bind-address=127.0.0.1", "--bind-address=::"];
    for flag in flags.map(|flag| format!("flags[0]={flag}")) {
        assert!(!helm.render(&chart, &[&good[..], &[&flag]].concat()).await.is_empty(), "{flag}");
    }
    let repositories =
        ["w", "r.example/w", "r.example/a/b_c/d--e", "localhost:5000/w", "R.example:5000/x", "[::1]:5000/w"];
    for repository in repositories.map(|repository| format!("image.repository={repository}")) {
        assert!(!helm.render(&chart, &[&good[..], &[&repository]].concat()).await.is_empty(), "{repository}");
    }
    let digest = format!("image.digest=sha256:{}", "0".repeat(64));
    let both = [digest.as_str()];
    let named = "env[0].name=A,env[0].valueFrom.secretKeyRef.name=s";
    let [from, number, twice] =
        ["k", "7", "k,settings.A=b"].map(|key| format!("{named},env[0].valueFrom.secretKeyRef.key={key}"));
    assert!(!helm.render(&chart, &[&good[..], &[&from]].concat()).await.is_empty());
    let (number, twice) = ([number.as_str()], [twice.as_str()]);
    let wrong: [(&[&str], &[&str]); 41] = [
        (&["replicas=two"], &["/replicas", "got string, want null or integer"]),
        (&["replicas=0"], &["/replicas", "minimum: got 0, want 1"]),
        (&["flags=--v=4"], &["/flags", "got string, want array"]),
        (&["flags[0]=v=4"], &["/flags/0", "'v=4' does not match pattern"]),
        // The probes would ask another port or address than the host answers on, and the pod would never be ready.
        (
            &["flags[0]=--secure-port=10268"],
            &["flags has --secure-port=10268", "the probes and the port of the pod are 10258"],
        ),
        (&["flags[0]=--bind-address=192.0.2.1"], &["flags has --bind-address=192.0.2.1", "the probes ask 127.0.0.1"]),
        (&["flags[0]=--bind-address=127.0.0.2"], &["flags has --bind-address=127.0.0.2", "the probes ask 127.0.0.1"]),
        (&["settings.REGION=1"], &["/settings/REGION", "got number, want string"]),
        (&["env=A"], &["/env", "got string, want array"]),
        // It would stand in the Deployment.
        (&["env[0].name=A,env[0].value=secret"], &["/env/0", "additional properties 'value' not allowed"]),
        (
            &["env[0].name=A,env[0].valueFrom.secretKeyRef=s"],
            &["/env/0/valueFrom/secretKeyRef", "got string, want object"],
        ),
        (
            &["env[0].name=POD_UID,env[0].valueFrom.secretKeyRef.name=s"],
            &["/env/0/name", "/env/0/valueFrom/secretKeyRef", "missing property 'key'"],
        ),
        (&number, &["/env/0/valueFrom/secretKeyRef/key", "got number, want string"]),
        (&twice, &["A is in settings and in env: leave it out of one of them"]),
        (&["resources=none"], &["/resources", "got string, want object"]),
        (&["replica=1"], &["additional properties 'replica' not allowed"]),
        (&["grants.allowHost[0]=x"], &["/grants", "additional properties 'allowHost' not allowed"]),
        (&["grants.allowSharedAddresses[0]=pods"], &["/grants/allowSharedAddresses/0", "'nodes', 'services'"]),
        (&["image.pullPolicy=Sometimes"], &["/image/pullPolicy", "'Always', 'IfNotPresent', 'Never'"]),
        (&both, &["image.tag and image.digest are both given: give one of them"]),
        (&["image.digest=sha256:0"], &["/image/digest", "'sha256:0' does not match pattern"]),
        (&["image.repository=r.example/ccm@x"], &["/image/repository", "does not match pattern"]),
        // A tag in the place of a part of the name, and the words of the guide as they stand there.
        (&["image.repository=r.example/w:1"], &["/image/repository", "'r.example/w:1' does not match pattern"]),
        (&["image.repository=REGISTRY/wasm-ccm"], &["/image/repository", "'REGISTRY/wasm-ccm' does not match pattern"]),
        (&["image.tag=TAG"], &["image.tag is TAG, which stands for a tag in the guide"]),
        (&["image.tag=20261127"], &["/image/tag", "got number, want string"]),
        (&["settings.my-var=x"], &["at '/settings': additional properties 'my-var' not allowed"]),
        (&["loadBalancerClasses[0]="], &["/loadBalancerClasses/0", "minLength: got 0, want 1"]),
        (&["grants.allowHosts[0]=a b"], &["/grants/allowHosts/0", "'a b' does not match pattern"]),
        (&["grants.credentialUses[0]=token"], &["/grants/credentialUses/0", "'token' does not match pattern"]),
        (&["credentials.secretName=My_Secret"], &["/credentials/secretName", "does not match pattern"]),
        (&["image.tag="], &["image.tag and image.digest are empty: give one of them"]),
        (&["image.repository="], &["image.repository is empty: build the image with `./just image`"]),
        (&["provider="], &["provider is empty: give cloudlycke, digitalocean, openstack, or the name"]),
        // What has no effect.
        (&["own.serviceAnnotations=^x"], &["own.serviceAnnotations is given", "what the provider cloudlycke writes"]),
        (
            &["own.nodeLabels=^x", "provider=openstack"],
            &["own.nodeLabels is given", "what the provider openstack writes"],
        ),
        (&["credentials.secretName=mine"], &["credentials.secretName is given", "cloudlycke has no credentials"]),
        (&["monitoring.docsUrl=docs"], &["/monitoring/docsUrl", "'docs' does not match pattern"]),
        (&["component=mine"], &["/component", "got string, want object"]),
        (&["tolerations[0]=none"], &["/tolerations/0", "got string, want object"]),
        (&["provider=digitalocaen"], &["the chart has no components/digitalocaen.wasm.gz", "component.configMap"]),
    ];
    for (values, told) in wrong {
        let set: Vec<&str> = good.iter().chain(values).flat_map(|value| ["--set", value]).collect();
        let run = helm.run(&[["template", "wasm-ccm", &chart].as_slice(), &set].concat()).await;
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success(), "{values:?} are taken");
        for part in told {
            assert!(error.contains(part), "{values:?}: {part:?} is not in {error}");
        }
    }
    let elsewhere = helm.run(&["template", "wasm-ccm", &chart, "--set", &good.join(","), "--namespace=default"]).await;
    let error = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(!elsewhere.status.success() && error.contains("Install with --namespace kube-system"), "{error}");
}

/// What an older API server does not know would be missing without a word, or end the installation halfway.
#[tokio::test]
async fn a_kubernetes_that_does_not_know_all_objects_is_refused_whatever_its_vendor_adds_to_the_version() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &["cloudlycke"]);
    let set = ["provider=cloudlycke", IMAGE[0], IMAGE[1]].join(",");
    for (version, is_taken) in [
        ("v1.29.15", false),
        ("v1.29.15-gke.100", false),
        ("v1.30.0", true),
        // In semantic versions this one is before 1.30.0.
        ("v1.30.0-gke.100", true),
        ("v1.37.2", true),
    ] {
        let run = helm.run(&["template", "wasm-ccm", &chart, "--set", &set, "--kube-version", version]).await;
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.success(), is_taken, "{version}: {error}");
        let is_told = error.contains("kubeVersion: >=1.30.0-0") && error.contains("incompatible with Kubernetes v1.29");
        assert_eq!(is_told, !is_taken, "{version}: {error}");
    }
}
