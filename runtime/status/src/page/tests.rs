use crate::{DryRun, Held, MAX_PAGE, PendingWrite, Provider, ROWS, Refused, Rows, Status, Trouble, Unmanaged};

const METRICS: &str = r#"workqueue_depth{name="service"} 1234
workqueue_adds_total{name="service"} 60000
workqueue_retries_total{name="service"} 17
workqueue_longest_running_processor_seconds{name="service"} 2.31
workqueue_depth{name="Nodes"} 0
ccm_provider_loads_total{source="/p/cloud.wasm",result="taken",step="probation"} 3
ccm_provider_loads_total{source="/p/cloud.wasm",result="rejected",step="check"} 2
ccm_provider_loads_total{source="/p/other.wasm",result="rejected",step="check"} 40
ccm_cloud_requests_total{provider="cloud",endpoint="api",operation="GET /a",outcome="2xx"} 1500
ccm_cloud_requests_total{provider="cloud",endpoint="api",operation="GET /b",outcome="shared"} 5
ccm_cloud_requests_total{provider="cloud",endpoint="api",operation="GET /b",outcome="5xx"} 7
ccm_cloud_requests_remaining{provider="cloud",endpoint="api"} 4321
ccm_cloud_requests_limit{provider="cloud",endpoint="api"} 5000
ccm_cloud_requests_at_once{provider="cloud",endpoint="api"} 20
ccm_cloud_requests_waiting{provider="cloud",endpoint="api"} 0
ccm_cloud_requests_under_way{provider="cloud",endpoint="api"} 1
ccm_cloud_circuit_open{provider="cloud",endpoint="api"} 0
"#;

fn rows<T>(all: usize, one: impl Fn(usize) -> T) -> Option<Rows<T>> {
    Some(Rows { all, first: (0..all.min(ROWS)).map(one).collect() })
}

fn none<T>() -> Option<Rows<T>> {
    Some(Rows { all: 0, first: vec![] })
}

fn provider() -> Provider {
    Provider {
        source: "/p/cloud.wasm".into(),
        serving: Some("cloud 2.0".into()),
        digest: "sha256:bb".into(),
        phase: "proven, generation 7, since 2026-01-02T03:04:05Z".into(),
        ..Provider::default()
    }
}

fn healthy() -> Status {
    Status {
        version: "0.1.0".into(),
        at: "2026-01-02T03:04:06Z".into(),
        leads: true,
        leader: "leader: this process, node-1_8d7e".into(),
        providers: vec![provider()],
        metrics: METRICS.into(),
        services: none(),
        uninitialised: none(),
        unmanaged: unmanaged(0, |_| String::new()),
        unready: none(),
        held: none(),
        ..Status::default()
    }
}

fn unmanaged(all: usize, name: impl Fn(usize) -> String) -> Option<Unmanaged> {
    let (found, fix) = ("has no provider ID".to_owned(), "start its kubelet, then `kubectl taint`: done".to_owned());
    rows(all, name).map(|nodes| Unmanaged { found, fix, nodes })
}

fn trouble(name: String) -> Trouble {
    Trouble {
        name,
        reason: "CloudFailed".into(),
        why: Some("failed to ensure load balancer: POST /v2/load_balancers: 503 (request ID r-7)".into()),
        next: Some("next try in 30 s".into()),
    }
}

/// With something in every list, and this in every text.
fn broken(word: &str, many: usize) -> Status {
    let word = || word.to_owned();
    Status {
        version: word(),
        at: word(),
        leads: true,
        leader: word(),
        failing: vec![word(); many],
        providers: vec![
            Provider {
                source: word(),
                serving: Some(word()),
                digest: word(),
                phase: word(),
                last_good: Some(word()),
                last_load: Some(word()),
                refused: vec![Refused { what: word(), at: word(), reason: word() }],
                unreadable: vec![word()],
            };
            many
        ],
        metrics: format!(
            "workqueue_depth{{name={0:?}}} 1\nccm_cloud_requests_total{{provider={0:?},endpoint={0:?},outcome={0:?}}} 1\n",
            word()
        ),
        services: rows(many, |_| Trouble { name: word(), reason: word(), why: Some(word()), next: Some(word()) }),
        uninitialised: rows(many, |_| Trouble { name: word(), reason: word(), why: Some(word()), next: Some(word()) }),
        unmanaged: rows(many, |_| word()).map(|nodes| Unmanaged { found: word(), fix: word(), nodes }),
        unready: rows(many, |_| Trouble { name: word(), reason: word(), why: Some(word()), next: Some(word()) }),
        held: rows(many, |_| Held { name: word(), budget: word() }),
        dry_run: None,
    }
}

