//! Every limit of the network, hit from inside a guest: what is just below goes through.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cloud::{Finding, Instances as _, Need, Node, NodeSelector};
use ccm_egress::{Cache, ProviderContext};
use ccm_sandbox::{Limits, Sandbox};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cloud::{Asked, Cloud, Reply, ok, reply};
use crate::rig::{Grants, SCRIPTED, Scripted, component, map, node, try_egress};

async fn rig(
    answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    change: impl FnOnce(&mut Grants),
) -> (Cloud, Scripted) {
    let cloud = Cloud::start(answer);
    let mut grants = Grants::of(&[("api", cloud.url())]);
    change(&mut grants);
    let guest = Scripted::new(grants).await;
    (cloud, guest)
}

fn too_large(answer: &Value, limit: &str, maybe_sent: bool) {
    assert_eq!((&answer["error"], &answer["maybe-sent"]), (&json!("too-large"), &json!(maybe_sent)), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains(limit), "{answer} does not name {limit}");
}

#[tokio::test]
async fn a_request_has_a_size() {
    let (cloud, guest) = rig(
        |_| ok("{}"),
        |grants| {
            let limits = &mut grants.settings.limits;
            (limits.request_bytes, limits.url_bytes, limits.query_values) = (100, 50, 4);
            (limits.headers.count, limits.headers.bytes) = (3, 60);
            grants.credentials.push(("token", "t".repeat(30)));
        },
    )
    .await;
    let body = |bytes: usize| json!({ "method": "post", "path": "/", "body": ["x".repeat(bytes)] });
    let path = |bytes: usize| json!({ "path": format!("/{}", "x".repeat(bytes - 1)) });
    // A space is three bytes on its way.
    let query = |spaces: usize| json!({ "path": "/12", "query": [["a", [" ".repeat(spaces)]]] });
    let values = |count: usize| json!({ "path": "/", "query": vec![json!(["a", []]); count] });
    let headers = |count: usize| json!({ "path": "/", "headers": vec![json!(["a", ["b"]]); count] });
    let header = |bytes: usize| json!({ "path": "/", "headers": [["x-some-header", ["b".repeat(bytes - 13)]]] });
    let secret = |bytes: usize| {
        let value = json!([format!("{} ", "b".repeat(bytes - 44)), { "secret": "token" }]);
        json!({ "path": "/", "headers": [["authorization", value]] })
    };
    type Case<'a> = (&'a dyn Fn(usize) -> Value, usize, &'a str);
    let cases: [Case<'_>; 7] = [
        (&body, 100, "limit request-bytes"),
        (&path, 50, "limit url-bytes"),
        (&query, 14, "limit url-bytes"),
        (&values, 4, "limit query-values"),
        (&headers, 3, "limit headers"),
        (&header, 60, "limit header-bytes"),
        (&secret, 60, "limit header-bytes"),
    ];
    for (request, most, limit) in cases {
        let answer = guest.send(request(most)).await;
        assert_eq!(answer["status"], 200, "{limit}: {answer}");
        assert_eq!(cloud.take().len(), 1);
        too_large(&guest.send(request(most + 1)).await, limit, false);
        assert_eq!(cloud.take(), [], "{limit}");
    }
}

#[tokio::test]
async fn a_url_is_as_long_as_the_operator_likes() {
    let (cloud, guest) = rig(|_| ok("{}"), |grants| grants.settings.limits.url_bytes = 60_000).await;
    let answer = guest.send(json!({ "path": "/", "query": [["ids", ["x".repeat(50_000)]]] })).await;
    assert_eq!(answer["status"], 200, "{answer}");
    assert_eq!(cloud.take()[0].line.len(), "GET /?ids=".len() + 50_000);
}

#[tokio::test]
async fn answers_are_kept_for_others_while_there_is_room() {
    for (room, asked) in [(100_000, 1), (0, 2)] {
        let (cloud, guest) = rig(|_| ok("{}"), |grants| grants.settings.limits.share_bytes = room).await;
        let ask = json!({ "send": { "path": "/", "share-ms": 60_000 } });
        assert!(guest.run(json!([ask, ask])).await.iter().all(|answer| answer["status"] == 200));
        assert_eq!(cloud.take().len(), asked, "{room} bytes of room");
    }
}

