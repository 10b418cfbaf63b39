use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ccm_cloud::{Credential, Descriptor, Source};

use super::*;
use crate::credentials::CredentialSource;

const CONFIG: &str = "[Global]\nproject = one\n";

/// An ID and its secret, each in a file, with a cloud-config.
fn credentials(folder: &Path) -> Credentials {
    let declared = |name: &str| Credential {
        name: name.to_owned(),
        purpose: String::new(),
        required: true,
        value: Source::default(),
        uses: vec![],
    };
    let descriptor = Descriptor { credentials: ["id", "secret"].map(declared).into(), ..Descriptor::default() };
    let given = ["id", "secret"].map(|name| (name.to_owned(), CredentialSource::file(folder.join(name))));
    let path = folder.join("cloud.conf");
    let format = ConfigFormat::Ini;
    let shown = ConfigFile::read(CONFIG.as_bytes(), format).unwrap().unwrap().for_guest(&BTreeMap::new());
    let edition = Edition::new(vec![ToldFile { path, format, declared: BTreeMap::new(), shown }]);
    Credentials::new(&descriptor, given.into(), vec![], Arc::default(), 8, edition)
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn write_pair(folder: &Path, number: u32) {
    for name in ["id", "secret"] {
        write(folder, name, &format!("{name}-number-{number}"));
    }
}

fn value(credentials: &Credentials, name: &str) -> String {
    String::from_utf8(credentials.value(name).unwrap().expose().to_vec()).unwrap()
}

fn pair(credentials: &Credentials) -> [String; 2] {
    ["id", "secret"].map(|name| value(credentials, name))
}

fn numbered(number: u32) -> [String; 2] {
    ["id", "secret"].map(|name| format!("{name}-number-{number}"))
}

/// The new ID went with the old secret.
#[test]
fn half_of_a_pair_waits_for_the_other_half() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", CONFIG);
    write_pair(folder.path(), 1);
    let credentials = credentials(folder.path());
    assert_eq!(pair(&credentials), numbered(1));
    let edition = credentials.edition();
    for missing in ["id", "secret"] {
        write_pair(folder.path(), 2);
        std::fs::remove_file(folder.path().join(missing)).unwrap();
        assert_eq!((pair(&credentials), credentials.edition()), (numbered(1), edition), "no {missing}");
        write(folder.path(), missing, "short");
        assert_eq!((pair(&credentials), credentials.edition()), (numbered(1), edition), "{missing} cannot be used");
    }
    write_pair(folder.path(), 2);
    assert_eq!(pair(&credentials), numbered(2));
    assert_ne!(credentials.edition(), edition);
}

/// The ID stood in the cloud-config, and the provider sent the old one with the new secret.
#[test]
fn values_stay_while_the_cloud_config_says_something_else_than_the_provider_was_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", CONFIG);
    write_pair(folder.path(), 1);
    let credentials = credentials(folder.path());
    assert_eq!(pair(&credentials), numbered(1));
    write_pair(folder.path(), 2);
    for other in ["[Global]\nproject = two\n", "[Global\n", ""] {
        write(folder.path(), "cloud.conf", other);
        assert_eq!(pair(&credentials), numbered(1), "{other:?}");
    }
    std::fs::remove_file(folder.path().join("cloud.conf")).unwrap();
    assert_eq!(pair(&credentials), numbered(1), "it is gone");
    write(folder.path(), "cloud.conf", &format!("{CONFIG}; a comment says nothing\n"));
    assert_eq!(pair(&credentials), numbered(2));
}

#[test]
fn a_provider_is_not_opened_with_credentials_of_another_configuration() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", "[Global]\nproject = two\n");
    write_pair(folder.path(), 1);
    let refusal = credentials(folder.path()).value("id").err().unwrap().to_string();
    assert!(refusal.contains("cloud.conf differs from the configuration in use"), "{refusal}");
}

/// As the kubelet replaces a mounted Secret: a new folder each time, and a link that is switched.
#[test]
fn what_is_done_within_one_edition_never_has_values_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let switch = |number: u32| {
        let new = format!("..{number}");
        std::fs::create_dir(at(&new)).unwrap();
        write_pair(&at(&new), number);
        std::os::unix::fs::symlink(new, at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
    };
    write(folder.path(), "cloud.conf", CONFIG);
    switch(0);
    for name in ["id", "secret"] {
        std::os::unix::fs::symlink(Path::new("..data").join(name), at(name)).unwrap();
    }
    let credentials = credentials(folder.path());
    assert_eq!(pair(&credentials), numbered(0));
    let (mut seen, mut mixed) = (BTreeSet::new(), vec![]);
    let looks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let switches = scope.spawn(|| {
            for number in 1..300 {
                let before = looks.load(Ordering::Relaxed);
                switch(number);
                // Faster ones would leave no edition to anybody.
                while looks.load(Ordering::Relaxed).wrapping_sub(before) < 2 {
                    std::thread::yield_now();
                }
            }
        });
        // Nothing here may end the loop before: the other thread waits for it.
        while !switches.is_finished() {
            let edition = credentials.edition();
            let pair = pair(&credentials);
            if credentials.edition() == edition {
                let numbers: BTreeSet<_> = pair.iter().filter_map(|value| value.rsplit('-').next()).collect();
                if numbers.len() == 1 { seen.extend(pair) } else { mixed.push(pair) }
            }
            looks.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(mixed.is_empty() && seen.len() > 2, "{mixed:?} {seen:?}");
}
