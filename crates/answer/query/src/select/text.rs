//! Parses selectors from one line of text, as in a search field. The words are those of the command line.

use std::str::FromStr;

use tensortap::format::ArgumentKind;

use super::{HashPrefix, Selectors, ShapePattern, parse_dtype, parse_stage};
use crate::ids::{IdRange, parse_arg_choice, parse_range, parse_task_choice, split_list};
use crate::{RoleChoice, SelectorError};

/// The selectors that have a value.
pub(super) const KEYS: [&str; 15] = [
    "task", "step", "func", "scope", "stage", "role", "arg", "index", "kind", "dtype", "shape", "hash",
    "dispatch", "core", "block",
];
pub(super) const NAN: &str = "nan";

impl FromStr for Selectors {
    type Err = SelectorError;

    /// Parses `--func mul --stage after`, or shorter `func:mul stage:after` or `func=mul`. A bare word is a
    /// task, a bare `nan` is the NaN selector. Words with a space need quotes.
    ///
    /// ```
    /// use tensortap_query::Selectors;
    /// let long: Selectors = "--scope 'layer 1' --stage after --nan".parse()?;
    /// let short: Selectors = "scope:'layer 1' stage:after nan".parse()?;
    /// assert_eq!(long, short);
    /// let tasks: Selectors = "softmax 1:2".parse()?;
    /// assert_eq!(tasks.task.len(), 2);
    /// assert!("--frobnicate 3".parse::<Selectors>().is_err());
    /// # Ok::<(), tensortap_query::SelectorError>(())
    /// ```
    fn from_str(text: &str) -> Result<Selectors, SelectorError> {
        let mut selectors = Selectors::default();
        let mut words = words(text).into_iter();
        while let Some(word) = words.next() {
            match key_of(&word)? {
                Token::Nan => selectors.nan = true,
                Token::Key(key) => {
                    let value = words.next().ok_or(SelectorError::NoValue(key))?;
                    selectors.take(key, &value)?;
                }
                Token::With(key, value) => selectors.take(key, value)?,
                Token::Task => selectors.take("task", &word)?,
            }
        }
        Ok(selectors)
    }
}

/// The meaning of a word.
enum Token<'a> {
    Nan,
    Key(&'static str),
    With(&'static str, &'a str),
    Task,
}

fn key_of(word: &str) -> Result<Token<'_>, SelectorError> {
    let known = |name: &str| KEYS.into_iter().find(|key| key.eq_ignore_ascii_case(name));
    let option = word.strip_prefix("--");
    let name = option.unwrap_or(word);
    if name.eq_ignore_ascii_case(NAN) {
        return Ok(Token::Nan);
    }
    if let Some((key, value)) = name.split_once(['=', ':'])
        && let Some(key) = known(key)
    {
        return Ok(Token::With(key, value));
    }
    match option {
        Some(name) => {
            known(name).map(Token::Key).ok_or(SelectorError::NoSelector { selectors: KEYS.to_vec() })
        }
        None => Ok(Token::Task),
    }
}

/// Splits a text at spaces outside of quotes. Double quotes are kept, because lists need them.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some('\''), '\'') => quote = None,
            (Some(open), c) => {
                word.get_or_insert_default().push(c);
                if c == open {
                    quote = None;
                }
            }
            (None, '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => {
                word.get_or_insert_default().push(c);
                if c == '"' {
                    quote = Some(c);
                }
            }
        }
    }
    words.extend(word);
    words
}

