//! Finds the producers of every input: the outputs that its content came from.
//!
//! Evidence, best first: addresses and the order of writes, the edges of the dump, equal content.
//! [`OriginBasis`] reports which of these was used.

use std::collections::HashMap;

use tensortap_abi::{DType, EdgeCause};
use tensortap_format::{Argument, Edge, Task, Tasks};

use super::index::{EdgeIndex, TaskIndex};
use super::order::dependency_order;
use super::origins::Origins;
use super::writes::WriteMap;
use super::{OriginBasis, OutputRef, Surroundings, TaskGraph, TensorView};
use crate::observation::Observations;

/// Tasks between two calls of the progress callback.
const WATCHED: usize = 4096;

/// An edge between two tasks of the dump. Small, because there may be many more edges than tasks.
struct Dependency {
    /// Position of the task that comes first.
    from: u32,
    /// Position of the task that waits.
    to: u32,
    arg_index: u16,
    /// Whether content may flow along the edge; false if the edge only protects an earlier read or write.
    may_carry: bool,
}

impl TaskGraph {
    /// Puts tasks into dependency order and finds the producers of each input.
    ///
    /// Runtimes derive different dependencies from the same graph, so producers are computed from captured
    /// addresses: an input comes from the last tasks that wrote its bytes, in an order that respects
    /// dependencies first and dispatch times second. If the runtime derived its dependencies from reads and
    /// writes, a task that the reader did not wait for is no producer: the memory was reused meanwhile.
    /// Without addresses the dump's dependencies decide, and without dependencies equal content. With unknown
    /// roles, observations decide which tasks wrote; see [`crate::observation`].
    #[must_use]
    pub fn build(tasks: Tasks, gap: Option<String>) -> TaskGraph {
        TaskGraph::build_with_progress(tasks, Surroundings { gap, others_write: false }, &|| ())
    }

    /// Like [`TaskGraph::build`]; calls `watch` regularly to report progress.
    pub(super) fn build_with_progress(mut tasks: Tasks, around: Surroundings, watch: &dyn Fn()) -> TaskGraph {
        let Surroundings { gap, others_write } = around;
        let has_derived_edges =
            !others_write && tasks.edges().iter().any(|edge| edge.why == EdgeCause::ReadAfterWrite.name());
        let mut dependencies = dependencies(&tasks);
        let pairs: Vec<_> = dependencies.iter().map(|d| (d.from, d.to)).collect();
        let order = dependency_order(&starts(&tasks), &pairs);
        let mut rank = vec![0; tasks.len()];
        order.iter().enumerate().for_each(|(place, &task)| rank[task] = small(place));
        for d in &mut dependencies {
            (d.from, d.to) = (rank[d.from as usize], rank[d.to as usize]);
        }
        tasks.put_in_order(&order);
        if tasks.iter().flat_map(|task| task.arguments()).any(|arg| !arg.role_known) {
            let (observations, origins) = Observations::of(&tasks);
            let (depths, observations) = (depths(&tasks, &origins), Some(Box::new(observations)));
            let graph = TaskGraph { tasks, origins, depths, gap, observations, ..TaskGraph::default() };
            return TaskGraph { others_write, has_derived_edges, ..graph };
        }
        let are_complete = has_derived_edges && gap.is_none();
        let mut finder = OriginFinder::new(&tasks, dependencies, are_complete);
        let mut origins = Origins::new(tasks.argument_count());
        let mut renewed = tasks.renewed().iter().peekable();
        for task in tasks.iter() {
            if task.place() % WATCHED == 0 {
                watch();
            }
            let start = task.start_time().unwrap_or(0);
            while let Some(memory) = renewed.next_if(|memory| memory.at_ns <= start) {
                finder.writes.forget(memory.address, memory.bytes);
            }
            finder.begin(task.place());
            for arg in task.inputs().filter(|arg| !arg.is_scalar()) {
                let (outputs, basis) = finder.origin(&tasks, task.place(), arg);
                origins.set(arg.number(), &outputs, basis);
            }
            task.outputs().for_each(|arg| finder.wrote(task.step, task.place(), arg));
        }
        origins.shrink();
        let depths = depths(&tasks, &origins);
        TaskGraph { tasks, origins, depths, gap, others_write, has_derived_edges, ..TaskGraph::default() }
    }

