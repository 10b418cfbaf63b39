//! Lists that are longer than a page, or than a request has room for.

use std::time::Duration;

use super::super::{floating_ips, groups, octavia, ports, servers};
use super::*;

const NONE: Duration = Duration::ZERO;

/// The IDs of what a question brings.
type Ask = fn() -> Result<Vec<String>, Failure>;

macro_rules! ids {
    ($list:expr) => {
        || $list.map(|all| all.into_iter().map(|one| one.id).collect())
    };
}

/// Where the name of the links is wrong, the first page passes for the whole.
#[test]
fn os_170_every_list_is_read_to_its_last_page_and_no_further() {
    let asks: [(&str, &str, Ask); 24] = [
        ("compute GET /servers/detail", "servers", ids!(servers::all(NONE))),
        ("compute GET /servers/detail", "servers", ids!(servers::named("n-1", NONE))),
        ("load-balancer GET /lbaas/loadbalancers", "loadbalancers", ids!(octavia::named("x"))),
        ("load-balancer GET /lbaas/loadbalancers", "loadbalancers", ids!(octavia::tagged("x"))),
        ("load-balancer GET /lbaas/loadbalancers", "loadbalancers", ids!(octavia::all(NONE))),
        ("load-balancer GET /lbaas/listeners", "listeners", ids!(octavia::all_listeners(NONE))),
        ("load-balancer GET /lbaas/listeners", "listeners", ids!(octavia::listeners("lb-1"))),
        ("load-balancer GET /lbaas/pools", "pools", ids!(octavia::all_pools(NONE))),
        ("load-balancer GET /lbaas/pools", "pools", ids!(octavia::pools("lb-1"))),
        ("load-balancer GET /lbaas/pools/pool-1/members", "members", ids!(octavia::members("pool-1"))),
        ("load-balancer GET /lbaas/healthmonitors", "healthmonitors", ids!(octavia::all_monitors(NONE))),
        ("network GET /floatingips", "floatingips", ids!(floating_ips::with("port_id", "p"))),
        ("network GET /floatingips", "floatingips", ids!(floating_ips::described(&["x", "y"]))),
        ("network GET /floatingips", "floatingips", ids!(floating_ips::all(NONE))),
        ("network GET /networks", "networks", ids!(floating_ips::external_networks())),
        ("network GET /networks", "networks", ids!(ports::networks(&["n"], NONE))),
        ("network GET /subnets", "subnets", ids!(floating_ips::subnets("n"))),
        ("network GET /ports", "ports", ids!(ports::of_devices(&["s"], NONE))),
        ("network GET /ports", "ports", ids!(ports::of_servers(&["s"], NONE))),
        ("network GET /ports", "ports", ids!(ports::with_ids(&["p"], NONE))),
        ("network GET /ports", "ports", ids!(ports::with_addresses(&["10.1.0.5"]))),
        ("network GET /ports", "ports", ids!(ports::with_group("sg-1"))),
        ("network GET /security-groups", "security_groups", ids!(groups::named("x"))),
        ("network GET /security-groups", "security_groups", ids!(groups::with_names(&["x"], NONE))),
    ];
    for (line, name, ask) in asks {
        let page = |ids: &[&str], rel: &str| {
            let ids: Vec<_> = ids.iter().map(|id| serde_json::json!({ "id": id })).collect();
            let link = serde_json::json!({ "rel": rel, "href": "http://inside:9696/x?marker=z" });
            Reply::json(200, serde_json::json!({ name: ids, format!("{name}_links"): [link] }).to_string())
        };
        let cloud = fake().on(line, page(&["a", "b"], "next")).on(line, page(&["c"], "previous"));
        assert_eq!(ask(), Ok(["a", "b", "c"].map(str::to_owned).to_vec()), "os_170 {name}");
        let asked = cloud.lines();
        assert_eq!(asked.len(), 2, "{asked:?}");
        // What was asked for is asked for again, after the last of the page.
        assert_eq!(asked[1], format!("{}&marker=b", asked[0]), "os_170");
    }
}

/// From the 101st Node on, the others would have lost their addresses, their group or their clients.
#[test]
fn what_has_no_room_in_one_request_is_asked_for_in_several() {
    let many: Vec<String> = (0..101).map(|number| format!("0b8a6c52-8c4f-4a3e-9d62-{number:012}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    // As long as names of groups get: namespace and name of a Service have 253 letters and 63.
    let long: Vec<String> = (0..101).map(|number| format!("lb-sg-{}-{number:03}", "n".repeat(310))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    type Asks = fn(&[&str]) -> Result<Vec<String>, Failure>;
    /// Path, name of the items, filter, its values, requests.
    type Row<'v> = (&'static str, &'static str, &'static str, &'v [&'v str], usize, Asks);
    let asks: [Row<'_>; 6] = [
        ("/ports", "ports", "device_id=", &many, 2, |ids| ids!(ports::of_devices(ids, NONE))()),
        ("/ports", "ports", "device_id=", &many, 2, |ids| ids!(ports::of_servers(ids, NONE))()),
        ("/ports", "ports", "&id=", &many, 2, |ids| ids!(ports::with_ids(ids, NONE))()),
        ("/ports", "ports", "fixed_ips=ip_address%3D", &many, 2, |all| ids!(ports::with_addresses(all))()),
        ("/networks", "networks", "&id=", &many, 2, |ids| ids!(ports::networks(ids, NONE))()),
        ("/security-groups", "security_groups", "name=", &long, 6, |names| ids!(groups::with_names(names, NONE))()),
    ];
    for (path, name, filter, values, requests, ask) in asks {
        let line = format!("network GET {path}");
        let page =
            |number: usize| Reply::json(200, serde_json::json!({ name: [{ "id": number.to_string() }] }).to_string());
        let cloud = (0..requests).fold(fake(), |cloud, number| cloud.on(&line, page(number)));
        let found =
            ask(values).unwrap_or_else(|failure| panic!("{filter}: {} {:?}", failure.message, cloud.lines().len()));
        let expected: Vec<String> = (0..requests).map(|number| number.to_string()).collect();
        assert_eq!(found, expected, "{filter}");
        let asked = cloud.lines();
        assert_eq!(asked.len(), requests, "{filter}");
        assert!(asked.iter().all(|line| line.len() < 8_000), "a server takes no longer line: {filter}");
        for value in values {
            let with_it = asked.iter().filter(|line| line.contains(&format!("{filter}{value}"))).count();
            assert_eq!(with_it, 1, "{filter}{value}");
        }
    }
}
