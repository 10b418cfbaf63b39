//! Signatures of requests, which the host makes: the provider says over what, and never holds the key.
//!
//! A signature covers the time. A request that is signed anew is another one for the host, and no call shares its answer. A
//! [`Stamp`] is therefore the same for all requests of a while: [`Request::share`] works for signed requests too.
//!
//! Sign in [`Cloud::prepare`](crate::Cloud::prepare), when all else is in the request:
//!
//! ```
//! use std::time::Duration;
//!
//! use ccm_sdk::credentials::{Algorithm, Encoding};
//! use ccm_sdk::sign::{HttpSignature, Stamp};
//! use ccm_sdk::{Cloud, Request};
//!
//! /// Every parameter is signed, and so is the time at which the request expires.
//! const SORTED: Cloud = Cloud::new("api").prepare(|request| {
//!     let expires = Stamp::now(Duration::from_secs(30)).after(Duration::from_secs(600));
//!     request.query("expires", expires.rfc3339()).query_secret("apiKey", "api-key", Encoding::Plain).sign_query("secret-key")
//! });
//!
//! /// Method, path, query and `Date` are signed.
//! const HEADERS: Cloud = Cloud::new("cloudapi").prepare(|request| {
//!     let signature = HttpSignature { key: "account-key", key_id: "/me/keys/aa:bb", algorithm: Algorithm::RsaSha256 };
//!     request.sign_headers(&signature, Stamp::now(Duration::from_secs(30)))
//! });
//! ```

use std::time::Duration;

use crate::credentials::{Algorithm, Encoding, Part, SignedPart};
use crate::http::Method;
use crate::request::Request;
use crate::{clock, percent};

const DAY: u64 = 24 * 60 * 60;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What a sorted query leaves alone, besides letters and digits: what `URLEncoder` of Java does, by which CloudStack checks.
const JAVA_UNRESERVED: &str = "-._*";

/// A time of whole seconds that requests carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    /// The begin of the current step: the same for as long as the step is. A step is shorter than what the cloud allows clocks to
    /// differ, and not shorter than the age of a shared answer. Less than a second counts as one.
    pub fn now(step: Duration) -> Self {
        Self::at(clock::since_epoch(), step)
    }

    fn at(since_epoch: Duration, step: Duration) -> Self {
        let step = step.as_secs().max(1);
        Self(since_epoch.as_secs() / step * step)
    }

    /// Later by so many whole seconds.
    #[must_use]
    pub const fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_secs()))
    }

    /// As `Date` and other headers have it (RFC 9110, 5.6.7): `Tue, 05 May 2026 12:00:00 GMT`.
    pub fn http_date(self) -> String {
        let (year, month, day) = self.date();
        let name = |names: &[&'static str], at: u64| {
            usize::try_from(at).ok().and_then(|at| names.get(at)).map_or("", |name| *name)
        };
        let (weekday, month) = (name(&WEEKDAYS, self.0 / DAY % 7), name(&MONTHS, month - 1));
        format!("{weekday}, {day:02} {month} {year:04} {} GMT", self.time())
    }

    /// As RFC 3339 has it, in UTC: `2026-05-05T12:00:00Z`.
    pub fn rfc3339(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}-{month:02}-{day:02}T{}Z", self.time())
    }

    fn time(self) -> String {
        let seconds = self.0 % DAY;
        format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }

    /// Year, month from 1 and day from 1. A date library would be larger than all the rest of a small provider.
    ///
    /// Years are counted from March on, so that the day of a leap year is its last: the days before month `m` are then
    /// `(153 * m + 2) / 5`, and 400 years have 146,097 days.
    const fn date(self) -> (u64, u64, u64) {
        // Days since 0000-03-01.
        let days = self.0 / DAY + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = 400 * era + year_of_era + if month <= 2 { 1 } else { 0 };
        (year, month, day)
    }
}

