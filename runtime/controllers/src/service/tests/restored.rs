//! The whole controller behind a real reflector, whose lists say which state of a Service is the newer one.

use super::*;
use crate::Reflector;
use crate::service::{ServiceController, ServiceControllerParts, ServiceMemory};
use crate::store::FirstList;

/// What was written before the backup was restored had higher resource versions. The watch has shown nothing of that write.
#[tokio::test(start_paused = true)]
async fn a_service_that_etcds_backup_shows_without_an_address_is_served_again() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeBalancers::default());
    api.add_service(service("web").0);
    let backup = api.service("web").unwrap();
    let metrics = Metrics::register(&mut Registry::default());
    let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
    let (recorder, _events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
    let mut nodes = Writer::<Node>::default();
    nodes.apply_watcher_event(&Event::Init);
    nodes.apply_watcher_event(&Event::InitDone);
    let (_node_sender, node_keys) = tokio::sync::mpsc::channel(1);
    cloud.watch(nodes.as_reader());
    let mut services = Reflector::<Service>::new(api.client.clone(), &metrics.store);
    let controller = ServiceController::new(ServiceControllerParts {
        cluster_addresses: ClusterAddresses::new(AddressSources::default()),
        gate,
        services: services.reader(),
        services_listed: services.first_list(),
        service_keys: services.subscribe(),
        nodes: nodes.as_reader(),
        nodes_listed: FirstList::there(),
        node_keys,
        members: [(0, LoadBalancerMember { provider: Arc::clone(&cloud) as _, classes: vec![] })].into(),
        memory: ServiceMemory::new(&metrics.service, &services.first_list()),
        recoveries: vec![],
        exchanges: vec![],
        recorder,
        metrics: metrics.service.clone(),
        queue_metrics: metrics.queue.clone(),
        settings: ServiceSettings { verify_period: Duration::ZERO, ..ServiceSettings::default() },
    });
    let stop = CancellationToken::new();
    let is_served = || api.service("web").unwrap()["status"]["loadBalancer"]["ingress"].is_array();
    let story = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_served());
        api.restore_service(backup);
        api.expire_watches();
        assert!(!is_served());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(is_served(), "{}", api.service("web").unwrap());
        stop.cancel();
    };
    drop(tokio::join!(controller.run(stop.clone()), services.run(stop.clone()), story).0);
}
