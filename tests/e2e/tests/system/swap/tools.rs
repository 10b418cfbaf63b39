//! `wasm-ccm check` and `wasm-ccm push`, and whom the host trusts.

use std::path::Path;
use std::process::{Command, Output};

use ccm_e2e::host::program;
use ccm_e2e::successor::bare_successor;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::{MAP, NAMESPACE, QUICK, SOURCE, await_status, await_version, component, put, serves, version};
use crate::bytes::cloudlycke;
use crate::mistakes::ended;
use crate::stage::{LIMIT, Stage};

/// Runs the program; what it says on both streams.
pub(super) fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = ended(Command::new(program().unwrap()).args(arguments));
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

pub(super) fn says(told: &(Option<i32>, String), code: i32, parts: &[&str]) {
    assert_eq!(told.0, Some(code), "{}", told.1);
    for part in parts {
        assert!(told.1.contains(part), "{} does not say {part:?}", told.1);
    }
}

pub(super) fn kubeconfig(stage: &Stage) -> String {
    format!("--kubeconfig={}", stage.cluster.kubeconfig().display())
}

/// Into the usual ConfigMap, as the administrator: the host may only read.
async fn push(stage: &Stage, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    push_to(stage, file, SOURCE, more).await
}

async fn push_to(stage: &Stage, file: &Path, target: &str, more: &[&str]) -> (Option<i32>, String) {
    let (file, kubeconfig) = (file.display().to_string(), kubeconfig(stage));
    let arguments = [&["push", &file, target, &kubeconfig], more].concat();
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    tokio::task::spawn_blocking(move || run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap()
}

#[test]
fn check_is_the_gate_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let good = write("good.wasm", &cloudlycke());
    let unconfigured = "passes the gate as far as it needs no configuration\nnot judged: the steps grants and check; they need --cloud-config\n";
    says(&run(&["check", &good]), 3, &["cloudlycke", "sha256:", unconfigured]);
    says(&run(&["check", &good, "--online"]), 0, &["passes the gate"]);
    let config = write("config.yaml", b"mood: grim\nzone: 'no label'\n");
    let told = run(&["check", &good, "--cloud-config", &config]);
    says(&told, 1, &["error: ", "good.wasm does not pass the gate (step check)", "no label"]);
    let cases: [(&[u8], &str); 5] = [
        (b"garbage", "step parse"),
        (&component(&[("behaviour", "describe-traps")]), "step describe"),
        (&component(&[("behaviour", "complains")]), "step check"),
        (&component(&[("behaviour", "mute")]), "step check"),
        (&[0x1f, 0x8b, 1, 2, 3], "step container"),
    ];
    for (bytes, step) in cases {
        let bad = write("bad.wasm", bytes);
        let told = run(&["check", &bad, "--online"]);
        says(&told, 1, &["error: ", "bad.wasm does not pass the gate", step]);
        assert_eq!(told.1.lines().count(), 1, "{}", told.1);
    }
    let digitalocean = ccm_e2e::host::component("providers/digitalocean.wasm").unwrap();
    let digitalocean = digitalocean.to_str().unwrap();
    let token = format!("--credential=access-token=file:{}", write("token", b"correct-horse-battery"));
    // The prefix of a cloud is its own by the operator's word alone.
    let words = ["(step grants)", "it calls itself \"digitalocean\"", "set --cloud-provider=digitalocean"];
    says(&run(&["check", digitalocean, &token]), 1, &words);
    let named = "--cloud-provider=digitalocean";
    let told = run(&["check", digitalocean, &token, named]);
    says(
        &told,
        1,
        &["(step grants)", "it can reach none of its endpoints: endpoint api has no base URL: give --endpoint api=URL"],
    );
    // What the cloud says is not judged without it: that is no yes.
    let unasked = "\nnot judged at the step check: whether the cloud answers and accepts its credentials; --online asks the cloud\n";
    let told = run(&["check", digitalocean, &token, named, "--endpoint=api=https://api.example"]);
    says(&told, 3, &["passes the gate\n", unasked]);
    // A provider may find the others in the catalogue of one.
    let session = ccm_e2e::host::component("guests/session.wasm").unwrap();
    let session = session.to_str().unwrap();
    let told = run(&["check", session, "--endpoint=identity=https://identity.example"]);
    says(&told, 3, &["passes the gate\n"]);
    assert!(!told.1.contains("endpoint compute"), "{}", told.1);
    says(&run(&["check", "/nowhere/p.wasm"]), 1, &["/nowhere/p.wasm", "step source", "No such file"]);
    says(&run(&["check", &good, "--cloud-provider=other"]), 1, &["step identity", "other"]);
}

