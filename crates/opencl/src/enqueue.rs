//! A command goes into its queue, with probes before and behind it.

use std::{
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tensortap_queue::{Command, Mark, Range, Roles, Submission};
use tensortap_record::{
    DumpStage, Operation, RecordError, Role, StringId, Task, TaskInfo, ThreadRecorder, UncapturedReason,
};

use crate::{
    calls::programs::device_name,
    ffi::{self, Context, Device, Event, Queue, Status},
    layer::Layer,
    objects::{KnownQueue, Objects, OwnEvent, QueueState, key},
    probe::{self, Asked, Probes, Running, Source},
    raw,
    ring::Ring,
    values::{Value, record_values},
};

/// Says how memory is seen: `device`, as on devices that run no functions of this process, on others as well; `copies`, the same without our code on the device.
const PROBES_VARIABLE: &str = "TENSORTAP_OPENCL_PROBES";

/// What a command is, and what it is given.
#[derive(Default)]
pub struct Work {
    /// Its task.
    pub info: TaskInfo,
    /// What people call it, where no kernel does.
    pub name: &'static str,
    /// What its kernel is called.
    pub kernel: Option<String>,
    /// Memory, each with where a probe finds it.
    pub ranges: Vec<(Range, Source)>,
    /// Values.
    pub values: Vec<Value>,
    /// Memory that each group has for itself: positions and bytes.
    pub local: Vec<(u16, u64)>,
    /// Objects that have no bytes to be read: their positions and names.
    pub opaque: Vec<(u16, StringId)>,
    /// The position of variables of the program, where it has some.
    pub variables: Option<u16>,
    /// What the driver may read until the command has run.
    pub kept: Option<Arc<[usize]>>,
}

impl Work {
    /// A command that moves memory.
    pub fn moving(operation: Operation, name: &'static str) -> Work {
        Work { info: TaskInfo { operation, ..TaskInfo::default() }, name, ..Work::default() }
    }

    /// With a range whose use is known by what the command is. None: bytes that are not known.
    #[must_use]
    pub fn with(mut self, range: Option<(Range, Source)>, role: Role) -> Work {
        let arg = u16::try_from(self.ranges.len() + self.opaque.len()).unwrap_or(u16::MAX);
        match range {
            Some((range, source)) => {
                self.ranges.push((Range { arg, roles: Roles::Known(role), ..range }, source));
            }
            None => self.opaque.push((arg, StringId::NONE)),
        }
        self
    }
}

/// What is common to all commands.
pub struct Place<'a> {
    /// The queue.
    pub queue: Queue,
    /// What the program lets it wait for.
    pub waits: &'a [Event],
    /// Whether that is a list: as many events as it says.
    pub is_valid: bool,
    /// Where the program wants its event; may be null.
    pub event: *mut Event,
    /// Whether the program waits for it.
    pub blocks: bool,
}

/// Puts a command into its queue. `call` does it, with a wait list and a place for an event, and does not wait.
///
/// # Safety
/// As the program's call of the function: its queue and events live, and an event can be written where it wants one.
pub unsafe fn enqueue(
    place: &Place<'_>,
    work: impl FnOnce(&mut Objects, &mut ThreadRecorder) -> Result<Work, RecordError>,
    call: impl FnOnce(&[Event], *mut Event) -> Status,
) -> Status {
    let layer = Layer::get();
    if !place.is_valid {
        return ffi::INVALID_EVENT_WAIT_LIST;
    }
    let Some(state) = queue_state(layer, place.queue) else { return unrecorded(layer, place, call) };
    layer.release_spent();
    let guard = state.lock.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = layer.record(|recorder| begin(layer, place, &state, recorder, work));
    let Some(begun) = begun else {
        drop(guard);
        return unrecorded(layer, place, call);
    };
    let ran = begun.run(layer, place, &state, call);
    match ran {
        Ok(events) => hand_over(layer, place, &begun, events, guard),
        Err(status) => status,
    }
}

