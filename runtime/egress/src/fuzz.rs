//! Promises about bytes that a guest or a cloud chooses, tried with any bytes. `cargo test` tries random ones for a second;
//! `just fuzz` lets libFuzzer look for what breaks them.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use bolero::{TypeGenerator, check};
use ccm_cloud::ConfigFormat;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::config_file::{ConfigFile, json_for_guest};
use crate::encoding::Encoding;
use crate::headers::{HeaderLimits, check_request_header, response_headers};
use crate::hosts::{HostPattern, HostRules};
use crate::paths;
use crate::redact::Redactor;
use crate::secret::Secret;
use crate::signature::PrivateKey;

const ENCODINGS: [Encoding; 7] = [
    Encoding::Plain,
    Encoding::JsonString,
    Encoding::Url,
    Encoding::UrlLowerCase,
    Encoding::Hex,
    Encoding::Base64,
    Encoding::Base64PercentEncoded,
];

/// A secret of at least as many bytes as the host takes, without the brackets of a placeholder: a placeholder beside a part of
/// such a secret would look like the secret.
fn secret(bytes: &[u8]) -> Option<Vec<u8>> {
    let secret: Vec<u8> = bytes.iter().map(|byte| if matches!(byte, b'(' | b')') { b'_' } else { *byte }).collect();
    (secret.trim_ascii().len() >= 8).then_some(secret)
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[derive(Debug, TypeGenerator)]
struct Echo {
    secret: Vec<u8>,
    captured: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
    encoding: u8,
    again: u8,
}

fn encoding(number: u8) -> Encoding {
    ENCODINGS.into_iter().cycle().nth(usize::from(number)).unwrap_or(Encoding::Plain)
}

/// However a cloud writes what it was sent, once or twice over, and whatever else is looked for at the same time.
#[test]
fn redaction() {
    check!().with_type::<Echo>().for_each(|echo| {
        let Some(secret) = secret(&echo.secret) else { return };
        let redactor = Redactor::new([("token", secret.as_slice())]).unwrap();
        let both = redactor.and(&Redactor::new([("captured", echo.captured.as_slice())]).unwrap());
        let Ok(once) = encoding(echo.encoding).encode(secret.trim_ascii()) else { return };
        let mut forms = vec![once.clone()];
        // What a request carried encoded comes back encoded as text.
        if matches!(encoding(echo.again), Encoding::JsonString | Encoding::Url) {
            forms.extend(encoding(echo.again).encode(&once).ok());
        }
        // A secret that is a part of the placeholder is in every placeholder. That tells nobody anything.
        forms.retain(|form| !holds(b"(credential token)", form));
        for form in forms {
            let answer = [echo.before.as_slice(), &form, &echo.after].concat();
            assert!(!holds(&redactor.bytes(answer.clone()), &form));
            // A captured value may end up in the placeholder's place, never the secret.
            if secret.iter().all(u8::is_ascii_alphanumeric) && !holds(b"(credential captured)(credential token)", &form)
            {
                let shown = both.bytes(answer);
                assert!(!holds(&shown, &form), "{}", String::from_utf8_lossy(&shown));
            }
        }
    });
}

/// A login is written as `base64(user:password)`: the secret begins at any of three places.
#[test]
fn redaction_within_base64() {
    check!().with_type::<(Vec<u8>, Vec<u8>, Vec<u8>)>().for_each(|(bytes, before, after)| {
        let Some(secret) = secret(bytes) else { return };
        let secret = secret.trim_ascii();
        let redactor = Redactor::new([("token", secret)]).unwrap();
        let login = [before.as_slice(), secret, after].concat();
        for text in [BASE64_STANDARD.encode(&login), BASE64_URL_SAFE_NO_PAD.encode(&login)] {
            assert!(redactor.text(&text).contains("(credential token)"), "{text}");
        }
    });
}

/// What a request carries is what was meant, and only characters that may stand there.
#[test]
fn encodings() {
    check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let encoded = |encoding: Encoding| encoding.encode(bytes);
        let url = encoded(Encoding::Url).unwrap();
        assert_eq!(percent_encoding::percent_decode(&url).collect::<Vec<_>>(), *bytes);
        assert!(url.iter().all(u8::is_ascii_graphic) && !url.iter().any(|byte| b"&=?#/+".contains(byte)));
        assert_eq!(BASE64_STANDARD.decode(&*encoded(Encoding::Base64).unwrap()).unwrap(), *bytes);
        assert_eq!(encoded(Encoding::Hex).unwrap().len(), bytes.len() * 2);
        let json = encoded(Encoding::JsonString).ok();
        assert_eq!(json.is_some(), std::str::from_utf8(bytes).is_ok());
        if let Some(json) = json {
            let quoted = [b"\"".as_slice(), &json, b"\""].concat();
            assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap().as_bytes(), bytes);
        }
    });
}

