//! A command and its arguments.

use std::sync::{Arc, OnceLock};

use tensortap_queue::{Range, RangeRole};
use tensortap_record::{DumpStage, Operation, Role, StringId, TaskInfo, UncapturedReason};

use crate::{
    calls::kernels::KernelFacts,
    snapshot::{self, ContextResources, SnapshotPlan, Snapshots},
    values::SubmittedValues,
};

/// A command while its arguments are collected.
#[derive(Default)]
pub struct CommandSpec {
    /// Its task.
    pub info: TaskInfo,
    /// Name of the driver function, for commands without a kernel.
    pub name: &'static str,
    /// Memory ranges.
    pub ranges: Vec<Range>,
    /// Arguments by value, and arguments that cannot be read.
    pub known: SubmittedValues,
}

impl CommandSpec {
    /// A command that moves memory.
    pub fn transfer(operation: Operation, name: &'static str) -> CommandSpec {
        CommandSpec { info: TaskInfo { operation, ..TaskInfo::default() }, name, ..CommandSpec::default() }
    }

    /// Adds a range whose role follows from the kind of command, or the reason why it cannot be read.
    pub fn push(&mut self, range: Result<Range, UncapturedReason>, role: Role) {
        let arg = u16::try_from(self.ranges.len() + self.known.unread.len()).unwrap_or(u16::MAX);
        match range {
            Ok(range) => self.ranges.push(Range { arg, role: RangeRole::Known(role), ..range }),
            Err(reason) => self.known.unread.push((arg, StringId::NONE, reason)),
        }
    }
}

/// A command that is to enter its stream.
pub struct CommandRequest {
    /// Its task.
    pub info: TaskInfo,
    /// Name of the driver function, for commands without a kernel.
    pub name: &'static str,
    /// Its kernel, if it has one.
    pub kernel: Option<Arc<KernelFacts>>,
    /// Its arguments.
    pub args: Arc<CommandArgs>,
}

impl From<CommandSpec> for CommandRequest {
    fn from(work: CommandSpec) -> CommandRequest {
        let CommandSpec { info, name, ranges, known } = work;
        CommandRequest { info, name, kernel: None, args: CommandArgs::new(ranges, known) }
    }
}

/// The arguments of a command. Repeated launches share them, and the snapshot plan.
pub struct CommandArgs {
    /// Memory ranges.
    pub ranges: Arc<[Range]>,
    /// Arguments by value, and arguments that cannot be read.
    pub known: SubmittedValues,
    /// Number of records that the command makes.
    pub records: u32,
    /// Whether the backend's kernels can hash all ranges on the device.
    pub can_hash_on_device: bool,
    /// The plan of a snapshot of all ranges, once it was made.
    plan: OnceLock<Arc<SnapshotPlan>>,
}

impl CommandArgs {
    /// Arguments from ranges, values, and what cannot be read.
    pub fn new(ranges: Vec<Range>, known: SubmittedValues) -> Arc<CommandArgs> {
        let records = Range::record_count(ranges.iter(), known.values.len());
        let can_hash_on_device = snapshot::can_hash_on_device(&ranges);
        Arc::new(CommandArgs {
            ranges: ranges.into(),
            known,
            records,
            can_hash_on_device,
            plan: OnceLock::new(),
        })
    }

    /// The same arguments without any captured range, for this reason.
    pub fn uncaptured(&self, reason: UncapturedReason) -> Arc<CommandArgs> {
        let mut known = self.known.clone();
        known.unread.extend(self.ranges.iter().map(|range| (range.arg, range.name, reason)));
        CommandArgs::new(Vec::new(), known)
    }

    /// The plan of the snapshot at a stage. None if no range is captured at this stage. Most commands have
    /// the same plan before and after.
    pub fn plan(
        &self,
        snapshots: &Snapshots,
        device: &ContextResources,
        stage: DumpStage,
    ) -> Option<Result<Arc<SnapshotPlan>, UncapturedReason>> {
        let is_seen = |range: &&Range| range.role.is_captured_at(stage);
        let make = |ranges: &[Range]| SnapshotPlan::new(snapshots, device, ranges).map(Arc::new);
        if self.ranges.iter().all(|range| is_seen(&range)) {
            if let Some(known) = self.plan.get() {
                return Some(Ok(Arc::clone(known)));
            }
            let made = make(&self.ranges);
            return Some(made.map(|made| Arc::clone(self.plan.get_or_init(|| made))));
        }
        let seen: Vec<Range> = self.ranges.iter().filter(is_seen).copied().collect();
        (!seen.is_empty()).then(|| make(&seen))
    }
}
