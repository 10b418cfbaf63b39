use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ccm_cloud::{Credential, CredentialUse, Descriptor, Place, Source};
use tokio::sync::watch;

use super::*;
use crate::credentials::{CredentialSource, Object};

const CONFIG: &str = "[Global]\nproject = one\n";

/// An ID and its secret, each in a file, with a cloud-config.
fn credentials(folder: &Path) -> Credentials {
    credentials_in(folder, CONFIG, [("id", folder.join("id"), "/"), ("secret", folder.join("secret"), "/")])
}

/// Credentials in these files, which may go to these paths of the API (`""`: to all), of a provider that was told of this cloud-config in `folder`.
fn credentials_in<const N: usize>(folder: &Path, config: &str, files: [(&str, PathBuf, &str); N]) -> Credentials {
    credentials_of(folder, config, files.map(|(name, file, path)| (name, CredentialSource::file(file), path)))
}

/// The same with whatever sources.
fn credentials_of<const N: usize>(
    folder: &Path,
    config: &str,
    sources: [(&str, CredentialSource, &str); N],
) -> Credentials {
    let place = || Place::Body;
    let used = |path: &str| CredentialUse {
        endpoint: "api".to_owned(),
        place: place(),
        path: (!path.is_empty()).then(|| path.to_owned()),
    };
    let declared = |(name, _, path): &(&str, CredentialSource, &str)| Credential {
        name: (*name).to_owned(),
        purpose: String::new(),
        required: true,
        value: Source::default(),
        uses: vec![used(path)],
    };
    let descriptor = Descriptor { credentials: sources.iter().map(declared).collect(), ..Descriptor::default() };
    let granted = descriptor.credentials.iter().map(|credential| {
        (credential.name.clone(), credential.uses.iter().map(crate::credentials::UseGrant::of).collect())
    });
    let granted = granted.collect();
    let given = sources.map(|(name, source, _)| (name.to_owned(), source));
    let path = folder.join("cloud.conf");
    let format = ConfigFormat::Ini;
    let shown = ConfigFile::read(config.as_bytes(), format).unwrap().unwrap().for_guest(&BTreeMap::new());
    let edition = Edition::new(vec![ToldFile { path, format, declared: BTreeMap::new(), shown }]);
    Credentials::new(&descriptor, granted, given.into(), vec![], Arc::default(), 8, edition)
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

/// It was lost for as long as the other half was.
#[test]
fn half_of_a_pair_that_is_back_can_be_read_though_it_waits_for_the_other_half() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", CONFIG);
    write_pair(folder.path(), 1);
    let credentials = credentials(folder.path());
    let lost = || {
        let states = credentials.sources().borrow().clone();
        let lost = states.into_iter().filter(|state| state.unreadable.is_some());
        lost.map(|state| state.credential).collect::<Vec<_>>()
    };
    assert_eq!(pair(&credentials), numbered(1));
    assert!(lost().is_empty());
    for name in ["id", "secret"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_eq!(pair(&credentials), numbered(1));
    assert_eq!(lost(), ["id", "secret"]);
    for number in [1, 2] {
        write(folder.path(), "id", &format!("id-number-{number}"));
        assert_eq!(pair(&credentials), numbered(1), "{number}");
        assert_eq!(lost(), ["secret"], "{number}");
    }
    write(folder.path(), "secret", "secret-number-2");
    assert_eq!((pair(&credentials), lost()), (numbered(2), vec![]));
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

const OTHER: &str = "[Global]\nproject = two\n";

/// A projected token ended after an hour, while somebody looked for what was wrong with the cloud-config.
#[test]
fn a_file_elsewhere_rotates_while_the_cloud_config_is_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, token) = (folder.path(), elsewhere.path().join("token"));
    let files = [
        ("id", mount.join("id"), "/login"),
        ("secret", mount.join("secret"), "/login"),
        ("token", token.clone(), "/machines"),
    ];
    write(mount, "cloud.conf", CONFIG);
    write_pair(mount, 1);
    std::fs::write(&token, "token-number-1").unwrap();
    let credentials = credentials_in(mount, CONFIG, files);
    assert_eq!((pair(&credentials), value(&credentials, "token").as_str()), (numbered(1), "token-number-1"));
    for (number, other) in [OTHER, "[Global\n", ""].into_iter().enumerate() {
        write(mount, "cloud.conf", other);
        write_pair(mount, 2);
        let rotated = format!("token-number-{}", number + 2);
        std::fs::write(&token, &rotated).unwrap();
        assert_eq!((pair(&credentials), value(&credentials, "token")), (numbered(1), rotated), "{other:?}");
    }
    write(mount, "cloud.conf", CONFIG);
    assert_eq!(pair(&credentials), numbered(2));
}

