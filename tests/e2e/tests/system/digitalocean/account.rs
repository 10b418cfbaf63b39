//! The account: tokens, environment variables, regions, droplets of others.

use std::time::Duration;

use ccm_cluster::NodeFixture;
use ccm_e2e::{alerts, manifest};
use ccm_sim_digitalocean::{Droplet, Quota, Settings, TOKEN};
use serde_json::json;
use tokio::time::Instant;

use super::{Cloud, FLAGS, await_balanced, members, provider, start};
use crate::look::{await_all_untainted, await_event, await_untainted};
use crate::service_look::{await_reason, serve};
use crate::stage::{Actor, LIMIT, Stage};

#[tokio::test]
async fn a_token_that_is_revoked_stops_everything_and_a_new_one_in_the_file_goes_on_without_a_restart() {
    const NEW: &str = "dop_v1_simulated_new_77b1c0d9e2f34a58";
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[101]).await;
    let token = stage.file("do-token", format!("{TOKEN}\n"));
    let flags = [
        provider(),
        format!("--endpoint=api={}", cloud.url()),
        format!("--credential=access-token=file:{}", token.display()),
        "--trace-http".to_owned(),
        "--v=4".to_owned(),
    ];
    let host = stage.start(FLAGS.iter().map(|flag| (*flag).to_owned()).chain(flags).chain(cloud.flags()));
    serve(client, "first", json!({})).await;
    await_balanced(client, &cloud, "first").await;

    // Whoever is refused is tried again a minute later, were it not for the other token.
    let revoked = Instant::now();
    assert!(cloud.revoke(TOKEN));
    cloud.put_droplet(Droplet::new(102, "n102"));
    NodeFixture::new("n102").register(client).await.unwrap();
    serve(client, "second", json!({})).await;
    let message = await_reason(client, "second", "CredentialsRefused").await;
    assert!(message.contains("Unable to authenticate you"), "{message}");
    await_event(client, "n102", "Warning", "SyncNodeFailed", &["Unable to authenticate you"]).await;
    assert_eq!(cloud.balancers().len(), 1);

    cloud.allow(NEW);
    stage.file("do-token", NEW);
    await_untainted(client, "n102").await;
    await_balanced(client, &cloud, "second").await;
    assert!(revoked.elapsed() < Duration::from_secs(60), "they waited as if nothing had changed");
    let log = host.log_text();
    for secret in [TOKEN, NEW] {
        assert!(!log.contains(secret), "a token is in the log");
    }
    cloud.configured_with(&[("DO_ACCESS_TOKEN", NEW)], &[]);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// T27: the Go manager forgets the path in some requests.
#[tokio::test]
async fn all_requests_go_below_the_path_of_the_override_url() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start_with(Settings { prefix: "/proxy/do".to_owned(), ..Settings::default() }).await;
    assert!(cloud.url().ends_with("/proxy/do"));
    cloud.put_droplet(Droplet { tags: vec!["k8s-worker".to_owned()], ..Droplet::new(200, "worker") });
    members(client, &cloud, &[201]).await;
    let environment = [
        ("DO_CLUSTER_ID", "prefixed"),
        ("PUBLIC_ACCESS_FIREWALL_NAME", "k8s-public"),
        ("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s-worker"),
        ("DEFAULT_LB_TYPE", "REGIONAL"),
        ("REGION", "nyc3"),
    ];
    let host = start(&stage, &cloud, &environment, &["--cluster-period=1s"]);
    cloud.put_droplet(Droplet::new(202, "n202"));
    NodeFixture::new("n202").register(client).await.unwrap();
    await_untainted(client, "n202").await;
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    assert_eq!(balancer.spec.kind, "REGIONAL");
    cloud.until(LIMIT, |cloud| !cloud.firewalls().is_empty()).await.unwrap();
    assert_eq!(cloud.counters().outside, 0);
    assert!(cloud.exchanges().iter().all(|exchange| exchange.uri.starts_with("/proxy/do/v2/")));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn without_a_region_that_of_the_droplets_counts_and_two_are_named() {
    let stage = Stage::new().await;
    let client = stage.client();
    // Whoever cannot ask about one droplet serves all the same, and names no regions.
    let cloud = Cloud::calm().await;
    let in_region = |id, name: &str, region: &str| Droplet { region: region.to_owned(), ..Droplet::new(id, name) };
    cloud.put_droplet(in_region(301, "n301", "fra1"));
    cloud.put_droplet(in_region(399, "foreign", "ams3"));
    NodeFixture::new("n301").register(client).await.unwrap();
    let host = start(&stage, &cloud, &[], &[]);
    await_untainted(client, "n301").await;
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    assert_eq!(balancer.spec.region, "fra1");
    assert!(!host.log_text().contains("a load balancer is in one"), "one region is no problem");
    host.end().await;

    cloud.put_droplet(in_region(302, "n302", "nyc3"));
    NodeFixture::new("n302").register(client).await.unwrap();
    let host = start(&stage, &cloud, &[], &[]);
    host.await_log(LIMIT, &["configuration of the provider", "regions fra1 and nyc3", "set REGION"]).await.unwrap();
    host.end().await;

    let host = start(&stage, &cloud, &[("REGION", "mars1")], &[]);
    let says = ["provider not taken", "invalid region specified", "mars1", "nyc3"];
    host.await_log(LIMIT, &says).await.unwrap();
    host.end().await;
    let host = start(&stage, &cloud, &[("PUBLIC_ACCESS_FIREWALL_NAME", "half")], &[]);
    host.await_log(LIMIT, &["provider not taken", "PUBLIC_ACCESS_FIREWALL_TAGS is missing"]).await.unwrap();
    host.end().await;
    cloud.unsettled("it refuses to give a load balancer in one region the droplets of another, and the host asks on");
    cloud.check().unwrap();
}

