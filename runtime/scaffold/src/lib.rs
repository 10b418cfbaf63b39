//! `wasm-ccm new`: the first files of a provider in a repository of its own.
//!
//! They stand in `template/`, of a cloud called MyCloud that does not exist, and make a provider that builds, has tests with a
//! cloud made of a script, and passes `wasm-ccm check`. A vendor changes them into those of a real cloud.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// What the template calls its cloud.
const NAME: &str = "mycloud";
const TYPE: &str = "MyCloud";
const VARIABLE: &str = "MYCLOUD";
/// In its manifest: where the SDK comes from.
const SDK: &str = "{ SDK";
/// The longest name. A Deployment and its ConfigMap have it in theirs.
const MAX_NAME: usize = 40;

/// Keywords of Rust, and crates that all others use: no crate can have their names.
const TAKEN: [&str; 55] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue", "core", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "serde", "static", "std",
    "struct", "super", "test", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while",
];

/// Path in the new folder, and text.
const FILES: [(&str, &str); 9] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".cargo/config.toml", include_str!("../template/config.toml")),
    ("rust-toolchain.toml", include_str!("../template/rust-toolchain.toml")),
    (".gitignore", include_str!("../template/gitignore")),
    ("README.md", include_str!("../template/README.md")),
    ("src/lib.rs", include_str!("../template/lib.rs")),
    ("src/machines.rs", include_str!("../template/machines.rs")),
    ("src/tests.rs", include_str!("../template/tests.rs")),
    ("cloud.py", include_str!("../template/cloud.py")),
];

/// Writes a provider called `name` into the new folder `name` of `parent`. Returns that folder.
///
/// `sdk` is where the SDK comes from: a folder, or `URL#REV` of a git repository; without `#REV` it is the newest there.
///
/// # Errors
///
/// The name or the SDK cannot be taken, the folder is there already, or a file cannot be written.
pub fn create(parent: &Path, name: &str, sdk: &str) -> Result<PathBuf> {
    check_name(name)?;
    let dependency = dependency(sdk)?;
    let folder = parent.join(name);
    fs::create_dir(&folder).with_context(|| {
        format!("cannot create the folder {}; use another name, or remove what is there", folder.display())
    })?;
    for (path, text) in FILES {
        let path = folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            // What the user gave comes last: it may contain the template's own name.
            let text = rename(text, name)
                .replace("--target HOST", &format!("--target {}", host()))
                .replace(SDK, &format!("{{ {dependency}"));
            fs::write(&path, text)
        });
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(folder)
}

fn rename(text: &str, name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let in_prose = if name == NAME { TYPE.to_owned() } else { first.into_iter().chain(letters).collect() };
    text.replace(NAME, name).replace(TYPE, &in_prose).replace(VARIABLE, &name.to_ascii_uppercase())
}

/// Checks the name of the package, of the provider, of its component file and of its overlay.
///
/// # Errors
///
/// It cannot be all of that.
pub fn check_name(name: &str) -> Result<()> {
    let is_good = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    ensure!(
        is_good && name.len() <= MAX_NAME,
        "{name:?} is no name of a provider: use lower-case letters and digits, at most {MAX_NAME}, a letter first, such as `mycloud`"
    );
    ensure!(!TAKEN.contains(&name), "{name:?} means something else to Rust: use another name, such as `{name}cloud`");
    Ok(())
}

