use super::*;

/// A component of so many bytes that no packing makes much smaller.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

fn unpacked(bytes: &[u8], signature: Option<&[u8]>) -> Unpacked {
    let digest = format!("sha256:{:x}", Sha256::digest(bytes));
    let signature = signature.map(<[u8]>::to_vec);
    Unpacked { bytes: bytes.to_vec(), digest, signature, signed: None, is_stored: false }
}

/// A ConfigMap with these keys, in `binaryData`.
fn map(keys: &[(&str, &[u8])]) -> ConfigMap {
    let data = keys.iter().map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.to_vec()))).collect();
    ConfigMap { binary_data: Some(data), ..ConfigMap::default() }
}

fn upload(bytes: &[u8], file: &str, key: Option<&str>, before: Option<&ConfigMap>) -> Result<Upload> {
    Upload::new(bytes, &unpacked(bytes, None), file, key, before)
}

fn keys(map: &ConfigMap) -> Vec<&str> {
    map.binary_data.iter().flat_map(BTreeMap::keys).map(String::as_str).collect()
}

#[test]
fn only_what_is_large_is_packed_and_always_to_the_same_bytes() {
    let small = upload(&vec![7; PACK_FROM], "cloud.wasm", None, None).unwrap();
    assert_eq!((small.key.as_str(), small.bytes.len()), ("cloud.wasm", PACK_FROM));
    let bytes = vec![7; PACK_FROM + 1];
    let large = upload(&bytes, "cloud.wasm", None, None).unwrap();
    assert_eq!(large.key, "cloud.wasm.gz");
    assert_eq!(unpack(large.bytes.clone(), PACK_FROM * 2), Ok(bytes.clone()));
    assert_eq!(upload(&bytes, "cloud.wasm", None, None).unwrap().bytes, large.bytes);
}

#[test]
fn what_is_packed_already_is_left_as_it_is() {
    let bytes = noise(PACK_FROM * 2);
    let packed = ruzstd::encoding::compress_to_vec(&bytes[..], ruzstd::encoding::CompressionLevel::Fastest);
    let upload = Upload::new(&packed, &unpacked(&bytes, None), "cloud.wasm.zst", None, None).unwrap();
    assert_eq!((upload.key.as_str(), upload.bytes), ("cloud.wasm.zst", packed));
}

/// The host looks for names that end as those of components do.
#[test]
fn a_file_of_another_name_gets_one_that_the_host_finds() {
    let (small, large) = (vec![7; 10], vec![7; PACK_FROM + 1]);
    for (bytes, file, key) in [(&small, "cloud.bin", "cloud.bin.wasm"), (&large, "release", "release.wasm.gz")] {
        assert_eq!(upload(bytes, file, None, None).unwrap().key, key);
    }
}

#[test]
fn the_key_is_the_one_that_is_asked_for_else_the_one_that_is_there_else_the_files() {
    let bytes = b"component";
    let before = map(&[("old.wasm.gz", b"old"), ("README.md", b"text")]);
    assert_eq!(upload(bytes, "new.wasm", None, Some(&before)).unwrap().key, "old.wasm.gz");
    assert_eq!(upload(bytes, "new.wasm", Some("mine.wasm"), Some(&before)).unwrap().key, "mine.wasm");
    assert_eq!(upload(bytes, "new.wasm", None, Some(&map(&[("README.md", b"text")]))).unwrap().key, "new.wasm");
    let two = map(&[("a.wasm", b"a"), ("b.wasm.gz", b"b")]);
    let error = upload(bytes, "new.wasm", None, Some(&two)).err().unwrap().to_string();
    assert!(error.contains("a.wasm, b.wasm.gz") && error.contains("name the one you mean"), "{error}");
    for named in ["a.wasm", "c.wasm"] {
        assert_eq!(upload(bytes, "new.wasm", Some(named), Some(&two)).unwrap().key, named, "only the named key counts");
    }
}

#[test]
fn what_no_config_map_holds_is_refused_with_sizes_and_a_way_out() {
    let room = MAX_CONFIG_MAP - ROOM;
    let gzipped = |size: usize| {
        let bytes = noise(size);
        let packed = gzip(&bytes).unwrap();
        (packed, unpacked(&bytes, None))
    };
    let (packed, whole) = gzipped(room - 1000);
    assert!(packed.len() > room - 1000 && packed.len() <= room, "noise grows a little when it is packed");
    assert!(Upload::new(&packed, &whole, "cloud.wasm.gz", None, None).is_ok());
    let (packed, whole) = gzipped(room);
    let error = Upload::new(&packed, &whole, "cloud.wasm.gz", None, None).err().unwrap().to_string();
    assert!(error.contains(&format!("{} bytes packed", packed.len())), "{error}");
    assert!(error.contains("1 MiB; ") && error.contains("mount it as a file"), "no other key is there: {error}");
}

