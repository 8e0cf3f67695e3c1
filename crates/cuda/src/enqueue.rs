//! A command goes into its stream, with probes before and behind it.

use std::sync::{Arc, MutexGuard};

use tensortap_queue::{Command, Mark, Submission};
use tensortap_record::{
    DumpStage, Operation, RecordError, Role, StringId, TaskInfo, ThreadRecorder, UncapturedReason,
};

use crate::{
    calls::kernels::KernelFacts,
    content::{self, Asked, Device, Seen},
    door::{Door, Taken},
    probe::{self, Running, Shared, Target},
    streams::{ContextId, Stream},
    work::{Request, Subject},
};

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
    /// What it is given.
    subject: Arc<Subject>,
    /// The device, where that looks at its ranges itself.
    on_device: Option<Arc<Device>>,
    name: &'static str,
    kernel: Option<Arc<KernelFacts>>,
}

impl Begun {
    /// Begins a command: its task, its order, what is known of it, and the probe before it. None where nobody records.
    pub fn new(
        door: &Door,
        place: &Place,
        taken: Taken,
        request: impl FnOnce(&mut ThreadRecorder) -> Result<Request, RecordError>,
    ) -> Option<Begun> {
        let target = Target { stream: place.stream.handle(), context: taken.stream.context.0 };
        let begun = door.record(|recorder| {
            let mut request = request(recorder)?;
            if !taken.is_alone() {
                // Another thread's command may come between it and whatever looks.
                request.subject = request.subject.unseen(UncapturedReason::NoProbe);
            }
            let info = task_info(recorder, &taken, &request)?;
            let (task, mark) = recorder.begin_with(&info, |recorder, task| {
                let mut next = || recorder.next_task_id();
                let submission =
                    door.state().streams.submit((place.stream, taken.passes()), task.id(), &mut next);
                let Some(submission) = submission else { return Ok(None) };
                record_order(recorder, &submission)?;
                Ok(Some(submission.mark))
            })?;
            Ok(mark.map(|mark| (task, request, mark)))
        });
        let (task, Request { name, kernel, subject, .. }, mark) = begun.flatten()?;
        let is_filtered = task.is_filtered();
        let ranges = &subject.ranges;
        let wants = door.wants_content && !is_filtered && !ranges.is_empty() && subject.can_be_seen;
        let device = if wants { door.contents.device(target.context) } else { None };
        let on_device = device.filter(|_| content::are_on(door, taken.stream.device, ranges));
        let shared = Shared::new(Command::new(task, Arc::clone(ranges)), Arc::clone(&subject));
        let blocks = place.blocks;
        let begun =
            Begun { shared, mark, target, is_filtered, blocks, taken, subject, on_device, name, kernel };
        begun.before(door);
        Some(begun)
    }

    /// What is done before the call runs.
    fn before(&self, door: &Door) {
        if !self.is_filtered && !self.sees_before(door) && self.kernel.is_some() {
            content::keep_apart(door, &self.taken, self.target);
        }
    }

    /// Looks at what is before it, and records what is known. Whether something of ours goes into the stream for that.
    fn sees_before(&self, door: &Door) -> bool {
        if self.on_device.is_some() {
            // Who records what the device finds records what is known as well, for that takes time.
            return self.look(door, DumpStage::BeforeDispatch).is_some();
        }
        let sees_anything = {
            let mut running = self.running();
            door.record(|recorder| running.record_known(recorder));
            running.command.seen_at(DumpStage::BeforeDispatch).next().is_some()
        };
        sees_anything && self.probe(door, DumpStage::BeforeDispatch)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.shared.running()
    }

    /// Lets the device look at the ranges of a stage; what tells when it has.
    fn look(&self, door: &Door, stage: DumpStage) -> Option<Seen> {
        let device = self.on_device.as_ref()?;
        let seen = self.subject.sight(&door.contents, device, stage)?.and_then(|sight| {
            let (target, shared) = (self.target, &self.shared);
            content::enqueue(door, &self.taken, Asked { device, target, shared, stage, sight })
        });
        match seen {
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
        if let (None, Some(device)) = (seen, &self.on_device) {
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
            running.record_known(recorder)?;
            let name = recorder.string(&format!("{called}, refused by the driver with status {status}"))?;
            recorder.refused(running.command.task(), name)
        });
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

fn task_info(
    recorder: &mut ThreadRecorder,
    taken: &Taken,
    request: &Request,
) -> Result<TaskInfo, RecordError> {
    let name = if request.name.is_empty() { StringId::NONE } else { recorder.string(request.name)? };
    Ok(TaskInfo { queue: taken.stream.id, name, records: request.subject.records, ..request.info })
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