/// The host cannot know that two volumes belong together. What goes out in one request may be a pair all the same.
#[test]
fn what_may_go_with_a_value_that_waits_waits_with_it_wherever_it_is() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, other) = (folder.path(), elsewhere.path());
    let paths = [("/login", "/login", true), ("", "/login", true), ("/login", "/machines", false)];
    for (of_id, of_secret, is_pair) in paths {
        write(mount, "cloud.conf", CONFIG);
        write(mount, "id", "id-number-1");
        write(other, "secret", "secret-number-1");
        let files = [("id", mount.join("id"), of_id), ("secret", other.join("secret"), of_secret)];
        let credentials = credentials_in(mount, CONFIG, files);
        assert_eq!(pair(&credentials), numbered(1));
        write(mount, "cloud.conf", OTHER);
        write(other, "secret", "secret-number-2");
        assert_eq!(value(&credentials, "secret"), "secret-number-2", "the ID is the one that there is");
        write(mount, "id", "id-number-3");
        write(other, "secret", "secret-number-3");
        let goes = if is_pair { "secret-number-2" } else { "secret-number-3" };
        assert_eq!(pair(&credentials), ["id-number-1", goes], "{of_id} {of_secret}");
        write(mount, "cloud.conf", CONFIG);
        assert_eq!(pair(&credentials), numbered(3));
    }
}

/// One key that could not be read held back all credentials of the provider, also a projected token, which ended.
#[test]
fn a_broken_key_of_the_cloud_config_holds_back_what_goes_with_it_and_nothing_else() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, other) = (folder.path(), elsewhere.path());
    let config = |password: &str| format!("[Global]\npassword = {password}\n");
    let write_others = |number: u32| {
        for name in ["user", "token"] {
            write(other, name, &format!("{name}-number-{number}"));
        }
    };
    let first = config("password-number-1");
    write(mount, "cloud.conf", &first);
    write_others(1);
    let key = CredentialSource::config_key(mount.join("cloud.conf"), ConfigFormat::Ini, "Global.password");
    let sources = [
        ("password", key, "/login"),
        ("user", CredentialSource::file(other.join("user")), "/login"),
        ("token", CredentialSource::file(other.join("token")), "/machines"),
    ];
    let credentials = credentials_of(mount, &first, sources);
    let values = || ["password", "user", "token"].map(|name| value(&credentials, name));
    assert_eq!(values(), ["password-number-1", "user-number-1", "token-number-1"]);
    let mut number = 1;
    for broken in ["[Global\n", "", &config("short"), "[Global]\nproject = one\n"] {
        number += 1;
        write(mount, "cloud.conf", broken);
        write_others(number);
        assert_eq!(values(), ["password-number-1", "user-number-1", &format!("token-number-{number}")], "{broken:?}");
    }
    std::fs::remove_file(mount.join("cloud.conf")).unwrap();
    write_others(8);
    assert_eq!(values(), ["password-number-1", "user-number-1", "token-number-8"], "it is gone");
    write(mount, "cloud.conf", &config("password-number-9"));
    write_others(9);
    assert_eq!(values(), ["password-number-9", "user-number-9", "token-number-9"]);
}

