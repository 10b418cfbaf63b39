//! Signatures as cosign writes them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::*;

const V3: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A key pair of `cosign generate-key-pair`.
pub(super) struct Cosign {
    pair: EcdsaKeyPair,
    folder: TempDir,
}

impl Cosign {
    pub(super) fn new() -> Self {
        let cosign = Self {
            pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        let start = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
        let start = (0..start.len()).step_by(2).map(|at| u8::from_str_radix(&start[at..at + 2], 16).unwrap());
        let der: Vec<u8> = start.chain(cosign.pair.public_key().as_ref().iter().copied()).collect();
        std::fs::write(cosign.folder.path().join("cosign.pub"), pem("PUBLIC KEY", &der)).unwrap();
        cosign
    }

    pub(super) fn trust(&self) -> Trust {
        Trust { keys: vec![self.folder.path().join("cosign.pub")], digests: vec![] }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
    }

    /// `sign-blob --key --bundle`.
    pub(super) fn bundle(&self, message: &[u8]) -> Value {
        json!({
            "mediaType": V3,
            "verificationMaterial": {
                "publicKey": { "hint": STANDARD.encode([7; 32]) },
                "tlogEntries": [{ "logIndex": "1", "inclusionProof": { "hashes": ["aa"] } }],
                "timestampVerificationData": { "rfc3161Timestamps": [{ "signedTimestamp": "AA==" }] }
            },
            "messageSignature": {
                "messageDigest": { "algorithm": "SHA2_256", "digest": STANDARD.encode(Sha256::digest(message)) },
                "signature": STANDARD.encode(self.sign(message))
            }
        })
    }
}

fn with(mut bundle: Value, pointer: &str, value: Value) -> Value {
    *bundle.pointer_mut(pointer).unwrap() = value;
    bundle
}

fn text(bundle: &Value) -> Vec<u8> {
    bundle.to_string().into_bytes()
}

#[test]
fn a_signature_of_cosign_is_verified_in_each_of_its_forms() {
    let cosign = Cosign::new();
    let der = cosign.sign(COMPONENT);
    let base64 = STANDARD.encode(&der);
    let bundle = cosign.bundle(COMPONENT);
    let mut without = bundle.clone();
    without["messageSignature"].as_object_mut().unwrap().remove("messageDigest");
    let forms = [
        ("DER", der),
        ("base64", base64.clone().into_bytes()),
        ("base64 and a line feed", format!("{base64}\n").into_bytes()),
        ("bundle", text(&bundle)),
        ("bundle on several lines", format!("\n{bundle:#}\n").into_bytes()),
        ("bundle without a digest", text(&without)),
        (
            "version 0.1",
            text(&with(bundle, "/mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.1"))),
        ),
        ("before sigstore", text(&json!({ "base64Signature": base64, "cert": "", "rekorBundle": { "Payload": {} } }))),
    ];
    for (what, signature) in forms {
        assert_eq!(signed(&cosign.trust(), COMPONENT, Some(&signature)), Ok(None), "{what}");
        let error = signed(&Cosign::new().trust(), COMPONENT, Some(&signature)).unwrap_err();
        assert!(error.contains("fits none of the provider keys"), "{what}: {error}");
        let error = signed(&cosign.trust(), b"\0asm another", Some(&signature)).unwrap_err();
        assert!(
            error.contains("fits none of the provider keys") || error.contains("of another file"),
            "{what}: {error}"
        );
    }
}

#[test]
fn cosign_signs_a_statement_as_it_signs_any_file() {
    let cosign = Cosign::new();
    let says = Signed::new("mycloud", 7);
    let statement = says.statement(&digest(COMPONENT));
    let bundle = text(&cosign.bundle(statement.as_bytes()));
    let beside = [statement.as_bytes(), &bundle].concat();
    assert_eq!(signed(&cosign.trust(), COMPONENT, Some(&beside)), Ok(Some(says)));
    let of_the_component = [statement.as_bytes(), &text(&cosign.bundle(COMPONENT))].concat();
    let error = signed(&cosign.trust(), COMPONENT, Some(&of_the_component)).unwrap_err();
    let other = digest(COMPONENT);
    assert!(error.contains(&format!("of another file ({other})")) && error.contains("its statement"), "{error}");
}

