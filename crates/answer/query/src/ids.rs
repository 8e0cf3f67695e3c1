//! Parsing of ids and ranges of tasks, arguments and records, in hex or decimal.

use tensortap::TaskId;
use tensortap::format::TaskChoice;

use crate::SelectorError;

/// First and last number of a range. Both are equal for a single number.
pub type IdRange = (u64, u64);

/// Parses `12`, `0x1f`, `3-7` or `0x100000000-0x10000000f`.
pub fn parse_range(text: &str) -> Result<IdRange, SelectorError> {
    range_of(text, parse_id)
}

/// Parses a range of tasks. A task may also be written as ring and position: `1:2` for `0x100000002`.
pub fn parse_task_range(text: &str) -> Result<IdRange, SelectorError> {
    range_of(text, parse_task)
}

fn range_of(
    text: &str,
    parse: impl Fn(&str) -> Result<u64, SelectorError>,
) -> Result<IdRange, SelectorError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ends = (parse(first)?, parse(last)?);
    if ends.0 > ends.1 {
        let [first, last] = [first, last].map(|end| end.trim().to_string());
        return Err(SelectorError::Backwards { first, last });
    }
    Ok(ends)
}

/// Parses a task: `12`, `0x100000002` or `1:2`.
pub fn parse_task(text: &str) -> Result<u64, SelectorError> {
    let Some((ring, local)) = text.split_once(':') else { return parse_id(text) };
    let half = |text: &str| u32::try_from(parse_id(text)?).map_err(|_| SelectorError::RingTooLarge);
    Ok(TaskId::in_ring(half(ring)?, half(local)?).0)
}

/// Parses a number.
pub fn parse_id(text: &str) -> Result<u64, SelectorError> {
    let text = text.trim();
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    // The standard parser would accept a sign.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(SelectorError::NoNumber);
    }
    u64::from_str_radix(digits, radix).map_err(|_| SelectorError::TooLarge)
}

/// Splits a list at commas, except in double quotes or after a backslash. A backslash also escapes a quote or
/// another backslash.
///
/// ```
/// use tensortap_query::ids::split_list;
/// assert_eq!(split_list("a, b"), Ok(vec!["a".into(), " b".into()]));
/// assert_eq!(split_list(r#""a, b",c"#), Ok(vec!["a, b".into(), "c".into()]));
/// assert_eq!(split_list(r"a\,b,c\d"), Ok(vec!["a,b".into(), r"c\d".into()]));
/// ```
pub fn split_list(text: &str) -> Result<Vec<String>, SelectorError> {
    let (mut values, mut value, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => value.push(letters.next_if(|next| matches!(next, ',' | '"' | '\\')).unwrap_or(letter)),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => values.push(std::mem::take(&mut value)),
            letter => value.push(letter),
        }
    }
    if is_quoted {
        return Err(SelectorError::OpenQuote);
    }
    values.push(value);
    Ok(values)
}

/// Escapes a name so that [`split_list`] reads it as one value.
#[must_use]
pub fn escaped(name: &str) -> String {
    let special = |letter| matches!(letter, ',' | '"' | '\\');
    name.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

/// Parses tasks by id, range or name. Text that starts with a digit is an id.
///
/// ```
/// use tensortap::TaskChoice;
/// use tensortap_query::ids::parse_task_choice;
/// assert_eq!(parse_task_choice("1:2"), Ok(TaskChoice::Ids(0x1_0000_0002, 0x1_0000_0002)));
/// assert_eq!(parse_task_choice("softmax"), Ok(TaskChoice::Named("softmax".into())));
/// assert_eq!(parse_task_choice("layer 1 / k_proj"), Ok(TaskChoice::Named("layer 1 / k_proj".into())));
/// assert_eq!(parse_task_choice("2@0x92"), Ok(TaskChoice::InStep { step: 2, first: 0x92, last: 0x92 }));
/// assert!(parse_task_choice("1f").is_err());
/// ```
pub fn parse_task_choice(text: &str) -> Result<TaskChoice, SelectorError> {
    let refused = |reason| SelectorError::NoTask(Box::new(reason));
    if let Some((step, ids)) = text.split_once('@')
        && let Ok(step) = parse_id(step)
    {
        let step = u32::try_from(step).map_err(|_| refused(SelectorError::TooLarge))?;
        let (first, last) = parse_task_range(ids).map_err(refused)?;
        return Ok(TaskChoice::InStep { step, first, last });
    }
    if text.trim().starts_with(|c: char| !c.is_ascii_digit() && c != '-' && c != ':') {
        return Ok(TaskChoice::Named(text.trim().into()));
    }
    parse_task_range(text).map(|(first, last)| TaskChoice::Ids(first, last)).map_err(refused)
}

/// Arguments by index or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgChoice {
    /// First and last index.
    Places(u64, u64),
    /// A name or pattern, optionally after a kernel: `scores`, `softmax.scores`.
    Named(String),
}

