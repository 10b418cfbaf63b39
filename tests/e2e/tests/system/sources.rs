//! Where providers come from: files, folders and ConfigMaps, plain and packed.

use ccm_cluster::NodeFixture;

use crate::bytes::{Place, cloudlycke, gzip, hostile_wasi, zstd};
use crate::look::{await_untainted, get, is_tainted};
use crate::stage::{LIMIT, Stage};

#[tokio::test]
async fn a_provider_comes_from_a_file_a_folder_or_a_config_map_in_any_of_its_three_forms() {
    let stage = Stage::new().await;
    let client = stage.client();
    let two = || vec![("a.wasm.gz", gzip(&cloudlycke())), ("b.wasm", hostile_wasi())];
    let cases = [
        ("file.wasm", Place::File(cloudlycke())),
        ("file.wasm.gz", Place::File(gzip(&cloudlycke()))),
        ("file.wasm.zst", Place::File(zstd(&cloudlycke()))),
        // By its bytes: a name may lie.
        ("no-ending", Place::File(gzip(&cloudlycke()))),
        ("folder", Place::Folder(vec![("p.wasm.zst", zstd(&cloudlycke())), ("README.md", vec![])])),
        ("map-plain", Place::Map(vec![("p.wasm", cloudlycke())])),
        ("map-gzip", Place::Map(vec![("p.wasm.gz", gzip(&cloudlycke()))])),
        ("map-zstd", Place::Map(vec![("p.wasm.zst", zstd(&cloudlycke())), ("notes", b"more".to_vec())])),
        ("map-key", Place::Key("a.wasm.gz", two())),
    ];
    for (name, place) in cases {
        let source = place.put(&stage.folder().join("sources"), Some(client), name).await;
        let host = stage.start(["--cloud-provider=cloudlycke", &format!("--provider={source}")]);
        NodeFixture::new(name).internal_ip("10.0.0.1").register(client).await.unwrap();
        let node = await_untainted(client, name).await;
        assert_eq!(node.spec.unwrap().provider_id, Some(format!("cloudlycke://{name}")), "{name}");
        let taken = host.await_log(LIMIT, &["provider taken", &source, "sha256:"]).await.unwrap();
        assert!(taken.contains(&format!("\"bytes\":{}", cloudlycke().len())), "{name}: {taken}");
        host.end().await;
    }
}

/// A mounted ConfigMap: links to links.
#[tokio::test]
async fn a_mounted_config_map_is_a_folder_with_one_component() {
    let stage = Stage::new().await;
    let mount = stage.folder().join("mount");
    let data = mount.join("..2026_01_01");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("p.wasm.gz"), gzip(&cloudlycke())).unwrap();
    std::os::unix::fs::symlink("..2026_01_01", mount.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/p.wasm.gz", mount.join("p.wasm.gz")).unwrap();
    let host = stage.start([format!("--provider={}", mount.display())]);
    NodeFixture::new("n0").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n0").await;
    host.end().await;
}

/// The file holds what the flags say.
#[tokio::test]
async fn a_list_of_one_provider_in_a_file_works_like_the_flags() {
    let stage = Stage::new().await;
    let client = stage.client();
    let component = crate::stage::cloudlycke();
    let config = stage.file("cloud-config.yaml", "zone: from-the-file\n");
    let list = format!(
        "- name: cloudlycke\n  source: {}\n  cloudConfig: {}\n  wasi: off\n  limits:\n    memory-bytes: 32MiB\n",
        component.display(),
        config.display(),
    );
    let list = stage.file("providers.yaml", list);
    let host = stage.start([format!("--providers={}", list.display())]);
    NodeFixture::new("n0").internal_ip("10.0.0.1").register(client).await.unwrap();
    let node = await_untainted(client, "n0").await;
    assert_eq!(node.metadata.labels.unwrap()["topology.kubernetes.io/zone"], "from-the-file");
    host.end().await;
}

#[tokio::test]
async fn two_providers_in_one_process_share_the_nodes_by_their_provider_ids() {
    let stage = Stage::new().await;
    let client = stage.client();
    let hostile = ccm_e2e::host::component("guests/hostile.wasm").unwrap();
    let list = format!("- source: {}\n- source: {}\n", crate::stage::cloudlycke().display(), hostile.display());
    let list = stage.file("providers.yaml", list);
    let host = stage.start([format!("--providers={}", list.display())]);
    let cases = [
        ("theirs", Some("hostile://theirs"), "hostile://theirs"),
        ("ours", Some("cloudlycke://ours"), "cloudlycke://ours"),
        ("nobodys", None, "cloudlycke://nobodys"),
    ];
    NodeFixture::new("foreign").provider_id("aws:///z/i-1").register(client).await.unwrap();
    for (name, given, wanted) in cases {
        let fixture = NodeFixture::new(name).internal_ip("10.0.0.1");
        let fixture = given.into_iter().fold(fixture, NodeFixture::provider_id);
        fixture.register(client).await.unwrap();
        let node = await_untainted(client, name).await;
        assert_eq!(node.spec.unwrap().provider_id.as_deref(), Some(wanted));
        let labels = node.metadata.labels.unwrap_or_default();
        assert_eq!(labels.contains_key("cloudlycke.io/mode"), wanted.starts_with("cloudlycke"), "{name}");
    }
    assert!(is_tainted(&get(client, "foreign").await));
    host.end().await;
}
