//! Leases: whether a host leads, and whether another manager leads beside it.

use std::time::Duration;

use ccm_leader::{holder, promised};
use ccm_rollout::PeerSettings;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::finding::{Check, Finding};
use super::rights::answered;

/// In the names of the Leases of all cloud controller managers.
pub(super) const MANAGER: &str = "cloud-controller-manager";
/// The Lease of kube-controller-manager while its cloud controllers move to another manager.
const MIGRATION: &str = "cloud-provider-extraction-migration";
/// What a holder promises that does not say.
const PROMISED: Duration = Duration::from_secs(15);

/// Whether a host leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Led {
    /// One does.
    Yes,
    /// Nobody does.
    No,
    /// Nobody can tell: there is no election, or the Lease cannot be read.
    Unknown,
}

/// Reads the Leases. Without `is_elected`, the hosts have none.
pub(super) async fn read(
    client: &Client,
    peers: &PeerSettings,
    is_elected: bool,
    beside: &[String],
    now: Timestamp,
) -> (Vec<Finding>, Led) {
    let api: Api<Lease> = Api::namespaced(client.clone(), &peers.namespace);
    let parameters = ListParams::default();
    let (all, not_all) = match answered(api.list(&parameters)).await {
        Ok(list) => (list.items, None),
        // The host itself may read one Lease.
        Err(why) => match answered(api.get_opt(&peers.lease)).await {
            Ok(lease) => (lease.into_iter().collect(), Some(why)),
            Err(why) => {
                let found = format!("the Leases in {} cannot be read: {why}", peers.namespace);
                let fix = "give a kubeconfig that may list Leases in this namespace";
                return (vec![Check::Leases.unjudged(found, fix)], Led::Unknown);
            }
        },
    };
    let (mut findings, led) = judge(&all, peers, is_elected, beside, now);
    if let Some(why) = not_all {
        let fix = "give a kubeconfig that may list Leases, such as an administrator's";
        findings.push(Check::Leases.unjudged(format!("other managers may hold a Lease: {why}"), fix));
    }
    (findings, led)
}

fn judge(
    all: &[Lease],
    peers: &PeerSettings,
    is_elected: bool,
    beside: &[String],
    now: Timestamp,
) -> (Vec<Finding>, Led) {
    let check = Check::Leases;
    let place = format!("{}/{}", peers.namespace, peers.lease);
    let ours = all.iter().find(|lease| lease.name_any() == peers.lease && is_elected);
    let (told, led) = match ours {
        _ if !is_elected => (check.good("there is no leader election"), Led::Unknown),
        Some(lease) if is_held(lease, now) => (check.good(format!("{} holds Lease {place}", holder(lease))), Led::Yes),
        Some(lease) => (nobody(&place, Some(lease), now), Led::No),
        None => (nobody(&place, None, now), Led::No),
    };
    let is_other = |lease: &&Lease| {
        let name = lease.name_any();
        let is_ours = is_elected && name == peers.lease;
        let is_managers = name.contains(MANAGER) || name == MIGRATION;
        !is_ours && is_managers && !beside.contains(&name) && is_held(lease, now)
    };
    let others = all.iter().filter(is_other).map(|lease| {
        let (name, namespace) = (lease.name_any(), &peers.namespace);
        let found = format!("{} holds it: another cloud controller manager works in this cluster", holder(lease));
        let fix = if name == MIGRATION {
            "end the migration: remove --enable-leader-migration and set --cloud-provider=external at kube-controller-manager".to_owned()
        } else {
            format!("stop that manager, then `kubectl -n {namespace} delete lease {name}`; if it serves another cloud, doctor --beside={name}")
        };
        check.wrong(found, fix).about([format!("Lease {namespace}/{name}")])
    });
    ([told].into_iter().chain(others).collect(), led)
}

