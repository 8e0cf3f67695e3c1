//! Holds the memory that tasks left against what their outputs should be.

use tensortap_abi::DumpStage;
use tensortap_analysis::reference::Expected;
use tensortap_format::Argument;
use tensortap_judge::Verdict;
use tensortap_values::content_hash;

use crate::batch::Concluded;
use crate::capture::Content;
use crate::check::{OutputCheck, describe};
use crate::expect::{NON_FINITE, expected};
use crate::image::{FillError, Image, read};
use crate::item::Item;
use crate::spans::View;
use crate::{Check, Grade, OnOutput, Outcome, OutputReport};

/// The memory of a launch, before and after.
pub struct Judge<'j> {
    /// Where it ran.
    pub platform: &'static str,
    /// What the tasks were given.
    pub image: &'j Image,
    /// What they left.
    pub after: &'j [u8],
    /// Whether results are to be told apart.
    pub hashed: bool,
    /// Of each span of the task, whether the guard behind it was in device memory.
    pub guarded: &'j [bool],
    /// Takes what tasks write.
    pub on_output: OnOutput<'j>,
}

/// What an output should hold.
enum Should {
    /// These bytes, as far as they go.
    Bytes(Vec<u8>),
    /// What a reference gives.
    Reference(Expected),
}

/// What was found of a task's outputs.
#[derive(Default)]
struct Found {
    outputs: Vec<OutputReport>,
    result: Vec<u128>,
    /// Why an output could not be compared.
    unknown: Option<String>,
    /// Whether kernel and reference need not agree.
    undecided: bool,
}

impl Judge<'_> {
    /// What came of a task.
    pub fn task(&self, index: usize, item: &Item<'_>) -> Result<Concluded, FillError> {
        let mut found = Found::default();
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
                found.result.push(content_hash(&actual));
            }
            let should = match &mut references {
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
            match should {
                Ok(should) => found.compare(&comparison, &actual, should),
                Err(why) => found.unknown = Some(why),
            }
        }
        let outcome = match self.image.stray_write(self.after, index, item, self.guarded) {
            Some(stray) => Outcome::Failed(stray),
            None => self.outcome(item, &found),
        };
        Ok(Concluded { outcome, outputs: found.outputs, result: found.result })
    }

    /// The references on what the task was really given, replaced arguments among it.
    fn references(&self, index: usize, item: &Item<'_>) -> Result<Vec<Expected>, String> {
        let views: Vec<&View> = item.spans.views.iter().collect();
        expected(&item.kernels, item.capture, item.task, item.scalars(), |tensor, content| {
            let view = views[usize::from(tensor.arg_index)];
            let Some(span) = view.span else { return Ok(()) };
            // Memory for its values must be in proportion to memory that is there.
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

    fn outcome(&self, item: &Item<'_>, found: &Found) -> Outcome {
        let Found { outputs, unknown, undecided, .. } = found;
        let by_bits = item.check == Check::Captured && self.platform == item.capture.run().platform;
        let relevant = |output: &&OutputReport| item.dispatch.is_none() || output.compared > 0;
        let wrong = outputs
            .iter()
            .filter(relevant)
            .find(|output| if by_bits { !output.bitexact() } else { output.verdict() != Verdict::Within });
        if item.capture.redacted() && item.check != Check::Reference {
            return Outcome::Unchecked("the case is redacted, so its outputs cannot be checked".into());
        }
        // A reference that says nothing of one output is no reason to trust the others.
        let silent = item.check == Check::Reference && unknown.is_some();
        if outputs.is_empty() || silent {
            let why = unknown.as_deref().unwrap_or("it has no outputs");
            return Outcome::Unchecked(format!("its outputs cannot be checked: {why}"));
        }
        if outputs.iter().find(relevant).is_none() {
            return Outcome::Failed(
                "the dispatch changed no element of any output: nothing was compared".into(),
            );
        }
        match wrong {
            Some(_) if *undecided => Outcome::Unchecked(NON_FINITE.into()),
            Some(output) => {
                let inexact = item.args.iter().any(|arg| arg.grade != Grade::Exact);
                let note = if inexact { " (some arguments are not as captured)" } else { "" };
                Outcome::Failed(describe(output, item.check) + note)
            }
            None if item.check == Check::Captured && outputs.iter().all(|o| o.different == 0) => {
                Outcome::BitExact
            }
            None => Outcome::WithinRule,
        }
    }
}

impl Found {
    fn compare(&mut self, comparison: &OutputCheck<'_>, actual: &[u8], should: Should) {
        self.outputs.push(match should {
            Should::Bytes(expected) => comparison.report(actual, &expected),
            Should::Reference(expected) => {
                self.undecided |= expected.from_non_finite;
                comparison.against_reference(actual, &expected)
            }
        });
    }
}

/// Takes what a reference says of an output.
fn of_reference(
    references: &mut Result<Vec<Expected>, String>,
    tensor: Argument<'_>,
) -> Result<Should, String> {
    let all = references.as_mut().map_err(|why| why.clone())?;
    let place = all.iter().position(|e| e.arg_index == tensor.arg_index);
    let place = place.ok_or_else(|| format!("the reference does not write argument {}", tensor.arg_index))?;
    Ok(Should::Reference(all.swap_remove(place)))
}

/// The inner error says why it is not known.
fn of_capture(item: &Item<'_>, tensor: Argument<'_>) -> Result<Result<Should, String>, FillError> {
    let mut bytes = Vec::new();
    let after = item.content(tensor, DumpStage::AfterCompletion);
    let blob = match &after {
        Content::Whole(blob) | Content::Part(blob) => blob,
        Content::Noise(_) => return Ok(Err("its content was redacted".to_string())),
        Content::Missing(why) => return Ok(Err(format!("argument {}: {why}", tensor.arg_index))),
    };
    read(item, tensor, blob, &mut bytes)?;
    Ok(Ok(match (item.check, &after) {
        (Check::CaseReference, Content::Whole(_)) => Should::Reference(of_case(tensor, &bytes)),
        _ => Should::Bytes(bytes),
    }))
}

/// What a case keeps of a reference.
fn of_case(tensor: Argument<'_>, bytes: &[u8]) -> Expected {
    let (dtype, bytes) = tensortap_analysis::reference::as_compared(tensor.dtype, bytes);
    Expected {
        arg_index: tensor.arg_index,
        bytes: bytes.into_owned(),
        dtype,
        shape: tensor.shape().to_vec(),
        from_non_finite: false,
    }
}
