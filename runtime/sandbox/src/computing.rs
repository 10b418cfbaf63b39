//! Time that the host computes for a guest while the guest waits for an answer: unpacking it, looking for credentials in it, reading it.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::Instant;

/// The outcome of `work`, unless it computes for longer than `most`, and how long it did. Waiting does not count.
pub(crate) async fn computing<F: Future>(work: F, most: Duration) -> (Option<F::Output>, Duration) {
    let mut work = std::pin::pin!(work);
    let mut spent = Duration::ZERO;
    let outcome = poll_fn(|cx| {
        let start = Instant::now();
        let polled = work.as_mut().poll(cx);
        spent = spent.saturating_add(start.elapsed());
        // What is done is done: the guest itself is asked for the rest.
        if polled.is_pending() && spent > most { None.into() } else { polled.map(Some) }
    });
    (outcome.await, spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_not_counted() {
        assert_eq!(computing(tokio::time::sleep(1_000 * MS), MS).await, (Some(()), Duration::ZERO));
    }

    /// Unpacking and searching answers was nobody's time.
    #[tokio::test]
    async fn what_computes_is_counted_and_stopped_where_it_pauses() {
        let work = async {
            loop {
                let start = Instant::now();
                while start.elapsed() < 5 * MS {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
            }
        };
        let (outcome, spent): (Option<()>, _) = computing(work, 20 * MS).await;
        assert!(outcome.is_none() && spent > 20 * MS, "{spent:?}");
    }
}
