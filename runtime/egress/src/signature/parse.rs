//! PEM and DER: what kind of key this is, and if it is none, what else.

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use base64::prelude::{BASE64_STANDARD, Engine};
use zeroize::Zeroizing;

use super::error::KeyError;
use super::openssh;
use super::pair::{Curve, Pair, check_size, trimmed};

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const TAG_0: u8 = 0xa0;

const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const RSA_PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const DSA: &[u8] = b"\x2a\x86\x48\xce\x38\x04\x01";
const ED25519: &[u8] = b"\x2b\x65\x70";
const ED448: &[u8] = b"\x2b\x65\x71";
const X25519: &[u8] = b"\x2b\x65\x6e";
const P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x2b\x81\x04\x00\x22";
const P521: &[u8] = b"\x2b\x81\x04\x00\x23";

const OTHER_CURVE: KeyError = KeyError::Unsupported("an EC key on another curve");
const DER_DAMAGED: KeyError = KeyError::Damaged("its DER does not fit together");

/// Reads the first private key of a PEM text.
pub(super) fn pem(bytes: &[u8]) -> Result<Pair, KeyError> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Err(KeyError::NotPem) };
    let mut found = None;
    for block in blocks(text) {
        let read: fn(&[u8]) -> Result<Pair, KeyError> = match block.label {
            "PRIVATE KEY" => pkcs8,
            "RSA PRIVATE KEY" => rsa,
            "EC PRIVATE KEY" => sec1,
            "OPENSSH PRIVATE KEY" => openssh::parse,
            label => {
                found = found.or_else(|| other(label));
                continue;
            }
        };
        return read(&block.der()?);
    }
    Err(found.unwrap_or_else(|| without_block(text.trim())))
}

/// What a block is that cannot be read; None: it only goes with another one.
fn other(label: &str) -> Option<KeyError> {
    Some(match label {
        "EC PARAMETERS" | "DH PARAMETERS" | "DSA PARAMETERS" => return None,
        "ENCRYPTED PRIVATE KEY" => KeyError::Encrypted,
        "DSA PRIVATE KEY" => KeyError::Unsupported("a DSA key"),
        _ if label.starts_with("PGP ") => KeyError::Unsupported("a PGP key"),
        _ if label.ends_with("PRIVATE KEY") => KeyError::Unsupported("a private key of an unknown form"),
        _ if label.ends_with("PUBLIC KEY") => KeyError::NotPrivate("a public key"),
        _ if label.ends_with("CERTIFICATE REQUEST") => KeyError::NotPrivate("a certificate request"),
        _ if label.ends_with("CERTIFICATE") => KeyError::NotPrivate("a certificate"),
        _ => KeyError::NotPrivate("PEM of another kind"),
    })
}

fn without_block(text: &str) -> KeyError {
    let public = ["ssh-", "ecdsa-sha2-", "sk-", "---- BEGIN SSH2 PUBLIC KEY"];
    match text {
        "" => KeyError::Empty,
        _ if text.starts_with("-----BEGIN") => KeyError::Damaged("its -----END line is missing"),
        // Base64 of "-----BEGIN".
        _ if text.starts_with("LS0tLS1CRUdJTi") => KeyError::EncodedTwice,
        _ if text.starts_with("PuTTY-User-Key-File") => KeyError::Putty,
        _ if public.iter().any(|start| text.starts_with(start)) => KeyError::NotPrivate("a public key"),
        _ => KeyError::NotPem,
    }
}

struct Block<'a> {
    label: &'a str,
    body: &'a str,
}

fn blocks(mut text: &str) -> impl Iterator<Item = Block<'_>> {
    std::iter::from_fn(move || {
        let (label, rest) = text.split_once("-----BEGIN ")?.1.split_once("-----")?;
        let (body, rest) = rest.split_once("-----END ")?;
        text = rest;
        Some(Block { label, body })
    })
}

