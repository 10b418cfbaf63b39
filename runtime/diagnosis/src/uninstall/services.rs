//! What stays on Services: the finalizer, our conditions, and annotations of the host.

use ccm_controllers::{
    LOAD_BALANCER_CLEANUP, LOAD_BALANCER_READY, LOAD_BALANCER_RECORDED, ORPHAN, has_finalizer, published_addresses,
    ready_condition, recorded_provider, was_ensured_here,
};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::manager::Manager;
use super::remains::{Item, Remains, Step, is_word};
use crate::ask::objects::{ServiceFacts, is_known_here};
use crate::plain::one_line;

/// How the names of the host's own annotations begin.
const OURS: &str = "wasm-ccm.io/";
/// How the names of annotations end in which providers keep the ID of a load balancer.
const ID: &str = "/load-balancer-id";

/// Looks at all Services.
pub(super) fn judge(services: &[Service], remains: &mut Remains) {
    let mut foreign = vec![];
    for service in services {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let object = format!("Service {namespace}/{name}");
        let is_served_by_another = matches!(remains.manager(), Manager::Other(_));
        if has_finalizer(service) && is_known_here(service) && !is_served_by_another {
            let found = format!("finalizer {LOAD_BALANCER_CLEANUP}; {}", balancer(service));
            let command = match remains.manager() {
                Manager::Nobody | Manager::Unseen => patch(service, true),
                // The host is at it, and would leave the load balancer in the cloud otherwise.
                _ if ServiceFacts::of(service).is_going() => format!("wasm-ccm explain service {namespace}/{name}"),
                _ => {
                    let provider = recorded_provider(service).filter(|name| is_word(name));
                    let provider = provider.as_deref().unwrap_or("PROVIDER");
                    format!("kubectl --namespace {namespace} annotate --overwrite service {name} {ORPHAN}={provider}")
                }
            };
            remains.add(Step::LoadBalancers, Item { object, found, command });
            continue;
        }
        let marks: Vec<String> = marks(service).map(|(kind, name)| format!("{kind} {name}")).collect();
        if has_finalizer(service) && marks.is_empty() {
            foreign.push(format!("{namespace}/{name}"));
        } else if !marks.is_empty() {
            remains.add(Step::Marks, Item { object, found: marks.join(", "), command: patch(service, false) });
        }
    }
    if !foreign.is_empty() {
        remains.note(format!(
            "not counted, because nothing on it says that wasm-ccm has worked on it: the finalizer {LOAD_BALANCER_CLEANUP} of {}, which all cloud controller managers use",
            foreign.join(", ")
        ));
    }
}

/// Our conditions, and annotations of the host: what it is, and its name.
fn marks(service: &Service) -> impl Iterator<Item = (&'static str, &str)> {
    let ready = ready_condition(service).map(|_| LOAD_BALANCER_READY);
    let recorded = was_ensured_here(service).then_some(LOAD_BALANCER_RECORDED);
    let conditions = ready.into_iter().chain(recorded).map(|name| ("condition", name));
    let names = service.metadata.annotations.iter().flatten().map(|(name, _)| name.as_str());
    conditions.chain(names.filter(|name| name.starts_with(OURS)).map(|name| ("annotation", name)))
}

/// Takes away what is ours. Through the status, where conditions are; metadata goes with it.
fn patch(service: &Service, with_finalizer: bool) -> String {
    let mut metadata = Map::new();
    if let Some(uid) = service.uid() {
        // One that was made anew has a load balancer of its own by the time that somebody pastes this.
        metadata.insert("uid".to_owned(), uid.into());
    }
    if with_finalizer {
        metadata.insert("$deleteFromPrimitiveList/finalizers".to_owned(), json!([LOAD_BALANCER_CLEANUP]));
    }
    let of = |wanted: &'static str| marks(service).filter(move |(kind, _)| *kind == wanted).map(|(_, name)| name);
    let annotations: Map<String, Value> = of("annotation").map(|name| (name.to_owned(), Value::Null)).collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let conditions: Vec<Value> = of("condition").map(|name| json!({ "type": name, "$patch": "delete" })).collect();
    let body = json!({ "metadata": metadata, "status": { "conditions": conditions } });
    // No name in it has a quotation mark.
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    format!("kubectl --namespace {namespace} patch service {name} --subresource=status --patch '{body}'")
}

