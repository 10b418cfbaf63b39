//! Hides secret values from a provider: those of declared keys, those of keys that look secret, passwords in URLs and private
//! keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ccm_cloud::Descriptor;
use percent_encoding::percent_decode_str;

use super::keys::Key;
use super::secret_names::looks_secret;
use crate::secret::Secret;

/// Keys of the credentials that a descriptor finds in `file`, with the names of the credentials: what
/// [`ConfigFile::for_guest`](super::ConfigFile::for_guest) wants.
#[must_use]
pub(crate) fn declared(descriptor: &Descriptor, file: &str) -> BTreeMap<String, String> {
    let keys = descriptor.credentials.iter().flat_map(|credential| {
        let keys = credential.value.keys.iter().filter_map(|key| key.split_once(':'));
        keys.filter(|(name, _)| *name == file).map(|(_, key)| (key.to_owned(), credential.name.clone()))
    });
    keys.collect()
}

/// Most characters of a part of a key, and of a key before its last part.
const MAX_KEY: usize = 200;

/// Why a value is hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hiding {
    Credential(String),
    Secret,
}

impl Hiding {
    pub(super) fn is_credential(&self) -> bool {
        matches!(self, Self::Credential(_))
    }
}

/// Hides values and remembers them.
pub(super) struct FileVeil<'a> {
    declared: Vec<(Key, &'a str)>,
    pub(super) hidden: Vec<(String, Secret)>,
}

impl<'a> FileVeil<'a> {
    pub(super) fn new(declared: &'a BTreeMap<String, String>) -> Self {
        let declared = declared.iter().map(|(key, name)| (Key::parse(key), name.as_str())).collect();
        Self { declared, hidden: Vec::new() }
    }

    /// Whether what is at `path` of a JSON or YAML file is secret.
    pub(super) fn hiding(&self, path: &[String]) -> Option<Hiding> {
        self.hiding_where(path, |key| key.covers(path))
    }

    /// As [`hiding`](Self::hiding), of an INI file.
    pub(super) fn hiding_gcfg(&self, path: &[String]) -> Option<Hiding> {
        self.hiding_where(path, |key| key.covers_gcfg(path))
    }

    fn hiding_where(&self, path: &[String], covers: impl Fn(&Key) -> bool) -> Option<Hiding> {
        let credential = self.declared.iter().find(|(key, _)| covers(key));
        let credential = credential.map(|(_, name)| Hiding::Credential((*name).to_owned()));
        credential.or_else(|| path.last().filter(|name| looks_secret(name)).map(|_| Hiding::Secret))
    }

    /// What a guest sees of a text.
    pub(super) fn text(&mut self, text: &str, hiding: Option<&Hiding>, path: &[String]) -> String {
        let key = || short_key(path);
        match hiding {
            _ if text.is_empty() => String::new(),
            Some(Hiding::Credential(name)) => {
                self.hide(name.clone(), text);
                format!("(credential {name})")
            }
            Some(Hiding::Secret) => {
                self.hide(key(), text);
                PLACEHOLDER.to_owned()
            }
            None => {
                let (shown, parts) = veil_parts(text);
                for part in parts {
                    self.hide(key(), part);
                    // The decoded form is what a cloud gets, and says again.
                    if let Cow::Owned(decoded) = percent_decode_str(part).decode_utf8_lossy() {
                        self.hide(key(), &decoded);
                    }
                }
                shown
            }
        }
    }

    fn hide(&mut self, name: String, text: &str) {
        self.hidden.push((name, Secret::new(text.as_bytes().to_vec())));
    }
}

/// A key for people: the names in a file may be as long as the file.
fn short_key(path: &[String]) -> String {
    let mut key = String::new();
    for part in path {
        if !key.is_empty() {
            key.push('.');
        }
        key.extend(part.chars().take(MAX_KEY));
        if key.len() > MAX_KEY {
            key.push('…');
            break;
        }
    }
    key
}

const PLACEHOLDER: &str = "(secret)";

/// A text without passwords of URLs and without private keys.
pub(crate) fn veil_text(text: &str) -> String {
    veil_parts(text).0
}

/// What may be shown, and what is not in it.
fn veil_parts(text: &str) -> (String, Vec<&str>) {
    if text.contains("PRIVATE KEY-----") {
        return (PLACEHOLDER.to_owned(), vec![text]);
    }
    let mut shown = String::new();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (scheme, after) = rest.split_at(at.saturating_add(3));
        shown.push_str(scheme);
        rest = after;
        if let Some((user, password)) = password(rest, scheme) {
            shown.push_str(user);
            shown.push_str(PLACEHOLDER);
            parts.push(password);
            rest = rest.get(user.len().saturating_add(password.len())..).unwrap_or_default();
        }
    }
    shown.push_str(rest);
    (shown, parts)
}

/// The password of a URL that goes on with `rest`, and what is before it.
fn password<'a>(rest: &'a str, scheme: &str) -> Option<(&'a str, &'a str)> {
    let word = until(rest, |char| char.is_whitespace() || matches!(char, '"' | '\'' | '<' | '>'));
    let authority = until(word, |char| matches!(char, '/' | '?' | '#'));
    let userinfo = match authority.rfind('@') {
        Some(at) => authority.get(..at)?,
        // A password with a bare `/` breaks the URL, and must not be shown for that.
        None if authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.contains(|char: char| !char.is_ascii_digit() && char != ']')) =>
        {
            word.get(..word.rfind('@')?)?
        }
        None => return None,
    };
    let (user, password) = match userinfo.find(':') {
        Some(at) => userinfo.split_at(at.saturating_add(1)),
        // Alone before a web server it is a token.
        None if scheme.ends_with("http://") || scheme.ends_with("https://") => ("", userinfo),
        None => return None,
    };
    (!password.is_empty()).then_some((user, password))
}

fn until(text: &str, ends: impl Fn(char) -> bool) -> &str {
    text.split(ends).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_hidden_wherever_they_are() {
        let cases: [(&str, &str, &[&str]); 16] = [
            ("https://user:pw@host/p", "https://user:(secret)@host/p", &["pw"]),
            (
                "see https://u:p%40w@h and http://a:b@c",
                "see https://u:(secret)@h and http://a:(secret)@c",
                &["p%40w", "b"],
            ),
            ("https://u:p@w@host", "https://u:(secret)@host", &["p@w"]),
            ("https://u:p/w@host", "https://u:(secret)@host", &["p/w"]),
            ("https://:pw@host", "https://:(secret)@host", &["pw"]),
            ("https://ghp_x@host", "https://(secret)@host", &["ghp_x"]),
            ("amqp://u:p@h1,u:q@h2/", "amqp://u:(secret)@h2/", &["p@h1,u:q"]),
            ("http://a:1/,http://u:p@b", "http://a:1/,http://u:(secret)@b", &["p"]),
            ("-----BEGIN PRIVATE KEY-----\nx", "(secret)", &["-----BEGIN PRIVATE KEY-----\nx"]),
            ("ssh://git@host/x", "ssh://git@host/x", &[]),
            ("https://host:8080/a@b", "https://host:8080/a@b", &[]),
            ("https://[::1]/a@b", "https://[::1]/a@b", &[]),
            ("https://[::1]:80/a@b", "https://[::1]:80/a@b", &[]),
            ("https://u:@host", "https://u:@host", &[]),
            ("://", "://", &[]),
            ("mail a@b.c", "mail a@b.c", &[]),
        ];
        for (text, shown, hidden) in cases {
            assert_eq!(veil_parts(text), (shown.to_owned(), hidden.to_vec()), "{text}");
        }
    }
}
