//! Whether the configuration is the one of another time.

use ccm_cloud::{ConfigFormat, LoadBalancers as _};
use ccm_egress::Settings;
use ccm_egress::config::ConfigFile;

use crate::rig::map;
use crate::setup::{SCRIPTED, Setup, given};

/// What a provider with this configuration says of it.
async fn digest(setup: Setup) -> String {
    let digest = setup.start(SCRIPTED).await.configuration();
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    digest
}

fn with(settings: Settings) -> Setup {
    Setup { settings, ..Setup::default() }
}

/// The cloud-config as a provider gets it.
fn file(text: &str) -> Settings {
    let file = ConfigFile::read(text.as_bytes(), ConfigFormat::Yaml).unwrap().unwrap();
    Settings { files: map(&[("cloud-config", &file.for_guest(&map(&[])))]), ..Settings::default() }
}

#[tokio::test]
async fn it_is_the_same_after_a_restart_and_another_one_when_the_operator_changes_something() {
    let nothing = digest(Setup::default()).await;
    assert_eq!(digest(Setup::default()).await, nothing);
    let url = |url: &str| Setup::default().endpoint("api", url.to_owned());
    let value = |value: &str| with(Settings { values: map(&[("mood", value)]), ..Settings::default() });
    let mut digests = vec![
        nothing.clone(),
        digest(url("http://127.0.0.1:1/a")).await,
        digest(url("http://127.0.0.1:1/b")).await,
        digest(Setup::default().endpoint("identity", "http://127.0.0.1:1/a".to_owned())).await,
        digest(value("gay")).await,
        digest(value("")).await,
        digest(with(file("mood: gay"))).await,
        digest(with(file("mood: grim"))).await,
        digest(with(Settings { cluster_name: "blue".into(), ..Settings::default() })).await,
        digest(with(Settings { cluster_cidrs: vec!["10.0.0.0/8".into()], ..Settings::default() })).await,
    ];
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
    assert_eq!(digest(value("grim")).await, nothing, "the provider's own default is nobody's configuration");
}

#[tokio::test]
async fn nothing_secret_has_a_part_in_it() {
    let nothing = digest(Setup::default()).await;
    assert_eq!(digest(Setup::default().credential("token", given("token-Vahgh5ee"))).await, nothing);
    let first = digest(with(file("password: hunter2\nmood: gay"))).await;
    assert_eq!(digest(with(file("password: hunter3\nmood: gay"))).await, first);
    assert_ne!(digest(with(file("password: hunter2\nmood: grim"))).await, first);
}
