//! What happens, at random.

use fastrand::Rng;

use super::{Does, SERVICES};

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event {
    /// Somebody uploads a new version, which does this.
    Upload(Does),
    /// Somebody uploads a version of before.
    Revert(usize),
    /// A replica sees what the source holds. One that begins takes its next step: it hears of the others and chooses, or puts what it chose into
    /// its slot.
    See(usize),
    /// A replica tells what it has found out, and hears what the other one has told.
    Hear(usize),
    /// The leader works on a Service.
    Work(usize),
    /// The leader looks for machines.
    Find,
    /// A Service comes, or is deleted.
    Want(usize, bool),
    /// The cloud answers nobody, or everybody.
    Outage(bool),
    /// The component that serves at the leader does this from now on.
    Does(Does),
    /// The other replica leads.
    Failover,
    /// A replica ends in order, and comes back with what it had kept.
    Restart(usize),
    /// A replica is killed, and comes back with what it had kept.
    Kill(usize),
    /// Another pod takes the place of a replica: it has nothing but the source.
    NewPod(usize),
    /// All pods are replaced at once.
    Blackout,
    /// Somebody writes another configuration, which may be narrow.
    Write(bool),
    /// The files of a replica hold that by now, and it looks at them.
    Configure(usize),
    /// The credentials of all configurations but the newest one end.
    Revoke,
    /// Seconds pass.
    Time(u64),
}

pub(super) fn event(random: &mut Rng) -> Event {
    let of = |random: &mut Rng, all: &[Does]| all[random.usize(..all.len())];
    const UPLOADS: [Does; 10] = [
        Does::Right,
        Does::Right,
        Does::Crash,
        Does::CrashAfterwards,
        Does::Lose,
        Does::Rename,
        Does::RenameSome,
        Does::Leave,
        Does::Fail,
        Does::Misname,
    ];
    match random.u32(..108) {
        0..10 => Event::Upload(of(random, &UPLOADS)),
        10..15 => Event::Revert(random.usize(..8)),
        15..27 => Event::See(random.usize(..2)),
        27..34 => Event::Hear(random.usize(..2)),
        34..60 => Event::Work(random.usize(..SERVICES.len())),
        60..70 => Event::Find,
        70..82 => Event::Want(random.usize(..SERVICES.len()), random.u32(..3) > 0),
        82..86 => Event::Outage(random.bool()),
        86..89 => Event::Does(of(random, &[Does::Right, Does::Crash, Does::Fail])),
        89..92 => Event::Failover,
        92 => Event::Restart(random.usize(..2)),
        93..95 => Event::Kill(random.usize(..2)),
        95 => Event::NewPod(random.usize(..2)),
        96 if random.u32(..4) == 0 => Event::Blackout,
        100..102 => Event::Write(random.bool()),
        102..107 => Event::Configure(random.usize(..2)),
        107 => Event::Revoke,
        _ => Event::Time(random.u64(..90)),
    }
}