    /// For each view of memory, the outputs that hold its bytes at the end of the run, the newest first.
    /// `None` if that is not decided because too many views with gaps are interleaved.
    #[must_use]
    pub fn last_writers(&self, views: &[TensorView]) -> Vec<Option<Vec<OutputRef>>> {
        let mut writes = WriteMap::of(self.tasks.argument_count());
        for task in self.tasks.iter() {
            for arg in task.outputs() {
                if let Some(view) = TensorView::of(arg) {
                    writes.insert(OutputRef { task: task.place(), arg_index: arg.arg_index }, view);
                }
            }
        }
        views.iter().map(|view| writes.last(view)).collect()
    }
}

fn dependencies(tasks: &Tasks) -> Vec<Dependency> {
    let places = TaskIndex::of(tasks);
    let between = |edge: &Edge| {
        let may_carry = !matches!(edge.why, "write_after_write" | "write_after_read");
        let (from, to) = (small(places.get(edge.producer())?), small(places.get(edge.consumer())?));
        Some(Dependency { from, to, arg_index: edge.arg_index, may_carry })
    };
    tasks.edges().iter().filter_map(between).collect()
}

fn small(place: usize) -> u32 {
    u32::try_from(place).expect("2^32 tasks do not fit in memory")
}

/// Numbers in the order in which tasks started: times, or positions if some task has no time.
fn starts(tasks: &Tasks) -> Vec<u64> {
    let times: Option<Vec<u64>> = tasks.iter().map(|t| t.start_time()).collect();
    times.unwrap_or_else(|| (0..).take(tasks.len()).collect())
}

fn depths(tasks: &Tasks, origins: &Origins) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(tasks.len());
    for task in tasks.iter() {
        let outputs = task.arguments().flat_map(|arg| origins.get(arg.number()).outputs);
        depths.push(outputs.map(|output| depths[output.task] + 1).max().unwrap_or(0));
    }
    depths
}

struct OriginFinder {
    writes: WriteMap,
    dependencies: Vec<Dependency>,
    /// Edges by the waiting task, then by argument.
    incoming: EdgeIndex,
    /// Whether the dependencies show every producer.
    are_complete: bool,
    /// By task, the last task that waited for it, as position + 1.
    waited_for_by: Vec<usize>,
    /// The last writer of a content within each step; equal content in different steps is no evidence. Only
    /// filled if there are no edges, because it is the last resort.
    contents: Option<HashMap<(u32, u128, DType), OutputRef>>,
}

impl OriginFinder {
    fn new(tasks: &Tasks, dependencies: Vec<Dependency>, are_complete: bool) -> OriginFinder {
        let mut incoming = EdgeIndex::of(tasks.len(), dependencies.iter().map(|d| d.to as usize));
        incoming.sort_by_key(|edge| dependencies[edge].arg_index);
        OriginFinder {
            writes: WriteMap::of(tasks.argument_count()),
            are_complete,
            waited_for_by: vec![0; tasks.len()],
            contents: tasks.edges().is_empty().then(HashMap::new),
            dependencies,
            incoming,
        }
    }

    /// Starts a task: marks the tasks that it waited for.
    fn begin(&mut self, place: usize) {
        for &edge in self.incoming.task(place) {
            self.waited_for_by[self.dependencies[edge].from as usize] = place + 1;
        }
    }

    /// The producers of an input of the started task.
    fn origin(&self, tasks: &Tasks, place: usize, arg: Argument<'_>) -> (Vec<OutputRef>, OriginBasis) {
        if let Some(view) = TensorView::of(arg) {
            let Some(mut outputs) = self.writes.last(&view) else {
                return (Vec::new(), OriginBasis::Undecided);
            };
            if self.are_complete {
                outputs.retain(|output| self.waited_for_by[output.task] == place + 1);
            }
            return (outputs, OriginBasis::Bytes);
        }
        let Some(contents) = &self.contents else { return self.origin_by_edges(tasks, place, arg) };
        let found = arg.hash_before().and_then(|hash| contents.get(&(tasks.at(place).step, hash, arg.dtype)));
        match found {
            Some(&output) => (vec![output], OriginBasis::Content),
            None => (Vec::new(), OriginBasis::Nothing),
        }
    }

