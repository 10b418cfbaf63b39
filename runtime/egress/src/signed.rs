//! Signatures that were made with an operator's key a short time ago. Each may still be good for the request that it was made for, so answers show
//! none of them: a cloud may keep what it gets, and give it back later.
//!
//! There may be thousands, each for some minutes. To build a search for all of them again with each new one would take too long, so they are found
//! by how they begin.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::encoding::Encoding;
use crate::redact::placeholder;

/// How long clouds take a signed request: AWS and CloudStack 15 minutes, most others 5.
const VALID: Duration = Duration::from_secs(15 * 60);
/// Bytes of all forms of all signatures that are remembered, with what it takes to keep them. With HMAC-SHA256 this is enough for nine signatures a
/// second, with an RSA key of 2,048 bits for two. What cannot be remembered is not sent: an answer might show it.
const MOST_BYTES: usize = 8 << 20;
/// What it takes to keep a form, beside its bytes.
const OVERHEAD: usize = 64;
/// Bytes by which a form is found. A shorter form is no signature.
const BEGINNING: usize = 16;
/// Of the rolling hash.
const BASE: u64 = 0x0100_0000_01b3;

type Form = Zeroizing<Vec<u8>>;

/// The signatures of one provider.
#[derive(Default)]
pub(crate) struct Signed(Mutex<State>);

#[derive(Default)]
struct State {
    /// The oldest first.
    ends: VecDeque<Remembered>,
    /// Of all of them.
    bytes: usize,
    /// Forms by the hash of their beginning. Those that begin alike are in the order in which they were made.
    forms: HashMap<u64, VecDeque<Form>>,
}

/// A signature.
struct Remembered {
    end: Instant,
    /// Of the beginnings of its forms.
    hashes: Vec<u64>,
    bytes: usize,
}

/// There is no room for another signature before some time has passed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full(pub(crate) Duration);

impl State {
    fn forget_old(&mut self, now: Instant) {
        while let Some(Remembered { hashes, bytes, .. }) = self.ends.pop_front_if(|oldest| oldest.end <= now) {
            self.bytes = self.bytes.saturating_sub(bytes);
            for hash in hashes {
                if let Some(forms) = self.forms.get_mut(&hash) {
                    drop(forms.pop_front());
                    if forms.is_empty() {
                        self.forms.remove(&hash);
                    }
                }
            }
        }
    }

    /// Where forms stand in the bytes, in order and apart.
    fn found(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        let Some(first) = bytes.get(..BEGINNING) else { return found };
        // The weight of the byte that leaves the window in the rolling hash.
        let leaving = (1..BEGINNING).fold(1_u64, |factor, _| factor.wrapping_mul(BASE));
        let mut hash = hashed(first);
        for start in 0..=bytes.len().saturating_sub(BEGINNING) {
            if let Some(forms) = self.forms.get(&hash) {
                let here = bytes.get(start..).unwrap_or_default();
                let length = forms.iter().filter(|form| here.starts_with(form)).map(|form| form.len()).max();
                if let Some(end) = length.map(|length| start.saturating_add(length)) {
                    match found.last_mut().filter(|last| start <= last.1) {
                        Some(last) => last.1 = last.1.max(end),
                        None => found.push((start, end)),
                    }
                }
            }
            if let (Some(out), Some(next)) = (bytes.get(start), bytes.get(start.saturating_add(BEGINNING))) {
                hash = hash.wrapping_sub(u64::from(*out).wrapping_mul(leaving));
                hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(*next));
            }
        }
        found
    }
}

fn hashed(bytes: &[u8]) -> u64 {
    bytes.iter().take(BEGINNING).fold(0, |hash, byte| hash.wrapping_mul(BASE).wrapping_add(u64::from(*byte)))
}

impl Signed {
    /// Remembers a signature for a while.
    ///
    /// # Errors
    ///
    /// So many were made that there is no room for it. None is forgotten for it: the older ones may still be good.
    pub(crate) fn remember(&self, signature: &[u8]) -> Result<(), Full> {
        let now = Instant::now();
        let forms: Vec<Form> = forms(signature).into_iter().filter(|form| form.len() >= BEGINNING).collect();
        let bytes = forms.iter().map(|form| form.len().saturating_add(OVERHEAD)).sum();
        let mut state = self.0.lock();
        state.forget_old(now);
        let all = state.bytes.saturating_add(bytes);
        if all > MOST_BYTES {
            let oldest = state.ends.front().map_or(now, |oldest| oldest.end);
            return Err(Full(oldest.saturating_duration_since(now)));
        }
        state.bytes = all;
        let mut hashes = Vec::new();
        for form in forms {
            let hash = hashed(&form);
            hashes.push(hash);
            state.forms.entry(hash).or_default().push_back(form);
        }
        let end = now.checked_add(VALID).unwrap_or(now);
        state.ends.push_back(Remembered { end, hashes, bytes });
        Ok(())
    }