/// Whatever path and query a guest names, the request stays at its endpoint and below its base.
#[test]
fn request_paths() {
    let base = Url::parse("https://api.example.org:8443/v2/").unwrap();
    check!().with_type::<(String, Option<String>)>().for_each(|(path, query)| {
        for path in [path.clone(), format!("/{path}")] {
            let Ok(url) = paths::url(&base, &path, query.as_deref()) else { continue };
            assert_eq!((url.scheme(), url.host(), url.port()), (base.scheme(), base.host(), base.port()));
            assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
            assert!(url.path().starts_with("/v2/"), "{url}");
            assert!(url.path_segments().unwrap().all(|segment| segment != ".." && segment != "."), "{url}");
            assert_eq!(url.query(), query.as_deref());
            assert_eq!(Url::parse(url.as_str()).unwrap(), url, "it is read as it was written");
        }
    });
}

/// Whatever header a guest writes, it is one header, and none that belongs to the host.
#[test]
fn request_headers() {
    check!().with_type::<(String, Vec<u8>, bool)>().for_each(|(name, value, declared)| {
        match check_request_header(name, value, *declared) {
            Ok((name, written)) => {
                assert_eq!(written.as_bytes(), value);
                assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)));
                let name = name.as_str().replace('_', "-");
                assert!(
                    !["host", "content-length", "transfer-encoding", "connection", "cookie"].contains(&name.as_str())
                );
                assert!(*declared || name != "authorization");
            }
            Err(error) => assert!(!error.message.contains(['\r', '\n'])),
        }
    });
}

/// Whatever headers a cloud answers with, a guest sees no more than the limit, and none of the connection.
#[test]
fn answer_headers() {
    let limits = HeaderLimits { count: 8, bytes: 256 };
    check!().with_type::<Vec<(String, Vec<u8>)>>().for_each(|given| {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
                let _full = headers.try_append(name, value);
            }
        }
        let Ok(shown) = response_headers(&headers, &limits) else { return };
        assert!(shown.len() <= limits.count);
        assert!(
            shown.iter().all(|(name, _)| name != "set-cookie" && name != "connection" && !name.starts_with("proxy-"))
        );
    });
}

/// A pattern is read back as it is shown, allows the host that it names, and no host beside it.
#[test]
fn hosts() {
    for pattern in
        ["api.example.org", "*.example.org:8443", "B\u{fc}cher.example.", "10.0.0.1:80", "[fd00::1]", "[fd00::1]:443"]
    {
        assert!(is_host(pattern, "a"), "{pattern}");
    }
    check!().with_type::<(String, String, Vec<u8>, bool, Option<u16>)>().for_each(
        |(any, other, letters, is_below, port)| {
            is_host(any, other);
            // Random text is seldom a host. This is one more often.
            let star = if *is_below { "*." } else { "" };
            let host: String = letters.iter().map(|byte| char::from(b"abx019-."[usize::from(byte % 8)])).collect();
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            is_host(&format!("{star}{host}{port}"), other);
        },
    );
}

