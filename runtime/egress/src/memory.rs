//! One budget for the memory of all calls of all providers: linear memories and tables of guests, and what the host keeps for them.
//!
//! | who | finds no room | then |
//! |---|---|---|
//! | a call that has not begun | waits | begins as soon as there is what its provider usually needs |
//! | a call that grows | waits | goes on as soon as another call ends |
//! | the last call that does not wait | would wait for ever | ends ([`NoRoom`]), and others get what it had |
//!
//! Half of the budget is divided among the providers. The other half is for whoever needs it. So a provider that takes all it can get
//! leaves the others their share.
//!
//! Calls wait in a line. A call that begins takes no memory that a call before it waits for; from the share of its provider, none that another
//! call of this provider waits for. A call that grows goes ahead of those that have not begun: they wait for the memory that it holds.
//!
//! A call that grows within what it has been given takes no lock that another call needs.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A call that needs more takes this much at least, so that it need not ask for each page.
const STEP: usize = 256 << 10;
/// What a provider usually needs falls by this part with each call that needs less.
const FORGETTING: usize = 16;

/// There is no room for a call, and waiting would not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no memory is left for it: all calls of all providers have {budget} bytes together (limit --provider-memory); raise that and the \
     memory of the container, or lower --provider-calls or the limit memory-bytes"
)]
pub struct NoRoom {
    /// Bytes of the whole budget.
    pub budget: usize,
}

/// The budget. Cheap to clone.
#[derive(Clone)]
pub struct MemoryBudget(Arc<MemoryPool>);

struct MemoryPool {
    bytes: usize,
    /// Of each provider, for itself.
    share: usize,
    /// How many providers get one.
    shares: usize,
    /// Free, for everybody.
    common: AtomicUsize,
    /// Calls that have been given memory.
    calls: AtomicUsize,
    /// Those of them that wait for more.
    stuck: AtomicUsize,
    /// Who waits, for whatever.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    freed: Notify,
    providers: Mutex<BTreeMap<String, Weak<MemoryShare>>>,
}

/// Calls that wait, the first one first.
#[derive(Default)]
struct Line {
    tickets: u64,
    places: Vec<WaitingCall>,
}

/// A place in the line, while it is kept.
#[derive(Clone, Copy)]
struct WaitingCall {
    ticket: u64,
    /// Where the [`MemoryShare`] is.
    share: usize,
}

/// A provider's part of the budget.
pub struct MemoryShare {
    budget: Arc<MemoryPool>,
    /// Free, for its calls.
    own: AtomicUsize,
    /// All of that.
    whole: usize,
    /// What one of its calls usually needs: a call begins when it can have that, since one that waits later holds what it has.
    usual: AtomicUsize,
}

/// What one call has been given. Returned when the last clone is dropped.
#[derive(Clone, Default)]
pub struct CallMemory(Option<Arc<Account>>);

struct Account {
    share: Arc<MemoryShare>,
    given: Mutex<Given>,
    /// How many parts of the call wait for more.
    waiting: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Given {
    own: usize,
    common: usize,
    used: usize,
    most: usize,
}

// === impl MemoryBudget ===

impl MemoryBudget {
    /// So many bytes, for so many providers.
    #[must_use]
    pub fn new(bytes: usize, providers: usize) -> Self {
        let shares = providers.max(1);
        let share = bytes / 2 / shares;
        Self(Arc::new(MemoryPool {
            bytes,
            share,
            shares,
            common: AtomicUsize::new(for_everybody(bytes, share, shares)),
            calls: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            freed: Notify::new(),
            providers: Mutex::default(),
        }))
    }

    /// The part of a provider, by its name. Of more providers than there are shares, and of one without a name, the calls have what is
    /// for everybody.
    #[must_use]
    pub fn share(&self, provider: &str) -> Arc<MemoryShare> {
        let of = |whole| MemoryShare {
            budget: Arc::clone(&self.0),
            own: AtomicUsize::new(whole),
            whole,
            usual: AtomicUsize::new(0),
        };
        if provider.is_empty() {
            return Arc::new(of(0));
        }
        let mut providers = self.0.providers.lock();
        if let Some(share) = providers.get(provider).and_then(Weak::upgrade) {
            return share;
        }
        // Whatever a refused component called itself is forgotten with it.
        providers.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(of(if providers.len() < self.0.shares { self.0.share } else { 0 }));
        providers.insert(provider.to_owned(), Arc::downgrade(&share));
        share
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Bytes that calls have been given now.
    #[must_use]
    pub fn given(&self) -> usize {
        let taken = |whole: usize, free: &AtomicUsize| whole.saturating_sub(free.load(Ordering::Relaxed));
        let common = taken(self.0.for_everybody(), &self.0.common);
        let providers = self.0.providers.lock();
        let shares = providers.values().filter_map(Weak::upgrade);
        shares.map(|share| taken(share.whole, &share.own)).fold(common, usize::saturating_add)
    }
}

impl MemoryPool {
    /// Waits until `attempt` has something. One that cannot is asked again whenever memory was returned.
    async fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        let _waits = Count::of(&self.waiting);
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on no return is missed.
            freed.as_mut().enable();
            if let Some(got) = attempt() {
                return got;
            }
            freed.await;
        }
    }

