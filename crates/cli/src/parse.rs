//! Values on the command line whose refusal says what would do.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

/// Reads whole numbers of a range.
pub fn whole<T: FromStr + PartialOrd + Display>(
    range: impl RangeBounds<T> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("a whole number {}is expected", in_words(&range)))
    }
}

fn in_words<T: Display>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Included(first), Bound::Included(last)) => format!("from {first} to {last} "),
        (Bound::Included(first), Bound::Unbounded) => format!("from {first} on "),
        _ => String::new(),
    }
}

/// A limit of the layouts as a number of the command line.
pub fn at_most(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// What is left and right of the first `=`.
pub fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    (!key.is_empty()).then(|| (key.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_of_its_range_is_answered_with_the_range() {
        let blocks = whole(1..=64_u32);
        assert_eq!((blocks("1"), blocks("64")), (Ok(1), Ok(64)));
        for text in ["0", "65", "-1", "", "x", "1.5", "99999999999999999999"] {
            assert_eq!(blocks(text), Err("a whole number from 1 to 64 is expected".into()), "{text}");
        }
        assert_eq!(whole(0_u64..)("-1"), Err("a whole number from 0 on is expected".into()));
    }

    #[test]
    fn a_value_may_hold_an_equals_sign_and_a_key_may_not_be_missing() {
        assert_eq!(pair("a=b=c"), Some(("a".into(), "b=c".into())));
        for bad in ["a", "", "=b"] {
            assert_eq!(pair(bad), None, "{bad}");
        }
    }
}
