//! Trust: a component runs only if a known key signed it, or if its digest is known.
//!
//! | part | holds |
//! |---|---|
//! | `key` | public keys, and what they signed |
//! | `signature` | the forms of a signature: raw, base64, DER, bundle |
//! | `statement` | what is signed, so that an older component can be told from a newer one |
//!
//! What follows from a counter is for the [`gate`](crate::gate::not_older) to say: only the host knows what was proven.

mod key;
mod signature;
mod statement;

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::source::{MAX_SIGNATURE, SIGNATURE};
use key::Key;
use signature::Signature;
pub(crate) use statement::Counted;
pub use statement::Signed;
use statement::{Statement, is_digest};

/// Which components are taken; all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Trust {
    /// Files with public keys (Ed25519 or ECDSA P-256, PEM). Components that one of them signed are taken. The signature is next to the
    /// component, under its name and `.sig`: raw, base64, or a sigstore bundle. It is the signature of the unpacked component, or of
    /// a statement about it.
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
            ensure!(
                is_digest(digest),
                "{digest:?} is no digest; `wasm-ccm inspect FILE` shows the one of a component (sha256: and 64 digits)"
            );
        }
        self.keys().map(drop)
    }

    fn keys(&self) -> Result<Vec<Key>> {
        let key = |path: &PathBuf| {
            let what = || format!("provider key {}", path.display());
            let pem = std::fs::read(path).with_context(what)?;
            Key::parse(&pem)
                .context(
                    "it is no Ed25519 or ECDSA P-256 public key in PEM; `openssl pkey -in KEY.pem -pubout` gives one",
                )
                .with_context(what)
        };
        self.keys.iter().map(key).collect()
    }

    /// Whether the operator named this very component.
    pub(crate) fn lists(&self, digest: &str) -> bool {
        self.digests.iter().any(|known| known == digest)
    }

    /// Whether this component is one of those, and what a key has said of it; none where its bytes alone are signed, or nobody asks for
    /// signatures.
    ///
    /// # Errors
    ///
    /// Why not, and the way out.
    pub fn admits(&self, component: &[u8], digest: &str, beside: Option<&[u8]>) -> Result<Option<Signed>> {
        let is_listed = self.lists(digest);
        if self.keys.is_empty() {
            ensure!(
                self.digests.is_empty() || is_listed,
                "its digest {digest} is none of those that are allowed; add it (--provider-digest) if you know it"
            );
            return Ok(None);
        }
        let signed = self.signed(component, digest, beside);
        if is_listed { Ok(signed.ok().flatten()) } else { signed }
    }

    fn signed(&self, component: &[u8], digest: &str, beside: Option<&[u8]>) -> Result<Option<Signed>> {
        let Some(beside) = beside else {
            bail!(
                "it is not signed: there is no file or key of the component's name and {SIGNATURE}; `{SIGN}` makes one"
            );
        };
        if beside.len() >= MAX_SIGNATURE {
            // More of a file is not read.
            bail!(
                "its {SIGNATURE} is no signature: it has {} bytes or more, and is {NEITHER}; `{SIGN}` makes one",
                beside.len()
            );
        }
        let statement = Statement::parse(beside);
        let statement = statement.map_err(|why| {
            anyhow!("its {SIGNATURE} begins as a statement about a component, and {why}; `{SIGN}` makes one")
        })?;
        let (message, rest) = match &statement {
            Some(statement) => (statement.text, statement.signature),
            None => (component, beside),
        };
        let Some(signature) = Signature::parse(rest)? else {
            let after = if statement.is_some() { " after its statement" } else { "" };
            bail!(
                "its {SIGNATURE} is no signature: it has {} bytes{after}, and is {NEITHER}; `{SIGN}` makes one",
                rest.len()
            );
        };
        if let Some(other) = signature.digest.filter(|digest| **digest != *Sha256::digest(message)) {
            let other: String = other.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            let what = if statement.is_some() { "its statement" } else { "the unpacked component" };
            bail!("its bundle is of another file (sha256:{other}); sign {what}, and put both there together");
        }
        ensure!(
            self.keys()?.iter().any(|key| key.signed(message, &signature.bytes)),
            "its signature fits none of the provider keys ({}); sign the unpacked component, or a statement about it, and put both there together",
            self.keys.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
        let Some(Statement { mut signed, digest: of, .. }) = statement else { return Ok(None) };
        ensure!(
            of == digest,
            "what is signed is a statement about another component ({of}), and this one is {digest}; sign this one, and put both there together"
        );
        signed.signature = STANDARD.encode(&signature.bytes);
        Ok(Some(signed))
    }

    /// Tells whether a key has said this of the component with that digest. Whoever cannot read the keys knows of nothing that one said.
    pub(crate) fn vouches(&self) -> impl Fn(&Counted) -> bool + use<> {
        let keys = self.keys().unwrap_or_default();
        move |Counted { signed, digest }| {
            let statement = signed.statement(digest);
            let signature = STANDARD.decode(&signed.signature);
            signature.is_ok_and(|signature| keys.iter().any(|key| key.signed(statement.as_bytes(), &signature)))
        }
    }
}

/// What no signature is.
const NEITHER: &str = "neither 64 raw bytes nor DER nor the base64 of either nor a sigstore bundle";
/// The commands that sign.
const SIGN: &str = "wasm-ccm inspect PROVIDER.wasm --statement COUNTER > S; openssl pkeyutl -sign -rawin -inkey KEY.pem -in S | base64 | cat S - > PROVIDER.wasm.sig";

#[cfg(test)]
pub(crate) mod tests;
