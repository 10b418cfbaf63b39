use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::key::ED25519_KEY;
use super::*;

mod cosign;
mod statements;

const COMPONENT: &[u8] = b"\0asm and so on";

fn digest(component: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(component))
}

/// Somebody who signs, and the public key as `openssl pkey -pubout` writes it.
pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    folder: TempDir,
}

impl Signer {
    pub(crate) fn new() -> Self {
        let signer = Self { pair: Ed25519KeyPair::generate().unwrap(), folder: tempfile::tempdir().unwrap() };
        let der = [&ED25519_KEY[..], signer.pair.public_key().as_ref()].concat();
        std::fs::write(signer.key(), pem("PUBLIC KEY", &der)).unwrap();
        signer
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    pub(crate) fn sign(&self, component: &[u8]) -> Vec<u8> {
        self.pair.sign(component).as_ref().to_vec()
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust { keys: vec![self.key()], digests: vec![] }
    }

    /// What lies beside a component of which it says this.
    pub(crate) fn vouches(&self, component: &[u8], name: &str, counter: u64) -> Vec<u8> {
        let text = Signed::new(name, counter).statement(&digest(component));
        [text.as_bytes(), &self.sign(text.as_bytes())].concat()
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", STANDARD.encode(der))
}

fn admits(trust: &Trust, component: &[u8], signature: Option<&[u8]>) -> Result<(), String> {
    signed(trust, component, signature).map(drop)
}

fn signed(trust: &Trust, component: &[u8], beside: Option<&[u8]>) -> Result<Option<Signed>, String> {
    trust.admits(component, &digest(component), beside).map_err(|error| format!("{error:#}"))
}

#[test]
fn without_a_word_every_component_is_taken() {
    assert_eq!(admits(&Trust::default(), COMPONENT, None), Ok(()));
    assert_eq!(admits(&Trust::default(), COMPONENT, Some(b"nonsense")), Ok(()));
    assert!(Trust::default().check().is_ok());
}

#[test]
fn a_signature_may_be_raw_or_in_base64() {
    let signer = Signer::new();
    let raw = signer.sign(COMPONENT);
    let base64 = STANDARD.encode(&raw);
    let wrapped = format!("{}\n{}\n", &base64[..64], &base64[64..]);
    for signature in [&raw[..], base64.as_bytes(), wrapped.as_bytes()] {
        assert_eq!(admits(&signer.trust(), COMPONENT, Some(signature)), Ok(()));
    }
}

#[test]
fn a_raw_signature_that_begins_like_a_bundle_is_none() {
    let signer = Signer::new();
    let begins = |component: &Vec<u8>| signer.sign(component)[0] == b'{';
    let component = (0..=u32::MAX).map(|number| number.to_be_bytes().to_vec()).find(begins).unwrap();
    assert_eq!(admits(&signer.trust(), &component, Some(&signer.sign(&component))), Ok(()));
}

#[test]
fn one_of_several_keys_is_enough() {
    let (one, two) = (Signer::new(), Signer::new());
    let trust = Trust { keys: vec![one.key(), two.key()], digests: vec![] };
    for signer in [&one, &two] {
        assert_eq!(admits(&trust, COMPONENT, Some(&signer.sign(COMPONENT))), Ok(()));
    }
}

#[test]
fn a_signature_by_somebody_else_or_of_something_else_is_refused_with_the_keys_that_were_tried() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let good = signer.sign(COMPONENT);
    let mut bent = good.clone();
    bent[10] ^= 1;
    let base64 = STANDARD.encode(&bent).into_bytes();
    for signature in [stranger.sign(COMPONENT), signer.sign(b"\0asm and something else"), bent, base64] {
        let error = admits(&signer.trust(), COMPONENT, Some(&signature)).unwrap_err();
        assert!(error.contains("fits none of the provider keys"), "{error}");
        assert!(error.contains(signer.key().to_str().unwrap()), "{error}");
    }
}

#[test]
fn what_is_no_signature_is_told_so_with_its_size_and_the_command_that_signs() {
    let signer = Signer::new();
    let good = signer.sign(COMPONENT);
    let hex: String = good.iter().map(|byte| format!("{byte:02x}")).collect();
    let wrong = [
        ("a byte is missing", good[..63].to_vec(), "it has 63 bytes, and"),
        ("a byte too many", [&good[..], b"x"].concat(), "it has 65 bytes, and"),
        ("hex", hex.into_bytes(), "it has 128 bytes, and"),
        ("base64 of something else", STANDARD.encode(&good[..60]).into_bytes(), "it has 80 bytes, and"),
        ("free text", b"no signature at all".to_vec(), "it has 19 bytes, and"),
        ("an empty file", vec![], "it has 0 bytes, and"),
        ("the beginning of a large file", vec![0; MAX_SIGNATURE], "it has 32768 bytes or more, and"),
    ];
    for (what, signature, size) in wrong {
        let error = admits(&signer.trust(), COMPONENT, Some(&signature)).unwrap_err();
        assert!(error.contains("is no signature") && !error.contains("fits none"), "{what}: {error}");
        assert!(
            error.contains(size) && error.contains("64 raw bytes nor DER nor the base64 of either"),
            "{what}: {error}"
        );
        assert!(error.contains("openssl pkeyutl -sign -rawin"), "{what}: {error}");
    }
}

#[test]
fn a_component_that_is_not_signed_is_refused_with_the_command_that_signs_it() {
    let error = admits(&Signer::new().trust(), COMPONENT, None).unwrap_err();
    assert!(
        error.contains("not signed") && error.contains("openssl pkeyutl -sign") && error.contains(".sig"),
        "{error}"
    );
}

#[test]
fn of_a_list_of_digests_one_must_be_the_components() {
    let trust = Trust { keys: vec![], digests: vec![digest(b"another"), digest(COMPONENT)] };
    assert_eq!(admits(&trust, COMPONENT, None), Ok(()));
    let error = admits(&trust, b"changed", None).unwrap_err();
    assert!(error.contains(&digest(b"changed")) && error.contains("--provider-digest"), "{error}");
}

#[test]
fn beside_keys_a_digest_takes_a_component_without_a_signature() {
    let signer = Signer::new();
    let trust = Trust { digests: vec![digest(COMPONENT)], ..signer.trust() };
    assert_eq!(admits(&trust, COMPONENT, None), Ok(()));
    assert_eq!(admits(&trust, b"other", Some(&signer.sign(b"other"))), Ok(()));
    assert!(admits(&trust, b"other", None).unwrap_err().contains("not signed"));
}

/// Nothing is taken because nobody can say who may sign.
#[test]
fn a_key_that_is_gone_admits_nothing_that_is_signed() {
    let signer = Signer::new();
    let (trust, signature) = (signer.trust(), signer.sign(COMPONENT));
    std::fs::remove_file(signer.key()).unwrap();
    let error = admits(&trust, COMPONENT, Some(&signature)).unwrap_err();
    assert!(error.contains("provider key") && error.contains("key.pem"), "{error}");
}

#[test]
fn a_file_that_holds_no_key_of_a_known_kind_is_named_at_start() {
    let signer = Signer::new();
    let other_curve = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let private = rcgen::KeyPair::generate().unwrap();
    let short = [&ED25519_KEY[..], &[7; 31]].concat();
    let texts = [
        String::new(),
        "-----BEGIN PUBLIC KEY-----".to_owned(),
        STANDARD.encode(signer.pair.public_key().as_ref()),
        pem("PUBLIC KEY", &short),
        other_curve.public_key_pem(),
        private.serialize_pem(),
    ];
    for text in texts {
        std::fs::write(signer.key(), &text).unwrap();
        let error = format!("{:#}", signer.trust().check().unwrap_err());
        assert!(error.contains("key.pem") && error.contains("no Ed25519 or ECDSA P-256 public key"), "{text}: {error}");
        assert!(error.contains("openssl pkey"), "{error}");
    }
    let nowhere = Trust { keys: vec!["/nowhere/key.pem".into()], digests: vec![] };
    let error = format!("{:#}", nowhere.check().unwrap_err());
    assert!(error.contains("/nowhere/key.pem") && error.contains("No such file"), "{error}");
}

#[test]
fn a_digest_that_no_component_has_is_refused_at_start() {
    let trust = |digest: &str| Trust { keys: vec![], digests: vec![digest.to_owned()] };
    assert!(trust(&digest(COMPONENT)).check().is_ok());
    let hex = "0".repeat(64);
    for wrong in [
        "",
        "sha256:",
        &hex,
        &format!("sha512:{hex}"),
        &format!("sha256:{hex}0"),
        &format!("sha256:{}", "A".repeat(64)),
    ] {
        let error = trust(wrong).check().unwrap_err().to_string();
        assert!(error.contains(&format!("{wrong:?}")) && error.contains("wasm-ccm inspect"), "{error}");
    }
}
