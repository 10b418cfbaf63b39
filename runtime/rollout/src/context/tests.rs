use ccm_cloud::ConfigFormat;

use super::*;
use crate::config::ProviderRecord;

const PASSWORD: &str = "cloud:Global.password";

fn file(name: &str, format: ConfigFormat, path_keys: &[&str]) -> ccm_cloud::ConfigFile {
    let path_keys = path_keys.iter().map(|&key| key.to_owned()).collect();
    ccm_cloud::ConfigFile { name: name.to_owned(), format, path_keys, default_paths: vec![] }
}

fn descriptor(files: Vec<ccm_cloud::ConfigFile>) -> Descriptor {
    Descriptor { name: "test".to_owned(), files, ..Descriptor::default() }
}

/// A provider whose cloud-config says this.
fn config(text: &str) -> (tempfile::NamedTempFile, ProviderConfig) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let cloud_config = Some(file.path().to_owned());
    let record = ProviderRecord { source: "a.wasm".to_owned(), cloud_config, ..ProviderRecord::default() };
    (file, record.check().unwrap())
}

#[test]
fn a_key_of_paths_shows_no_secret() {
    let (_file, config) = config("[Global]\npassword = hunter2\nplain = /hunter2\n");
    let cases = [
        (PASSWORD, "the file that cloud:Global.password (line 2) names (more) is not granted", false),
        ("cloud:Global.plain", "file \"/hunter2\" (more) is named in the cloud-config but not granted", true),
    ];
    for (key, says, shown) in cases {
        let files = vec![file("cloud", ConfigFormat::Ini, &[]), file("more", ConfigFormat::Yaml, &[key])];
        let error = format!("{:#}", config.files(&descriptor(files)).err().unwrap());
        assert!(error.contains(says) && error.contains("hunter2") == shown, "{error:?} does not say {says:?}");
    }
}
