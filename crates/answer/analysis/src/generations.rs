//! Which allocation the bytes of an argument belong to, and which tasks wrote them since.
//!
//! Memory is allocated, freed and allocated again. What tasks wrote in one generation is unrelated to what later tasks find
//! in the next.

use std::ops::Range;

use tensortap_format::{AllocationEvent, Argument, Task};
use tensortap_geometry::Layout;

use crate::graph::{OutputRef, TaskGraph, TensorView};

/// Maximum number of parts of an argument, of writers that are listed for each part, and of steps of a search.
const MAX_PARTS: usize = 256;
const MAX_WRITERS: usize = 1000;
const MAX_STEPS: u64 = 1 << 26;

/// The generations of a dump's memory.
#[derive(Clone, Copy, Debug)]
pub struct Generations<'g> {
    graph: &'g TaskGraph,
}

/// Neighboring bytes of one generation, as a task found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation<'g> {
    /// Their addresses.
    pub addresses: Range<u64>,
    /// Number of recorded allocations of these bytes up to the task: 0 if their memory was allocated before the recording
    /// began, or by code that is not recorded.
    pub number: u64,
    /// The allocation that began it.
    pub allocated: Option<&'g AllocationEvent>,
    /// The release that ended it before the task: the task uses memory that is not allocated.
    pub freed: Option<&'g AllocationEvent>,
    /// The outputs that wrote some of these bytes since the allocation and before the task, the newest first. Tasks that are
    /// not ordered with each other are in the order of the graph.
    pub writers: Vec<OutputRef>,
    /// Number of further writers that are not listed.
    pub more_writers: u64,
}

impl<'g> Generations<'g> {
    /// The generations of the memory of a graph's tasks.
    #[must_use]
    pub fn of(graph: &'g TaskGraph) -> Generations<'g> {
        Generations { graph }
    }

    /// The generation of one byte of an argument, at a distance in bytes from its first one. `None` if that is not known: the
    /// argument has no address or not so many bytes, its task has no time to compare with the allocations, or the search takes
    /// too long.
    #[must_use]
    pub fn at(&self, task: Task<'_>, argument: Argument<'_>, byte: u64) -> Option<Generation<'g>> {
        let memory = argument.memory()?;
        let address = memory.start.checked_add(byte).filter(|address| *address < memory.end)?;
        let byte = address..address + 1;
        let events = self.events(task, &byte)?;
        self.generations(task, &events, vec![byte])?.pop()
    }

