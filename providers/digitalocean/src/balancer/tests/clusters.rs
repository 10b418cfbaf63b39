//! Two clusters in one account: a copy of a Service must not take the load balancer of the other cluster away.

use super::*;

const MINE: &str = "k8s:ours";
const THEIRS: &str = "k8s:c-1";

fn ours() -> Config {
    Config { tag: Some(MINE.to_owned()), ..config() }
}

fn tagged(name: &str, tags: &[&str]) -> Value {
    changed("lb-1", json!({"name": name, "tags": tags}))
}

/// Of another cluster's Service, with the name made of its UID, a name that was asked for, and the tag of its Service.
fn of_theirs() -> [Value; 3] {
    let of_service = "wasm-ccm-service:u-2:shop:web";
    [tagged("au2", &[THEIRS]), tagged("shop", &["x", "K8S:c-1"]), tagged("my-lb", &[THEIRS, of_service])]
}

#[test]
fn a_copy_leaves_the_load_balancer_of_another_cluster_alone_and_says_how_to_force_either() {
    for theirs in of_theirs() {
        for config in [ours(), config()] {
            for listed in [vec![theirs.clone()], vec![]] {
                let mut copy = settled_service(&[]);
                let cloud = FakeCloud::new().always(LIST, many(&listed)).always(GET, one(&theirs));
                for restored in [false, true] {
                    if restored {
                        copy.ingress.clear();
                    }
                    for done in [ensure(&config, &copy, &nodes()), update_backends(&config, &copy, &nodes())] {
                        assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]), "{theirs}");
                        let failure = done.outcome.failure.expect("it is another's");
                        assert_eq!(failure.field, Some(format!("metadata.annotations[{}]", names::ID)));
                        for words in ["lb-1", "k8s:c-1", names::ID, "wasm-ccm.io/orphan"] {
                            let told = failure.message.to_lowercase();
                            assert!(told.contains(&words.to_lowercase()), "{words}: {told}");
                        }
                    }
                    assert!(get(&config, &copy).is_err());
                }
                // The host does not say that it is taken over, and lets the Service go.
                assert_eq!(mark(&config, &copy), Ok(None));
                let done = delete(&config, &copy);
                assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
                assert_eq!(reasons(&done), ["LoadBalancerNotDeleted"]);
                let wish = Wish { service: copy, backends: vec![0, 1] };
                assert_eq!(standings(&config, &[wish]), [Standing::Missing]);
                assert!(routes(&cloud).iter().all(|line| line.starts_with("api GET")), "{:?}", routes(&cloud));
            }
        }
    }
}

/// Who looks after a cluster's tag and its firewall finds nothing either.
#[test]
fn it_gets_no_tag_of_the_cluster_of_its_copy() {
    for theirs in of_theirs() {
        let theirs: Balancer = serde_json::from_value(theirs).expect("a load balancer");
        let cloud = FakeCloud::new();
        assert_eq!(crate::tag::reconcile(&ours(), MINE, &[settled_service(&[])], &[theirs]), Ok(vec![]));
        assert_eq!(cloud.lines(), [""; 0]);
    }
}

/// Whoever gives the cluster another ID keeps what is its own; what has no cluster's tag is for whoever has its ID.
#[test]
fn what_names_the_service_or_this_cluster_or_none_is_had_by_its_id() {
    for has in [
        tagged("aservice123", &[THEIRS]),
        tagged("my-lb", &[THEIRS, OWN]),
        tagged("shop", &[THEIRS, "K8S:ours"]),
        tagged("shop", &["x"]),
        tagged("au2", &[]),
    ] {
        for service in [settled_service(&[]), known()] {
            let cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(&has))).always(GET, one(&has));
            let cloud = tagging(cloud.always(PUT, one(&has)));
            let done = ensure(&ours(), &service, &nodes());
            assert_eq!((addresses(&done), reasons(&done), written(&done)), (both(), vec![], vec![]), "{has}");
            assert!(!routes(&cloud).contains(&POST.to_owned()));
        }
    }
    // What is not told keeps nobody out.
    let mut untold = tagged("au2", &[]);
    untold.as_object_mut().expect("an object").remove("tags");
    let _cloud = FakeCloud::new().always(GET, one(&untold)).always(PUT, one(&untold));
    assert_eq!(addresses(&ensure(&ours(), &settled_service(&[]), &nodes())), both());
}
