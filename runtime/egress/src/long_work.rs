//! Work on large answers: off the workers of the runtime, which have others to serve.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From so many bytes on the work is long: the search for credentials takes a millisecond for about as many.
const LONG: usize = 256 << 10;

/// Does the work. If it is long, the other tasks of this worker go on elsewhere meanwhile.
pub(crate) fn off_the_workers<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // With one thread there is no other worker to go to.
    let has_workers = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LONG && has_workers() { tokio::task::block_in_place(work) } else { work() }
}

/// Lets others work, each time that one answer has become so much longer.
pub(crate) async fn pause_between(before: usize, now: usize) {
    if before / LONG != now / LONG {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// There is one worker. If the long work kept it, the other task would never run, and never send.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_holds_nobody_up() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {
            let (tell, told) = std::sync::mpsc::channel();
            let mut other = JoinSet::new();
            other.spawn(async move { tell.send(()) });
            off_the_workers(LONG, || told.recv_timeout(std::time::Duration::from_secs(20))).is_ok()
        });
        assert!(tasks.join_next().await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_itself() {
        assert_eq!(off_the_workers(LONG, || 7), 7);
    }
}
