//! A command goes into its stream, with probes before and behind it.

use std::{
    borrow::Cow,
    sync::{Arc, MutexGuard},
};

use tensortap_queue::{Command, Mark, Range, Roles, Submission};
use tensortap_record::{
    DType, DumpStage, Operation, RecordError, Role, StringId, Task, TaskInfo, Tensor, ThreadRecorder,
    UncapturedReason,
};

use crate::{
    calls::kernels::KernelFacts,
    content::{self, Asked, Device, Seen},
    door::{Door, Taken},
    probe::{self, Running, Shared, Target},
    streams::{ContextId, Stream},
};

/// What a command is, and what it is given.
#[derive(Default)]
pub struct Work {
    /// Its task.
    pub info: TaskInfo,
    /// What people call it, where no kernel does.
    pub name: &'static str,
    /// Its kernel, where it has one.
    pub kernel: Option<Arc<KernelFacts>>,
    /// Memory.
    pub ranges: Vec<Range>,
    /// Values: positions and bytes.
    pub values: Vec<(u16, Box<[u8]>)>,
    /// What cannot be read: positions and why.
    pub unread: Vec<(u16, StringId, UncapturedReason)>,
}

impl Work {
    /// A command that moves memory.
    pub fn moving(operation: Operation, name: &'static str) -> Work {
        Work { info: TaskInfo { operation, ..TaskInfo::default() }, name, ..Work::default() }
    }

    /// With a range whose use is known by what the command is; or with the reason why it cannot be read.
    pub fn push(&mut self, range: Result<Range, UncapturedReason>, role: Role) {
        let arg = u16::try_from(self.ranges.len() + self.unread.len()).unwrap_or(u16::MAX);
        match range {
            Ok(range) => self.ranges.push(Range { arg, roles: Roles::Known(role), ..range }),
            Err(reason) => self.unread.push((arg, StringId::NONE, reason)),
        }
    }
}

/// Where a command goes.
pub struct Place {
    /// The stream.
    pub stream: Stream,
    /// Its context, by handle and by number.
    pub context: (usize, ContextId),
    /// Whether the call returns when it is done.
    pub blocks: bool,
}

/// A command that is recorded, while it goes into its stream.
pub struct Begun {
    shared: Arc<Shared>,
    mark: Mark,
    target: Target,
    is_filtered: bool,
    blocks: bool,
    taken: Taken,
    /// The device that looks at its ranges itself, and the ranges.
    on_device: Option<(Arc<Device>, Arc<[Range]>)>,
    name: &'static str,
    kernel: Option<Arc<KernelFacts>>,
}

impl Begun {
    /// Begins a command: its task, its order, its values, and the probe before it. None where nobody records.
    pub fn new(
        door: &Door,
        place: &Place,
        taken: Taken,
        work: impl FnOnce(&mut ThreadRecorder) -> Result<Work, RecordError>,
    ) -> Option<Begun> {
        let target = Target { stream: place.stream.handle(), context: taken.stream.context.0 };
        let begun = door.record(|recorder| {
            let mut work = work(recorder)?;
            if !taken.is_alone() {
                // Another thread's command may come between it and whatever looks.
                let unseen =
                    work.ranges.drain(..).map(|range| (range.arg, range.name, UncapturedReason::NoProbe));
                work.unread.extend(unseen);
            }
            let info = task_info(recorder, &taken, &work)?;
            let (task, mark) = recorder.begin_with(&info, |recorder, task| {
                let mut next = || recorder.next_task_id();
                let submission =
                    door.state().streams.submit((place.stream, taken.passes()), task.id(), &mut next);
                let Some(submission) = submission else { return Ok(None) };
                record_order(recorder, &submission)?;
                record_values(recorder, task, &work)?;
                Ok(Some(submission.mark))
            })?;
            Ok(mark.map(|mark| (task, work, mark)))
        });
        let (task, Work { ranges, name, kernel, .. }, mark) = begun.flatten()?;
        let ranges: Arc<[Range]> = ranges.into();
        let is_filtered = task.is_filtered();
        let wants = door.wants_content && !is_filtered && !ranges.is_empty();
        let device = if wants { door.contents.device(target.context) } else { None };
        let on_device = device
            .filter(|_| content::can_see(door, &door.contents, taken.stream.device, &ranges))
            .map(|device| (device, Arc::clone(&ranges)));
        let shared = Shared::new(Command::new(task, ranges));
        let blocks = place.blocks;
        let begun = Begun { shared, mark, target, is_filtered, blocks, taken, on_device, name, kernel };
        if !begun.is_filtered && begun.sees_anything(DumpStage::BeforeDispatch) {
            if begun.on_device.is_some() {
                begun.look(door, DumpStage::BeforeDispatch);
            } else {
                begun.probe(door, DumpStage::BeforeDispatch);
            }
        }
        Some(begun)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.shared.running()
    }