fn nobody(place: &str, lease: Option<&Lease>, now: Timestamp) -> Finding {
    let since = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|renewed| {
        let ago = SignedDuration::from_secs(now.duration_since(renewed.0).as_secs());
        format!(" (last renewed {ago:#} ago)")
    });
    let found = match lease {
        Some(_) => format!("nobody holds Lease {place}{}: no host works", since.unwrap_or_default()),
        None => format!("there is no Lease {place}: no host has ever led"),
    };
    let fix = "`kubectl -n kube-system get pods -l app.kubernetes.io/name=wasm-ccm`, then the log and /readyz of a pod; for a Lease of another name, --leader-elect-resource-name";
    Check::Leases.wrong(found, fix)
}

/// Whether the holder has renewed it within the time that it promised.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let Some(renewed) = renewed else { return false };
    let silent = now.duration_since(renewed.0);
    let promised = SignedDuration::try_from(promised(lease).unwrap_or(PROMISED)).unwrap_or(SignedDuration::MAX);
    !holder(lease).is_empty() && silent <= promised
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-26T10:00:00Z";

    fn lease(name: &str, holder: &str, renewed: &str) -> Lease {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed });
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    }

    fn told(all: &[Lease], is_elected: bool, beside: &[&str]) -> (Vec<String>, Led) {
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let beside: Vec<String> = beside.iter().map(|&name| name.to_owned()).collect();
        let (findings, led) = judge(all, &peers, is_elected, &beside, NOW.parse().unwrap());
        (findings.into_iter().map(|finding| format!("{:?} {}", finding.judgement, finding.found)).collect(), led)
    }

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let (fresh, late) = ("2026-11-26T09:59:45Z", "2026-11-26T09:59:44Z");
        let (held, led) = told(&[lease("wasm-ccm", "a_1", fresh)], true, &[]);
        assert_eq!((held, led), (vec!["Good a_1 holds Lease kube-system/wasm-ccm".to_owned()], Led::Yes));
        let gone = "Wrong nobody holds Lease kube-system/wasm-ccm (last renewed 16s ago): no host works".to_owned();
        assert_eq!(told(&[lease("wasm-ccm", "a_1", late)], true, &[]), (vec![gone], Led::No));
        let released = told(&[lease("wasm-ccm", "", fresh)], true, &[]);
        assert_eq!(released.1, Led::No);
        let never = "Wrong there is no Lease kube-system/wasm-ccm: no host has ever led".to_owned();
        assert_eq!(told(&[], true, &[]), (vec![never], Led::No));
        assert_eq!(told(&[], false, &[]).1, Led::Unknown);
    }

    #[test]
    fn another_manager_that_leads_is_told_unless_it_may() {
        let fresh = "2026-11-26T09:59:59Z";
        let ours = lease("wasm-ccm", "a_1", fresh);
        for name in ["cloud-controller-manager", "digitalocean-cloud-controller-manager", MIGRATION] {
            let all = [ours.clone(), lease(name, "b_2", fresh)];
            let (findings, _) = told(&all, true, &[]);
            assert_eq!(findings.len(), 2, "{name}");
            assert!(findings[1].starts_with("Wrong b_2 holds it: another cloud controller manager"), "{findings:?}");
            assert_eq!(told(&all, true, &[name]).0.len(), 1, "{name}");
            let ended = [ours.clone(), lease(name, "b_2", "2026-11-26T09:00:00Z")];
            assert_eq!(told(&ended, true, &[]).0.len(), 1, "{name}");
        }
        // kube-controller-manager leads in every cluster.
        let others = [ours, lease("kube-controller-manager", "c_3", fresh), lease("kube-scheduler", "c_3", fresh)];
        assert_eq!(told(&others, true, &[]).0.len(), 1);
        // Without an election, a Lease of the usual name is another manager's.
        assert_eq!(told(&[lease("cloud-controller-manager", "b_2", fresh)], false, &[]).0.len(), 2);
    }
}
