//! Trust: a component runs only if a known key signed it, or if its digest is known.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::{MAX_SIGNATURE, SIGNATURE};

/// What an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410) begins with; the 32 bytes of the key follow.
const ED25519_KEY: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Bytes of an Ed25519 signature.
const LENGTH: usize = 64;

/// Which components are taken; all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Trust {
    /// Files with public keys (Ed25519, PEM). Components that one of them signed are taken. The signature is next to the component,
    /// under its name and `.sig`, raw or base64. It is the signature of the unpacked component.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<PathBuf>,
    /// Digests (`sha256:…`) of unpacked components that are taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
}

impl Trust {
    /// Refuses what can fit no component.
    ///
    /// # Errors
    ///
    /// Names the digest, or the file of the key.
    pub fn check(&self) -> Result<()> {
        for digest in &self.digests {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            let fits = hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            ensure!(
                fits,
                "{digest:?} is no digest; `wasm-ccm inspect FILE` shows the one of a component (sha256: and 64 digits)"
            );
        }
        self.keys().map(drop)
    }

    fn keys(&self) -> Result<Vec<Vec<u8>>> {
        let key = |path: &PathBuf| {
            let what = || format!("provider key {}", path.display());
            let pem = std::fs::read(path).with_context(what)?;
            let der = SubjectPublicKeyInfoDer::from_pem_slice(&pem);
            let der = der.ok().and_then(|der| der.strip_prefix(&ED25519_KEY).map(<[u8]>::to_vec));
            let key = der.filter(|key| key.len() == 32);
            key.context("it is no Ed25519 public key in PEM; `openssl pkey -in KEY.pem -pubout` gives one")
                .with_context(what)
        };
        self.keys.iter().map(key).collect()
    }

    /// Whether this component is one of those.
    ///
    /// # Errors
    ///
    /// Why not, and the way out.
    pub fn admits(&self, component: &[u8], digest: &str, signature: Option<&[u8]>) -> Result<()> {
        if (self.keys.is_empty() && self.digests.is_empty()) || self.digests.iter().any(|known| known == digest) {
            return Ok(());
        }
        if self.keys.is_empty() {
            bail!("its digest {digest} is none of those that are allowed; add it (--provider-digest) if you know it");
        }
        let Some(signature) = signature else {
            bail!(
                "it is not signed: there is no file or key of the component's name and {SIGNATURE}; `{}` makes one",
                sign()
            );
        };
        let Some(signature) = raw(signature) else {
            // More of it is not read.
            let more = if signature.len() == MAX_SIGNATURE { " or more" } else { "" };
            bail!(
                "its {SIGNATURE} is no signature: it has {} bytes{more}, and is neither {LENGTH} raw bytes nor their base64; `{}` makes one",
                signature.len(),
                sign()
            );
        };
        let fits = |key: &Vec<u8>| UnparsedPublicKey::new(&ED25519, key).verify(component, &signature).is_ok();
        ensure!(
            self.keys()?.iter().any(fits),
            "its signature fits none of the provider keys ({}); sign the unpacked component, and put both there together",
            self.keys.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }
}

/// The command that signs.
fn sign() -> String {
    format!("openssl pkeyutl -sign -rawin -inkey KEY.pem -in PROVIDER.wasm -out PROVIDER.wasm{SIGNATURE}")
}

/// A signature of 64 bytes is raw; anything else must be the base64 of as many.
fn raw(signature: &[u8]) -> Option<Vec<u8>> {
    if signature.len() == LENGTH {
        return Some(signature.to_vec());
    }
    use base64::Engine as _;
    let text: Vec<u8> = signature.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(text).ok().filter(|raw| raw.len() == LENGTH)
}

#[cfg(test)]
mod tests;
