//! Against keys and signatures of other programs.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA512_ASN1,
    ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA512_ASN1, EcdsaVerificationAlgorithm, UnparsedPublicKey,
};
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, Engine};

use super::*;
use crate::encoding::Encoding;

mod keys;
mod vectors;

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

fn key(text: &str) -> PrivateKey {
    match PrivateKey::parse(&secret(text)) {
        Ok(key) => key,
        Err(error) => panic!("{error}: {text}"),
    }
}

fn error(text: &str) -> KeyError {
    match PrivateKey::parse(&secret(text)) {
        Ok(_) => panic!("this is no key: {text}"),
        Err(error) => error,
    }
}

fn text(encoding: Encoding, bytes: &[u8]) -> String {
    String::from_utf8(encoding.encode(bytes).unwrap().to_vec()).unwrap()
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

/// Every form of every key: its algorithm, MD5 and SHA-256.
const KEYS: [(&[&str], Algorithm, &str, &str); 5] = [
    (
        &[keys::RSA_PKCS1, keys::RSA_PKCS8, keys::RSA_OPENSSH],
        Algorithm::RsaSha256,
        "947309fcc10a6c7efc150925c425d708",
        "Hjtchj+PLuGG4WPRSE53zA/SqkgF+ITg5tsVQ9+qQLs",
    ),
    (
        &[keys::P256_SEC1, keys::P256_PKCS8, keys::P256_OPENSSH],
        Algorithm::EcdsaSha256,
        "b6260b4761d7e0235d77cccbef325254",
        "O40/Kr10BqFaZl6JpXS8HcXq/Ab86+1MUkBV85O1zCI",
    ),
    (
        &[keys::P384_SEC1_WITH_PARAMETERS, keys::P384_PKCS8, keys::P384_OPENSSH],
        Algorithm::EcdsaSha256,
        "b63166d7310af17311c7a65b8bcf2483",
        "z1NIS7xvmjgy7BkS0fUryrZy1hpICogPjonlLTlqgR0",
    ),
    (
        &[keys::P521_SEC1, keys::P521_PKCS8, keys::P521_OPENSSH],
        Algorithm::EcdsaSha512,
        "e229a9cdec7c730446a03d2741671639",
        "fAa/3wjqrHvm4YGAkZQO+f44Yf5e2Cga8ApJYOqa72A",
    ),
    (
        &[keys::ED25519_PKCS8_V1, keys::ED25519_PKCS8_V2, keys::ED25519_OPENSSH],
        Algorithm::Ed25519,
        "ae00ff5f5361705865b4599129a87a78",
        "wvo+xxYS2qONpmEgTKvSuKPEcEwLhCfYut7ulvPx2kI",
    ),
];

#[test]
fn the_hmac_of_cloudstack_comes_out_in_every_encoding() {
    let secret = secret(vectors::CLOUDSTACK_SECRET);
    for (data, base64, hex, url) in vectors::CLOUDSTACK {
        let signature = sign(&secret, Algorithm::HmacSha1, data.as_bytes()).unwrap();
        let written = [Encoding::Base64, Encoding::Hex, Encoding::Base64PercentEncoded].map(|e| text(e, &signature));
        assert_eq!(written, [base64, hex, url], "{data}");
    }
}

/// Its test cases 1 to 4, 6 and 7: short and long keys, and keys and data that are no text. Case 5 is about cut digests.
#[test]
fn the_longer_hmacs_are_those_of_rfc_4231() {
    let counted: Vec<u8> = (1..=25).collect();
    let cases: [(&[u8], &[u8], &str, &str); 6] = [
        (
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39\
             bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
        ),
        (
            &counted,
            &[0xcd; 50],
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db\
             a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
        ),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        ),
        (
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be \
              hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944\
             b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58",
        ),
    ];
    for (key, data, sha256, sha512) in cases {
        for (algorithm, hex) in [(Algorithm::HmacSha256, sha256), (Algorithm::HmacSha512, sha512)] {
            let signature = sign(&Secret::new(key.to_vec()), algorithm, data).unwrap();
            assert_eq!(text(Encoding::Hex, &signature), hex, "{algorithm} of {}", data.escape_ascii());
        }
    }
}