/// The value of a dependency in a manifest, without braces.
fn dependency(sdk: &str) -> Result<String> {
    let is_plain = |text: &str| !text.contains(['"', '\\', '\n']);
    ensure!(
        !sdk.is_empty(),
        "--sdk is empty: give the folder providers/sdk of a checkout of wasm-ccm, or the URL of its repository"
    );
    ensure!(is_plain(sdk), "--sdk={sdk:?}: a quote, a backslash or a line break cannot stand in Cargo.toml");
    if sdk.contains("://") {
        return Ok(match sdk.split_once('#') {
            Some((_, "")) => bail!("--sdk={sdk}: after # comes a commit, a tag or a branch of the repository"),
            Some((url, rev)) => format!(r#"git = "{url}", rev = "{rev}""#),
            None => format!(r#"git = "{sdk}""#),
        });
    }
    let folder = fs::canonicalize(sdk).with_context(|| {
        format!(
            "--sdk={sdk}: there is no such folder; if it is a git repository, begin its URL with https:// or ssh://"
        )
    })?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    ensure!(
        manifest.lines().any(|line| line == "name = \"ccm-sdk\""),
        "--sdk={sdk}: this is not the SDK: give the folder providers/sdk of a checkout of wasm-ccm, or the URL of its repository"
    );
    let folder = folder.to_str().filter(|folder| is_plain(folder));
    let folder = folder.with_context(|| format!("--sdk={sdk}: its path cannot stand in Cargo.toml"))?;
    Ok(format!(r#"path = "{folder}""#))
}

/// The folder of the SDK, if `here` is in a checkout of wasm-ccm.
pub fn sdk_near(here: &Path) -> Option<PathBuf> {
    here.ancestors().map(|folder| folder.join("providers/sdk")).find(|folder| folder.join("Cargo.toml").is_file())
}

/// The target of this machine: tests run here, a component does not.
const fn host() -> &'static str {
    match () {
        () if cfg!(all(target_arch = "aarch64", target_os = "linux")) => "aarch64-unknown-linux-gnu",
        () if cfg!(all(target_arch = "aarch64", target_os = "macos")) => "aarch64-apple-darwin",
        () => "x86_64-unknown-linux-gnu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: &str = "https://git.example/mycloud/wasm-ccm";

    #[test]
    fn a_new_provider_has_its_own_name_everywhere() {
        let parent = tempfile::tempdir().unwrap();
        let folder = create(parent.path(), "acme7", &format!("{GIT}#v1.0")).unwrap();
        let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        for (path, _) in FILES {
            assert!(!read(path).replace(GIT, "").to_lowercase().contains(NAME), "{path}");
        }
        let manifest = read("Cargo.toml");
        let sdk = format!(r#"ccm-sdk = {{ git = "{GIT}", rev = "v1.0""#);
        assert_eq!(manifest.matches(&sdk).count(), 2, "{manifest}");
        assert!(manifest.contains("name = \"acme7\""), "{manifest}");
        let source = read("src/lib.rs");
        assert!(source.contains("//! Acme7: machines") && source.contains("\"ACME7_TOKEN\""), "{source}");
        assert!(read(".gitignore").lines().any(|line| line == "/token"), "its README puts a token there");
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let mine = parent.path().join("acme/Cargo.toml");
        fs::create_dir(parent.path().join("acme")).unwrap();
        fs::write(&mine, "mine").unwrap();
        let error = format!("{:#}", create(parent.path(), "acme", GIT).unwrap_err());
        assert!(
            error.contains("cannot create the folder")
                && error.contains("use another name")
                && error.contains("File exists"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    }

    #[test]
    fn a_name_or_an_sdk_that_cannot_be_taken_writes_nothing_and_says_what_would_be_right() {
        let parent = tempfile::tempdir().unwrap();
        let long = "a".repeat(MAX_NAME + 1);
        for (name, sdk, part) in [
            ("my-cloud", GIT, "lower-case letters and digits"),
            ("7up", GIT, "a letter first"),
            ("../up", GIT, "lower-case letters and digits"),
            (long.as_str(), GIT, "at most 40"),
            ("", GIT, "such as `mycloud`"),
            ("test", GIT, "such as `testcloud`"),
            ("move", GIT, "such as `movecloud`"),
            ("acme", "", "is empty"),
            ("acme", "git@git.example:x/y#main", "begin its URL with https:// or ssh://"),
            ("acme", "https://git.example/wasm-ccm#", "a commit, a tag or a branch"),
            ("acme", "https://git.example/\"", "a quote"),
            ("acme", "no/such/folder", "there is no such folder"),
            ("acme", env!("CARGO_MANIFEST_DIR"), "this is not the SDK"),
        ] {
            let error = format!("{:#}", create(parent.path(), name, sdk).unwrap_err());
            assert!(error.contains(part), "{name} {sdk}: {error}");
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(create(parent.path(), &long[1..], GIT).is_ok());
    }

    #[test]
    fn a_checkout_has_the_sdk_wherever_in_it_the_command_is_given() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = sdk_near(here).unwrap();
        assert!(dependency(found.to_str().unwrap()).unwrap().ends_with("providers/sdk\""), "{}", found.display());
        assert_eq!(sdk_near(Path::new("/")), None);
    }
}
