//! Pages of `docs/reference`: people write the beginning, the program gives the rest, and a test compares.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The line after which a page is generated.
pub const MARK: &str = "<!-- `./just reference` writes the rest of this page. -->\n";

/// Compares the generated part of the page of this name with what it is now. With the environment variable `REFERENCE=write`, writes it
/// instead.
///
/// # Errors
///
/// The page has no [`MARK`], or its generated part is not `generated`.
pub fn is_current(name: &str, generated: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name).with_extension("md");
    let write = std::env::var_os("REFERENCE").is_some_and(|value| value == "write");
    compare(&path, generated, write)
}

fn compare(path: &Path, generated: &str, write: bool) -> Result<()> {
    let shown = path.file_name().unwrap_or_default().display();
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let (written, documented) =
        page.split_once(MARK).with_context(|| format!("docs/reference/{shown} lacks the line {MARK:?}"))?;
    let generated = format!("\n{generated}");
    if write {
        return Ok(fs::write(path, format!("{written}{MARK}{generated}"))?);
    }
    ensure!(documented == generated, "docs/reference/{shown} is not what the program says: run ./just reference");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_is_refused_until_it_is_written_and_keeps_what_people_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flags.md");
        fs::write(&path, format!("# Flags\n\nBy people.\n\n{MARK}\nold\n")).unwrap();
        let error = compare(&path, "new\n", false).unwrap_err().to_string();
        assert_eq!(error, "docs/reference/flags.md is not what the program says: run ./just reference");
        compare(&path, "new\n", true).unwrap();
        compare(&path, "new\n", false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("# Flags\n\nBy people.\n\n{MARK}\nnew\n"));
        fs::write(&path, "# Flags\n").unwrap();
        let error = compare(&path, "new\n", true).unwrap_err().to_string();
        assert!(error.starts_with("docs/reference/flags.md lacks the line"), "{error}");
    }
}
