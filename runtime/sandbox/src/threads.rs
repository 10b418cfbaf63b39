//! How many threads the process needs, so that calls which compute without a pause keep none of the others waiting.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// Most threads for the work of the host itself, which is mostly waiting.
const MOST_OF_THE_HOST: usize = 4;

/// Worker threads for a runtime in which calls run: one for each core, up to four, and as many more as the calls of one provider can keep
/// busy, which is one more than `busy_calls` of its [`Limits`](crate::Limits).
///
/// With fewer, a hostile provider has all of them for milliseconds at a time: the host hands over what a guest answers at one go, and nobody looks
/// at sockets meanwhile. A thread that is left over waits at the sockets, and the kernel lets it run at once.
#[must_use]
pub fn worker_threads(busy_calls: usize) -> usize {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    cores.min(MOST_OF_THE_HOST).saturating_add(busy_calls.clamp(1, MOST_OF_THE_HOST)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_compute_leave_a_thread_to_the_host() {
        assert!(worker_threads(0) >= 3 && worker_threads(1) >= 3);
        assert_eq!(worker_threads(2), worker_threads(1) + 1);
        assert!(worker_threads(usize::MAX) <= 9, "threads cost memory");
    }
}
