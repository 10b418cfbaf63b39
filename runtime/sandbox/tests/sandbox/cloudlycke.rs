//! Cloudlycke's load balancers in their component: what its own tests take for granted of the host.

use std::time::Duration;

use ccm_cloud::{
    Capability, Failure, Ingress, LoadBalancers as _, Outcome, Reaction, RouteWish, Routes as _, Service, ServicePort,
    ServiceType, Standing, Wish,
};
use ccm_egress::{Cache, ProviderContext, Settings};
use ccm_sandbox::{Limits, Provider, Sandbox};
use serde_json::{Value, json};

use crate::rig::{CLOUDLYCKE, at, backends, component, map, node, service};

const ADDRESS: &str = "cloudlycke.io/lb-address";
const DELAY: &str = "cloudlycke.io/lb-delay";
const MODE: &str = "cloudlycke.io/lb-mode";
const READY_AT: &str = "cloudlycke.io/lb-ready-at";

/// A provider that remembers nothing.
async fn start(cloud_config: &Value) -> Provider {
    let component = Sandbox::try_new().unwrap().load(component(CLOUDLYCKE), Limits::default(), true).await.unwrap();
    let settings = Settings { files: map(&[("cloud-config", &cloud_config.to_string())]), ..Settings::default() };
    let cache = Cache::new(Cache::DEFAULT_BYTES);
    let provider =
        component.into_provider(ProviderContext { settings, cache, ..ProviderContext::closed() }, None, None);
    assert_eq!(provider.check(true).await.unwrap(), Ok(vec![]));
    provider.offers().await.unwrap().unwrap();
    provider
}

fn balanced(name: &str) -> Service {
    let port = ServicePort { port: 80, ..ServicePort::default() };
    Service { kind: ServiceType::LoadBalancer, ports: vec![port], ..service(name) }
}

fn annotated(mut service: Service, name: &str, value: &str) -> Service {
    service.annotations.insert(name.to_owned(), value.to_owned());
    service
}

async fn ensured(provider: &Provider, service: &Service) -> Vec<Ingress> {
    let outcome = provider.ensure(service.clone(), backends(&["a", "b"])).await;
    assert_eq!(outcome.failure, None);
    outcome.ingress
}

#[tokio::test]
async fn an_address_is_remembered_between_calls_and_found_again_after_a_restart() {
    let provider = start(&json!({})).await;
    assert!(provider.has(Capability::LoadBalancers) && provider.surveys());
    assert_eq!(provider.locks(balanced("web")).await, Ok(vec!["cloudlycke/pool".to_owned()]));
    assert_eq!(provider.name(balanced("web")).await, Ok("default-web".to_owned()));
    assert_eq!(provider.get(balanced("web")).await, Ok(None));
    let ingress = ensured(&provider, &balanced("web")).await;
    assert_eq!(provider.get(balanced("web")).await, Ok(Some(ingress.clone())));
    let address = ingress[0].ip.clone().unwrap();
    assert!(address.starts_with("203.0.113."), "{address}");

    let restarted = start(&json!({})).await;
    assert_eq!(restarted.configuration(), provider.configuration());
    let known = Service { ingress: ingress.clone(), ..balanced("web") };
    let wishes = vec![
        Wish { service: known.clone(), backends: vec![0] },
        Wish { service: Service { ingress: ingress.clone(), ..balanced("copy") }, backends: vec![0] },
        Wish { service: balanced("new"), backends: vec![] },
    ];
    let said = format!("address {address} is in use by default/web");
    let standings = [Standing::InStep(ingress.clone()), Standing::Differs(vec![said.clone()]), Standing::Missing];
    assert_eq!(restarted.survey(backends(&["a"]), wishes).await, Ok(standings.to_vec()));

    let wants_it = annotated(balanced("api"), ADDRESS, &address);
    let failure =
        Failure { field: Some(format!("metadata.annotations[{ADDRESS}]")), ..Failure::new(Reaction::Conflict, said) };
    assert_eq!(restarted.ensure(wants_it.clone(), backends(&[])).await, Outcome::failed(failure));
    let updated = restarted.update_backends(known.clone(), backends(&["a", "c"])).await;
    assert_eq!((updated.ingress, updated.changes), (ingress.clone(), vec!["members added: c".to_owned()]));
    let deleted = restarted.delete(known).await;
    assert_eq!((deleted.failure, deleted.changes), (None, vec![format!("address {address} released")]));
    assert_eq!(ensured(&restarted, &wants_it).await, [at(&address)]);
}