    /// The generations of an argument's memory, in the order of addresses, from its first to its last byte. `None` as for
    /// [`at`](Self::at), or if there are too many to tell apart.
    #[must_use]
    pub fn parts(&self, task: Task<'_>, argument: Argument<'_>) -> Option<Vec<Generation<'g>>> {
        let memory = argument.memory()?;
        let events = self.events(task, &memory)?;
        let inside = |address: &u64| memory.start < *address && *address < memory.end;
        let ends = events.iter().flat_map(|event| [event.address, end_of(event)]).filter(inside);
        let mut bounds: Vec<u64> = ends.chain([memory.start, memory.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        if (bounds.len() as u64).saturating_mul(events.len() as u64) > MAX_STEPS {
            return None;
        }
        // Neighbors of one generation are one part.
        let mut parts: Vec<Range<u64>> = Vec::new();
        for bounds in bounds.windows(2) {
            let part = bounds[0]..bounds[1];
            match parts.last_mut() {
                Some(last) if state(&events, last.start) == state(&events, part.start) => last.end = part.end,
                _ => parts.push(part),
            }
        }
        if parts.len() > MAX_PARTS { None } else { self.generations(task, &events, parts) }
    }

    /// The allocations and releases of a range up to the time at which a task got its memory.
    fn events(&self, task: Task<'_>, range: &Range<u64>) -> Option<Vec<&'g AllocationEvent>> {
        let concerns = |event: &&AllocationEvent| event.address < range.end && end_of(event) > range.start;
        let mut events = self.graph.tasks().renewed().iter().filter(concerns).peekable();
        // Without events, no time is needed.
        events.peek()?;
        let given = task.given_time()?;
        Some(events.filter(|event| event.at_ns <= given).collect())
    }

    fn generations(
        &self,
        task: Task<'_>,
        events: &[&'g AllocationEvent],
        parts: Vec<Range<u64>>,
    ) -> Option<Vec<Generation<'g>>> {
        let mut steps = 0;
        let mut found = Vec::with_capacity(parts.len());
        for addresses in parts {
            let layout = Layout::contiguous(&[addresses.end - addresses.start], 8).ok()?;
            let State { number, allocated, freed } = state(events, addresses.start);
            let (writers, more_writers) = (Vec::new(), 0);
            let part = TensorView::new(layout, addresses.start);
            found.push((part, Generation { addresses, number, allocated, freed, writers, more_writers }));
        }
        for place in (0..task.place()).rev() {
            let other = self.graph.task(place);
            for output in other.outputs().filter(|output| !output.is_unchanged()) {
                let Some(view) = TensorView::of(output) else { continue };
                for (part, generation) in &mut found {
                    steps += 1;
                    let since = generation.allocated.map_or(0, |event| event.at_ns);
                    if other.given_time().is_some_and(|given| given < since) || !view.shares(part) {
                        continue;
                    }
                    match generation.writers.len() < MAX_WRITERS {
                        true => {
                            generation.writers.push(OutputRef { task: place, arg_index: output.arg_index })
                        }
                        false => generation.more_writers += 1,
                    }
                }
            }
            if steps > MAX_STEPS {
                return None;
            }
        }
        Some(found.into_iter().map(|(_, generation)| generation).collect())
    }
}

fn end_of(event: &AllocationEvent) -> u64 {
    event.address.saturating_add(event.bytes)
}

/// What the events say about a byte.
#[derive(PartialEq, Eq)]
struct State<'g> {
    number: u64,
    allocated: Option<&'g AllocationEvent>,
    freed: Option<&'g AllocationEvent>,
}

/// The state of a byte after events in the order of time. A block that an allocator cut from its memory counts, not the
/// memory that it was cut from.
fn state<'g>(events: &[&'g AllocationEvent], address: u64) -> State<'g> {
    let mut state = State { number: 0, allocated: None, freed: None };
    for event in events.iter().filter(|event| (event.address..end_of(event)).contains(&address)) {
        match event.freed {
            true => state.freed = Some(event),
            false => {
                state = State { number: state.number + 1, allocated: Some(event), freed: None };
            }
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, tasks_with};

    const FREED: bool = true;

    fn event(at_ns: u64, freed: bool, address: u64, bytes: u64, storage: u64) -> AllocationEvent {
        AllocationEvent { at_ns, freed, address, bytes, storage, ..AllocationEvent::default() }
    }

    fn graph(tasks: Vec<TaskBuilder>, events: &[AllocationEvent]) -> TaskGraph {
        TaskGraph::build(tasks_with(tasks, events), None)
    }

    /// Addresses, number, storages of allocation and release, and the tasks that wrote.
    type Part = (Range<u64>, u64, [u64; 2], Vec<u64>);

    /// The parts of an argument.
    fn parts(graph: &TaskGraph, task: usize, arg: u16) -> Vec<Part> {
        let (task, generations) = (graph.task(task), Generations::of(graph));
        let storage = |event: Option<&AllocationEvent>| event.map_or(0, |event| event.storage);
        let parts = generations.parts(task, task.argument(arg).unwrap()).unwrap();
        let part = |part: Generation<'_>| {
            let writers = part.writers.iter().map(|output| graph.task(output.task).task_id).collect();
            (part.addresses, part.number, [storage(part.allocated), storage(part.freed)], writers)
        };
        parts.into_iter().map(part).collect()
    }

    #[test]
    fn a_byte_belongs_to_the_last_allocation_before_the_task_and_its_writers_wrote_since() {
        // Tensors have 64 bytes.
        let tasks = [
            TaskBuilder::new(1, "a").output(1000, "x").at(10),
            TaskBuilder::new(2, "b").output(1000, "y").at(30),
            TaskBuilder::new(3, "c").inout(1000, "y", "z").at(40),
            TaskBuilder::new(4, "d").input(1000, "z").at(50),
            TaskBuilder::new(5, "e").input(1000, "z").at(70),
        ];
        let events = [
            event(20, false, 1000, 64, 1),
            event(45, FREED, 1032, 32, 2),
            event(46, false, 1048, 16, 3),
            event(60, FREED, 1000, 64, 1),
        ];
        let graph = graph(tasks.to_vec(), &events);
        assert_eq!(parts(&graph, 1, 0), [(1000..1064, 1, [1, 0], vec![])]);
        assert_eq!(parts(&graph, 2, 0), [(1000..1064, 1, [1, 0], vec![2])]);
        let written = vec![3, 2];
        let expected = [
            (1000..1032, 1, [1, 0], written.clone()),
            (1032..1048, 1, [1, 2], written.clone()),
            (1048..1064, 2, [3, 0], vec![]),
        ];
        assert_eq!(parts(&graph, 3, 0), expected);
        let last = graph.task(4);
        let at = |byte| Generations::of(&graph).at(last, last.argument(0).unwrap(), byte);
        let (first, end) = (at(0).unwrap(), at(63).unwrap());
        assert_eq!(
            (first.number, first.freed.map(|event| event.at_ns)),
            (1, Some(60)),
            "it uses freed memory"
        );
        assert_eq!((end.number, end.writers.len(), at(64)), (2, 0, None));
    }

    #[test]
    fn without_events_or_times_nothing_is_claimed() {
        let task = || TaskBuilder::new(1, "a").input(1000, "x");
        let known = |graph: &TaskGraph| {
            let task = graph.task(0);
            Generations::of(graph).parts(task, task.argument(0).unwrap()).is_some()
        };
        let events = [event(20, false, 1000, 64, 1)];
        let with = |task: TaskBuilder, events: &[AllocationEvent]| graph(vec![task], events);
        assert!(known(&with(task().at(30), &events)));
        assert!(!known(&with(task(), &events)), "the task has no time");
        assert!(
            !known(&with(task().at(30), &[])) && !known(&with(task().at(30), &[event(1, false, 0, 8, 1)]))
        );
        assert!(!known(&with(TaskBuilder::new(1, "a").input(0, "x").at(30), &events)), "it has no address");
    }
}
