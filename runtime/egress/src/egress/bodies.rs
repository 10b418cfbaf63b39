//! Finds the logins in a body: where the credentials stand, and what looks like a login that the component wrote itself.
//!
//! A cloud reads some members of a login, and stores or ignores others. If a credential stood in a member that the cloud ignores, the request
//! would pass as the operator's although the component wrote the login beside it. So the operator's grant names the member of the credential,
//! and nothing else in such a body may look like a login.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::credentials::Within;
use crate::http::Part;
use crate::login_names::is_login_member;

/// Most bytes of a name in a message.
const MAX_SHOWN: usize = 128;
/// What all pointers to the credentials of a document may take in memory. Each has in it the names of all that it stands in: of a megabyte with
/// one long name and many credentials, they would take gigabytes.
const MAX_POINTERS: usize = 64 << 10;

/// How a body is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A JSON document with objects or lists.
    Json(Json),
    /// A form, or a single value.
    Form,
    /// Whatever it is: the host does not know who asks by it.
    Other,
}

/// What the host wants to know of a JSON document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Json {
    /// Pointers to the texts that are a credential and nothing else, in the order of the parts.
    pub(super) credentials: Vec<String>,
    /// Where the first member is that looks like a login, with something in it that the component wrote and no credential.
    pub(super) login: Option<String>,
}

/// A body that some clouds would read and the host cannot, as the end of a sentence about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) String);

/// Reads a body. `mark` stands for each credential and is nowhere else in it.
pub(super) fn read(parts: &[Part], mark: &str) -> Result<Body, Unreadable> {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => text.extend_from_slice(bytes),
            Part::Secret { .. } | Part::Signature { .. } => text.extend_from_slice(mark.as_bytes()),
        }
    }
    let begin = text.trim_ascii_start();
    if begin.starts_with(b"<") {
        return Ok(Body::Other);
    }
    // What only looks like JSON is JSON to a cloud that reads it leniently. A form has no braces but encoded, and begins with a name; names in
    // it may have brackets.
    let is_named = begin.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let is_json = |byte: &u8| *byte == b'{' || (*byte == b'[' && !is_named);
    if !text.iter().any(is_json) {
        return Ok(if text.iter().all(u8::is_ascii_graphic) { Body::Form } else { Body::Other });
    }
    let mut reading = Reading { mark, path: Vec::new(), room: MAX_POINTERS, json: Json::default() };
    let mut json = serde_json::Deserializer::from_slice(&text);
    let read = At(&mut reading).deserialize(&mut json).and_then(|_| json.end());
    match read {
        Ok(()) => Ok(Body::Json(reading.json)),
        // What the library says may have bytes of the body in it.
        Err(error) if error.is_data() => {
            Err(Unreadable(error.to_string().split(" at line ").next().unwrap_or_default().to_owned()))
        }
        Err(_) => Err(Unreadable("it is no JSON, although it has objects or lists".to_owned())),
    }
}

/// Where the credentials of a form stand, in the order of the parts: the value of a field, or a body that is nothing else. `read` has taken it for
/// a form.
pub(super) fn fields(parts: &[Part], mark: &str) -> Result<Vec<Within>, Unreadable> {
    let text = form(parts, mark);
    if !text.contains('=') {
        return Ok(text.matches(mark).map(|_| Within::Other).collect());
    }
    let refused = |why: &str| Err(Unreadable(why.to_owned()));
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for field in text.split('&') {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let has_credential = field.contains(mark);
        let name = decoded(name);
        // Some clouds begin another field there.
        if has_credential && field.contains(';') {
            return refused("a field with a credential has a semicolon");
        }
        if has_credential && value != mark {
            return refused("a credential in it has something else beside it in the same field, or stands in a name");
        }
        if !name.is_ascii() || name.chars().any(char::is_control) {
            return refused("the name of a field has control characters or letters beyond ASCII");
        }
        if !name.is_empty() && !seen.insert(name.to_ascii_lowercase()) {
            return refused("it has a field twice");
        }
        if has_credential {
            found.push(Within::Form(name));
        }
    }
    Ok(found)
}

fn form(parts: &[Part], mark: &str) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
            Part::Secret { .. } | Part::Signature { .. } => text.push_str(mark),
        }
    }
    text
}

/// The first field of a form that looks like a login, with something that the component wrote: some clouds read only the begin of a password.
pub(super) fn login_of_form(parts: &[Part], mark: &str) -> Option<String> {
    let text = form(parts, mark);
    let fields = text.split(['&', ';']).filter_map(|field| field.split_once('='));
    let mut named = fields.map(|(name, value)| (decoded(name), value));
    named
        .find(|(name, value)| !value.is_empty() && *value != mark && is_login_member(name))
        .map(|(name, _)| shown(&name))
}

fn decoded(name: &str) -> String {
    percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned()
}

