//! Names of headers, query values and members of bodies by which clouds know who asks. Only this module has these lists. They say which places
//! a credential may have without a grant, and what a component may not write itself beside a credential.

use crate::config_file::{are_secret, words};

/// Headers that are for credentials and nothing else, written together and without `x-`. A credential needs no grant for them. A list and no
/// pattern: `X-Object-Meta-Token`, `X-Container-Sync-Key` and others that look like these are stored, and shown to whoever reads the object.
const CREDENTIAL_HEADERS: [&str; 17] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "auth",
    "authkey",
    "authorization",
    "authsecret",
    "authtoken",
    "bearertoken",
    "privatetoken",
    "secretkey",
    "secrettoken",
    "securitytoken",
    "sessiontoken",
    "token",
];

/// Headers, query values, fields and members by which clouds know who asks, written together, beside those whose names look secret.
const LOGINS: [&str; 13] = [
    "assertion",
    "auth",
    "authentication",
    "awsaccesskeyid",
    "clientassertion",
    "dpop",
    "googleaccessid",
    "remoteuser",
    "samlresponse",
    "sessionid",
    "sid",
    "tempurlsig",
    "xremoteuser",
];
/// Words that make any name a login's.
const LOGIN_WORDS: [&str; 6] = ["dpop", "hmac", "sig", "signature", "ticket", "session"];
/// How names of logins begin, written together.
const LOGIN_BEGINNINGS: [&str; 2] = ["xauth", "xovh"];
/// Names with such a word or beginning that end in one of these tell about a login, not who asks.
const ABOUT_LOGINS: [&str; 12] = [
    "algorithm",
    "date",
    "expires",
    "headers",
    "input",
    "method",
    "nonce",
    "time",
    "timeout",
    "timestamp",
    "type",
    "version",
];
/// The same in the body of a login alone: elsewhere they are anything.
const MEMBERS: [&str; 2] = ["code", "devicecode"];
/// Words of names that look secret and say where a page begins, how it is sorted or what is asked for.
const NO_LOGIN_WORDS: [&str; 12] = [
    "continuation",
    "continue",
    "cursor",
    "filter",
    "group",
    "next",
    "order",
    "page",
    "partition",
    "sort",
    "start",
    "sync",
];
/// Names that look like a login's and are none: they make a request one that is not done twice.
const NO_LOGINS: [&str; 4] = ["clienttoken", "idempotencykey", "xidempotencykey", "idempotencytoken"];

/// Headers of nearly every request, in lower case, which are none of a login: they need no closer look.
const ORDINARY_HEADERS: [&str; 2] = ["accept", "content-type"];

/// Whether a header is for credentials, so that no cloud stores what is in it.
#[must_use]
pub(crate) fn is_for_credentials(header: &str) -> bool {
    let lower = header.to_ascii_lowercase().replace('_', "-");
    let joined = joined(lower.strip_prefix("x-").unwrap_or(&lower));
    CREDENTIAL_HEADERS.contains(&joined.as_str())
}

/// Whether a header looks like one that says who asks.
#[must_use]
pub(crate) fn is_login_header(header: &str) -> bool {
    if ORDINARY_HEADERS.iter().any(|ordinary| header.eq_ignore_ascii_case(ordinary)) {
        return false;
    }
    is_login(header) || (is_for_credentials(header) && !is_one_of(&NO_LOGINS, &joined(header)))
}

/// Whether a query value looks like one that says who asks.
#[must_use]
pub(crate) fn is_login_value(name: &str) -> bool {
    let is_of_a_page = || has(&words(name), &NO_LOGIN_WORDS) || joined(name).starts_with("page");
    is_login(name) && !is_of_a_page()
}

/// Whether a field of a form, or a member of a JSON document, looks like one that says who asks: it stands in a login, which has no pages.
/// Logins have all that they say within `auth`.
#[must_use]
pub(crate) fn is_login_member(name: &str) -> bool {
    let joined = joined(name);
    (is_login(name) && joined != "auth") || is_one_of(&MEMBERS, &joined)
}