/// The host asks for the locks of a Service, whatever it is about to do with it.
#[tokio::test]
async fn all_calls_about_load_balancers_hold_one_lock_and_routes_share_nothing_with_them() {
    let config = json!({
        "loadBalancer": { "mode": "nodes", "hostnameSuffix": "lb.example.com" },
        "routes": { "enabled": true },
    });
    let provider = start(&config).await;
    let lock = Ok(vec!["cloudlycke/pool".to_owned()]);
    for mode in ["pool", "nodes", "hostname", "no mode at all"] {
        let web = annotated(balanced("web"), MODE, mode);
        assert_eq!(provider.locks(web.clone()).await, lock, "{mode}");
        let deleting = Service { deleting: true, ..web.clone() };
        assert_eq!(provider.locks(deleting).await, lock, "{mode}");
        let left = Service { kind: ServiceType::ClusterIp, ..web };
        assert_eq!(provider.locks(left).await, lock, "{mode}");
    }

    // Routes are changed without a lock, while load balancers are: neither sees the other's state.
    let web = annotated(balanced("web"), MODE, "pool");
    let wish = RouteWish {
        destination_cidr: "10.244.0.0/24".to_owned(),
        node: "a".to_owned(),
        provider_id: "cloudlycke://a".to_owned(),
        addresses: vec![],
    };
    let nodes = vec![node("a")];
    let ingress = ensured(&provider, &web).await;
    assert_eq!(provider.change(vec![], vec![wish.clone()]).await.unwrap()[0].changes.len(), 1);
    assert_eq!(provider.get(web.clone()).await, Ok(Some(ingress.clone())));
    let routes = provider.get_all(nodes.clone()).await.unwrap();
    let known = Service { ingress, ..web };
    assert_eq!(provider.update_backends(known.clone(), backends(&["a"])).await.failure, None);
    assert_eq!(provider.get_all(nodes.clone()).await, Ok(routes.clone()));
    assert_eq!(provider.delete(known).await.failure, None);
    assert_eq!(provider.get_all(nodes).await, Ok(routes));
    assert_eq!(provider.change(vec![], vec![wish]).await.unwrap()[0].changes, [""; 0], "it is there already");
}

#[tokio::test]
async fn the_end_of_a_delay_stands_on_the_service() {
    let provider = start(&json!({})).await;
    let web = annotated(balanced("web"), DELAY, "1h");
    let outcome = provider.ensure(web.clone(), backends(&[])).await;
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.reaction, failure.retry_after), (Reaction::Pending, Some(Duration::from_secs(10))));
    let [(name, Some(ready_at))] = outcome.annotations.as_slice() else { panic!("{:?}", outcome.annotations) };
    assert_eq!(name, READY_AT);
    // Another process, an hour later.
    let past = (ready_at.parse::<u64>().unwrap() - 3_600_000).to_string();
    let restarted = start(&json!({})).await;
    assert_eq!(ensured(&restarted, &annotated(web, READY_AT, &past)).await.len(), 1);
}

#[tokio::test]
async fn a_cloud_without_load_balancers_offers_none_and_lets_those_of_before_go() {
    let provider = start(&json!({ "loadBalancer": { "mode": "none" } })).await;
    assert!(!provider.has(Capability::LoadBalancers));
    let outcome = provider.ensure(balanced("web"), backends(&[])).await;
    assert_eq!(outcome.failure.map(|failure| failure.reaction), Some(Reaction::Unsupported));
    let had = Service { ingress: vec![at("203.0.113.7")], ..balanced("web") };
    assert_eq!(provider.delete(had).await, Outcome::default());
}

/// The whole of a large pool is looked through within the computing time of a call, and with what the cache holds.
#[tokio::test]
async fn a_thousand_services_find_their_addresses() {
    let provider = start(&json!({ "loadBalancer": { "pool4": "10.128.0.0/22" } })).await;
    let mut given = std::collections::BTreeSet::new();
    for number in 0..1_000 {
        let ingress = ensured(&provider, &balanced(&format!("s{number}"))).await;
        assert!(given.insert(ingress[0].ip.clone()), "service {number} got {ingress:?}, which another one has");
    }
}