/// `kubectl create configmap` with a README beside it: together they may be too large.
#[test]
fn other_keys_of_the_config_map_take_their_room_and_what_is_replaced_takes_none() {
    let bytes = noise(PACK_FROM);
    let large = vec![7; MAX_CONFIG_MAP - PACK_FROM];
    let replaced = map(&[("cloud.wasm", &large), ("cloud.wasm.sig", &large)]);
    assert!(upload(&bytes, "cloud.wasm", None, Some(&replaced)).is_ok());
    let beside = ConfigMap {
        data: Some([("notes".to_owned(), "n".repeat(MAX_CONFIG_MAP - PACK_FROM))].into()),
        ..map(&[("cloud.wasm", b"old")])
    };
    let error = upload(&bytes, "cloud.wasm", None, Some(&beside)).err().unwrap().to_string();
    assert!(error.contains(&format!("{} bytes of which other keys take", MAX_CONFIG_MAP - PACK_FROM)), "{error}");
}

#[test]
fn a_signature_goes_with_the_component_and_one_of_another_is_taken_away() {
    let signed =
        Upload::new(b"component", &unpacked(b"component", Some(b"signature")), "cloud.wasm", None, None).unwrap();
    let applied = signed.map("kube-system", "cloud");
    assert_eq!(keys(&applied), ["cloud.wasm", "cloud.wasm.sig"]);
    assert_eq!(signed.stale_signature(&applied), None, "it is its own");

    let unsigned = upload(b"component", "cloud.wasm", None, Some(&applied)).unwrap();
    assert_eq!(keys(&unsigned.map("kube-system", "cloud")), ["cloud.wasm"]);
    assert_eq!(unsigned.stale_signature(&applied).as_deref(), Some("cloud.wasm.sig"));
    let in_text = ConfigMap {
        data: Some([("cloud.wasm.sig".to_owned(), "c2lnbmF0dXJl".to_owned())].into()),
        ..map(&[("cloud.wasm", b"component")])
    };
    assert_eq!(unsigned.stale_signature(&in_text).as_deref(), Some("cloud.wasm.sig"));
    assert_eq!(unsigned.stale_signature(&map(&[("cloud.wasm", b""), ("other.wasm.sig", b"")])), None);
}

/// What a field manager set before and does not send again goes away, and names of keys are longer than those of managers.
#[test]
fn each_key_has_a_field_manager_of_its_own() {
    let manager = |key: &str| upload(b"component", "cloud.wasm", Some(key), None).unwrap().manager();
    let (one, other) = (manager("a.wasm"), manager(&"b".repeat(253)));
    assert_ne!(one, other);
    assert_eq!(one, manager("a.wasm"));
    assert!(one.starts_with("wasm-ccm-push-") && one.len() <= 128 && other.len() == one.len(), "{one}, {other}");
}

/// `kubectl create configmap --from-file` with a signature in base64.
#[test]
fn what_is_written_leaves_the_data_with_what_it_holds_and_the_rest_stays_there() {
    let text = [("cloud.wasm", "text"), ("cloud.wasm.sig", "c2ln"), ("notes", "kept")];
    let text = text.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    let mut before = ConfigMap { data: Some(text), ..ConfigMap::default() };
    before.metadata.resource_version = Some("7".to_owned());
    let metadata = json!({ "resourceVersion": "7" });
    let unsigned = upload(b"component", "cloud.wasm", None, Some(&before)).unwrap();
    let component =
        json!({ "data": { "cloud.wasm": null }, "binaryData": { "cloud.wasm": "dGV4dA==" }, "metadata": metadata });
    assert_eq!(unsigned.moves(&before), Some(component), "the signature is taken away");
    let signed =
        Upload::new(b"component", &unpacked(b"component", Some(b"signature")), "cloud.wasm", None, Some(&before))
            .unwrap();
    let both = json!({
        "data": { "cloud.wasm": null, "cloud.wasm.sig": null },
        "binaryData": { "cloud.wasm": "dGV4dA==", "cloud.wasm.sig": "YzJsbg==" },
        "metadata": metadata,
    });
    assert_eq!(signed.moves(&before), Some(both));
    assert_eq!(signed.moves(&map(&[("cloud.wasm", b"component"), ("cloud.wasm.sig", b"signature")])), None);
}