    fn origin_by_edges(
        &self,
        tasks: &Tasks,
        place: usize,
        arg: Argument<'_>,
    ) -> (Vec<OutputRef>, OriginBasis) {
        let incoming = self.incoming.task(place);
        let first = incoming.partition_point(|&edge| self.dependencies[edge].arg_index < arg.arg_index);
        let edges = incoming[first..].iter().map(|&edge| &self.dependencies[edge]);
        let edges = edges.take_while(|d| d.arg_index == arg.arg_index);
        let from = edges.filter(|d| d.may_carry).map(|d| d.from as usize);
        let mut outputs: Vec<OutputRef> =
            from.filter(|&from| from < place).flat_map(|from| outputs_like(tasks.at(from), arg)).collect();
        outputs.sort_unstable_by(|a, b| b.cmp(a));
        outputs.dedup();
        (outputs, OriginBasis::Edges)
    }

    fn wrote(&mut self, step: u32, place: usize, arg: Argument<'_>) {
        let output = OutputRef { task: place, arg_index: arg.arg_index };
        if let Some(view) = TensorView::of(arg) {
            self.writes.insert(output, view);
        }
        if let Some((contents, hash)) = self.contents.as_mut().zip(arg.hash_after()) {
            contents.insert((step, hash, arg.dtype), output);
        }
    }
}

