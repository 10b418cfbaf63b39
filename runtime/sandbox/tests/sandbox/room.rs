//! Calls that together need more memory than the process has.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{FindError, Instances as _, Need};
use ccm_egress::{Cache, ProviderContext};
use ccm_sandbox::{CallError, Limits, LoadError, Pool, Provider, Sandbox};
use tokio::task::JoinSet;

use crate::rig::{HOSTILE, Record, component, found, node};
use crate::splice::Splice;

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

fn sandbox(memory_bytes: usize, providers: usize) -> Sandbox {
    Sandbox::with_pool(Pool { memory_bytes, providers, ..Pool::default() }).unwrap()
}

async fn provider(sandbox: &Sandbox, name: &str, limits: Limits) -> (Arc<Provider>, Arc<Record>) {
    let component = sandbox.load(component(HOSTILE), limits, false).await.unwrap().configured(Some(name), &[]);
    let record = Arc::new(Record::default());
    (Arc::new(component.into_provider(ProviderContext::closed(), None, Some(Arc::clone(&record) as _))), record)
}

/// 32 calls of 64 MiB each ended a process of 512 MiB, as often as it was started. Here all is an eighth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_take_all_they_can_get_never_have_more_than_the_process() {
    let limits = Limits { memory_bytes: 8 * MIB, ..Limits::default() };
    let sandbox = sandbox(32 * MIB, 1);
    let memory = sandbox.memory();
    let (provider, record) = provider(&sandbox, "hostile", limits).await;
    let mut growing = JoinSet::new();
    for _ in 0..32 {
        let (provider, memory) = (Arc::clone(&provider), memory.clone());
        growing.spawn(async move {
            let error = provider.find(vec![node("grow")], Need::Metadata).await.unwrap_err();
            (error, memory.given())
        });
    }
    for (error, given) in tokio::time::timeout(PATIENCE, growing.join_all()).await.unwrap() {
        assert!(given <= 32 * MIB, "{given}");
        let text = error.to_string();
        match error {
            FindError::Crashed(_) => assert!(text.contains("limit memory-bytes"), "{text}"),
            // Neither its fault nor that of the number of Nodes.
            FindError::Failed(_) => assert!(
                ["hostile", "33554432 bytes", "--provider-memory"].iter().all(|part| text.contains(part)),
                "{text}"
            ),
        }
    }
    let ends: Vec<_> = record.take_ends().into_iter().map(|end| end.outcome).collect();
    assert_eq!(ends.len(), 32);
    assert!(ends.iter().all(|outcome| ["out-of-memory", "no-room"].contains(outcome)), "{ends:?}");
    assert!(ends.contains(&"out-of-memory"), "those that waited went on");
    assert_eq!(memory.given(), 0);
    assert_eq!(provider.find(vec![node("good")], Need::Metadata).await, Ok(vec![found("good", &[])]));
    let (_, crashes) = provider.crashes();
    assert_eq!(usize::try_from(crashes).unwrap(), ends.iter().filter(|outcome| **outcome == "out-of-memory").count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_beside_one_that_takes_all_it_can_get_has_its_share() {
    let sandbox = sandbox(32 * MIB, 2);
    let limits = Limits { memory_bytes: 8 * MIB, ..Limits::default() };
    let (greedy, _) = provider(&sandbox, "hostile", limits).await;
    let (other, record) = provider(&sandbox, "scripted", limits).await;
    let mut growing = JoinSet::new();
    for _ in 0..32 {
        let greedy = Arc::clone(&greedy);
        growing.spawn(async move { drop(greedy.find(vec![node("grow")], Need::Metadata).await) });
    }
    for _ in 0..50 {
        let findings = other.find(vec![node("good")], Need::Metadata).await;
        assert_eq!(findings.map(|findings| findings.len()), Ok(1));
    }
    assert!(record.take_ends().iter().all(|end| end.outcome == "ok"));
    tokio::time::timeout(PATIENCE, growing.join_all()).await.unwrap();
}

/// A million globals in 16 instances took 256 MB of a call that had 64 MiB.
#[tokio::test]
async fn what_modules_multiply_is_counted_before_and_while_they_run() {
    let globals = |count: usize| format!("(module {})", "(global i64 (i64.const 0))".repeat(count));
    let hostile = || Splice::new(component(HOSTILE));
    let load = async |bytes: Vec<u8>, memory| sandbox(memory, 1).load(bytes, Limits::default(), true).await.err();

    let error = load(hostile().instances(&globals(51_000), 1).done(), 64 * MIB).await.unwrap();
    let text = error.to_string();
    assert!(text.contains("50000 imports, exports, globals") && text.contains("module-items"), "{text}");

    // Together 19 MiB: what describes itself has half of the memory.
    let many = hostile().instances(&globals(40_000), 10).done();
    assert!(load(many.clone(), 64 * MIB).await.is_none());
    let error = load(many, 32 * MIB).await.unwrap();
    assert!(matches!(error, LoadError::Describe(CallError::OutOfRoom(..))), "{error}");
    let text = error.to_string();
    assert!(text.contains("33554432 bytes") && text.contains("--provider-memory"), "{text}");
}

#[tokio::test]
async fn tables_count_as_well() {
    // 15 MiB of elements; what describes itself has half of the memory.
    let tables = format!("(module {})", "(table 200000 funcref)".repeat(10));
    let limits = Limits { table_elements: 200_000, ..Limits::default() };
    for (module, memory, is_taken) in
        [("(module)", 16 * MIB, true), (tables.as_str(), 16 * MIB, false), (tables.as_str(), 64 * MIB, true)]
    {
        let bytes = Splice::new(component(HOSTILE)).instances(module, 1).done();
        let error = sandbox(memory, 1).load(bytes, limits, true).await.err();
        assert_eq!(error.is_none(), is_taken, "{memory}: {error:?}");
        assert!(error.is_none_or(|error| matches!(error, LoadError::Describe(CallError::OutOfRoom(..)))));
    }
}

/// Labels of machines were nobody's memory: the host had them for every call at the same time.
#[tokio::test]
async fn what_a_guest_answers_counts_as_memory_of_its_call() {
    let limits = Limits { host_call_bytes: 128 * MIB, ..Limits::default() };
    for (memory_bytes, has_room) in [(48 * MIB, false), (256 * MIB, true)] {
        let sandbox = sandbox(memory_bytes, 1);
        let memory = sandbox.memory();
        let (provider, record) = provider(&sandbox, "hostile", limits).await;
        let answer = provider.find(vec![node("huge-list")], Need::Metadata).await;
        let text = format!("{answer:?}");
        if has_room {
            assert!(text.contains("300000 labels of a machine"), "{text}");
        } else {
            let error = answer.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, FindError::Failed(_)), "{text}");
            assert!(
                ["hostile", "50331648 bytes", "--provider-memory"].iter().all(|part| text.contains(part)),
                "{text}"
            );
            assert_eq!(record.take_ends().pop().map(|end| end.outcome), Some("no-room"));
        }
        assert_eq!(memory.given(), 0);
        assert_eq!(provider.find(vec![node("good")], Need::Metadata).await, Ok(vec![found("good", &[])]));
    }
}