/// Parses arguments by index, range or name. Text that starts with a digit is an index.
///
/// ```
/// use tensortap_query::ids::{ArgChoice, parse_arg_choice};
/// assert_eq!(parse_arg_choice("2-3"), Ok(ArgChoice::Places(2, 3)));
/// assert_eq!(parse_arg_choice("softmax.scores"), Ok(ArgChoice::Named("softmax.scores".into())));
/// ```
pub fn parse_arg_choice(text: &str) -> Result<ArgChoice, SelectorError> {
    if text.trim().starts_with(|c: char| !c.is_ascii_digit() && c != '-' && c != '+') {
        return Ok(ArgChoice::Named(text.trim().into()));
    }
    parse_range(text).map(|(first, last)| ArgChoice::Places(first, last))
}

/// Whether one of the ranges contains the number. An empty list contains every number.
pub fn holds(ranges: &[IdRange], id: u64) -> bool {
    ranges.is_empty() || ranges.iter().any(|&(first, last)| (first..=last).contains(&id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_numbers_and_ranges_in_both_bases() {
        for (text, range) in [
            ("0", (0, 0)),
            ("12", (12, 12)),
            ("0x1F", (31, 31)),
            ("3-7", (3, 7)),
            ("0x100000000-0x10000000f", (1 << 32, (1 << 32) + 15)),
            (" 8 - 0xa ", (8, 10)),
            ("18446744073709551615", (u64::MAX, u64::MAX)),
        ] {
            assert_eq!(parse_range(text), Ok(range), "{text}");
        }
    }

    #[test]
    fn rejects_text_that_is_not_a_number() {
        for text in ["", "-", "1-", "-1", "x", "0x", "1f", "+1", "1-2-3", "0x-3", "1_000"] {
            assert_eq!(parse_range(text), Err(SelectorError::NoNumber), "{text}");
        }
        assert!(parse_range("7-3").unwrap_err().to_string().contains("did you mean 3-7?"));
        assert!(parse_range("18446744073709551616").unwrap_err().to_string().contains("64 bits"));
    }

    #[test]
    fn an_empty_list_holds_everything_and_ranges_include_both_ends() {
        assert!(holds(&[], 5));
        let ranges = [(2, 4), (9, 9)];
        let held: Vec<u64> = (0..12).filter(|&id| holds(&ranges, id)).collect();
        assert_eq!(held, [2, 3, 4, 9]);
    }

    #[test]
    fn parses_a_task_as_ring_and_position() {
        assert_eq!(parse_task_range("1:2"), Ok(((1 << 32) + 2, (1 << 32) + 2)));
        assert_eq!(parse_task_range("0:3-0x1:0xf"), Ok((3, (1 << 32) + 15)));
        assert!(parse_task_range("1:2-1:0").unwrap_err().to_string().contains("did you mean 1:0-1:2?"));
        assert!(parse_task_range("0x100000000:1").unwrap_err().to_string().contains("32 bits"));
        for text in ["1:", ":1", "1:2:3", ":"] {
            assert_eq!(parse_task_range(text), Err(SelectorError::NoNumber), "{text}");
        }
        assert_eq!(parse_range("1:2"), Err(SelectorError::NoNumber), "arguments have no rings");
    }

    proptest! {
        #[test]
        fn all_spellings_of_a_task_are_equal(ring: u32, local: u32) {
            let id = TaskId::in_ring(ring, local).0;
            for text in [format!("{ring}:{local}"), format!("{id}"), format!("{id:#x}"), TaskId(id).to_string()] {
                prop_assert_eq!(parse_task(&text), Ok(id));
            }
        }

        #[test]
        fn parses_what_it_writes(a: u64, b: u64) {
            let (first, last) = (a.min(b), a.max(b));
            prop_assert_eq!(parse_range(&format!("{first:#x}-{last}")), Ok((first, last)));
        }

        #[test]
        fn any_name_can_be_escaped(names in prop::collection::vec("[a\",\\\\ é]{0,6}", 1..4)) {
            let escaped: Vec<String> = names.iter().map(|name| escaped(name)).collect();
            prop_assert_eq!(split_list(&escaped.join(",")), Ok(names.clone()));
        }

        #[test]
        fn never_panics(text in "\\PC{0,12}") {
            let _ = parse_range(&text);
            let _ = parse_task_range(&text);
        }
    }
}