/// A thousandth of what it becomes.
fn packed(bytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![b' '; bytes]).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_answer_is_counted_while_it_is_read_and_after_it_was_unpacked() {
    let answer = move |asked: &Asked| match asked.line.as_str() {
        "GET /fits" => Reply::Bytes(reply("200 OK", "", " ".repeat(2000))),
        "GET /large" => Reply::Bytes(reply("200 OK", "", " ".repeat(2001))),
        // No end in sight: only who counts while reading answers at once.
        "GET /endless" => {
            Reply::Stall([b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".as_slice(), &[b' '; 3000]].concat())
        }
        "GET /packed" => Reply::Bytes(reply("200 OK", "content-encoding: gzip\r\n", packed(2000))),
        "GET /bomb" => Reply::Bytes(reply("200 OK", "content-encoding: gzip\r\n", packed(50 << 20))),
        "GET /failed" => Reply::Bytes(reply("500 Internal Server Error", "", " ".repeat(2001))),
        other => panic!("{other}"),
    };
    let (cloud, guest) = rig(answer, |grants| grants.settings.limits.response_bytes = 2000).await;
    for fits in ["/fits", "/packed"] {
        let answer = guest.send(json!({ "path": fits })).await;
        assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!(" ".repeat(2000))), "{fits}");
    }
    cloud.take();
    for large in ["/large", "/endless", "/bomb", "/failed"] {
        too_large(&guest.send(json!({ "path": large })).await, "limit response-bytes", true);
        assert_eq!(cloud.take().len(), 1, "{large} is not asked for again");
    }
}

/// A guest and its cloud work together: the guest asks again and again for what becomes a thousand times as large.
#[tokio::test]
async fn a_guest_that_asks_for_bombs_has_the_bytes_of_its_call_and_no_more() {
    const MIB: usize = 1 << 20;
    let bomb = packed(50 * MIB);
    assert!(bomb.len() * 900 < 50 * MIB, "{} bytes", bomb.len());
    let answer = move |_: &Asked| Reply::Bytes(reply("200 OK", "content-encoding: gzip\r\n", &bomb));
    let (cloud, guest) = rig(answer, |grants| {
        let limits = &mut grants.settings.limits;
        (limits.response_bytes, limits.call_response_bytes) = (MIB, 2 * MIB);
    })
    .await;
    let steps = vec![json!({ "send": { "path": "/bomb" } }); 30];
    for _ in ["a call", "and the next has its own"] {
        let answers = guest.run(json!(steps)).await;
        let of = |limit: &str| {
            let says = |answer: &&Value| answer["message"].as_str().is_some_and(|message| message.contains(limit));
            answers.iter().filter(says).count()
        };
        answers.iter().for_each(|answer| too_large(answer, "-bytes", true));
        let (each, all) = (of("limit response-bytes"), of("limit call-response-bytes"));
        // What was read in vain counts four times as much as what the call is given.
        assert!((4..=9).contains(&each) && each + all == 30, "{each} and {all}");
        assert_eq!(cloud.take().len(), 30);
    }
}

#[tokio::test]
async fn unpacking_a_bomb_is_the_computing_time_of_the_guest_that_asked_for_it() {
    const MIB: usize = 1 << 20;
    let bomb = packed(8 * MIB);
    let cloud = Cloud::start(move |_| Reply::Bytes(reply("200 OK", "content-encoding: gzip\r\n", &bomb)));
    let mut grants = Grants::of(&[("api", cloud.url())]);
    let network = &mut grants.settings.limits;
    (network.response_bytes, network.call_response_bytes) = (8 * MIB - 1, 4_000 * MIB);
    let limits = Limits { call_cpu: Duration::from_millis(300), ..Limits::default() };
    let guest = Scripted::with_limits(grants, limits).await;
    let steps = json!(vec![json!({ "send": { "path": "/bomb" } }); 1_000]).to_string();
    let node = Node { annotations: map(&[("scripted.example/script", &steps)]), ..node("script") };
    let error = guest.0.find(vec![node], Need::Metadata).await.unwrap_err().to_string();
    assert!(error.contains("limit call-cpu"), "{error}");
    let asked = cloud.take().len();
    assert!(asked < 1_000, "{asked}");
}

