//! Which traces are sent: as a whole, or not at all.

use super::*;

const TRACES: usize = 1_000;

/// How many spans of each trace are sent, of so many traces with two spans each.
fn sent(variables: &[(&str, &str)]) -> Vec<usize> {
    let variables = [variables, &[("OTEL_BSP_MAX_QUEUE_SIZE", "2000")]].concat();
    let (_guard, mut sender, _) = traced(&variables);
    for _ in 0..TRACES {
        let root = tracing::info_span!(target: SPANS, parent: None, "root");
        root.in_scope(|| drop(tracing::info_span!(target: SPANS, "child")));
    }
    let mut spans: BTreeMap<u128, usize> = BTreeMap::new();
    while let Ok(span) = sender.next() {
        *spans.entry(span.place.trace).or_default() += 1;
    }
    assert_eq!(sender.metrics().counted(Outcome::QueueFull), 0);
    spans.into_values().collect()
}

#[test]
fn a_trace_is_sent_with_all_its_spans_or_with_none() {
    assert_eq!(sent(&[]), [2; TRACES]);
    for off in ["always_off", "parentbased_always_off"] {
        assert_eq!(sent(&[("OTEL_TRACES_SAMPLER", off)]), [0; 0], "{off}");
    }
    let half = sent(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.5")]);
    assert!(half.iter().all(|spans| *spans == 2), "{half:?}");
    // The probability that it is another number is 1 in 10^9.
    assert!((400..=600).contains(&half.len()), "{}", half.len());
}
