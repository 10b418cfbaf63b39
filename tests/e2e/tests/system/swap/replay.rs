//! An older component that was signed as well, in the hands of somebody who can write the ConfigMap.

use std::path::Path;
use std::process::Command;

use ccm_e2e::host::program;
use serde_json::Value;

use super::peers::{ELECTED, await_known};
use super::{MAP, NAMESPACE, QUICK, SOURCE, await_status, await_version, serves, version};
use crate::mistakes::ended;
use crate::stage::{LIMIT, Stage};

/// What a command of the folder prints.
fn printed(command: &mut Command, folder: &Path) -> Vec<u8> {
    let told = ended(command.current_dir(folder));
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    told.stdout
}

/// As the guide says it: what lies beside a component that is signed with this counter.
fn signed(folder: &Path, component: &[u8], counter: &str) -> Vec<u8> {
    std::fs::write(folder.join("signed.wasm"), component).unwrap();
    let inspect = &["inspect", "signed.wasm", "--statement", counter];
    let statement = printed(Command::new(program().unwrap()).args(inspect), folder);
    std::fs::write(folder.join("statement"), &statement).unwrap();
    let sign = &["dgst", "-sha256", "-sign", "key.pem", "statement"];
    [statement, printed(Command::new("openssl").args(sign), folder)].concat()
}

#[tokio::test]
async fn an_older_signed_component_is_taken_by_nobody_before_people_allow_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    let folder = stage.folder().to_owned();
    let openssl = |arguments: &[&str]| printed(Command::new("openssl").args(arguments), &folder);
    // A key as cosign makes it.
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "key.pem"]);
    openssl(&["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"]);
    let put_signed = async |name: &str, counter: &str| {
        let component = version(name);
        let beside = signed(&folder, &component, counter);
        let keys = [("p.wasm".to_owned(), component), ("p.wasm.sig".to_owned(), beside)];
        ccm_e2e::manifest::put_config_map(client, NAMESPACE, MAP, keys).await.unwrap();
    };
    let source = format!("--provider={SOURCE}");
    let key = format!("--provider-key={}", folder.join("public.pem").display());
    let flags = || [source.as_str(), &key].into_iter().chain(QUICK).chain(ELECTED);
    put_signed("1", "1").await;
    let host = stage.start(flags());
    host.await_log(LIMIT, &["this process leads"]).await.unwrap();
    serves(client, "n1", "1").await;
    put_signed("2", "2").await;
    await_version(&host, "2").await;
    serves(client, "n2", "2").await;
    let entry = await_known(client, "the counter", |entry| entry["counters"][0]["counter"] == 2).await;
    assert_eq!(entry["counters"][0]["name"], "cloudlycke", "{entry:#}");

    put_signed("1", "1").await;
    let is_refused = |status: &Value| status["refused"]["step"] == "trust";
    let status = await_status(&host, "the older one is refused", is_refused).await;
    assert_eq!((&status["serving"]["version"], &status["serving"]["signed"]["counter"]), (&"2".into(), &2.into()));
    let says = ["it is older than what was proven before: its signature has the counter 1,", "--allow-downgrade"];
    assert!(says.iter().all(|part| status["refused"]["reason"].as_str().unwrap().contains(part)), "{status:#}");
    let pod = stage.start(flags());
    pod.await_log(LIMIT, &says).await.unwrap();
    let (code, text) = pod.page("/readyz").await.unwrap();
    assert!(code == 503 && text.contains(says[0]), "{code} {text}");
    pod.end().await;
    let allowed = stage.start(flags().chain(["--allow-downgrade"]));
    allowed.ready().await;
    await_version(&allowed, "1").await;
    allowed.end().await;
    // The same component, signed again, is what people want.
    put_signed("1", "3").await;
    await_version(&host, "1").await;
    host.end().await;
}