#[tokio::test]
async fn headers_of_an_answer_are_counted_and_measured() {
    let answer = |asked: &Asked| {
        let (count, bytes) = asked.line.trim_start_matches("GET /").split_once('/').unwrap();
        let (count, bytes): (usize, usize) = (count.parse().unwrap(), bytes.parse().unwrap());
        // `connection: close`, `content-length: 2` and `x` have 31 bytes.
        let more = "a: b\r\n".repeat(count - 3);
        let rest = "c".repeat(bytes - 31 - 2 * (count - 3));
        Reply::Bytes(reply("200 OK", &format!("{more}x: {rest}\r\n"), "{}"))
    };
    let (cloud, guest) = rig(answer, |grants| {
        let limits = &mut grants.settings.limits;
        (limits.headers.count, limits.headers.bytes) = (10, 200);
        grants.settings.client.headers = limits.headers;
    })
    .await;
    let ask = async |count: usize, bytes: usize| {
        let answer = guest.send(json!({ "path": format!("/{count}/{bytes}") })).await;
        assert_eq!(cloud.take().len(), 1, "{answer}");
        answer
    };
    assert_eq!(ask(10, 200).await["status"], 200);
    too_large(&ask(10, 201).await, "201 bytes of headers, the limit is 200", true);
    too_large(&ask(11, 200).await, "", true);
    // More than anybody reads into memory.
    too_large(&ask(10, 2 << 20).await, "", true);
}

#[tokio::test]
async fn a_call_has_so_many_requests_and_so_many_bytes() {
    let (cloud, guest) = rig(
        |_| ok("0123456789"),
        |grants| {
            (grants.settings.limits.call_requests, grants.settings.limits.call_response_bytes) = (5, 39);
        },
    )
    .await;
    let ask = json!({ "path": "/" });
    let steps = json!([{ "send": ask }, { "send-all": vec![ask.clone(); 4] }, { "send": ask }]);
    for _ in ["a call", "and the next has its own"] {
        let answers = guest.run(steps.clone()).await;
        let all = answers[1].as_array().unwrap();
        let fine = std::iter::once(&answers[0]).chain(all).filter(|answer| answer["status"] == 200).count();
        assert_eq!(fine, 3, "{answers:?}");
        let large: Vec<_> = all.iter().filter(|answer| answer["error"] == "too-large").collect();
        assert_eq!(large.len(), 2, "{answers:?}");
        too_large(large[0], "limit call-response-bytes", true);
        assert_eq!((&answers[2]["error"], &answers[2]["maybe-sent"]), (&json!("denied"), &json!(false)));
        assert!(answers[2]["message"].as_str().unwrap().contains("limit call-requests"), "{answers:?}");
        assert_eq!(cloud.take().len(), 5);
    }
}

#[tokio::test]
async fn a_refused_request_counts_as_well() {
    let (_cloud, guest) = rig(|_| ok(""), |grants| grants.settings.limits.call_requests = 2).await;
    let ask = json!({ "send": { "path": "/../" } });
    let answers = guest.run(json!([ask, ask, ask])).await;
    assert!(answers[1]["message"].as_str().unwrap().contains("segment"), "{answers:?}");
    assert!(answers[2]["message"].as_str().unwrap().contains("limit call-requests"), "{answers:?}");
}

#[tokio::test]
async fn so_many_requests_of_one_send_all_are_under_way() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, highest) = (Arc::clone(&now), Arc::clone(&most));
    // Whoever is asked while others are answered sees them: each answer takes a while.
    let answer = move |_: &Asked| {
        highest.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let inside = Arc::clone(&inside);
        Reply::Late(
            Duration::from_millis(50),
            Box::new(move || {
                inside.fetch_sub(1, Ordering::SeqCst);
                reply("200 OK", "", "{}")
            }),
        )
    };
    let (cloud, guest) = rig(answer, |grants| grants.settings.limits.parallel = 3).await;
    let answers = guest.run(json!([{ "send-all": vec![json!({ "path": "/" }); 12] }])).await.remove(0);
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["status"] == 200), "{answers}");
    assert_eq!((cloud.take().len(), most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (12, 3, 0));
}

