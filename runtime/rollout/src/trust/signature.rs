//! The forms in which a signature lies beside a component.
//!
//! | form | made by |
//! |---|---|
//! | 64 bytes, or their base64 | Ed25519: `openssl pkeyutl -sign -rawin` |
//! | DER (an ECDSA signature), or its base64 | `cosign sign-blob --key`, `openssl dgst -sha256 -sign` |
//! | JSON: a sigstore bundle with a message signature | `cosign sign-blob --key --bundle` |
//!
//! All of them are verified with keys that the operator gave, and with nothing else: no certificate, log or clock counts.

use anyhow::{Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Bytes of an Ed25519 signature.
const LENGTH: usize = 64;
/// Bytes of the longest ECDSA signature over P-256: two numbers of 33 bytes, each with two bytes before it, and two for the whole.
const MAX_DER: usize = 72;
/// Most characters of somebody else's text in an error.
const MAX_TEXT: usize = 80;

/// Media types of bundles. What a verifier with a key needs is the same in all of them.
const MEDIA_TYPES: [&str; 4] = [
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
    "application/vnd.dev.sigstore.bundle+json;version=0.2",
    "application/vnd.dev.sigstore.bundle+json;version=0.1",
];

/// A signature, whoever made it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// As a key verifies it.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of what was signed, where a bundle says it.
    pub(super) digest: Option<Vec<u8>>,
}

impl Signature {
    /// None when it has none of the forms.
    ///
    /// # Errors
    ///
    /// It is a bundle, and cannot be verified with a key.
    pub(super) fn parse(text: &[u8]) -> Result<Option<Self>> {
        // One in 256 raw signatures begins so too.
        if text.len() != LENGTH && text.trim_ascii_start().first() == Some(&b'{') {
            return bundle(text).map(Some);
        }
        Ok(bare(text).map(|bytes| Self { bytes, digest: None }))
    }
}

/// A signature and nothing else, raw or in base64.
fn bare(text: &[u8]) -> Option<Vec<u8>> {
    if is_signature(text) {
        return Some(text.to_vec());
    }
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(text).ok().filter(|raw| is_signature(raw))
}

/// Whether it can be one of either kind.
fn is_signature(raw: &[u8]) -> bool {
    let is_der = matches!(raw, [0x30, length, rest @ ..] if usize::from(*length) == rest.len());
    raw.len() == LENGTH || (is_der && (8..=MAX_DER).contains(&raw.len()))
}

/// The parts of a bundle that count here. Entries of logs and time stamps do not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: Option<String>,
    verification_material: Option<Material>,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<IgnoredAny>,
    /// Of the form that cosign had before sigstore's.
    base64_signature: Option<String>,
    /// The same; base64 of PEM.
    cert: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    certificate: Option<IgnoredAny>,
    #[serde(rename = "x509CertificateChain")]
    chain: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: Option<String>,
    digest: Option<String>,
}

fn bundle(text: &[u8]) -> Result<Signature> {
    let bundle: Bundle = match serde_json::from_slice(text) {
        Ok(bundle) => bundle,
        // Without what stands there: that may be long.
        Err(error) => bail!(
            "it is no sigstore bundle: it cannot be read at line {} column {}; `{SIGN}` writes one",
            error.line(),
            error.column()
        ),
    };
    let Bundle { media_type, verification_material, message_signature, dsse_envelope, base64_signature, cert } = bundle;
    let cert = cert.and_then(|cert| STANDARD.decode(cert).ok()).unwrap_or_default();
    let is_keyless = cert.windows(11).any(|part| part == b"CERTIFICATE")
        || verification_material.is_some_and(|with| with.certificate.is_some() || with.chain.is_some());
    ensure!(
        !is_keyless,
        "its bundle has a certificate, as keyless signing makes it: the host verifies signatures without a network, and only with the provider keys; sign with a key: `{SIGN}`"
    );
    if let (None, Some(signature)) = (&media_type, base64_signature) {
        return Ok(Signature { bytes: decoded(&signature)?, digest: None });
    }
    match media_type.as_deref() {
        Some(known) if MEDIA_TYPES.contains(&known) => {}
        other => bail!(
            "it is no sigstore bundle of a version that this host knows: its mediaType is {}; `{SIGN}` writes one",
            shown(other)
        ),
    }
    ensure!(
        dsse_envelope.is_none(),
        "its bundle is an attestation (dsseEnvelope), and the host wants a signature of the file itself: `{SIGN}`"
    );
    let Some(MessageSignature { message_digest, signature: Some(signature) }) = message_signature else {
        bail!("its bundle has no messageSignature; `{SIGN}` writes one");
    };
    let digest = match message_digest {
        Some(MessageDigest { algorithm, digest: Some(digest) }) => {
            ensure!(
                algorithm.as_deref() == Some("SHA2_256"),
                "its bundle signs a digest of the kind {}, and the host verifies ECDSA P-256 with SHA2_256, and Ed25519 without a digest (no Ed25519ph); sign with such a key",
                shown(algorithm.as_deref())
            );
            STANDARD.decode(digest).ok()
        }
        _ => None,
    };
    Ok(Signature { bytes: decoded(&signature)?, digest })
}

/// How cosign writes a bundle that is taken here.
const SIGN: &str = "cosign sign-blob --key cosign.key --bundle FILE.bundle FILE";

fn decoded(signature: &str) -> Result<Vec<u8>> {
    let raw = STANDARD.decode(signature).ok().filter(|raw| is_signature(raw));
    raw.ok_or_else(|| {
        anyhow::anyhow!(
            "the signature in its bundle is neither one of ECDSA P-256 nor one of Ed25519; sign with a key of these kinds"
        )
    })
}

/// Somebody else's word, on one line.
fn shown(word: Option<&str>) -> String {
    let Some(word) = word else { return "missing".to_owned() };
    format!("{:?}", word.chars().take(MAX_TEXT).collect::<String>())
}