    /// Memory was returned, or a call has ended.
    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    const fn for_everybody(&self) -> usize {
        for_everybody(self.bytes, self.share, self.shares)
    }

    const fn no_room(&self) -> NoRoom {
        NoRoom { budget: self.bytes }
    }
}

const fn for_everybody(bytes: usize, share: usize, shares: usize) -> usize {
    bytes.saturating_sub(share.saturating_mul(shares))
}

/// Counts somebody for as long as it lives.
struct Count<'a>(&'a AtomicUsize);

impl<'a> Count<'a> {
    fn of(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn take(free: &AtomicUsize, bytes: usize) -> bool {
    free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| free.checked_sub(bytes)).is_ok()
}

fn take_some(free: &AtomicUsize, bytes: usize) -> usize {
    let before = free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| Some(free.saturating_sub(bytes)));
    before.unwrap_or_else(|before| before).min(bytes)
}

// === impl MemoryShare ===

impl MemoryShare {
    /// Memory for a call that takes `fixed` bytes before anything of it runs. None: there is none now, or others wait for it.
    #[must_use]
    pub fn try_begin(self: &Arc<Self>, fixed: usize) -> Option<CallMemory> {
        self.begin_at(None, fixed)
    }

    /// Waits for it, behind those who wait already.
    ///
    /// # Errors
    ///
    /// There will never be as much.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes nothing.
    pub async fn begin(self: &Arc<Self>, fixed: usize) -> Result<CallMemory, NoRoom> {
        if fixed > self.reach() {
            return Err(self.budget.no_room());
        }
        let place = InLine::new(self);
        Ok(self.budget.wait(|| self.begin_at(Some(place.0), fixed)).await)
    }

    /// With as much as its calls usually need, or, where others have what is for everybody, with as much of that as its own share has.
    fn begin_at(self: &Arc<Self>, place: Option<WaitingCall>, fixed: usize) -> Option<CallMemory> {
        let line = self.budget.line.lock();
        if line.is_behind(place, |other| other.share == self.id()) {
            return None;
        }
        let usual = self.usual.load(Ordering::Relaxed);
        let all = || if line.is_behind(place, |_| true) { None } else { self.take(fixed.max(usual.min(self.reach()))) };
        let own = || {
            let bytes = fixed.max(usual.min(self.whole));
            take(&self.own, bytes).then_some((bytes, 0))
        };
        let (own, common) = all().or_else(own)?;
        self.budget.calls.fetch_add(1, Ordering::SeqCst);
        let given = Mutex::new(Given { own, common, used: fixed, most: fixed });
        Some(CallMemory(Some(Arc::new(Account { share: Arc::clone(self), given, waiting: AtomicUsize::new(0) }))))
    }

    /// All that its calls can ever have.
    fn reach(&self) -> usize {
        self.budget.for_everybody().saturating_add(self.whole)
    }

    /// Where it is, which is nowhere else while it lives.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Of its own first. All or nothing.
    fn take(&self, bytes: usize) -> Option<(usize, usize)> {
        let own = take_some(&self.own, bytes);
        let common = bytes.saturating_sub(own);
        if common == 0 || take(&self.budget.common, common) {
            return Some((own, common));
        }
        // Nobody is woken by what was there before: the one who failed would wake itself.
        self.give(own, 0);
        None
    }

    fn give(&self, own: usize, common: usize) {
        if own > 0 {
            self.own.fetch_add(own, Ordering::SeqCst);
        }
        if common > 0 {
            self.budget.common.fetch_add(common, Ordering::SeqCst);
        }
    }
}

// === impl CallMemory ===

impl CallMemory {
    /// Counts more, if there is room now.
    #[must_use]
    pub fn try_grow(&self, by: usize) -> bool {
        self.0.as_ref().is_none_or(|account| account.try_grow(by))
    }

