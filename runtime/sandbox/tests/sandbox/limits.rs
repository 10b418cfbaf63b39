//! Limits that only a component with more in it than ours can hit: real ones, spliced. What a component takes while it is
//! instantiated counts from its first call on, which is `describe`, so that it is refused at load.

use ccm_egress::Settings;
use ccm_sandbox::{Limits, LoadError};

use crate::rig::{HOSTILE, HOSTILE_WASI, RAISE, Rig, component};
use crate::splice::Splice;

const EMPTY: &str = "(module)";
const MEMORY: &str = "(module (memory 1))";
const TABLE: &str = "(module (table 1 funcref))";

/// What is said of a component; none when it is taken.
async fn refusal(bytes: Vec<u8>, limits: Limits) -> Option<String> {
    let error = Rig::of(bytes, limits, Settings::default()).await.err()?;
    assert!(matches!(error, LoadError::Describe(_)), "{error}");
    Some(error.to_string())
}

fn hostile() -> Splice {
    Splice::new(component(HOSTILE))
}

/// The smallest limit with which the component is taken.
async fn least(bytes: &[u8], limits: impl Fn(usize) -> Limits) -> usize {
    for limit in 0..20 {
        if refusal(bytes.to_vec(), limits(limit)).await.is_none() {
            return limit;
        }
    }
    panic!("20 are not enough");
}

#[tokio::test]
async fn memories_tables_and_instances_are_limited_in_number() {
    for (what, limit_name, module) in
        [("memory", "memories", MEMORY), ("table", "tables", TABLE), ("instance", "instances", EMPTY)]
    {
        let limits = |limit| match what {
            "memory" => Limits { memories: limit, instances: 100, ..Limits::default() },
            "table" => Limits { tables: limit, instances: 100, ..Limits::default() },
            _ => Limits { instances: limit, ..Limits::default() },
        };
        let own = least(&component(HOSTILE), limits).await;
        let more = hostile().instances(module, 3).done();
        assert_eq!(refusal(more.clone(), limits(own + 3)).await, None, "{what}");
        assert_eq!(
            refusal(more, limits(own + 2)).await,
            Some(format!(
                "its function describe failed: the provider crashed: resource limit exceeded: {what} count too high at {} \
                 (limit {limit_name}){RAISE}",
                own + 3
            ))
        );
    }
}

#[tokio::test]
async fn the_defaults_hold_for_four_memories_sixteen_tables_and_sixteen_instances() {
    for (module, times, what) in
        [(MEMORY, 4, "memory count too high at 5"), (EMPTY, 16, "instance count too high at 17")]
    {
        let message = refusal(hostile().instances(module, times).done(), Limits::default()).await.unwrap();
        assert!(message.contains(what), "{message}");
    }
    // Two are its own.
    let many = format!("(module {})", "(table 1 funcref)".repeat(15));
    let message = refusal(hostile().instances(&many, 1).done(), Limits::default()).await.unwrap();
    assert!(message.contains("table count too high at 17 (limit tables)"), "{message}");
}

#[tokio::test]
async fn memories_are_summed_up() {
    // 37.5 MiB each: one fits into 64 MiB, two do not.
    let module = "(module (memory 600))";
    assert_eq!(refusal(hostile().instances(module, 1).done(), Limits::default()).await, None);
    assert_eq!(
        refusal(hostile().instances(module, 2).done(), Limits::default()).await.unwrap(),
        format!("its function describe failed: more than 67108864 bytes of memory (limit memory-bytes){RAISE}")
    );
}

#[tokio::test]
async fn memory_that_is_asked_for_and_never_given_does_not_count() {
    // Two pages may be had, 500 are asked for a hundred times; then 37.5 MiB more are needed elsewhere.
    let asks = "(module (memory 1 2)
        (func $f (local $i i32)
            (loop
                (drop (memory.grow (i32.const 500)))
                (drop (memory.grow (i32.const 70000)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if 0 (i32.lt_u (local.get $i) (i32.const 100)))))
        (start $f))";
    let bytes = hostile().instances(asks, 1).instances("(module (memory 600))", 1).done();
    assert_eq!(refusal(bytes, Limits::default()).await, None);
}

#[tokio::test]
async fn a_table_is_limited_at_birth_and_when_it_grows() {
    let too_large =
        format!("its function describe failed: a table of more than 20000 elements (limit table-elements){RAISE}");
    let too_large = too_large.as_str();
    let born = |elements: u32| hostile().instances(&format!("(module (table {elements} funcref))"), 1).done();
    assert_eq!(refusal(born(20_000), Limits::default()).await, None);
    assert_eq!(refusal(born(20_001), Limits::default()).await.as_deref(), Some(too_large));
    // Aborts when it gets no more, as a guest would.
    let grown = |elements: u32| {
        let module = format!(
            "(module (table $t 1 funcref)
                (func $f (if (i32.eq (table.grow $t (ref.null func) (i32.const {})) (i32.const -1)) (then unreachable)))
                (start $f))",
            elements - 1
        );
        hostile().instances(&module, 1).done()
    };
    assert_eq!(refusal(grown(20_000), Limits::default()).await, None);
    assert_eq!(refusal(grown(20_001), Limits::default()).await.as_deref(), Some(too_large));
}

/// Calls import `r` so many times and keeps what it gets.
fn take(function: &str, times: u32) -> String {
    format!(
        r#"(module
            (import "r" "{function}" (func $take {}))
            (func $f (local $i i32)
                (loop
                    (drop (call $take {}))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if 0 (i32.lt_u (local.get $i) (i32.const {times})))))
            (start $f))"#,
        if function == "new" { "(param i32) (result i32)" } else { "(result i32)" },
        if function == "new" { "(i32.const 7)" } else { "" },
    )
}

#[tokio::test]
async fn handles_of_a_guests_own_resources_are_limited() {
    let bytes = |times| hostile().with_resource(&take("new", times)).done();
    assert_eq!(refusal(bytes(1_000), Limits::default()).await, None);
    let message = refusal(bytes(1_001), Limits::default()).await.unwrap();
    assert!(message.contains("handle") && message.contains("(limit handles)"), "{message}");
    assert_eq!(refusal(bytes(1_001), Limits { handles: 1_001, ..Limits::default() }).await, None);
}

#[tokio::test]
async fn handles_of_the_hosts_resources_are_limited() {
    let bytes = |times| {
        Splice::new(component(HOSTILE_WASI))
            .with_import("wasi:cli/stdout", "get-stdout", &take("get-stdout", times))
            .done()
    };
    // The component's own start may hold a few.
    assert_eq!(refusal(bytes(900), Limits::default()).await, None);
    let message = refusal(bytes(1_001), Limits::default()).await.unwrap();
    assert!(message.contains("(limit handles)"), "{message}");
    assert_eq!(refusal(bytes(1_001), Limits { handles: 1_200, ..Limits::default() }).await, None);
}
