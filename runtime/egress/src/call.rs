//! What belongs to a single call of a provider: how long it may take, what it may change, how much it may be given.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budget::Class;
use crate::captured::Generation;
use crate::failed_requests::FailedRequests;
use crate::memory::{CallMemory, NoRoom};

/// One call, from the network's side.
pub struct CallScope {
    class: Class,
    /// Whether a request of it has changed something in the cloud, or may have.
    has_begun: AtomicBool,
    /// Whether a request of it was to change something in the cloud, and was not sent because this process may not.
    was_forbidden: AtomicBool,
    /// How many more of these are told, and how many bytes of their bodies.
    tells_left: AtomicUsize,
    told_bytes_left: AtomicUsize,
    /// Whether it may not change the cloud: lookups, checks, plans.
    pub read_only: bool,
    /// Whether a Node may be deleted on its answer: then nothing is shared with others.
    pub proof: bool,
    /// Whether it may have the cloud judge what it does not do: `validate`, online.
    pub judges: bool,
    /// When its time is over.
    pub deadline: Instant,
    /// What the process has for it.
    pub memory: CallMemory,
    /// Its requests that failed.
    pub failed: FailedRequests,
    requests_left: AtomicUsize,
    bytes_left: AtomicUsize,
    /// Bytes that may still be read for it, whatever becomes of them.
    reads_left: AtomicUsize,
    /// Bytes of memory for answers that were handed out, until the guest has them.
    handed_out: AtomicUsize,
    /// Which value of a captured credential it knows.
    seen: Mutex<BTreeMap<String, Seen>>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    generation: Generation,
    own: bool,
}

/// How many times what a call may be given is read for it: answers that broke off, or that are refused, cost the host as much as others.
const READ_IN_VAIN: usize = 4;
/// Most changes of a call that are told when they are not sent, as a number: whoever is told of one knows that more may follow.
const MOST_TOLD: usize = 64;
/// Most bytes of their bodies that are told, in sum. Whoever reads one as JSON needs many times its bytes.
const MOST_TOLD_BYTES: usize = 64 << 10;
/// Longest call that the clock is asked about.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl CallScope {
    /// A call that ends at `deadline`, sends at most `requests` requests and gets bodies of at most `bytes` in sum.
    #[must_use]
    pub fn new(
        class: Class,
        read_only: bool,
        proof: bool,
        deadline: Option<Instant>,
        requests: usize,
        bytes: usize,
    ) -> Self {
        Self {
            class,
            has_begun: AtomicBool::new(false),
            was_forbidden: AtomicBool::new(false),
            tells_left: AtomicUsize::new(MOST_TOLD),
            told_bytes_left: AtomicUsize::new(MOST_TOLD_BYTES),
            read_only,
            proof,
            judges: false,
            deadline: deadline.unwrap_or_else(|| Instant::now() + FOREVER),
            memory: CallMemory::default(),
            failed: FailedRequests::default(),
            requests_left: AtomicUsize::new(requests),
            bytes_left: AtomicUsize::new(bytes),
            reads_left: AtomicUsize::new(bytes.saturating_mul(READ_IN_VAIN)),
            handed_out: AtomicUsize::new(0),
            seen: Mutex::default(),
        }
    }

    /// Whether a change of it was not sent, because this process may not change the cloud.
    pub(crate) fn was_forbidden(&self) -> bool {
        self.was_forbidden.load(Ordering::Relaxed)
    }

    /// Notes that a change of it was not sent, because this process may not change the cloud. False when so many were told that this one is not.
    pub(crate) fn notes_forbidden(&self) -> bool {
        self.was_forbidden.store(true, Ordering::Relaxed);
        take(&self.tells_left, 1)
    }

    /// Counts the bytes of what is told of a change that was not sent. False when there were too many.
    pub(crate) fn takes_told(&self, bytes: usize) -> bool {
        take(&self.told_bytes_left, bytes)
    }

    /// How urgent its requests are. Whoever has begun to change something goes on with it: it must not stay half done because more
    /// urgent work comes, or because the cloud's limit is used up.
    pub(crate) fn class(&self) -> Class {
        if self.has_begun.load(Ordering::Relaxed) { Class::Write } else { self.class }
    }

    /// A request that may change something is sent.
    pub(crate) fn begins(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// What is left of its time.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Counts a request. False when there were too many.
    pub(crate) fn takes_request(&self) -> bool {
        take(&self.requests_left, 1)
    }

    /// Counts the bytes of a body. False when there were too many.
    pub(crate) fn takes_bytes(&self, bytes: usize) -> bool {
        take(&self.bytes_left, bytes)
    }

    /// The guest asks the host again, so it has what it was given before.
    pub fn asks_again(&self) {
        self.memory.shrink(self.handed_out.swap(0, Ordering::Relaxed));
    }

    /// The guest is given something that takes so many bytes of memory, which are counted already: they count until it asks again.
    pub fn hands_out(&self, bytes: usize) {
        self.handed_out.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a body that somebody else has read, and waits until there is memory for a copy. False when there were too many.
    pub(crate) async fn takes_copy(&self, bytes: usize) -> Result<bool, NoRoom> {
        if !self.takes_bytes(bytes) {
            return Ok(false);
        }
        self.takes_words(bytes).await?;
        Ok(true)
    }

    /// Counts the memory of what is handed out beside bodies, and waits until there is room.
    pub(crate) async fn takes_words(&self, bytes: usize) -> Result<(), NoRoom> {
        self.memory.grow(bytes).await?;
        self.hands_out(bytes);
        Ok(())
    }

    /// Room for a body that is being read.
    pub(crate) const fn hold(&self) -> Held<'_> {
        Held { call: self, bytes: 0, memory: 0 }
    }

    /// The generation of `credential` that this call knows, and whether it captured that one itself.
    pub(crate) fn seen(&self, credential: &str) -> (Option<Generation>, bool) {
        let seen = self.seen.lock().get(credential).copied();
        (seen.map(|seen| seen.generation), seen.is_some_and(|seen| seen.own))
    }

    pub(crate) fn saw(&self, credential: &str, generation: Generation, own: bool) {
        let mut seen = self.seen.lock();
        let entry = seen.entry(credential.to_owned()).or_default();
        let own = own || (entry.own && entry.generation == generation);
        *entry = Seen { generation, own };
    }
}

