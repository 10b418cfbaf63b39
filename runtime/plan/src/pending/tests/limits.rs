//! What is kept and told of many and of large writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

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

/// Counts the lines of the log.
struct Lines(Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_look_says_no_more_writes_of_an_object_than_people_read_and_counts_all() {
    let lines: Arc<AtomicUsize> = Arc::default();
    let _guard = tracing::subscriber::set_default(Lines(Arc::clone(&lines)));
    let (pending, _) = pending();
    let many = |count: usize| plan((0..count).map(|n| patch(json!(n))).collect());
    for (count, said) in [(MAX_LINES, MAX_LINES), (0, MAX_LINES), (MAX_LINES + 100, MAX_LINES + 1), (0, MAX_LINES + 1)]
    {
        lines.store(0, Ordering::Relaxed);
        pending.looked(vec![many(count)], None);
        assert_eq!((lines.load(Ordering::Relaxed), pending.list().writes.len()), (said, count));
    }
}
