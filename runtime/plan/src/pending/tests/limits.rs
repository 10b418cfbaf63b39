//! What is kept and told of many and of large writes.

use ccm_fake_api::{Lines, Log};

use super::*;

#[test]
fn what_would_be_written_is_kept_as_its_line_and_a_write_that_differs_where_the_line_is_cut_is_another_one() {
    let (pending, _) = pending();
    let long = |end: &str| patch(json!({ "a": "x".repeat(MAX_TOLD), "b": end }));
    pending.looked(vec![plan(vec![long("1")])], None);
    let first = pending.list().writes;
    pending.looked(vec![plan(vec![long("1")])], None);
    assert_eq!(pending.list().writes, first);
    pending.looked(vec![plan(vec![long("2")])], None);
    let second = pending.list().writes;
    assert!(second[0].write == first[0].write && second[0].since > first[0].since, "{second:?}");
}

#[test]
fn a_look_says_no_more_writes_of_an_object_than_people_read_and_counts_all() {
    let lines = Lines::start();
    let (pending, _) = pending();
    let many = |count: usize| plan((0..count).map(|n| patch(json!(n))).collect());
    for (count, said) in [(MAX_LINES, MAX_LINES), (0, MAX_LINES), (MAX_LINES + 100, MAX_LINES + 1), (0, MAX_LINES + 1)]
    {
        pending.looked(vec![many(count)], None);
        assert_eq!((lines.take(), pending.list().writes.len()), (said, count));
    }
}

/// What the metrics say of Services: of each place, and of what is not known.
fn figures(registry: &Registry) -> Vec<usize> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let names = PLACES.map(|to| format!("ccm_dry_run_pending_writes{{kind=\"Service\",to=\"{to}\"}} "));
    let names = names.into_iter().chain(["ccm_dry_run_unknown_objects{kind=\"Service\"} ".to_owned()]);
    names.map(|name| text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()).collect()
}

/// The same, one by one.
fn counted(pending: &Pending) -> Vec<usize> {
    let list = pending.list();
    let writes = |to| list.writes.iter().filter(|one| one.write.starts_with(&format!("{to} "))).count();
    PLACES.into_iter().map(writes).chain([list.unknown.len()]).collect()
}

