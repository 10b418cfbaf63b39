use ccm_sdk::testing::{FakeCloud, Reply};
use ccm_sdk::types::Reaction;

use super::*;
use crate::api::droplets::all;
use crate::find::ids_by_name;
use crate::find::tests::{droplet, list};

const SHARE: Duration = Duration::from_secs(30);

fn line(page: usize) -> String {
    format!("api GET /v2/droplets?page={page}&per_page=200")
}

/// Page after page of so many droplets, whose names end in `generation`.
fn account(mut cloud: FakeCloud, total: usize, generation: &str) -> FakeCloud {
    for page in 1..=total.div_ceil(200) {
        let ids = ((page - 1) * 200 + 1)..=(page * 200).min(total);
        let shown: Vec<String> = ids.map(|id| droplet(id as u64, &format!("n{id}{generation}"))).collect();
        let body = format!(r#"{{"droplets": [{}], "meta": {{"total": {total}}}}}"#, shown.join(","));
        cloud = cloud.always(&line(page), Reply::json(200, body));
    }
    cloud
}

fn names(listed: &Listed) -> Vec<&str> {
    listed.droplets.iter().map(|droplet| droplet.name.as_str()).collect()
}

fn grow_old() {
    (2..=MOST_PAGES).for_each(|page| cache::forget(&fresh(page)));
}

#[test]
fn eight_thousand_droplets_are_read_in_four_calls_of_twelve_pages_at_most() {
    let cloud = account(FakeCloud::new(), 8_000, "");
    let mut before = 0;
    for call in 1..=4 {
        let listed = all(SHARE).expect("some of it");
        let asked = cloud.lines().split_off(before);
        before = cloud.lines().len();
        // The first page is looked at, and then read again from the same answer.
        assert!(asked.len() <= 1 + PAGES, "{}", asked.len());
        assert_eq!((listed.droplets.len(), listed.unread), ((200 + call * 2_200).min(8_000), call < 4));
    }
    let listed = all(SHARE).expect("all of it");
    assert_eq!((listed.droplets.len(), listed.unread), (8_000, false));
    assert_eq!(cloud.lines().split_off(before), [line(1)], "the rest is kept");
    let page = cache::get(&key(40)).map_or(0, |page| page.len());
    assert!(page * MOST_PAGES <= 1_200_000, "the cache has room for 4 MiB, and a page has {page} bytes");
    assert!(cloud.requests().iter().all(|request| request.share_ms == 30_000));
}

#[test]
fn twelve_pages_are_read_in_one_call_and_thirteen_are_not() {
    for (total, is_large) in [(2_400, false), (2_401, true)] {
        let cloud = account(FakeCloud::new(), total, "");
        let listed = all(SHARE).expect("some of it");
        assert_eq!((listed.droplets.len(), listed.unread, is_begun()), (2_400, is_large, is_large));
        assert_eq!(cloud.lines().len(), PAGES + usize::from(is_large));
    }
}

#[test]
fn what_was_read_serves_for_fifteen_minutes_and_what_is_forgotten_then_is_read_first() {
    let cloud = account(FakeCloud::new(), 5_000, "");
    while all(SHARE).expect("some of it").unread {}
    cloud.pass(600);
    assert!(!all(SHARE).expect("all of it").unread, "eleven pages are renewed");
    cloud.pass(301);
    // The thirteen others are forgotten, and it is not their turn.
    cache::put_json(NEXT, &2, KEPT);
    assert_eq!(all(SHARE).expect("some of it").droplets.len(), 5_000 - 2 * 200);
    assert!(!all(SHARE).expect("all of it").unread);
}

#[test]
fn what_is_kept_is_renewed_page_after_page() {
    let old = account(FakeCloud::new(), 5_000, "");
    while all(SHARE).expect("some of it").unread {}
    let kept: Vec<(String, Vec<u8>)> = (2..=25).filter_map(|page| Some((key(page), cache::get(&key(page))?))).collect();
    drop(old);
    let _new = account(FakeCloud::new(), 5_000, "-new");
    kept.iter().for_each(|(key, value)| cache::put(key, value, KEPT));
    for call in 1..=3 {
        grow_old();
        let listed = all(SHARE).expect("all of it");
        let renewed = names(&listed).iter().filter(|name| name.ends_with("-new")).count();
        assert_eq!((listed.droplets.len(), listed.unread), (5_000, false));
        assert_eq!(renewed, (200 + call * 2_200).min(5_000));
    }
}

#[test]
fn one_that_moved_to_the_next_page_meanwhile_is_listed_once() {
    let _cloud = account(FakeCloud::new(), 3_000, "");
    while all(SHARE).expect("some of it").unread {}
    cache::put(&key(3), &cache::get(&key(2)).expect("kept"), KEPT);
    assert_eq!(all(SHARE).expect("it").droplets.len(), 2_800);
}

#[test]
fn thousands_of_names_are_found_on_all_pages_and_one_that_two_droplets_have_on_none() {
    let gpus = list(&[droplet(9_001, "GPU"), droplet(9_002, "n2")]);
    let _cloud =
        account(FakeCloud::new(), 3_000, "").always("api GET /v2/droplets?type=gpus&page=1&per_page=200", gpus);
    let names = ["n1", "n2999", "N450", "gpu", "10.0.451.1", "203.0.7.1", "n2"];
    let failure = ids_by_name(&names).expect_err("the first call reads twelve of fifteen pages");
    assert_eq!(failure.reaction, Reaction::Pending);
    // One that moved to the next page meanwhile is on both.
    cache::put(&key(4), &cache::get(&key(3)).expect("kept"), KEPT);
    let found = [Some(1), Some(2_999), Some(450), Some(9_001), Some(451), Some(7), None];
    assert_eq!(ids_by_name(&names), Ok(found.to_vec()));
}

/// While droplets of others go, all that come after them move forward, across pages that were read at different times.
#[test]
fn few_that_are_on_no_page_are_asked_for_by_name() {
    let line = |name: &str| format!("api GET /v2/droplets?name={name}&page=1&per_page=200");
    let gpus = "api GET /v2/droplets?type=gpus&page=1&per_page=200";
    let mut cloud = account(FakeCloud::new(), 3_000, "").always(gpus, list(&[]));
    cloud = cloud.always(&line("moved"), list(&[droplet(9_001, "moved")]));
    for absent in 0..20 {
        cloud = cloud.always(&line(&format!("absent{absent}")), list(&[]));
    }
    let names = ["n1", "moved", "10.99.99.99", "n2999"];
    ids_by_name(&names).expect_err("the first call reads twelve of fifteen pages");
    assert_eq!(ids_by_name(&names), Ok(vec![Some(1), Some(9_001), None, Some(2_999)]));

    let before = cloud.lines().len();
    let absent: Vec<String> = (0..20).map(|absent| format!("absent{absent}")).collect();
    let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
    assert_eq!(ids_by_name(&absent), Ok(vec![None; 20]));
    let alone = cloud.lines().split_off(before).iter().filter(|line| line.contains("name=absent")).count();
    assert_eq!(alone, 10, "Nodes that are none of this cloud's cost little");
}

#[test]
fn an_account_that_shrinks_and_one_that_grows_are_read_as_they_are_now() {
    let large = account(FakeCloud::new(), 5_000, "");
    while all(SHARE).expect("some of it").unread {}
    let next = cache::get(NEXT).expect("kept");
    drop(large);
    for total in [2_600, 5_400] {
        let _cloud = account(FakeCloud::new(), total, "");
        cache::put(NEXT, &next, KEPT);
        let mut calls = 0;
        while all(SHARE).expect("some of it").unread {
            calls += 1;
        }
        assert!(calls <= 4, "{calls}");
        assert_eq!(all(SHARE).expect("all of it").droplets.len(), total);
    }
}

#[test]
fn a_page_that_fails_fails_the_call_and_the_next_goes_on() {
    let cloud = account(FakeCloud::new().on(&line(5), Reply::status(500)), 3_000, "");
    assert_eq!(all(SHARE).map_err(|failure| failure.reaction).err(), Some(Reaction::Retry));
    while all(SHARE).expect("some of it").unread {}
    assert_eq!(all(SHARE).expect("all of it").droplets.len(), 3_000);
    drop(cloud);
    let empty = Reply::json(200, r#"{"droplets": [], "meta": {"total": 3000}}"#);
    let _cloud = account(FakeCloud::new().on(&line(5), empty.clone()), 3_000, "");
    assert_eq!(all(SHARE).map_err(|failure| failure.reaction).err(), Some(Reaction::Retry));
    // What was on the last one may have gone or moved forward since the first one was read.
    let _cloud = account(FakeCloud::new().on(&line(15), empty), 3_000, "");
    while all(SHARE).expect("some of it").unread {}
    assert_eq!(all(SHARE).expect("all of it").droplets.len(), 2_800);
}

#[test]
fn more_than_can_be_kept_are_refused_with_the_number() {
    let of = |total: usize| {
        Reply::json(200, format!(r#"{{"droplets": [{}], "meta": {{"total": {total}}}}}"#, droplet(1, "n1")))
    };
    let most = MOST_PAGES * PER_PAGE;
    let _cloud = FakeCloud::new().always("api GET /v2/droplets", of(most));
    assert!(all(SHARE).is_ok_and(|listed| listed.unread));
    let cloud = FakeCloud::new().always(&line(1), of(most + 1));
    let failure = all(SHARE).expect_err("too many");
    assert_eq!(failure.reaction, Reaction::Quota);
    assert!(failure.message.contains("more than 12000 droplets"), "{}", failure.message);
    assert_eq!(cloud.lines().len(), 2);
}