#[tokio::test]
async fn two_regions_are_named_also_when_the_nodes_are_known_late() {
    let stage = Stage::bare(ccm_cluster::Settings::default()).await;
    let client = stage.client();
    // Whoever cannot ask about one droplet serves all the same, and names no regions.
    let cloud = Cloud::calm().await;
    for (id, region) in [(311, "fra1"), (312, "nyc3")] {
        let name = format!("n{id}");
        cloud.put_droplet(Droplet { region: region.to_owned(), ..Droplet::new(id, &name) });
        NodeFixture::new(name).register(client).await.unwrap();
    }
    let host = start(&stage, &cloud, &[], &[]);
    // What it thinks of its configuration is asked before what it offers. It is taken when there are Nodes to compare it with.
    let offers = ["function=\"meta.offers\""];
    host.await_count("ccm_provider_calls_total", &offers, LIMIT, |calls| calls >= 1.0).await.unwrap();
    let waits_for = host.await_page("/readyz", 503, LIMIT).await.unwrap();
    assert!(waits_for.contains("[-]nodes not ready: "), "{waits_for}");
    let named = ["configuration of the provider", "regions fra1 and nyc3", "set REGION"];
    let lines =
        |host: &Actor| host.log().into_iter().filter(|line| named.iter().all(|part| line.contains(part))).count();
    assert_eq!(lines(&host), 0, "nobody knows the Nodes, which it may not read yet");
    manifest::apply_base(client).await.unwrap();
    host.await_log(LIMIT, &named).await.unwrap();
    host.ready().await;
    assert_eq!(lines(&host), 1);
    let log = host.log();
    let place = |parts: &[&str]| log.iter().position(|line| parts.iter().all(|part| line.contains(part))).unwrap();
    assert!(place(&["provider taken"]) < place(&named), "nobody knew the Nodes before: {log:#?}");
    cloud.settled(&stage).await;
    host.stop().await;
    cloud.check().unwrap();
}

/// Others use the token, too: they left one request of this hour.
#[tokio::test]
async fn an_account_whose_requests_are_used_up_is_told_before_anybody_waits_for_long() {
    let stage = Stage::new().await;
    let settings = Settings { quota: Quota { per_hour: 1, per_minute: 250 }, ..Settings::default() };
    let cloud = Cloud::start_with(settings).await;
    members(stage.client(), &cloud, &[321]).await;
    let host = start(&stage, &cloud, &[("REGION", "nyc3")], &[]);
    let limit = "ccm_cloud_requests_limit";
    host.await_count(limit, &["endpoint=\"api\""], LIMIT, |limit| limit == 1.0).await.unwrap();
    let used_up = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMCloudBudgetExhausted", &[[&used_up]]).await.unwrap();
    cloud.unsettled("its quota is used up: a plan gets no answer");
    host.end().await;
}

#[tokio::test]
async fn three_thousand_droplets_of_others_cost_a_small_cluster_nothing() {
    const FOREIGN: u64 = 3_000;
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    for id in 1..=FOREIGN {
        cloud.put_droplet(Droplet::new(10_000 + id, &format!("foreign-{id}")));
    }
    for id in 1..=10 {
        let name = format!("own-{id}");
        cloud.put_droplet(Droplet::new(20_000 + id, &name));
        NodeFixture::new(name).register(client).await.unwrap();
    }
    let pages = usize::try_from(FOREIGN / 200 + 1).unwrap();
    let host = start(&stage, &cloud, &[("REGION", "nyc3")], &["--node-status-update-frequency=31s"]);
    await_all_untainted(client, 10).await;
    // The look of the check, once more where it came before the Nodes were known; the first page, and each by name.
    let asked = cloud.counters().reads;
    assert!(asked <= 2 * 2 + 1 + 10, "{asked} requests, where a listing has {pages} pages: {:?}", cloud.counters());

    // Whoever comes alone is asked for alone, and not at the same time as a refresh.
    host.refreshed().await;
    cloud.put_droplet(Droplet::new(20_011, "own-11"));
    let before = cloud.counters().reads;
    NodeFixture::new("own-11").register(client).await.unwrap();
    await_untainted(client, "own-11").await;
    assert_eq!(cloud.counters().reads - before, 1);

    // A refresh looks at the first page, then asks for each.
    let before = cloud.counters().reads;
    host.await_count("ccm_node_refreshes_total", &[], LIMIT, |refreshed| refreshed >= 11.0).await.unwrap();
    let asked = cloud.counters().reads - before;
    assert!(asked <= 1 + 11, "{asked} requests");
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
