//! What `list --json` prints.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use tensortap::TaskId;
use tensortap::abi::NO_KERNEL;
use tensortap::format::{AllocationEntry, Dump, FormatError, Loss, Names, RunInfo, Tail, TaskKey};

use super::record::{KernelNames, ProgramContext, ProgramFacts, RecordDocument};
use super::{Lines, begin_records};
use crate::fields::Row;
use crate::words::state_name;
use crate::{Part, Rows};

/// The document without its records.
#[derive(Serialize)]
pub struct ListHead<'a> {
    dump: String,
    total: u64,
    /// All selected records, including those omitted by a limit.
    selected: u64,
    scene: &'a str,
    platform: &'a str,
    runtime: &'a str,
    dump_level: u32,
    /// Null while the run is going on.
    status: Option<&'static str>,
    /// Why the run ended, if it did not complete: for example the text of a kernel that failed.
    message: Option<&'a str>,
    state: &'static str,
    torn: Option<TornDocument>,
    missing_records: u64,
    losses: &'a [Loss],
}

/// Where the index is torn.
#[derive(Serialize)]
pub struct TornDocument {
    offset: u64,
    lost_bytes: u64,
    reason: String,
}

impl<'a> ListHead<'a> {
    fn of(dump: &'a Dump, selected: u64) -> ListHead<'a> {
        let RunInfo { scene, platform, runtime, dump_level, .. } = dump.info();
        let tail = dump.tail();
        ListHead {
            dump: dump.dir().display().to_string(),
            total: dump.len(),
            selected,
            scene,
            platform,
            runtime,
            dump_level: *dump_level,
            status: dump.status().map(|status| status.name()),
            message: dump.footer().and_then(|footer| footer.message.as_deref()),
            state: state_name(&tail),
            torn: TornDocument::of(tail),
            missing_records: dump.gaps().iter().map(|gap| gap.records).sum(),
            losses: losses(dump),
        }
    }
}

/// The head for rows of several dumps: sums, and the head of each dump.
#[derive(Serialize)]
pub struct SetHead<'a> {
    /// The folder that holds the dumps.
    dump: String,
    total: u64,
    selected: u64,
    dumps: Vec<MemberHead<'a>>,
}

/// One of several dumps.
#[derive(Serialize)]
pub struct MemberHead<'a> {
    rank: Option<u64>,
    pid: Option<u64>,
    #[serde(flatten)]
    head: ListHead<'a>,
}

/// The head for one dump or for several.
#[derive(Serialize)]
#[serde(untagged)]
enum Head<'a> {
    One(Box<ListHead<'a>>),
    Several(SetHead<'a>),
}

impl<'a> Head<'a> {
    fn of(rows: &Rows<'a>) -> Result<Head<'a>, FormatError> {
        if let [part] = rows.parts() {
            return Ok(Head::One(Box::new(ListHead::of(part.dump, rows.selected()?))));
        }
        let member = |part: &Part<'a>| {
            let (rank, pid) = (part.rank, part.dump.info().process());
            Ok(MemberHead { rank, pid, head: ListHead::of(part.dump, part.selected()?) })
        };
        let dumps = rows.parts().iter().map(member).collect::<Result<Vec<_>, FormatError>>()?;
        let folder = rows.parts().first().and_then(|part| part.dump.dir().parent());
        Ok(Head::Several(SetHead {
            dump: folder.unwrap_or(Path::new(".")).display().to_string(),
            total: dumps.iter().map(|member| member.head.total).sum(),
            selected: dumps.iter().map(|member| member.head.selected).sum(),
            dumps,
        }))
    }
}

/// Data shared by the records of one dump.
struct PartContext<'a> {
    kernels: KernelNames<'a>,
    rank: Option<u64>,
    program: ProgramContext<'a>,
}

