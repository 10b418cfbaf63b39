//! What the operator configured.

use serde::de::DeserializeOwned;

use crate::bindings::provider::ccm::cloud::settings;
use crate::types::Problem;

pub use settings::{cluster_cidrs, cluster_name};

/// Value of a setting that `meta.describe` declares.
pub fn get(name: &str) -> Option<String> {
    settings::get(name)
}

/// Text of a file that `meta.describe` declares; JSON also where the operator wrote YAML. `None` without such a file, or with
/// an empty one.
pub fn file(name: &str) -> Option<String> {
    settings::file(name)
}

/// A JSON or YAML file as a value; `None` without such a file, or with an empty one.
///
/// # Errors
///
/// The first thing in the file that does not fit `T`, as a fatal problem about the file.
pub fn json_file<T: DeserializeOwned>(name: &str) -> Result<Option<T>, Problem> {
    file(name).map(|text| parse(name, &text)).transpose()
}

fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| Problem::fatal(name, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_fit_is_a_fatal_problem_about_it() {
        assert_eq!(parse::<Vec<u8>>("cloud-config", "[1, 2]"), Ok(vec![1, 2]));
        assert_eq!(
            parse::<Vec<u8>>("cloud-config", r#"[1, "two"]"#),
            Err(Problem::fatal("cloud-config", r#"invalid type: string "two", expected u8 at line 1 column 9"#))
        );
    }
}
