//! What a browser is told of the page.

/// A browser loads and runs nothing but the style sheet in the page: no script, no image, no frame around it, no form.
pub const POLICY: &str = "default-src 'none'; style-src 'sha256-DpLV9uRcje4EpaF7Llqsi+iEAts7tXM3Smgb/wCc2Kg='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of the page, beside its kind. It is read again every 15 s, and kept nowhere.
pub const HEADERS: [(&str, &str); 5] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("refresh", "15"),
];

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::page::STYLE;

    /// A browser ignores a style sheet with another digest: the page would be bare.
    #[test]
    fn the_policy_allows_the_style_sheet_of_the_page_and_nothing_else() {
        let digest = STANDARD.encode(Sha256::digest(STYLE));
        assert!(POLICY.contains(&format!("style-src 'sha256-{digest}';")), "write sha256-{digest} into the policy");
        assert!(POLICY.starts_with("default-src 'none';") && !POLICY.contains("unsafe"), "{POLICY}");
    }
}
