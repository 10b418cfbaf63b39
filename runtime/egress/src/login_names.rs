//! Names by which clouds know who asks. The only place that knows them: what may be a credential's place without a grant, and what a component
//! may not write itself beside a credential.

use crate::config_file::{looks_secret, words};

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

/// Query values and form fields by which clouds know who asks, written together, beside those whose names look secret.
const LOGINS: [&str; 9] = [
    "assertion",
    "auth",
    "awsaccesskeyid",
    "clientassertion",
    "googleaccessid",
    "samlresponse",
    "sessionid",
    "sid",
    "tempurlsig",
];
/// Words that make any query value a login.
const LOGIN_WORDS: [&str; 4] = ["sig", "signature", "ticket", "session"];
/// Fields of logins that do not look secret.
const MEMBERS: [&str; 6] = ["code", "devicecode", "sig", "signature", "ticket", "session"];
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
    let is_session = words(header).iter().any(|word| word == "session");
    (looks_secret(header) || is_session || is_for_credentials(header)) && !NO_LOGINS.contains(&joined(header).as_str())
}

/// Whether a query value looks like one that says who asks.
#[must_use]
pub(crate) fn is_login_value(name: &str) -> bool {
    let (words, joined) = (words(name), joined(name));
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    if NO_LOGINS.contains(&joined.as_str()) || has(&NO_LOGIN_WORDS) || joined.starts_with("page") {
        return false;
    }
    LOGINS.contains(&joined.as_str()) || has(&LOGIN_WORDS) || looks_secret(name)
}

/// Whether a field of a form, or a member of a JSON document, looks like one that says who asks: it stands in a login, which has no pages.
/// Logins have all that they say within `auth`.
#[must_use]
pub(crate) fn is_login_member(name: &str) -> bool {
    let joined = joined(name);
    let is_login = || joined != "auth" && LOGINS.contains(&joined.as_str());
    !NO_LOGINS.contains(&joined.as_str()) && (looks_secret(name) || is_login() || is_one_of(&MEMBERS, &joined))
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
