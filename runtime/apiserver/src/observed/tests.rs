use std::io;

use parking_lot::Mutex;
use serde_json::json;

use super::*;

const LIST: &str = "/api/v1/services?limit=250";
const PAGE: &str = "/api/v1/services?limit=250&continue=abc";
const WATCH: &str = "/api/v1/services?watch=true&resourceVersion=7";
const MISSING: &str = "services is forbidden: User \"ccm\" cannot watch resource \"services\" in API group \"\"";

/// How long a watch may be away before that is told, as docs/guides/troubleshoot.md says.
const LIMIT: Duration = Duration::from_secs(45);
/// Rounds, of a second each, that end before that.
const QUIET: usize = 44;

/// What the API server answers: a status, none for an error, and nothing at all. What stands before it has a page for people.
#[derive(Debug, Clone, Copy)]
enum Says {
    Status(u16),
    Page(u16),
    Error,
    Nothing,
}

/// A watch, and what becomes of its lists and watches.
struct Bench {
    client: Client,
    observed: Observed,
    lists: Arc<Mutex<Says>>,
    watches: Arc<Mutex<Says>>,
}

impl Bench {
    fn new() -> Self {
        let [lists, watches] = [(), ()].map(|()| Arc::new(Mutex::new(Says::Status(200))));
        let (of_lists, of_watches) = (Arc::clone(&lists), Arc::clone(&watches));
        let service = tower::service_fn(move |request: Request<Body>| {
            let says = if is_watch(request.uri()) { *of_watches.lock() } else { *of_lists.lock() };
            async move {
                match says {
                    Says::Status(code) => {
                        let body = json!({ "kind": "Status", "code": code, "reason": "Forbidden", "message": MISSING });
                        let body = if code == 403 { body.to_string() } else { "not JSON".to_owned() };
                        Ok(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
                    }
                    Says::Page(code) => {
                        let page = format!("<html>{MISSING}</html>").into_bytes();
                        Ok(Response::builder().status(code).body(Body::from(page)).unwrap())
                    }
                    Says::Error => Err(io::Error::other("no route to host")),
                    Says::Nothing => std::future::pending().await,
                }
            }
        });
        let (client, observed) = observed(&Client::new(service, "default"));
        Self { client, observed, lists, watches }
    }

    async fn ask(&self, path: &str) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let asked = tokio::time::timeout(Duration::from_millis(500), self.client.send(request));
        drop(asked.await);
    }

