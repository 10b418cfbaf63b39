//! Leases and pods of managers, and the clock of the one that leads.

use std::time::Duration;

use ccm_e2e::host::until;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;

use super::{create, doctor, provider};
use crate::stage::{LIMIT, Stage};

/// Somebody who renews a Lease as a manager does, until this is dropped.
pub(crate) struct Renewing {
    _tasks: JoinSet<()>,
}

impl Renewing {
    /// As this program, with a clock that is `ahead`.
    pub(crate) fn start(stage: &Stage, name: &'static str, program: &'static str, ahead: SignedDuration) -> Self {
        let leases = Api::<Lease>::namespaced(stage.client().clone(), "kube-system");
        let how = PatchParams::apply(program).force();
        let mut renewing = JoinSet::new();
        renewing.spawn(async move {
            let mut period = tokio::time::interval(Duration::from_millis(100));
            loop {
                period.tick().await;
                let now = jiff::Timestamp::now().checked_add(ahead).unwrap();
                let spec =
                    json!({ "holderIdentity": "go_1", "leaseDurationSeconds": 15, "renewTime": format!("{now:.6}") });
                let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name }, "spec": spec });
                leases.patch(name, &how, &Patch::Apply(&lease)).await.unwrap();
            }
        });
        Self { _tasks: renewing }
    }
}

// Leases are renewed while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_manager_is_told_by_its_lease_and_by_its_pod() {
    let stage = Stage::new().await;
    let (_, found) = doctor(&stage.cluster.kubeconfig(), &[&provider()]).one("leases", "wrong");
    assert!(found.starts_with("there is no Lease kube-system/cloud-controller-manager"), "{found}");

    let name = "digitalocean-cloud-controller-manager";
    let renewing = Renewing::start(&stage, name, name, SignedDuration::ZERO);
    let container = json!({ "name": "ccm", "image": "x", "command": ["/bin/openstack-cloud-controller-manager"] });
    let pod = json!({ "metadata": { "name": "openstack" }, "spec": { "containers": [container] } });
    create(Api::<Pod>::namespaced(stage.client().clone(), "kube-system"), pod).await;

    let flags = [provider(), "--leader-elect=false".to_owned()];
    let flags = flags.each_ref().map(String::as_str);
    let look = async || Ok(doctor(&stage.cluster.kubeconfig(), &flags).of("leases").len() == 2);
    until(LIMIT, look).await.unwrap();
    let answer = doctor(&stage.cluster.kubeconfig(), &flags);
    let (objects, found) = answer.one("leases", "wrong");
    assert_eq!(objects, ["Lease kube-system/digitalocean-cloud-controller-manager"]);
    assert!(found.starts_with("go_1 holds it: another cloud controller manager works"), "{found}");
    let (objects, found) = answer.one("managers", "wrong");
    assert_eq!(objects, ["Pod kube-system/openstack"]);
    let part = "runs openstack-cloud-controller-manager: it changes the same Nodes and Services, and waits for Lease kube-system/cloud-controller-manager";
    assert!(found.starts_with(part), "{found}");

    let allowed = ["--beside=digitalocean-cloud-controller-manager", "--beside=openstack-cloud-controller-manager"];
    let answer = doctor(&stage.cluster.kubeconfig(), &[&flags[..], &allowed].concat());
    assert!(answer.are_all("leases", "good") && answer.are_all("managers", "good"), "{}", answer.text);
    drop(renewing);
}

/// Any holder of the Lease once counted as a host, and times of its clock were compared with another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_managers_for_one_lease_a_clock_that_is_off_and_a_holder_that_died_are_told_apart() {
    let stage = Stage::new().await;
    let name = "cloud-controller-manager";
    let look = || doctor(&stage.cluster.kubeconfig(), &[&provider()]);
    let exists = async || Ok(!look().of("leases")[0]["found"].as_str().unwrap().starts_with("there is no Lease"));
    let go = Renewing::start(&stage, name, "digitalocean-cloud-controller-manager", SignedDuration::ZERO);
    until(LIMIT, exists).await.unwrap();
    let (_, found) = look().one("leases", "wrong");
    let wanted = "go_1 holds Lease kube-system/cloud-controller-manager, and is no host of wasm-ccm: it is digitalocean-cloud-controller-manager, as the API server knows who renews it";
    assert_eq!(found, wanted);
    drop(go);

    for (minutes, side) in [(-10, "behind"), (10, "ahead of")] {
        let ours = Renewing::start(&stage, name, "wasm-ccm", SignedDuration::from_mins(minutes));
        let mut answer = look();
        let taken = async || {
            answer = look();
            Ok(answer.are_all("leases", "good"))
        };
        until(LIMIT, taken).await.unwrap();
        let (_, found) = answer.one("clock", "wrong");
        assert!(
            found.starts_with("the clock of go_1 is ") && found.ends_with(&format!("{side} the one of the API server")),
            "{found}"
        );
        drop(ours);
    }

    // It promised a second, and its time is not yet there: it is dead all the same.
    let leases = Api::<Lease>::namespaced(stage.client().clone(), "kube-system");
    let still = json!({ "spec": { "leaseDurationSeconds": 1 } });
    leases.patch(name, &PatchParams::default(), &Patch::Merge(&still)).await.unwrap();
    let (_, found) = look().one("leases", "wrong");
    assert!(
        found.starts_with(
            "nobody leads: go_1 is in Lease kube-system/cloud-controller-manager, and did not renew it in 1s"
        ),
        "{found}"
    );
    assert!(found.contains("from now by the clock of the holder"), "{found}");
}