    fn sees_anything(&self, stage: DumpStage) -> bool {
        if let Some((_, ranges)) = &self.on_device {
            return ranges.iter().any(|range| range.roles.is_seen_at(stage));
        }
        self.running().command.seen_at(stage).next().is_some()
    }

    /// Lets the device look at the ranges of a stage; what tells when it has.
    fn look(&self, door: &Door, stage: DumpStage) -> Option<Seen> {
        let (device, ranges) = self.on_device.as_ref()?;
        let ranges = seen_at(ranges, stage);
        if ranges.is_empty() {
            return None;
        }
        let asked = Asked { device, target: self.target, shared: &self.shared, stage, ranges: &ranges };
        match content::enqueue(door, &self.taken, &asked) {
            Ok(seen) => Some(seen),
            Err(why) => {
                not_seen(door, &self.shared, stage, |_| Some(why.reason()));
                None
            }
        }
    }

    /// Puts a probe into the stream. Whether somebody will tell when the stream has come so far.
    fn probe(&self, door: &Door, stage: DumpStage) -> bool {
        if !door.wants_content {
            let mut running = self.running();
            door.record(|recorder| running.command.mention(recorder, stage));
            return false;
        }
        match probe::enqueue(door, self.target, &self.shared, stage) {
            Ok(missed) => {
                not_seen(door, &self.shared, stage, |place| {
                    missed.iter().find(|(missed, _)| *missed == place).map(|(_, reason)| *reason)
                });
                true
            }
            Err(_) => {
                not_seen(door, &self.shared, stage, |_| Some(UncapturedReason::NoAccess));
                false
            }
        }
    }

    /// The call has returned: the probe behind it, or nothing where the driver did not take it.
    pub fn finish(self, door: &Door, status: i32) {
        if status != 0 {
            self.refuse(door, status);
            return;
        }
        let is_alone = self.taken.is_alone();
        if !is_alone && !self.is_filtered {
            not_seen(door, &self.shared, DumpStage::AfterCompletion, |_| Some(UncapturedReason::NoProbe));
        }
        if self.on_device.is_some() {
            self.finish_on_device(door, is_alone);
            return;
        }
        if self.is_filtered || !is_alone || !self.probe(door, DumpStage::AfterCompletion) {
            // It ends with its submission, as nothing will tell when it does.
            let mut running = self.running();
            if !running.is_over {
                running.is_over = true;
                door.record(|recorder| recorder.end(running.command.task()));
            }
        }
        let Begun { shared, mark, blocks, taken, .. } = self;
        // Others may have to put something into this stream for the wait to end.
        drop(taken);
        // The program takes it for done when the call returns, so what it left is seen before.
        if blocks && shared.wait() {
            door.state().streams.host_waited(&[mark]);
        }
    }

    /// The same, where the device looks by itself.
    fn finish_on_device(self, door: &Door, is_alone: bool) {
        let seen = if is_alone { self.look(door, DumpStage::AfterCompletion) } else { None };
        if let (None, Some((device, _))) = (seen, &self.on_device) {
            // It ends when what was before it is recorded.
            content::end(&door.contents, device, self.taken.stream.line, &self.shared);
        }
        let Begun { shared, mark, blocks, taken, .. } = self;
        drop(taken);
        if blocks && seen.is_none_or(|seen| shared.wait_seen(|| seen.is_over())) {
            door.state().streams.host_waited(&[mark]);
        }
    }

