//! Reads private key files of OpenSSH without a passphrase (PROTOCOL.key of OpenSSH).
//!
//! This is code of our own because the crate `ssh-key` brings eight crates that the host does not have, ciphers among them,
//! and does not compute the two RSA exponents that such a file leaves out: the arithmetic below would stay.

use aws_lc_rs::rsa::{KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use zeroize::Zeroizing;

use super::error::KeyError;
use super::pair::{Curve, Pair, check_size, trimmed};

const DAMAGED: KeyError = KeyError::Damaged("an OpenSSH key whose parts do not fit together");

pub(super) fn parse(file: &[u8]) -> Result<Pair, KeyError> {
    let mut file = Fields(file.strip_prefix(b"openssh-key-v1\0").ok_or(DAMAGED)?);
    let (cipher, _derivation, _options) = (file.string()?, file.string()?, file.string()?);
    if cipher != b"none" {
        return Err(KeyError::Encrypted);
    }
    if file.number()? != 1 {
        return Err(KeyError::Unsupported("a file of several OpenSSH keys"));
    }
    let _public = file.string()?;
    let mut key = Fields(file.string()?);
    if key.number()? != key.number()? {
        return Err(DAMAGED);
    }
    match key.string()? {
        b"ssh-rsa" => rsa(&mut key),
        b"ssh-ed25519" => {
            let (public, pair) = (key.string()?, key.string()?);
            let (seed, _public) = pair.split_at_checked(32).ok_or(DAMAGED)?;
            Ed25519KeyPair::from_seed_and_public_key(seed, public).map(Pair::Ed25519).map_err(damaged)
        }
        b"ecdsa-sha2-nistp256" => ec(&mut key, Curve::P256),
        b"ecdsa-sha2-nistp384" => ec(&mut key, Curve::P384),
        b"ecdsa-sha2-nistp521" => ec(&mut key, Curve::P521),
        b"ssh-dss" => Err(KeyError::Unsupported("a DSA key")),
        name if name.starts_with(b"sk-") => Err(KeyError::Unsupported("a key that stays in a security token")),
        _ => Err(KeyError::Unsupported("an OpenSSH key of another type")),
    }
}

fn damaged<E>(_: E) -> KeyError {
    DAMAGED
}

fn ec(key: &mut Fields<'_>, curve: Curve) -> Result<Pair, KeyError> {
    let (name, public, private) = (key.string()?, key.string()?, trimmed(key.string()?));
    if name != curve.ssh().as_bytes() {
        return Err(DAMAGED);
    }
    let missing = curve.bytes().checked_sub(private.len()).ok_or(DAMAGED)?;
    let mut padded = Zeroizing::new(vec![0; curve.bytes()]);
    padded.iter_mut().skip(missing).zip(private).for_each(|(to, from)| *to = *from);
    EcdsaKeyPair::from_private_key_and_public_key(curve.signing(), &padded, public)
        .map(|pair| Pair::Ec(curve, pair))
        .map_err(damaged)
}

fn rsa(key: &mut Fields<'_>) -> Result<Pair, KeyError> {
    let (n, e, d) = (trimmed(key.string()?), trimmed(key.string()?), trimmed(key.string()?));
    let (q_inverse, p, q) = (trimmed(key.string()?), trimmed(key.string()?), trimmed(key.string()?));
    check_size(n)?;
    if [d, p, q].iter().any(|number| number.len() > n.len()) {
        return Err(DAMAGED);
    }
    // OpenSSH leaves out what can be computed. The library checks the outcome against the other numbers.
    let (d_p, d_q) = (remainder(d, &less_one(p)), remainder(d, &less_one(q)));
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n, e },
        d,
        p,
        q,
        dP: d_p.as_slice(),
        dQ: d_q.as_slice(),
        qInv: q_inverse,
    };
    RsaKeyPair::from_components(&components).map(Pair::Rsa).map_err(damaged)
}

/// An odd number less one.
fn less_one(odd: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut even = Zeroizing::new(odd.to_vec());
    if let Some(last) = even.last_mut() {
        *last &= !1;
    }
    even
}

/// `value` mod `modulus`, both big-endian: bit by bit it is doubled and, where that fits, the modulus taken off. The time
/// it takes depends on the lengths only.
fn remainder(value: &[u8], modulus: &[u8]) -> Zeroizing<Vec<u8>> {
    // A byte more than the modulus, so that doubling has room.
    let mut rest = Zeroizing::new(vec![0_u8; modulus.len().saturating_add(1)]);
    let mut less = rest.clone();
    for bit in value.iter().flat_map(|byte| (0..8).rev().map(move |shift| (byte >> shift) & 1)) {
        let mut carry = bit;
        for digit in rest.iter_mut().rev() {
            let high = *digit >> 7;
            *digit = (*digit << 1) | carry;
            carry = high;
        }
        let mut borrow = 0;
        let subtrahend = modulus.iter().rev().chain(std::iter::once(&0));
        for ((less, digit), taken) in less.iter_mut().rev().zip(rest.iter().rev()).zip(subtrahend) {
            let (difference, first) = digit.overflowing_sub(*taken);
            let (difference, second) = difference.overflowing_sub(borrow);
            *less = difference;
            borrow = u8::from(first | second);
        }
        let keep = 0_u8.wrapping_sub(borrow);
        for (digit, less) in rest.iter_mut().zip(less.iter()) {
            *digit = (*digit & keep) | (*less & !keep);
        }
    }
    rest
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Result<u32, KeyError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Result<&'a [u8], KeyError> {
        let length = usize::try_from(self.number()?).map_err(damaged)?;
        let (string, rest) = self.0.split_at_checked(length).ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_that_of_ordinary_numbers() {
        let cases: [(u64, u64); 8] =
            [(0, 7), (6, 7), (7, 7), (100, 7), (u64::MAX, 10), (u64::MAX, u64::MAX - 1), (1 << 63, 3), (12, 255)];
        for (value, modulus) in cases {
            let found = remainder(&value.to_be_bytes(), trimmed(&modulus.to_be_bytes()));
            let found = found.iter().fold(0, |number, digit| (number << 8) | u64::from(*digit));
            assert_eq!(found, value % modulus, "{value} mod {modulus}");
        }
    }
}
