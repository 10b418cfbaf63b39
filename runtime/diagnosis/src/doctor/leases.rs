//! Leases: whether a host leads, and whether another manager leads in its place or beside it.

use ccm_rollout::PeerSettings;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Client, ResourceExt as _};

use super::finding::{Check, Finding};
use super::server::{CLOCKS_APART, Clock};
use crate::ask::lease::{self, Hold, Standing, Standings};
use crate::ask::pods::{LABEL, MANAGER, Whose, is_dry_run, is_host, whose};

/// The Lease of kube-controller-manager while its cloud controllers move to another manager.
const MIGRATION: &str = "cloud-provider-extraction-migration";

/// Whether a host leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Led {
    /// One does.
    Yes,
    /// Nobody does, or another manager.
    No,
    /// Nobody holds the Lease. A host without election, or under another Lease, does not hold it either.
    Unseen,
    /// Nobody can tell: there is no election, or the Lease cannot be read.
    Unknown,
}

/// Whose Leases are judged.
pub(super) struct Judge<'a> {
    pub(super) peers: &'a PeerSettings,
    /// Without it, the hosts have no Lease.
    pub(super) is_elected: bool,
    /// It takes part in no election, and is there to run beside another manager.
    pub(super) is_dry_run: bool,
    /// Managers that may be there.
    pub(super) beside: &'a [String],
    /// Those that live, in the namespace of the Lease, or why they cannot be read.
    pub(super) pods: Result<&'a [Pod], &'a String>,
}