    /// The driver does not take it: it has done nothing.
    fn refuse(&self, door: &Door, status: i32) {
        let mut running = self.running();
        running.is_over = true;
        door.record(|recorder| {
            let called = self.kernel.as_ref().map_or(self.name, |kernel| kernel.name());
            let name = recorder.string(&format!("{called}, refused by the driver with status {status}"))?;
            recorder.refused(running.command.task(), name)
        });
    }
}

/// The ranges that are seen at a stage. Of most commands all of them are, which needs no copy.
fn seen_at(ranges: &[Range], stage: DumpStage) -> Cow<'_, [Range]> {
    let is_seen = |range: &&Range| range.roles.is_seen_at(stage);
    match ranges.iter().all(|range| is_seen(&range)) {
        true => Cow::Borrowed(ranges),
        false => ranges.iter().filter(is_seen).copied().collect(),
    }
}

/// Some ranges of a command are not seen: by their places among those of the stage, the reasons why.
fn not_seen(door: &Door, shared: &Shared, stage: DumpStage, why: impl Fn(usize) -> Option<UncapturedReason>) {
    let mut running = shared.running();
    let seen = running.command.seen_at(stage).enumerate();
    let missed: Vec<_> =
        seen.filter_map(|(place, range)| Some((why(place)?, range.arg, range.name))).collect();
    if missed.is_empty() || running.is_over {
        return;
    }
    if missed.iter().any(|(reason, ..)| *reason == UncapturedReason::NoRoom) {
        door.no_room();
    }
    let task = running.command.task();
    door.record(|recorder| {
        for (reason, arg, name) in missed {
            recorder.not_captured(task, stage, (arg, Role::InOut, name), reason)?;
        }
        Ok(())
    });
}

fn task_info(recorder: &mut ThreadRecorder, taken: &Taken, work: &Work) -> Result<TaskInfo, RecordError> {
    let seen = |stage| work.ranges.iter().filter(|range| range.roles.is_seen_at(stage)).count();
    let records = seen(DumpStage::BeforeDispatch) + seen(DumpStage::AfterCompletion) + work.values.len();
    let name = if work.name.is_empty() { StringId::NONE } else { recorder.string(work.name)? };
    let records = u32::try_from(records).unwrap_or(u32::MAX);
    Ok(TaskInfo { queue: taken.stream.id, name, records, ..work.info })
}

/// Records what a command stands behind, and what stands between.
fn record_order(recorder: &mut ThreadRecorder, submission: &Submission) -> Result<(), RecordError> {
    for (task, waits) in &submission.barriers {
        let info = TaskInfo { id: *task, operation: Operation::Barrier, ..TaskInfo::default() };
        let mut barrier = recorder.begin(&info)?;
        recorder.end(&mut barrier)?;
        for wait in waits {
            recorder.edge(wait.on, *task, wait.cause, 0)?;
        }
    }
    for wait in &submission.waits {
        recorder.edge(wait.on, submission.mark.task, wait.cause, 0)?;
    }
    Ok(())
}

/// Records what is known when a command is submitted: values, and what is not captured at all.
fn record_values(recorder: &mut ThreadRecorder, task: &mut Task, work: &Work) -> Result<(), RecordError> {
    for (arg, bytes) in &work.values {
        let dtype = match bytes.len() {
            1 => DType::UInt8,
            2 => DType::UInt16,
            4 => DType::UInt32,
            8 => DType::UInt64,
            _ => {
                let tensor = Tensor::of(&bytes[..], DType::UInt8)?.arg(*arg).role(Role::Input);
                recorder.tensor(task, DumpStage::BeforeDispatch, &tensor.guessed(true, false, false))?;
                continue;
            }
        };
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        recorder.scalar(task, *arg, dtype, u64::from_le_bytes(bits), StringId::NONE)?;
    }
    for &(arg, name, reason) in &work.unread {
        recorder.not_captured(task, DumpStage::BeforeDispatch, (arg, Role::InOut, name), reason)?;
    }
    Ok(())
}
