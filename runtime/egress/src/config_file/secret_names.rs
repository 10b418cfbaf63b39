//! Which values are secret: the union of what the provider declares and of what the runtime takes for one by its name.

/// Secret wherever they are in a name, written together.
const SECRET: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "authorization",
    "connectionstring",
    "privatekey",
    "apikey",
    "accesskey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "sharedkey",
    "masterkey",
];
/// Secret as a word of their own: within others they are too common.
const SECRET_WORDS: [&str; 9] = ["pwd", "pass", "psk", "jwt", "pat", "otp", "bearer", "cookie", "dsn"];
/// Names that end in these tell about a secret, not the secret.
const ABOUT: [&str; 29] = [
    "name",
    "ttl",
    "timeout",
    "lifetime",
    "expiry",
    "expiration",
    "expires",
    "duration",
    "interval",
    "period",
    "seconds",
    "age",
    "type",
    "kind",
    "length",
    "size",
    "count",
    "limit",
    "file",
    "path",
    "dir",
    "url",
    "uri",
    "endpoint",
    "ref",
    "namespace",
    "policy",
    "version",
    "enabled",
];
/// Names that begin with these are switches or limits.
const SWITCHES: [&str; 11] = ["use", "enable", "disable", "allow", "require", "skip", "no", "has", "is", "max", "min"];
/// `key` with one of these before it is no secret.
const OPEN_KEYS: [&str; 6] = ["public", "label", "annotation", "topology", "taint", "tag"];

/// Whether the last part of a key looks like that of a secret. Case, `-`, `_` and `.` do not count. It rather says yes
/// too often: a provider that needs the value declares a setting under a better name.
#[must_use]
pub(crate) fn looks_secret(name: &str) -> bool {
    are_secret(&words(name))
}

/// The same of the words of a name.
#[must_use]
pub(crate) fn are_secret(words: &[String]) -> bool {
    let joined = words.concat();
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return false };
    // IDs of tokens and secrets are secrets in some clouds, these are not.
    let is_id = joined.ends_with("credentialid") || joined.ends_with("accesskeyid");
    if is_id || is_one_of(&ABOUT, last) || (words.len() > 1 && is_one_of(&SWITCHES, first)) {
        return false;
    }
    let before_last = words.iter().rev().nth(1).map_or("", String::as_str);
    let is_key = last == "key" && !is_one_of(&OPEN_KEYS, before_last);
    is_key || SECRET.iter().any(|part| joined.contains(part)) || words.iter().any(|word| is_one_of(&SECRET_WORDS, word))
}

fn is_one_of(list: &[&str], word: &str) -> bool {
    list.contains(&word)
}

/// `apiKey`, `API_KEY` and `api-key` are `api` and `key`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut chars = name.chars().peekable();
    while let Some(char) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
        let begins = char.is_uppercase() && (!before.is_uppercase() || next_is_lower);
        if begins || !char.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| char.is_alphanumeric()) {
            word.extend(char.to_lowercase());
        }
        before = char;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_however_they_are_written() {
        let secret = [
            "password",
            "PASSWORD",
            "db-password",
            "passwd",
            "pass",
            "db_pass",
            "pwd",
            "secret",
            "clientSecret",
            "secret-key",
            "application-credential-secret",
            "trustee-password",
            "token",
            "api_token",
            "authToken",
            "hcloud-token",
            "token-id",
            "secret-id",
            "tokens",
            "private-key",
            "private_key",
            "privateKey",
            "PRIVATEKEY",
            "api-key",
            "apikey",
            "APIKey",
            "access-key",
            "aws_secret_access_key",
            "secretkey",
            "passphrase",
            "credentials",
            "credential",
            "key",
            "ssh-key",
            "signing.key",
            "password.old",
            "psk",
            "jwt",
            "connection-string",
            "Authorization",
            "passwordHash",
            "DO_TOKEN",
        ];
        for name in secret {
            assert!(looks_secret(name), "{name} is shown");
        }
        let open = [
            "",
            "-",
            "token-ttl",
            "tokenTTL",
            "secret-name",
            "use-token",
            "useToken",
            "token-url",
            "password-file",
            "key-file",
            "application-credential-id",
            "application-credential-name",
            "aws_access_key_id",
            "public-key",
            "label-key",
            "max-tokens",
            "token_type",
            "secretNamespace",
            "username",
            "user-id",
            "auth-url",
            "auth",
            "trust-id",
            "cloud",
            "keystone",
            "monkey",
            "bypass",
            "compass",
            "pathology",
            "ssl-no-verify",
            "project-id",
            "cert-file",
            "zone",
            "keys",
            "enable-token-refresh",
            "secretRef",
            "cafilecontents",
        ];
        for name in open {
            assert!(!looks_secret(name), "{name} is hidden");
        }
    }
}
