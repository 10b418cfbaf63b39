use std::ops::Range;

use super::*;
use crate::cloud::Cloud;
use crate::http::TransportReason;
use crate::testing::{FakeCloud, Reply};
use crate::types::Reaction;

const CLOUD: Cloud = Cloud::new("api");
const LIST: &str = "api GET /v2/things";

impl Item for usize {
    fn id(&self) -> String {
        self.to_string()
    }
}

/// Of a cloud that counts what it lists.
const fn of(paging: Paging) -> Paging {
    paging.items("/things").total("/count")
}

const fn uncounted(paging: Paging) -> Paging {
    paging.items("/things")
}

const fn links() -> Paging {
    uncounted(Paging::links("/next"))
}

fn things(items: Range<usize>) -> Reply {
    Reply::json(200, format!(r#"{{"things": {:?}}}"#, items.collect::<Vec<_>>()))
}

fn counted(items: Range<usize>, count: usize) -> Reply {
    Reply::json(200, format!(r#"{{"things": {:?}, "count": {count}}}"#, items.collect::<Vec<_>>()))
}

fn linked(items: Range<usize>, next: &str) -> Reply {
    Reply::json(200, format!(r#"{{"things": {:?}, "next": "{next}"}}"#, items.collect::<Vec<_>>()))
}

fn list(paging: Paging) -> Result<Vec<usize>, Failure> {
    CLOUD.get("/v2/things").list(paging)
}

fn all(items: Range<usize>) -> Result<Vec<usize>, Failure> {
    Ok(items.collect())
}

fn queries(fake: &FakeCloud) -> Vec<String> {
    fake.lines().iter().map(|line| line.trim_start_matches(LIST).to_owned()).collect()
}

const NUMBERED: Paging = of(Paging::numbered("page", "per_page", 2));
const COUNTED: Paging = of(Paging::counted("page", "pagesize"));
const OFFSET: Paging = uncounted(Paging::offset("offset", "limit", 2));
const MARKER: Paging = uncounted(Paging::marker("marker", "limit", 2));

#[test]
fn the_first_page_tells_how_many_more_there_are() {
    for (count, pages) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (70, 35)] {
        let mut fake = FakeCloud::new();
        for page in 1..=pages {
            let line = format!("{LIST}?page={page}&per_page=2");
            fake = fake.on(&line, counted((page - 1) * 2..(page * 2).min(count), count));
        }
        assert_eq!(list(NUMBERED), all(0..count), "{count}");
        assert_eq!(fake.lines().len(), pages, "{count}");
    }
}

#[test]
fn without_a_total_a_page_that_is_not_full_is_the_last() {
    let paging = uncounted(Paging::numbered("page", "per_page", 2));
    let fake = FakeCloud::new().on(LIST, things(0..2)).on(LIST, things(2..4)).on(LIST, things(4..5));
    assert_eq!(list(paging), all(0..5));
    assert_eq!(queries(&fake), ["?page=1&per_page=2", "?page=2&per_page=2", "?page=3&per_page=2"]);
    let _fake = FakeCloud::new().on(LIST, things(0..2)).on(LIST, things(2..2));
    assert_eq!(list(paging), all(0..2));
    let _fake = FakeCloud::new().on(LIST, things(0..1));
    assert_eq!(list(paging), all(0..1));
}

#[test]
fn without_a_total_pages_of_the_clouds_own_size_are_read_until_one_is_not_full() {
    let paging = uncounted(Paging::counted("page", "pagesize"));
    let fake = FakeCloud::new().on(LIST, things(0..3)).on(LIST, things(3..6)).on(LIST, things(6..7));
    assert_eq!(list(paging), all(0..7));
    assert_eq!(queries(&fake), ["", "?page=2&pagesize=3", "?page=3&pagesize=3"]);
    let fake = FakeCloud::new().on(LIST, things(0..0));
    assert_eq!((list(paging), fake.lines().len()), (all(0..0), 1));
}

#[test]
fn a_cloud_that_gives_smaller_pages_than_asked_for_is_followed() {
    let fake = FakeCloud::new().on(LIST, counted(0..2, 5)).on(LIST, counted(2..4, 5)).on(LIST, counted(4..5, 5));
    assert_eq!(list(of(Paging::numbered("page", "per_page", 200))), all(0..5));
    assert_eq!(queries(&fake), ["?page=1&per_page=200", "?page=2&per_page=200", "?page=3&per_page=200"]);
}

#[test]
fn the_size_of_the_first_page_can_be_left_to_the_cloud() {
    let fake = FakeCloud::new().on(LIST, counted(0..3, 7)).on(LIST, counted(3..6, 7)).on(LIST, counted(6..7, 7));
    assert_eq!(list(COUNTED), all(0..7));
    assert_eq!(queries(&fake), ["", "?page=2&pagesize=3", "?page=3&pagesize=3"]);
    let _fake = FakeCloud::new().on(LIST, Reply::json(200, "{}"));
    assert_eq!(list(COUNTED.sparse()), all(0..0), "CloudStack's empty list");
}

#[test]
fn a_list_that_grows_meanwhile_is_read_to_its_new_end() {
    let fake = FakeCloud::new()
        .on(LIST, counted(0..2, 4))
        .on(LIST, counted(2..4, 5))
        .on(&format!("{LIST}?page=3&per_page=2"), counted(4..5, 5));
    assert_eq!(list(NUMBERED), all(0..5));
    assert!(fake.unused().is_empty());
}

/// They may be of servers that do not know the same yet.
#[test]
fn of_pages_that_count_differently_the_one_that_counts_most_says_where_the_list_ends() {
    let fake = FakeCloud::new()
        .on(LIST, counted(0..2, 5))
        .on(LIST, counted(2..4, 7))
        .on(LIST, counted(4..6, 5))
        .on(&format!("{LIST}?page=4&per_page=2"), counted(6..7, 7));
    assert_eq!(list(NUMBERED), all(0..7));
    assert!(fake.unused().is_empty());
}

#[test]
fn a_list_that_shrinks_meanwhile_is_no_error_but_one_that_is_cut_is() {
    let _fake = FakeCloud::new().on(LIST, counted(0..2, 5)).on(LIST, counted(2..4, 4)).on(LIST, counted(4..4, 4));
    assert_eq!(list(NUMBERED), all(0..4));
    let _fake = FakeCloud::new().on(LIST, counted(0..2, 6)).on(LIST, counted(2..2, 2)).on(LIST, counted(2..2, 2));
    assert_eq!(list(NUMBERED), all(0..2), "two empty pages are not one that came twice");
    let _fake = FakeCloud::new().on(LIST, counted(0..2, 5)).on(LIST, counted(2..4, 5)).on(LIST, counted(4..4, 5));
    let failure = list(NUMBERED).expect_err("cut");
    assert_eq!(failure, Failure::retry("GET /v2/things: page 3: the cloud counts 5 items and gives 4"));
    let _fake = FakeCloud::new().on(LIST, counted(0..0, 5));
    assert_eq!(list(NUMBERED).expect_err("cut").reaction, Reaction::Retry);
}

#[test]
fn what_moves_to_the_next_page_meanwhile_stands_in_the_list_once() {
    let _fake = FakeCloud::new().on(LIST, counted(0..2, 4)).on(LIST, counted(1..3, 4));
    assert_eq!(list(NUMBERED), all(0..3));
}

#[test]
fn links_are_followed_by_their_query_only() {
    let fake = FakeCloud::new()
        .on(LIST, linked(0..2, "https://api.digitalocean.com/v2/things?page=2&per_page=2"))
        .on(LIST, linked(2..4, "http://10.0.0.1:8774/inner/v2/things/?marker=a%2Fb+c#top"))
        .on(LIST, linked(4..6, "/v2/things?limit=1&limit=2"))
        .on(LIST, linked(6..7, ""));
    let items = CLOUD.get("/v2/things").query("tag", "k8s").query("page", 1).list(links());
    assert_eq!(items, all(0..7));
    assert_eq!(
        queries(&fake),
        [
            "?tag=k8s&page=1",
            "?tag=k8s&page=2&per_page=2",
            "?tag=k8s&page=1&marker=a%2Fb%20c",
            "?tag=k8s&page=1&limit=1&limit=2",
        ]
    );
}

#[test]
fn a_link_may_write_the_same_path_in_another_way() {
    let line = "api GET /v2/things/a~b/parts";
    let fake = FakeCloud::new().on(line, linked(0..2, "/v2/things/a%7Eb/parts?page=2")).on(line, linked(2..3, ""));
    assert_eq!(CLOUD.get("/v2/things/{id}/parts").arg("id", "a~b").list(links()), all(0..3));
    assert_eq!(fake.lines(), [line.to_owned(), format!("{line}?page=2")]);
}

#[test]
fn links_that_lead_elsewhere_are_refused() {
    for link in [
        "https://api.example/v2/account?page=2",
        "https://api.example/v2/things/7?page=2",
        "https://api.example/v2/mythings?page=2",
        "https://api.example/v2/things",
        "https://evil.example?page=/v2/things",
        "/v2/things?page=%zz",
        "2",
    ] {
        let fake = FakeCloud::new().on(LIST, linked(0..2, link));
        let failure = list(links()).expect_err(link);
        let expected = "GET /v2/things: page 1: the link to the next page leads to another place or is no link";
        assert_eq!(failure, Failure::retry(expected), "{link}");
        assert_eq!(fake.lines().len(), 1, "{link}");
    }
}

#[test]
fn an_empty_page_that_links_on_is_not_followed_for_ever() {
    let _fake =
        FakeCloud::new().on(LIST, linked(0..2, "/v2/things?page=2")).always(LIST, linked(2..2, "/v2/things?page=3"));
    let failure = list(links()).expect_err("empty");
    assert_eq!(failure.message, "GET /v2/things: page 2: an empty page links to another one");
    let _fake = FakeCloud::new().on(LIST, linked(0..2, "/v2/things?page=2")).on(LIST, things(2..2));
    assert_eq!(list(links()), all(0..2), "Octavia links from a full last page");
}

#[test]
fn offsets_end_with_a_page_that_is_not_full() {
    let fake = FakeCloud::new().on(LIST, things(0..2)).on(LIST, things(2..4)).on(LIST, things(4..5));
    assert_eq!(list(OFFSET), all(0..5));
    assert_eq!(queries(&fake), ["?limit=2&offset=0", "?limit=2&offset=2", "?limit=2&offset=4"]);
    let _fake = FakeCloud::new().on(LIST, things(0..2)).on(LIST, things(2..2));
    assert_eq!(list(OFFSET), all(0..2));
}

/// The limit is no more than a wish to some: what a page has too much comes again with the next one.
#[test]
fn a_page_with_more_than_was_asked_for_is_not_the_last() {
    let fake = FakeCloud::new().on(LIST, things(0..3)).on(LIST, things(2..5)).on(LIST, things(4..5));
    assert_eq!(list(OFFSET), all(0..5));
    assert_eq!(queries(&fake), ["?limit=2&offset=0", "?limit=2&offset=2", "?limit=2&offset=4"]);
}

#[test]
fn markers_end_with_a_page_that_links_to_no_next_one() {
    let linked = |items: Range<usize>, rels: &[&str]| {
        let links: Vec<String> = rels.iter().map(|rel| format!(r#"{{"href": "http://x/", "rel": "{rel}"}}"#)).collect();
        Reply::json(200, format!(r#"{{"things": {:?}, "links": [{}]}}"#, items.collect::<Vec<_>>(), links.join(",")))
    };
    let fake = FakeCloud::new()
        .on(LIST, linked(0..2, &["next", "previous"]))
        .on(LIST, linked(2..4, &["previous", "next"]))
        .on(LIST, linked(4..6, &["previous"]));
    assert_eq!(list(MARKER.until_no_next("/links")), all(0..6));
    assert_eq!(queries(&fake), ["?limit=2", "?limit=2&marker=1", "?limit=2&marker=3"]);
    // The last page may be empty, and have no links at all.
    for last in [linked(0..0, &["previous"]), things(2..3), linked(2..3, &[])] {
        let fake = FakeCloud::new().on(LIST, linked(0..2, &["next"])).on(LIST, last);
        assert!(list(MARKER.until_no_next("/links")).is_ok_and(|things| things.len() >= 2));
        assert_eq!(queries(&fake).len(), 2);
    }
}

#[test]
fn markers_end_with_an_empty_page() {
    let fake = FakeCloud::new().on(LIST, things(0..2)).on(LIST, things(2..3)).on(LIST, things(3..3));
    assert_eq!(list(MARKER), all(0..3));
    assert_eq!(queries(&fake), ["?limit=2", "?limit=2&marker=1", "?limit=2&marker=2"]);
}

#[test]
fn a_page_that_fails_fails_the_list() {
    for paging in [NUMBERED, COUNTED, links(), OFFSET, MARKER] {
        let page = Reply::json(200, r#"{"things": [0, 1], "count": 6, "next": "/v2/things?page=2"}"#);
        for (reply, reaction) in [
            (Reply::status(500), Reaction::Retry),
            (Reply::status(403), Reaction::Unauthorized),
            (Reply::json(404, "{}"), Reaction::Conflict),
            (Reply::json(200, "<html>"), Reaction::Retry),
            (Reply::lost(TransportReason::TooLarge, true), Reaction::Quota),
        ] {
            let _fake = FakeCloud::new().on(LIST, page.clone()).on(LIST, reply).always(LIST, counted(4..6, 6));
            assert_eq!(list(paging).expect_err("a page is missing").reaction, reaction, "{paging:?}");
        }
    }
}

#[test]
fn a_page_that_comes_twice_fails_the_list() {
    for paging in [NUMBERED, COUNTED, links(), OFFSET, MARKER] {
        let page = Reply::json(200, r#"{"things": [0, 1], "count": 6, "next": "/v2/things?page=2"}"#);
        let fake = FakeCloud::new().always(LIST, page);
        let failure = list(paging).expect_err("for ever");
        assert!(failure.message.ends_with(": a page came twice"), "{paging:?}: {}", failure.message);
        assert!(fake.lines().len() <= 3, "{paging:?}");
    }
}

#[test]
fn pages_that_come_in_circles_fail_the_list() {
    let mut fake = FakeCloud::new();
    for _ in 0..5 {
        fake = fake.on(LIST, things(0..2)).on(LIST, things(2..4));
    }
    assert_eq!(list(OFFSET).expect_err("for ever").message, "GET /v2/things: page 3: a page came twice");
    assert_eq!(fake.lines().len(), 3);
}

#[test]
fn a_list_longer_than_allowed_is_an_error_and_never_cut() {
    let full = || {
        let mut fake = FakeCloud::new();
        for page in 0..5 {
            let next = format!("/v2/things?at={page}");
            let body = format!(r#"{{"things": [{}, {}], "count": 9, "next": "{next}"}}"#, page * 2, page * 2 + 1);
            fake = fake.on(LIST, Reply::json(200, body));
        }
        fake
    };
    for paging in [NUMBERED, COUNTED, links(), OFFSET, MARKER] {
        let fake = full();
        let failure = list(paging.at_most(3)).expect_err("too long");
        assert_eq!(failure, Failure::quota("GET /v2/things: the list has more than 3 pages"), "{paging:?}");
        assert!(fake.lines().len() <= 3, "{paging:?}");
    }
}

#[test]
fn a_thousand_pages_are_enough_and_one_more_is_too_many() {
    for (count, good) in [(1_000, true), (1_001, false)] {
        let mut fake = FakeCloud::new();
        for page in 1..=count {
            fake = fake.on(&format!("{LIST}?page={page}&per_page=1"), counted(page..page + 1, count));
        }
        assert_eq!(list(of(Paging::numbered("page", "per_page", 1))).is_ok(), good, "{count}");
        assert_eq!(fake.lines().len(), if good { count } else { 1 }, "a total that is too much is seen at once");
    }
}

#[test]
fn bodies_that_are_in_memory_together_are_few() {
    let mut fake = FakeCloud::new();
    for page in 1..=40 {
        fake = fake.on(&format!("{LIST}?page={page}&per_page=1"), counted(page..page + 1, 40));
    }
    assert_eq!(list(of(Paging::numbered("page", "per_page", 1))), all(1..41));
    assert_eq!(fake.batches(), [1, 16, 16, 7]);
}

#[test]
fn a_list_of_more_bytes_than_may_be_is_an_error_after_its_first_page() {
    let line = |page: usize| format!("{LIST}?page={page}&size=4");
    let paging = |bytes| of(Paging::numbered("page", "size", 4)).within(bytes);
    let page = |items: Range<usize>| counted(items, 100);
    let cloud = FakeCloud::new().on(&line(1), page(0..4));
    let told = list(paging(800)).expect_err("it has some 850 bytes");
    assert_eq!((told.reaction, cloud.lines().len()), (Reaction::Quota, 1));
    assert!(told.message.contains("more than 800"), "{}", told.message);
    // A single page is as long as it is.
    let _cloud = FakeCloud::new().on(&line(1), counted(0..4, 4));
    assert_eq!(list(paging(1)), all(0..4));
    let pages = (1..=10).map(|at| (line(at), counted(at * 4 + 96..at * 4 + 100, 40)));
    let cloud = pages.fold(FakeCloud::new(), |cloud, (line, page)| cloud.on(&line, page));
    assert_eq!(list(paging(450)).map(|all| all.len()), Ok(40));
    assert_eq!(cloud.batches(), [1, 9]);
    // Of one that has grown to more meanwhile, no more pages are in memory together than it may have: three of 44 bytes.
    let pages = (1..=10).map(|at| (line(at), counted(at * 4 + 96..at * 4 + 100, if at == 1 { 8 } else { 40 })));
    let cloud = pages.fold(FakeCloud::new(), |cloud, (line, page)| cloud.on(&line, page));
    assert_eq!(list(paging(140)).map(|all| all.len()), Ok(40));
    assert_eq!(cloud.batches(), [1, 1, 3, 3, 2]);
}

/// What has changed before the first page was made is in the list, whatever the later ones are dated.
#[test]
fn a_list_has_the_date_of_its_first_page() {
    let dated = |dates: [Option<&str>; 2]| {
        let pages = [counted(0..2, 3), counted(2..3, 3)].into_iter().zip(dates);
        let pages = pages.map(|(page, date)| if let Some(date) = date { page.header("date", date) } else { page });
        let _fake = pages.fold(FakeCloud::new(), |fake, page| fake.on(LIST, page));
        CLOUD.get("/v2/things").list_dated::<usize>(NUMBERED).map(|(things, date)| (things.len(), date))
    };
    assert_eq!(dated([Some("early"), Some("late")]), Ok((3, Some("early".to_owned()))));
    assert_eq!(dated([None, Some("late")]), Ok((3, None)));
}

#[test]
fn a_page_that_lacks_what_it_should_have_is_no_page_unless_the_cloud_is_known_for_that() {
    let paging = Paging::offset("offset", "limit", 2).items("/inner/things").total("/meta/total");
    for (body, lacks) in [
        (r#"{"meta": {"total": 0}}"#, "/inner/things"),
        (r#"{"inner": null, "meta": {"total": 0}}"#, "/inner/things"),
        (r#"{"inner": {"things": null}, "meta": {"total": 0}}"#, "/inner/things"),
        (r#"{"inner": {"things": []}}"#, "/meta/total"),
        (r#"{"inner": {"things": []}, "meta": {"total": null}}"#, "/meta/total"),
    ] {
        let fake = FakeCloud::new().always(LIST, Reply::json(200, body));
        let failure = list(paging).expect_err(body);
        assert_eq!(failure, Failure::retry(format!("GET /v2/things: 200: the answer has no {lacks}")), "{body}");
        assert_eq!((list(paging.sparse()), fake.lines().len()), (all(0..0), 2), "{body}");
    }
    let _fake = FakeCloud::new().on(LIST, Reply::json(200, "[0, 1, 2]")).on(LIST, Reply::json(200, "[]"));
    assert_eq!(list(Paging::offset("offset", "limit", 3)), all(0..3), "an array is a page");
}