impl Selectors {
    fn take(&mut self, key: &'static str, value: &str) -> Result<(), SelectorError> {
        let one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        match key {
            "task" => extend(&mut self.task, value, parse_task_choice)?,
            "func" => extend(&mut self.func, value, |word| Ok(word.to_owned()))?,
            "scope" => extend(&mut self.scope, value, |word| Ok(word.to_owned()))?,
            "arg" => extend(&mut self.arg, value, parse_arg_choice)?,
            "role" => extend(&mut self.role, value, parse_role)?,
            "dtype" => {
                extend(&mut self.dtype, value, |word| parse_dtype(word).ok_or(SelectorError::NoDtype))?
            }
            "shape" => extend(&mut self.shape, value, ShapePattern::parse)?,
            "hash" => extend(&mut self.hash, value, HashPrefix::parse)?,
            "step" => ranges(&mut self.step, value)?,
            "index" => ranges(&mut self.index, value)?,
            "dispatch" => ranges(&mut self.dispatch, value)?,
            "core" => ranges(&mut self.core, value)?,
            "block" => ranges(&mut self.block, value)?,
            "stage" => self.stage = Some(parse_stage(&value.to_ascii_lowercase())?),
            "kind" if one_of(&["tensor"]) => self.kind = Some(ArgumentKind::Tensor),
            "kind" if one_of(&["scalar"]) => self.kind = Some(ArgumentKind::Scalar),
            _ => return Err(SelectorError::NoKind),
        }
        Ok(())
    }
}

fn extend<T>(
    list: &mut Vec<T>,
    value: &str,
    parse: impl Fn(&str) -> Result<T, SelectorError>,
) -> Result<(), SelectorError> {
    for word in split_list(value)? {
        list.push(parse(&word)?);
    }
    Ok(())
}

fn ranges(list: &mut Vec<IdRange>, value: &str) -> Result<(), SelectorError> {
    extend(list, value, parse_range)
}

fn parse_role(word: &str) -> Result<RoleChoice, SelectorError> {
    RoleChoice::parse(word).ok_or(SelectorError::NoRole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tensortap::{DType, DumpStage};

    use super::*;

    #[test]
    fn parses_every_selector_in_every_spelling() {
        let wanted = Selectors {
            task: vec![parse_task_choice("mul").unwrap()],
            step: vec![(2, 2), (5, 7)],
            func: vec!["add*".into()],
            scope: vec!["layer 1".into(), "heads 0,1".into()],
            stage: Some(DumpStage::AfterCompletion),
            role: ["input", "inout", "changed"].map(|word| RoleChoice::parse(word).unwrap()).to_vec(),
            arg: vec![parse_arg_choice("scores").unwrap()],
            index: vec![(17, 17)],
            kind: Some(ArgumentKind::Tensor),
            dtype: vec![DType::Float32],
            shape: vec![ShapePattern::parse("16x*").unwrap()],
            hash: vec![HashPrefix::parse("765e").unwrap()],
            dispatch: vec![(3, 3)],
            core: vec![(0, 5)],
            block: vec![(1, 1)],
            nan: true,
        };
        let short = "mul step:2,5-7 func:add* scope:'layer 1,\"heads 0,1\"' stage:after role:in,inout,changed arg:scores \
                     index:17 kind:tensor dtype:f32 shape:16x* hash:765e dispatch:3 core:0-5 block:1 nan";
        let long = "--task mul --step 2,5-7 --func add* --scope 'layer 1,\"heads 0,1\"' --stage after \
                    --role in,inout,Changed --arg scores --index 17 --kind tensor --dtype f32 --shape 16x* --hash 765e \
                    --dispatch 3 --core 0-5 --block 1 --nan";
        assert_eq!(short.parse(), Ok(wanted.clone()));
        assert_eq!(long.parse(), Ok(wanted));
        assert_eq!("  ".parse(), Ok(Selectors::default()));
    }

    #[test]
    fn rejects_unknown_selectors_and_lists_the_known_ones() {
        for (text, part) in [
            ("--size 3", "task, step, func"),
            ("--func", "needs a value"),
            ("role:left", "same, changed"),
            ("kind:vector", "tensor or scalar"),
            ("dtype:float5", "float32"),
            ("stage:later", "before or after"),
        ] {
            let error = text.parse::<Selectors>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Selectors>();
        }
    }
}