/// After each of many objects only the difference is counted: it must come to what a count of all comes to.
#[test]
fn what_is_counted_after_one_of_many_is_what_there_is() {
    let (pending, registry) = pending();
    let note = |number: i64| Write::Note { method: "PATCH".to_owned(), path: WEB.to_owned(), body: json!(number) };
    let other = |writes: Vec<Write>| ObjectPlan { name: "default/other".to_owned(), ..plan(writes) };
    let unknown = || Some("the cloud said 500".to_owned());
    for (step, seen) in [
        plan(vec![patch(json!(1)), patch(json!(2)), note(1)]),
        other(vec![patch(json!(1))]),
        plan(vec![patch(json!(2))]),
        ObjectPlan { unknown: unknown(), ..plan(vec![patch(json!(3))]) },
        ObjectPlan { unknown: unknown(), ..other(vec![]) },
        plan(vec![]),
        other(vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        pending.seen(seen);
        assert_eq!(figures(&registry), counted(&pending), "{step}");
        pending.ended(&[Kind::Service], None);
        assert_eq!(figures(&registry), counted(&pending), "{step}");
    }
}

/// Writes of which only is kept where they go take memory as well.
#[test]
fn of_too_many_writes_only_their_number_is_told_for_the_objects_with_the_most_and_nothing_passes_for_done() {
    let lines = Lines::start();
    let (pending, registry) = pending();
    let most = 1_000 * size_of::<Standing>();
    pending.objects.lock().most = most;
    let object = |name: &str, count: usize| ObjectPlan {
        name: format!("default/{name}"),
        ..plan((0..count).map(|n| patch(json!(n))).collect())
    };
    let kept = |name: &str| pending.of(Kind::Service, &format!("default/{name}"));
    for look in 0..3 {
        for (name, count) in [("few", 3), ("many", 700), ("more", 800), ("other", 2)] {
            pending.seen(object(name, count));
            assert!(pending.objects.lock().bytes <= most);
            assert_eq!(figures(&registry), counted(&pending), "{look}");
        }
        assert_eq!([kept("few").writes.len(), kept("many").writes.len(), kept("other").writes.len()], [3, 700, 2]);
        let more = kept("more");
        let why = &more.unknown[0].1;
        assert!(more.writes.is_empty() && why.starts_with("it has 800 writes, and those of all objects "), "{why}");
        assert!(pending.unsettled(Kind::Service).contains(&"default/more".to_owned()));
        pending.ended(&[Kind::Service], None);
        assert_eq!(figures(&registry), counted(&pending), "{look}");
        // Nothing new is said of what stays the same.
        let said = lines.take();
        assert_eq!(said > 0, look == 0, "{said} lines");
    }
    for name in ["few", "many"] {
        pending.seen(object(name, 0));
    }
    pending.seen(object("more", 800));
    assert_eq!((kept("more").writes.len(), kept("more").unknown.len()), (800, 0), "there is room");
    drop(lines);

    // What comes after too many is told as ever.
    for count in [3, 0] {
        pending.seen(object("more", 0));
        for (name, count) in [("many", 700), ("more", 800)] {
            pending.seen(object(name, count));
        }
        let log = Log::start();
        let said = |part: &str| log.lines(part).len();
        pending.seen(object("more", count));
        assert_eq!(said("dry run: would be written object=Service default/more"), count);
        assert_eq!(said("dry run: what would be written is known object=Service default/more"), 1);
        assert_eq!((kept("more").writes.len(), kept("more").unknown.len()), (count, 0));
        pending.seen(object("more", count));
        assert_eq!(said("dry run: "), count + 1, "once");
        pending.seen(object("more", 800));
        assert_eq!(said("WARN"), 1, "too many once more");
    }
}

/// Each object of a cluster may fail with as many words.
#[test]
fn why_something_is_not_known_is_cut() {
    let (pending, _) = pending();
    pending.seen(ObjectPlan { unknown: Some("é".repeat(MAX_TOLD)), ..plan(vec![]) });
    let why = &pending.list().unknown[0].1;
    assert!(why.len() <= MAX_TOLD + '…'.len_utf8() && why.ends_with("é…"), "{} bytes", why.len());
}

/// 64 KiB of what JSON writes with six letters each once held 622 kB for a line of 4 KiB.
#[test]
fn what_is_kept_takes_as_much_memory_as_is_counted_and_that_is_bounded() {
    let (pending, _) = pending();
    let body = "\u{1}".repeat(64 << 10);
    for number in 0..20 {
        let write = |n: usize| patch(json!({ "n": n, "a": body }));
        pending.seen(ObjectPlan { name: format!("default/s{number}"), ..plan((0..4).map(write).collect()) });
    }
    let objects = pending.objects.lock();
    let line = |one: &Standing| one.line.as_ref().map_or(0, |line| line.len());
    let held =
        |known: &Known| known.writes.capacity() * size_of::<Standing>() + known.writes.iter().map(line).sum::<usize>();
    let held: usize = objects.values().map(held).sum();
    assert!(held <= objects.bytes && objects.bytes <= MAX_KEPT, "{held} bytes, counted as {}", objects.bytes);
}

/// A component asks for 64 KiB of writes for each of 10,000 Services: the whole is bounded, and all of it is still pending.
#[test]
fn of_more_than_is_kept_it_is_left_out_what_it_is_and_not_that_it_is() {
    let (pending, registry) = pending();
    let large = |number: usize| {
        let name = format!("default/s{number:05}");
        let body = json!({ "a": "x".repeat(MAX_TOLD), "number": number });
        ObjectPlan { name, ..plan(vec![patch(body)]) }
    };
    let record = size_of::<Standing>();
    let fit = (MAX_KEPT - 100 * record) / (MAX_TOLD + '…'.len_utf8() + record);
    let all = fit + 100;
    for number in 0..all {
        pending.seen(large(number));
    }
    let page = pending.first(1);
    assert_eq!((page.writes, page.changes, page.left_out, page.unknown), (all, all, 100, 0));
    let kept = || pending.objects.lock().bytes;
    let lines = |pending: &Pending| {
        let objects = pending.objects.lock();
        let writes = || objects.values().flat_map(|known| &known.writes);
        writes().filter_map(|one| one.line.as_ref()).map(|line| line.len()).sum::<usize>() + writes().count() * record
    };
    assert!(kept() == lines(&pending) && kept() <= MAX_KEPT, "{} bytes", kept());
    let last = format!("default/s{:05}", all - 1);
    let told = pending.of(Kind::Service, &last).writes;
    assert!(told[0].is_change && told[0].write.starts_with("cluster (left out: "), "{told:?}");
    assert!(pending.unsettled(Kind::Service).contains(&last));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains(&format!("ccm_dry_run_pending_writes{{kind=\"Service\",to=\"cluster\"}} {all}\n")), "{text}");
    // The same write stays the same, and takes room when there is some.
    pending.seen(large(all - 1));
    assert_eq!(pending.of(Kind::Service, &last).writes, told);
    pending.seen(ObjectPlan { writes: vec![], ..large(0) });
    pending.seen(large(all - 1));
    let again = pending.of(Kind::Service, &last).writes;
    assert!(again[0].since == told[0].since && again[0].write.starts_with("cluster PATCH"), "{again:?}");
    assert_eq!((pending.first(1).left_out, kept()), (99, lines(&pending)));
    for number in 0..all {
        pending.seen(ObjectPlan { writes: vec![], ..large(number) });
    }
    assert_eq!((pending.first(1), kept()), (PendingPage { list: pending.list(), ..PendingPage::default() }, 0));
}

