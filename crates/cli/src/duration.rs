//! Time limits, as people write them.

use std::time::Duration;

const ACCEPTED: &str =
    "a time is seconds (10, 0.5) or a number with a unit: ms, s, min (500ms); 0 means never";
/// Limits cross to the device in milliseconds, where zero would mean none.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A time limit; `None` inside is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

/// Reads a limit: `10`, `0.5`, `500ms`, `10s`, `2min`; `0` is none.
pub fn parse_limit(text: &str) -> Result<Limit, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().map_err(|_| ACCEPTED)?;
    let unit_s = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        _ => return Err(ACCEPTED.into()),
    };
    if number == 0.0 {
        return Ok(Limit(None));
    }
    let limit = Duration::try_from_secs_f64(number * unit_s).ok();
    let limit = limit.filter(|limit| (SHORTEST..=LONGEST).contains(limit));
    limit.map(|limit| Limit(Some(limit))).ok_or_else(|| "1ms to 365 days are possible; 0 means never".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_units_are_read_and_zero_is_never() {
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
    fn what_is_no_limit_is_refused() {
        for text in ["", "s", "-1", "1h", "1.2.3", "inf", "nan", "1e3"] {
            assert_eq!(parse_limit(text), Err(ACCEPTED.into()), "{text}");
        }
        for text in ["0.5ms", "0.0001", "99999999999999999999", "366000min00"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }
}
