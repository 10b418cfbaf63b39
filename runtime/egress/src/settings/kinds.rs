//! What values of settings look like, and the one form in which a provider gets them.

use std::net::IpAddr;
use std::time::Duration;

use ccm_cloud::ValueKind;

use crate::config_file::{FoundValue, json_for_guest};

/// The value in the form that a provider gets.
///
/// # Errors
///
/// What is wrong, as the end of a sentence that begins with the value.
pub(super) fn normal(kind: ValueKind, value: &FoundValue) -> Result<String, String> {
    let text = match (value, kind) {
        (FoundValue::Text(text), _) => text.clone(),
        (FoundValue::Blank, ValueKind::Boolean) => return Ok("true".to_owned()),
        (FoundValue::Blank, _) => {
            return Err("has no `=`, which only a boolean may lack; write `key = value`".to_owned());
        }
        (FoundValue::List(items), ValueKind::PortList | ValueKind::CidrList) => items.join(","),
        (FoundValue::List(_), _) => return Err("is a list; write one value".to_owned()),
        (FoundValue::Mapping, ValueKind::Json) => return Err("is a mapping; write it as a text in JSON".to_owned()),
        (FoundValue::Mapping, _) => return Err("is a mapping; write one value".to_owned()),
    };
    match kind {
        ValueKind::Text => Ok(text),
        ValueKind::Boolean => boolean(&text),
        ValueKind::Integer => integer(&text),
        ValueKind::Duration => duration(&text),
        ValueKind::PortList => {
            list(&text, |port| port.parse::<u16>().ok().filter(|&port| port > 0).map(|port| port.to_string()))
                .ok_or_else(|| "is not a list of ports; write it like 80,443".to_owned())
        }
        ValueKind::CidrList => list(&text, |cidr| is_cidr(cidr).then(|| cidr.to_owned()))
            .ok_or_else(|| "is not a list of CIDRs; write it like 10.0.0.0/8,fd00::/64".to_owned()),
        ValueKind::Json => json_for_guest(&text).map_err(|error| format!("cannot be read: {error}")),
    }
}

/// As gcfg and Go's flags take them.
fn boolean(text: &str) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" => Ok("true".to_owned()),
        "false" | "no" | "off" | "0" | "f" => Ok("false".to_owned()),
        _ => Err("is not a boolean; write true or false".to_owned()),
    }
}

fn integer(text: &str) -> Result<String, String> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) if text.starts_with('-') => (-1, digits),
        Some(digits) => (1, digits),
        None => (1, text),
    };
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|char: char| char.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        None if digits.starts_with(|char: char| char.is_ascii_digit()) => digits.parse().ok(),
        Some(_) | None => None,
    };
    let number = number.map(|number| i128::from(number) * sign).filter(|&number| number >= i128::from(i64::MIN));
    number
        .map(|number| number.to_string())
        .ok_or_else(|| "is not a whole number of 64 bits; write it like 30 or 0x1e".to_owned())
}

fn duration(text: &str) -> Result<String, String> {
    let signed = if text == "0" { Ok(jiff::SignedDuration::ZERO) } else { text.parse::<jiff::SignedDuration>() };
    let duration = signed.ok().and_then(|signed| Duration::try_from(signed).ok());
    let duration = duration.ok_or_else(|| "is not a duration; write it like 500ms, 90s or 1m30s".to_owned())?;
    let nanos = duration.subsec_nanos();
    Ok(match nanos {
        0 => format!("{}s", duration.as_secs()),
        _ if nanos % 1_000_000 == 0 => format!("{}ms", duration.as_millis()),
        _ => format!("{}ns", duration.as_nanos()),
    })
}

/// Items between commas; an empty text is an empty list.
fn list(text: &str, item: impl Fn(&str) -> Option<String>) -> Option<String> {
    if text.trim().is_empty() {
        return Some(String::new());
    }
    let items: Option<Vec<String>> = text.split(',').map(|part| item(part.trim())).collect();
    Some(items?.join(","))
}