/// The token went out with the old secret, which waited for its ID.
#[test]
fn what_waits_keeps_back_what_may_go_with_it_in_turn() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, other) = (folder.path(), elsewhere.path());
    let files = [
        ("id", mount.join("id"), "/login"),
        ("secret", other.join("secret"), ""),
        ("token", other.join("token"), "/machines"),
    ];
    write(mount, "cloud.conf", CONFIG);
    write_pair(mount, 1);
    for name in ["secret", "token"] {
        write(other, name, &format!("{name}-number-1"));
    }
    let credentials = credentials_in(mount, CONFIG, files);
    let values = || ["id", "secret", "token"].map(|name| value(&credentials, name));
    assert_eq!(values(), ["id-number-1", "secret-number-1", "token-number-1"]);
    for broken in [Some("id-number-2"), Some("short"), None] {
        match broken {
            // It waits for the configuration.
            Some(id) if id.len() > 8 => write(mount, "cloud.conf", OTHER),
            _ => write(mount, "cloud.conf", CONFIG),
        }
        match broken {
            Some(id) => write(mount, "id", id),
            None => std::fs::remove_file(mount.join("id")).unwrap(),
        }
        // The secret is the one that there is: nothing of it waits.
        write(other, "secret", "secret-number-1");
        let rotated = format!("token-of-{broken:?}");
        write(other, "token", &rotated);
        assert_eq!(values(), ["id-number-1", "secret-number-1", &rotated], "{broken:?}");
        write(other, "secret", "secret-number-2");
        write(other, "token", "token-number-2");
        assert_eq!(values(), ["id-number-1", "secret-number-1", &rotated], "{broken:?}");
    }
    write(mount, "id", "id-number-2");
    assert_eq!(values(), ["id-number-2", "secret-number-2", "token-number-2"]);
}

/// Nobody knows whether a Secret that is not seen any more has another value by now: it may be so for good. Of one that is gone, this is known.
#[test]
fn what_goes_with_a_secret_that_is_not_seen_any_more_rotates_and_waits_for_one_that_is_gone() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, other) = (folder.path(), elsewhere.path());
    let rotate = |number: u32| write(other, "secret", &format!("secret-number-{number}"));
    let values = |number: u32| Arc::new([("id".to_owned(), Secret::new(format!("id-number-{number}").into()))].into());
    let unseen = |number| Object::Unseen { last: Some(values(number)), why: "no right".into() };
    let (newest, object) = watch::channel(Object::Is(values(1)));
    let (name, key) = ("secret:a/b/id".to_owned(), "id".to_owned());
    let id = CredentialSource::Watched { name, key, object, keeper: Arc::new(()) };
    let secret = CredentialSource::file(other.join("secret"));
    write(mount, "cloud.conf", CONFIG);
    rotate(1);
    let credentials = credentials_of(mount, CONFIG, [("id", id, "/login"), ("secret", secret, "/login")]);
    assert_eq!(pair(&credentials), numbered(1));
    newest.send_replace(unseen(1));
    assert_eq!(pair(&credentials), numbered(1));
    rotate(2);
    assert_eq!(pair(&credentials), ["id-number-1", "secret-number-2"]);
    // It was read, and cannot be watched: what was read counts.
    newest.send_replace(unseen(2));
    assert_eq!(pair(&credentials), numbered(2));
    for (number, gone) in [(3, Object::Absent), (4, Object::Unseen { last: None, why: "no right".into() })] {
        newest.send_replace(gone);
        rotate(number);
        assert_eq!(pair(&credentials), numbered(number - 1), "{number}");
        newest.send_replace(Object::Is(values(number)));
        assert_eq!(pair(&credentials), numbered(number));
    }
}

#[test]
fn a_file_that_the_cloud_config_names_waits_with_it() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mount, secret) = (folder.path(), elsewhere.path().join("secret"));
    let naming = |project: &str| format!("[Global]\nproject = {project}\nsecret-file = {}\n", secret.display());
    let unnamed = |project: &str| format!("[Global]\nproject = {project}\n");
    for (told, says, is_held) in [
        (naming("one"), naming("two"), true),
        (naming("one"), unnamed("two"), true),
        (unnamed("one"), naming("two"), true),
        (unnamed("one"), unnamed("two"), false),
    ] {
        write(mount, "cloud.conf", &told);
        std::fs::write(&secret, "secret-number-1").unwrap();
        let credentials = credentials_in(mount, &told, [("secret", secret.clone(), "/")]);
        assert_eq!(value(&credentials, "secret"), "secret-number-1");
        write(mount, "cloud.conf", &says);
        std::fs::write(&secret, "secret-number-2").unwrap();
        let is_new = value(&credentials, "secret") == "secret-number-2";
        assert_eq!(is_new, !is_held, "told {told:?}, says {says:?}");
    }
}

