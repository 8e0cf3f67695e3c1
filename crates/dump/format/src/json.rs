//! JSON encodings of values that JSON numbers cannot represent: hex strings, 64-bit integers, NaN and
//! infinities.

use std::fmt;

use serde::{Serialize, Serializer};

/// `u64` as a string of 16 hex digits.
#[derive(Clone, Copy)]
pub(crate) struct Hex64(pub u64);

impl fmt::Display for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl Serialize for Hex64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hex(&self.0.to_be_bytes(), serializer)
    }
}

/// `u128` as a string of 32 hex digits.
#[derive(Clone, Copy)]
pub(crate) struct Hex128(pub u128);

impl Serialize for Hex128 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hex(&self.0.to_be_bytes(), serializer)
    }
}

/// Every record of a manifest has several hex strings. The formatting machinery would take half of the time
/// of writing a manifest.
fn serialize_hex<S: Serializer>(big_endian: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 2 + 2 * size_of::<u128>()];
    text[..2].copy_from_slice(b"0x");
    for (place, byte) in text[2..].chunks_exact_mut(2).zip(big_endian) {
        place.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    let text = &text[..2 + 2 * big_endian.len()];
    serializer.serialize_str(std::str::from_utf8(text).expect("digits are ASCII"))
}

/// An integer as a decimal string.
pub(crate) struct Decimal<T>(pub T);

impl<T: fmt::Display> Serialize for Decimal<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A float: a number when finite, else `"NaN"`, `"Infinity"` or `"-Infinity"`.
pub(crate) struct Float(pub f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            v if v.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            v => serializer.serialize_f64(v),
        }
    }
}

/// For `#[serde(with)]`: a `u64` as a hex string.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        super::Hex64(*value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_hex(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a hex string 0x…")))
    }
}

/// The number of a hex string `0x…` of at most 16 digits.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The number of a hex string `0x…` of at most 32 digits.
pub(crate) fn parse_hex128(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u128::from_str_radix(digits, 16).ok())?
}
