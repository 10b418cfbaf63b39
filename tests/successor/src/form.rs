//! What this component is called and how it behaves: text in its bytes, so that a test fills it out without building anything.
//!
//! `@form:` is followed by `KEY=VALUE;` as often as there is something to say, then by spaces. `../fill.rs` fills it out.

use std::hint::black_box;

const MARKER: &[u8] = b"@form:";
const LENGTH: usize = 256;

static FORM: [u8; LENGTH] = empty();

const fn empty() -> [u8; LENGTH] {
    let mut form = [b' '; LENGTH];
    form.split_at_mut(MARKER.len()).0.copy_from_slice(MARKER);
    form
}

/// What the form says of `key`; none when it does not, or says nothing.
pub(crate) fn field(key: &str) -> Option<String> {
    // The compiler knows what is in it, and what a test makes of it afterwards it does not.
    let form = black_box(&FORM).get(MARKER.len()..)?;
    let pairs = std::str::from_utf8(form).ok()?.split(';');
    let value =
        pairs.filter_map(|pair| pair.trim().split_once('=')).find_map(|(name, value)| (name == key).then_some(value));
    value.filter(|value| !value.is_empty()).map(ToOwned::to_owned)
}

/// What it says, or what is so without a word.
pub(crate) fn field_or(key: &str, otherwise: &str) -> String {
    field(key).unwrap_or_else(|| otherwise.to_owned())
}
