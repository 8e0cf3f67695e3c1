//! The document of a record, the same in every document: the manifest's fields and derived ones.

use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};
use tensortap::TaskId;
use tensortap::abi::SLOTS_PER_TASK;
use tensortap::analysis::observation::Observation;
use tensortap::format::{
    Attribute, Details, Dump, FormatError, NamedRecord, Record, RunInfo, TaskCollective, TaskDetails, TaskKey,
};

use crate::fields::{Row, flags};
use crate::observed::ObservedRoles;
use crate::words::write_record_name;

/// Facts about a task that only recorded programs have.
#[derive(Default, Serialize)]
pub struct ProgramFacts<'a> {
    /// The step's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    /// Source file and line that submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The region that contains it, or the task that submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// Whether it is a region; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    region: bool,
    /// What it is in a collective operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<TaskCollective<'a>>,
    /// Its attributes, as in `graph.json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute<'a>>,
}

/// One record.
#[derive(Serialize)]
pub struct RecordDocument<'a> {
    index: u64,
    /// Rank of its dump among several; null for a single dump.
    rank: Option<u64>,
    /// The recorded process, if there are several dumps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u64>,
    #[serde(flatten)]
    facts: ProgramFacts<'a>,
    /// Number of the module with its task's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<u32>,
    name: Name<'a>,
    /// The observation, if its role is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<&'static str>,
    #[serde(flatten)]
    record: NamedRecord<'a>,
    kernels: &'a [String],
    /// Size of the whole content in bytes.
    bytes: u64,
    thread: u32,
    /// The dispatch that it belongs to, in a dump with only arguments.
    dispatch_id: Option<String>,
    core_id: Option<u32>,
    block_idx: Option<u32>,
    flags: Vec<&'static str>,
}

impl<'a> RecordDocument<'a> {
    /// The document of a row. `kernels` are the names of its task's kernels.
    #[must_use]
    pub fn of(dump: &'a Dump, row: &Row<'a>, kernels: &'a [String], rank: Option<u64>) -> RecordDocument<'a> {
        let record = row.record;
        RecordDocument {
            index: record.index,
            rank,
            pid: None,
            facts: ProgramFacts::default(),
            module: None,
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

/// Data shared by the records of a recorded program's dump.
pub struct ProgramContext<'d> {
    /// The process, if there are several dumps.
    pid: Option<u64>,
    details: Option<Details>,
    /// Module number by function id.
    modules: std::collections::HashMap<u32, u32>,
    roles: ObservedRoles<'d>,
}

impl<'d> ProgramContext<'d> {
    /// The context of a dump. It is empty if the dump is not of a recorded program.
    ///
    /// # Errors
    /// The dump cannot be read.
    pub fn of(dump: &'d Dump, is_of_several: bool) -> Result<ProgramContext<'d>, FormatError> {
        let details = dump.info().is_of_program().then(|| dump.details()).transpose()?;
        Ok(ProgramContext {
            pid: dump.info().process().filter(|_| is_of_several),
            details,
            roles: ObservedRoles::of(dump),
            modules: dump.info().kernels.iter().map(|kernel| (kernel.func_id, kernel.module)).collect(),
        })
    }
}

impl ProgramContext<'_> {
    /// The facts about a task.
    pub fn facts(&self, task: TaskKey) -> ProgramFacts<'_> {
        let Some(details) = &self.details else { return ProgramFacts::default() };
        let TaskDetails { queue, step_name, source, parent, is_region: region, collective, .. } =
            details.of(task);
        ProgramFacts {
            step_name,
            queue,
            source: source.map(|(file, line)| format!("{file}:{line}")),
            parent: parent.map(|parent| TaskId(parent).to_string()),
            region,
            collective,
            attributes: details.attributes(task).collect(),
        }
    }

    /// Whether the dump is of a recorded program.
    pub fn is_known(&self) -> bool {
        self.details.is_some()
    }

    /// The tasks whose records state no arguments.
    pub fn without_arguments(&self) -> impl Iterator<Item = TaskKey> {
        self.details.iter().flat_map(Details::without_arguments)
    }
}

impl<'a> RecordDocument<'a> {
    /// Adds what a recorded program reported about the record's task.
    #[must_use]
    pub fn with_program(self, program: &'a ProgramContext<'_>, record: &Record) -> Self {
        let observed = program.roles.observed(record).map(Observation::name);
        let module = record.func_ids().find_map(|id| program.modules.get(&id).copied()).filter(|&id| id != 0);
        RecordDocument { pid: program.pid, facts: program.facts(record.task_key()), module, observed, ..self }
    }
}

impl RecordDocument<'_> {
    /// Adds the observation of the record, if its role is unknown.
    #[must_use]
    pub fn with_observations(self, dump: &Dump, record: &Record) -> Self {
        let observed = ObservedRoles::of(dump).observed(record).map(Observation::name);
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

/// A cache of kernel names, because a dump has many records but few sets of kernels.
pub struct KernelNames<'d> {
    info: &'d RunInfo,
    names: HashMap<[u32; SLOTS_PER_TASK], Vec<String>>,
}

impl<'d> KernelNames<'d> {
    /// A cache for one run.
    #[must_use]
    pub fn new(info: &'d RunInfo) -> KernelNames<'d> {
        KernelNames { info, names: HashMap::new() }
    }

    /// The kernel names of a record's task: several for a mix task, empty if unknown.
    pub fn of(&mut self, record: &Record) -> &[String] {
        let info = self.info;
        self.names
            .entry(record.func_id)
            .or_insert_with(|| record.func_ids().map(|id| info.kernel_name(id)).collect())
    }
}