#[tokio::test]
async fn an_exchange_has_its_time_also_when_bytes_drip() {
    let answer = |asked: &Asked| match asked.line.as_str() {
        "GET /silent" => Reply::Stall(vec![]),
        "GET /head" => Reply::Stall(b"HTTP/1.1 200 OK\r\n".to_vec()),
        "GET /body" => Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nx".to_vec()),
        other => panic!("{other}"),
    };
    let (_cloud, guest) = rig(answer, |grants| {
        // As long as a busy machine takes until the request is under way.
        grants.settings.limits.request_time = Duration::from_secs(1);
        grants.settings.retry.attempts = 1;
    })
    .await;
    for path in ["/silent", "/head", "/body"] {
        let start = Instant::now();
        let error = guest.send(json!({ "path": path })).await;
        assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("timeout"), &json!(true)), "{path}: {error}");
        assert!(start.elapsed() >= Duration::from_secs(1), "{path}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_credential_that_could_not_be_hidden_is_not_used() {
    let answer =
        |_: &Asked| Reply::Bytes(reply("200 OK", "x-subject-token: 10987654321\r\n", "{\"t\":\"1234567890\"}"));
    let settings = |grants: &mut Grants| {
        grants.settings.limits.min_credential_bytes = 11;
        grants.credentials.push(("api-key", "12345678901".to_owned()));
    };
    let mut short = Grants::default().credential("token", "1234567890");
    settings(&mut short);
    let component = Sandbox::try_new().unwrap().load(component(SCRIPTED), Limits::default(), true).await.unwrap();
    let error = try_egress(component.descriptor(), short).err().unwrap().to_string();
    assert!(error.contains("\"token\"") && error.contains("limit min-credential-bytes"), "{error}");

    let (_cloud, guest) = rig(answer, settings).await;
    let answer = guest.send(json!({ "path": "/", "query": [["apiKey", [{ "secret": "api-key" }]]] })).await;
    assert_eq!(answer["status"], 200, "{answer}");

    let query = json!([["apiKey", [{ "secret": "api-key" }]]]);
    let capture = json!({ "credential": "session", "pointer": "/t" });
    let error = guest.send(json!({ "path": "/", "query": query, "capture": capture })).await;
    assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("other"), &json!(true)), "{error}");
    assert!(error["message"].as_str().unwrap().contains("limit min-credential-bytes"), "{error}");
    let capture = json!({ "credential": "session", "header": "x-subject-token" });
    let steps = json!([{ "send": { "path": "/", "query": query, "capture": capture } }, { "available": "session" }]);
    assert_eq!(guest.run(steps).await[1], true);
}

/// Takes its time, as some selectors do for many Nodes. Counts how often.
#[derive(Default)]
struct Slow(AtomicUsize);

impl NodeSelector for Slow {
    fn matching(&self, _: &str) -> Result<Vec<String>, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        Ok(vec![])
    }

    fn provider_ids(&self, prefixes: &[String], most: usize) -> Result<Vec<String>, String> {
        Ok(prefixes.iter().map(|prefix| format!("{prefix}1")).take(most).collect())
    }
}

#[tokio::test]
async fn what_the_host_computes_for_a_guest_is_the_guests_computing_time() {
    let limits = Limits { call_cpu: Duration::from_millis(500), ..Limits::default() };
    let component = Sandbox::try_new().unwrap().load(component(SCRIPTED), limits, true).await.unwrap();
    let slow = Arc::new(Slow::default());
    let nodes = Some(Arc::clone(&slow) as Arc<dyn NodeSelector>);
    let context = ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), nodes, ..ProviderContext::closed() };
    let provider = component.into_provider(context, None, None);
    let steps = json!(vec![json!({ "matching": "a" }); 40]).to_string();
    let node = Node { annotations: map(&[("scripted.example/script", &steps)]), ..node("script") };
    // One tick for each of them would be no more than 400 ms.
    let error = provider.find(vec![node], Need::Metadata).await.unwrap_err().to_string();
    assert!(error.contains("call-cpu"), "{error}");
    let asked = slow.0.load(Ordering::SeqCst);
    assert!(asked <= 11, "{asked}, where ten take all the time that there is");
}

#[tokio::test]
async fn a_provider_is_told_of_provider_ids_of_its_own_schemes_only() {
    let component = Sandbox::try_new().unwrap().load(component(SCRIPTED), Limits::default(), true).await.unwrap();
    let schemes = component.descriptor().provider_id_schemes.clone();
    let context = ProviderContext {
        cache: Cache::new(Cache::DEFAULT_BYTES),
        nodes: Some(Arc::new(Slow::default())),
        ..ProviderContext::closed()
    };
    let provider = component.into_provider(context, None, None);
    let steps = json!([{ "provider-ids": 10 }]).to_string();
    let node = Node { annotations: map(&[("scripted.example/script", &steps)]), ..node("script") };
    let findings = provider.find(vec![node], Need::Metadata).await.unwrap();
    let [Finding::Found(instance)] = findings.as_slice() else { panic!("{findings:?}") };
    let told: Value = serde_json::from_str(&instance.labels["0"]).unwrap();
    let own: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://1")).collect();
    assert_eq!(told, json!({ "Ok": own }));
}