/// The operator saw only in the log of the host that the provider did without it.
#[test]
fn check_says_which_variables_the_component_declares_and_is_not_granted() {
    let component = ccm_e2e::host::component("providers/digitalocean.wasm").unwrap();
    let component = component.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "correct-horse-battery").unwrap();
    let token = format!("--credential=access-token=file:{}", token.display());
    let check = |flags: &[&str]| {
        let mut command = Command::new(program().unwrap());
        command.env_clear().envs([("REGION", "fra1"), ("DO_CLUSTER_ID", "c"), ("HOME", "/")]);
        let Output { status, stdout, stderr } =
            ended(command.args([&["check", component, "--cloud-provider=digitalocean"], flags].concat()));
        (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
    };
    let note = "set here, and not granted to the provider, which does not see it: DO_CLUSTER_ID (setting `cluster-id`), REGION (setting `region`); \
                --allow-env=DO_CLUSTER_ID,REGION grants it; the component reads the value of a setting: grant DO_CLUSTER_ID,REGION only if you know \
                why it wants that";
    let line = format!("\nnote: {note}\n");
    says(&check(&[]), 3, &["as far as it needs no configuration", &line]);
    let endpoint = "--endpoint=api=https://api.example";
    says(&check(&[&token, endpoint]), 3, &["passes the gate\n", &line]);
    let (code, text) = check(&[&token, endpoint, "--output=json"]);
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["notes"]), (Some(3), &serde_json::json!([note])));
    assert!(told["notJudged"].as_str().unwrap().starts_with("whether the cloud answers"), "{text}");
    // It may be why the component does not pass.
    let words = ["it can reach none of its endpoints", &format!("; note: {note}\n")];
    says(&check(&[&token]), 1, &words);
    let granted = check(&[&token, endpoint, "--allow-env=DO_CLUSTER_ID,REGION"]);
    assert!(granted.0 == Some(3) && !granted.1.contains("note: "), "{}", granted.1);
}

