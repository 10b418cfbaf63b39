//! Components that `run` would refuse: too large, or not signed as the operator wants it.

use std::process::Command;

use super::asked;
use crate::mistakes::ended;
use crate::stage::cloudlycke;

#[test]
fn a_component_that_is_too_large_or_not_signed_is_told_with_its_step_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &[&str]| {
        let told = ended(Command::new("openssl").args(arguments).current_dir(folder.path()));
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    };
    for key in ["our", "other"] {
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", &format!("{key}.pem")]);
        openssl(&["pkey", "-in", &format!("{key}.pem"), "-pubout", "-out", &format!("{key}.pub")]);
    }
    std::fs::copy(cloudlycke(), folder.path().join("a.wasm")).unwrap();
    let component = format!("--provider={}", folder.path().join("a.wasm").display());
    let trusted = |key: &str| format!("--provider-key={}", folder.path().join(format!("{key}.pub")).display());
    let refused = |flag: &str, step: &str, why: &str| {
        let answer = asked(&["--providers-only", &component, flag]);
        let (_, found) = answer.one("providers", "wrong");
        assert!(found.contains(&format!("(step {step})")) && found.contains(why), "{flag}: {found}");
    };
    refused("--limit=component-bytes=4KiB", "size", "component-bytes");
    refused("--limit=source-bytes=4KiB", "size", "source-bytes");
    refused(&trusted("our"), "trust", "it is not signed");
    openssl(&["pkeyutl", "-sign", "-rawin", "-inkey", "our.pem", "-in", "a.wasm", "-out", "a.wasm.sig"]);
    refused(&trusted("other"), "trust", "fits none of the provider keys");
    let answer = asked(&["--providers-only", &component, &trusted("our")]);
    assert!(
        answer.are_all("providers", "good") && answer.text.contains("one of your keys signed it"),
        "{}",
        answer.text
    );
}
