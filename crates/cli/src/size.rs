//! Sizes in bytes, as people write them.

const ACCEPTED: &str = "a size is bytes (4096) or a number with a unit: K, M, G, T or KiB, MiB, GiB, TiB in steps \
                        of 1024, kB, MB, GB, TB in steps of 1000 (64MiB, 1.5g)";

/// Reads a size: `4096`, `64MiB`, `1.5g`, `2 GB`. A fraction of a byte is rounded up.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = unit_bytes(unit.trim()).ok_or(ACCEPTED)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(ACCEPTED.into());
    }
    let whole = digits(whole).ok_or(ACCEPTED)?;
    let tenths = 10_u128.checked_pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX));
    let fraction = digits(fraction).ok_or(ACCEPTED)?;
    let bytes = tenths.and_then(|tenths| {
        let part = fraction.checked_mul(unit)?.div_ceil(tenths);
        whole.checked_mul(unit)?.checked_add(part)
    });
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "this is more than a 64-bit number of bytes".into())
}

/// `None` for anything but digits and for numbers past all sizes; nothing is zero.
fn digits(text: &str) -> Option<u128> {
    if text.is_empty() {
        Some(0)
    } else {
        text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
    }
}

fn unit_bytes(unit: &str) -> Option<u128> {
    let unit = unit.to_ascii_lowercase();
    if matches!(unit.as_str(), "" | "b") {
        return Some(1);
    }
    let step: u128 = match unit.get(1..)? {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    let power = "kmgt".find(unit.get(..1)?)? + 1;
    step.checked_pow(u32::try_from(power).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096b", 4096),
            ("64MiB", 64 << 20),
            ("2 GiB", 2 << 30),
            ("2gib", 2 << 30),
            ("1.5g", 3 << 29),
            (".5k", 512),
            ("1T", 1 << 40),
            ("3kB", 3000),
            ("2GB", 2_000_000_000),
            ("0.1k", 103),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_accepted() {
        for text in ["", " ", ".", "MiB", "x", "1x", "1.2.3", "-1", "+1", "1e3", "1kibb", "1 0", "1µ", "٣k"]
        {
            assert_eq!(parse(text), Err(ACCEPTED.into()), "{text}");
        }
        for text in ["18446744073709551616", "16777216T", "1.00000000000000000000000000000000000000001k"] {
            assert!(parse(text).unwrap_err().contains("64-bit"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_units_are_exact(count in 0_u64..1 << 20, power in 0_u32..4) {
            let text = format!("{count}{}iB", ["K", "M", "G", "T"][power as usize]);
            prop_assert_eq!(parse(&text), Ok(count << (10 * (power + 1))));
        }

        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,12}") {
            let _ = parse(&text);
        }
    }
}