fn shared_by<'a>(rows: &Rows<'a>) -> Result<Vec<PartContext<'a>>, FormatError> {
    let of = |part: &Part<'a>| {
        let program = ProgramContext::of(part.dump, rows.parts().len() > 1)?;
        Ok(PartContext { kernels: KernelNames::new(part.dump.info()), rank: part.rank, program })
    };
    rows.parts().iter().map(of).collect()
}

fn losses(dump: &Dump) -> &[Loss] {
    dump.footer().map_or(&[], |footer| &footer.losses)
}

impl TornDocument {
    fn of(tail: Tail) -> Option<TornDocument> {
        match tail {
            Tail::Torn { offset, lost_bytes, reason } => Some(TornDocument { offset, lost_bytes, reason }),
            Tail::Closed | Tail::Open => None,
        }
    }
}

/// The whole document. Serializing it reads the dump, and an error of the dump becomes an error of the
/// serializer; [`ListDocument::write`] keeps them apart.
///
/// ```
/// use tensortap_query::{Rows, Selectors, document::ListDocument};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let mut config = tensortap::RunConfig::new("vector_example");
/// # config.device_mode = tensortap::DeviceMode::Thread;
/// # let out = folder.path().join("dump");
/// # config.dump = Some(tensortap::DumpConfig::new(tensortap::DumpLevel::Full));
/// # config.out = Some(out.clone());
/// # tensortap::run(&config)?;
/// let dump = tensortap::format::Dump::open(&out)?;
/// let all = Selectors::default().selection(&dump, &|_, _| {})?;
/// let rows = Rows::of(&dump, &all, &[], None)?;
/// let document = serde_json::to_value(ListDocument::of(&rows))?;
/// assert_eq!(document["records"][0]["name"], "0x0/before/0");
/// assert_eq!(document["records"].as_array().map(Vec::len), Some(18));
/// # Ok(())
/// # }
/// ```
pub struct ListDocument<'r, 'a> {
    rows: &'r Rows<'a>,
}

impl<'r, 'a> ListDocument<'r, 'a> {
    /// The document of these rows.
    #[must_use]
    pub fn of(rows: &'r Rows<'a>) -> ListDocument<'r, 'a> {
        ListDocument { rows }
    }

    /// Writes the document with one line per record.
    pub fn write<E: From<FormatError> + From<io::Error>>(&self, out: &mut dyn Write) -> Result<(), E> {
        begin_records(out, &Head::of(self.rows)?)?;
        let mut lines = Lines::new();
        let mut shared = shared_by(self.rows)?;
        self.rows.for_each(|part, record| {
            let PartContext { kernels, rank, program } = &mut shared[part];
            let dump = self.rows.parts()[part].dump;
            let document = RecordDocument::of(dump, &Row::of(record), kernels.of(record), *rank)
                .with_program(program, record);
            Ok::<(), E>(lines.put(out, &document)?)
        })?;
        if !shared.iter().any(|context| context.program.is_known()) {
            return Ok(writeln!(out, "\n  ]\n}}")?);
        }
        write!(out, "\n  ],\n  \"without_records\": [")?;
        let mut lines = Lines::new();
        for (part, context) in self.rows.parts().iter().zip(&shared) {
            for task in without_records(part, context)? {
                lines.put(out, &BareTask::of(part, context, task))?;
            }
        }
        write!(out, "\n  ],\n  \"allocations\": [")?;
        let mut lines = Lines::new();
        for part in self.rows.parts() {
            allocations(part)?.iter().try_for_each(|event| lines.put(out, event))?;
        }
        Ok(writeln!(out, "\n  ]\n}}")?)
    }
}