    /// The bytes without them; none where there is nothing to replace.
    #[must_use]
    pub(crate) fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.0.lock();
        if state.forms.is_empty() {
            return None;
        }
        state.forget_old(Instant::now());
        let found = state.found(bytes);
        drop(state);
        let mut done = 0;
        let mut replaced = Vec::with_capacity(if found.is_empty() { 0 } else { bytes.len() });
        for (start, end) in &found {
            replaced.extend_from_slice(bytes.get(done..*start).unwrap_or_default());
            replaced.extend_from_slice(placeholder("signature").as_bytes());
            done = *end;
        }
        if found.is_empty() {
            return None;
        }
        replaced.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Some(replaced)
    }
}

/// The forms in which requests carry a signature, and in which servers may send it back.
fn forms(signature: &[u8]) -> Vec<Form> {
    let encoded = |encoding: Encoding| encoding.encode(signature).unwrap_or_default();
    let mapped = |form: &Form, map: fn(u8) -> Vec<u8>| Zeroizing::new(form.iter().copied().flat_map(map).collect());
    let hex = encoded(Encoding::Hex);
    let upper_hex = Zeroizing::new(hex.to_ascii_uppercase());
    let mut base64 = encoded(Encoding::Base64);
    // Some leave out the padding.
    while base64.last() == Some(&b'=') {
        base64.pop();
    }
    let url_safe = mapped(&base64, |byte| {
        vec![match byte {
            b'+' => b'-',
            b'/' => b'_',
            byte => byte,
        }]
    });
    let percent = mapped(&base64, |byte| match byte {
        b'+' => b"%2B".to_vec(),
        b'/' => b"%2F".to_vec(),
        byte => vec![byte],
    });
    let lower_percent = mapped(&base64, |byte| match byte {
        b'+' => b"%2b".to_vec(),
        b'/' => b"%2f".to_vec(),
        byte => vec![byte],
    });
    let json = mapped(&base64, |byte| if byte == b'/' { b"\\/".to_vec() } else { vec![byte] });
    let url = encoded(Encoding::Url);
    let plain = Zeroizing::new(signature.to_vec());
    let mut forms: Vec<Form> = Vec::new();
    for form in [plain, hex, upper_hex, base64, url_safe, percent, lower_percent, json, url] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: &[u8] = b"\xfb\xff\xbf\x00\x10\x83\x10\x51\x87\x20\x92\x8b\x30\xd3\x8f\x41\x14\x93\x51\x55";

    fn shown(signed: &Signed, text: &str) -> String {
        let replaced = signed.replaced(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        replaced.unwrap_or_else(|| text.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_signature_is_a_secret_as_long_as_it_may_be_good() {
        let signed = Signed::default();
        let base64 = Encoding::Base64.encode(SIGNATURE).unwrap();
        let base64 = std::str::from_utf8(&base64).unwrap();
        assert_eq!(shown(&signed, base64), base64);
        signed.remember(SIGNATURE).unwrap();
        let bare = base64.trim_end_matches('=');
        for form in [
            bare.to_owned(),
            bare.replace('+', "-").replace('/', "_"),
            bare.replace('+', "%2B").replace('/', "%2F"),
            bare.replace('/', "\\/"),
            "fbffbf00108310518720928b30d38f4114935155".to_owned(),
            "FBFFBF00108310518720928B30D38F4114935155".to_owned(),
        ] {
            assert_eq!(shown(&signed, &form), "(credential signature)", "{form}");
            let around = format!("Signature x=\"{form}\", {form}.");
            assert_eq!(shown(&signed, &around), "Signature x=\"(credential signature)\", (credential signature).");
        }
        tokio::time::advance(VALID).await;
        assert_eq!(shown(&signed, base64), base64);
        let state = signed.0.lock();
        assert!(state.forms.is_empty() && state.ends.is_empty() && state.bytes == 0);
    }

    /// The oldest was forgotten for the newest, and a cloud that gave it back showed it while it was good.
    #[tokio::test(start_paused = true)]
    async fn no_more_are_made_than_can_be_remembered_and_none_is_forgotten_while_it_may_be_good() {
        let signed = Signed::default();
        let signature = |number: usize| [&[7; 24][..], &number.to_be_bytes()].concat();
        let (mut made, mut full) = (0, None);
        while full.is_none() {
            full = signed.remember(&signature(made)).err();
            made += usize::from(full.is_none());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(made > 5000 && signed.0.lock().bytes <= MOST_BYTES, "{made}");
        let Some(Full(wait)) = full else { panic!("{full:?}") };
        assert!(wait < VALID && wait > VALID / 2, "{wait:?}");
        for number in [0, 1024, made - 1] {
            let shown = signed.replaced(&signature(number));
            assert_eq!(shown.as_deref(), Some(&b"(credential signature)"[..]), "{number}");
        }
        assert!(signed.replaced(&signature(made)).is_none(), "it was not made");
        tokio::time::advance(wait).await;
        assert_eq!(signed.remember(&signature(made)), Ok(()), "the first has ended");
        assert!(signed.replaced(b"short").is_none() && signed.replaced(b"").is_none());
    }
}
