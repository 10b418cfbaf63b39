//! Changes of the Nodes while the whole controller runs.

use super::*;

#[tokio::test(start_paused = true)]
async fn case_136_four_services_get_a_new_node_each_once_through_two_places() {
    let mut world = World::new(slow(1_000));
    world.settings.concurrent_syncs = NonZeroUsize::new(2).unwrap();
    for name in names(4) {
        world = world.service(service(&name));
    }
    world.node(node("n0")).await;
    world
        .run(async |world: &mut World| {
            world.addressed(&names(4)).await;
            world.cloud.take_calls();
            world.node(node("n1")).await;
            seconds(5).await;
            let mut calls = world.cloud.take_calls();
            calls.sort();
            assert_eq!(calls, names(4).iter().map(|name| format!("update {name}: n0 n1")).collect::<Vec<_>>());
            assert_eq!((world.cloud.most(), world.hosts()), (2, vec!["n0 n1".to_owned()]));
        })
        .await;
}

/// 155, the retry: nobody touches the Service or a Node meanwhile.
#[tokio::test(start_paused = true)]
async fn case_155_a_load_balancer_whose_update_failed_gets_its_hosts_by_itself() {
    let mut world = World::new(FakeBalancers::default()).service(service("web"));
    world.node(node("n0")).await;
    let metrics = world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            for operation in ["update", "get"] {
                world.cloud.fail(operation, "web", vec![failure(Reaction::Retry, "no route"); 2]);
            }
            world.node(node("n1")).await;
            seconds(2).await;
            assert_eq!((world.hosts(), world.cloud.count("update")), (vec!["n0".to_owned()], 1));
            seconds(60).await;
            assert_eq!(world.hosts(), ["n0 n1"]);
        })
        .await;
    assert!(metrics.service.update_failures.get() >= 1);
}

/// Its kubelet registers it, the host gives it addresses, then everything else. A load balancer was read and changed for each.
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_is_told_once_when_it_is_initialised() {
    let with_address =
        |draft: Draft| draft.with("/status", "addresses", json!([{ "type": "InternalIP", "address": "10.0.0.7" }]));
    let mut world = World::new(FakeBalancers::default()).service(service("web"));
    world.node(node("n0").provider_id("fake://0")).await;
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            world.cloud.take_calls();
            for waiting in [node("n1").tainted(), with_address(node("n1").tainted())] {
                world.node(waiting).await;
                seconds(5).await;
                assert_eq!(world.cloud.take_calls(), Vec::<String>::new());
            }
            world.node(with_address(node("n1").provider_id("fake://1"))).await;
            seconds(5).await;
            assert_eq!(world.cloud.take_calls(), ["update web: n0 n1"]);
            // One that waits is taken along when another one changes.
            world.node(node("n2").tainted()).await;
            world.node(node("n3").provider_id("fake://3")).await;
            seconds(5).await;
            assert_eq!(world.cloud.take_calls(), ["update web: n0 n1 n2 n3"]);
            // No cloud gives it an ID, and somebody takes the taint away.
            world.node(node("n4").tainted()).await;
            seconds(5).await;
            assert_eq!(world.cloud.take_calls(), Vec::<String>::new());
            world.node(node("n4")).await;
            seconds(5).await;
            assert_eq!(world.cloud.take_calls(), ["update web: n0 n1 n2 n3 n4"]);
        })
        .await;
}