/// The words of the page, one space between two of them.
fn words(page: &str) -> String {
    let (_, body) = page.split_once("<body>").unwrap();
    let pieces = body.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text);
    pieces.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn has_all(page: &str, parts: &[&str]) {
    let words = words(page);
    for part in parts {
        assert!(words.contains(part), "no {part:?} in:\n{words}");
    }
}

#[test]
fn a_healthy_leader_says_so_with_its_components_queues_and_endpoints() {
    let page = healthy().render();
    let parts = [
        "wasm-ccm 0.1.0 Nothing needs attention leader: this process, node-1_8d7e Components cloud 2.0 /p/cloud.wasm",
        "phase proven, generation 7, since 2026-01-02T03:04:05Z digest sha256:bb so far 3 taken, 2 rejected, 0 rolled back",
        "Services that are not ready: 0 none",
        "Nodes that are not initialised: 0 none",
        "Nodes that are not Ready: 0 none",
        "Deletions of Nodes that are held: 0 none",
        "queue waiting added tried again panics longest run Nodes 0 0 0 0 0.0 s service 1,234 60,000 17 0 2.3 s",
        "cloud api 4,321 of 5,000 20 0 1 1,505 7",
        "As of 2026-01-02T03:04:06Z",
    ];
    has_all(&page, &parts);
    assert!(page.contains("<title>OK wasm-ccm</title>") && !page.contains("more</p>"), "{page}");
}

#[test]
fn what_needs_attention_stands_at_the_top_and_each_with_its_reason() {
    let refused = Refused {
        what: "component sha256:cc".into(),
        at: "at trust, 2026-01-02T03:00:00Z".into(),
        reason: "it is not signed".into(),
    };
    let idle = Provider { source: "/p/other.wasm".into(), refused: vec![refused], ..Provider::default() };
    let lost = "unreadable since 2026-01-02T03:00:00Z: there is no such Secret";
    let loses = Provider { unreadable: vec![lost.to_owned()], ..provider() };
    let status = Status {
        failing: vec!["[-]provider /p/other.wasm not ready: it is empty".into()],
        providers: vec![loses, idle],
        services: rows(2, |number| trouble(format!("default/web{number}"))),
        uninitialised: rows(1, |_| trouble("n1".into())),
        unready: rows(1, |_| trouble("n2".into())),
        held: rows(1, |_| Held { name: "n3".into(), budget: "no more than 1 of the 8 Nodes of cloud".into() }),
        metrics: "ccm_services_pending 3\nccm_services_outdated 0\n".to_owned()
            + &METRICS.replace(
                "ccm_cloud_circuit_open{provider=\"cloud\",endpoint=\"api\"} 0",
                "ccm_cloud_circuit_open{provider=\"cloud\",endpoint=\"api\"} 1",
            ),
        ..healthy()
    };
    let page = status.render();
    let parts = [
        "wasm-ccm 0.1.0 1 check that fails, 1 provider without a component, 1 component or configuration not taken, 1 credential that cannot be read, 2 Services not ready, 1 Node not initialised, 1 Node \
         not Ready, 1 held deletion, 1 endpoint down leader:",
        "Checks that fail [-]provider /p/other.wasm not ready: it is empty",
        "3 taken, 2 rejected, 0 rolled back credential unreadable since 2026-01-02T03:00:00Z: there is no such Secret",
        "no component serves: nothing is written to the cluster for it /p/other.wasm so far 0 taken, 40 rejected, 0 rolled back \
         not taken component sha256:cc at trust, 2026-01-02T03:00:00Z: it is not signed",
        "Services that are not ready: 2 default/web0 CloudFailed failed to ensure load balancer: POST /v2/load_balancers: 503 (request ID \
         r-7) next try in 30 s default/web1 CloudFailed",
        "More of one: wasm-ccm explain service NAMESPACE/NAME",
        "Services that wait for their first address, with and without trouble: 3 Nodes that are",
        "Nodes that are not initialised: 1 n1 CloudFailed",
        "Nodes that are not Ready: 1 n2 CloudFailed",
        "held: 1 n3 no more than 1 of the 8 Nodes of cloud",
        "--confirm-node-deletions",
        "cloud api down 4,321 of 5,000",
    ];
    has_all(&page, &parts);
    assert!(page.contains("<title>! wasm-ccm</title>"), "{page}");
}

