//! Promises about what somebody uploads or an operator writes, tried with any bytes. `cargo test` tries random ones for a
//! second; `just fuzz` lets libFuzzer look for what breaks them.

use std::io::Write as _;

use bolero::{TypeGenerator, check};

use crate::config::duration;
use crate::config::limits::LimitSettings;
use crate::source::Source;
use crate::trust::{Signed, Trust};
use crate::unpack::unpack;

const LIMIT: usize = 64 << 10;

fn unpacked(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let packed =
        [b"\x1f\x8b".as_slice(), b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"].iter().any(|magic| bytes.starts_with(magic));
    match unpack(bytes, LIMIT) {
        Ok(bytes) => {
            assert!(!packed || bytes.len() <= LIMIT);
            Some(bytes)
        }
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control), "{error}");
            None
        }
    }
}

/// Whatever is said to be packed takes no more memory than the limit, and is refused on one line.
#[test]
fn packed_bytes() {
    check!().with_type::<Vec<u8>>().for_each(|bytes| {
        for magic in [b"".as_slice(), b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\xfd7zXZ\0"] {
            unpacked([magic, bytes].concat());
        }
    });
}

#[derive(Debug, TypeGenerator)]
struct Damage {
    content: Vec<u8>,
    zstd: bool,
    changes: Vec<(u16, u8)>,
}

/// A stream that was changed on its way gives what was packed, or nothing.
#[test]
fn damaged_streams() {
    check!().with_type::<Damage>().for_each(|Damage { content, zstd, changes }| {
        // What is packed twice is refused.
        let content = [b"\0asm".as_slice(), content].concat();
        let mut packed = match zstd {
            true => ruzstd::encoding::compress_to_vec(content.as_slice(), ruzstd::encoding::CompressionLevel::Fastest),
            false => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&content).unwrap();
                encoder.finish().unwrap()
            }
        };
        assert_eq!(unpacked(packed.clone()).as_ref(), Some(&content));
        for (place, byte) in changes {
            let place = usize::from(*place) % packed.len();
            packed.splice(place..=place, [*byte]);
        }
        unpacked(packed);
    });
}

/// A key that signed nothing vouches for nothing, whatever lies beside a component; that is told on one line of some length.
#[test]
fn signatures() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, rcgen::KeyPair::generate().unwrap().public_key_pem()).unwrap();
    let trust = Trust { keys: vec![key], digests: vec![] };
    let digest = format!("sha256:{}", "0".repeat(64));
    let statement = Signed::new("cloud", 7).statement(&digest).into_bytes();
    check!().with_type::<(Vec<u8>, String, String)>().for_each(|(bytes, one, two)| {
        let bundle = serde_json::json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": { "publicKey": { "hint": one } },
            "messageSignature": { "messageDigest": { "algorithm": "SHA2_256", "digest": one }, "signature": two },
        });
        let older = serde_json::json!({ "base64Signature": one, "cert": two });
        let told = format!("wasm-ccm component statement {one}\nname: {two}");
        let forms = [bytes.clone(), bundle.to_string().into(), older.to_string().into(), told.into_bytes()];
        for form in forms.iter().flat_map(|form| [form.clone(), [statement.clone(), form.clone()].concat()]) {
            let error = trust.admits(b"\0asm", &digest, Some(&form)).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.len() < 2000 && !error.contains(char::is_control), "{error}");
        }
    });
}

/// What an operator writes is refused on one line, or read back as it is shown.
#[test]
fn flag_values() {
    check!().with_type::<(String, String)>().for_each(|(name, value)| {
        if let Ok(source) = value.parse::<Source>() {
            assert_eq!(source.to_string().parse::<Source>().map(|again| again.to_string()), Ok(source.to_string()));
        }
        drop(LimitSettings::from_pairs(&[(name.clone(), value.clone())]));
        drop(duration::parse(value));
        if let Ok(period) = duration::parse_period(value) {
            assert!(!period.is_zero());
        }
    });
}

/// A `--providers` file is refused on one line that names the entry, or every provider in it has a label of its own.
#[test]
fn provider_lists() {
    check!().with_type::<(String, String, String)>().for_each(|(source, name, rest)| {
        let entry = format!("- source: {source}\n  name: {name}\n");
        for text in
            [rest.clone(), format!("- source: /providers/a.wasm\n  {rest}"), entry.clone(), format!("{entry}{entry}")]
        {
            match crate::config::read_text(&text) {
                Ok(providers) => {
                    let mut labels: Vec<String> = providers.iter().map(|provider| provider.label()).collect();
                    labels.sort();
                    labels.dedup();
                    assert_eq!(labels.len(), providers.len());
                }
                Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
            }
        }
    });
}
