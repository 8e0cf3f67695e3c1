//! Parsers of option values, whose errors say what is accepted: numbers, sizes, times, choices.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tensortap::{DumpStage, cpu_count};
use tensortap_query::parse_stage;

/// Reads a whole number in a range.
pub fn whole<T: FromStr + PartialOrd + Display>(
    range: impl RangeBounds<T> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number{}", in_words(&range)))
    }
}

fn in_words<T: Display>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Included(first), Bound::Included(last)) => format!(" from {first} to {last}"),
        (Bound::Included(first), Bound::Unbounded) => format!(", at least {first}"),
        _ => String::new(),
    }
}

/// Converts a limit to the number type of an option.
pub fn at_most(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// Accepts the names of these values. Names compare without regard to case if the option has `ignore_case`.
pub fn choice<T: Clone + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<(&'static str, T)> = values.into_iter().collect();
    let names: Vec<&'static str> = values.iter().map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names).try_map(move |word| {
        let found = values.iter().find(|(name, _)| name.eq_ignore_ascii_case(&word));
        found.map(|(_, value)| value.clone()).ok_or("unknown value")
    })
}

/// Accepts `before` and `after`, and the same stages as the manifest spells them.
pub fn stage() -> impl TypedValueParser<Value = DumpStage> {
    let name = |stage: DumpStage| PossibleValue::new(stage.word()).alias(stage.name());
    PossibleValuesParser::new(DumpStage::ALL.map(name))
        .try_map(|word| parse_stage(&word.to_ascii_lowercase()))
}

/// Splits a text at its first `=`.
pub fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    (!key.is_empty()).then(|| (key.into(), value.into()))
}

const ACCEPTED_SIZE: &str = "a size is a number of bytes (4096) or a number with a unit (64MiB, 1.5g): K, M, G, T, KiB, MiB, \
                        GiB, TiB are powers of 1024; kB, MB, GB, TB are powers of 1000";

/// Reads a size: `4096`, `64MiB`, `1.5g`, `2 GB`. A fraction of a byte is rounded up.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = unit_bytes(unit.trim()).ok_or(ACCEPTED_SIZE)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(ACCEPTED_SIZE.into());
    }
    let whole = digits(whole).ok_or(ACCEPTED_SIZE)?;
    let tenths = 10_u128.checked_pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX));
    let fraction = digits(fraction).ok_or(ACCEPTED_SIZE)?;
    let bytes = tenths.and_then(|tenths| {
        let part = fraction.checked_mul(unit)?.div_ceil(tenths);
        whole.checked_mul(unit)?.checked_add(part)
    });
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "the size does not fit into 64 bits".into())
}

/// Reads decimal digits; an empty text is 0. `None` for any other character and for overflow.
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

const ACCEPTED_TIME: &str =
    "a time is a number of seconds (10, 0.5) or a number with a unit ms, s or min (500ms); 0 means never";
/// The device receives limits in milliseconds and treats zero as no limit.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A time limit. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

/// Reads a limit: `10`, `0.5`, `500ms`, `10s`, `2min`; `0` means no limit.
pub fn parse_limit(text: &str) -> Result<Limit, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().map_err(|_| ACCEPTED_TIME)?;
    let unit_s = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        _ => return Err(ACCEPTED_TIME.into()),
    };
    if number == 0.0 {
        return Ok(Limit(None));
    }
    let limit = Duration::try_from_secs_f64(number * unit_s).ok();
    let limit = limit.filter(|limit| (SHORTEST..=LONGEST).contains(limit));
    limit
        .map(|limit| Limit(Some(limit)))
        .ok_or_else(|| "a time must be from 1ms to 365 days; 0 means never".into())
}

/// The option `--jobs`.
#[derive(Args, Clone, Copy)]
pub struct JobsArg {
    /// Number of threads [default: one per CPU]
    #[arg(long, short, value_name = "N", value_parser = whole(1..=1024_usize))]
    jobs: Option<usize>,
}

impl JobsArg {
    /// The number of threads.
    pub fn get(self) -> usize {
        self.jobs.unwrap_or_else(cpu_count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rejects_a_number_outside_its_range_and_names_the_range() {
        let blocks = whole(1..=64_u32);
        assert_eq!((blocks("1"), blocks("64")), (Ok(1), Ok(64)));
        for text in ["0", "65", "-1", "", "x", "1.5", "99999999999999999999"] {
            assert_eq!(blocks(text), Err("expected a whole number from 1 to 64".into()), "{text}");
        }
        assert_eq!(whole(0_u64..)("-1"), Err("expected a whole number, at least 0".into()));
    }

    #[test]
    fn a_pair_needs_a_key_and_its_value_may_contain_an_equals_sign() {
        assert_eq!(pair("a=b=c"), Some(("a".into(), "b=c".into())));
        for bad in ["a", "", "=b"] {
            assert_eq!(pair(bad), None, "{bad}");
        }
    }

    #[test]
    fn parses_sizes_with_and_without_units() {
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
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_sizes_and_says_what_is_accepted() {
        for text in ["", " ", ".", "MiB", "x", "1x", "1.2.3", "-1", "+1", "1e3", "1kibb", "1 0", "1µ", "٣k"]
        {
            assert_eq!(parse_size(text), Err(ACCEPTED_SIZE.into()), "{text}");
        }
        for text in ["18446744073709551616", "16777216T", "1.00000000000000000000000000000000000000001k"] {
            assert!(parse_size(text).unwrap_err().contains("64 bits"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn sizes_in_whole_units_are_exact(count in 0_u64..1 << 20, power in 0_u32..4) {
            let text = format!("{count}{}iB", ["K", "M", "G", "T"][power as usize]);
            prop_assert_eq!(parse_size(&text), Ok(count << (10 * (power + 1))));
        }

        #[test]
        fn never_panics(text in "\\PC{0,12}") {
            let _ = parse_size(&text);
        }
    }

    #[test]
    fn parses_times_and_treats_zero_as_no_limit() {
        for (text, millis) in
            [("10", 10_000), ("0.5", 500), ("500ms", 500), ("10s", 10_000), ("2 min", 120_000), ("1ms", 1)]
        {
            assert_eq!(parse_limit(text), Ok(Limit(Some(Duration::from_millis(millis)))), "{text}");
        }
        for text in ["0", "0s", "0.0ms"] {
            assert_eq!(parse_limit(text), Ok(Limit(None)), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_times() {
        for text in ["", "s", "-1", "1h", "1.2.3", "inf", "nan", "1e3"] {
            assert_eq!(parse_limit(text), Err(ACCEPTED_TIME.into()), "{text}");
        }
        for text in ["0.5ms", "0.0001", "99999999999999999999", "366000min00"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }
}