/// The cloud's default region was asked, and nothing said that the variable was misspelt.
#[test]
fn check_says_which_variables_nobody_reads_and_which_were_probably_meant() {
    let component = ccm_e2e::host::component("providers/digitalocean.wasm").unwrap();
    let component = component.to_str().unwrap();
    let check = |environment: &[(&str, &str)], flags: &[&str]| {
        let mut command = Command::new(program().unwrap());
        command
            .env_clear()
            .envs([("HOME", "/"), ("HTTP_PROXY", "http://127.0.0.1:1")])
            .envs(environment.iter().copied());
        let flags = [&["check", component, "--cloud-provider=digitalocean"], flags].concat();
        let Output { status, stdout, stderr } = ended(command.args(flags));
        (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
    };
    let flags =
        ["--allow-env=REGION,DO_*", "--endpoint=api=https://api.example", "--credential=access-token=env:TOKEN"];
    let token = ("TOKEN", "correct-horse-battery");
    let told = check(&[token, ("REGOIN", "fra1"), ("DO_CLUSTERID", "c")], &flags);
    let note = "\nnote: granted or set here, and the provider does not read it: DO_CLUSTERID (did you mean DO_CLUSTER_ID?), REGOIN \
                (did you mean REGION?); correct the name, or leave it out\n";
    says(&told, 3, &["passes the gate\n", note]);
    // Also where nothing else is known of the configuration, and where it is the flag that is misspelt.
    says(&check(&[("REGOIN", "fra1")], &[]), 3, &["the provider does not read it: REGOIN (did you mean REGION?); "]);
    says(
        &check(&[], &["--allow-env=REGIO"]),
        1,
        &["(step grants)", "does not read it: REGIO (did you mean REGION?); "],
    );
    let told = check(&[token, ("REGION", "fra1"), ("DO_CLUSTER_ID", "c")], &flags);
    assert!(told.0 == Some(3) && !told.1.contains("note: "), "{}", told.1);
}

#[tokio::test]
async fn push_puts_a_component_into_the_config_map_that_a_host_watches() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str()].into_iter().chain(QUICK));
    host.ready().await;
    serves(client, "n1", "1").await;

    let kubeconfig = kubeconfig(&stage);
    let push = async |file: &Path, more: &[&str]| push(&stage, file, more).await;
    let two = stage.file("two.wasm", version("2"));
    let told = push(&two, &[]).await;
    says(&told, 0, &["configmap:kube-system/provider/p.wasm", "cloudlycke 2", "before sha256:", "now    sha256:"]);
    await_version(&host, "2").await;
    serves(client, "n2", "2").await;
    // At the gate, and once more when it serves.
    let offers = ["function=\"meta.offers\""];
    host.await_count("ccm_provider_calls_total", &offers, LIMIT, |calls| calls >= 3.0).await.unwrap();
    says(&push(&two, &[]).await, 0, &["(the same component)"]);
    let (code, text) = push(&two, &["--output=json"]).await;
    let told: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let now = maps.get(MAP).await.unwrap();
    let digest = told["now"].as_str().unwrap();
    assert!(code == Some(0) && digest.starts_with("sha256:") && told["before"] == digest, "{text}");
    assert_eq!((told["provider"].as_str(), told["version"].as_str()), (Some("cloudlycke"), Some("2")), "{text}");
    assert_eq!(told["resourceVersion"].as_str(), now.metadata.resource_version.as_deref(), "{text}");

    let garbage = stage.file("garbage.wasm", "garbage");
    says(&push(&garbage, &[]).await, 1, &["garbage.wasm does not pass the gate (step parse)"]);
    let traps = stage.file("traps.wasm", component(&[("behaviour", "describe-traps")]));
    says(&push(&traps, &[]).await, 1, &["step describe"]);

    // Packed when it is large; refused when no ConfigMap can hold it.
    let padded = |fill: fn(u32) -> u8| {
        let mut bytes = version("3");
        let size: u32 = 2 << 20;
        // A custom section: its size as LEB128, then a name of one byte.
        let mut rest = size + 2;
        bytes.push(0);
        while rest > 0x7f {
            bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes.extend([1, b'x']);
        bytes.extend((0..size).map(fill));
        bytes
    };
    let noise = |at: u32| at.wrapping_mul(2_654_435_761).rotate_left(at % 31).to_le_bytes()[2];
    let large = stage.file("large.wasm", padded(noise));
    says(&push(&large, &[]).await, 1, &["a ConfigMap holds 1 MiB", "smaller"]);
    let zeros = stage.file("zeros.wasm", padded(|_| 0));
    says(&push(&zeros, &[]).await, 0, &["packed", "cloudlycke 3"]);
    await_version(&host, "3").await;
    let keys: Vec<String> = maps.get(MAP).await.unwrap().binary_data.unwrap().into_keys().collect();
    assert_eq!(keys, ["p.wasm"], "one component under the name that was there");
    let elsewhere = two.display().to_string();
    let told = run(&["push", &elsewhere, "configmap:Kube-System/x", &kubeconfig]);
    says(&told, 1, &["the namespace \"Kube-System\""]);
    says(&run(&["push", &elsewhere, "somewhere", &kubeconfig]), 1, &["configmap:NAMESPACE/NAME"]);
    host.end().await;
}

