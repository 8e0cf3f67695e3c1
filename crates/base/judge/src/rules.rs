//! Rules files: which rule applies to which argument. A rules file is TOML. Its rules are tried in order, and
//! the first match decides. If none matches, the [`Profile`] decides.
//!
//! ```toml
//! [[rule]]
//! func = "softmax|pv"        # long sums
//! rtol = 2e-2
//! atol = 1e-3
//!
//! [[rule]]
//! task = "0x00000001.*"
//! arg = "[23]"
//! ulps = 2
//! nan_equal = false
//!
//! [[rule]]
//! profile = "bitexact"       # everything else
//! ```
//!
//! `task`, `func` and `arg` are regular expressions for the task id as spelled in the manifest, the names of
//! the task's kernels (one must match) and the argument's index. Each must match the whole text; a missing
//! one matches everything. A rule has exactly one of: `rtol` and `atol` (with only one, the other is 0),
//! `ulps`, or `profile`. `nan_equal` and `small` are optional.

use std::ops::Range;

use regex_lite::Regex;
use serde::Deserialize;
use tensortap_abi::DType;
use thiserror::Error;
use toml::Spanned;

use crate::metrics::{Predicate, Rule};

/// Size limit of a rules file.
pub const MAX_RULES_BYTES: usize = 1 << 20;

/// The rule if no rule of the file matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The default tolerances of each dtype.
    #[default]
    Default,
    /// Equal bits, for the same kernel on the same device.
    BitExact,
}

impl Profile {
    /// The rule of this profile for a dtype.
    #[must_use]
    pub fn rule(self, dtype: DType) -> Rule {
        match self {
            Profile::Default => Rule::for_dtype(dtype),
            Profile::BitExact => Rule::bitexact(dtype),
        }
    }
}

/// What is wrong with a rules file. Lines count from 1. The caller adds the name of the file.
#[derive(Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum RulesError {
    #[error("the file has {bytes} bytes, more than the limit of {MAX_RULES_BYTES}; split or shorten it")]
    TooLarge { bytes: usize },

    #[error("line {line}: {message}")]
    Syntax { line: usize, message: String },

    #[error("line {line}: {key} is not a regular expression: {message}")]
    Pattern { line: usize, key: &'static str, message: String },

    #[error(
        "line {line}: a rule must have exactly one of rtol and atol, ulps, or profile; this one has \
     {found}"
    )]
    Predicate { line: usize, found: &'static str },

    #[error("line {line}: {key} must be a number that is not negative")]
    Negative { line: usize, key: &'static str },
}

/// The argument that a rule is looked up for.
#[derive(Clone, Copy, Debug)]
pub struct RuleSubject<'a> {
    /// Task id as spelled in the manifest.
    pub task_id: &'a str,
    /// Names of the task's kernels.
    pub kernels: &'a [&'a str],
    /// Index of the argument.
    pub arg_index: u32,
    /// Dtype of the dump.
    pub dtype: DType,
}

/// The rules of a file, in order, with a profile as the default.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{Predicate, Profile, Rules, RuleSubject};
///
/// let rules = Rules::parse("[[rule]]\nfunc = 'add'\nulps = 2\n", Profile::Default)?;
/// let subject = |kernels| RuleSubject { task_id: "0x0000000000000007", kernels, arg_index: 2, dtype: DType::Float32 };
/// assert_eq!(rules.rule_for(&subject(&["mul", "add"])).predicate, Predicate::Ulps(2));
/// assert_eq!(rules.rule_for(&subject(&["add_one"])).predicate, Predicate::Close { rtol: 1.3e-6, atol: 1e-5 });
/// # Ok::<(), tensortap_judge::RulesError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules {
    entries: Vec<Entry>,
    profile: Profile,
}

