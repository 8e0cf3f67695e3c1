//! Formats elements as text that reads back to the same bits.

use core::fmt;

use tensortap_abi::DType;

use crate::convert::{from_f64, mask, to_f64, wide_mask};
use crate::small_float::SmallFloat;
use crate::value::{Value, parts};

/// Digits that distinguish all numbers of 16 bits or less.
const SMALL_FLOAT_DIGITS: usize = 5;
/// Whole numbers up to this are written in full.
const WHOLE_LIMIT: f64 = 131_072.0;

/// One element. It displays with the fewest digits that read back to it; [`Element::parse`] reads it back.
///
/// Special values are spelled as in JSON: `NaN`, `Infinity`, `-Infinity`. A NaN other than the one that
/// arithmetic produces includes its bits, `NaN(0x7f800001)`; so does a true `bool` other than 1, `1(0x02)`.
/// A complex number is written as in Python: `1+2j`.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::Element;
/// let text = |dtype, bits| Element { dtype, bits }.to_string();
/// assert_eq!(text(DType::BFloat16, 0x3dcd), "0.1");
/// assert_eq!(text(DType::Float32, 0xff80_0000), "-Infinity");
/// assert_eq!(text(DType::Float32, 0x7f80_0001), "NaN(0x7f800001)");
/// assert_eq!(text(DType::UInt64, u64::MAX.into()), "18446744073709551615");
/// assert_eq!(text(DType::Complex64, 0xc000_0000_3fc0_0000), "1.5-2j");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Element type.
    pub dtype: DType,
    /// Its bit pattern, in the low bits. The imaginary part of a complex number is above the real part.
    pub bits: u128,
}

/// The text is not an element of the dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {dtype} value; write {}", .expected)]
pub struct ParseElementError {
    dtype: DType,
    expected: &'static str,
}

impl Element {
    /// Parses an element. A decimal float is rounded to nearest; an integer must be in range.
    pub fn parse(dtype: DType, text: &str) -> Result<Element, ParseElementError> {
        let text = text.trim();
        if dtype.is_complex() {
            let expected = "a complex number such as 1+2j";
            let bits = parse_complex(dtype, text).ok_or(ParseElementError { dtype, expected })?;
            return Ok(Element { dtype, bits });
        }
        let noted = text.strip_suffix(')').and_then(|text| text.split_once("(0x"));
        let bits = match noted {
            Some((word, digits)) => parse_noted(dtype, word, digits),
            None if dtype.is_float() => parse_float(dtype, text),
            None if dtype == DType::Bool => parse_bool(text),
            None => parse_integer(dtype, text),
        };
        let expected = match dtype {
            DType::Bool => "0 or 1",
            _ if dtype.is_float() => "a number, NaN, Infinity or -Infinity",
            _ => "a whole number within its range",
        };
        bits.map(|bits| Element { dtype, bits: bits.into() }).ok_or(ParseElementError { dtype, expected })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element { dtype, bits: all } = *self;
        if dtype.is_complex() {
            return fmt_complex(f, dtype, all);
        }
        #[expect(clippy::cast_possible_truncation, reason = "only complex numbers are wider")]
        let bits = all as u64;
        match Value::decode(dtype, all) {
            Value::Float(value) if value.is_nan() => fmt_nan(f, dtype, bits & mask(dtype)),
            Value::Float(f64::INFINITY) => f.write_str("Infinity"),
            Value::Float(f64::NEG_INFINITY) => f.write_str("-Infinity"),
            Value::Float(value) => fmt_float(f, dtype, value),
            Value::Int(value) => write!(f, "{value}"),
            Value::UInt(value) => write!(f, "{value}"),
            Value::Bool(value) if bits & mask(dtype) <= 1 => f.write_str(if value { "1" } else { "0" }),
            Value::Bool(_) => write!(f, "1(0x{:02x})", bits & mask(dtype)),
            Value::Complex(..) => fmt_complex(f, dtype, all),
        }
    }
}

/// Both parts as floats, without `.0`, and the sign of the imaginary part between them.
fn fmt_complex(f: &mut fmt::Formatter<'_>, dtype: DType, bits: u128) -> fmt::Result {
    let [real, imaginary] = parts(dtype, bits & wide_mask(dtype));
    let text = |bits: u64| {
        let mut text = ShortText::default();
        fmt::Write::write_fmt(
            &mut text,
            format_args!("{}", Element { dtype: dtype.part(), bits: bits.into() }),
        )?;
        Ok(text)
    };
    let (real, imaginary): (ShortText, ShortText) = (text(real)?, text(imaginary)?);
    let whole = |text: &ShortText| text.as_str().strip_suffix(".0").unwrap_or(text.as_str()).len();
    let (real, imaginary) = (&real.as_str()[..whole(&real)], &imaginary.as_str()[..whole(&imaginary)]);
    let sign = if imaginary.starts_with('-') { "" } else { "+" };
    write!(f, "{real}{sign}{imaginary}j")
}