/// The outputs of a task that may have become an input of another: those with the same content, else of the
/// same shape, else all.
fn outputs_like(task: Task<'_>, input: Argument<'_>) -> Vec<OutputRef> {
    let tensors = || task.outputs().filter(|o| !o.is_scalar());
    let alike: Vec<Argument<'_>> =
        tensors().filter(|o| o.dtype == input.dtype && o.shape() == input.shape()).collect();
    let content = input.hash_before();
    let same = alike.iter().filter(|o| content.is_some() && o.hash_after() == content);
    let same: Vec<Argument<'_>> = same.copied().collect();
    let chosen = if !same.is_empty() {
        same
    } else if !alike.is_empty() {
        alike
    } else {
        tensors().collect()
    };
    chosen.iter().map(|o| OutputRef { task: task.place(), arg_index: o.arg_index }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Origin;
    use crate::graph::testing::{TaskBuilder, graph_of, hash_of, tasks_with};
    use tensortap_format::{AllocationEvent, TaskKey};

    fn ids(graph: &TaskGraph) -> Vec<u64> {
        graph.tasks().iter().map(|t| t.task_id).collect()
    }

    fn sources(graph: &TaskGraph, task_id: u64, arg: u16) -> Vec<u64> {
        let task = graph.task(graph.position(TaskKey { step: 0, task_id }).unwrap());
        let outputs = graph.producers_of(task.argument(arg).unwrap());
        outputs.iter().map(|o| graph.task(o.task).task_id).collect()
    }

    fn edge(from: u64, to: u64, why: &'static str) -> Edge {
        Edge { step: 0, from_step: 0, from, to, arg_index: 0, why }
    }

    fn origin(graph: &TaskGraph, place: usize, arg: u16) -> Origin<'_> {
        graph.origin(graph.task(place).argument(arg).unwrap())
    }

    #[test]
    fn an_input_comes_from_the_last_task_that_wrote_its_bytes() {
        let tasks = vec![
            TaskBuilder::new(0, "make").output(0x1000, "one").at(10),
            TaskBuilder::new(1, "use").input(0x1000, "one").output(0x2000, "x").at(20),
            // The memory is reused.
            TaskBuilder::new(2, "make").output(0x1000, "two").at(30),
            TaskBuilder::new(3, "use").input(0x1000, "two").output(0x3000, "y").at(40),
            TaskBuilder::new(4, "join")
                .input(0x2000, "x")
                .input(0x9000, "outside")
                .output(0x4000, "z")
                .at(50),
        ];
        let graph = graph_of(tasks, &[], None);
        assert_eq!(sources(&graph, 1, 0), [0]);
        assert_eq!(sources(&graph, 3, 0), [2]);
        assert_eq!((sources(&graph, 4, 0), sources(&graph, 4, 1)), (vec![1], vec![]));
        assert!(origin(&graph, 4, 1).is_external());
        assert_eq!(graph.depth(4), 2);
        assert_eq!(graph.consumers()[1], [4]);
    }

    #[test]
    fn freed_memory_has_no_producer() {
        let tasks = || {
            vec![
                TaskBuilder::new(0, "make").output(0x1000, "old").at(10),
                TaskBuilder::new(1, "use").input(0x1000, "old").output(0x2000, "x").at(20),
                TaskBuilder::new(2, "use").input(0x1000, "new").input(0x2000, "x").output(0x3000, "y").at(30),
            ]
        };
        let renewed = |at_ns| AllocationEvent {
            at_ns,
            address: 0x1010,
            bytes: 8,
            freed: true,
            host_writable: false,
            ..AllocationEvent::default()
        };
        let from = |at_ns| {
            let mut made = tasks_with(tasks(), &[renewed(at_ns)]);
            made.forget_in_flight();
            let graph = TaskGraph::build(made, None);
            (sources(&graph, 1, 0), sources(&graph, 2, 0), sources(&graph, 2, 1))
        };
        // Part of the memory was freed between the two readers; that part has no producer any more.
        assert_eq!(from(25), (vec![0], vec![0], vec![1]));
        let all = AllocationEvent {
            at_ns: 25,
            address: 0x1000,
            bytes: 64,
            freed: true,
            host_writable: false,
            ..AllocationEvent::default()
        };
        let graph = TaskGraph::build(tasks_with(tasks(), &[all]), None);
        assert_eq!((sources(&graph, 1, 0), sources(&graph, 2, 0)), (vec![0], vec![]));
        let early = AllocationEvent { at_ns: 5, ..all };
        let graph = TaskGraph::build(tasks_with(tasks(), &[early]), None);
        assert_eq!(sources(&graph, 2, 0), [0]);
    }

    #[test]
    fn an_inout_comes_from_the_write_before_its_own() {
        let tasks = vec![
            TaskBuilder::new(0, "zero").output(0x1000, "0").at(1),
            TaskBuilder::new(1, "add").inout(0x1000, "0", "1").at(2),
            TaskBuilder::new(2, "add").inout(0x1000, "1", "2").at(3),
        ];
        let graph = graph_of(tasks, &[], None);
        assert_eq!((sources(&graph, 1, 0), sources(&graph, 2, 0)), (vec![0], vec![1]));
    }

    #[test]
    fn a_reader_that_ran_too_early_is_still_ordered_after_its_producer() {
        let tasks = vec![
            TaskBuilder::new(7, "use").input(0x1000, "stale").output(0x2000, "x").at(10),
            TaskBuilder::new(3, "make").output(0x1000, "one").at(20),
        ];
        assert_eq!(sources(&graph_of(tasks.clone(), &[], None), 7, 0), [0_u64; 0]);
        let graph = graph_of(tasks, &[edge(3, 7, "write_after_write")], None);
        assert_eq!((ids(&graph), sources(&graph, 7, 0)), (vec![3, 7], vec![3]));
    }

    #[test]
    fn a_different_use_of_the_memory_is_no_producer_if_dependencies_were_derived() {
        let tasks = vec![
            TaskBuilder::new(0, "make").output(0x1000, "old").at(10),
            TaskBuilder::new(1, "use").input(0x1000, "old").output(0x2000, "x").at(20),
            // New, uninitialized memory at the same address.
            TaskBuilder::new(2, "accumulate").inout(0x1000, "old", "new").at(30),
        ];
        let read = edge(0, 1, "read_after_write");
        let graph = graph_of(tasks.clone(), &[read], None);
        assert_eq!((sources(&graph, 1, 0), sources(&graph, 2, 0)), (vec![0], vec![]));
        let lossy = graph_of(tasks, &[read], Some("records were lost".into()));
        assert_eq!(sources(&lossy, 2, 0), [0]);
    }

    #[test]
    fn without_addresses_dependencies_give_the_producer() {
        let tasks = vec![
            TaskBuilder::new(0, "two").output(0, "p").output(0, "q"),
            TaskBuilder::new(1, "use").input(0, "q").input(0, "other").output(0, "r"),
        ];
        let graph = graph_of(tasks, &[edge(0, 1, "read_after_write")], None);
        let expected = Origin { outputs: &[OutputRef { task: 0, arg_index: 1 }], basis: OriginBasis::Edges };
        assert_eq!(origin(&graph, 1, 0), expected);
        assert!(origin(&graph, 1, 1).is_external());
    }

    #[test]
    fn without_addresses_and_dependencies_equal_content_gives_the_producer() {
        let tasks = vec![
            TaskBuilder::new(0, "make").output(0, "p"),
            TaskBuilder::new(1, "use").input(0, "p").input(0, "unheard of").output(0, "r"),
        ];
        let graph = graph_of(tasks, &[], None);
        assert_eq!(origin(&graph, 1, 0).basis, OriginBasis::Content);
        let unknown = origin(&graph, 1, 1);
        assert!(unknown.basis == OriginBasis::Nothing && !unknown.is_external());
        assert_ne!(hash_of("p"), hash_of("r"));
    }
}
