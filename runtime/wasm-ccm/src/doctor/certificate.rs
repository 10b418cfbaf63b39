//! When a certificate expires: the one field of X.509 that is read here.

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Tag of a time with two digits for the year.
const UTC_TIME: u8 = 0x17;
/// Tag of a time with four digits for the year.
const GENERALIZED_TIME: u8 = 0x18;
/// Tag of the version, which certificates of version 1 leave out.
const VERSION: u8 = 0xa0;

/// When the first of these certificates expires. None where there is none, or one that cannot be read.
pub(super) fn first_expiry(pem: &[u8]) -> Option<Timestamp> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    let ends: Vec<Timestamp> = certificates.iter().map(|one| expiry(one)).collect::<Option<_>>()?;
    ends.into_iter().min()
}

fn expiry(der: &[u8]) -> Option<Timestamp> {
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
    use super::*;

    fn pem(years: &[i32]) -> String {
        let one = |year: &i32| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(*year, 11, 26);
            parameters.self_signed(&key).unwrap().pem()
        };
        years.iter().map(one).collect()
    }

    #[test]
    fn the_first_to_expire_counts_in_both_forms_of_a_year() {
        for years in [&[2027][..], &[2049], &[2050], &[2300], &[2400, 2028]] {
            let year = years.iter().min().unwrap();
            let wanted: Timestamp = format!("{year}-11-26T00:00:00Z").parse().unwrap();
            assert_eq!(first_expiry(pem(years).as_bytes()), Some(wanted), "{years:?}");
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
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(first_expiry(text.as_bytes()), None, "{text:?}");
        }
    }
}
