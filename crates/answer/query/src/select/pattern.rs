//! Patterns for shapes and hashes.

use crate::SelectorError;

/// One dimension of a shape pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dim {
    Size(u64),
    /// `*`: one dimension of any size.
    Any,
    /// `...`: any number of dimensions.
    Rest,
}

/// A pattern for shapes: `16x128`, `16x*`, `...x64`, `[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapePattern(Vec<Dim>);

impl ShapePattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<ShapePattern, SelectorError> {
        if text == "[]" {
            return Ok(ShapePattern(Vec::new()));
        }
        let place = |part: &str| match part {
            "*" => Ok(Dim::Any),
            "..." | "…" => Ok(Dim::Rest),
            digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map(Dim::Size).map_err(|_| SelectorError::NoShape)
            }
            _ => Err(SelectorError::NoShape),
        };
        Ok(ShapePattern(text.split(['x', 'X']).map(place).collect::<Result<_, _>>()?))
    }

    /// Whether a shape matches.
    pub fn fits(&self, shape: &[u64]) -> bool {
        fits(&self.0, shape)
    }
}

/// The recursion is bounded: a shape has at most 8 dimensions, and consecutive `...` count once.
fn fits(places: &[Dim], shape: &[u64]) -> bool {
    match places {
        [] => shape.is_empty(),
        [Dim::Rest, Dim::Rest, ..] => fits(&places[1..], shape),
        [Dim::Rest] => true,
        [Dim::Rest, rest @ ..] => (0..=shape.len()).any(|skipped| fits(rest, &shape[skipped..])),
        [place, rest @ ..] => shape.split_first().is_some_and(|(&size, left)| {
            let here = match place {
                Dim::Size(wanted) => *wanted == size,
                _ => true,
            };
            here && fits(rest, left)
        }),
    }
}

/// The first digits of a content hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPrefix {
    digits: u32,
    value: u128,
}

const HASH_DIGITS: u32 = 32;

impl HashPrefix {
    /// Parses 1 to 32 hex digits, with or without `0x`.
    pub fn parse(text: &str) -> Result<HashPrefix, SelectorError> {
        let hex = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let digits = u32::try_from(hex.len()).unwrap_or(u32::MAX);
        if !(1..=HASH_DIGITS).contains(&digits) || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(SelectorError::NoHash);
        }
        let value = u128::from_str_radix(hex, 16).map_err(|_| SelectorError::NoHash)?;
        Ok(HashPrefix { digits, value })
    }

    /// Whether a hash starts with this prefix.
    pub fn starts(self, hash: u128) -> bool {
        hash >> (4 * (HASH_DIGITS - self.digits)) == self.value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_shapes_with_wildcards() {
        for (pattern, shape, expected) in [
            ("16", &[16][..], true),
            ("16x128", &[16, 128], true),
            ("16x*", &[16, 7], true),
            ("16x*", &[16], false),
            ("16x*", &[16, 7, 7], false),
            ("16x...", &[16], true),
            ("16x...", &[16, 7, 7], true),
            ("...x64", &[1, 2, 64], true),
            ("...x64", &[64, 2], false),
            ("...x2x...", &[1, 2, 3], true),
            ("...x...x...", &[], true),
            ("[]", &[], true),
            ("[]", &[1], false),
            ("*", &[], false),
        ] {
            assert_eq!(ShapePattern::parse(pattern).unwrap().fits(shape), expected, "{pattern} {shape:?}");
        }
        for text in ["", "x", "16x", "-1", "16,8", "a", "16x+3", "99999999999999999999"] {
            assert_eq!(ShapePattern::parse(text), Err(SelectorError::NoShape), "{text}");
        }
    }

    #[test]
    fn matches_hashes_by_prefix() {
        let hash = 0x765e_781b_0000_0000_0000_0000_0000_00ff;
        for (prefix, expected) in [
            ("7", true),
            ("0x765E781b", true),
            ("765e781b0000000000000000000000ff", true),
            ("765e781b0000000000000000000000fe", false),
            ("65", false),
            ("0", false),
        ] {
            assert_eq!(HashPrefix::parse(prefix).unwrap().starts(hash), expected, "{prefix}");
        }
        for text in ["", "0x", "g", "+7", "0x765e781b0000000000000000000000ff0"] {
            assert!(HashPrefix::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_prefix_of_a_hash_starts_it(hash: u128, digits in 1usize..=32) {
            let text = format!("{hash:032x}");
            prop_assert!(HashPrefix::parse(&text[..digits]).unwrap().starts(hash));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", shape in proptest::collection::vec(0u64..3, 0..8)) {
            let _ = HashPrefix::parse(&text);
            let _ = ShapePattern::parse(&text).map(|pattern| pattern.fits(&shape));
        }
    }
}
