//! Provider IDs: `digitalocean://` and the droplet's ID.

const PREFIX: &str = "digitalocean://";

pub(crate) fn format(droplet: u64) -> String {
    format!("{PREFIX}{droplet}")
}

/// # Errors
///
/// What is wrong with it, for people.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("provider ID cannot be empty".to_owned());
    }
    let Some(number) = text.strip_prefix(PREFIX) else {
        return Err(format!("provider ID {text:?} is missing prefix {PREFIX:?}"));
    };
    if number.is_empty() {
        return Err("provider ID number cannot be empty".to_owned());
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    match number.parse() {
        Ok(id) if digits && id > 0 => Ok(id),
        _ => Err(format!("provider ID number {number:?} is no droplet ID: a decimal number from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn do_001_a_provider_id_is_read_or_told_what_is_wrong_with_it() {
        assert_eq!(parse("digitalocean://12345"), Ok(12_345));
        assert_eq!(format(12_345), "digitalocean://12345");
        for (case, text, wrong) in [
            ("do_002", "", "provider ID cannot be empty"),
            ("do_003", "digitalocean://", "provider ID number cannot be empty"),
            ("do_004", "digitalocean:/12345", "missing prefix \"digitalocean://\""),
            ("do_005", "digitalocean://12345cruft", "\"12345cruft\" is no droplet ID"),
            ("4.1", "digitalocean://0", "\"0\" is no droplet ID"),
            ("4.1", "digitalocean://+5", "\"+5\" is no droplet ID"),
            ("4.1", "digitalocean://99999999999999999999", "is no droplet ID"),
        ] {
            assert!(parse(text).is_err_and(|message| message.contains(wrong)), "{case}: {text}");
        }
    }
}
