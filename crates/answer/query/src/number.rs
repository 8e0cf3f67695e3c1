//! Formatting of numbers for people and JSON.

use std::time::Duration;

use serde::Serializer;

/// A count with thousands separators: `131,072`.
pub fn grouped(count: u64) -> String {
    let mut text = String::new();
    push_grouped(&mut text, count);
    text
}

/// Appends a count with thousands separators.
pub(crate) fn push_grouped(out: &mut String, count: u64) {
    push_groups(out, count, ",");
}

/// Appends a decimal number. It avoids the formatting machinery, which would take most of the time of a long
/// list.
pub(crate) fn push_number(out: &mut String, number: u64) {
    push_groups(out, number, "");
}

/// All groups of three digits, concatenated: `000001002…`.
const GROUPS: &str = {
    const DIGITS: [u8; 3000] = {
        let mut digits = [b'0'; 3000];
        let mut place = 3;
        while place < digits.len() {
            // One more than the previous group.
            digits[place] =
                digits[place - 3] + (digits[place - 1] == b'9' && digits[place - 2] == b'9') as u8;
            digits[place + 1] = next_digit(digits[place - 2], digits[place - 1] == b'9');
            digits[place + 2] = next_digit(digits[place - 1], true);
            place += 3;
        }
        digits
    };
    match str::from_utf8(&DIGITS) {
        Ok(digits) => digits,
        Err(_) => panic!("digits are ASCII"),
    }
};

/// The digit itself, or the one after it, 0 after 9.
const fn next_digit(digit: u8, moves: bool) -> u8 {
    match (moves, digit) {
        (false, digit) => digit,
        (true, b'9') => b'0',
        (true, digit) => digit + 1,
    }
}

/// Groups of the largest number.
const MOST_GROUPS: usize = 7;

fn push_groups(out: &mut String, mut number: u64, between: &str) {
    let mut groups = [0; MOST_GROUPS];
    let mut first = MOST_GROUPS;
    loop {
        first -= 1;
        groups[first] = 3 * (number % 1000) as usize;
        number /= 1000;
        if number == 0 {
            break;
        }
    }
    let leading = groups[first];
    let zeros = usize::from(leading < 30) + usize::from(leading < 300);
    *out += &GROUPS[leading + zeros..leading + 3];
    for &group in &groups[first + 1..] {
        *out += between;
        *out += &GROUPS[group..group + 3];
    }
}

/// A count and its unit: `1 block`, `2 blocks`.
pub fn counted(count: u64, unit: &str) -> String {
    counted_in(count, unit, &format!("{unit}s"))
}

/// A count and its unit, with an irregular plural.
pub fn counted_in(count: u64, unit: &str, units: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { unit } else { units })
}

/// A number with `digits` significant digits, in decimal notation if that is readable, else with an exponent.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Round first, so that 9.996 with three digits is 10.0.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent = scientific.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    let decimals = i32::try_from(digits).unwrap_or(i32::MAX) - 1 - exponent;
    match usize::try_from(decimals) {
        Ok(decimals) if exponent >= -3 => format!("{value:.decimals$}"),
        Err(_) if exponent <= 5 => format!("{value:.0}"),
        _ => scientific,
    }
}

/// A rate with three digits: `832`, `98.7 k`, `4.21 M`.
pub fn rate(per_s: f64) -> String {
    let mut scaled = per_s;
    for unit in ["", " k", " M"] {
        // Above this, three digits would round up to four.
        if scaled < 999.5 {
            return format!("{}{unit}", significant(scaled, 3));
        }
        scaled /= 1000.0;
    }
    format!("{} G", significant(scaled, 3))
}

/// Bytes per second with three digits: `5.21 GB/s`.
pub fn byte_rate(per_s: f64) -> String {
    let text = rate(per_s);
    let gap = if text.contains(' ') { "" } else { " " };
    format!("{text}{gap}B/s")
}

/// A size with three digits: `832 KiB`. Small sizes are exact.
#[expect(clippy::cast_precision_loss, reason = "a size for people")]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut scaled = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB"] {
        // Above this, rounding would give 1024 of this unit.
        if scaled < 1023.5 {
            return format!("{} {unit}", significant(scaled, if scaled < 999.5 { 3 } else { 4 }));
        }
        scaled /= 1024.0;
    }
    format!("{} TiB", significant(scaled, 3))
}

/// A duration with three digits: `13.8 ms`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1e-3 {
        format!("{} µs", significant(seconds * 1e6, 3))
    } else if seconds < 1.0 {
        format!("{} ms", significant(seconds * 1e3, 3))
    } else {
        format!("{} s", significant(seconds, 3))
    }
}

/// For `serialize_with`: JSON has no NaN and infinities, so they are written as strings.
pub fn json_float<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *value {
        v if v.is_nan() => serializer.serialize_str("NaN"),
        f64::INFINITY => serializer.serialize_str("Infinity"),
        f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
        v => serializer.serialize_f64(v),
    }
}

/// The same for an optional value.
pub fn json_optional_float<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => json_float(value, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn separates_thousands() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
        for number in (0..2000).chain([10_007_000, u64::MAX]) {
            let mut text = "x".to_owned();
            push_number(&mut text, number);
            assert_eq!(text, format!("x{number}"));
        }
        assert_eq!((counted(1, "block"), counted(1024, "block")), ("1 block".into(), "1,024 blocks".into()));
    }

    #[test]
    fn keeps_three_digits_at_every_magnitude() {
        for (value, text) in [
            (0.0, "0"),
            (13.823, "13.8"),
            (9.996, "10.0"),
            (123_456.0, "123456"),
            (0.001_953, "0.00195"),
            (1.43e-6, "1.43e-6"),
            (1.5e9, "1.50e9"),
            (-11.9, "-11.9"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(significant(value, 3), text);
        }
    }

    #[test]
    fn chooses_units_of_rates_and_times() {
        for (value, text) in
            [(832.0, "832"), (999.7, "1.00 k"), (98_722.0, "98.7 k"), (4.213e6, "4.21 M"), (3e9, "3.00 G")]
        {
            assert_eq!(rate(value), text);
        }
        assert_eq!((byte_rate(5.214e9), byte_rate(12.0)), ("5.21 GB/s".into(), "12.0 B/s".into()));
        for (micros, text) in [(37, "37.0 µs"), (13_823, "13.8 ms"), (1_012_949, "1.01 s")] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn chooses_units_of_sizes() {
        for (size, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1,023 bytes"),
            (1024, "1.00 KiB"),
            (832 << 10, "832 KiB"),
            (1000 << 10, "1000 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (3 << 29, "1.50 GiB"),
            (u64::MAX, "1.68e7 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    proptest! {
        #[test]
        fn grouping_changes_no_digit(count: u64) {
            prop_assert_eq!(grouped(count).replace(',', ""), count.to_string());
        }

        #[test]
        fn rounding_stays_within_half_a_digit(value in 1e-12_f64..1e12) {
            let shown: f64 = significant(value, 4).parse().unwrap();
            prop_assert!((shown - value).abs() <= value * 0.000_500_1, "{} {}", value, shown);
        }
    }
}
