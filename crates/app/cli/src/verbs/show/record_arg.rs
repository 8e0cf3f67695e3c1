//! Assigns the words of the command line to the dump and the record.

use std::path::{Path, PathBuf};

use tensortap::UnknownName;
use tensortap_query::{HOW_RECORDS_ARE_NAMED, RecordName, SelectorError};

use crate::error::UsageError;

/// Finds the dump and the record on a command line. Either may be missing, and either may come first.
pub fn split(words: &[String]) -> Result<(Option<PathBuf>, Option<RecordName>), UsageError> {
    let (mut dump, mut name) = (None, None);
    let all_records = words.len() > 1 && words.iter().take(2).all(|word| RecordName::parse(word).is_some());
    for (place, word) in words.iter().enumerate() {
        // A word after dump and task is an argument of the task: `show DUMP mul out`.
        let with_arg = || name.as_ref().and_then(|name: &RecordName| name.with_arg(word));
        if let Some(narrowed) = with_arg().filter(|_| dump.is_some() && !Path::new(word).exists()) {
            name = Some(narrowed);
            continue;
        }
        let meaning = match RecordName::parse(word) {
            // If both words could be records, the first one is the dump.
            Some(_) if all_records && place == 0 => Meaning::Dump,
            Some(parsed) => Meaning::Record(parsed),
            None if !Path::new(word).exists() && nearest_stage(word).is_some() => {
                let near = nearest_stage(word).unwrap_or_default();
                return Err(UsageError {
                    message: format!("`{word}` is not a record: a stage is before or after"),
                    hint: format!("did you mean `{near}`?"),
                });
            }
            // A single word that is not a file is a task of the newest dump.
            None if !Path::new(word).exists()
                && (dump.is_some() || words.len() == 1 && !is_like_path(word)) =>
            {
                Meaning::Record(Ok(RecordName::of_kernel(word)))
            }
            None => Meaning::Dump,
        };
        let is_second = match meaning {
            Meaning::Dump => dump.replace(PathBuf::from(word)).is_some(),
            Meaning::Record(parsed) => {
                let parsed = parsed.map_err(|reason| usage(format!("`{word}` is not a record: {reason}")))?;
                name.replace(parsed).is_some()
            }
        };
        if is_second {
            return Err(usage(format!(
                "`{word}` is one word too many: `show` takes one dump and one record"
            )));
        }
    }
    Ok((dump, name))
}

/// Whether a word looks like a path, not like the name of a task.
fn is_like_path(word: &str) -> bool {
    word.is_empty()
        || word.starts_with(['.', '/', '~'])
        || word.ends_with('/')
        || Path::new(word).extension().is_some()
}

/// The suggestion for a record whose stage is misspelled.
fn nearest_stage(text: &str) -> Option<String> {
    let (task, rest) = text.split_once('/')?;
    let (stage, arg) = rest.split_once('/').map_or((rest, None), |(stage, arg)| (stage, Some(arg)));
    if arg.is_some_and(|arg| arg.parse::<u16>().is_err()) {
        return None;
    }
    let near = UnknownName::new("stage", stage, ["before", "after"]).did_you_mean?;
    Some(format!("{task}/{near}{}", arg.map(|arg| format!("/{arg}")).unwrap_or_default()))
}

/// The meaning of a word on the command line.
enum Meaning {
    Dump,
    Record(Result<RecordName, SelectorError>),
}

fn usage(message: String) -> UsageError {
    UsageError { message, hint: HOW_RECORDS_ARE_NAMED.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_dump_and_record_in_either_order() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let expected = (Some(PathBuf::from("d")), Some(RecordName::Index(3)));
        assert_eq!(split(&words("d 3")).unwrap(), expected);
        assert_eq!(split(&words("3 d")).unwrap(), expected);
        assert_eq!(split(&words("3")).unwrap(), (None, expected.1));
        assert_eq!(split(&words("17 3")).unwrap(), (Some("17".into()), Some(RecordName::Index(3))));
        let kernel = RecordName::of_kernel("mul");
        let out = kernel.with_arg("out").unwrap();
        assert_eq!(split(&words("d mul out")).unwrap(), (Some("d".into()), Some(out)));
        let third = RecordName::parse("0x1").unwrap().unwrap().with_arg("2").unwrap();
        assert_eq!(split(&words("d 0x1 2")).unwrap(), (Some("d".into()), Some(third)));
        assert!(split(&words("d mul out more")).is_err(), "one too many");
        assert_eq!(split(&words("d mul")).unwrap(), (Some("d".into()), Some(kernel)));
        for wrong in ["0x1/then/3", "3 d e", "d /"] {
            assert!(split(&words(wrong)).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = split(&[text]);
        }
    }
}