/// Not `ipnet`, although it is in the tree: it takes `010.0.0.0/8` for 10.0.0.0/8, where others read an octal number.
fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.starts_with(|char: char| char.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> FoundValue {
        FoundValue::Text(text.to_owned())
    }

    #[test]
    fn values_reach_the_provider_in_one_form() {
        let cases = [
            (ValueKind::Text, " as it is ", " as it is "),
            (ValueKind::Boolean, "true", "true"),
            (ValueKind::Boolean, "YES", "true"),
            (ValueKind::Boolean, "On", "true"),
            (ValueKind::Boolean, "1", "true"),
            (ValueKind::Boolean, "T", "true"),
            (ValueKind::Boolean, "False", "false"),
            (ValueKind::Boolean, "no", "false"),
            (ValueKind::Boolean, "OFF", "false"),
            (ValueKind::Boolean, "0", "false"),
            (ValueKind::Integer, "30", "30"),
            (ValueKind::Integer, "-7", "-7"),
            (ValueKind::Integer, "+7", "7"),
            (ValueKind::Integer, "010", "10"),
            (ValueKind::Integer, "0x1E", "30"),
            (ValueKind::Integer, "-0X10", "-16"),
            (ValueKind::Integer, "18446744073709551615", "18446744073709551615"),
            (ValueKind::Integer, "-9223372036854775808", "-9223372036854775808"),
            (ValueKind::Duration, "0", "0s"),
            (ValueKind::Duration, "1m", "60s"),
            (ValueKind::Duration, "1m30s", "90s"),
            (ValueKind::Duration, "1.5s", "1500ms"),
            (ValueKind::Duration, "500ms", "500ms"),
            (ValueKind::Duration, "3us", "3000ns"),
            (ValueKind::PortList, "", ""),
            (ValueKind::PortList, "80", "80"),
            (ValueKind::PortList, " 80 , 443", "80,443"),
            (ValueKind::CidrList, "10.0.0.0/8, fd00::/64", "10.0.0.0/8,fd00::/64"),
            (ValueKind::Json, r#"{"a": [1]}"#, r#"{"a": [1]}"#),
            (ValueKind::Json, r#"{"a": {"token": "x"}}"#, r#"{"a":{"token":"(secret)"}}"#),
        ];
        for (kind, given, expected) in cases {
            assert_eq!(normal(kind, &text(given)).as_deref(), Ok(expected), "{kind:?} {given:?}");
        }
        assert_eq!(normal(ValueKind::Boolean, &FoundValue::Blank).as_deref(), Ok("true"));
        let list = FoundValue::List(vec!["80".to_owned(), "443".to_owned()]);
        assert_eq!(normal(ValueKind::PortList, &list).as_deref(), Ok("80,443"));
    }

    #[test]
    fn what_is_no_such_value_is_refused_with_what_would_be_right() {
        let cases = [
            (ValueKind::Boolean, &["", "maybe", "2", " true"][..], "true or false"),
            (
                ValueKind::Integer,
                &["", "1.5", "0x", "0x+1", "x", "1e3", "--1", "18446744073709551616", "-9223372036854775809"],
                "0x1e",
            ),
            (ValueKind::Duration, &["", "5", "-5s", "5 apples", "s"], "1m30s"),
            (ValueKind::PortList, &["0", "65536", "80,", "80-90", "http"], "80,443"),
            (
                ValueKind::CidrList,
                &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/+8", "010.0.0.0/8", "x/8", ","],
                "10.0.0.0/8",
            ),
            (ValueKind::Json, &["", "{", "{'a': 1}"], "line 1, column"),
        ];
        for (kind, texts, hint) in cases {
            for given in texts {
                let message = normal(kind, &text(given)).unwrap_err();
                assert!(message.contains(hint), "{kind:?} {given:?}: {message}");
            }
        }
        for kind in [ValueKind::Text, ValueKind::Integer, ValueKind::Duration, ValueKind::PortList, ValueKind::Json] {
            assert!(normal(kind, &FoundValue::Blank).unwrap_err().contains("no `=`"));
            assert!(normal(kind, &FoundValue::Mapping).unwrap_err().contains("is a mapping"));
        }
        assert!(normal(ValueKind::Text, &FoundValue::List(vec![])).unwrap_err().contains("is a list"));
    }
}
