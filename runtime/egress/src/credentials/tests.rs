use ccm_cloud::{Credential, Source};

use super::*;

const NAMES: [&str; 3] = ["password", "user", "token"];

/// The first two are given in files.
pub(super) fn credentials(folder: &std::path::Path) -> Credentials {
    let given = ["password", "user"].map(|name| (name.to_owned(), CredentialSource::file(folder.join(name))));
    credentials_of(given.into())
}

pub(super) fn credentials_of(given: BTreeMap<String, CredentialSource>) -> Credentials {
    let declared = |name: &str| Credential {
        name: name.to_owned(),
        purpose: String::new(),
        required: false,
        value: Source::default(),
        uses: vec![],
    };
    let descriptor = Descriptor {
        credentials: NAMES.map(declared).into(),
        name: "test".to_owned(),
        version: String::new(),
        revision: String::new(),
        provider_id_schemes: vec![],
        files: vec![],
        endpoints: vec![],
        settings: vec![],
        annotations: vec![],
        ..Descriptor::default()
    };
    Credentials::new(&descriptor, UseGrants::new(), given, vec![], Arc::default(), 8, Edition::default())
}

fn why(refusal: Result<Secret, CredentialRefusal>) -> String {
    refusal.err().map(|refusal| refusal.to_string()).unwrap_or_default()
}

#[test]
fn another_password_ends_what_was_got_with_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &str| std::fs::write(folder.path().join(name), value).unwrap();
    write("password", "password-1");
    let credentials = credentials(folder.path());
    let store = || credentials.captured().store("token", Secret::new(b"token-value".to_vec()), None).unwrap();
    store();
    assert!(credentials.value("token").is_ok(), "the first value is no change");
    // The same again, and one that cannot be used, change nothing.
    write("password", "password-1");
    write("user", "short");
    assert!(credentials.value("token").is_ok());
    write("password", "password-2");
    assert!(!credentials.captured().look("token", None).1);
    assert!(credentials.value("token").is_err());
    let shown = credentials.redactor().unwrap().text("token-value password-1 password-2").into_owned();
    assert_eq!(shown, "(credential token) (credential password) (credential password)");
    store();
    assert!(credentials.value("token").is_ok());
    // Whoever notices it.
    write("password", "password-3");
    credentials.value("password").unwrap();
    assert!(credentials.captured.value("token").is_none());
}

#[test]
fn a_copy_goes_its_own_way_and_is_not_made_of_what_another_password_ends() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "password-1").unwrap();
    let store = |credentials: &Credentials, value: &str| {
        credentials.captured().store("token", Secret::new(value.into()), None).unwrap();
    };
    let has = |credentials: &Credentials| credentials.value("token").ok().map(|value| value.expose().to_vec());
    let (old, new) = (credentials(folder.path()), credentials(folder.path()));
    store(&old, "token-of-old");
    new.inherit(&old);
    assert_eq!(has(&new).unwrap(), b"token-of-old");
    store(&new, "token-of-new");
    assert_eq!(has(&old).unwrap(), b"token-of-old");
    old.captured().end_all();
    assert_eq!(has(&new).unwrap(), b"token-of-new");
    assert!(new.redactor().unwrap().text("token-of-old").contains("(credential token)"));

    store(&old, "token-of-old");
    std::fs::write(folder.path().join("password"), "password-2").unwrap();
    let newer = credentials(folder.path());
    newer.inherit(&old);
    assert_eq!((has(&newer), has(&old)), (None, None));
}

#[test]
fn a_value_must_not_carry_another_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "hunter2-hunter2").unwrap();
    let credentials = credentials(folder.path());
    credentials.value("password").unwrap();
    credentials.captured().store("token", Secret::new(b"token-value".to_vec()), None).unwrap();
    let cases = [
        ("token", "hunter2-hunter2", true),
        ("token", "x-hunter2-hunter2-x", true),
        ("token", "token-value", false),
        ("user", "token-value", true),
        ("token", "another-value", false),
    ];
    for (name, value, foreign) in cases {
        assert_eq!(
            credentials.redactor().unwrap().finds_other_than(name, value.as_bytes()),
            foreign,
            "{name}: {value}"
        );
    }
}

#[test]
fn what_is_too_short_or_too_long_to_be_kept_out_of_answers_is_refused() {
    let cases = [("            ", "less than 8 bytes"), ("  short7  ", "less than 8 bytes"), (" 12345678 ", "")];
    for (value, error) in cases {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), value).unwrap();
        let refusal = why(credentials(folder.path()).value("password"));
        assert!(refusal.contains(error) && refusal.is_empty() == error.is_empty(), "{value:?}: {refusal}");
    }
    let given = |bytes: usize| Given {
        source: CredentialSource::Environment {
            variable: "PASSWORD".to_owned(),
            value: Secret::new(vec![b'x'; bytes]),
        },
        volume: None,
        state: Mutex::default(),
    };
    assert!(given(MAX_CREDENTIAL_BYTES).fetch("password", 8).is_ok());
    let refusal = given(MAX_CREDENTIAL_BYTES + 1).fetch("password", 8).err().unwrap().why;
    assert!(refusal.contains("more than 65536 bytes"), "{refusal}");
}
