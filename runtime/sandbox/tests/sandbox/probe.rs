//! The look into a guest's memory, which other tests rely on, sees every call to its end.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Instances as _, Need, Node};
use ccm_egress::ProviderContext;
use ccm_sandbox::{Limits, Pool, Sandbox};
use parking_lot::Mutex;

use crate::rig::{HOSTILE, component, node};

#[tokio::test]
async fn the_memory_of_calls_that_fail_is_seen_as_well() {
    let seen = Arc::new(Mutex::new(Vec::<(&str, Vec<u8>)>::new()));
    let seeing = Arc::clone(&seen);
    let look = move |function: &'static str, memory: &[u8]| seeing.lock().push((function, memory.to_vec()));
    let sandbox = Sandbox::with_memory_probe(Pool::default(), Arc::new(look)).unwrap();
    let limits = Limits { call_time: Duration::from_secs(2), call_cpu: Duration::from_secs(60), ..Limits::default() };
    let component = sandbox.load(component(HOSTILE), limits, false).await.unwrap();
    assert_eq!(seen.lock().iter().map(|(function, _)| *function).collect::<Vec<_>>(), ["meta.describe"]);
    let provider = component.into_provider(ProviderContext::closed(), None, None);
    // The last one is out of time.
    for name in ["good", "panic", "unreachable", "recurse", "grow", "too-few", "spin"] {
        seen.lock().clear();
        // Many, since the guest's allocator writes over some of what is freed.
        let labels = (0..100).map(|number| (format!("label-{number}"), format!("value that is looked for {number}")));
        let asked = Node { labels: labels.collect(), ..node(name) };
        let answer = provider.find(vec![asked], Need::Metadata).await;
        assert_eq!(answer.is_ok(), name == "good", "{name}: {answer:?}");
        let seen = seen.lock();
        let [("instances.find", memory)] = seen.as_slice() else { panic!("{} memories", seen.len()) };
        let words = b"value that is looked for";
        let held = memory.windows(words.len()).any(|bytes| bytes == words);
        assert!(held, "{} bytes of memory hold the node of the call {name}", memory.len());
    }
}

/// The second call gets the very place of the first.
#[tokio::test]
async fn a_place_is_cleared_before_the_next_call_gets_it() {
    const MARK: &str = "value of the call before";
    let marks = Arc::new(Mutex::new(Vec::new()));
    let counting = Arc::clone(&marks);
    let look = move |_: &'static str, memory: &[u8]| {
        counting.lock().push(memory.windows(MARK.len()).filter(|bytes| *bytes == MARK.as_bytes()).count());
    };
    let pool = Pool { calls: NonZeroU32::MIN, ..Pool::default() };
    let sandbox = Sandbox::with_memory_probe(pool, Arc::new(look)).unwrap();
    let component = sandbox.load(component(HOSTILE), Limits::default(), false).await.unwrap();
    let provider = component.into_provider(ProviderContext::closed(), None, None);
    for value in [MARK, "another"] {
        let labels = (0..100).map(|number| (format!("label-{number}"), value.to_owned()));
        let asked = Node { labels: labels.collect(), ..node("good") };
        provider.find(vec![asked], Need::Metadata).await.unwrap();
    }
    assert!(matches!(marks.lock().as_slice(), [0, 1..=usize::MAX, 0]), "{marks:?}");
}
