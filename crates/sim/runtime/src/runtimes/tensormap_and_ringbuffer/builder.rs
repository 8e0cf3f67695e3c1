//! The orchestrator's side of the rings: adds tasks, places buffers, and derives dependencies.

use std::time::Duration;

use tensortap_abi::{DeviceRange, MAX_TENSORS, NO_SLOT, RING_COUNT, Role, TaskId, TaskState, ThreadState};
use tensortap_geometry::Footprint;
use tensortap_scene::{BufferTable, GraphBuilder, GraphError, Location, TaskHandle, TaskSpec, TensorUse};
use tensortap_sync::fanout;

use super::advice::{Advice, Resource, RingPosition};
use super::ring::Ring;
use super::tensor_map::{Dependency, TensorMap};
use super::{DeviceBuilder, DeviceSetup, EDGES_PER_SLOT, GraphObserver};
use crate::device::guard::GuardError;
use crate::device::run::Run;
use crate::runtimes::Recording;
use crate::runtimes::slot::{ALIGN, buffer_of, new_slot, payload_layout, poison_new, write_payload};

/// Longest time that the orchestrator sleeps between two checks for a deadlock.
const DEADLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two checks for tensors that no longer need a guard.
const GUARD_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// An open scope.
#[derive(Default)]
struct Scope {
    /// Slots that the scope holds.
    held: Vec<u32>,
    /// The position of each ring before the first task that this scope holds in it.
    since: [Option<RingPosition>; RING_COUNT],
    /// Tasks submitted in the scope.
    tasks: u64,
}

/// A task in the tensor map.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TaskRef {
    slot: u32,
    id: u64,
}

/// Builds the graph in rings.
pub struct RingBuilder<'r, 'm> {
    setup: DeviceSetup<'m>,
    run: &'r Run<'m>,
    rings: Vec<Ring>,
    map: TensorMap<TaskRef>,
    scopes: Vec<Scope>,
    submitted: u64,
    recording: Recording<'r>,
    /// Dependencies of the current task. The allocation is reused.
    found: Vec<Dependency<TaskRef>>,
    /// Buffer, bytes and role of each argument of the current task. The allocation is reused.
    uses: Vec<(u64, Footprint, Role)>,
    most_edges: u64,
    /// Set once a ring can never drain. From then on tasks are only counted.
    advice: Option<Advice>,
}

impl<'r, 'm> RingBuilder<'r, 'm> {
    /// Creates a builder with empty rings in the launch's memory.
    pub fn new(
        setup: DeviceSetup<'m>,
        run: &'r Run<'m>,
        observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Self, GraphError> {
        let rings = run.rings.as_ref().ok_or_else(|| GraphError::Other("the launch has no rings".into()))?;
        let rings = (0..RING_COUNT).map(|r| Ring::new(rings.ring(r).clone(), &setup.args, r)).collect();
        Ok(RingBuilder {
            setup,
            run,
            rings,
            map: TensorMap::new(observer.is_some()),
            scopes: vec![Scope::default()],
            submitted: 0,
            recording: Recording::new(observer),
            found: Vec::new(),
            uses: Vec::with_capacity(MAX_TENSORS),
            most_edges: 0,
            advice: None,
        })
    }

    fn ring_index(&self) -> usize {
        (self.scopes.len() - 1).min(RING_COUNT - 1)
    }

    /// Calls `attempt` until it succeeds, and waits for slots to retire in between. Returns `None` if none
    /// will ever retire.
    fn wait_for<T>(
        &mut self,
        ring: usize,
        resource: Resource,
        mut attempt: impl FnMut(&mut Ring) -> Option<T>,
    ) -> Result<Option<T>, GraphError> {
        if let Some(done) = attempt(&mut self.rings[ring]) {
            return Ok(Some(done));
        }
        let run = self.run;
        let state = run.control.thread(0);
        state.state().publish(ThreadState::WaitingForRing as u32);
        let outcome = loop {
            if run.stopped() {
                break Err(GraphError::Stopped);
            }
            // Read before the ring: tasks release what they hold before they count as complete.
            let all_complete = run.completed() == self.submitted;
            let ring_state = &mut self.rings[ring];
            ring_state.catch_up();
            let tail = ring_state.reclaimed;
            if let Some(done) = attempt(ring_state) {
                break Ok(Some(done));
            }
            if all_complete {
                self.begin_counting(ring, resource);
                break Ok(None);
            }
            let retire = ring_state.slots.ring();
            let _ = run
                .orchestrator_parker
                .wait_timeout(DEADLOCK_CHECK_INTERVAL, || retire.tail() == tail && !run.stopped());
        };
        state.state().publish(ThreadState::Running as u32);
        outcome
    }

    /// Places the buffers that this task writes first. Returns false if the ring can never have room.
    fn place_buffers(
        &mut self,
        ring: usize,
        id: TaskId,
        slot: u32,
        task: &TaskSpec,
        buffers: &mut BufferTable,
    ) -> Result<bool, GraphError> {
        for TensorUse { tensor, .. } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked at submission");
            if buffer.location.is_some() {
                continue;
            }
            let bytes = self.piece_bytes(buffer.bytes);
            let capacity = self.rings[ring].heap.capacity();
            if bytes > capacity {
                return Err(GraphError::TaskLargerThanRing {
                    ring: u32::try_from(ring).expect("one of four"),
                    needed: bytes.next_power_of_two(),
                    capacity,
                    unit: "bytes",
                    option: "--ring-heap",
                });
            }
            let Some(offset) = self.wait_for(ring, Resource::Heap, |r| r.heap.take(bytes))? else {
                return Ok(false);
            };
            let piece = self.setup.args.heap.addr + ring as u64 * capacity + offset;
            let addr = self.guard_tensor(ring, piece, buffer.bytes)?;
            poison_new(self.setup.memory, self.setup.args.poison, addr, buffer.bytes)?;
            self.map.forget(addr);
            let version = id.local() / self.setup.args.ring_slots;
            buffer.location = Some(Location { addr, owner_task: id.0, owner_slot: slot, version });
        }
        Ok(true)
    }