    /// Lists, and then watches; a second later both have ended.
    async fn round(&self) {
        for path in [LIST, WATCH] {
            self.ask(path).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn rounds(&self, rounds: usize) {
        for _ in 0..rounds {
            self.round().await;
        }
    }

    fn all_is_well(&self) -> bool {
        self.observed.hears().is_ok() && self.observed.answered().is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_back_within_the_grace_was_never_away() {
    let bench = Bench::new();
    for away in [Says::Error, Says::Status(403), Says::Status(410), Says::Status(503)] {
        for is_longer in [false, true] {
            bench.round().await;
            *bench.watches.lock() = away;
            for second in 0..QUIET {
                bench.round().await;
                assert!(bench.all_is_well(), "{away:?}: after {second} s");
            }
            if is_longer {
                bench.rounds(2).await;
                assert!(bench.observed.hears().is_err(), "{away:?}");
            }
            *bench.watches.lock() = Says::Status(200);
            bench.round().await;
            tokio::time::sleep(LIMIT * 10).await;
            assert!(bench.all_is_well(), "{away:?}: a watch that goes on says nothing for minutes");
        }
    }
}

/// A leader whose right to watch was taken, and not that to list, worked with what it had in memory, and all of its checks passed.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_hears_nothing_although_its_list_can_be_had_and_is_well_when_it_is_back() {
    let bench = Bench::new();
    bench.round().await;
    *bench.watches.lock() = Says::Status(403);
    bench.rounds(60).await;
    let away = bench.observed.hears().unwrap_err();
    assert_eq!((away.why, away.lacks_right), (format!("{MISSING} (403)"), true));
    assert_eq!(bench.observed.answered(), Ok(()), "a refusal is an answer");
    *bench.watches.lock() = Says::Status(200);
    bench.round().await;
    assert!(bench.all_is_well());
}

/// A restart of the API server took back what was told of the right.
#[tokio::test(start_paused = true)]
async fn a_right_that_is_lost_is_told_until_a_watch_begins_whatever_goes_wrong_meanwhile() {
    let bench = Bench::new();
    bench.round().await;
    *bench.watches.lock() = Says::Status(403);
    bench.rounds(60).await;
    let told = bench.observed.hears().unwrap_err();
    assert!(told.lacks_right, "{told:?}");
    for says in [Says::Error, Says::Status(503), Says::Nothing, Says::Status(410), Says::Status(403)] {
        *bench.lists.lock() = says;
        *bench.watches.lock() = says;
        for _ in 0..60 {
            bench.round().await;
            assert_eq!(bench.observed.hears(), Err(told.clone()), "{says:?}");
        }
        let unanswered = bench.observed.answered().err();
        assert!(unanswered.is_none_or(|away| !away.lacks_right && away.why != told.why), "{says:?}");
    }
    *bench.lists.lock() = Says::Status(200);
    bench.rounds(60).await;
    assert_eq!(bench.observed.hears(), Err(told), "a list is no watch");
    *bench.watches.lock() = Says::Status(200);
    bench.round().await;
    assert!(bench.all_is_well());
    *bench.watches.lock() = Says::Error;
    bench.rounds(60).await;
    let away = bench.observed.hears().unwrap_err();
    assert!(!away.lacks_right && away.why.contains("no route to host"), "it was given back: {away:?}");
}

/// It has not read yet who has which rights, and one answer before it was away again passed for a lost right.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_forbids_everything_for_a_while_after_an_outage_takes_no_right_away() {
    let mut bench = Bench::new();
    bench.round().await;
    for (says, rounds) in [(403, 1), (503, 60), (403, 30), (503, 60), (403, 10)] {
        *bench.lists.lock() = Says::Status(says);
        *bench.watches.lock() = Says::Status(says);
        for _ in 0..rounds {
            bench.round().await;
            assert!(bench.observed.hears().err().is_none_or(|away| !away.lacks_right), "{says}");
        }
    }
    assert!(bench.observed.hears().is_err(), "no watch has begun since");
    // Nobody asks any more, and it is told all the same.
    let told = async {
        while !bench.observed.hears().unwrap_err().lacks_right {
            assert!(bench.observed.changed().await);
        }
    };
    let begun = Instant::now();
    tokio::time::timeout(LIMIT, told).await.expect("the right is told as missing after the grace");
    let took = begun.elapsed().as_secs();
    assert!((34..36).contains(&took), "{took} s: it was refused for ten seconds of the 45 when nobody asked any more");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_cannot_be_reached_does_not_answer_and_neither_does_a_proxy_in_its_place() {
    let proxy = [502, 403, 404].map(|code| (Says::Page(code), format!("the answer has status {code}")));
    let error = (Says::Error, "no route to host".to_owned());
    for (says, why) in proxy.into_iter().chain([error, (Says::Status(502), "the answer has status 502".to_owned())]) {
        let bench = Bench::new();
        bench.round().await;
        *bench.lists.lock() = says;
        *bench.watches.lock() = says;
        bench.rounds(60).await;
        let (deaf, unanswered) = (bench.observed.hears().unwrap_err(), bench.observed.answered().unwrap_err());
        for away in [&deaf, &unanswered] {
            assert!(away.why.contains(&why) && !away.lacks_right, "{away:?}");
        }
        *bench.lists.lock() = Says::Status(200);
        *bench.watches.lock() = Says::Status(200);
        bench.round().await;
        assert!(bench.all_is_well());
    }
}

/// It lives, and a page for people that says so is none of a proxy that does not reach it.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_has_too_much_to_do_answers_although_nobody_hears_of_changes() {
    let bench = Bench::new();
    bench.round().await;
    *bench.lists.lock() = Says::Page(429);
    *bench.watches.lock() = Says::Page(429);
    bench.rounds(60).await;
    assert_eq!(bench.observed.answered(), Ok(()));
    let away = bench.observed.hears().unwrap_err();
    assert_eq!((away.why.as_str(), away.lacks_right), ("the answer has status 429", false));
}

/// A list of many pages takes longer than the grace. One page that had to be asked for twice was enough for a watch that hears nothing.
#[tokio::test(start_paused = true)]
async fn a_list_whose_page_was_asked_for_again_and_came_goes_on_and_one_that_lacks_a_page_does_not() {
    for comes in [true, false] {
        let bench = Bench::new();
        bench.ask(LIST).await;
        *bench.lists.lock() = Says::Status(429);
        bench.ask(PAGE).await;
        *bench.lists.lock() = Says::Status(200);
        bench.ask(if comes { PAGE } else { LIST }).await;
        tokio::time::sleep(LIMIT * 2).await;
        assert_eq!((bench.observed.hears().is_ok(), bench.observed.answered()), (comes, Ok(())));
    }
}

/// What something in between lists cannot be read, so nobody came to ask for the watch, and all checks passed for ever.
#[tokio::test(start_paused = true)]
async fn lists_that_no_watch_follows_tell_of_no_change() {
    let bench = Bench::new();
    bench.round().await;
    for second in 0..60 {
        bench.ask(LIST).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.observed.hears().is_ok(), second < QUIET, "after {second} s");
    }
    assert!(bench.observed.hears().unwrap_err().why.contains("no watch follows"));
    assert_eq!(bench.observed.answered(), Ok(()));
    bench.round().await;
    assert!(bench.all_is_well());
}

/// Nobody asks again while a request hangs.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_grace_is_told_also_while_one_request_hangs() {
    let mut bench = Bench::new();
    bench.round().await;
    *bench.lists.lock() = Says::Nothing;
    let mut observed = bench.observed.clone();
    let begun = Instant::now();
    let hanging = bench.client.send(Request::get(LIST).body(Body::empty()).unwrap());
    let told = async {
        while observed.answered().is_ok() {
            assert!(observed.changed().await);
        }
        begun.elapsed()
    };
    let took = tokio::select! {
        _ = hanging => panic!("it was answered"),
        took = told => took,
    };
    assert!((LIMIT..LIMIT + Duration::from_secs(1)).contains(&took), "{took:?}");
    for away in [bench.observed.hears(), bench.observed.answered()] {
        assert_eq!(away.unwrap_err().why, "the API server does not answer");
    }
    drop(bench.client);
    let ended = async { while bench.observed.changed().await {} };
    tokio::time::timeout(LIMIT, ended).await.expect("whoever follows it learns that the watch has ended");
}