#[test]
fn the_signatures_of_triton_come_out_byte_for_byte() {
    for (name, pem, algorithm, data, signature) in vectors::TRITON {
        let made = sign(&secret(pem), algorithm, data.as_bytes()).unwrap();
        assert_eq!(text(Encoding::Base64, &made), signature, "{name}");
    }
}

#[test]
fn every_form_of_a_key_is_the_same_key() {
    for (forms, algorithm, md5, sha256) in KEYS {
        for form in forms {
            let key = key(form);
            assert_eq!(key.algorithm(), algorithm, "{form}");
            assert_eq!(text(Encoding::Hex, &key.fingerprint(Digest::Md5)), md5, "{form}");
            assert_eq!(BASE64_STANDARD_NO_PAD.encode(key.fingerprint(Digest::Sha256)), sha256, "{form}");
            assert!(key.sign(algorithm, b"data").is_ok(), "{form}");
        }
    }
    let signatures = [keys::RSA_PKCS1, keys::RSA_PKCS8, keys::RSA_OPENSSH]
        .map(|form| key(form).sign(Algorithm::RsaSha512, b"data").unwrap());
    assert!(signatures.windows(2).all(|two| two[0] == two[1]), "RSA of OpenSSH has other numbers");
}

#[test]
fn every_curve_signs_with_either_hash() {
    let cases: [(&str, &EcdsaVerificationAlgorithm, &EcdsaVerificationAlgorithm); 3] = [
        (keys::P256_SEC1, &ECDSA_P256_SHA256_ASN1, &ECDSA_P256_SHA512_ASN1),
        (keys::P384_PKCS8, &ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA512_ASN1),
        (keys::P521_OPENSSH, &ECDSA_P521_SHA256_ASN1, &ECDSA_P521_SHA512_ASN1),
    ];
    for (pem, sha256, sha512) in cases {
        let key = key(pem);
        for (algorithm, verify) in [(Algorithm::EcdsaSha256, sha256), (Algorithm::EcdsaSha512, sha512)] {
            // Several, because the numbers in a signature differ in length.
            for data in 0..20_u8 {
                let signature = key.sign(algorithm, &[data]).unwrap();
                let mut der = signature.as_slice();
                let mut numbers = parse::take(&mut der, parse::SEQUENCE).unwrap();
                assert!(parse::take(&mut numbers, parse::INTEGER).is_some_and(|r| !r.is_empty()));
                assert!(parse::take(&mut numbers, parse::INTEGER).is_some_and(|s| !s.is_empty()));
                assert!(der.is_empty() && numbers.is_empty());
                let public = UnparsedPublicKey::new(verify, key.public_point());
                assert!(public.verify(&[data], &signature).is_ok(), "{algorithm} of {data}");
                assert!(public.verify(&[data, 0], &signature).is_err(), "{algorithm} of {data}");
            }
        }
    }
}

#[test]
fn the_public_half_verifies_the_ecdsa_signature_of_triton() {
    let (data, signature) = vectors::TRITON_V8;
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key(keys::P256_SEC1).public_point());
    public.verify(data.as_bytes(), &BASE64_STANDARD.decode(signature).unwrap()).unwrap();
}

