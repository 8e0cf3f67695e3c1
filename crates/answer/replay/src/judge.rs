//! Compares the memory after a launch with the expected outputs of its tasks.

use tensortap_abi::DumpStage;
use tensortap_analysis::reference::ExpectedTensor;
use tensortap_format::Argument;
use tensortap_judge::Verdict;
use tensortap_values::content_hash;

use crate::batch::RunResult;
use crate::capture::Content;
use crate::check::{OutputCheck, describe};
use crate::expect::{NON_FINITE, expected};
use crate::image::{FillError, Image, read};
use crate::item::Item;
use crate::spans::View;
use crate::{Check, Grade, OnOutput, Outcome, OutputReport};

/// The memory of a launch before and after it ran.
pub struct Judge<'j> {
    /// Platform of the launch.
    pub platform: &'static str,
    /// Memory before the launch.
    pub image: &'j Image,
    /// Memory after the launch.
    pub after: &'j [u8],
    /// Whether to hash results, to detect nondeterminism.
    pub hashed: bool,
    /// For each span of the task, whether device memory included its guard.
    pub guarded: &'j [bool],
    /// Receives the outputs of tasks.
    pub on_output: OnOutput<'j>,
}

/// Expected content of an output.
enum ExpectedOutput {
    /// These bytes, which may be shorter than the output.
    Bytes(Vec<u8>),
    /// The result of a reference.
    Reference(ExpectedTensor),
}

/// Comparison results of a task's outputs.
#[derive(Default)]
struct OutputFindings {
    outputs: Vec<OutputReport>,
    result: Vec<u128>,
    /// Why an output could not be compared.
    unknown: Option<String>,
    /// Whether kernel and reference may legitimately differ.
    undecided: bool,
}

impl Judge<'_> {
    /// The result of a task.
    pub fn task(&self, index: usize, item: &Item<'_>) -> Result<RunResult, FillError> {
        let mut findings = OutputFindings::default();
        let (mut actual, mut before) = (Vec::new(), Vec::new());
        let mut references = (item.check == Check::Reference).then(|| self.references(index, item));
        for (tensor, view) in item.tensors.iter().zip(&item.spans.views).filter(|(t, _)| t.role.writes()) {
            actual.clear();
            before.clear();
            if let Some(span) = view.span {
                self.image.gather(self.after, index, item, span, view, &mut actual);
                if item.dispatch.is_some() {
                    self.image.gather(&self.image.bytes, index, item, span, view, &mut before);
                }
            }
            let (key, slot) = (item.task.key(), tensor.arg_index);
            (self.on_output)(key, item.capture.recorded_index(key, slot), &actual);
            if self.hashed {
                findings.result.push(content_hash(&actual));
            }
            let expected_output = match &mut references {
                Some(references) => of_reference(references, *tensor),
                None => of_capture(item, *tensor)?,
            };
            let comparison = OutputCheck {
                arg_index: tensor.arg_index,
                dtype: tensor.dtype,
                shape: tensor.shape(),
                elements: view.layout.numel(),
                tolerance: item.tolerance,
                before: item.dispatch.map(|_| before.as_slice()),
            };
            match expected_output {
                Ok(expected_output) => findings.compare(&comparison, &actual, expected_output),
                Err(why) => findings.unknown = Some(why),
            }
        }
        let outcome = match self.image.stray_write(self.after, index, item, self.guarded) {
            Some(stray) => Outcome::Failed(stray),
            None => self.outcome(item, &findings),
        };
        Ok(RunResult { outcome, outputs: findings.outputs, result: findings.result })
    }

    /// Runs the references on the actual inputs, including replaced arguments.
    fn references(&self, index: usize, item: &Item<'_>) -> Result<Vec<ExpectedTensor>, String> {
        let views: Vec<&View> = item.spans.views.iter().collect();
        expected(&item.kernels, item.capture, item.task, item.scalars(), |tensor, content| {
            let view = views[usize::from(tensor.arg_index)];
            let Some(span) = view.span else { return Ok(()) };
            // Do not allocate more than the task's own memory.
            if tensor.content_bytes().is_none_or(|bytes| bytes > item.spans.spans[span].bytes)
                && tensor.role.writes()
            {
                return Err(format!("argument {} writes elements that overlap", tensor.arg_index));
            }
            self.image.gather(&self.image.bytes, index, item, span, view, content);
            Ok(())
        })
        .map_err(|error| error.to_string())
    }

    fn outcome(&self, item: &Item<'_>, findings: &OutputFindings) -> Outcome {
        let OutputFindings { outputs, unknown, undecided, .. } = findings;
        let by_bits = item.check == Check::Captured && self.platform == item.capture.run().platform;
        let relevant = |output: &&OutputReport| item.dispatch.is_none() || output.compared > 0;
        let wrong = outputs
            .iter()
            .filter(relevant)
            .find(|output| if by_bits { !output.bitexact() } else { output.verdict() != Verdict::Within });
        if item.capture.is_redacted() && item.check != Check::Reference {
            return Outcome::Unchecked("the case is redacted, so its outputs cannot be checked".into());
        }
        // If a reference lacks one output, the others are not trusted either.
        let silent = item.check == Check::Reference && unknown.is_some();
        if outputs.is_empty() || silent {
            let why = unknown.as_deref().unwrap_or("it has no outputs");
            return Outcome::Unchecked(format!("its outputs cannot be checked: {why}"));
        }
        if outputs.iter().find(relevant).is_none() {
            return Outcome::Failed("the dispatch changed no output element, so nothing was compared".into());
        }
        match wrong {
            Some(_) if *undecided => Outcome::Unchecked(NON_FINITE.into()),
            Some(output) => {
                let inexact = item.args.iter().any(|arg| arg.grade != Grade::Exact);
                let note = if inexact { " (some arguments are inexact)" } else { "" };
                Outcome::Failed(describe(output, item.check) + note)
            }
            None if item.check == Check::Captured && outputs.iter().all(|o| o.different == 0) => {
                Outcome::BitExact
            }
            None => Outcome::WithinRule,
        }
    }
}