/// Reads `1+2j`, `2j` or `1`.
fn parse_complex(dtype: DType, text: &str) -> Option<u128> {
    let part = |text: &str| Some(Element::parse(dtype.part(), text).ok()?.bits);
    let Some(both) = text.strip_suffix(['j', 'J']) else { return part(text) };
    let is_between = |(at, letter): &(usize, char)| {
        let is_exponent =
            both.as_bytes().get(at.wrapping_sub(1)).is_some_and(|before| matches!(before, b'e' | b'E'));
        *at > 0 && matches!(letter, '+' | '-') && !is_exponent
    };
    let (real, imaginary) = match both.char_indices().rfind(is_between) {
        Some((at, _)) => both.split_at(at),
        None => ("0", both),
    };
    let imaginary = imaginary.strip_prefix('+').unwrap_or(imaginary);
    Some(part(real)? | part(imaginary)? << dtype.part().bits())
}

fn fmt_nan(f: &mut fmt::Formatter<'_>, dtype: DType, bits: u64) -> fmt::Result {
    let plain = from_f64(dtype, f64::NAN);
    let sign = (mask(dtype) >> 1) + 1;
    match bits {
        bits if bits == plain => f.write_str("NaN"),
        bits if bits == plain | sign => f.write_str("-NaN"),
        bits => write!(f, "NaN(0x{bits:0width$x})", width = dtype.bits() as usize / 4),
    }
}

fn fmt_float(f: &mut fmt::Formatter<'_>, dtype: DType, value: f64) -> fmt::Result {
    match dtype {
        DType::Float64 => write!(f, "{value:?}"),
        #[expect(clippy::cast_possible_truncation, reason = "it was an f32")]
        DType::Float32 => write!(f, "{:?}", value as f32),
        _ => write!(f, "{:?}", shortest(dtype, value)),
    }
}

/// The number with the fewest decimal digits that rounds to a value of a small float. Whole numbers that read
/// well are kept: `448` and not `450`, although both read back.
fn shortest(dtype: DType, value: f64) -> f64 {
    if value.abs() <= WHOLE_LIMIT && libm::trunc(value) == value {
        return value;
    }
    let bits = from_f64(dtype, value);
    let candidates = (1..=SMALL_FLOAT_DIGITS).filter_map(|digits| rounded(value, digits));
    candidates.into_iter().find(|number| from_f64(dtype, *number) == bits).unwrap_or(value)
}

/// Rounds a number to this many decimal digits.
fn rounded(value: f64, digits: usize) -> Option<f64> {
    let mut text = ShortText::default();
    fmt::Write::write_fmt(&mut text, format_args!("{value:.*e}", digits - 1)).ok()?;
    text.as_str().parse().ok()
}

/// A text buffer without an allocator, for one float: at most a sign, 17 digits, a point and an exponent.
#[derive(Default)]
struct ShortText {
    bytes: [u8; 32],
    length: usize,
}

impl ShortText {
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Bits in parentheses, if they match the word before them.
fn parse_noted(dtype: DType, word: &str, digits: &str) -> Option<u64> {
    let bits = u64::from_str_radix(digits, 16).ok().filter(|bits| bits & !mask(dtype) == 0)?;
    let fits = match word {
        "NaN" => dtype.is_float() && to_f64(dtype, bits).is_nan(),
        "1" => dtype == DType::Bool && bits != 0,
        _ => false,
    };
    fits.then_some(bits)
}

fn parse_float(dtype: DType, text: &str) -> Option<u64> {
    let number: f64 = match dtype {
        // Parsed directly, because parsing as f64 would round twice.
        DType::Float32 => return text.parse().ok().map(from_f32),
        _ => text.parse().ok()?,
    };
    let representable = !number.is_nan() || dtype == DType::Float64 || {
        SmallFloat::of(dtype).is_some_and(|small| small.quiet_nan().is_some())
    };
    representable.then(|| from_f64(dtype, number))
}

fn from_f32(value: f32) -> u64 {
    if value.is_nan() { from_f64(DType::Float32, value.into()) } else { value.to_bits().into() }
}

fn parse_bool(text: &str) -> Option<u64> {
    match text {
        "0" | "false" => Some(0),
        "1" | "true" => Some(1),
        _ => None,
    }
}

fn parse_integer(dtype: DType, text: &str) -> Option<u64> {
    let number: i128 = text.parse().ok()?;
    let bits = match dtype {
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => u64::try_from(number).ok()?,
        _ => i64::try_from(number).ok()?.cast_unsigned() & mask(dtype),
    };
    let read_back = match Value::decode(dtype, bits.into()) {
        Value::Int(value) => i128::from(value),
        Value::UInt(value) => i128::from(value),
        Value::Float(_) | Value::Bool(_) | Value::Complex(..) => return None,
    };
    (read_back == number).then_some(bits)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn assert_reads_back(dtype: DType, bits: u128) {
        let text = Element { dtype, bits }.to_string();
        assert_eq!(Element::parse(dtype, &text), Ok(Element { dtype, bits }), "{dtype} {bits:#x}: {text}");
    }

    #[test]
    fn every_pattern_of_up_to_16_bits_reads_back() {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.bits() <= 16) {
            (0..=wide_mask(dtype)).for_each(|bits| assert_reads_back(dtype, bits));
        }
    }

