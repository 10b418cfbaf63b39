//! The program under test and the components, as the recipes built them.
//!
//! cargo writes beside each of them which sources it was made of. What is older than one of its sources is not handed out: a test of
//! it would be a test of what was there before. Without such a list nobody can tell, which is an error too; but not of a program that
//! the environment names: that may come from elsewhere.

pub mod reference;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};

/// The variable that names another program to test.
const PROGRAM: &str = "WASM_CCM";

/// The program that was built together with this one, or the one that the environment variable `WASM_CCM` names.
///
/// # Errors
///
/// It is not there, or it is older than one of its sources. It is compared once in the life of this process.
pub fn program() -> Result<PathBuf> {
    static CHECKED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| find_program().map_err(|error| format!("{error:#}")));
    checked.clone().map_err(anyhow::Error::msg)
}

fn find_program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(PROGRAM).map(PathBuf::from) {
        ensure!(path.is_file(), "{PROGRAM}={}: there is no such file", path.display());
        if list_of(&path).is_file() {
            is_fresh(&path, "build it again")?;
        }
        return Ok(path);
    }
    let this = std::env::current_exe()?;
    // Tests lie one folder deeper than programs.
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join("wasm-ccm")).find(|path| path.is_file());
    let path =
        beside.with_context(|| format!("there is no wasm-ccm beside {}: run `./just _programs`", this.display()))?;
    is_fresh(&path, "run `./just _programs`")?;
    Ok(path)
}

/// A component that the recipes built: `providers/cloudlycke.wasm`, `guests/hostile.wasm`.
///
/// # Errors
///
/// It was not built, or it is older than one of its sources.
pub fn component(name: &str) -> Result<PathBuf> {
    component_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), name)
}

fn component_in(target: &Path, name: &str) -> Result<PathBuf> {
    let path = target.join(name);
    let recipe = match name {
        "providers/cloudlycke-next.wasm" => "_next",
        name if name.starts_with("providers/") => "build-providers",
        name if name.starts_with("hello/") => "hello",
        _ => "_guests",
    };
    let way_out = format!("run `./just {recipe}`");
    let path = path.canonicalize().with_context(|| format!("{} is not there: {way_out}", path.display()))?;
    is_fresh(&path, &way_out)?;
    Ok(path)
}

/// The list of sources that cargo puts beside a file: of `x` and `x.wasm`, this is `x.d`.
fn list_of(path: &Path) -> PathBuf {
    path.with_extension("d")
}

/// Compares a file with the sources that the list beside it names.
fn is_fresh(path: &Path, way_out: &str) -> Result<()> {
    let list = list_of(path);
    let text = fs::read_to_string(&list);
    let text =
        text.with_context(|| format!("{}, the list of its sources, cannot be read: {way_out}", list.display()))?;
    let sources = sources(&text);
    ensure!(!sources.is_empty(), "{} names no source: {way_out}", list.display());
    let made = changed(path)?;
    for source in sources {
        let source = Path::new(&source);
        let is_older = changed(source).map(|changed| changed <= made);
        ensure!(is_older.unwrap_or(false), "{} is older than {}: {way_out}", path.display(), source.display());
    }
    Ok(())
}

fn changed(path: &Path) -> Result<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).with_context(|| path.display().to_string())
}

/// `made: source source`, as make has it: a blank that belongs to a name comes after a backslash.
fn sources(list: &str) -> Vec<String> {
    let Some((_, named)) = list.lines().next().unwrap_or_default().split_once(": ") else { return vec![] };
    const BLANK: &str = "\0";
    let parts = named.replace("\\ ", BLANK);
    parts.split(' ').filter(|part| !part.is_empty()).map(|part| part.replace(BLANK, " ")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_older_than_a_source_is_refused_with_the_name_of_the_source_and_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, age: u64| {
            let path = folder.path().join(name);
            let time = SystemTime::now() - Duration::from_secs(age);
            File::create(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let (made, old, new) = (at("guest.wasm", 60), at("old one.rs", 90), at("new.rs", 90));
        let error = is_fresh(&made, "build it").unwrap_err().to_string();
        assert!(error.contains("guest.d, the list of its sources, cannot be read: build it"), "{error}");
        fs::write(folder.path().join("guest.d"), format!("{}:\n", made.display())).unwrap();
        let error = is_fresh(&made, "build it").unwrap_err().to_string();
        assert!(error.contains("guest.d names no source: build it"), "{error}");
        let list = format!("{}: {} {}\n", made.display(), old.display(), new.display()).replace("old one", "old\\ one");
        fs::write(folder.path().join("guest.d"), list).unwrap();
        is_fresh(&made, "build it").unwrap();

        at("new.rs", 30);
        let error = is_fresh(&made, "build it").unwrap_err().to_string();
        assert_eq!(error, format!("{} is older than {}: build it", made.display(), new.display()));
        at("guest.wasm", 10);
        is_fresh(&made, "build it").unwrap();
        fs::remove_file(&old).unwrap();
        let error = is_fresh(&made, "build it").unwrap_err().to_string();
        assert!(error.contains("old one.rs"), "a source that is gone: {error}");
    }

    /// Tests are given components through this alone: without the comparison there, nobody would notice that one is stale.
    #[test]
    fn a_component_that_is_older_than_its_sources_is_not_handed_out_and_its_recipe_is_named() {
        for (name, recipe) in [
            ("providers/x.wasm", "build-providers"),
            ("providers/cloudlycke-next.wasm", "_next"),
            ("guests/x.wasm", "_guests"),
            ("hello/x.wasm", "hello"),
        ] {
            let target = tempfile::tempdir().unwrap();
            let at = |name: &str, age: u64| {
                let path = target.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                File::create(&path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
                path
            };
            let (made, source) = (at(name, 60), at("src/lib.rs", 90));
            let list = made.with_extension("d");
            let says = || component_in(target.path(), name).map_err(|error| format!("{error:#}"));
            let way_out = format!(": run `./just {recipe}`");
            let error = says().unwrap_err();
            assert!(error.contains("the list of its sources, cannot be read") && error.contains(&way_out), "{error}");
            fs::write(&list, format!("{}: {}\n", made.display(), source.display())).unwrap();
            assert_eq!(says(), Ok(made.canonicalize().unwrap()));
            at("src/lib.rs", 30);
            let error = says().unwrap_err();
            assert!(error.contains("is older than") && error.ends_with(&way_out), "{error}");
        }
    }

    /// A recipe that forgets the list of one would leave its tests without the comparison.
    #[test]
    fn every_component_has_the_list_of_its_sources_beside_it() {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        for folder in ["providers", "guests"] {
            let files = fs::read_dir(target.join(folder)).into_iter().flatten().map(|file| file.unwrap().path());
            for component in files.filter(|file| file.extension().is_some_and(|kind| kind == "wasm")) {
                let list = fs::read_to_string(list_of(&component)).unwrap_or_default();
                assert!(!sources(&list).is_empty(), "{} has no list of its sources", component.display());
            }
        }
    }

    #[test]
    fn what_was_never_built_is_named_with_its_recipe() {
        for (name, recipe) in
            [("providers/none.wasm", "build-providers"), ("guests/none.wasm", "_guests"), ("none", "_guests")]
        {
            let error = component(name).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(&format!("`./just {recipe}`")), "{error}");
        }
    }
}