    /// The bytes that a buffer takes from its ring.
    fn piece_bytes(&self, bytes: u64) -> u64 {
        match &self.run.guard {
            Some(guard) => guard.layout().piece_bytes(bytes).unwrap_or(u64::MAX),
            None => bytes.next_multiple_of(ALIGN).max(ALIGN),
        }
    }

    /// The address of a tensor in its piece of a ring. If tensors are guarded, also sets the guard.
    fn guard_tensor(&mut self, ring: usize, piece: u64, bytes: u64) -> Result<u64, GraphError> {
        let Some(guard) = &self.run.guard else { return Ok(piece) };
        let refused = |error: GuardError| GraphError::Memory(error.to_string());
        let addr = guard.layout().tensor_addr(piece, bytes);
        while guard.is_full() {
            // Read before the rings: tasks release what they hold before they count as complete.
            let all_complete = self.run.completed() == self.submitted;
            for ring in &mut self.rings {
                ring.catch_up();
                ring.retired_tensors().try_for_each(|addr| guard.forget(addr)).map_err(refused)?;
            }
            match guard.is_full() {
                true if self.run.stopped() => return Err(GraphError::Stopped),
                true if all_complete => return Err(refused(guard.full())),
                true => std::thread::sleep(GUARD_CHECK_INTERVAL),
                false => {}
            }
        }
        guard.place(DeviceRange { addr, bytes }).map_err(refused)?;
        self.rings[ring].add_guarded(addr);
        Ok(addr)
    }

    /// Finds the dependencies of a task, then records its accesses.
    fn derive(&mut self, task: &TaskSpec, buffers: &BufferTable, me: TaskRef) {
        let slots = self.run.slots;
        // The slot of the new task is not written yet and still contains the previous task.
        let is_live = |known: TaskRef| {
            known == me
                || (slots.shared_task_id(known.slot).get() == known.id
                    && !fanout::is_closed(slots.fanout(known.slot)))
        };
        self.found.clear();
        self.uses.clear();
        for (index, TensorUse { tensor, role }) in task.tensors.iter().enumerate() {
            let addr = buffer_of(buffers, tensor).location.expect("placed above").addr;
            let bytes = Footprint::new(tensor.layout(), addr);
            let arg_index = u16::try_from(index).expect("at most 16");
            self.map.find(addr, &bytes, *role, arg_index, is_live, &mut self.found);
            self.uses.push((addr, bytes, *role));
        }
        for (addr, bytes, role) in &self.uses {
            self.map.record(*addr, *bytes, *role, me, is_live);
        }
    }

    /// Adds a hold on each slot whose memory the task uses.
    fn hold_owners(&self, task: &TaskSpec, buffers: &BufferTable, slot: u32) -> [u32; MAX_TENSORS] {
        let mut owners = [NO_SLOT; MAX_TENSORS];
        let mut count = 0;
        for TensorUse { tensor, .. } in &task.tensors {
            let owner = buffer_of(buffers, tensor).location.map_or(NO_SLOT, |p| p.owner_slot);
            if owner != NO_SLOT && owner != slot && !owners[..count].contains(&owner) {
                // The owner's scope is open and holds the slot, so it cannot retire now.
                self.run.slots.refs(owner).add(1);
                owners[count] = owner;
                count += 1;
            }
        }
        owners
    }