impl Judge<'_> {
    /// Looks at the Leases for as long as it takes to see whether their holders live.
    pub(super) async fn read(&self, client: &Client, clock: Clock) -> (Vec<Finding>, Led) {
        let PeerSettings { namespace, lease: name, .. } = self.peers;
        let (all, not_all) = match lease::watch_all(client, namespace, |name| self.is_of_a_manager(name)).await {
            Ok(all) => (all, None),
            // The host itself may read one Lease.
            Err(why) => match lease::watch(client, namespace, name).await {
                Ok(one) => (one.into_iter().map(|standing| (name.clone(), standing)).collect(), Some(why)),
                Err(why) => {
                    let found = format!("the Leases in {namespace} cannot be read: {why}");
                    let fix = "give a kubeconfig that may list Leases in this namespace";
                    return (vec![Check::Leases.unjudged(found, fix)], Led::Unknown);
                }
            },
        };
        let (mut findings, led) = self.judge(&all, clock.now());
        if let Some(why) = not_all {
            let fix = "give a kubeconfig that may list Leases, such as an administrator's";
            findings.push(Check::Leases.unjudged(format!("other managers may hold a Lease: {why}"), fix));
        }
        (findings, led)
    }

    /// kube-controller-manager and kube-scheduler lead in every cluster, and are nobody's business here.
    fn is_of_a_manager(&self, name: &str) -> bool {
        name == self.peers.lease || name.contains(MANAGER) || name == MIGRATION
    }

    fn judge(&self, all: &Standings, now: Timestamp) -> (Vec<Finding>, Led) {
        let is_ours = |name: &str| self.is_elected && name == self.peers.lease;
        let ours = all.iter().find(|(name, _)| is_ours(name)).map(|(_, standing)| standing);
        let (mut findings, led) = self.ours(ours, now);
        findings.extend(ours.and_then(Standing::held).and_then(|hold| apart(hold, now)));
        let others = all.iter().filter(|(name, _)| !is_ours(name) && !self.beside.contains(name));
        findings.extend(others.filter_map(|(name, standing)| self.other(name, standing, now)));
        (findings, led)
    }

    /// The Lease that a dry run would want: who holds it does the work, and is no mistake.
    fn beside(&self, standing: Option<&Standing>, now: Timestamp) -> (Vec<Finding>, Led) {
        let check = Check::Leases;
        let place = format!("{}/{}", self.peers.namespace, self.peers.lease);
        let told = "this is a dry run, which takes part in no election";
        match standing {
            Some(Standing::Held(hold)) => {
                let holds = format!("{}, which holds Lease {place} and renews it", hold.holder);
                let works = self.works(hold);
                let finding = if works.is_empty() {
                    check.good(format!("{told}: it is beside {holds}"))
                } else {
                    let found = format!(
                        "{told}; but there are hosts that work, and whether one of them is {holds}, is not known"
                    );
                    let fix = format!(
                        "if they are of the rollout before, `kubectl -n {} rollout status deployment/wasm-ccm` shows that it hangs: optional/dry-run has taken from them the right to write, so take the component out again to let them work. Nothing, if they have an account of their own",
                        self.peers.namespace
                    );
                    check.unjudged(found, fix).about(works)
                };
                (vec![finding], Led::Unknown)
            }
            Some(Standing::Unmoved(hold)) => {
                let (holder, told_by) = (&hold.holder, hold.told(now));
                let found = format!("{told}; {holder} is in Lease {place}, which did not move ({told_by})");
                let fix = "run doctor again later: if the time of the renewal is the same, nobody leads";
                (vec![check.note(found, fix)], Led::Unknown)
            }
            None | Some(Standing::Free | Standing::Expired(_)) => {
                let led = if let Some(Standing::Expired(_)) = standing { Led::No } else { Led::Unseen };
                let found = format!("{told}; nobody holds Lease {place}");
                let fix = "nothing, if the manager beside it has another Lease or none; to let this host do the work, take --dry-run away, with the component optional/dry-run or the value dryRun";
                (vec![check.note(found, fix)], led)
            }
        }
    }

    /// Hosts that are no dry runs, of which one may be the holder.
    fn works(&self, hold: &Hold) -> Vec<String> {
        if self.stranger(hold).is_some() {
            return vec![];
        }
        let works = self.pods.unwrap_or_default().iter().filter(|pod| is_host(pod) && !is_dry_run(pod));
        works.map(|pod| format!("Pod {}/{}", self.peers.namespace, pod.name_any())).collect()
    }

    /// The Lease of the hosts.
    fn ours(&self, standing: Option<&Standing>, now: Timestamp) -> (Vec<Finding>, Led) {
        let check = Check::Leases;
        let place = format!("{}/{}", self.peers.namespace, self.peers.lease);
        let hold = match standing {
            _ if self.is_dry_run => return self.beside(standing, now),
            _ if !self.is_elected => return (vec![check.good("there is no leader election")], Led::Unknown),
            None => {
                return (
                    vec![self.nobody(format!("there is no Lease {place}: no host has led under it"))],
                    Led::Unseen,
                );
            }
            Some(Standing::Free) => {
                return (vec![self.nobody(format!("nobody holds Lease {place}: no host leads under it"))], Led::Unseen);
            }
            Some(Standing::Expired(hold)) => {
                let Hold { holder, promised, .. } = hold;
                let told = hold.told(now);
                let found = format!(
                    "nobody leads: {holder} is in Lease {place}, and did not renew it in {promised:?} of looking ({told})"
                );
                return (vec![self.nobody(found)], Led::No);
            }
            Some(Standing::Held(hold) | Standing::Unmoved(hold)) => hold,
        };
        if let Some(stranger) = self.stranger(hold) {
            let found = format!("{} holds Lease {place}, and is no host of wasm-ccm: it is {stranger}", hold.holder);
            let fix = "two managers for one Lease: one of them works, and the others wait for ever; if that manager serves another cloud, give one of the two another --leader-elect-resource-name, and the right to that Lease; else stop that manager";
            return (vec![check.wrong(found, fix)], Led::No);
        }
        if let Some(Standing::Unmoved(hold)) = standing {
            let found = format!(
                "{} is in Lease {place}, which did not move; it wants to be waited for {:?} ({})",
                hold.holder,
                hold.promised,
                hold.told(now)
            );
            let fix = "run doctor again later: if the time of the renewal is the same, nobody leads";
            return (vec![check.unjudged(found, fix)], Led::Unknown);
        }
        let told = format!("{} holds Lease {place}, and renews it", hold.holder);
        let is_host =
            hold.writer.is_some() || matches!(whose(self.pods.unwrap_or_default(), &hold.holder), Whose::Host(_));
        if !is_host {
            let why = self.pods.err().map(|why| format!(": {why}")).unwrap_or_default();
            let found = format!(
                "{told}; whether that is a host of wasm-ccm is not known: neither the API server nor a pod in {} says so{why}",
                self.peers.namespace
            );
            let fix =
                "look at the machine or pod that the name begins with; give a kubeconfig that may list the pods there";
            return (vec![check.unjudged(found, fix)], Led::Unknown);
        }
        (vec![check.good(told)], Led::Yes)
    }

    fn nobody(&self, found: String) -> Finding {
        let (label, value) = LABEL;
        let is_none_here = self.pods.is_ok_and(|pods| !pods.iter().any(is_host));
        if is_none_here {
            let namespace = &self.peers.namespace;
            let found = format!("{found}, and no pod in {namespace} is one of the host");
            let fix = format!(
                "start it: `kubectl -n {namespace} scale deployment/wasm-ccm --replicas=2`, or apply your overlay or Helm release; not if your hosts run elsewhere, without election or under another Lease: then run doctor again with their --leader-elect-resource-namespace, --leader-elect=false or --leader-elect-resource-name"
            );
            return Check::Leases.wrong(found, fix);
        }
        let fix = format!(
            "`kubectl -n {} get pods -l {label}={value}`, then the log and /readyz of a pod; if your hosts use another Lease, or run without election, run doctor again with their --leader-elect-resource-name or --leader-elect=false; do not change the hosts",
            self.peers.namespace
        );
        Check::Leases.wrong(found, fix)
    }

    /// Who the holder is, if that is another manager.
    fn stranger(&self, hold: &Hold) -> Option<String> {
        match (hold.writer.as_deref(), hold.stranger()) {
            (_, Some(program)) => Some(format!("{program}, as the API server knows who renews it")),
            (Some(_ours), None) => None,
            (None, None) => match whose(self.pods.unwrap_or_default(), &hold.holder) {
                Whose::Other { pod, program } => Some(format!("{program} in pod {}/{pod}", self.peers.namespace)),
                Whose::Host(_) | Whose::Unknown => None,
            },
        }
    }

    /// A Lease of another manager.
    fn other(&self, name: &str, standing: &Standing, now: Timestamp) -> Option<Finding> {
        let (hold, clock) = match standing {
            Standing::Held(hold) => (hold, String::new()),
            Standing::Unmoved(hold) if hold.is_fresh(now) => (hold, format!(" ({})", hold.told(now))),
            Standing::Unmoved(_) | Standing::Expired(_) | Standing::Free => return None,
        };
        let namespace = &self.peers.namespace;
        let found = format!("{} holds it{clock}: another cloud controller manager works in this cluster", hold.holder);
        let fix = if name == MIGRATION {
            "end the migration: remove --enable-leader-migration and set --cloud-provider=external at kube-controller-manager".to_owned()
        } else {
            format!(
                "if it serves another cloud, keep it, and run `wasm-ccm doctor --beside={name}`; else stop that manager, then `kubectl -n {namespace} delete lease {name}`"
            )
        };
        let finding = match self.is_dry_run {
            true => {
                Check::Leases.note(format!("{found}; this is a dry run beside it"), format!("when you switch, {fix}"))
            }
            false => Check::Leases.wrong(found, fix),
        };
        Some(finding.about([format!("Lease {namespace}/{name}")]))
    }
}