/// Each call that read the cache had a copy of up to 4 MiB, and while it waited for room for its own, nobody had counted that.
#[tokio::test]
async fn what_is_read_from_the_cache_counts_until_the_guest_asks_again() {
    // A call takes 2 MiB and its own copy of 3. There is room for the copy of the host as well, or not; for two of those, never.
    for (memory_bytes, has_room) in [(13 * MIB / 2, false), (19 * MIB / 2, true)] {
        let sandbox = sandbox(memory_bytes, 1);
        let memory = sandbox.memory();
        let component = sandbox.load(component(HOSTILE), Limits::default(), false).await.unwrap();
        let context = ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), ..ProviderContext::closed() };
        let provider = component.into_provider(context, None, None);
        let find = async |name: &str| provider.find(vec![node(name)], Need::Metadata).await;
        assert_eq!(find("cache-hoard").await, Ok(vec![found("cache-hoard", &[])]));
        let read = find("cache-hoard-read").await;
        if has_room {
            let labels = [("hostile.example/hoard", "3145728-3145728")];
            assert_eq!(read, Ok(vec![found("cache-hoard-read", &labels)]));
        } else {
            let error = read.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, FindError::Failed(_)) && text.contains("--provider-memory"), "{text}");
        }
        assert_eq!(memory.given(), 0);
    }
}