    /// The outermost scope that needs the slot: the scope of the oldest buffer that the task writes first.
    fn holding_depth(&self, task: &TaskSpec, buffers: &BufferTable, id: TaskId) -> usize {
        let first_written = task.tensors.iter().filter_map(|t| buffers.get(t.tensor.buffer()));
        let owned =
            first_written.filter(|b| b.location.is_some_and(|p| p.owner_task == id.0)).map(|b| b.depth);
        owned.min().unwrap_or(usize::MAX).min(self.scopes.len() - 1)
    }

    /// Counts a task in its own scope, and stores the ring position in the scope that holds its slot.
    fn enter(&mut self, ring: usize, holder: usize, before: RingPosition) {
        self.scopes[holder].since[ring].get_or_insert(before);
        self.scopes.last_mut().expect("the outermost scope is always open").tasks += 1;
    }

    fn begin_counting(&mut self, ring: usize, resource: Resource) {
        let now = std::array::from_fn(|r| self.rings[r].position());
        self.advice = Some(Advice::new(ring, resource, self.scopes.len() - 1, self.most_edges, now));
    }

    /// After a deadlock: counts a task instead of adding it, and gives its buffers placeholder locations.
    fn count(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> TaskHandle {
        let ring = self.ring_index();
        let mut holder = self.scopes.len() - 1;
        let mut pieces = Vec::new();
        for TensorUse { tensor, .. } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked at submission");
            if buffer.location.is_none() {
                pieces.push(self.piece_bytes(buffer.bytes));
                holder = holder.min(buffer.depth);
                buffer.location = Some(Location::permanent(self.setup.args.heap.addr));
            }
        }
        let before = self.advice.as_ref().map(|a| a.position(ring)).unwrap_or_default();
        self.enter(ring, holder, before);
        let oldest =
            self.scopes.iter().filter_map(|s| s.since[ring]).min_by_key(|m| m.tasks).unwrap_or(before);
        if let Some(advice) = &mut self.advice {
            advice.count_task(ring, oldest, &pieces);
        }
        TaskHandle { id: TaskId(u64::MAX), slot: NO_SLOT }
    }

    /// Adds a task. Returns `None` if a ring can never have room for it.
    fn try_add(
        &mut self,
        task: &TaskSpec,
        buffers: &mut BufferTable,
    ) -> Result<Option<TaskHandle>, GraphError> {
        let ring = self.ring_index();
        let before = self.rings[ring].position();
        let Some(local) = self.wait_for(ring, Resource::Slots, |r| r.slots.try_claim())? else {
            return Ok(None);
        };
        let id = TaskId::in_ring(u32::try_from(ring).expect("one of four"), local_number(local)?);
        let slot = self.run.rings.as_ref().expect("this runtime has rings").slot_of(id);
        if !self.place_buffers(ring, id, slot, task, buffers)? {
            return Ok(None);
        }
        self.derive(task, buffers, TaskRef { slot, id: id.0 });
        self.report_dependencies(id);
        let Some(first_edge) = self.take_edges(ring)? else { return Ok(None) };
        let Some(payload) = self.take_payload(ring, task)? else { return Ok(None) };
        self.write_slot(slot, id, payload, task, buffers)?;
        self.link_found(slot, ring, first_edge);
        let place = self.rings[ring].place(local);
        self.rings[ring].ends[place] = self.rings[ring].end_positions();
        self.rings[ring].next_to_prefault().for_each(|range| self.run.prefault_soon(range));
        let holder = self.holding_depth(task, buffers, id);
        self.enter(ring, holder, before);
        self.scopes[holder].held.push(slot);
        Ok(Some(TaskHandle { id, slot }))
    }

    /// Reports the dependencies of a task to the observer, and keeps only those that must be waited for.
    fn report_dependencies(&mut self, id: TaskId) {
        if self.recording.is_on() {
            let edges = self.found.iter().map(|f| (TaskId(f.task.id), f.cause, f.arg_index));
            self.recording.edges(id, edges);
            self.found.retain(|f| f.live);
        }
    }

