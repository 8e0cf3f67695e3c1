use std::fmt;
use std::str::FromStr;

use tensortap_abi::{DumpStage, Role, TaskId};

/// The export name of a record's array: `task_<id>_<before|after>_<in|out|inout><arg>`, with the prefix
/// `step<n>_` if the dump has several steps.
///
/// ```
/// use tensortap_interchange::ArrayName;
/// let name: ArrayName = "task_0x0000000100000002_after_out1".parse().unwrap();
/// assert_eq!((name.task_id, name.arg_index), (0x1_0000_0002, 1));
/// assert_eq!(name.to_string(), "task_0x0000000100000002_after_out1");
/// assert!("weights".parse::<ArrayName>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayName {
    /// Step of the task, if the dump has several.
    pub step: Option<u32>,
    /// Task.
    pub task_id: u64,
    /// Stage of the capture.
    pub stage: DumpStage,
    /// Direction.
    pub role: Role,
    /// Position in the task's payload.
    pub arg_index: u16,
    /// Position in the dump, as in `…_r17`, if another record has all other parts in common.
    pub index: Option<u64>,
}

/// The text is not an export name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a record's array; such names look like task_0x0000000000000003_after_out1")]
pub struct RecordNameError;

impl fmt::Display for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArrayName { step, task_id, stage, role, arg_index, index } = *self;
        step.map_or(Ok(()), |step| write!(f, "step{step}_"))?;
        write!(f, "task_{}_{}_{}{arg_index}", TaskId(task_id), stage.word(), role_word(role))?;
        index.map_or(Ok(()), |index| write!(f, "_r{index}"))
    }
}

impl FromStr for ArrayName {
    type Err = RecordNameError;

    fn from_str(text: &str) -> Result<ArrayName, RecordNameError> {
        parse(text).ok_or(RecordNameError)
    }
}

fn parse(text: &str) -> Option<ArrayName> {
    let (step, text) = match text.strip_prefix("step") {
        Some(rest) => {
            let (step, rest) = rest.split_once('_')?;
            (Some(u32::try_from(digits(step)?).ok()?), rest)
        }
        None => (None, text),
    };
    let mut parts = text.strip_prefix("task_")?.split('_');
    let (task, stage, argument) = (parts.next()?, parts.next()?, parts.next()?);
    let index = match parts.next() {
        Some(part) => Some(digits(part.strip_prefix('r')?)?),
        None => None,
    };
    let task_id = match task.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(hex, 16).ok()?
        }
        Some(_) => return None,
        None => digits(task)?,
    };
    let stage = DumpStage::from_word(stage)?;
    let place = argument.find(|letter: char| letter.is_ascii_digit())?;
    let (role, number) = argument.split_at(place);
    let role = Role::ALL.into_iter().find(|known| role_word(*known) == role)?;
    let arg_index = u16::try_from(digits(number)?).ok()?;
    parts.next().is_none().then_some(ArrayName { step, task_id, stage, role, arg_index, index })
}

/// Parses digits only; `parse` would accept a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A role in a file name.
#[must_use]
pub const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Input => "in",
        Role::Output => "out",
        Role::InOut => "inout",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_read_back(
            step: Option<u32>,
            task_id: u64,
            after: bool,
            role in prop::sample::select(&Role::ALL[..]),
            arg_index: u16,
            index: Option<u64>,
        ) {
            let stage = if after { DumpStage::AfterCompletion } else { DumpStage::BeforeDispatch };
            let name = ArrayName { step, task_id, stage, role, arg_index, index };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn any_text_is_accepted_or_rejected_without_a_panic(text in "(step[0-9]{0,3}_)?(task_)?[0-9a-fx+-]{0,5}_(before|after|x)_(in|out|inout)?[0-9+]{0,6}(_r?[0-9]*)?") {
            let _ = text.parse::<ArrayName>();
        }
    }

    #[test]
    fn other_spellings_of_a_task_are_accepted_and_signs_are_rejected() {
        for text in ["task_18_before_in0", "task_0x12_before_in0"] {
            assert_eq!(text.parse::<ArrayName>().unwrap().task_id, 18);
        }
        for text in
            ["task_+18_before_in0", "task_0x+1_before_in0", "task_1_before_in+0", "task_1_before_in0_1"]
        {
            assert!(text.parse::<ArrayName>().is_err(), "{text}");
        }
    }
}