#[test]
fn a_key_signs_with_the_algorithms_of_its_kind_only() {
    use Algorithm::*;
    let all = [HmacSha1, HmacSha256, HmacSha512, RsaSha256, RsaSha512, EcdsaSha256, EcdsaSha512, Ed25519];
    let cases: [(&str, &str, &[Algorithm]); 3] = [
        (keys::RSA_PKCS1, "RSA", &[RsaSha256, RsaSha512]),
        (keys::P521_SEC1, "EC", &[EcdsaSha256, EcdsaSha512]),
        (keys::ED25519_PKCS8_V1, "Ed25519", &[Ed25519]),
    ];
    for (pem, kind, fitting) in cases {
        let parsed = key(pem);
        for algorithm in all {
            match parsed.sign(algorithm, b"data") {
                Ok(_) => assert!(fitting.contains(&algorithm), "{kind} signed with {algorithm}"),
                Err(error) => {
                    assert!(!fitting.contains(&algorithm));
                    assert_eq!(error, SignError::Family { key: kind, algorithm });
                }
            }
        }
    }
}

#[test]
fn what_happens_to_a_file_on_its_way_into_a_secret_does_no_harm() {
    let pem = keys::P256_SEC1;
    let fingerprint = key(pem).fingerprint(Digest::Sha256);
    let cases = [
        pem.trim_end().to_owned(),
        pem.replace('\n', "\r\n"),
        pem.replace('\n', "\n    "),
        pem.replace('\n', " "),
        format!("\u{feff}\n{pem}"),
        format!("{}{pem}", keys::CERTIFICATE),
        format!("{}{pem}", keys::ENCRYPTED_PKCS8),
        format!("Bag Attributes\n    friendlyName: x\n{pem}{}", keys::RSA_PKCS1),
        pem.replacen("-----\n", "-----\nComment: mine\n\n", 1),
    ];
    for case in cases {
        assert_eq!(key(&case).fingerprint(Digest::Sha256), fingerprint, "{case}");
    }
}