    /// Counts more, when there is room.
    ///
    /// # Errors
    ///
    /// All calls that have memory wait for more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future counts nothing.
    pub async fn grow(&self, by: usize) -> Result<(), NoRoom> {
        match &self.0 {
            Some(account) if !account.try_grow(by) => account.wait(by).await,
            _ => Ok(()),
        }
    }

    /// The same, for whoever keeps others waiting meanwhile: until `end`.
    ///
    /// # Errors
    ///
    /// As [`grow`](Self::grow), or there was no room until then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future counts nothing.
    pub async fn grow_until(&self, by: usize, end: Instant) -> Result<(), NoRoom> {
        match &self.0 {
            Some(account) if !account.try_grow(by) => {
                let waited = tokio::time::timeout_at(end, account.wait(by)).await;
                waited.unwrap_or_else(|_elapsed| Err(account.share.budget.no_room()))
            }
            _ => Ok(()),
        }
    }

    /// Counts less. The call keeps what it was given, for later, or for another part of it that waits.
    pub fn shrink(&self, by: usize) {
        if let Some(account) = &self.0 {
            account.shrink(by);
        }
    }

    /// Why the call does not go on, if that is it.
    #[must_use]
    pub fn lacks_room(&self) -> Option<NoRoom> {
        let account = self.0.as_ref()?;
        (account.waiting.load(Ordering::SeqCst) > 0).then(|| account.share.budget.no_room())
    }
}

impl Account {
    fn try_grow(&self, by: usize) -> bool {
        let mut given = self.given.lock();
        let used = given.used.saturating_add(by);
        let has = given.own.saturating_add(given.common);
        if let Some(missing) = used.checked_sub(has).filter(|missing| *missing > 0) {
            let taken = self.share.take(missing.max(STEP)).or_else(|| self.share.take(missing));
            let Some((own, common)) = taken else { return false };
            given.own = given.own.saturating_add(own);
            given.common = given.common.saturating_add(common);
        }
        given.used = used;
        given.most = given.most.max(used);
        true
    }

    fn shrink(&self, by: usize) {
        {
            let mut given = self.given.lock();
            given.used = given.used.saturating_sub(by);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.share.budget.wake();
        }
    }

    async fn wait(&self, by: usize) -> Result<(), NoRoom> {
        let budget = &*self.share.budget;
        let _place = InLine::new(&self.share);
        let _waits = Stuck::new(self);
        let attempt = || {
            if self.try_grow(by) {
                return Some(Ok(()));
            }
            let all_wait = budget.stuck.load(Ordering::SeqCst) >= budget.calls.load(Ordering::SeqCst);
            all_wait.then(|| Err(budget.no_room()))
        };
        budget.wait(attempt).await
    }
}

impl Line {
    /// Whether others wait that came before `place`; all others, for whoever has none.
    fn is_behind(&self, place: Option<WaitingCall>, counts: impl Fn(&WaitingCall) -> bool) -> bool {
        let first = self.places.iter().find(|place| counts(place));
        first.is_some_and(|first| place.is_none_or(|place| first.ticket != place.ticket))
    }
}

/// Keeps a place in the line.
struct InLine<'a>(WaitingCall, &'a MemoryPool);

impl<'a> InLine<'a> {
    fn new(share: &'a MemoryShare) -> Self {
        let mut line = share.budget.line.lock();
        line.tickets = line.tickets.wrapping_add(1);
        let place = WaitingCall { ticket: line.tickets, share: share.id() };
        line.places.push(place);
        Self(place, &share.budget)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.1.line.lock().places.retain(|place| place.ticket != self.0.ticket);
        // The next one may have what this one waited for, or left.
        self.1.wake();
    }
}

/// A part of a call that waits for more. Several of one call count as one.
struct Stuck<'a>(&'a Account);

impl<'a> Stuck<'a> {
    fn new(account: &'a Account) -> Self {
        if account.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            account.share.budget.stuck.fetch_add(1, Ordering::SeqCst);
        }
        Self(account)
    }
}

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.share.budget.stuck.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Given { own, common, most, .. } = *self.given.get_mut();
        let usual = self.share.usual.load(Ordering::Relaxed);
        let usual = most.max(usual.saturating_sub(usual / FORGETTING));
        self.share.usual.store(usual, Ordering::Relaxed);
        // In this order: who sees that no call is left finds all the memory, and who is woken sees which calls are left.
        self.share.give(own, common);
        self.share.budget.calls.fetch_sub(1, Ordering::SeqCst);
        self.share.budget.wake();
    }
}