#[test]
fn a_process_that_does_not_lead_says_who_does_and_that_its_queues_are_empty_because_of_it() {
    let status = Status {
        leads: false,
        leader: "leader: node-2_11aa; this process, node-1_8d7e, stands by".into(),
        services: None,
        uninitialised: None,
        unready: None,
        held: None,
        metrics: String::new(),
        ..healthy()
    };
    let page = status.render();
    let parts = [
        "wasm-ccm 0.1.0 Services and Nodes are not known here: this process stands by. Open this page on the leader \
         leader: node-2_11aa; this process, node-1_8d7e, stands by Components",
        "Controllers and their queues None: only the leader runs controllers.",
        "Requests to clouds None were sent yet.",
    ];
    has_all(&page, &parts);
    assert!(!page.contains("Services that are not ready"), "{page}");
    // It was green, and whoever forwarded the port to any replica went back to bed.
    assert!(!page.contains("Nothing needs attention") && page.contains("<title>standby wasm-ccm</title>"), "{page}");
    let (_, verdict) = page.split_once("<p class=\"verdict").unwrap();
    assert!(verdict.starts_with('"'), "it is neither good nor bad: {page}");
    // What it does know of is told all the same, and that it is not all.
    let page = Status { failing: vec!["[-]API server not ready: no answer".into()], ..status }.render();
    let parts = [
        "1 check that fails leader: node-2_11aa",
        "stands by Services and Nodes are not known here: this process stands by. Open this page on the leader Checks that fail",
    ];
    has_all(&page, &parts);
    assert!(page.contains("<title>! wasm-ccm</title>"), "{page}");
}

#[test]
fn a_dry_run_shows_what_would_be_written_and_since_when() {
    let write = |number: usize| PendingWrite {
        object: format!("Service default/web-{number:03}"),
        write: "cloud POST ocean/api /v2/load_balancers {\"name\":\"<b>\"}".into(),
        since: "2026-01-02T03:04:05Z".into(),
    };
    let unknown = Trouble { name: "Node n1".into(), why: Some("the cloud said 503".into()), ..Trouble::default() };
    let dry_run = DryRun {
        as_of: Some("2026-01-02T03:04:06Z".into()),
        looking: Some("looking since 2026-01-02T03:14:06Z, for 2 min".into()),
        changes: 99,
        left_out: 7,
        writes: rows(100, write).unwrap(),
        unknown: Rows { all: 1, first: vec![unknown] },
    };
    let page = Status { dry_run: Some(dry_run.clone()), services: None, ..healthy() }.render();
    let parts = [
        "99 writes kept back, 1 object not known",
        "Would be written: 99",
        "As of 2026-01-02T03:04:06Z. Nothing was written. 1 of the list are notes of the host to itself. \
         Now looking since 2026-01-02T03:14:06Z, for 2 min.",
        "7 writes are shown without what they are: the list would need too much memory",
        "Service default/web-000 cloud POST ocean/api /v2/load_balancers",
        "since 2026-01-02T03:04:05Z",
        "and 50 more",
        "To see all writes for one object, give the flags of this host and --kubeconfig to wasm-ccm plan service NAMESPACE/NAME or \
         wasm-ccm plan node NAME ; for routes and the cluster, to wasm-ccm plan --all .",
        "Not known: 1 Node n1 the cloud said 503",
    ];
    has_all(&page, &parts);
    assert!(!page.contains("Services that are not ready") && !page.contains("<b>\""), "{page}");
    let (writes, unknown) = (rows(0, write).unwrap(), none().unwrap());
    let nothing = DryRun { changes: 0, left_out: 0, looking: None, writes, unknown, ..dry_run.clone() };
    let page = Status { dry_run: Some(nothing.clone()), ..healthy() }.render();
    has_all(
        &page,
        &["Nothing needs attention", "Would be written: 0 none As of 2026-01-02T03:04:06Z. Nothing was written."],
    );
    let one = DryRun { left_out: 1, ..nothing.clone() };
    let page = Status { dry_run: Some(one), ..healthy() }.render();
    has_all(&page, &["1 write is shown without what it is: the list would need too much memory"]);
    let page = Status { dry_run: Some(DryRun { as_of: None, ..nothing }), ..healthy() }.render();
    has_all(&page, &["Would be written: 0 Not everything was looked at yet."]);
    assert!(!words(&page).contains("too much memory") && !words(&page).contains("Now looking"), "{page}");
    assert!(!words(&page).contains("Would be written: 0 none"), "not looked at is not nothing: {page}");
}