/// A command that cannot be recorded goes in as it is. `call` does not wait, so whoever wants to is waited for here.
fn unrecorded(layer: &Layer, place: &Place<'_>, call: impl FnOnce(&[Event], *mut Event) -> Status) -> Status {
    layer.not_recorded();
    if !place.blocks {
        return call(place.waits, place.event);
    }
    let mut event = ptr::null_mut();
    let mut status = call(place.waits, &raw mut event);
    if status == ffi::SUCCESS {
        status = wait(layer, event);
        match place.event.is_null() {
            true => layer.release(event),
            // SAFETY: the program's promise.
            false => unsafe { place.event.write(event) },
        }
    }
    status
}

/// A command that is recorded, before it is in its queue.
struct Begun {
    running: Arc<Mutex<Running>>,
    /// Of the ranges of the command, in order.
    sources: Vec<Source>,
    mark: Mark,
    is_filtered: bool,
    /// What people call it.
    name: String,
}

fn begin(
    layer: &Layer,
    place: &Place<'_>,
    state: &QueueState,
    recorder: &mut ThreadRecorder,
    work: impl FnOnce(&mut Objects, &mut ThreadRecorder) -> Result<Work, RecordError>,
) -> Result<Begun, RecordError> {
    let mut objects = layer.objects();
    let work = work(&mut objects, recorder)?;
    let marks = objects.marks(place.waits);
    let mut task = begin_task(recorder, state, &work)?;
    let mut next = || recorder.next_task_id();
    let submission = objects.orders.submit(state.number, task.id(), &marks, &mut next);
    drop(objects);
    let is_filtered = task.is_filtered();
    record_order(recorder, &submission)?;
    let is_seen = !matches!(state.probes, Probes::None);
    record_values(recorder, &mut task, &work, is_seen)?;
    let (kept, name) = (work.kept.clone(), work.kernel.unwrap_or_else(|| work.name.to_owned()));
    let (ranges, sources) = match is_seen {
        true => work.ranges.into_iter().unzip(),
        false => (Vec::new(), Vec::new()),
    };
    let running = Arc::new(Mutex::new(Running::new(Command::new(task, ranges), kept)));
    Ok(Begun { running, sources, mark: submission.mark, is_filtered, name })
}

fn begin_task(recorder: &mut ThreadRecorder, state: &QueueState, work: &Work) -> Result<Task, RecordError> {
    let seen = |stage| work.ranges.iter().filter(|(range, _)| range.roles.is_seen_at(stage)).count();
    let records = seen(DumpStage::BeforeDispatch) + seen(DumpStage::AfterCompletion) + work.values.len();
    let (name, submitted_ns) = (recorder.string(work.name)?, recorder.now());
    recorder.begin(&TaskInfo {
        queue: state.id,
        name,
        submitted_ns,
        records: u32::try_from(records).unwrap_or(u32::MAX),
        ..work.info
    })
}

