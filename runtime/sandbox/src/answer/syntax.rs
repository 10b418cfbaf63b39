//! How names are written that the API server takes.

/// Longest DNS name and longest prefix of a qualified name, in bytes.
const MAX_DNS: usize = 253;
/// Longest name behind its prefix, and longest value of a label, in bytes.
const MAX_NAME: usize = 63;

/// A DNS-1123 subdomain, as the API server checks it.
pub(super) fn is_dns_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && label.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
            && label.bytes().all(|byte| is_inner(byte) || byte == b'-')
    };
    name.len() <= MAX_DNS && name.split('.').all(is_label)
}

/// A qualified name: of an annotation or a label, and of the error of a port.
pub(super) fn is_qualified_name(name: &str) -> bool {
    let (prefix, name) = name.split_once('/').map_or((None, name), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_name) && is_word(name)
}

/// The value of a label.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value)
}

fn is_word(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A name of a host as clouds write it: letters of either case, also an IP address.
pub(super) fn is_host_name(name: &str) -> bool {
    (1..=MAX_DNS).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':'))
}