impl Serialize for ListDocument<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'h> {
            #[serde(flatten)]
            head: Head<'h>,
            records: Records<'h>,
            /// Absent unless a dump is of a recorded program.
            #[serde(skip_serializing_if = "Option::is_none")]
            without_records: Option<Vec<BareTask<'h>>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            allocations: Option<Vec<RankedAllocation<'h>>>,
        }
        let head = Head::of(self.rows).map_err(S::Error::custom)?;
        let shared = shared_by(self.rows).map_err(S::Error::custom)?;
        let mut without = Vec::new();
        for (part, context) in self.rows.parts().iter().zip(&shared) {
            let tasks = without_records(part, context).map_err(S::Error::custom)?;
            without.extend(tasks.into_iter().map(|task| BareTask::of(part, context, task)));
        }
        let mut events = Vec::new();
        for part in self.rows.parts() {
            events.extend(allocations(part).map_err(S::Error::custom)?);
        }
        let is_known = shared.iter().any(|context| context.program.is_known());
        let (without_records, allocations) = (is_known.then_some(without), is_known.then_some(events));
        Whole { head, records: Records(self.rows), without_records, allocations }.serialize(serializer)
    }
}

/// A task of a recorded program that has no records, such as a region around other tasks.
#[derive(Serialize)]
struct BareTask<'a> {
    rank: Option<u64>,
    task_id: String,
    kernels: Vec<String>,
    task_name: Option<&'a str>,
    scope: Option<&'a str>,
    step: u32,
    #[serde(flatten)]
    facts: ProgramFacts<'a>,
}

impl<'a> BareTask<'a> {
    fn of(part: &Part<'a>, context: &'a PartContext<'_>, task: TaskKey) -> BareTask<'a> {
        let dump = part.dump;
        let active = dump.task_kernels(task).into_iter().filter(|id| *id != NO_KERNEL);
        let Names { task_name, scope, .. } = dump.task_names(task);
        BareTask {
            rank: context.rank,
            task_id: TaskId(task.task_id).to_string(),
            kernels: active.map(|id| dump.info().kernel_name(id)).collect(),
            task_name,
            scope,
            step: task.step,
            facts: context.program.facts(task),
        }
    }
}

/// An allocation or a release in a recorded program, as in `graph.json`.
#[derive(Serialize)]
struct RankedAllocation<'a> {
    rank: Option<u64>,
    #[serde(flatten)]
    event: AllocationEntry<'a>,
}

/// The allocations and releases of a dump, unless selectors name records or tasks.
fn allocations<'a>(part: &Part<'a>) -> Result<Vec<RankedAllocation<'a>>, FormatError> {
    let (dump, rank) = (part.dump, part.rank);
    if !part.selection.is_all() || !dump.info().is_of_program() {
        return Ok(Vec::new());
    }
    Ok(dump.allocations()?.into_iter().map(|event| RankedAllocation { rank, event }).collect())
}

/// The selected tasks without records.
fn without_records(part: &Part<'_>, context: &PartContext<'_>) -> Result<BTreeSet<TaskKey>, FormatError> {
    let (dump, selection) = (part.dump, part.selection);
    let mut tasks: BTreeSet<TaskKey> =
        context.program.without_arguments().filter(|task| selection.holds_task(dump, *task)).collect();
    for record in dump.records() {
        if tasks.is_empty() {
            break;
        }
        tasks.remove(&record?.task_key());
    }
    Ok(tasks)
}

struct Records<'r>(&'r Rows<'r>);

/// An error while reading the dump or while serializing.
enum StreamError<E> {
    Dump(FormatError),
    Serializer(E),
}

impl<E> From<FormatError> for StreamError<E> {
    fn from(error: FormatError) -> StreamError<E> {
        StreamError::Dump(error)
    }
}

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shared = shared_by(self.0).map_err(S::Error::custom)?;
        let mut records = serializer.serialize_seq(None)?;
        let walked = self.0.for_each(|part, record| {
            let PartContext { kernels, rank, program } = &mut shared[part];
            let dump = self.0.parts()[part].dump;
            let document = RecordDocument::of(dump, &Row::of(record), kernels.of(record), *rank)
                .with_program(program, record);
            records.serialize_element(&document).map_err(StreamError::Serializer)
        });
        match walked {
            Ok(_) => records.end(),
            Err(StreamError::Dump(error)) => Err(S::Error::custom(error)),
            Err(StreamError::Serializer(error)) => Err(error),
        }
    }
}