impl Block<'_> {
    fn der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        if self.body.contains(",ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        if self.body.contains("\\n") {
            return Err(KeyError::EscapedLines);
        }
        // Room from the start: a buffer that grows would leave a copy behind.
        let mut base64 = Zeroizing::new(Vec::with_capacity(self.body.len()));
        let lines = self.body.lines().filter(|line| !line.contains(':'));
        base64.extend(lines.flat_map(str::bytes).filter(|byte| !byte.is_ascii_whitespace()));
        let mut der = Zeroizing::new(vec![0; base64.len()]);
        let Ok(length) = BASE64_STANDARD.decode_slice(&*base64, &mut der) else {
            return Err(KeyError::Damaged("its text is not Base64"));
        };
        der.truncate(length);
        Ok(der)
    }
}

/// RFC 5958: `SEQUENCE { version, SEQUENCE { type, parameters }, OCTET STRING { key }, .. }`.
fn pkcs8(der: &[u8]) -> Result<Pair, KeyError> {
    let fields = || {
        let mut fields = take(&mut &*der, SEQUENCE)?;
        take(&mut fields, INTEGER)?;
        let mut kind = take(&mut fields, SEQUENCE)?;
        Some((take(&mut kind, OID)?, kind, take(&mut fields, OCTETS)?))
    };
    let (kind, parameters, key) = fields().ok_or(DER_DAMAGED)?;
    match kind {
        RSA => rsa(key),
        EC => {
            let curve = curve(parameters)?;
            let pair = EcdsaKeyPair::from_pkcs8(curve.signing(), der).map_err(damaged)?;
            Ok(Pair::Ec(curve, pair))
        }
        ED25519 => Ed25519KeyPair::from_pkcs8(der).map(Pair::Ed25519).map_err(damaged),
        DSA => Err(KeyError::Unsupported("a DSA key")),
        RSA_PSS => Err(KeyError::Unsupported("an RSA key for PSS only")),
        ED448 => Err(KeyError::Unsupported("an Ed448 key")),
        X25519 => Err(KeyError::Unsupported("an X25519 key, which cannot sign,")),
        _ => Err(KeyError::Unsupported("a key of another type")),
    }
}

/// RFC 8017: `SEQUENCE { version, n, .. }`.
fn rsa(der: &[u8]) -> Result<Pair, KeyError> {
    let modulus = || {
        let mut fields = take(&mut &*der, SEQUENCE)?;
        take(&mut fields, INTEGER)?;
        take(&mut fields, INTEGER)
    };
    check_size(trimmed(modulus().ok_or(DER_DAMAGED)?))?;
    RsaKeyPair::from_der(der).map(Pair::Rsa).map_err(damaged)
}

/// RFC 5915: `SEQUENCE { version, key, [0] curve OPTIONAL, .. }`.
fn sec1(der: &[u8]) -> Result<Pair, KeyError> {
    let fields = || {
        let mut fields = take(&mut &*der, SEQUENCE)?;
        take(&mut fields, INTEGER)?;
        take(&mut fields, OCTETS)?;
        take(&mut fields, TAG_0)
    };
    let curve = curve(fields().ok_or(KeyError::Damaged("it does not name its curve"))?)?;
    EcdsaKeyPair::from_private_key_der(curve.signing(), der).map(|pair| Pair::Ec(curve, pair)).map_err(damaged)
}

fn curve(mut parameters: &[u8]) -> Result<Curve, KeyError> {
    match take(&mut parameters, OID) {
        Some(P256) => Ok(Curve::P256),
        Some(P384) => Ok(Curve::P384),
        Some(P521) => Ok(Curve::P521),
        Some(_) => Err(OTHER_CURVE),
        None => Err(KeyError::Unsupported("an EC key that spells out its curve instead of naming it")),
    }
}

fn damaged(_: KeyRejected) -> KeyError {
    KeyError::Damaged("its numbers do not fit together")
}

/// Takes the contents of one DER element off the front, when it has this tag.
pub(super) fn take<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let ([found, length], rest) = input.split_first_chunk::<2>()?;
    let (length, rest) = match *length {
        short @ ..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |number, digit| (number << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    if *found != tag {
        return None;
    }
    *input = rest;
    Some(contents)
}
