use kube::client::Body;

use super::*;

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn a_source_reads_back_as_it_was_written() {
    for text in ["/etc/a:b", "./a:b", "provider.wasm", "configmap:kube-system/cloud", "configmap:a/b/c.wasm"] {
        assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
    }
    let almost = ["configmaps:a/b", "ConfigMap:a/b", "https://example.org/cloud.wasm"];
    let without = ["", "configmap:", "configmap:name", "configmap:a/b/c/d", "configmap:a//c", "configmap:/b"];
    for text in without.into_iter().chain(almost) {
        let error = text.parse::<Source>().unwrap_err();
        assert!(error.contains("NAMESPACE/NAME"), "{text:?}: {error}");
    }
}

#[test]
fn an_api_server_that_is_away_says_nothing_about_the_source() {
    let api = |code| {
        let (reason, message) = if code == 403 { ("Forbidden", "User \"ccm\" cannot get it") } else { ("", "") };
        let (reason, message) = (reason.to_owned(), message.to_owned());
        FetchError::Api(kube::Error::Api(Box::new(kube::core::Status { code, reason, message, ..Default::default() })))
    };
    let away = FetchError::Api(kube::Error::Service(Box::new(std::io::Error::other("connection refused"))));
    for error in [api(500), api(503), api(429), away, FetchError::ApiTimeout] {
        assert!(error.is_passing(), "{error}");
        assert!(
            !error.to_string().contains("the right to get it"),
            "nobody should look for a right that is there: {error}"
        );
    }
    assert!(api(403).to_string().contains("the right to get it"), "{}", api(403));
    let gone = FetchError::NoConfigMap { namespace: "a".into(), name: "b".into() };
    for error in [api(403), api(401), gone, FetchError::Empty(vec![])] {
        assert!(!error.is_passing(), "{error}");
    }
}

#[test]
fn a_name_that_no_config_map_can_have_is_refused_and_its_part_is_named() {
    let long = "a".repeat(64);
    let longer = "a".repeat(254);
    let cases = [
        ("Kube-System/cloud", "the namespace \"Kube-System\""),
        ("kube.system/cloud", "the namespace \"kube.system\""),
        ("-a/cloud", "the namespace \"-a\""),
        (&format!("{long}/cloud"), "the namespace \"aaa"),
        ("a/b/c d", "the key \"c d\""),
        ("a/cloud_lycke", "the name \"cloud_lycke\""),
        ("a/cloud..lycke", "the name \"cloud..lycke\""),
        ("a/b-.c", "the name \"b-.c\""),
        ("a/.b", "the name \".b\""),
        ("a/ä", "the name \"ä\""),
        (&format!("a/{longer}"), "the name \"aaa"),
        ("a/b/../c", "NAMESPACE/NAME"),
        ("a/b/..", "the key \"..\""),
        ("a/b/.", "the key \".\""),
        ("a/b/k:y", "the key \"k:y\""),
        (&format!("a/b/{longer}"), "the key \"aaa"),
    ];
    for (reference, part) in cases {
        let error = format!("configmap:{reference}").parse::<Source>().unwrap_err();
        assert!(error.contains(part) && error.contains("configmap:NAMESPACE/NAME"), "{reference}: {error}");
    }
    for good in [
        "a/b",
        "0-9/1.b-c.d/.hidden_Key-1.wasm",
        &format!("{}/{}/{}", "a".repeat(63), "b".repeat(253), "K".repeat(253)),
    ] {
        let source = format!("configmap:{good}").parse::<Source>();
        assert!(source.is_ok(), "{source:?}");
    }
}

/// Reads a folder with these files in it.
async fn read_folder(files: &[&str]) -> Result<Packed, FetchError> {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        std::fs::write(folder.path().join(file), COMPONENT).unwrap();
    }
    Source::Path(folder.path().to_owned()).fetch(None, 1000).await
}

#[tokio::test]
async fn a_folder_must_hold_exactly_one_component() {
    assert_eq!(read_folder(&["a.wasm", "README.md", "..data.wasm"]).await.unwrap().bytes, COMPONENT);
    assert!(
        matches!(read_folder(&["a.wasm", "b.wasm.gz"]).await, Err(FetchError::Ambiguous(names)) if names == ["a.wasm", "b.wasm.gz"])
    );
    assert!(matches!(read_folder(&["README.md"]).await, Err(FetchError::Empty(names)) if names == ["README.md"]));
    assert!(matches!(read_folder(&[]).await, Err(FetchError::Empty(names)) if names.is_empty()));
}

#[tokio::test]
async fn a_mounted_config_map_is_read_through_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("..2026_01_01");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("cloud.wasm"), COMPONENT).unwrap();
    std::os::unix::fs::symlink("..2026_01_01", folder.path().join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/cloud.wasm", folder.path().join("cloud.wasm")).unwrap();
    assert_eq!(Source::Path(folder.path().to_owned()).fetch(None, 1000).await.unwrap().bytes, COMPONENT);
}

#[tokio::test]
async fn a_file_over_the_limit_is_not_even_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(5 << 30).unwrap();
    let error = Source::Path(file.path().to_owned()).fetch(None, 1000).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { size, limit: 1000 } if size == 5 << 30), "{error}");
}

/// A pipe that nobody writes to once kept the process from ending; `/dev/zero` filled its memory.
#[tokio::test]
async fn what_is_no_file_is_not_read() {
    let error = "/dev/zero".parse::<Source>().unwrap().fetch(None, 1000).await.unwrap_err();
    assert!(matches!(error, FetchError::NotAFile(_)), "{error}");
}

/// The caller says which source: its path once stood twice in the line.
#[tokio::test]
async fn of_a_source_that_cannot_be_read_only_what_the_caller_does_not_know_is_told() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("link.wasm")).unwrap();
    let nested = tempfile::tempdir().unwrap();
    std::fs::create_dir(nested.path().join("folder.wasm")).unwrap();
    let cases = [
        (Path::new("/nowhere/cloud.wasm"), "cannot read it: No such file"),
        (folder.path(), "cannot read link.wasm in it: No such file"),
        (nested.path(), "folder.wasm in it is no regular file"),
        (Path::new("/dev/zero"), "it is no regular file"),
    ];
    for (path, begins) in cases {
        let error = Source::Path(path.to_owned()).fetch(None, 1).await.unwrap_err().to_string();
        assert!(error.starts_with(begins), "{}: {error}", path.display());
        assert!(!error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_config_map_is_not_waited_for_without_end() {
    let (service, _silent) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let client = Client::new(service, "default");
    let begun = tokio::time::Instant::now();
    let source: Source = "configmap:a/b".parse().unwrap();
    let error = source.fetch(Some(&client), 1).await.unwrap_err();
    assert!(matches!(error, FetchError::ApiTimeout), "{error}");
    assert_eq!(
        (error.to_string().as_str(), begun.elapsed().as_secs()),
        ("the API server did not answer within 30s", 30)
    );
}
