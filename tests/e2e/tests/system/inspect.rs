//! `wasm-ccm inspect`: what `run` would say of a file, and what is in a good one.

use std::process::{Command, Stdio};

use ccm_e2e::finish::finish;
use ccm_e2e::host::program;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::bytes::{Place, bad_files, cloudlycke, gzip, hostile, hostile_wasi, zstd};
use crate::mistakes::{complaint, run};
use crate::stage::LIMIT;

#[tokio::test]
async fn what_run_would_refuse_is_refused_with_code_1_and_one_line_that_names_the_file_and_the_way_out() {
    let folder = tempdir().unwrap();
    for case in bad_files() {
        let file = case.place.put(folder.path(), None, case.name).await;
        let flags = case.flags.iter().map(String::as_str);
        let (code, stdout, stderr) = run(&["inspect", &file].into_iter().chain(flags).collect::<Vec<_>>());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{}: {stderr}", case.name);
        assert_eq!(stderr.lines().count(), 1, "{}: {stderr}", case.name);
        let complaint = complaint(&stderr);
        for part in [&[file.as_str()], case.says.as_slice()].concat() {
            assert!(complaint.contains(part), "{}: {complaint:?} does not say {part:?}", case.name);
        }
    }
    let (code, _, stderr) = run(&["inspect", "configmap:a/b"]);
    assert_eq!(code, Some(1));
    assert!(complaint(&stderr).contains("only with access to a cluster"), "{stderr}");
}

/// Interfaces of the contract by their full names.
fn contract(interfaces: &[&str]) -> Vec<String> {
    interfaces.iter().map(|interface| format!("ccm:cloud/{interface}@0.2.0")).collect()
}

fn inspect(file: &str) -> Value {
    let (code, stdout, stderr) = run(&["inspect", file, "--output=json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{file}");
    serde_json::from_str(&stdout).unwrap()
}

#[tokio::test]
async fn a_good_component_is_shown_for_programs_and_for_people_in_all_its_forms() {
    let folder = tempdir().unwrap();
    let forms = [
        ("plain.wasm", Place::File(cloudlycke())),
        ("packed.wasm.gz", Place::File(gzip(&cloudlycke()))),
        ("packed.wasm.zst", Place::File(zstd(&cloudlycke()))),
        ("folder", Place::Folder(vec![("p.wasm", cloudlycke())])),
    ];
    let mut digests = vec![];
    for (name, place) in forms {
        let file = place.put(folder.path(), None, name).await;
        let mut seen = inspect(&file);
        let annotations: Vec<Value> =
            seen["descriptor"]["annotations"].as_array().unwrap().iter().map(|a| a["name"].clone()).collect();
        assert_eq!(annotations[0], "cloudlycke.io/instance-state");
        digests.push(seen["digest"].take());
        // Their order is the linker's.
        let mut exports: Vec<String> = serde_json::from_value(seen["exports"].take()).unwrap();
        exports.sort();
        let main = json!({
            "file": seen["file"],
            "contract": seen["contract"],
            "size": seen["size"],
            "exports": exports,
            "imports": seen["imports"],
            "name": seen["descriptor"]["name"],
            "schemes": seen["descriptor"]["providerIdSchemes"],
            "endpoints": seen["descriptor"]["endpoints"],
            "credentials": seen["descriptor"]["credentials"],
        });
        let wanted = json!({
            "file": file,
            "contract": "ccm:cloud@0.2.0",
            "size": cloudlycke().len(),
            "exports": contract(&["instances", "load-balancer-survey", "load-balancers", "meta", "routes"]),
            "imports": contract(&["types", "settings", "cache", "clock", "log", "events"]),
            "name": "cloudlycke",
            "schemes": ["cloudlycke", "kind", "k3s", "kwok"],
            "endpoints": [],
            "credentials": [],
        });
        assert_eq!(main, wanted, "{name}");
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "the digest is the component's, however it is packed");
    let digest = digests[0].as_str().unwrap();

    let file = folder.path().join("plain.wasm").display().to_string();
    let (code, stdout, stderr) = run(&["inspect", &file]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let parts = [
        "cloudlycke 0.1.0",
        &file,
        digest,
        "ccm:cloud@0.2.0",
        "cloudlycke://",
        "instances@0.2.0",
        "settings@0.2.0",
        "endpoints: none",
        "credentials: none",
        "cloudlycke.io/zone",
        "one of running, stopped, deleted, error",
    ];
    for part in parts {
        assert!(stdout.contains(part), "{stdout} does not say {part:?}");
    }
}

#[tokio::test]
async fn what_a_component_asks_for_is_shown_wasi_included() {
    let folder = tempdir().unwrap();
    let wasi = inspect(&Place::File(hostile_wasi()).put(folder.path(), None, "wasi.wasm").await);
    let imports = wasi["imports"].as_array().unwrap();
    assert!(imports.iter().any(|name| name.as_str().unwrap().starts_with("wasi:sockets/tcp@0.2")), "{imports:?}");
    let plain = inspect(&Place::File(hostile()).put(folder.path(), None, "plain.wasm").await);
    assert!(!plain["imports"].to_string().contains("wasi:"), "{}", plain["imports"]);
    let settings = &plain["descriptor"]["settings"];
    assert_eq!((&settings[0]["name"], &settings[0]["default"]), (&json!("mood"), &json!("grim")));
}

/// What an operator has to give, and under which names.
#[test]
fn what_a_component_wants_of_the_operator_is_shown_with_the_keys_and_variables_that_count() {
    let (code, stdout, stderr) = run(&["inspect", crate::stage::scripted().to_str().unwrap()]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let parts = [
        "cloud-config  ini\n",
        "more          yaml; path from cloud-config:Global.more-file; needs --allow-file",
        "from cloud-config:Global.api-url or $SCRIPTED_API_URL; default https://api.scripted.example",
        "CA file from cloud-config:Global.api-ca-file or $SCRIPTED_API_CA-FILE",
        "client certificate from cloud-config:Global.identity-cert-file",
        "from cloud-config:Global.token or $SCRIPTED_TOKEN; used at api (header authorization)",
        "used at identity (body of /v3/auth/tokens)",
        "used at api (signing), api (query signature)",
        "these uses of credentials need a grant, because a credential goes to more than one header or endpoint, or to a place that is not for credentials; if you agree, give:\n",
        "  --credential-use=password=identity:body:/v3/auth/tokens\n",
        "  --credential-use=api-key=api:query:apiKey\n  --credential-use=api-key=api:body:/client/api\n",
        "  --credential-use=password=identity:body-form:FIELD:/v3/auth/tokens\n  --credential-use=password=identity:body-json:POINTER:/v3/auth/tokens\n",
    ];
    for part in parts {
        assert!(stdout.contains(part), "{stdout} does not say {part:?}");
    }
    assert!(!stdout.contains("--credential-use=token="), "one header of one endpoint: {stdout}");
}

/// `wasm-ccm inspect FILE | head -1` once failed in scripts that look at every exit code of a pipe.
#[tokio::test]
async fn a_reader_of_the_output_that_is_gone_is_no_error() {
    let folder = tempdir().unwrap();
    let file = Place::File(cloudlycke()).put(folder.path(), None, "p.wasm").await;
    for args in [vec!["inspect", &file], vec!["inspect", &file, "--output=json"], vec!["providers-schema"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(program().unwrap());
        let output = finish(command.args(&args).stdout(writer).stderr(Stdio::piped()), LIMIT).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}