/// In a volume of the kubelet, links lead through folders that change with each update, and files may be in folders of their own.
#[test]
fn a_file_in_another_folder_of_the_same_volume_waits_with_the_cloud_config() {
    let volume = tempfile::tempdir().unwrap();
    let at = |name: &str| volume.path().join(name);
    for name in ["..1/a", "..1/b"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::os::unix::fs::symlink("..1", at("..data")).unwrap();
    for name in ["a", "b"] {
        std::os::unix::fs::symlink(Path::new("..data").join(name), at(name)).unwrap();
    }
    write(&at("a"), "cloud.conf", CONFIG);
    write(&at("b"), "secret", "secret-number-1");
    let credentials = credentials_in(&at("a"), CONFIG, [("secret", at("b/secret"), "/")]);
    assert_eq!(value(&credentials, "secret"), "secret-number-1");
    write(&at("a"), "cloud.conf", OTHER);
    write(&at("b"), "secret", "secret-number-2");
    assert_eq!(value(&credentials, "secret"), "secret-number-1");
}

/// Until the change of a file will certainly show in its stamp.
fn await_settled(folder: &Path, names: &[&str]) {
    while names.iter().any(|name| !Stamp::of(&folder.join(name)).is_ok_and(|(_, settled)| settled)) {
        std::thread::yield_now();
    }
}

/// The whole cloud-config was read and parsed for each request for as long as it was refused.
#[test]
fn what_waits_is_read_once_and_not_for_each_request() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", CONFIG);
    write_pair(folder.path(), 1);
    let credentials = credentials(folder.path());
    assert_eq!(pair(&credentials), numbered(1));
    let is_read = || {
        let before = credentials.edition.readings.load(Ordering::Relaxed);
        assert_eq!(pair(&credentials), numbered(1));
        credentials.edition.readings.load(Ordering::Relaxed) != before
    };
    for (config, secret) in [(OTHER, "secret-number-2"), ("[Global\n", "secret-number-3"), (CONFIG, "short")] {
        write(folder.path(), "cloud.conf", config);
        write(folder.path(), "secret", secret);
        await_settled(folder.path(), &["cloud.conf", "secret", "id"]);
        assert!(is_read() && !is_read(), "{config:?} {secret}");
    }
    std::fs::remove_file(folder.path().join("id")).unwrap();
    assert!(is_read() && !is_read(), "it is gone");
    write_pair(folder.path(), 2);
    assert_eq!(pair(&credentials), numbered(2), "and comes again");
}

#[test]
fn a_provider_is_not_opened_with_credentials_of_another_configuration() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", "[Global]\nproject = two\n");
    write_pair(folder.path(), 1);
    let refusal = credentials(folder.path()).value("id").err().unwrap().to_string();
    assert!(refusal.contains("cloud.conf differs from the configuration in use"), "{refusal}");
}

/// A request looks once. Whoever looks meanwhile changes the number by which it knows that it has to be made anew.
#[test]
fn values_that_are_held_are_of_one_edition_until_somebody_looks() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cloud.conf", CONFIG);
    write_pair(folder.path(), 1);
    let credentials = credentials(folder.path());
    let held = || {
        ["id", "secret"].map(|name| {
            let (value, generation) = credentials.value_held(name).unwrap();
            assert!(generation.is_none(), "nobody captured it");
            String::from_utf8(value.expose().to_vec()).unwrap()
        })
    };
    let edition = credentials.edition();
    write_pair(folder.path(), 2);
    assert_eq!((held(), credentials.edition_held()), (numbered(1), edition));
    credentials.look();
    assert_eq!(held(), numbered(2));
    assert_ne!(credentials.edition_held(), edition);
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
