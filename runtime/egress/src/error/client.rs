//! What the HTTP client says when there is no answer, in words that lead somewhere.

use std::error::Error;
use std::io;

use super::{TransportError, TransportReason};
use crate::addresses::AddressDenied;
use crate::one_line::line;

/// Longest message, in bytes.
const MAX_MESSAGE: usize = 512;

/// Why there is no answer, after the words `what`. Neither URL nor query are told, and every cause once.
pub(crate) fn no_answer(error: reqwest::Error, what: &str) -> TransportError {
    let error = error.without_url();
    let chain = chain(&error);
    if let Some(address) = chain.iter().find_map(|cause| cause.downcast_ref::<AddressDenied>()) {
        return TransportError::denied(line(&format!("{what}: {address}"), MAX_MESSAGE));
    }
    let too_large = |cause: &&(dyn Error + 'static)| {
        cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large)
    };
    let reason = if chain.iter().any(too_large) {
        TransportReason::TooLarge
    } else if chain.iter().any(|cause| cause.is::<rustls::Error>()) {
        TransportReason::Tls
    } else if error.is_connect() {
        TransportReason::Connect
    } else if error.is_timeout() {
        TransportReason::Timeout
    } else {
        TransportReason::Other
    };
    let advice = chain.iter().find_map(|cause| advice(cause.downcast_ref()?)).map(|advice| format!("; {advice}"));
    let message = format!("{what}: {}{}", causes(&error), advice.unwrap_or_default());
    TransportError {
        reason,
        maybe_sent: !error.is_connect() && !error.is_builder(),
        retry_after: None,
        message: line(&message, MAX_MESSAGE),
        failed: None,
    }
}

/// Whether the certificate that was shown is of an authority that is not trusted.
pub(crate) fn is_of_unknown_authority(error: &reqwest::Error) -> bool {
    use rustls::{CertificateError as Bad, Error};
    let is_unknown = |error: &Error| matches!(error, Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature));
    chain(error).iter().any(|cause| cause.downcast_ref().is_some_and(is_unknown))
}

/// The way out, where the library's words do not show it.
fn advice(error: &rustls::Error) -> Option<&'static str> {
    use rustls::{CertificateError as Bad, Error};
    Some(match error {
        Error::InvalidMessage(_) => "it does not speak TLS there: is the URL http, or the port another?",
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is from an unknown authority: set the CA file of the endpoint to the certificate of this authority"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "its certificate is for another name: check the URL"
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired, or the clock of this machine is wrong"
        }
        Error::InvalidCertificate(Bad::Other(other))
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            "it shows the certificate of an authority as its own: give the server one that the authority has signed"
        }
        _ => return None,
    })
}

/// An error and its causes, those inside of I/O errors included, which these do not count as their source.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut chain = vec![error];
    let mut error = error;
    loop {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
        let Some(cause) = cause else { return chain };
        chain.push(cause);
        error = cause;
    }
}

pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    chain(error).into_iter().map(ToString::to_string).fold(String::new(), |told, text| {
        if told.is_empty() {
            text
        } else if told.contains(&text) {
            told
        } else {
            format!("{told}: {text}")
        }
    })
}