#[derive(Clone, Debug)]
struct Entry {
    task: Option<Regex>,
    func: Option<Regex>,
    arg: Option<Regex>,
    criterion: Criterion,
    nan_equal: Option<bool>,
    small: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Criterion {
    Predicate(Predicate),
    Profile(Profile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

/// A rule as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    task: Option<Spanned<String>>,
    func: Option<Spanned<String>>,
    arg: Option<Spanned<String>>,
    rtol: Option<Spanned<f64>>,
    atol: Option<Spanned<f64>>,
    ulps: Option<u64>,
    profile: Option<Profile>,
    nan_equal: Option<bool>,
    small: Option<Spanned<f64>>,
}

impl Rules {
    /// No rules, only a profile.
    #[must_use]
    pub fn of_profile(profile: Profile) -> Rules {
        Rules { entries: Vec::new(), profile }
    }

    /// Parses the text of a rules file.
    ///
    /// # Errors
    /// The text is too long, is not TOML, or has an invalid rule.
    pub fn parse(text: &str, profile: Profile) -> Result<Rules, RulesError> {
        if text.len() > MAX_RULES_BYTES {
            return Err(RulesError::TooLarge { bytes: text.len() });
        }
        let file: File = toml::from_str(text).map_err(|error| RulesError::Syntax {
            line: line_of(text, &error.span().unwrap_or_default()),
            message: error.message().into(),
        })?;
        let entries = file.rule.into_iter().map(|written| entry(text, written)).collect::<Result<_, _>>()?;
        Ok(Rules { entries, profile })
    }

    /// Whether tasks of the same kernels may have different rules.
    #[must_use]
    pub fn distinguishes_tasks(&self) -> bool {
        self.entries.iter().any(|entry| entry.task.is_some())
    }

    /// The rule of an argument.
    #[must_use]
    pub fn rule_for(&self, subject: &RuleSubject<'_>) -> Rule {
        self.first_match(subject).unwrap_or_else(|| self.profile.rule(subject.dtype))
    }

    /// The first matching rule of the file for an argument, if any.
    #[must_use]
    pub fn first_match(&self, subject: &RuleSubject<'_>) -> Option<Rule> {
        let entry = self.entries.iter().find(|entry| entry.matches(subject))?;
        let rule = match entry.criterion {
            Criterion::Predicate(predicate) => Rule { predicate, ..Rule::for_dtype(subject.dtype) },
            Criterion::Profile(profile) => profile.rule(subject.dtype),
        };
        let nan_equal = entry.nan_equal.unwrap_or(rule.nan_equal);
        Some(Rule { nan_equal, small: entry.small.unwrap_or(rule.small), ..rule })
    }
}

impl Entry {
    fn matches(&self, subject: &RuleSubject<'_>) -> bool {
        let fits = |pattern: &Option<Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        let func = || self.func.is_none() || subject.kernels.iter().any(|kernel| fits(&self.func, kernel));
        fits(&self.task, subject.task_id) && func() && fits(&self.arg, &subject.arg_index.to_string())
    }
}

fn entry(text: &str, written: Spanned<RuleText>) -> Result<Entry, RulesError> {
    let line = line_of(text, &written.span());
    let written = written.into_inner();
    let criterion = criterion(text, line, &written)?;
    let small = not_negative(text, "small", written.small.as_ref())?;
    let RuleText { task, func, arg, nan_equal, .. } = written;
    Ok(Entry {
        task: pattern(text, "task", task)?,
        func: pattern(text, "func", func)?,
        arg: pattern(text, "arg", arg)?,
        criterion,
        nan_equal,
        small,
    })
}

fn criterion(text: &str, line: usize, written: &RuleText) -> Result<Criterion, RulesError> {
    let rtol = not_negative(text, "rtol", written.rtol.as_ref())?;
    let atol = not_negative(text, "atol", written.atol.as_ref())?;
    match (rtol.or(atol), written.ulps, written.profile) {
        (Some(_), None, None) => {
            let (rtol, atol) = (rtol.unwrap_or(0.0), atol.unwrap_or(0.0));
            Ok(Criterion::Predicate(Predicate::Close { rtol, atol }))
        }
        (None, Some(ulps), None) => Ok(Criterion::Predicate(Predicate::Ulps(ulps))),
        (None, None, Some(profile)) => Ok(Criterion::Profile(profile)),
        (None, None, None) => Err(RulesError::Predicate { line, found: "none" }),
        _ => Err(RulesError::Predicate { line, found: "several" }),
    }
}

fn not_negative(
    text: &str,
    key: &'static str,
    value: Option<&Spanned<f64>>,
) -> Result<Option<f64>, RulesError> {
    let Some(value) = value else { return Ok(None) };
    let number = *value.get_ref();
    if number.is_nan() || number < 0.0 {
        return Err(RulesError::Negative { line: line_of(text, &value.span()), key });
    }
    Ok(Some(number))
}

fn pattern(
    text: &str,
    key: &'static str,
    written: Option<Spanned<String>>,
) -> Result<Option<Regex>, RulesError> {
    let Some(written) = written else { return Ok(None) };
    let line = line_of(text, &written.span());
    let refused = |error: regex_lite::Error| RulesError::Pattern { line, key, message: error.to_string() };
    // The pattern is compiled without the group first, so that it cannot close the group around it.
    Regex::new(written.get_ref()).map_err(refused)?;
    Regex::new(&format!("^(?:{})$", written.get_ref())).map(Some).map_err(refused)
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