    proptest! {
        #[test]
        fn wide_patterns_read_back(dtype in prop::sample::select(&DType::ALL[..]), bits: u128) {
            assert_reads_back(dtype, bits & wide_mask(dtype));
        }

        #[test]
        fn any_text_is_an_element_or_an_error(dtype in prop::sample::select(&DType::ALL[..]), text in "[-+0-9a-fNI.()xj]{0,12}") {
            if let Ok(element) = Element::parse(dtype, &text) {
                assert_reads_back(dtype, element.bits);
            }
        }
    }

    #[test]
    fn extreme_wide_floats_read_back() {
        let wide = [0.0, -0.0, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, f64::NAN, -f64::NAN, 1e16];
        wide.into_iter().for_each(|value| assert_reads_back(DType::Float64, value.to_bits().into()));
        let single = [-0.0, f32::from_bits(1), f32::MAX, f32::NAN, -f32::NAN, f32::NEG_INFINITY];
        single.into_iter().for_each(|value| assert_reads_back(DType::Float32, value.to_bits().into()));
    }

    #[test]
    fn text_has_the_fewest_digits_that_distinguish_values() {
        for (dtype, bits, text) in [
            (DType::Float16, 0x3555, "0.3333"),
            (DType::Float16, 0x7bff, "65504.0"),
            (DType::Float16, 0x0001, "6e-8"),
            (DType::BFloat16, 0x3eab, "0.334"),
            (DType::BFloat16, 0x7f7f, "3.39e38"),
            (DType::Float8E4M3FN, 0x7e, "448.0"),
            (DType::Float8E5M2, 0x7b, "57344.0"),
            (DType::Float4E2M1, 0x1, "0.5"),
            (DType::Float64, 0.1_f64.to_bits().into(), "0.1"),
            (DType::Int4, 0x8, "-8"),
            (DType::Bool, 1, "1"),
            (DType::Float8E4M3FNUZ, 0x7f, "240.0"),
            (DType::Float8E4M3FNUZ, 0x80, "NaN"),
            (DType::Float8E8M0FNU, 0x80, "2.0"),
            (DType::Complex64, 0x4000_0000_3f80_0000, "1+2j"),
            (DType::Complex64, 0x8000_0000_3dcc_cccd, "0.1-0j"),
            (DType::Complex64, 0x7fc0_0000_ff80_0000, "-Infinity+NaNj"),
            (DType::Complex64, 0x7f80_0001_0000_0000, "0+NaN(0x7f800001)j"),
            (
                DType::Complex128,
                u128::from(1e-300_f64.to_bits()) << 64 | u128::from(1e16_f64.to_bits()),
                "1e16+1e-300j",
            ),
        ] {
            assert_eq!(Element { dtype, bits }.to_string(), text, "{dtype}");
        }
    }

    #[test]
    fn values_outside_the_dtype_are_rejected() {
        for (dtype, text) in [
            (DType::Int8, "128"),
            (DType::UInt8, "-1"),
            (DType::UInt64, "18446744073709551616"),
            (DType::Int32, "1.0"),
            (DType::Bool, "2"),
            (DType::Float4E2M1, "NaN"),
            (DType::Float32, "NaN(0x3f800000)"),
            (DType::Float16, "NaN(0xfffff)"),
            (DType::Float32, ""),
            (DType::Complex64, "1+2"),
            (DType::Complex64, "j"),
            (DType::Complex64, "1+2i"),
        ] {
            let error = Element::parse(dtype, text).unwrap_err().to_string();
            assert!(error.starts_with(&std::format!("not a valid {dtype} value; write ")), "{error}");
        }
    }
}