impl OutputFindings {
    fn compare(&mut self, comparison: &OutputCheck<'_>, actual: &[u8], expected_output: ExpectedOutput) {
        self.outputs.push(match expected_output {
            ExpectedOutput::Bytes(expected) => comparison.report(actual, &expected),
            ExpectedOutput::Reference(expected) => {
                self.undecided |= expected.from_non_finite;
                comparison.against_reference(actual, &expected)
            }
        });
    }
}

/// Takes the reference result for an output.
fn of_reference(
    references: &mut Result<Vec<ExpectedTensor>, String>,
    tensor: Argument<'_>,
) -> Result<ExpectedOutput, String> {
    let all = references.as_mut().map_err(|why| why.clone())?;
    let place = all.iter().position(|e| e.arg_index == tensor.arg_index);
    let place = place.ok_or_else(|| format!("the reference does not write argument {}", tensor.arg_index))?;
    Ok(ExpectedOutput::Reference(all.swap_remove(place)))
}

/// The captured content of an output. The inner error says why it is unknown.
fn of_capture(item: &Item<'_>, tensor: Argument<'_>) -> Result<Result<ExpectedOutput, String>, FillError> {
    let mut bytes = Vec::new();
    let after = item.content(tensor, DumpStage::AfterCompletion);
    let blob = match &after {
        Content::Whole(blob) | Content::Part(blob) => blob,
        Content::Noise(_) => return Ok(Err("its content was redacted".to_string())),
        Content::Missing(why) => return Ok(Err(format!("argument {}: {why}", tensor.arg_index))),
    };
    read(item, tensor, blob, &mut bytes)?;
    Ok(Ok(match (item.check, &after) {
        (Check::CaseReference, Content::Whole(_)) => ExpectedOutput::Reference(of_case(tensor, &bytes)),
        _ => ExpectedOutput::Bytes(bytes),
    }))
}

/// The reference result that a case stores.
fn of_case(tensor: Argument<'_>, bytes: &[u8]) -> ExpectedTensor {
    let (dtype, bytes) = tensortap_analysis::reference::as_compared(tensor.dtype, bytes);
    ExpectedTensor {
        arg_index: tensor.arg_index,
        bytes: bytes.into_owned(),
        dtype,
        shape: tensor.shape().to_vec(),
        from_non_finite: false,
    }
}
