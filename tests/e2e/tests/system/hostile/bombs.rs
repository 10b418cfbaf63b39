//! Components that would burst in the compiler, for a leader and for the one that stands by.

use std::path::Path;
use std::time::Duration;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{component, until};

use crate::bytes::gzip;
use crate::look::await_untainted;
use crate::stage::{Actor, LIMIT, Stage};

/// How long a host may compute before it has refused one: a compiler would take minutes.
const REFUSED: Duration = Duration::from_secs(15);
/// How much more memory than before a host may have had while it looked.
const MORE: u64 = 128 << 20;

fn core(code: &str) -> Vec<u8> {
    wat::parse_str(format!("(component (core module {code}))")).unwrap()
}

/// What it is, its bytes, and what is said of it.
fn bombs() -> [(&'static str, Vec<u8>, &'static str); 6] {
    let giant = format!("(func {})", "(drop (i32.const 0))".repeat(100_000));
    // Each component has the one before twice: 2 to the power of 40 of them.
    let inner = "(component (core module $m (func)) (core instance (instantiate $m)))".to_owned();
    let unfolds = (0..40)
        .fold(inner, |inner, _| format!("(component {inner} (instance (instantiate 0)) (instance (instantiate 0)))"));
    let types = (0..25_000).map(|number| format!("(type (func (param i32) (result i32))) ;; {number}\n"));
    [
        ("a hundred thousand functions", core(&"(func)".repeat(100_000)), "limit functions"),
        ("a giant function", core(&giant), "limit function-bytes"),
        ("types without end", core(&types.collect::<String>()), "limit types"),
        ("globals without end", core(&"(global i32 (i32.const 0))".repeat(60_000)), "limit module-items"),
        ("components in components", wat::parse_str(unfolds).unwrap(), "limit functions"),
        ("a thousand times as large unpacked", gzip(&vec![0; 64 << 20]), "limit component-bytes"),
    ]
}

fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// Waits until a host has refused what is in the file for this reason.
async fn await_refused(host: &Actor, reason: &str) {
    let refused = async || {
        let (_, text) = host.page("/providerz?format=json").await?;
        let all: serde_json::Value = serde_json::from_str(&text)?;
        let mut providers = all.as_object().into_iter().flat_map(|all| all.values());
        Ok(providers.any(|one| one["refused"]["reason"].as_str().is_some_and(|said| said.contains(reason))))
    };
    until(LIMIT, refused).await.unwrap_or_else(|_| panic!("nothing says {reason}; the log:\n{}", host.log_text()));
}

#[tokio::test]
async fn components_that_would_burst_in_the_compiler_stop_neither_the_leader_nor_the_one_that_stands_by() {
    let stage = Stage::new().await;
    let client = stage.client();
    let good = std::fs::read(component("guests/hostile.wasm").unwrap()).unwrap();
    let file = stage.file("p.wasm", &good);
    let flags = [
        &format!("--provider={}", file.display()),
        "--provider-poll=100ms",
        "--provider-settle=50ms",
        "--leader-elect=true",
        "--leader-elect-retry-period=500ms",
    ];
    let leader = stage.start(flags);
    leader.ready().await;
    let standby = stage.start(flags);
    standby.ready().await;
    let hosts = [&leader, &standby];
    let before = hosts.map(|host| host.memory().unwrap().1);
    for (number, (what, bytes, limit)) in bombs().into_iter().enumerate() {
        let computed = hosts.map(|host| host.cpu().unwrap());
        replace(&file, &bytes);
        for (host, before) in hosts.into_iter().zip(computed) {
            await_refused(host, limit).await;
            assert_eq!(host.page("/readyz").await.unwrap().0, 200, "{what}");
            let computed = host.cpu().unwrap() - before;
            assert!(computed <= REFUSED, "{what} took {computed:?}");
        }
        let name = format!("good-{number}");
        NodeFixture::new(&name).register(client).await.unwrap();
        await_untainted(client, &name).await;
        // Else the next one would be a change of what was refused.
        replace(&file, &good);
    }
    for (host, before) in hosts.into_iter().zip(before) {
        let (_, peak) = host.memory().unwrap();
        assert!(peak <= before + MORE, "a host had {peak} bytes, before {before}");
    }
    leader.end().await;
    standby.end().await;
}