/// More than is kept, by a component that asks for much for each of its objects, between objects of others that ask for little.
#[test]
fn whoever_has_much_to_write_hides_nobody_who_has_little() {
    let (pending, _) = pending();
    let object = |name: &str, count: usize, length: usize| {
        let write = |number: usize| patch(json!({ "a": "x".repeat(length), "n": number }));
        ObjectPlan { name: format!("default/{name}"), ..plan((0..count).map(write).collect()) }
    };
    let seen = |name: String, count: usize, length: usize| pending.seen(object(&name, count, length));
    let large = || (0..50).map(|number| format!("large-{number}"));
    let small = || (0..20).map(|number| format!("small-{number}"));
    // How many writes are told, how many there are.
    let told = |name: &str| {
        let writes = pending.of(Kind::Service, &format!("default/{name}")).writes;
        (writes.iter().filter(|one| one.write.starts_with("cluster PATCH")).count(), writes.len())
    };
    small().take(10).for_each(|name| seen(name, 2, 100));
    // One alone, then others like it.
    seen("huge".to_owned(), 4_200, MAX_TOLD);
    assert!((4_000..4_200).contains(&told("huge").0), "{:?}: what fits is kept", told("huge"));
    large().for_each(|name| seen(name, 100, MAX_TOLD));
    small().skip(10).for_each(|name| seen(name, 2, 100));
    for name in small() {
        assert_eq!(told(&name), (2, 2), "{name}");
    }
    // Each of those with much has the same share, in which also stands what was left out, and what would be written first is told.
    let shares: Vec<usize> = large().map(|name| told(&name).0).collect();
    assert!(shares.iter().all(|share| (78..=82).contains(share)), "{shares:?}");
    let bytes = |name: &str| {
        let object = Object { kind: Kind::Service, name: format!("default/{name}") };
        pending.objects.lock()[&object].bytes()
    };
    assert!(bytes("huge").abs_diff(bytes("large-0")) < 10_000, "{} and {}", bytes("huge"), bytes("large-0"));
    let shares = shares.iter().sum::<usize>() + told("huge").0;
    let writes = pending.of(Kind::Service, "default/large-0").writes;
    assert!(writes[0].write.starts_with("cluster PATCH") && writes[99].write.starts_with("cluster (left out: "));
    let all = 4_200 + 50 * 100;
    let (page, bytes) = (pending.first(1), pending.objects.lock().bytes);
    assert_eq!((page.writes, page.left_out), (all + 40, all - shares), "all are counted");
    assert!((MAX_KEPT - 5_000..=MAX_KEPT).contains(&bytes), "{bytes} bytes");
}
