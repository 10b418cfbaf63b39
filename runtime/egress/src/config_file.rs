//! Reads the files that a provider declares.
//!
//! JSON and YAML reach the provider as JSON: one parser, here, whose errors carry line and column. INI reaches it as it is.

use ccm_cloud::ConfigFormat;

/// Largest file, in bytes. The cloud-configs of the five clouds stay below 10 KiB.
pub const MAX_CONFIG_FILE: usize = 1 << 20;

/// Why a file cannot be used. The caller says which file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// Larger than [`MAX_CONFIG_FILE`].
    #[error("it has {0} bytes, the limit is {MAX_CONFIG_FILE}")]
    TooLarge(usize),
    /// Not UTF-8.
    #[error("it is not UTF-8 text: the first bad byte is number {0}")]
    NotText(usize),
    /// The parser's words, which end with line and column.
    #[error("it is not {format}: {message}")]
    Syntax {
        /// What it should be.
        format: &'static str,
        /// Where and why not.
        message: String,
    },
    /// A list or a single value where settings should be.
    #[error("it must be a mapping of names to values, not {0}")]
    NotAMapping(&'static str),
}

/// What a provider gets for the bytes of a file; none for an empty one.
///
/// # Errors
///
/// See [`ConfigFileError`].
pub fn read(bytes: &[u8], format: ConfigFormat) -> Result<Option<String>, ConfigFileError> {
    if bytes.len() > MAX_CONFIG_FILE {
        return Err(ConfigFileError::TooLarge(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| ConfigFileError::NotText(error.valid_up_to()))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: serde_json::Value = match format {
        ConfigFormat::Ini => return Ok(Some(text.to_owned())),
        ConfigFormat::Json => serde_json::from_str(text)
            .map_err(|error| ConfigFileError::Syntax { format: "JSON", message: error.to_string() })?,
        ConfigFormat::Yaml => serde_saphyr::from_str(text)
            .map_err(|error| ConfigFileError::Syntax { format: "YAML", message: first_line(&error.to_string()) })?,
    };
    let not_a_mapping = match &value {
        serde_json::Value::Object(_) => return Ok(Some(value.to_string())),
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::String(_) | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => "a single value",
    };
    Err(ConfigFileError::NotAMapping(not_a_mapping))
}

/// The message without the picture of the source below it: the source may hold secrets.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_arrive_as_json_and_ini_as_it_is() {
        let cases: [(&str, ConfigFormat, Option<&str>); 7] = [
            (
                "mode: adaptive\npool:\n  cidr: 10.0.0.0/24\n",
                ConfigFormat::Yaml,
                Some(r#"{"mode":"adaptive","pool":{"cidr":"10.0.0.0/24"}}"#),
            ),
            (r#"{"mode": "fixture"}"#, ConfigFormat::Yaml, Some(r#"{"mode":"fixture"}"#)),
            (r#"{"a": [1, true, null]}"#, ConfigFormat::Json, Some(r#"{"a":[1,true,null]}"#)),
            ("[Global]\nkey = value\n", ConfigFormat::Ini, Some("[Global]\nkey = value\n")),
            ("", ConfigFormat::Yaml, None),
            ("# only a comment\n", ConfigFormat::Yaml, None),
            ("  \n", ConfigFormat::Json, None),
        ];
        for (text, format, json) in cases {
            assert_eq!(read(text.as_bytes(), format).unwrap().as_deref(), json, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_where_and_why() {
        let cases: [(&[u8], ConfigFormat, &str); 6] = [
            (b"mode: [adaptive\n", ConfigFormat::Yaml, "line "),
            (b"{\n  \"mode\": }", ConfigFormat::Json, "line 2 column 11"),
            (b"mode: a\nmode: b\n", ConfigFormat::Yaml, "mode"),
            (b"- a\n- b\n", ConfigFormat::Yaml, "not a list"),
            (b"adaptive", ConfigFormat::Yaml, "not a single value"),
            (b"mode: \xff", ConfigFormat::Yaml, "byte is number 6"),
        ];
        for (bytes, format, part) in cases {
            let message = read(bytes, format).unwrap_err().to_string();
            assert!(message.contains(part), "{message:?} does not say {part:?}");
            assert!(!message.contains('\n'), "{message:?}");
        }
        assert!(matches!(read(&vec![b' '; MAX_CONFIG_FILE + 1], ConfigFormat::Ini), Err(ConfigFileError::TooLarge(_))));
    }

    #[test]
    fn an_alias_bomb_is_an_error_and_not_a_full_memory() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert!(read(bomb.as_bytes(), ConfigFormat::Yaml).is_err());
    }
}