/// How an HTTP Signature is made (draft-cavage-http-signatures), as Triton's CloudAPI checks it.
#[derive(Debug, Clone, Copy)]
pub struct HttpSignature<'a> {
    /// The credential: a private key.
    pub key: &'a str,
    /// By which name the cloud knows its public half.
    pub key_id: &'a str,
    /// What the key can do: [`credentials::key_algorithm`](crate::credentials::key_algorithm).
    pub algorithm: Algorithm,
}

impl Request {
    /// Signs the query with HMAC-SHA1, all parameters sorted by name and in lower case, and puts that into the parameter `signature`:
    /// what CloudStack wants of a GET.
    pub fn sign_query(self, key: &str) -> Self {
        let signature = sorted(self.query_so_far(), key, Encoding::Base64);
        self.query_parts("signature", vec![signature])
    }

    /// The body as a form, signed in the same way: what CloudStack wants of a POST.
    pub fn signed_form(self, mut fields: Vec<(String, Vec<Part>)>, key: &str) -> Self {
        let signature = sorted(&fields, key, Encoding::Base64PercentEncoded);
        fields.push(("signature".to_owned(), vec![signature]));
        self.form(fields)
    }

    /// Sets `Date`, and signs that and the target in `Authorization`.
    pub fn sign_headers(self, by: &HttpSignature<'_>, date: Stamp) -> Self {
        let date = date.http_date();
        let data = vec![
            SignedPart::bytes(format!("(request-target): {} ", method_name(self.method()))),
            SignedPart::Target,
            SignedPart::bytes(format!("\ndate: {date}")),
        ];
        let (key_id, algorithm) = (by.key_id, algorithm_name(by.algorithm));
        let before = format!(
            r#"Signature keyId="{key_id}",algorithm="{algorithm}",headers="(request-target) date",signature=""#
        );
        let signature = Part::signature(by.key, by.algorithm, Encoding::Base64, data);
        self.header("date", date).header_parts("authorization", vec![Part::bytes(before), signature, Part::bytes("\"")])
    }
}

/// The signature over parameters in the order of their names, percent-encoded, then in lower case.
fn sorted(parameters: &[(String, Vec<Part>)], key: &str, encoding: Encoding) -> Part {
    let mut parameters: Vec<_> = parameters.iter().collect();
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut data = vec![];
    let mut known = String::new();
    for (name, parts) in parameters {
        if !data.is_empty() || !known.is_empty() {
            known.push('&');
        }
        known.push_str(&name.to_ascii_lowercase());
        known.push('=');
        for part in parts {
            match part {
                Part::Bytes(bytes) => {
                    let encoded = percent::encode(&String::from_utf8_lossy(bytes), JAVA_UNRESERVED);
                    known.push_str(&encoded.to_ascii_lowercase());
                }
                Part::Secret(secret) => {
                    data.push(SignedPart::bytes(std::mem::take(&mut known)));
                    data.push(SignedPart::secret(&secret.credential, Encoding::UrlLowerCase));
                }
                // One signature does not cover another.
                Part::Signature(_) => {}
            }
        }
    }
    if !known.is_empty() {
        data.push(SignedPart::bytes(known));
    }
    Part::signature(key, Algorithm::HmacSha1, encoding, data)
}

const fn method_name(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Head => "head",
        Method::Post => "post",
        Method::Put => "put",
        Method::Patch => "patch",
        Method::Delete => "delete",
    }
}

/// As an `Authorization` header has it. RFC 8032 names no digest with Ed25519; CloudAPI takes no other name than this.
const fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HmacSha1 => "hmac-sha1",
        Algorithm::HmacSha256 => "hmac-sha256",
        Algorithm::HmacSha512 => "hmac-sha512",
        Algorithm::RsaSha256 => "rsa-sha256",
        Algorithm::RsaSha512 => "rsa-sha512",
        Algorithm::EcdsaSha256 => "ecdsa-sha256",
        Algorithm::EcdsaSha512 => "ecdsa-sha512",
        Algorithm::Ed25519 => "ed25519-sha512",
    }
}

#[cfg(test)]
mod tests;
