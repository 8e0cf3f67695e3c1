//! Compares the memory after a launch with the captured content.

use tensortap_abi::{DType, DumpStage};
use tensortap_format::Task;
use tensortap_judge::Verdict;
use tensortap_values::content_hash;

use super::LaunchContext;
use super::contents::Range;
use crate::capture::Content;
use crate::check::{OutputCheck, describe};
use crate::{Check, Outcome, OutputReport, ReplayError};

impl LaunchContext<'_> {
    /// Compares the memory after a launch with the captured content. Corrupt captured content refuses the
    /// task.
    pub(super) fn judge(
        &self,
        task: Task<'_>,
        ranges: &[Range],
        left: &[Vec<u8>],
        by_bits: bool,
    ) -> Result<(Vec<OutputReport>, Outcome), ReplayError> {
        let (mut outputs, mut unknown, mut other_hash) = (Vec::new(), None, None);
        for range in ranges {
            let Some(argument) = task.argument(range.arg_index) else { continue };
            let actual = range.of(left);
            (self.on_output)(task.key(), range.arg_index, actual);
            let content = self.contents.of(task, argument, DumpStage::AfterCompletion);
            let (expected, elements) = match content {
                Content::Whole(blob) | Content::Part(blob) => match self.contents.read(&blob)? {
                    Ok(bytes) => (bytes, argument.numel().unwrap_or(0)),
                    Err(why) => {
                        let why = format!("argument {}: {why}", range.arg_index);
                        return Ok((Vec::new(), Outcome::Refused(why)));
                    }
                },
                // An equal hash proves equal content.
                Content::Missing(_) if argument.hash_after() == Some(content_hash(actual)) => {
                    (actual.to_vec(), argument.numel().unwrap_or(0))
                }
                Content::Missing(_) if argument.hash_after().is_some() => {
                    other_hash.get_or_insert(range.arg_index);
                    continue;
                }
                Content::Missing(why) => {
                    unknown.get_or_insert(format!("argument {}: {why}", range.arg_index));
                    continue;
                }
                Content::Noise(_) => continue,
            };
            let check = OutputCheck {
                arg_index: range.arg_index,
                dtype: argument.dtype,
                shape: argument.shape(),
                elements,
                tolerance: None,
                before: None,
            };
            // Most outputs are equal, and comparing bytes is faster than comparing elements.
            outputs.push(if actual == expected && !expected.is_empty() {
                same(range.arg_index, argument.dtype, elements)
            } else {
                check.report(actual, &expected)
            });
        }
        let outcome = outcome(&outputs, by_bits, other_hash, unknown);
        Ok((outputs, outcome))
    }
}

/// Report of an output without differences.
fn same(arg_index: u16, dtype: DType, elements: u64) -> OutputReport {
    let (different, outside, max_abs_err, first) = (0, 0, 0.0, None);
    OutputReport { arg_index, dtype, compared: elements, elements, different, outside, max_abs_err, first }
}

fn outcome(
    outputs: &[OutputReport],
    by_bits: bool,
    other_hash: Option<u16>,
    unknown: Option<String>,
) -> Outcome {
    let is_wrong = |output: &&OutputReport| {
        if by_bits { !output.bitexact() } else { output.verdict() != Verdict::Within }
    };
    if let Some(output) = outputs.iter().find(is_wrong) {
        return Outcome::Failed(describe(output, Check::Captured));
    }
    if let Some(arg_index) = other_hash {
        let why = format!("argument {arg_index}: its hash differs from the captured one");
        return if by_bits {
            Outcome::Failed(why)
        } else {
            Outcome::Unchecked(format!("{why}, and the content was not stored, so no rule can be applied"))
        };
    }
    match unknown {
        Some(why) => Outcome::Unchecked(format!("its outputs cannot be checked: {why}")),
        None if outputs.is_empty() => Outcome::Unchecked("it has no memory arguments".into()),
        None if outputs.iter().all(|output| output.different == 0) => Outcome::BitExact,
        None => Outcome::WithinRule,
    }
}