/// `kubectl create configmap --from-file` puts into `data` what is text, such as a signature in base64, and no key may stand in
/// both.
#[tokio::test]
async fn push_takes_over_keys_that_kubectl_made_as_text_and_leaves_the_others() {
    let stage = Stage::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.client().clone(), NAMESPACE);
    let text = |keys: &[(&str, &str)]| keys.iter().map(|&(key, text)| (key.to_owned(), text.to_owned())).collect();
    let made = ConfigMap {
        metadata: ObjectMeta { name: Some(MAP.to_owned()), ..ObjectMeta::default() },
        data: Some(text(&[("p.wasm.sig", "of the first"), ("notes", "kept")])),
        binary_data: Some([("p.wasm".to_owned(), ByteString(version("1")))].into()),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &made).await.unwrap();
    let two = stage.file("two.wasm", version("2"));
    stage.file("two.wasm.sig", "of the second");
    says(&push(&stage, &two, &[]).await, 0, &["before sha256:", "cloudlycke 2"]);
    let now = maps.get(MAP).await.unwrap();
    assert_eq!(now.data.unwrap(), text(&[("notes", "kept")]));
    let binary = now.binary_data.unwrap();
    assert_eq!(binary.keys().collect::<Vec<_>>(), ["p.wasm", "p.wasm.sig"]);
    assert_eq!((&binary["p.wasm"].0, &binary["p.wasm.sig"].0[..]), (&version("2"), &b"of the second"[..]));

    maps.delete(MAP, &DeleteParams::default()).await.unwrap();
    let words = text(&[("p.wasm", "to be filled in"), ("p.wasm.sig", "of nothing"), ("notes", "kept")]);
    let made = ConfigMap { data: Some(words), binary_data: None, ..made };
    maps.create(&PostParams::default(), &made).await.unwrap();
    let three = stage.file("three.wasm", version("3"));
    says(&push(&stage, &three, &[]).await, 0, &["before sha256:", "cloudlycke 3"]);
    let now = maps.get(MAP).await.unwrap();
    assert_eq!(now.data.unwrap(), text(&[("notes", "kept")]));
    assert_eq!(now.binary_data.unwrap().into_keys().collect::<Vec<_>>(), ["p.wasm"]);
}

#[tokio::test]
async fn push_of_one_key_leaves_the_others_and_its_signature_goes_with_a_warning() {
    let stage = Stage::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.client().clone(), NAMESPACE);
    let keys = async || maps.get(MAP).await.unwrap().binary_data.unwrap().into_keys().collect::<Vec<_>>();
    let [one, two] = ["1", "2"].map(|number| stage.file(&format!("{number}.wasm"), version(number)));
    let push = async |file: &Path, key: &str| push_to(&stage, file, &format!("{SOURCE}/{key}"), &[]).await;
    let create = async |file: &Path, key: &str| push_to(&stage, file, &format!("{SOURCE}/{key}"), &["--create"]).await;
    let signature = stage.file("1.wasm.sig", "of the first");
    says(&create(&one, "a.wasm").await, 0, &["provider/a.wasm: cloudlycke 1", "before nothing"]);
    says(&push(&two, "b.wasm").await, 1, &["has no key b.wasm, it has a.wasm, a.wasm.sig"]);
    says(&create(&two, "b.wasm").await, 0, &["provider/b.wasm: cloudlycke 2", "before nothing"]);
    assert_eq!(keys().await, ["a.wasm", "a.wasm.sig", "b.wasm"]);
    std::fs::remove_file(signature).unwrap();
    let told = push(&one, "a.wasm").await;
    says(&told, 0, &["(the same component)", "\nwarning: the key a.wasm.sig was removed", "--provider-key"]);
    assert_eq!(keys().await, ["a.wasm", "b.wasm"]);
    let told = push(&one, "a.wasm").await;
    assert!(!told.1.contains("warning"), "nothing was removed: {}", told.1);
}

#[tokio::test]
async fn push_says_what_to_do_about_what_the_api_server_says() {
    let stage = Stage::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.client().clone(), NAMESPACE);
    let one = stage.file("one.wasm", version("1"));
    let told = push_to(&stage, &one, "configmap:nowhere/provider", &["--create"]).await;
    says(&told, 1, &["kubectl --kubeconfig=", " create namespace nowhere"]);
    says(&push(&stage, &one, &[]).await, 1, &["does not exist", "create the ConfigMap with --create"]);
    assert!(maps.get_opt(MAP).await.unwrap().is_none(), "nothing was made");
    let told = push(&stage, &one, &["--master=https://127.0.0.1:1"]).await;
    says(&told, 1, &["the API server at https://127.0.0.1:1 does not answer", "check --kubeconfig and --master"]);
    let made = ConfigMap {
        metadata: ObjectMeta { name: Some(MAP.to_owned()), ..ObjectMeta::default() },
        immutable: Some(true),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &made).await.unwrap();
    says(&push(&stage, &one, &[]).await, 1, &["delete it and push again"]);
    let host = stage.kubeconfig();
    let arguments = ["push", &one.display().to_string(), "configmap:default/provider"].map(str::to_owned);
    let arguments = [&arguments[..], &[format!("--kubeconfig={}", host.display())]].concat();
    let told = tokio::task::spawn_blocking(move || run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    says(&told.await.unwrap(), 1, &["push needs the verbs get and patch"]);
}