    /// Reserves edges for the dependencies. Returns the index of the first.
    fn take_edges(&mut self, ring: usize) -> Result<Option<u64>, GraphError> {
        let edges = self.found.len() as u64;
        self.most_edges = self.most_edges.max(edges);
        let capacity = self.rings[ring].edges.capacity();
        if edges > capacity {
            return Err(GraphError::TaskLargerThanRing {
                ring: u32::try_from(ring).expect("one of four"),
                needed: edges.div_ceil(EDGES_PER_SLOT).next_power_of_two(),
                capacity: capacity / EDGES_PER_SLOT,
                unit: "slots (for its dependencies)",
                option: "--ring-slots",
            });
        }
        self.wait_for(ring, Resource::Edges, |r| r.edges.take(edges))
    }

    /// Reserves memory for the payload and returns its address. A task that has a slot always gets it.
    fn take_payload(&mut self, ring: usize, task: &TaskSpec) -> Result<Option<u64>, GraphError> {
        let bytes = (payload_layout(task).bytes() as u64).next_multiple_of(ALIGN);
        let base = self.setup.args.payloads.addr + ring as u64 * self.rings[ring].payloads.capacity();
        let place = self.wait_for(ring, Resource::Slots, |r| r.payloads.take(bytes))?;
        Ok(place.map(|place| base + place))
    }

    fn write_slot(
        &mut self,
        slot: u32,
        id: TaskId,
        payload: u64,
        task: &TaskSpec,
        buffers: &BufferTable,
    ) -> Result<(), GraphError> {
        write_payload(self.setup.memory, payload, task, buffers)?;
        let mut header = new_slot(task, id, payload, self.recording.name_ids(task));
        header.refs = EXECUTION_AND_SCOPE;
        header.owners = self.hold_owners(task, buffers, slot);
        header.edges_len = u32::try_from(self.found.len()).expect("bounded by the ring");
        self.run.slots.write(slot, header);
        Ok(())
    }

    fn link_found(&mut self, slot: u32, ring: usize, first_edge: u64) {
        let base = ring as u64 * self.rings[ring].edges.capacity() + first_edge;
        for (node, found) in (base..).zip(&self.found) {
            let node = u32::try_from(node).expect("edge tables have fewer than 2^32 entries");
            self.run.link(found.task.slot, slot, node, found.cause.pack(found.arg_index));
        }
    }

    fn close_scope(&mut self) {
        if let Some(Scope { held, tasks, .. }) = self.scopes.pop() {
            held.into_iter().for_each(|slot| self.run.release(slot));
            if let Some(advice) = &mut self.advice {
                advice.note_scope_end(self.scopes.len(), tasks);
            }
        }
    }
}

/// Holds on a new slot: its execution and its scope.
const EXECUTION_AND_SCOPE: u32 = 2;

fn local_number(local: u64) -> Result<u32, GraphError> {
    u32::try_from(local).map_err(|_| {
        GraphError::Other(
            "a ring can number at most 2^32 tasks in one run; use shorter runs or more scopes".into(),
        )
    })
}

impl GraphBuilder for RingBuilder<'_, '_> {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        if self.run.stopped() {
            return Err(GraphError::Stopped);
        }
        if self.advice.is_none()
            && let Some(handle) = self.try_add(task, buffers)?
        {
            return Ok(handle);
        }
        Ok(self.count(task, buffers))
    }

    // Dependencies are derived from the bytes that tasks access.
    fn add_edge(&mut self, _from: TaskHandle, _to: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        if self.advice.is_some() {
            return Ok(());
        }
        if self.run.slots.state(task.slot).get() != TaskState::Building as u32 {
            return Err(GraphError::BadTask {
                what: "publishing",
                task: task.id,
                problem: "is already published",
            });
        }
        self.submitted += 1;
        self.run.control.thread(0).submitted().set(self.submitted);
        self.run.publish(task.slot);
        Ok(())
    }

    // Tensor metadata comes from the payload.
    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }

    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError> {
        self.recording.begin_scope(name);
        self.scopes.push(Scope::default());
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        self.recording.end_scope();
        self.close_scope();
        Ok(())
    }
}

impl DeviceBuilder for RingBuilder<'_, '_> {
    fn finish(&mut self) -> Result<u64, GraphError> {
        while !self.scopes.is_empty() {
            self.close_scope();
        }
        match &self.advice {
            Some(advice) => {
                let heap_bytes = self.setup.args.heap.bytes / RING_COUNT as u64;
                Err(GraphError::RingDeadlock(advice.message(self.setup.args.ring_slots.into(), heap_bytes)))
            }
            None => Ok(self.submitted),
        }
    }
}

#[cfg(test)]
mod tests;