/// What it holds in the cloud, as far as the Service says.
fn balancer(service: &Service) -> String {
    let provider = recorded_provider(service).unwrap_or_else(|| "a provider that is not recorded".to_owned());
    let addresses = published_addresses(service);
    let addresses = if addresses.is_empty() { "without an address".to_owned() } else { addresses.join(", ") };
    let annotations = service.metadata.annotations.iter().flatten();
    let id = annotations.filter(|(name, _)| name.ends_with(ID)).map(|(_, id)| format!(", ID {id}"));
    one_line(&format!("load balancer of {provider}: {addresses}{}", id.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = "LoadBalancerReady";
    const RECORDED: &str = "LoadBalancerRecorded";
    const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

    fn service(name: &str, finalizers: &[&str], conditions: &[&str], more: &Value) -> Service {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True", "reason": "Ensured", "message": "", "lastTransitionTime": "2026-11-26T09:30:00Z" }))
            .collect();
        let mut object = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": "u-1", "finalizers": finalizers },
            "spec": { "type": "LoadBalancer" },
            "status": { "conditions": conditions },
        });
        for (key, value) in more.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn judged(services: &[Service], manager: Manager) -> Remains {
        let mut remains = Remains::new(manager);
        judge(services, &mut remains);
        remains
    }

    fn commands(remains: &Remains, step: Step) -> Vec<String> {
        remains.items(step).iter().map(|item| item.command.clone()).collect()
    }

    #[test]
    fn the_host_gives_a_load_balancer_up_while_it_runs_and_afterwards_the_finalizer_goes_by_hand() {
        let more =
            json!({ "annotations": { "wasm-ccm.io/ensure": "1", "my.example/load-balancer-id": "lb\n7", "own": "x" } });
        let web = service("web", &[FINALIZER, "other"], &[READY, "Theirs", RECORDED], &more);
        for manager in [Manager::Host, Manager::Unknown] {
            let remains = judged(std::slice::from_ref(&web), manager);
            let wanted = "kubectl --namespace shop annotate --overwrite service web wasm-ccm.io/orphan=PROVIDER";
            assert_eq!(commands(&remains, Step::LoadBalancers), [wanted]);
        }
        let remains = judged(std::slice::from_ref(&web), Manager::Nobody);
        let unseen = judged(std::slice::from_ref(&web), Manager::Unseen);
        assert_eq!(commands(&unseen, Step::LoadBalancers), commands(&remains, Step::LoadBalancers));
        let [item] = remains.items(Step::LoadBalancers) else { panic!("{remains:?}") };
        assert_eq!(item.object, "Service shop/web");
        assert!(item.found.ends_with("load balancer of a provider that is not recorded: without an address, ID lb 7"));
        let (start, body) = item.command.split_once(" --patch '").unwrap();
        assert_eq!(start, "kubectl --namespace shop patch service web --subresource=status");
        let body: Value = serde_json::from_str(body.strip_suffix('\'').unwrap()).unwrap();
        let conditions = [READY, RECORDED].map(|kind| json!({ "type": kind, "$patch": "delete" }));
        let annotations = json!({ "wasm-ccm.io/ensure": null });
        let metadata =
            json!({ "uid": "u-1", "$deleteFromPrimitiveList/finalizers": [FINALIZER], "annotations": annotations });
        assert_eq!(body, json!({ "metadata": metadata, "status": { "conditions": conditions } }));
        assert!(remains.items(Step::Marks).is_empty());
    }

    #[test]
    fn a_service_whose_load_balancer_the_host_deletes_is_waited_for() {
        let gone = json!({ "deletionTimestamp": "2026-11-26T10:00:00Z" });
        let web = service("web", &[FINALIZER], &[READY], &gone);
        let remains = judged(std::slice::from_ref(&web), Manager::Host);
        assert_eq!(commands(&remains, Step::LoadBalancers), ["wasm-ccm explain service shop/web"]);
        assert!(
            commands(&judged(&[web], Manager::Nobody), Step::LoadBalancers)[0].contains("$deleteFromPrimitiveList")
        );
    }

    #[test]
    fn what_another_manager_uses_now_is_left_to_it_and_only_our_marks_go() {
        let services = [
            service("taken", &[FINALIZER], &[RECORDED], &json!({})),
            service("theirs", &[FINALIZER], &["Theirs"], &json!({})),
            service("given-up", &[], &[], &json!({ "annotations": { "wasm-ccm.io/orphan": "my" } })),
            service("clean", &[], &[], &json!({ "annotations": { "my.example/wasm-ccm.io": "x" } })),
        ];
        let remains = judged(&services, Manager::Other("go-ccm".to_owned()));
        assert!(remains.items(Step::LoadBalancers).is_empty(), "{remains:?}");
        let marks = remains.items(Step::Marks);
        let told: Vec<_> = marks.iter().map(|item| (item.object.as_str(), item.found.as_str())).collect();
        assert_eq!(
            told,
            [
                ("Service shop/taken", "condition LoadBalancerRecorded"),
                ("Service shop/given-up", "annotation wasm-ccm.io/orphan")
            ]
        );
        assert!(commands(&remains, Step::Marks).iter().all(|command| !command.contains("finalizers")));
        assert!(remains.text().contains("load-balancer-cleanup of shop/theirs, which all"), "{}", remains.text());
    }
}