#[tokio::test]
async fn push_puts_no_other_provider_in_the_place_of_one_unless_it_is_told_to() {
    let stage = Stage::new().await;
    let client = stage.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    put(client, version("1")).await;
    let before = maps.get(MAP).await.unwrap();
    let other = stage.file("other.wasm", component(&[("name", "other"), ("version", "2")]));
    let told = push(&stage, &other, &[]).await;
    let why = r#"its name is "other", and the component that it would replace is "cloudlycke"; if that is right, use --allow-provider-change"#;
    says(&told, 1, &["does not pass the gate (step identity)", why]);
    assert_eq!(maps.get(MAP).await.unwrap(), before);
    says(&push(&stage, &other, &["--allow-provider-change"]).await, 0, &["p.wasm: other 2", "before sha256:"]);
    let now = maps.get(MAP).await.unwrap().binary_data.unwrap();
    assert_eq!(now["p.wasm"].0, component(&[("name", "other"), ("version", "2")]));
}

/// What lies there may be what the host took back: what it exports binds nobody.
#[tokio::test]
async fn push_puts_the_good_component_over_a_bad_one_that_exports_more() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, bare_successor(&[("version", "1")]).unwrap()).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str()].into_iter().chain(QUICK));
    host.ready().await;
    serves(client, "n1", "1").await;
    let bad = stage.file("bad.wasm", component(&[("version", "2"), ("behaviour", "complains")]));
    says(&push(&stage, &bad, &[]).await, 0, &["cloudlycke 2"]);
    await_status(&host, "the bad one is refused", |status| status["refused"]["step"] == "check").await;
    let good = stage.file("good.wasm", bare_successor(&[("version", "3")]).unwrap());
    says(&push(&stage, &good, &[]).await, 0, &["cloudlycke 3"]);
    await_version(&host, "3").await;
    host.end().await;
}

#[tokio::test]
async fn only_what_is_signed_or_known_is_run_where_the_operator_says_so() {
    let stage = Stage::new().await;
    let client = stage.client();
    let folder = stage.folder().to_owned();
    let openssl = |arguments: &[&str]| {
        let told = ended(Command::new("openssl").args(arguments).current_dir(&folder));
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    };
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", "key.pem"]);
    openssl(&["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"]);
    let signed = |bytes: &[u8]| {
        std::fs::write(folder.join("signed.wasm"), bytes).unwrap();
        openssl(&["pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "signed.wasm", "-out", "signed.wasm.sig"]);
        std::fs::read(folder.join("signed.wasm.sig")).unwrap()
    };
    let put_signed = async |bytes: Vec<u8>, signature: Vec<u8>| {
        let keys = [("p.wasm".to_owned(), bytes), ("p.wasm.sig".to_owned(), signature)];
        ccm_e2e::manifest::put_config_map(client, NAMESPACE, MAP, keys).await.unwrap();
    };
    let one = version("1");
    put_signed(one.clone(), signed(&one)).await;
    let source = format!("--provider={SOURCE}");
    let key = format!("--provider-key={}", folder.join("public.pem").display());
    let host = stage.start([source.as_str(), &key].into_iter().chain(QUICK));
    host.ready().await;
    serves(client, "n1", "1").await;
    // Signed is the component, however it is packed.
    let two = version("2");
    put_signed(crate::bytes::gzip(&two), signed(&two)).await;
    await_version(&host, "2").await;

    put_signed(version("3"), signed(&two)).await;
    let refused = await_status(&host, "wrong signature", |status| status["refused"]["step"] == "trust").await;
    assert!(refused["refused"]["reason"].as_str().unwrap().contains("fits none of the provider keys"), "{refused}");
    put(client, version("3")).await;
    await_status(&host, "no signature", |status| {
        status["refused"]["reason"].as_str().is_some_and(|reason| reason.contains("it is not signed"))
    })
    .await;
    serves(client, "n2", "2").await;
    host.end().await;
}
