use tensortap_abi::{DumpStage, RecordKind, TaskDumpRecord};
use tensortap_format::IndexRecord;

/// What has come of a task that was not judged yet.
#[derive(Debug, Default)]
pub(super) struct WaitingTask {
    /// The task itself; after its completion, with the time of it.
    pub(super) task: Option<TaskDumpRecord>,
    pub(super) tensors: Vec<IndexRecord>,
    /// Position and bits.
    pub(super) scalars: Vec<(u16, u64)>,
    /// Every record that the golden has of it has come.
    pub(super) complete: bool,
}

impl WaitingTask {
    /// Takes a record of the task.
    pub(super) fn take(&mut self, record: &IndexRecord) {
        match record.kind() {
            RecordKind::Task => {
                let known = self.task.is_some_and(|task| task.completed_ns != 0);
                self.task = record.as_task().filter(|_| !known).or(self.task);
            }
            RecordKind::Scalar => {
                self.scalars.push((record.fields().arg_index, record.fields().payload_pos));
            }
            _ => self.tensors.push(record.clone()),
        }
    }

    pub(super) fn tensor(&self, stage: DumpStage, arg_index: u16) -> Option<&IndexRecord> {
        self.tensors.iter().find(|r| r.stage() == Some(stage) && r.fields().arg_index == arg_index)
    }

    pub(super) fn scalar(&self, arg_index: u16) -> Option<u64> {
        self.scalars.iter().find(|(index, _)| *index == arg_index).map(|(_, bits)| *bits)
    }

    /// Whether the device said that it has ended, and all of it was captured.
    pub(super) fn is_completed(&self) -> bool {
        self.task.is_some_and(|task| task.completed_ns != 0) && self.tensors.iter().all(|r| !r.is_in_flight())
    }
}