/// Whether this is a pattern, which then allows what it says.
fn is_host(pattern: &str, other: &str) -> bool {
    let Ok(read) = pattern.parse::<HostPattern>() else { return false };
    let shown = read.to_string();
    assert_eq!(shown.parse::<HostPattern>().as_ref(), Ok(&read), "{shown}");
    let rules = HostRules::new(vec![read]);
    let allows = |url: &str| Url::parse(url).is_ok_and(|url| rules.allow(&url));
    let (is_below, rest) = shown.strip_prefix("*.").map_or((false, shown.as_str()), |rest| (true, rest));
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !rest.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let (own, at) = (if is_below { "a." } else { "" }, port.unwrap_or("443"));
    assert!(allows(&format!("https://{own}{host}:{at}/x")), "{shown} refuses its own");
    let elsewhere = if at == "444" { "445" } else { "444" };
    assert_eq!(allows(&format!("https://{own}{host}:{elsewhere}/")), port.is_none(), "{shown} on port {elsewhere}");
    // The domain itself is not below it, and what is below a host is another one.
    let wrong = if is_below { "" } else { "a." };
    let mut foreign = vec![format!("https://{wrong}{host}:{at}"), format!("https://x{host}:{at}")];
    if !["test", "elsewhere.test"].contains(&host) && !host.ends_with(".elsewhere.test") {
        foreign.push(format!("https://{own}{host}.elsewhere.test:{at}"));
        foreign.push(format!("https://{own}{host}@elsewhere.test:{at}"));
        let any = format!("https://{other}.elsewhere.test:{at}");
        let is_there = |url: Url| url.host_str().is_some_and(|host| host.ends_with(".elsewhere.test"));
        foreign.extend(Url::parse(&any).is_ok_and(is_there).then_some(any));
    }
    for url in foreign {
        assert!(!allows(&url), "{shown} allows {url}");
    }
    true
}

/// Whatever a file holds, it is refused with a place, or a guest gets JSON of it.
#[test]
fn config_files() {
    config_file(b"[w]");
    check!().with_type::<Vec<u8>>().for_each(|bytes| config_file(bytes));
}

fn config_file(bytes: &[u8]) {
    let declared = BTreeMap::from([("a.b".to_owned(), "token".to_owned())]);
    for format in [ConfigFormat::Ini, ConfigFormat::Json, ConfigFormat::Yaml] {
        match ConfigFile::read(bytes, format) {
            Ok(Some(file)) => {
                let shown: serde_json::Value = serde_json::from_str(&file.for_guest(&declared)).unwrap();
                // An INI file may have the same section more than once: it is a list of its entries.
                let is_whole = if format == ConfigFormat::Ini { shown.is_array() } else { shown.is_object() };
                assert!(is_whole, "{format:?}: {shown}");
                if let Some(secret) = file.secret_at(&["a", "b"]) {
                    assert_ne!(shown["a"]["b"].as_str().map(str::as_bytes), Some(secret.expose()), "{format:?}");
                }
            }
            Ok(None) => {}
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(shown) = json_for_guest(text)
    {
        serde_json::from_str::<serde::de::IgnoredAny>(&shown).unwrap();
    }
}

/// Whatever is given as a key, the error says what is wrong on one line, and nothing of what is in it.
#[test]
fn private_keys() {
    check!().with_type::<(bool, u8, Vec<u8>)>().for_each(|(armored, label, bytes)| {
        const LABELS: [&str; 4] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"];
        let label = LABELS.into_iter().cycle().nth(usize::from(*label)).unwrap_or_default();
        let body = BASE64_STANDARD.encode(bytes);
        let file = match armored {
            true => format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes(),
            false => bytes.clone(),
        };
        if let Err(error) = PrivateKey::parse(&Secret::new(file)) {
            let told = error.to_string();
            assert!(!told.contains('\n'));
            assert!(body.len() < 16 || !told.contains(&body));
        }
    });
}