#[test]
fn keys_of_both_kinds_stand_side_by_side() {
    let (cosign, signer) = (Cosign::new(), Signer::new());
    let trust = Trust { keys: [cosign.trust().keys, signer.trust().keys].concat(), digests: vec![] };
    for signature in [cosign.sign(COMPONENT), signer.sign(COMPONENT)] {
        assert_eq!(admits(&trust, COMPONENT, Some(&signature)), Ok(()));
    }
    let mut bundle = cosign.bundle(COMPONENT);
    bundle["messageSignature"]["signature"] = json!(STANDARD.encode(signer.sign(COMPONENT)));
    assert_eq!(admits(&trust, COMPONENT, Some(&text(&bundle))), Ok(()), "of Ed25519");
}

#[test]
fn what_a_bundle_has_that_no_key_verifies_is_named_with_the_way_out() {
    let cosign = Cosign::new();
    let good = cosign.bundle(COMPONENT);
    let signed_by = |with: Value| {
        let mut bundle = good.clone();
        bundle["verificationMaterial"] = with;
        bundle
    };
    let certificate = json!({ "rawBytes": "MIIB" });
    let pem = STANDARD.encode("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    let signature = good["messageSignature"]["signature"].clone();
    let mut attestation = good.clone();
    let parts = attestation.as_object_mut().unwrap();
    parts.remove("messageSignature");
    parts.insert("dsseEnvelope".to_owned(), json!({ "payload": "", "payloadType": "application/vnd.in-toto+json" }));
    let mut nothing = good.clone();
    nothing.as_object_mut().unwrap().remove("messageSignature");
    let long = format!("application/{}", "x".repeat(5000));
    let cases = [
        ("keyless", signed_by(json!({ "certificate": certificate })), "has a certificate, as keyless signing makes it"),
        (
            "keyless, v0.1",
            signed_by(json!({ "x509CertificateChain": { "certificates": [certificate] } })),
            "has a certificate, as keyless signing makes it",
        ),
        ("keyless, before sigstore", json!({ "base64Signature": signature, "cert": pem }), "has a certificate"),
        ("an attestation", attestation, "is an attestation (dsseEnvelope)"),
        ("nothing", nothing, "has no messageSignature"),
        ("a later version", with(good.clone(), "/mediaType", json!("v9")), "its mediaType is \"v9\""),
        ("a long one", with(good.clone(), "/mediaType", json!(long)), "its mediaType is \"application/xxx"),
        ("none", json!({}), "its mediaType is missing"),
        (
            "Ed25519ph",
            with(good.clone(), "/messageSignature/messageDigest/algorithm", json!("SHA2_512")),
            "a digest of the kind \"SHA2_512\"",
        ),
        (
            "of another file",
            with(good.clone(), "/messageSignature/messageDigest/digest", json!(STANDARD.encode([1; 32]))),
            "of another file (sha256:0101",
        ),
        (
            "no signature",
            with(good.clone(), "/messageSignature/signature", json!("MEUC")),
            "neither one of ECDSA P-256 nor one of Ed25519",
        ),
        ("another type", with(good.clone(), "/messageSignature", json!("x".repeat(5000))), "cannot be read at line 1"),
    ];
    for (what, bundle, part) in cases {
        let error = signed(&cosign.trust(), COMPONENT, Some(&text(&bundle))).unwrap_err();
        assert!(error.contains(part) && error.len() < 600, "{what}: {error}");
        assert!(error.contains("sign"), "{what} has no way out: {error}");
    }
    let error = signed(&cosign.trust(), COMPONENT, Some(b"{")).unwrap_err();
    assert!(error.contains("cannot be read at line 1 column 1") && error.contains("cosign sign-blob --key"), "{error}");
}