#[test]
fn what_is_said_names_key_version_sizes_and_both_digests() {
    let descriptor = Descriptor {
        name: "cloud".into(),
        version: "2.0".into(),
        revision: "1".into(),
        provider_id_schemes: vec!["cloud".into()],
        ..Descriptor::default()
    };
    let what = "configmap:kube-system/cloud";
    let told = |bytes: &[u8], before: Option<&ConfigMap>| {
        let upload = upload(bytes, "cloud.wasm", None, before).unwrap();
        let (_, old) = upload.before(before, PACK_FROM * 2);
        let pushed = upload.pushed(what, &descriptor, &unpacked(bytes, None), old);
        let pushed = Pushed { resource_version: "7".to_owned(), ..pushed };
        let warned = Pushed { warning: Some("mind".to_owned()), ..pushed.clone() }.to_string();
        assert_eq!(warned, format!("{pushed}\nwarning: mind"));
        let seen = serde_json::to_value(&pushed).unwrap();
        assert_eq!((&seen["resourceVersion"], &seen["bytes"]), (&"7".into(), &bytes.len().into()));
        assert!(seen.get("warning").is_none(), "{seen}");
        pushed.to_string().strip_suffix(", resourceVersion 7").unwrap().to_owned()
    };
    let digest = |bytes: &[u8]| unpacked(bytes, None).digest;
    let new = digest(b"new");
    assert_eq!(told(b"new", None), format!("{what}/cloud.wasm: cloud 2.0, 3 bytes\nbefore nothing\nnow    {new}"));
    // The digest is that of the component, however it is packed.
    let packed = gzip(b"old").unwrap();
    let before = map(&[("cloud.wasm.gz", &packed)]);
    let expected = format!("{what}/cloud.wasm.gz: cloud 2.0, 3 bytes\nbefore {}\nnow    {new}", digest(b"old"));
    assert_eq!(told(b"new", Some(&before)), expected);
    assert!(told(b"old", Some(&before)).ends_with(" (the same component)"));
    let bomb = map(&[("cloud.wasm.gz", &gzip(&vec![0; PACK_FROM * 3]).unwrap())]);
    assert!(told(b"new", Some(&bomb)).contains("\nbefore no component: "), "{}", told(b"new", Some(&bomb)));
    let large = vec![7; PACK_FROM + 1];
    assert!(told(&large, None).contains(&format!("{} bytes, ", PACK_FROM + 1)), "{}", told(&large, None));
    assert!(told(&large, None).contains(" packed\n"), "{}", told(&large, None));
}

/// Nobody watches a misspelt ConfigMap, and it was made without a word.
#[tokio::test]
async fn what_does_not_exist_is_made_only_where_it_is_asked_for() {
    let away = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::ready(Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked")))
    });
    let client = Client::new(away, "default");
    let target = |key: Option<&str>, creates: bool| Target {
        client: client.clone(),
        server: Uri::from_static("https://10.0.0.1"),
        namespace: "kube-system".to_owned(),
        name: "provder".to_owned(),
        key: key.map(str::to_owned),
        creates,
    };
    let refused = |key: Option<&str>, map: Option<&ConfigMap>| {
        target(key, true).must_be_there(map).unwrap();
        target(key, false).must_be_there(map).err().map(|error| error.to_string())
    };
    let missing = "configmap:kube-system/provder does not exist; correct the namespace or the name, or create the ConfigMap with --create";
    assert_eq!(refused(None, None).as_deref(), Some(missing));
    assert_eq!(refused(Some("p.wasm"), None).as_deref(), Some(missing));
    let mut there = map(&[("p.wasm", b"old")]);
    there.data = Some([("notes".to_owned(), "n".to_owned())].into());
    assert_eq!(refused(None, Some(&there)), None);
    assert_eq!(refused(Some("p.wasm"), Some(&there)), None);
    assert_eq!(refused(Some("notes"), Some(&there)), None);
    let no_key = "configmap:kube-system/provder has no key q.wasm, it has p.wasm, notes; correct the key, or add it with --create";
    assert_eq!(refused(Some("q.wasm"), Some(&there)).as_deref(), Some(no_key));
    let empty = refused(Some("q.wasm"), Some(&ConfigMap::default())).unwrap();
    assert!(empty.contains("has no key q.wasm, it is empty;"), "{empty}");
}
