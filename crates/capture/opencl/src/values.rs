//! What is known of a command when it is submitted: its arguments by value, and what of it is not captured.

use tensortap_record::{DumpStage, RecordError, Role, StringId, Task, ThreadRecorder, UncapturedReason};

use crate::enqueue::CommandSpec;

/// Records arguments by value, and what is never captured. If `is_captured` is false, no range is captured.
pub fn record_values(
    recorder: &mut ThreadRecorder,
    task: &mut Task,
    spec: &CommandSpec,
    is_captured: bool,
) -> Result<(), RecordError> {
    for value in &spec.values {
        value.record(recorder, task)?;
    }
    for &(arg, bytes) in &spec.local {
        recorder.local_memory(task, arg, bytes, StringId::NONE)?;
    }
    let stage = DumpStage::BeforeDispatch;
    for &(arg, name) in &spec.opaque {
        recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::Opaque)?;
    }
    if let Some(arg) = spec.variables {
        let name = recorder.string("variables of the program")?;
        recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::Variables)?;
    }
    if !is_captured {
        for (range, _) in &spec.ranges {
            let (arg, name) = (range.arg, range.name);
            recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::NoProbe)?;
        }
    }
    Ok(())
}
