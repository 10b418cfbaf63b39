//! What a host must survive.

use std::hint::black_box;
use std::time::Duration;

use ccm_sdk::events::{self, Severity};
use ccm_sdk::instances::Finding;
use ccm_sdk::types::{Failure, Node, Problem, Subject};
use ccm_sdk::{cache, http, log};

/// Not in any call that a test makes.
const STRANGER: &str = "not-of-this-call";
/// Where the cache has what is hoarded.
pub(crate) const HOARD: &str = "hoard";

/// Uses its time up.
pub(crate) fn spin() -> ! {
    let mut turns: u64 = 0;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Takes memory until it gets no more. The first `u8` of every page is written, so that the host really gives it.
pub(crate) fn grow() -> ! {
    const STEP: usize = 1 << 20;
    const PAGE: usize = 4 << 10;
    let mut hoard: Vec<Vec<u8>> = vec![];
    loop {
        let mut block: Vec<u8> = vec![];
        if hoard.try_reserve(1).is_err() || block.try_reserve_exact(STEP).is_err() {
            std::process::abort();
        }
        block.resize(STEP, 0);
        for byte in block.iter_mut().step_by(PAGE) {
            *byte = black_box(1);
        }
        hoard.push(black_box(block));
    }
}

/// Uses the host's stack up. Everything is in registers: the component's own stack, which is shorter and lies in its memory,
/// would otherwise end first.
pub(crate) fn recurse() -> Vec<Finding> {
    // What is done with the result cannot be reordered, so the compiler makes no loop of it.
    #[inline(never)]
    fn deeper(depth: u64, end: u64) -> u64 {
        if depth == end { end } else { deeper(depth.wrapping_add(1), end).rotate_left(1) ^ depth }
    }
    vec![Finding::Unknown(Failure::retry(deeper(0, black_box(u64::MAX)).to_string()))]
}

#[expect(clippy::panic, reason = "the attack is a panic")]
pub(crate) fn panic() -> ! {
    panic!("hostile on purpose")
}

/// A failure of a megabyte, with lines that look like somebody else's.
pub(crate) fn chatty() -> Vec<Finding> {
    vec![Finding::Unknown(Failure::retry("first\nlevel=error forged ".repeat(1 << 15)))]
}

/// More complaints than anybody reads, each of them long, the only fatal one last.
pub(crate) fn problems() -> Vec<Problem> {
    let problem = |fatal| Problem { field: "f".repeat(4096), message: "m\n".repeat(2048), fatal, more: vec![] };
    let mut problems = vec![problem(false); 500];
    problems.push(problem(true));
    problems
}

/// One argument of one host call is larger than what a host should copy.
pub(crate) fn huge_string(nodes: &[Node]) -> Vec<Finding> {
    log::info(&"huge ".repeat((32 << 20) / 5), &[]);
    super::well_behaved(nodes)
}

/// The answer is larger than what a host should copy.
pub(crate) fn huge_answer() -> Vec<Finding> {
    vec![Finding::Unknown(Failure::retry("x".repeat(16 << 20)))]
}

/// More lines than anybody reads, some of which pretend to be others, clear the terminal, or do not end.
pub(crate) fn log_flood(nodes: &[Node]) -> Vec<Finding> {
    let long = "long ".repeat(4 << 10);
    for line in 0..10_000 {
        let message = match line % 4 {
            0 => "plain",
            1 => "first\nlevel=error msg=\"second\"\r\n",
            2 => "\u{1b}[2J\u{1b}[31mred\u{7}\u{0}\u{202e}desrever",
            _ => &long,
        };
        log::info(message, &[("line", &line), ("a\nb=c", &message)]);
    }
    super::well_behaved(nodes)
}

/// Events in numbers, half of them about a Node that is none of this call's business.
pub(crate) fn event_flood(nodes: &[Node]) -> Vec<Finding> {
    let own = nodes.first().map_or(STRANGER, |node| node.name.as_str());
    for event in 0..1_000 {
        let about = if event % 2 == 0 { own } else { STRANGER };
        events::emit(&Subject::Node(about.to_owned()), Severity::Warning, "Hostile", &format!("event {event}"));
    }
    super::well_behaved(nodes)
}

/// More than twice what a cache holds, each value under a name of its own.
pub(crate) fn cache_flood(nodes: &[Node]) -> Vec<Finding> {
    let value = vec![7; 64 << 10];
    for number in 0..150 {
        cache::put(&format!("flood-{number}"), &value, Duration::from_secs(3_600));
    }
    super::well_behaved(nodes)
}

/// Three megabytes under one name, which every later call can read.
pub(crate) fn cache_hoard(nodes: &[Node]) -> Vec<Finding> {
    let value = vec![7; 3 << 20];
    cache::put(HOARD, &value, Duration::from_secs(3_600));
    super::well_behaved(nodes)
}

/// As many requests at once as fit into its memory.
pub(crate) fn send_all(nodes: &[Node]) -> Vec<Finding> {
    let requests: Vec<_> = (0..200_000).map(|_| super::probe::request()).collect();
    black_box(http::send_all(&requests));
    super::well_behaved(nodes)
}

/// One request after another, whatever is said of them.
pub(crate) fn request_flood(nodes: &[Node]) -> Vec<Finding> {
    for _ in 0..5_000 {
        drop(http::send(&super::probe::request()));
    }
    super::well_behaved(nodes)
}