/// Records what a command stands behind, and what stands between.
pub fn record_order(recorder: &mut ThreadRecorder, submission: &Submission) -> Result<(), RecordError> {
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

const NO_ROOM: &str = "content of some arguments is not captured: there is no room for it on its way from the device; \
    give more with TENSORTAP_OPENCL_RING, in bytes, or let more sides of commands be under way with TENSORTAP_OPENCL_BACKLOG";

/// The events of a command that went in.
struct Events {
    /// Completes when what it left was seen.
    last: Event,
    /// The command's own, where that is another.
    own: Option<OwnEvent>,
}

impl Begun {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The probes before, the command, the probes behind.
    fn run(
        &self,
        layer: &'static Layer,
        place: &Place<'_>,
        state: &QueueState,
        call: impl FnOnce(&[Event], *mut Event) -> Status,
    ) -> Result<Events, Status> {
        let probe = |stage, waits: &[Event]| match self.is_filtered {
            true => None,
            false => self.probe(layer, (place.queue, &state.probes), stage, waits),
        };
        let before = probe(DumpStage::BeforeDispatch, place.waits).unwrap_or_default();
        let waits = before.last().map_or(place.waits, std::slice::from_ref);
        let mut own = ptr::null_mut();
        let status = call(waits, &raw mut own);
        if status != ffi::SUCCESS {
            before.into_iter().for_each(|event| layer.release(event));
            self.refuse(layer, status);
            return Err(status);
        }
        let after = probe(DumpStage::AfterCompletion, &[own]);
        if after.is_none() {
            self.end(layer);
        }
        let mut after = after.unwrap_or_default();
        let last = after.pop();
        self.running().hold(layer, before.into_iter().chain(after));
        // What waits for nothing that could fail needs nobody who looks.
        if let Some(last) = last.filter(|_| !place.waits.is_empty()) {
            layer.watch(last, &self.running);
        }
        Ok(match last {
            Some(last) => Events { last, own: Some(OwnEvent(own)) },
            None => Events { last: own, own: None },
        })
    }

    /// Probes of one side, by their events. None where nobody will tell when the queue has come so far: there is nothing to be seen before, content is not wanted, or
    /// the driver refuses, which is recorded as no content.
    fn probe(
        &self,
        layer: &'static Layer,
        (queue, probes): (Queue, &Probes),
        stage: DumpStage,
        waits: &[Event],
    ) -> Option<Vec<Event>> {
        let sources = self.sources_at(stage);
        if sources.is_empty() && stage == DumpStage::BeforeDispatch {
            return None;
        }
        match probes {
            Probes::None => return None,
            Probes::Mentions => {
                let command = &mut self.running().command;
                layer.record(|recorder| command.mention(recorder, stage));
                return None;
            }
            Probes::Functions | Probes::Copies(_) => {}
        }
        let asked = Asked { running: &self.running, sources: &sources, stage };
        match probe::enqueue(layer, (queue, probes), asked, waits) {
            Ok(probed) => {
                let missed = |place| probed.missed.iter().find(|(at, _)| *at == place).map(|(_, why)| *why);
                self.not_seen(layer, stage, missed);
                if probed.told.contains(&UncapturedReason::NoRoom) {
                    layer.tell_once(NO_ROOM);
                }
                Some(probed.events)
            }
            Err(why) => {
                self.not_seen(layer, stage, |_| Some(why));
                None
            }
        }
    }

    fn sources_at(&self, stage: DumpStage) -> Vec<Source> {
        let running = self.running();
        let seen = running.command.ranges().iter().zip(&self.sources);
        seen.filter(|(range, _)| range.roles.is_seen_at(stage)).map(|(_, &source)| source).collect()
    }

    /// Some ranges are not seen: by their places among those of the side, the reasons why.
    fn not_seen(&self, layer: &Layer, stage: DumpStage, why: impl Fn(usize) -> Option<UncapturedReason>) {
        let command = &mut self.running().command;
        let seen = command.seen_at(stage).enumerate();
        let missed: Vec<_> =
            seen.filter_map(|(at, range)| Some((why(at)?, (range.arg, Role::InOut, range.name)))).collect();
        if missed.iter().any(|(why, _)| *why == UncapturedReason::NoRoom) {
            layer.tell_once(NO_ROOM);
        }
        layer.record(|recorder| {
            for (why, arg) in missed {
                recorder.not_captured(command.task(), stage, arg, why)?;
            }
            Ok(())
        });
    }

    /// It ends with its submission, as nothing will tell when it does.
    fn end(&self, layer: &Layer) {
        let command = &mut self.running().command;
        layer.record(|recorder| recorder.end(command.task()));
    }

    /// The driver does not take it: it has done nothing.
    fn refuse(&self, layer: &Layer, status: Status) {
        let mut running = self.running();
        running.end(layer);
        let command = &mut running.command;
        layer.record(|recorder| {
            let name =
                recorder.string(&format!("{}, refused by the driver with status {status}", self.name))?;
            recorder.refused(command.task(), name)
        });
    }
}

/// The program's event, and its wait.
fn hand_over(
    layer: &Layer,
    place: &Place<'_>,
    begun: &Begun,
    Events { last, own }: Events,
    guard: MutexGuard<'_, ()>,
) -> Status {
    let wants_event = !place.event.is_null();
    if wants_event {
        layer.objects().give_event(last, begun.mark, own);
        // SAFETY: the program's promise.
        unsafe { place.event.write(last) };
    } else {
        begun.running().hold(layer, own.map(|OwnEvent(own)| own));
    }
    // Others may have to put something into this queue for the wait to end.
    drop(guard);
    let mut status = ffi::SUCCESS;
    if place.blocks {
        status = wait(layer, last);
        layer.objects().orders.host_waited(&[begun.mark]);
    }
    if !wants_event {
        layer.release(last);
    }
    status
}

fn wait(layer: &Layer, event: Event) -> Status {
    match layer.target.clWaitForEvents {
        // SAFETY: an event that is held here.
        Some(call) => unsafe { call(1, &raw const event) },
        None => ffi::INVALID_OPERATION,
    }
}

/// What is known of a queue; one that was never seen being made is asked for what it is.
pub fn queue_state(layer: &'static Layer, queue: Queue) -> Option<Arc<QueueState>> {
    let known = layer.objects().queues.get(&key(queue)).map(|known| Arc::clone(&known.state));
    known.or_else(|| meet_queue(layer, queue))
}

/// A queue that is new.
pub fn meet_queue(layer: &'static Layer, queue: Queue) -> Option<Arc<QueueState>> {
    let target = &layer.target;
    let asked = |what| {
        move |room, value, size| match target.clGetCommandQueueInfo {
            // SAFETY: a queue of the program's, and what is written to is this call's.
            Some(ask) => unsafe { ask(queue, what, room, value, size) },
            None => ffi::INVALID_OPERATION,
        }
    };
    let properties = raw::value::<u64>(asked(ffi::QUEUE_PROPERTIES))?;
    let device = raw::value::<usize>(asked(ffi::QUEUE_DEVICE)).map(ptr::with_exposed_provenance_mut)?;
    let abilities = raw::value::<u64>(|room, value, size| match target.clGetDeviceInfo {
        // SAFETY: the queue's device, and what is written to is this call's.
        Some(ask) => unsafe { ask(device, ffi::DEVICE_EXECUTION_CAPABILITIES, room, value, size) },
        None => ffi::INVALID_OPERATION,
    })
    .unwrap_or(0);
    let device_name = device_name(layer, device);
    let keeps_order = properties & ffi::QUEUE_OUT_OF_ORDER == 0;
    let context = raw::value::<usize>(asked(ffi::QUEUE_CONTEXT)).map(ptr::with_exposed_provenance_mut)?;
    let probes = probes(layer, (context, device), abilities & ffi::EXEC_NATIVE_KERNEL != 0);
    let number = layer.objects().count_queue();
    let order = if keeps_order { "" } else { ", out of order" };
    let id = layer.record(|recorder| recorder.queue(&format!("queue {number} ({device_name}{order})")))?;
    let state = Arc::new(QueueState { number, id, probes, lock: Mutex::default() });
    let mut objects = layer.objects();
    objects.orders.queue(number, keeps_order);
    objects.queues.insert(key(queue), KnownQueue { holds: 1, state: Arc::clone(&state) });
    Some(state)
}

/// How the memory of a device is seen: queues of one context and device share what they need for it.
fn probes(layer: &'static Layer, (context, device): (Context, Device), runs_functions: bool) -> Probes {
    let said = std::env::var(PROBES_VARIABLE).unwrap_or_default();
    if runs_functions && said != "copies" && said != "device" {
        return Probes::Functions;
    }
    if !layer.wants_content {
        return Probes::Mentions;
    }
    let place = (key(context), key(device));
    let known = layer.objects().rings.get(&place).and_then(Weak::upgrade);
    let ring = known.or_else(|| {
        let ring = Arc::new(Ring::new(layer, (context, device), said != "copies")?);
        let mut objects = layer.objects();
        objects.rings.retain(|_, ring| ring.strong_count() > 0);
        objects.rings.insert(place, Arc::downgrade(&ring));
        // It stays as long as the program holds the context: to make it takes longer than to make a queue.
        if let Some(known) = objects.contexts.get_mut(&place.0) {
            known.rings.push(Arc::clone(&ring));
        }
        Some(ring)
    });
    match ring.filter(|_| layer.reader().is_there()) {
        Some(ring) => Probes::Copies(ring),
        None => Probes::None,
    }
}