/// Bytes of a body in memory for each one that was read: a buffer that grows has up to twice the room, and so has a body beside its copy
/// without credentials.
const BODY_FACTOR: usize = 2;

/// Bytes of a body, taken from what its call has left while it is read. They are given back, unless the guest gets them.
pub(crate) struct Held<'a> {
    call: &'a CallScope,
    bytes: usize,
    memory: usize,
}

impl Held<'_> {
    /// Takes more. False when the call has too little left.
    pub(crate) fn grow(&mut self, by: usize) -> bool {
        let fits = take(&self.call.reads_left, by) && self.call.takes_bytes(by);
        if fits {
            self.bytes = self.bytes.saturating_add(by);
        }
        fits
    }

    /// Waits until there is memory for more, and at most until `end`: calls that have memory may wait for what this one reads, such as
    /// a login. What the cloud sends meanwhile waits in its connection.
    pub(crate) async fn room(&mut self, by: usize, end: Instant) -> Result<(), NoRoom> {
        let by = by.saturating_mul(BODY_FACTOR);
        self.call.memory.grow_until(by, end).await?;
        self.memory = self.memory.saturating_add(by);
        Ok(())
    }

    /// Holds so many in all: a body has another length when credentials were taken out of it.
    pub(crate) fn fit(&mut self, bytes: usize) -> bool {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            return self.grow(more);
        }
        self.call.bytes_left.fetch_add(self.bytes.saturating_sub(bytes), Ordering::Relaxed);
        self.bytes = bytes;
        true
    }

    /// The guest gets them.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
        self.call.handed_out.fetch_add(std::mem::take(&mut self.memory), Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.call.bytes_left.fetch_add(self.bytes, Ordering::Relaxed);
        self.call.memory.shrink(self.memory);
    }
}

fn take(left: &AtomicUsize, amount: usize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBudget;

    /// 2,000 answers of 8 MiB were unpacked for one call, if each of them broke off or was refused.
    #[test]
    fn what_is_read_in_vain_makes_room_again_but_not_for_ever() {
        let call = CallScope::new(Class::Write, false, false, None, 1, 1_000);
        for _ in 0..READ_IN_VAIN {
            assert!(call.hold().grow(1_000));
        }
        assert!(!call.hold().grow(1));
        assert!(call.takes_bytes(1_000), "what others have read is still handed out");
    }

    /// Whoever logs in for others once waited for room until its call was over, while those others waited for the login and kept the room.
    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_room_no_longer_than_its_exchange_may_take() {
        let share = MemoryBudget::new(4 << 20, 1).share("a");
        let waits_for_the_login = share.try_begin(3 << 20).unwrap();
        let mut call = CallScope::new(Class::Write, false, false, None, 1, 1_000);
        call.memory = share.try_begin(1 << 20).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let mut held = call.hold();
        let room = tokio::time::timeout(Duration::from_secs(3_600), held.room(1 << 20, end)).await;
        let error = room.expect("it gives up by itself").unwrap_err();
        assert!(Instant::now() < end + Duration::from_secs(1) && error.to_string().contains("--provider-memory"));
        drop(waits_for_the_login);
        held.room(1 << 20, end).await.unwrap();
    }
}
