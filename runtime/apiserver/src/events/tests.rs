use k8s_openapi::api::core::v1::Node;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::*;
use crate::api_gate::ApiGateSettings;
use crate::metrics::ApiMetrics;

type FakeApi = ccm_fake_api::FakeApi<Node>;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

struct Bench {
    api: FakeApi,
    metrics: EventMetrics,
    recorder: EventRecorder,
    writer: EventWriter,
}

fn bench(settings: EventSettings) -> Bench {
    let api = FakeApi::new();
    let gate =
        ApiGate::new(api.client.clone(), ApiMetrics::register(&mut Registry::default()), ApiGateSettings::default());
    let metrics = EventMetrics::default();
    let (recorder, writer) = EventRecorder::new(gate, metrics.clone(), settings);
    Bench { api, metrics, recorder, writer }
}

fn request(name: &str, message: &str) -> EventRequest {
    EventRequest {
        about: node_reference(name, "uid"),
        severity: Severity::Warning,
        reason: "SyncNodeFailed".into(),
        action: "Initialize",
        message: message.into(),
        reporter: "cloud-node-controller",
        annotations: Default::default(),
    }
}

/// Runs the writer beside `work`, then tells it to stop.
async fn beside(writer: EventWriter, work: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let work = async {
        work.await;
        stop.cancel();
    };
    tokio::join!(writer.run(stop.clone()), work);
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_node_is_written_to_the_default_namespace_with_all_that_the_api_server_wants() {
    let Bench { api, recorder, writer, .. } = bench(EventSettings { instance: "pod-1".into(), ..Default::default() });
    beside(writer, recorder.record(request("node0", "why"))).await;
    let call = api.calls().remove(0);
    assert_eq!(call.line, format!("POST {EVENTS}"));
    let mut body = call.body;
    let time = body["eventTime"].take();
    let name = body["metadata"]["name"].take();
    assert!(time.as_str().unwrap().contains('.') && name.as_str().unwrap().starts_with("node0."), "{time} {name}");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": null, "namespace": "default" },
        "eventTime": null,
        "action": "Initialize",
        "reason": "SyncNodeFailed",
        "note": "why",
        "type": "Warning",
        "regarding": { "apiVersion": "v1", "kind": "Node", "name": "node0", "uid": "uid" },
        "reportingController": "cloud-node-controller",
        "reportingInstance": "pod-1",
    });
    assert_eq!(body, expected);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_raises_the_count_and_another_text_is_another_event() {
    let Bench { api, recorder, writer, .. } = bench(EventSettings { concurrency: 1, ..Default::default() });
    beside(writer, async {
        for message in ["a", "a", "b", "a"] {
            recorder.record(request("node0", message)).await;
        }
    })
    .await;
    assert_eq!(api.events(), ["Warning SyncNodeFailed: a (3 times)", "Warning SyncNodeFailed: b"]);
    let counts: Vec<_> = api.calls().into_iter().map(|call| call.body["series"]["count"].as_i64()).collect();
    assert_eq!(counts, [None, Some(2), None, Some(3)]);
    assert_eq!([api.count("POST"), api.count("PATCH")], [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_anew() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings { concurrency: 1, ..Default::default() });
    beside(writer, async {
        recorder.record(request("node0", "a")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let name = api.calls()[0].body["metadata"]["name"].as_str().unwrap().to_owned();
        api.refuse(&format!("{EVENTS}/{name}"), 404, 1);
        recorder.record(request("node0", "a")).await;
    })
    .await;
    assert_eq!([api.count("POST"), api.count("PATCH")], [2, 1]);
    assert_eq!((metrics.written.get(), metrics.dropped.get()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_while_loses_no_event() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    api.refuse(EVENTS, 503, 11);
    beside(writer, async {
        recorder.record(request("node0", "a")).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
    })
    .await;
    assert_eq!((metrics.written.get(), metrics.dropped.get(), api.count("POST")), (1, 0, 12));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_when_it_is_refused_or_after_twelve_attempts() {
    for (status, attempts) in [(422, 1), (404, 1), (500, 12)] {
        let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
        api.refuse(EVENTS, status, 100);
        beside(writer, async {
            recorder.record(request("node0", "a")).await;
            tokio::time::sleep(Duration::from_secs(300)).await;
        })
        .await;
        assert_eq!((metrics.written.get(), metrics.dropped.get()), (0, 1), "{status}");
        assert_eq!(api.count("POST"), attempts, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_events_are_never_the_same_and_a_name_that_is_taken_is_not_tried_again() {
    let Bench { api, recorder, writer, .. } = bench(EventSettings::default());
    api.refuse(EVENTS, 409, 1);
    beside(writer, async {
        for i in 0..20 {
            recorder.record(request("node0", &i.to_string())).await;
        }
    })
    .await;
    let mut names: Vec<_> = api.calls().iter().map(|call| call.body["metadata"]["name"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), api.events().len()), (21, 20));
}

/// An API server that has just started refuses everything until it has read the rules: Events were given up.
#[tokio::test(start_paused = true)]
async fn a_permission_that_is_lacking_for_a_moment_loses_no_event_and_one_that_stays_away_holds_nobody_up() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings { concurrency: 1, ..Default::default() });
    api.refuse(EVENTS, 403, 3);
    beside(writer, async {
        recorder.record(request("node0", "a")).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!((metrics.written.get(), api.count("POST")), (1, 4));
        api.refuse(EVENTS, 403, 7 + 20);
        for i in 0..21 {
            recorder.record(request("node0", &i.to_string())).await;
        }
        tokio::time::sleep(Duration::from_secs(13)).await;
        assert_eq!((metrics.dropped.get(), api.count("POST")), (21, 4 + 7 + 20));
        recorder.record(request("node0", "b")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(metrics.written.get(), 2);
        api.refuse(EVENTS, 403, 2);
        recorder.record(request("node0", "c")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((metrics.written.get(), metrics.dropped.get()), (3, 21), "patient again");
    })
    .await;
}

/// Each attempt once had a name of its own: an answer that was lost became a second Event.
#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_not_written_twice() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    api.lose_answer(EVENTS);
    beside(writer, async {
        recorder.record(request("node0", "a")).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        recorder.record(request("node0", "a")).await;
    })
    .await;
    assert_eq!(api.events(), ["Warning SyncNodeFailed: a (2 times)"]);
    assert_eq!([api.count("POST"), api.count("PATCH")], [2, 1], "and a repetition still finds it");
    assert_eq!((metrics.written.get(), metrics.dropped.get()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn no_more_events_are_written_at_a_time_than_set_and_senders_wait_when_the_queue_is_full() {
    let settings =
        EventSettings { queue: NonZeroUsize::MIN.saturating_add(1), concurrency: 3, ..EventSettings::default() };
    let Bench { api, recorder, writer, metrics } = bench(settings);
    api.silence(EVENTS);
    let mut sent = 0;
    beside(writer, async {
        let send = async {
            for i in 0..10 {
                recorder.record(request(&format!("node{i}"), "why")).await;
                sent += 1;
            }
        };
        drop(tokio::time::timeout(Duration::from_secs(1), send).await);
    })
    .await;
    assert_eq!((api.count("POST"), sent), (3, 5));
    assert_eq!(metrics.dropped.get(), 5, "what could not be written in the time that was left");
}

/// A sync waited here with its locks for as long as Events could not be written: no load balancer was made meanwhile.
#[tokio::test(start_paused = true)]
async fn who_reports_waits_for_room_once_and_then_not_at_all_until_there_is_room_again() {
    let Bench { api, recorder, writer, metrics } =
        bench(EventSettings { queue: NonZeroUsize::MIN, concurrency: 1, ..EventSettings::default() });
    // Three to six seconds.
    api.refuse(EVENTS, 503, 5);
    beside(writer, async {
        let begun = Instant::now();
        for (message, waited) in [("a", 0), ("b", 0), ("c", 2), ("d", 2), ("e", 2)] {
            recorder.record(request("node0", message)).await;
            assert_eq!(begun.elapsed().as_secs(), waited, "{message}");
        }
        assert_eq!(metrics.dropped.get(), 3);
        tokio::time::sleep(Duration::from_secs(10)).await;
        recorder.record(request("node0", "f")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Patient again.
        api.refuse(EVENTS, 503, 5);
        let begun = Instant::now();
        for (message, waited) in [("g", 0), ("h", 0), ("i", 2)] {
            recorder.record(request("node0", message)).await;
            assert_eq!(begun.elapsed().as_secs(), waited, "{message}");
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    })
    .await;
    let written = ["a", "b", "f", "g", "h"].map(|message| format!("Warning SyncNodeFailed: {message}"));
    assert_eq!(api.events(), written);
    assert_eq!((metrics.written.get(), metrics.dropped.get()), (5, 4));
}

#[tokio::test(start_paused = true)]
async fn waiting_events_are_written_after_the_stop_signal() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    for i in 0..50 {
        recorder.record(request("node0", &i.to_string())).await;
    }
    let begun = Instant::now();
    beside(writer, async {}).await;
    assert_eq!((api.events().len(), metrics.waiting.get()), (50, 0));
    assert!(begun.elapsed() < Duration::from_secs(1), "with nothing left, nothing is waited for");
    recorder.record(request("node0", "late")).await;
    assert_eq!((metrics.dropped.get(), metrics.waiting.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_five_seconds_for_an_api_server_that_does_not_answer_and_counts_what_is_lost() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    api.silence(EVENTS);
    for i in 0..3 {
        recorder.record(request("node0", &i.to_string())).await;
    }
    let begun = Instant::now();
    beside(writer, async {}).await;
    assert_eq!((begun.elapsed().as_secs(), metrics.dropped.get(), metrics.waiting.get()), (5, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn events_of_a_provider_are_shown_at_its_node_or_at_the_hosts_pod_and_dropped_when_there_is_no_room() {
    let pod = ObjectReference {
        kind: Some("Pod".into()),
        namespace: Some("kube-system".into()),
        name: Some("ccm-0".into()),
        ..ObjectReference::default()
    };
    let settings = EventSettings {
        queue: NonZeroUsize::MIN.saturating_add(1),
        provider_subject: Some(pod),
        ..EventSettings::default()
    };
    let Bench { api, recorder, writer, metrics } = bench(settings);
    let node = Subject::Node { name: "node0".into(), uid: "u".into() };
    recorder.emit(node, Severity::Normal, String::new(), "hello".into());
    recorder.emit(Subject::Provider, Severity::Warning, "R".repeat(200), "ä".repeat(1_000));
    recorder.emit(Subject::Provider, Severity::Warning, "Third".into(), String::new());
    assert_eq!((metrics.waiting.get(), metrics.dropped.get()), (2, 1));
    beside(writer, async {}).await;
    let pods = "POST /apis/events.k8s.io/v1/namespaces/kube-system/events".to_owned();
    let mut calls = api.calls();
    calls.sort_by(|one, other| one.line.cmp(&other.line));
    assert_eq!(calls.iter().map(|call| call.line.clone()).collect::<Vec<_>>(), [format!("POST {EVENTS}"), pods]);
    assert_eq!(calls[0].body["reason"], "ProviderEvent");
    let lengths = ["reason", "note"].map(|part| calls[1].body[part].as_str().unwrap().len());
    assert_eq!(lengths, [128, 1_024]);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_provider_about_itself_go_to_the_log_when_the_host_has_no_pod() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    recorder.emit(Subject::Provider, Severity::Normal, "R".into(), "m".into());
    beside(writer, async {}).await;
    assert_eq!((api.calls().len(), metrics.dropped.get()), (0, 0));
}

/// What makes the API server refuse an Event for good, in one namespace.
fn refusals() -> [Value; 2] {
    let message = "unable to create new content in namespace ending because it is being terminated";
    let cause = json!({ "reason": "NamespaceTerminating", "message": "namespace ending is being terminated" });
    let refusal = |message: &str, causes: Value| {
        let details = json!({ "kind": "events", "causes": causes });
        let message = format!("events.events.k8s.io \"x\" is forbidden: {message}");
        json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message, "details": details })
    };
    [refusal(message, json!([cause])), refusal("exceeded quota: small, requested: count/events=1", json!([]))]
}

/// Each was taken for a missing right: it was sent seven times in up to 13 s, and all other Events waited for that.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_takes_no_events_holds_up_nobody() {
    for refusal in refusals() {
        let Bench { api, recorder, writer, metrics } = bench(EventSettings { concurrency: 1, ..Default::default() });
        beside(writer, async {
            for i in 0..10 {
                api.fail(EVENTS, refusal.clone());
                recorder.record(request("node0", &i.to_string())).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                recorder.record(request("node1", &i.to_string())).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!((metrics.written.get(), metrics.dropped.get()), (10, 10), "{refusal}");
        })
        .await;
        assert_eq!(api.count("POST"), 20, "each once: {refusal}");
    }
}

/// An answer of this kind to a creation was taken for the proof that the attempt before it had worked.
#[tokio::test(start_paused = true)]
async fn a_conflict_that_is_not_about_the_name_is_tried_again() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    let quota = json!({ "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas" });
    api.refuse(EVENTS, 503, 1);
    beside(writer, async {
        recorder.record(request("node0", "a")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        api.fail(EVENTS, quota);
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    assert_eq!((metrics.written.get(), api.events().len(), api.count("POST")), (1, 1, 3));
}

/// One at a time is 5 ms each: the 5,000 Nodes of a cluster reported faster than that, and Events were lost.
#[tokio::test(start_paused = true)]
async fn events_about_different_objects_are_written_side_by_side() {
    let Bench { api, recorder, writer, .. } = bench(EventSettings::default());
    api.silence(EVENTS);
    beside(writer, async {
        for node in 0..40 {
            recorder.record(request(&format!("node{node}"), "why")).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(api.count("POST"), 16);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn events_about_one_object_are_written_in_order_and_hold_up_no_other() {
    let Bench { api, recorder, writer, metrics } = bench(EventSettings::default());
    beside(writer, async {
        // The first one is tried again after 100 to 200 ms.
        api.refuse(EVENTS, 503, 1);
        for (node, message) in [("node0", "a"), ("node0", "b"), ("node0", "a"), ("node1", "a"), ("node0", "c")] {
            recorder.record(request(node, message)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((metrics.written.get(), api.count("POST")), (1, 2), "node1 does not wait");
        tokio::time::sleep(Duration::from_secs(1)).await;
    })
    .await;
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = api.calls().into_iter().map(|call| match call.body["series"]["count"].as_i64() {
        None => format!("{} {}", part(&call.body["regarding"]["name"]), part(&call.body["note"])),
        Some(count) => format!("count {count}"),
    });
    let wanted = ["node0 a", "node1 a", "node0 a", "node0 b", "count 2", "node0 c"];
    assert_eq!(calls.collect::<Vec<_>>(), wanted);
    assert_eq!((metrics.written.get(), metrics.dropped.get(), metrics.waiting.get()), (5, 0, 0));
}

/// An object about which nothing can be written must not fill the memory.
#[tokio::test(start_paused = true)]
async fn no_more_events_wait_for_one_about_the_same_object_than_in_the_queue() {
    let queue = NonZeroUsize::MIN.saturating_add(3);
    let Bench { api, recorder, writer, metrics } = bench(EventSettings { queue, ..EventSettings::default() });
    api.silence(EVENTS);
    beside(writer, async {
        for i in 0..20 {
            recorder.record(request("node0", &i.to_string())).await;
        }
        // One is being written, four wait for it, and four are in the queue.
        assert_eq!((metrics.waiting.get(), metrics.dropped.get()), (9, 11));
    })
    .await;
    assert_eq!((metrics.waiting.get(), metrics.dropped.get()), (0, 20));
}
