//! Certificates: when they expire, whether one is signed by an authority, and whether it has a name.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// Tag of a time with two digits for the year.
const UTC_TIME: u8 = 0x17;
/// Tag of a time with four digits for the year.
const GENERALIZED_TIME: u8 = 0x18;
/// Tag of the version, which certificates of version 1 leave out.
const VERSION: u8 = 0xa0;

/// The certificates of a PEM text, in their order. None where there is none, or one that cannot be read.
pub(super) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    Some(all).filter(|all| !all.is_empty())
}

/// When a certificate expires. None where that cannot be read.
pub(super) fn expiry(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate, _) = element(der)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, end) = element(validity)?;
    let (tag, text, _) = element(end)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match tag {
        // As RFC 5280 says.
        UTC_TIME if text < "50" => format!("20{text}+0000"),
        UTC_TIME => format!("19{text}+0000"),
        GENERALIZED_TIME => format!("{text}+0000"),
        _ => return None,
    };
    Timestamp::strptime("%Y%m%d%H%M%S%z", text).ok()
}

/// Why API servers do not take a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untrusted {
    /// It is none, or of a form that is not read.
    Unreadable,
    /// None of the authorities has signed it.
    Stranger,
    /// An authority between it and the bundle, or in the bundle, has expired.
    Expired,
}

/// Whether a served chain leads to an authority of a bundle, at a time.
///
/// # Errors
///
/// It does not: why.
pub(super) fn is_trusted(
    chain: &[CertificateDer<'_>],
    bundle: &[CertificateDer<'_>],
    at: Timestamp,
) -> Result<(), Untrusted> {
    let (leaf, between) = chain.split_first().ok_or(Untrusted::Unreadable)?;
    // As Go does: what stands in the bundle itself is trusted.
    if bundle.contains(leaf) {
        return Ok(());
    }
    let parsed = ParsedCertificate::try_from(leaf).map_err(|_unread| Untrusted::Unreadable)?;
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let mut why = Untrusted::Stranger;
    for authority in bundle {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates([authority.clone().into_owned()]);
        match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, between, time, algorithms) {
            // API servers look at the dates of the authority as well, and this function does not.
            Ok(()) if expiry(authority).is_some_and(|end| end >= at) => return Ok(()),
            Ok(()) => why = Untrusted::Expired,
            Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
                why = Untrusted::Expired;
            }
            Err(_stranger) => {}
        }
    }
    Err(why)
}

/// Whether a certificate is one for this host name.
pub(super) fn has_name(leaf: &CertificateDer<'_>, name: &str) -> bool {
    let parsed = ParsedCertificate::try_from(leaf);
    let name = ServerName::try_from(name);
    matches!((parsed, name), (Ok(parsed), Ok(name)) if verify_server_name(&parsed, &name).is_ok())
}

/// Tag, content and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn pem(years: &[i32]) -> String {
        let one = |year: &i32| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(1990, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(*year, 11, 26);
            parameters.self_signed(&key).unwrap().pem()
        };
        years.iter().map(one).collect()
    }

    #[test]
    fn an_expiry_is_read_in_both_forms_of_a_year() {
        for years in [&[2027][..], &[1999], &[2049], &[2050], &[2300], &[2400, 2028]] {
            let wanted = years.iter().map(|year| Some(format!("{year}-11-26T00:00:00Z").parse().unwrap()));
            let all = certificates(pem(years).as_bytes()).unwrap();
            assert!(all.iter().map(|one| expiry(one)).eq(wanted), "{years:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_expiry() {
        let good = pem(&[2027]);
        let der = CertificateDer::from_pem_slice(good.as_bytes()).unwrap();
        // Cut off anywhere before the end of the validity; the whole is good.
        assert!(expiry(&der).is_some());
        for end in 0..60 {
            assert_eq!(expiry(&der[..end]), None, "{end}");
        }
        assert_eq!(certificates(b""), None);
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let all = certificates(text.as_bytes()).unwrap_or_default();
            assert!(all.iter().all(|one| expiry(one).is_none()), "{text:?}");
        }
    }

    /// An authority until `year`, as a bundle has it, and what it signs with the name until `leaf_year`.
    fn signed(year: i32, leaf_year: i32) -> (CertificateDer<'static>, CertificateDer<'static>) {
        let until = |mut parameters: rcgen::CertificateParams, year| {
            parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            parameters
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = until(rcgen::CertificateParams::default(), year);
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(parameters, key).unwrap();
        let parameters = until(rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap(), leaf_year);
        let leaf = parameters.signed_by(&rcgen::KeyPair::generate().unwrap(), &authority).unwrap();
        (authority.der().clone(), leaf.der().clone())
    }

    #[test]
    fn a_certificate_is_trusted_when_an_authority_of_the_bundle_signed_it_and_is_valid() {
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let now = at("2026-11-26T10:00:00Z");
        let ((old, _), (good, leaf)) = (signed(2020, 2020), signed(2030, 2040));
        // An authority of before that stays in the bundle harms nobody.
        let bundle = [old.clone(), good.clone()];
        assert_eq!(is_trusted(from_ref(&leaf), &bundle, now), Ok(()));
        assert_eq!(is_trusted(from_ref(&leaf), &bundle, at("2031-01-01T00:00:00Z")), Err(Untrusted::Expired));
        assert_eq!(is_trusted(from_ref(&leaf), &[old], now), Err(Untrusted::Stranger));
        assert_eq!(is_trusted(from_ref(&leaf), from_ref(&leaf), now), Ok(()), "it is its own authority");
        assert_eq!(is_trusted(&[], &bundle, now), Err(Untrusted::Unreadable));
        assert!(has_name(&leaf, "a.example") && !has_name(&leaf, "b.example") && !has_name(&good, "a.example"));
    }
}
