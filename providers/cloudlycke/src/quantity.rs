//! Kubernetes quantities: `2`, `1500m`, `1004392Ki`, `1e3`.

use std::str::FromStr;

use ccm_sdk::quoted;

const NANO: u128 = 1_000_000_000;

/// A quantity that is not negative, exact to a billionth as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: u128,
}

impl Quantity {
    pub(crate) fn rounded_up(self) -> u128 {
        self.nanos.div_ceil(NANO)
    }

    pub(crate) fn rounded_down(self) -> u128 {
        self.nanos / NANO
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| format!("{} is not a quantity; `1500m` or `2Gi` would be", quoted(text)))
    }
}

#[inline(never)]
fn parse(text: &str) -> Option<Quantity> {
    let suffix_at = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = text.split_at_checked(suffix_at)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, divisor) = scale(suffix)?;
    let mut digits = [whole, fraction].into_iter().flat_map(str::bytes);
    let digits = digits.try_fold(0, |number, digit| times(number, 10)?.checked_add((digit - b'0').into()))?;
    let divisor = times(divisor, power(10, fraction.len())?)?;
    Some(Quantity { nanos: times(times(digits, factor)?, NANO)?.div_ceil(divisor) })
}

/// WebAssembly has no such multiplication: it is a page of code wherever it is inlined.
#[inline(never)]
fn times(a: u128, b: u128) -> Option<u128> {
    a.checked_mul(b)
}

/// What the suffix multiplies by and divides by.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    const SMALL: [&str; 3] = ["m", "u", "n"];
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let position = |names: &[&str]| names.iter().position(|name| *name == suffix);
    let (base, exponent, is_divisor) = if let Some(thousands) = position(&DECIMAL) {
        (1_000, thousands, false)
    } else if let Some(index) = position(&BINARY) {
        (1_024, index + 1, false)
    } else if let Some(index) = position(&SMALL) {
        (1_000, index + 1, true)
    } else {
        let exponent: i8 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (10, exponent.unsigned_abs().into(), exponent < 0)
    };
    let size = power(base, exponent)?;
    Some(if is_divisor { (1, size) } else { (size, 1) })
}

fn power(base: u128, exponent: usize) -> Option<u128> {
    (0..exponent).try_fold(1, |product, _| times(product, base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_quantity_is_read() {
        let cases = [
            ("2", 2, 2),
            ("0", 0, 0),
            ("1500m", 1, 2),
            ("0.5", 0, 1),
            (".5", 0, 1),
            ("5.", 5, 5),
            ("1004392Ki", 1_028_497_408, 1_028_497_408),
            ("1.5Gi", 1_610_612_736, 1_610_612_736),
            ("16G", 16_000_000_000, 16_000_000_000),
            ("1E", 1_000_000_000_000_000_000, 1_000_000_000_000_000_000),
            ("1e3", 1_000, 1_000),
            ("12E-1", 1, 2),
            ("100n", 0, 1),
            // Each suffix, and what is near to another one.
            ("3k", 3_000, 3_000),
            ("3M", 3_000_000, 3_000_000),
            ("3G", 3_000_000_000, 3_000_000_000),
            ("3T", 3_000_000_000_000, 3_000_000_000_000),
            ("3P", 3_000_000_000_000_000, 3_000_000_000_000_000),
            ("3Ki", 3 << 10, 3 << 10),
            ("3Mi", 3 << 20, 3 << 20),
            ("3Gi", 3 << 30, 3 << 30),
            ("3Ti", 3 << 40, 3 << 40),
            ("3Pi", 3 << 50, 3 << 50),
            ("3Ei", 3 << 60, 3 << 60),
            ("2000000u", 2, 2),
            ("2000001u", 2, 3),
            ("2000000000n", 2, 2),
            ("2000000001n", 2, 3),
            ("1e+3", 1_000, 1_000),
            ("1e0", 1, 1),
            ("1E2", 100, 100),
            ("1500e-3", 1, 2),
            // Exact to a billionth, and what is smaller is rounded up to one.
            ("1.000000001", 1, 2),
            ("1.0000000001", 1, 2),
            ("0.999999999", 0, 1),
            ("0.9999999999", 1, 1),
            ("1e-10", 0, 1),
            ("0.1e1", 1, 1),
            ("007", 7, 7),
            // The largest of its kind.
            ("1e29", 10_u128.pow(29), 10_u128.pow(29)),
        ];
        for (text, down, up) in cases {
            let quantity: Quantity = text.parse().expect(text);
            assert_eq!((quantity.rounded_down(), quantity.rounded_up()), (down, up), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        let words = ["", ".", "m", ".m", "-1", "+1", "1.2.3", "1..", "1,5", "1 Gi", " 1", "1 ", "0x10", "\u{663}"];
        let suffixes =
            ["1gi", "1K", "1ki", "1KI", "1mi", "1Mim", "1mm", "1B", "1Ei2", "1e", "1E+", "1ee3", "1e1.5", "1e3k"];
        let nines = "9".repeat(40);
        let sizes = ["1e30", "1e99", "1e128", "1e1000", "1e-128", "1000000000000Ei", nines.as_str()];
        for text in words.into_iter().chain(suffixes).chain(sizes) {
            let refusal = text.parse::<Quantity>().expect_err(text);
            assert!(refusal.contains("is not a quantity"), "{text}: {refusal}");
        }
    }
}