/// What is not known is not said to be none.
#[test]
fn a_leader_whose_controllers_do_not_run_says_that_it_knows_nothing() {
    let status = Status { services: None, unready: None, held: None, metrics: String::new(), ..healthy() };
    let page = status.render();
    let parts = [
        "Services that are not ready Not known: no service controller runs in this process.",
        "Nodes that are not initialised: 0 none",
        "Nodes that are not Ready Not known: no node lifecycle controller runs in this process.",
        "No controller has begun yet.",
    ];
    has_all(&page, &parts);
    assert!(!page.contains("held"), "{page}");
}

#[test]
fn nodes_that_nobody_initialises_are_shown_with_one_reason_and_one_way_out() {
    let page = Status { unmanaged: unmanaged(1, |_| "n4".into()), ..healthy() }.render();
    let parts = [
        "1 Node that nobody initialises leader:",
        "Nodes that are not initialised: 0 none Nodes that nobody initialises: 1 It has no provider ID n4 To do: start its kubelet, \
         then kubectl taint : done Nodes that are not Ready",
    ];
    has_all(&page, &parts);
    let page = Status { unmanaged: unmanaged(10_000, |number| format!("node-{number:05}")), ..healthy() }.render();
    let parts = [
        "10,000 Nodes that nobody initialises leader:",
        "10,000 Each has no provider ID node-00000 node-00001",
        "and 9,950 more",
    ];
    has_all(&page, &parts);
    assert!(page.contains("node-00049") && !page.contains("node-00050"), "{page}");
    assert!(page.matches("no provider ID").count() == 1 && page.len() < 10_000, "{} bytes", page.len());
    assert!(!healthy().render().contains("nobody initialises"), "none is not worth a line");
}

#[test]
fn of_ten_thousand_services_the_first_fifty_are_shown_and_the_others_are_counted() {
    let status = Status {
        services: rows(10_000, |number| trouble(format!("default/web-{number:05}"))),
        uninitialised: rows(10_000, |number| trouble(format!("node-{number:05}"))),
        ..healthy()
    };
    let page = status.render();
    has_all(
        &page,
        &[
            "10,000 Services not ready, 10,000 Nodes not initialised",
            "ready: 10,000 default/web-00000",
            "and 9,950 more",
        ],
    );
    assert_eq!((ROWS, page.matches("<li>").count()), (50, 100));
    assert!(page.contains("web-00049") && !page.contains("web-00050"), "{page}");
    assert!(page.len() <= MAX_PAGE, "{} bytes", page.len());
}

/// Each byte of a text can become six.
#[test]
fn however_long_and_hostile_all_texts_are_the_page_stays_small() {
    for word in ["\"".repeat(10_000), "&".repeat(399), "名".repeat(5_000), String::new()] {
        let page = broken(&word, 10_000).render();
        assert!(page.len() <= MAX_PAGE && page.ends_with("</html>"), "{} bytes", page.len());
        assert!(words(&page).contains("10,000 Services not ready"), "the counts remain");
        let (_, queues) = page.split_once("<section id=\"queues\">").unwrap();
        let queues = queues.split("</section>").next().unwrap();
        assert!(
            queues.contains("</tr></tbody>") || queues.contains("and 1 more"),
            "what is left out is told: {queues}"
        );
    }
}

#[test]
fn no_text_becomes_markup() {
    for attack in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</style><b>",
        "]]><!--",
        "' onload='x",
        "&lt;b&gt;",
    ] {
        let page = broken(attack, 1).render();
        let innocent = broken("innocent", 1).render();
        let tags = |page: &str| {
            page.split('<').skip(1).filter_map(|tag| Some(tag.split_once('>')?.0.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(tags(&page), tags(&innocent), "{attack}");
        let escaped = attack.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        assert!(page.matches(&escaped).count() >= 30, "each is shown as it was written: {page}");
    }
}