fn shown(name: &str) -> String {
    crate::one_line::line(name, MAX_SHOWN)
}

struct Reading<'m> {
    mark: &'m str,
    path: Vec<String>,
    /// Bytes that pointers to credentials may still take.
    room: usize,
    json: Json,
}

impl Reading<'_> {
    /// The text here is a credential. False: there is no room for its pointer.
    fn note_credential(&mut self) -> bool {
        let names = self.path.iter().map(|token| token.len().saturating_add(1));
        let bytes = names.fold(size_of::<String>(), usize::saturating_add);
        let Some(room) = self.room.checked_sub(bytes) else { return false };
        self.room = room;
        let pointer = self.pointer();
        self.json.credentials.push(pointer);
        true
    }

    fn pointer(&self) -> String {
        self.path.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
    }
}

/// What is in a part of the document.
#[derive(Clone, Copy, Default)]
struct Contents {
    has_credential: bool,
    has_words: bool,
}

impl Contents {
    const fn and(self, other: Self) -> Self {
        Self {
            has_credential: self.has_credential || other.has_credential,
            has_words: self.has_words || other.has_words,
        }
    }
}

struct At<'r, 'm>(&'r mut Reading<'m>);

impl<'de> DeserializeSeed<'de> for At<'_, '_> {
    type Value = Contents;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Contents, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_, '_> {
    type Value = Contents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Contents, E> {
        if text == self.0.mark {
            if !self.0.note_credential() {
                return Err(E::custom("credentials stand in too many places of it, or within names that are too long"));
            }
            return Ok(Contents { has_credential: true, has_words: false });
        }
        if text.contains(self.0.mark) {
            return Err(E::custom("a credential in it has something else beside it in the same text"));
        }
        Ok(Contents { has_credential: false, has_words: !text.is_empty() })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Contents, E> {
        Ok(Contents::default())
    }

    fn visit_unit<E>(self) -> Result<Contents, E> {
        Ok(Contents::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Contents, E> {
        Ok(Contents { has_credential: false, has_words: true })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Contents, E> {
        Ok(Contents { has_credential: false, has_words: true })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Contents, E> {
        Ok(Contents { has_credential: false, has_words: true })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Contents, A::Error> {
        let mut within = Contents::default();
        self.0.path.push("0".to_owned());
        let mut index = 0_usize;
        while let Some(item) = items.next_element_seed(At(self.0))? {
            within = within.and(item);
            index = index.saturating_add(1);
            if let Some(last) = self.0.path.last_mut() {
                *last = index.to_string();
            }
        }
        self.0.path.pop();
        Ok(within)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Contents, A::Error> {
        let mut within = Contents::default();
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if name.contains(self.0.mark) {
                return Err(A::Error::custom(
                    "a credential stands in the name of a member, which is no JSON for a login",
                ));
            }
            let is_login = is_login_member(&name);
            // Some clouds do not mind the case of a name, in any script: the last one wins.
            if !name.is_ascii() {
                return Err(A::Error::custom("the name of a member has letters beyond ASCII"));
            }
            if !seen.insert(name.to_ascii_lowercase()) {
                return Err(A::Error::custom("it has a member twice"));
            }
            self.0.path.push(name);
            let member = members.next_value_seed(At(self.0))?;
            if is_login && member.has_words && !member.has_credential && self.0.json.login.is_none() {
                self.0.json.login = Some(shown(&self.0.pointer()));
            }
            self.0.path.pop();
            within = within.and(member);
        }
        Ok(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;

    const MARK: &str = "0123456789abcdef";

    /// `@` is a credential.
    fn parts(text: &str) -> Vec<Part> {
        let secret = || Part::Secret { credential: "password".to_owned(), encoding: Encoding::Plain };
        let bytes = |text: &str| Part::Bytes(text.as_bytes().to_vec());
        let mut parts: Vec<Part> = text.split('@').flat_map(|text| [bytes(text), secret()]).collect();
        parts.pop();
        parts
    }

    #[test]
    fn credentials_and_logins_in_json_are_found_where_they_are() {
        type Row<'a> = (&'a str, &'a [&'a str], Option<&'a str>);
        let rows: [Row<'_>; 9] = [
            (r#"{"a":"@","b":["@",{"c/d~e":"@"}]}"#, &["/a", "/b/0", "/b/1/c~1d~0e"], None),
            (r#"["@"]"#, &["/0"], None),
            (r#"{"":"@"}"#, &["/"], None),
            (r#"{"password":{"user":{"name":"me","password":"@"}}}"#, &["/password/user/password"], None),
            (r#"{"password":"@","token":{"id":"x"}}"#, &["/password"], Some("/token")),
            (r#"{"token":{},"secret":null,"apiKey":"","jwt":true}"#, &[], None),
            (r#"{"a":[0,{"passcode":-1}]}"#, &[], Some("/a/1/passcode")),
            (r#"{"auth":{"methods":["password"]}}"#, &[], None),
            (r#"{"secret":1.5}"#, &[], Some("/secret")),
        ];
        for (text, credentials, login) in rows {
            let Ok(Body::Json(json)) = read(&parts(text), MARK) else { panic!("{text}") };
            assert_eq!(
                (json.credentials, json.login.as_deref()),
                (credentials.iter().map(|&at| at.to_owned()).collect(), login),
                "{text}"
            );
        }
    }

    #[test]
    fn what_clouds_read_in_different_ways_is_not_read_at_all() {
        for (text, words) in [
            (r#"{"a":"@","a":"x"}"#, "twice"),
            (r#"{"a":{"b":1},"\u0061":"@"}"#, "twice"),
            (r#"{"a":"@","A":"x"}"#, "twice"),
            (r#"{"password":"@","pa\u017f\u017fword":"x"}"#, "beyond ASCII"),
            (r#"{"to\u212aen":"x","a":"@"}"#, "beyond ASCII"),
            (r#"{"a":"@",}"#, "no JSON"),
            (r#"{"a":@}"#, "no JSON"),
            (r#"{"a":"@"}{"a":"x"}"#, "no JSON"),
            (r#"// {"#, "no JSON"),
            (r#"a={"a":"@"}"#, "no JSON"),
            (r#" ["@",]"#, "no JSON"),
            ("\u{feff}{\"a\":\"@\"}", "no JSON"),
            (r#"{"a":"x@"}"#, "beside it"),
            (r#"{"@":"x"}"#, "no JSON"),
        ] {
            let Err(Unreadable(why)) = read(&parts(text), MARK) else { panic!("{text}") };
            assert!(why.contains(words) && !why.contains('\u{feff}'), "{text}: {why}");
        }
    }

    /// Each pointer had the long name in it: a body of a megabyte took some thirty gigabytes.
    #[test]
    fn many_credentials_within_a_long_name_are_refused_before_their_pointers_fill_the_memory() {
        let found = |name: usize, credentials: usize| {
            let list = vec![r#""@""#; credentials].join(",");
            match read(&parts(&format!(r#"{{"{}":[{list}]}}"#, "n".repeat(name))), MARK) {
                Ok(Body::Json(json)) => Ok(json.credentials.len()),
                Ok(other) => panic!("{other:?}"),
                Err(Unreadable(why)) => Err(why.contains("too many places")),
            }
        };
        assert_eq!([found(1, 1_000), found(60_000, 1)], [Ok(1_000), Ok(1)]);
        assert_eq!([found(1_000, 100), found(1, 10_000), found(70_000, 1)], [Err(true); 3]);
    }

    #[test]
    fn forms_are_told_from_other_bodies() {
        let rows = [
            ("user=me&password=@", Body::Form, None),
            ("user=me&password=x&comment=@", Body::Form, Some("password")),
            ("a=@&refresh%5Ftoken=x", Body::Form, Some("refresh_token")),
            ("a=@&token=", Body::Form, None),
            ("password=x@", Body::Form, Some("password")),
            ("password=@", Body::Form, None),
            ("apiKey=@&param[0].name=x&signatureversion=3", Body::Form, None),
            ("@", Body::Form, None),
            ("", Body::Form, None),
            ("\"@\"", Body::Form, None),
            ("<=1&password=x&a=@", Body::Other, Some("password")),
            ("a = @", Body::Other, None),
        ];
        for (text, body, login) in rows {
            assert_eq!(read(&parts(text), MARK), Ok(body), "{text}");
            assert_eq!(login_of_form(&parts(text), MARK).as_deref(), login, "{text}");
        }
    }

    #[test]
    fn credentials_in_forms_are_found_in_their_fields() {
        let field = |name: &str| Within::Form(name.to_owned());
        for (text, found) in [
            ("user=me&password=@", vec![field("password")]),
            ("user%5Bpass%5D=@&comment=@", vec![field("user[pass]"), field("comment")]),
            ("user=me&a=@&", vec![field("a")]),
            ("=@", vec![field("")]),
            ("@", vec![Within::Other]),
            ("\"@\"", vec![Within::Other]),
            ("user=me", vec![]),
        ] {
            assert_eq!(fields(&parts(text), MARK), Ok(found), "{text}");
        }
        for (text, words) in [
            ("password=x&password=@", "twice"),
            ("password=x&Pass%77ord=@", "twice"),
            ("a=x;password=@", "semicolon"),
            ("password=@;a=x", "semicolon"),
            ("password=x@", "beside it"),
            ("password=@@", "beside it"),
            ("a=1&@=x", "in a name"),
            ("a=1&@", "in a name"),
            ("pa%C5%BFsword=x&a=@", "beyond ASCII"),
            ("password%00=@", "control characters"),
        ] {
            let Err(Unreadable(why)) = fields(&parts(text), MARK) else { panic!("{text}") };
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