/// A clock of the leader that is wrong. It has just renewed the Lease, so the time in it is now there.
fn apart(hold: &Hold, now: Timestamp) -> Option<Finding> {
    let ahead = hold.renewed?.duration_since(now);
    let side = if ahead.is_negative() { "behind" } else { "ahead of" };
    let far = SignedDuration::from_secs(ahead.as_secs().saturating_abs());
    (ahead.abs() > CLOCKS_APART).then(|| {
        let found = format!("the clock of {} is {far:#} {side} the one of the API server", hold.holder);
        let fix = "let NTP set the clock of its machine, for example with chrony: tokens and certificates are refused there, and signed requests to clouds";
        Check::Clock.wrong(found, fix)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-26T10:00:00Z";

    fn hold(holder: &str, renewed: &str, writer: Option<&str>) -> Hold {
        let promised = Duration::from_secs(15);
        let writer = writer.map(ToOwned::to_owned);
        Hold { holder: holder.to_owned(), renewed: Some(renewed.parse().unwrap()), promised, writer }
    }

    fn held(writer: Option<&str>) -> Standing {
        Standing::Held(hold("a_1", NOW, writer))
    }

    fn told(all: &[(&str, Standing)], is_elected: bool, beside: &[&str], pods: &[Pod]) -> (Vec<String>, Led) {
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let beside: Vec<String> = beside.iter().map(|&name| name.to_owned()).collect();
        let all: Standings = all.iter().map(|(name, standing)| ((*name).to_owned(), standing.clone())).collect();
        let judge = Judge { peers: &peers, is_elected, is_dry_run: false, beside: &beside, pods: Ok(pods) };
        let (findings, led) = judge.judge(&all, NOW.parse().unwrap());
        (findings.into_iter().map(|finding| format!("{:?} {}", finding.judgement, finding.found)).collect(), led)
    }

    #[test]
    fn each_standing_of_the_lease_says_whether_a_host_leads() {
        let ours = |standing| told(&[("wasm-ccm", standing)], true, &[], &[]);
        let good = "Good a_1 holds Lease kube-system/wasm-ccm, and renews it".to_owned();
        assert_eq!(ours(held(Some("wasm-ccm"))), (vec![good], Led::Yes));
        // It was once believed of anybody.
        let (unknown, led) = ours(held(None));
        assert!(
            unknown[0]
                .starts_with("Unjudged a_1 holds Lease kube-system/wasm-ccm, and renews it; whether that is a host"),
            "{unknown:?}"
        );
        assert_eq!((unknown.len(), led), (1, Led::Unknown));
        let expired = ours(Standing::Expired(hold("a_1", "2026-11-26T09:59:44Z", None)));
        let no_pod = ", and no pod in kube-system is one of the host";
        let gone = "Wrong nobody leads: a_1 is in Lease kube-system/wasm-ccm, and did not renew it in 15s of looking (last renewed 16s ago by the clock of the holder)";
        assert_eq!(expired, (vec![gone.to_owned() + no_pod], Led::No));
        let free = "Wrong nobody holds Lease kube-system/wasm-ccm: no host leads under it".to_owned() + no_pod;
        assert_eq!(ours(Standing::Free), (vec![free], Led::Unseen));
        let never = "Wrong there is no Lease kube-system/wasm-ccm: no host has led under it".to_owned() + no_pod;
        assert_eq!(told(&[], true, &[], &[]), (vec![never], Led::Unseen));
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let metadata = json!({ "name": "a", "labels": { "app.kubernetes.io/name": "wasm-ccm" } });
        let pods: Vec<Pod> = vec![serde_json::from_value(json!({ "metadata": metadata })).unwrap()];
        let fix = |pods, standing| {
            let judge = Judge { peers: &peers, is_elected: true, is_dry_run: false, beside: &[], pods };
            judge.ours(standing, NOW.parse().unwrap()).0.remove(0).fix.unwrap()
        };
        let why = "forbidden".to_owned();
        for standing in [None, Some(&Standing::Free)] {
            // After `kubectl scale --replicas=0`, nobody was told to start it.
            assert!(fix(Ok(&[]), standing).starts_with("start it: `kubectl -n kube-system scale deployment/wasm-ccm"));
            assert!(fix(Err(&why), standing).starts_with("`kubectl -n kube-system get pods"));
            let fix = fix(Ok(&pods), standing);
            // They were taken for flags that a host needs: with the last one, two of them write.
            let ends = "run doctor again with their --leader-elect-resource-name or --leader-elect=false; do not change the hosts";
            assert!(fix.ends_with(ends), "{fix}");
        }
        assert_eq!(told(&[], false, &[], &[]).1, Led::Unknown);
        let (unmoved, led) = ours(Standing::Unmoved(hold("a_1", NOW, None)));
        assert!(
            unmoved[0].starts_with("Unjudged a_1 is in Lease kube-system/wasm-ccm, which did not move"),
            "{unmoved:?}"
        );
        assert_eq!(led, Led::Unknown);
    }

    /// Any holder was once believed to be a host.
    #[test]
    fn a_holder_that_is_another_manager_is_told_as_such() {
        let go = "digitalocean-cloud-controller-manager";
        let (findings, led) = told(&[("wasm-ccm", held(Some(go)))], true, &[], &[]);
        let wanted = format!(
            "Wrong a_1 holds Lease kube-system/wasm-ccm, and is no host of wasm-ccm: it is {go}, as the API server knows who renews it"
        );
        assert_eq!((findings, led), (vec![wanted], Led::No));
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let judge = Judge { peers: &peers, is_elected: true, is_dry_run: false, beside: &[], pods: Ok(&[]) };
        let fix = judge.ours(Some(&held(Some(go))), NOW.parse().unwrap()).0.remove(0).fix.unwrap();
        let (first, then) = fix.split_once("; else stop ").unwrap();
        assert!(first.contains("if that manager serves another cloud") && then.starts_with("that manager"), "{fix}");
        let container = json!({ "name": "c", "image": format!("registry/{go}:v1") });
        let pod = json!({ "metadata": { "name": "go" }, "spec": { "nodeName": "a", "containers": [container] } });
        let pods = [serde_json::from_value(pod).unwrap()];
        let (findings, led) = told(&[("wasm-ccm", held(None))], true, &[], &pods);
        assert!(findings[0].ends_with(&format!("it is {go} in pod kube-system/go")), "{findings:?}");
        assert_eq!(led, Led::No);
        assert_eq!(told(&[("wasm-ccm", held(Some("wasm-ccm")))], true, &[], &pods).1, Led::Yes);
    }

    /// What to do about another manager's Lease.
    fn fix_of_other(name: &str) -> String {
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let judge = Judge { peers: &peers, is_elected: true, is_dry_run: false, beside: &[], pods: Ok(&[]) };
        let standing = Standing::Held(hold("b_2", NOW, None));
        judge.other(name, &standing, NOW.parse().unwrap()).unwrap().fix.unwrap()
    }

    #[test]
    fn another_manager_that_leads_is_told_unless_it_may() {
        let ours = || ("wasm-ccm", held(None));
        for name in ["cloud-controller-manager", "digitalocean-cloud-controller-manager", MIGRATION] {
            let all = [ours(), (name, Standing::Held(hold("b_2", NOW, None)))];
            let (findings, _) = told(&all, true, &[], &[]);
            assert_eq!(findings.len(), 2, "{name}");
            let fix = fix_of_other(name);
            let keeps =
                format!("if it serves another cloud, keep it, and run `wasm-ccm doctor --beside={name}`; else ");
            assert!(name == MIGRATION || fix.starts_with(&(keeps + "stop that manager, then ")), "{fix}");
            assert!(findings[1].starts_with("Wrong b_2 holds it: another cloud controller manager"), "{findings:?}");
            assert_eq!(told(&all, true, &[name], &[]).0.len(), 1, "{name}");
            let unmoved =
                |renewed| Standing::Unmoved(Hold { promised: Duration::from_secs(600), ..hold("b_2", renewed, None) });
            let all = [ours(), (name, unmoved("2026-11-26T09:59:00Z"))];
            let (findings, _) = told(&all, true, &[], &[]);
            assert!(findings[1].contains("(last renewed 1m ago by the clock of the holder)"), "{findings:?}");
            for ended in [unmoved("2026-11-26T09:00:00Z"), Standing::Expired(hold("b_2", NOW, None)), Standing::Free] {
                assert_eq!(told(&[ours(), (name, ended)], true, &[], &[]).0.len(), 1, "{name}");
            }
        }
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "mine".into(), identity: None };
        let judge = Judge { peers: &peers, is_elected: true, is_dry_run: false, beside: &[], pods: Ok(&[]) };
        for (name, is_one) in
            [("mine", true), (MIGRATION, true), ("kube-controller-manager", false), ("kube-scheduler", false)]
        {
            assert_eq!(judge.is_of_a_manager(name), is_one, "{name}");
        }
        // Without an election, a Lease of the usual name is another manager's.
        assert_eq!(told(&[("cloud-controller-manager", held(None))], false, &[], &[]).0.len(), 2);
    }

    /// A dry run was told that nobody works, and that the manager beside it has to stop.
    #[test]
    fn a_dry_run_holds_no_lease_and_whoever_does_is_no_mistake() {
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let say = "this is a dry run, which takes part in no election";
        let go = || Standing::Held(hold("b_2", NOW, Some("digitalocean-cloud-controller-manager")));
        let nobody = format!("Note {say}; nobody holds Lease kube-system/wasm-ccm");
        let beside = format!("Good {say}: it is beside b_2, which holds Lease kube-system/wasm-ccm and renews it");
        for (standing, wanted, led) in [
            (None, &nobody, Led::Unseen),
            (Some(Standing::Free), &nobody, Led::Unseen),
            (Some(Standing::Expired(hold("b_2", NOW, None))), &nobody, Led::No),
            (Some(go()), &beside, Led::Unknown),
        ] {
            for is_elected in [true, false] {
                let judge = Judge { peers: &peers, is_elected, is_dry_run: true, beside: &[], pods: Ok(&[]) };
                let (findings, is_led) = judge.ours(standing.as_ref(), NOW.parse().unwrap());
                let told: Vec<String> =
                    findings.iter().map(|one| format!("{:?} {}", one.judgement, one.found)).collect();
                assert_eq!((told, is_led), (vec![wanted.clone()], led), "{standing:?}");
            }
        }
        let judge = Judge { peers: &peers, is_elected: true, is_dry_run: true, beside: &[], pods: Ok(&[]) };
        let (findings, _) = judge.judge(&vec![("cloud-controller-manager".to_owned(), go())], NOW.parse().unwrap());
        assert!(findings.iter().all(|one| one.judgement == super::super::finding::Judgement::Note), "{findings:?}");
    }

    /// Where the rollout of the dry run hangs, it passed for one that is beside another manager: its own pod of before.
    #[test]
    fn a_dry_run_beside_a_host_that_works_is_never_good() {
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "wasm-ccm".into(), identity: None };
        let pod = |args: &[&str]| {
            let container = json!({ "name": "wasm-ccm", "args": args });
            let metadata = json!({ "name": "a", "labels": { "app.kubernetes.io/name": "wasm-ccm" } });
            let pod = json!({ "metadata": metadata, "spec": { "containers": [container] } });
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let (works, dry) = (pod(&["run"]), pod(&["run", "--dry-run"]));
        let go = "digitalocean-cloud-controller-manager";
        for (writer, pods, is_good) in [
            (Some("wasm-ccm"), &[dry.clone(), works.clone()][..], false),
            // The API server does not say who it is.
            (None, std::slice::from_ref(&works), false),
            (Some(go), std::slice::from_ref(&works), true),
            // It runs elsewhere.
            (Some("wasm-ccm"), &[dry], true),
            (Some("wasm-ccm"), &[], true),
        ] {
            let judge = Judge { peers: &peers, is_elected: true, is_dry_run: true, beside: &[], pods: Ok(pods) };
            let (findings, led) = judge.ours(Some(&held(writer)), NOW.parse().unwrap());
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            let (judgement, objects) = match is_good {
                true => (super::super::finding::Judgement::Good, vec![]),
                false => (super::super::finding::Judgement::Unjudged, vec!["Pod kube-system/a".to_owned()]),
            };
            assert_eq!((finding.judgement, &finding.objects, led), (judgement, &objects, Led::Unknown), "{writer:?}");
        }
    }

    #[test]
    fn a_clock_of_the_leader_that_is_off_is_told() {
        for (renewed, part) in [
            ("2026-11-26T10:10:00Z", Some("the clock of a_1 is 10m ahead of the one of the API server")),
            ("2026-11-26T09:50:00Z", Some("the clock of a_1 is 10m behind the one of the API server")),
            ("2026-11-26T09:59:00Z", None),
        ] {
            let (findings, led) =
                told(&[("wasm-ccm", Standing::Held(hold("a_1", renewed, Some("wasm-ccm"))))], true, &[], &[]);
            assert_eq!(led, Led::Yes, "it leads all the same");
            let told = findings.get(1).map(|finding| finding.trim_start_matches("Wrong "));
            assert_eq!(told, part);
        }
    }
}