#[test]
fn what_is_no_usable_key_is_called_by_its_name() {
    use KeyError::*;
    let dsa = Unsupported("a DSA key");
    let other_curve = Unsupported("an EC key on another curve");
    let cut = keys::RSA_PKCS1.lines().take(13).collect::<Vec<_>>().join("\n");
    let cases = [
        ("", Empty),
        (" \n", Empty),
        ("correct horse battery staple", NotPem),
        (&BASE64_STANDARD.encode(keys::RSA_PKCS1), EncodedTwice),
        (&keys::RSA_PKCS1.replace('\n', "\\n"), EscapedLines),
        (keys::ENCRYPTED_PKCS8, Encrypted),
        (keys::ENCRYPTED_LEGACY, Encrypted),
        (keys::ENCRYPTED_OPENSSH, Encrypted),
        (keys::PUBLIC_KEY, NotPrivate("a public key")),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILTQv7AQ test", NotPrivate("a public key")),
        (keys::CERTIFICATE, NotPrivate("a certificate")),
        (keys::CERTIFICATE_REQUEST, NotPrivate("a certificate request")),
        ("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none", Putty),
        (keys::DSA_PKCS8, dsa.clone()),
        (keys::DSA_TRADITIONAL, dsa),
        (keys::SECP256K1_SEC1, other_curve.clone()),
        (keys::SECP256K1_PKCS8, other_curve),
        (keys::EXPLICIT_CURVE, Unsupported("an EC key that spells out its curve instead of naming it")),
        (keys::X25519, Unsupported("an X25519 key, which cannot sign,")),
        (keys::RSA_1024_PKCS1, RsaTooSmall(1024)),
        (keys::RSA_1024_OPENSSH, RsaTooSmall(1024)),
        (&cut, Damaged("its -----END line is missing")),
        (&format!("{cut}\n-----END RSA PRIVATE KEY-----"), Damaged("its DER does not fit together")),
        (&keys::RSA_PKCS1.replace("MIIE", "!!!!"), Damaged("its text is not Base64")),
        (&keys::RSA_PKCS8.replace("PRIVATE KEY", "RSA PRIVATE KEY"), Damaged("its DER does not fit together")),
        (&keys::RSA_PKCS1.replace("3wmY27SH", "3wmY27SI"), Damaged("its numbers do not fit together")),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn openssh_files_that_hold_no_usable_key_say_what_they_hold() {
    use KeyError::*;
    let string = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let file = |cipher: &str, keys: u32, checks: [u32; 2], kind: &str| {
        let private = [checks.map(u32::to_be_bytes).concat(), string(kind), string("")].concat();
        let mut file = b"openssh-key-v1\0".to_vec();
        file.extend([string(cipher), string("none"), string("")].concat());
        file.extend([keys.to_be_bytes().to_vec(), string("public")].concat());
        file.extend([&u32::try_from(private.len()).unwrap().to_be_bytes(), private.as_slice()].concat());
        pem("OPENSSH PRIVATE KEY", &file)
    };
    let damaged = Damaged("an OpenSSH key whose parts do not fit together");
    let cases = [
        (file("none", 1, [7, 7], "ssh-dss"), Unsupported("a DSA key")),
        (file("none", 1, [7, 7], "sk-ssh-ed25519@openssh.com"), Unsupported("a key that stays in a security token")),
        (file("none", 1, [7, 7], "ssh-new"), Unsupported("an OpenSSH key of another type")),
        (file("none", 2, [7, 7], "ssh-rsa"), Unsupported("a file of several OpenSSH keys")),
        (file("aes256-ctr", 1, [7, 7], "ssh-rsa"), Encrypted),
        (file("none", 1, [7, 8], "ssh-rsa"), damaged.clone()),
        (file("none", 1, [7, 7], "ssh-rsa"), damaged.clone()),
        (pem("OPENSSH PRIVATE KEY", b"openssh-key-v2"), damaged),
    ];
    for (text, expected) in cases {
        assert_eq!(error(&text), expected, "{text}");
    }
}

#[test]
fn rsa_keys_are_measured_before_they_are_read() {
    for (bytes, first, expected) in [
        (1025, 0x01, KeyError::RsaTooLarge(8193)),
        (256, 0x7f, KeyError::RsaTooSmall(2047)),
        (0, 0, KeyError::RsaTooSmall(0)),
        (256, 0x80, KeyError::Damaged("its numbers do not fit together")),
    ] {
        let mut modulus = vec![0xff; bytes];
        modulus.iter_mut().take(1).for_each(|byte| *byte = first);
        let element = |tag: u8, contents: &[u8]| {
            let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
            [&[tag, 0x82], length.as_slice(), contents].concat()
        };
        let numbers = [element(parse::INTEGER, &[0]), element(parse::INTEGER, &[&[0], modulus.as_slice()].concat())];
        let der = element(parse::SEQUENCE, &numbers.concat());
        assert_eq!(error(&pem("RSA PRIVATE KEY", &der)), expected);
    }
}

#[test]
fn openssh_keys_that_are_cut_or_changed_are_refused() {
    for text in [keys::RSA_OPENSSH, keys::P256_OPENSSH, keys::ED25519_OPENSSH] {
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        let whole = BASE64_STANDARD.decode(body).unwrap();
        let as_pem = |der: &[u8]| pem("OPENSSH PRIVATE KEY", der);
        assert!(PrivateKey::parse(&secret(&as_pem(&whole))).is_ok());
        for length in (0..whole.len() - 60).step_by(7) {
            assert!(PrivateKey::parse(&secret(&as_pem(&whole[..length]))).is_err(), "{length} bytes of it");
        }
        // The private numbers are in the middle of the second half.
        let mut changed = whole.clone();
        let middle = changed.len() * 3 / 4;
        changed[middle] ^= 1;
        assert!(PrivateKey::parse(&secret(&as_pem(&changed))).is_err());
    }
}

#[test]
fn no_error_holds_a_piece_of_the_key() {
    let marker = "Zm9vYmFyc2VjcmV0";
    for start in ["", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----\n"] {
        for end in ["", "\n-----END PRIVATE KEY-----\n", "-----\n-----END "] {
            let error = error(&format!("{start}{marker}{end}"));
            assert!(!format!("{error} {error:?}").contains(&marker[..4]), "{error:?}");
        }
    }
}