/// Whether a name looks like one by which a cloud knows who asks, wherever it stands.
fn is_login(name: &str) -> bool {
    let (words, joined) = (words(name), joined(name));
    if is_one_of(&NO_LOGINS, &joined) {
        return false;
    }
    let is_about = words.last().is_some_and(|last| is_one_of(&ABOUT_LOGINS, last));
    let begins = LOGIN_BEGINNINGS.iter().any(|beginning| joined.starts_with(beginning));
    are_secret(&words) || is_one_of(&LOGINS, &joined) || (!is_about && (begins || has(&words, &LOGIN_WORDS)))
}

fn has(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| is_one_of(list, word))
}

fn is_one_of(list: &[&str], name: &str) -> bool {
    list.contains(&name)
}

/// Letters and digits in lower case.
fn joined(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_for_credentials_are_told_from_those_that_a_cloud_stores() {
        for name in ["Authorization", "X-Auth-Token", "x-api-key", "Private-Token", "apikey", "x_auth_token", "X-Token"]
        {
            assert!(is_for_credentials(name) && is_login_header(name), "{name}");
        }
        for name in [
            "X-Object-Meta-Token",
            "x-amz-meta-authorization",
            "X-Container-Sync-Key",
            "X-Account-Meta-Temp-URL-Key",
            "x-amz-server-side-encryption-customer-key",
            "x-ms-meta-apikey",
            "x-x-token",
            "xtoken",
            "",
        ] {
            assert!(!is_for_credentials(name), "{name}");
        }
    }

    /// Each place had a list of its own, and a login that one did not know went through there.
    #[test]
    fn a_name_that_says_who_asks_is_known_wherever_it_stands() {
        for name in [
            "X-Ovh-Application",
            "X-Ovh-Consumer",
            "x-ovh-signature",
            "Signature",
            "X-Signature",
            "x_hub_signature",
            "DPoP",
            "X-Auth-User",
            "X-Auth-Email",
            "X-Auth-Key",
            "Cookie",
            "ticket",
            "sid",
            "sessionid",
            "X-Session",
            "temp_url_sig",
            "assertion",
            "AWSAccessKeyId",
            "GoogleAccessId",
            "X-Amz-Signature",
            "X-HMAC",
            "Remote-User",
            "Authentication",
            "api_key",
            "access_token",
        ] {
            assert!(is_login_header(name) && is_login_value(name) && is_login_member(name), "{name}");
        }
        for name in [
            "X-Ovh-Timestamp",
            "X-Auth-Method",
            "signatureVersion",
            "Signature-Input",
            "session_timeout",
            "Idempotency-Key",
            "ClientToken",
            "User",
            "author",
            "design",
            "assigned",
        ] {
            assert!(!is_login_header(name) && !is_login_value(name) && !is_login_member(name), "{name}");
        }
    }

    #[test]
    fn headers_that_need_no_closer_look_would_pass_it() {
        for name in ORDINARY_HEADERS {
            assert!(!is_login(name) && !is_for_credentials(name) && !is_login_header(name), "{name}");
        }
        assert!(!is_login_header("Content-Type") && is_login_header("Accept-Token"));
    }

    #[test]
    fn logins_in_a_query_are_told_from_pages() {
        for name in
            ["token", "api_token", "auth_key", "key", "ticket", "sig", "signature", "temp_url_sig", "X-Amz-Signature"]
        {
            assert!(is_login_value(name), "{name}");
        }
        for name in
            ["page_token", "nextToken", "pagetoken", "sort_key", "tag_key", "marker", "limit", "signed", "ClientToken"]
        {
            assert!(!is_login_value(name), "{name}");
        }
    }

    #[test]
    fn members_of_a_login_are_told_from_the_rest_of_it() {
        for name in [
            "password",
            "token",
            "passcode",
            "secret",
            "apiKey",
            "refresh_token",
            "application_credential",
            "assertion",
        ] {
            assert!(is_login_member(name), "{name}");
        }
        for name in ["auth", "identity", "methods", "user", "scope", "tenantName", "client_id", "token_type"] {
            assert!(!is_login_member(name), "{name}");
        }
    }
}
