//! Providers of other tool chains: one host runs one in C, one in Go, one in JavaScript and one in Python.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::component;
use serde_json::json;

use crate::look::await_untainted;
use crate::stage::Stage;

const LANGUAGES: [(&str, &str); 4] =
    [("c", "standard"), ("go", "standard"), ("js", "standard"), ("python", "large-runtime")];

#[tokio::test]
#[ignore = "needs components that `./just hello` builds"]
async fn nodes_get_their_machines_from_providers_in_four_languages() {
    let stage = Stage::new().await;
    let provider = |(language, preset): (&str, &str)| {
        json!({
            "source": component(&format!("hello/{language}.wasm")).unwrap(),
            "name": format!("hello-{language}"),
            "limitsPreset": preset,
        })
    };
    let list = stage.file("providers.yaml", json!(LANGUAGES.map(provider)).to_string());
    let host = stage.start([format!("--providers={}", list.display())]);
    host.ready().await;

    for (language, _) in LANGUAGES {
        let name = format!("n-{language}");
        let id = format!("hello-{language}://{name}");
        let fixture = NodeFixture::new(&name).internal_ip("10.0.0.1").provider_id(&id);
        fixture.register(stage.client()).await.unwrap();
        let node = await_untainted(stage.client(), &name).await;
        assert_eq!(node.metadata.labels.unwrap()["node.kubernetes.io/instance-type"], "hello", "{language}");
    }
}

#[tokio::test]
#[ignore = "needs components that `./just hello` builds"]
async fn a_large_runtime_is_refused_without_its_preset_and_the_limit_is_named() {
    let python = component("hello/python.wasm").unwrap();
    let check = |flags: &[&str]| {
        let program = ccm_e2e::host::program().unwrap();
        let output = std::process::Command::new(program).arg("check").arg(&python).args(flags).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = check(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("raise the limit source-bytes"), "{said}");
    // What is given wins over the preset.
    let (code, said) = check(&["--limits=large-runtime", "--limit=component-bytes=1MiB"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("raise the limit component-bytes"), "{said}");
    let (code, said) = check(&["--limits=large-runtime"]);
    assert_eq!(code, Some(0), "{said}");
}
