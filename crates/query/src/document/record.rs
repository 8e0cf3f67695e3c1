//! One record, the same in every document: what the manifest says, and what follows from it.

use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};
use tensortap::abi::SLOTS_PER_TASK;
use tensortap::analysis::observation::Observed;
use tensortap::format::{Details, Dump, FormatError, NamedRecord, Record, RunInfo, TaskDetails};

use crate::fields::{Row, flags};
use crate::observed::ObservedRoles;
use crate::words::write_record_name;

/// One record.
#[derive(Serialize)]
pub struct RecordDocument<'a> {
    index: u64,
    /// Which of several dumps it is of; null for a dump alone.
    rank: Option<u64>,
    /// The process that was recorded, of one of several dumps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u64>,
    /// What a program says of its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    /// Number of the program that its task's code comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<u32>,
    /// File and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    name: Name<'a>,
    /// What was observed of it, where its role is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<&'static str>,
    #[serde(flatten)]
    record: NamedRecord<'a>,
    kernels: &'a [String],
    /// Bytes that the whole content takes.
    bytes: u64,
    thread: u32,
    /// The dispatch whose argument it is, in a dump of arguments alone.
    dispatch_id: Option<String>,
    core_id: Option<u32>,
    block_idx: Option<u32>,
    flags: Vec<&'static str>,
}

impl<'a> RecordDocument<'a> {
    /// The document of a row of a dump, whose kernels have these names.
    #[must_use]
    pub fn of(dump: &'a Dump, row: &Row<'a>, kernels: &'a [String], rank: Option<u64>) -> RecordDocument<'a> {
        let record = row.record;
        RecordDocument {
            index: record.index,
            rank,
            pid: None,
            step_name: None,
            queue: None,
            module: None,
            source: None,
            name: Name(record),
            observed: None,
            record: NamedRecord { record: *record, names: dump.names(record) },
            kernels,
            bytes: record.content_bytes(),
            thread: record.thread,
            dispatch_id: record.dispatch_id().map(|id| format!("{id:#018x}")),
            core_id: record.dispatch.map(|of| of.core_id),
            block_idx: record.dispatch.map(|of| of.block_idx),
            flags: flags(row).collect(),
        }
    }
}

/// What records of one dump of a program share.
pub struct OfProgram<'d> {
    /// The process, where there are several dumps.
    pid: Option<u64>,
    details: Option<Details>,
    /// By kernel, the program that holds its code.
    modules: std::collections::HashMap<u32, u32>,
    roles: ObservedRoles<'d>,
}

impl<'d> OfProgram<'d> {
    /// Of a dump, which may be of no program; then nothing.
    ///
    /// # Errors
    /// The dump cannot be read.
    pub fn of(dump: &'d Dump, is_of_several: bool) -> Result<OfProgram<'d>, FormatError> {
        let details = dump.info().is_of_program().then(|| dump.details()).transpose()?;
        Ok(OfProgram {
            pid: dump.info().process().filter(|_| is_of_several),
            details,
            roles: ObservedRoles::of(dump),
            modules: dump.info().kernels.iter().map(|kernel| (kernel.func_id, kernel.module)).collect(),
        })
    }
}

impl<'a> RecordDocument<'a> {
    /// The same with what a program says of the record's task.
    #[must_use]
    pub fn told_by(self, program: &'a OfProgram<'_>, record: &Record) -> Self {
        let details =
            program.details.as_ref().map(|details| details.of(record.task_key())).unwrap_or_default();
        let TaskDetails { queue, step_name, source, .. } = details;
        let source = source.map(|(file, line)| format!("{file}:{line}"));
        let observed = program.roles.observed(record).map(Observed::name);
        let module = record.func_ids().find_map(|id| program.modules.get(&id).copied()).filter(|&id| id != 0);
        RecordDocument { pid: program.pid, step_name, queue, module, source, observed, ..self }
    }
}

impl RecordDocument<'_> {
    /// The same with what was observed of the record, where its role is not known.
    #[must_use]
    pub fn observed_in(self, dump: &Dump, record: &Record) -> Self {
        let observed = ObservedRoles::of(dump).observed(record).map(Observed::name);
        RecordDocument { observed, ..self }
    }
}

/// `0x100000002/before/1`
struct Name<'a>(&'a Record);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_record_name(f, self.0)
    }
}

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Names of kernels. A dump has few sets of kernels and many records.
pub struct KernelNames<'d> {
    info: &'d RunInfo,
    names: HashMap<[u32; SLOTS_PER_TASK], Vec<String>>,
}

impl<'d> KernelNames<'d> {
    /// Those of one run.
    #[must_use]
    pub fn new(info: &'d RunInfo) -> KernelNames<'d> {
        KernelNames { info, names: HashMap::new() }
    }

    /// Of the task that a record is of; several of a mix task, none when nobody knows.
    pub fn of(&mut self, record: &Record) -> &[String] {
        let info = self.info;
        self.names
            .entry(record.func_id)
            .or_insert_with(|| record.func_ids().map(|id| info.kernel_name(id)).collect())
    }
}
