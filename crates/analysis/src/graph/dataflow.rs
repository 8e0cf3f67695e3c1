//! Where the content of every input came from.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DType;

use super::order::dependency_order;
use super::writes::WriteMap;
use super::{Argument, Basis, GraphTask, Origin, Place, Source, TaskGraph};

/// One task waits for another, as the dump says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The task that is waited for.
    pub from: u64,
    /// The task that waits.
    pub to: u64,
    /// Argument of the task that waits.
    pub arg_index: u16,
    /// Why.
    pub why: Why,
}

/// Why one task waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The orchestration said so.
    Explicit,
    /// It reads what the other writes.
    Read,
    /// It writes what the other reads or writes: no content passes.
    Order,
}

impl TaskGraph {
    /// Puts tasks into dependency order and finds where each input came from.
    ///
    /// Runtimes derive different sets of dependencies from the same graph, so origins are computed from what was captured:
    /// an input comes from the last tasks, in an order that respects the dependencies and then the time of dispatch, that
    /// wrote its bytes. Where the runtime derived dependencies from reads and writes, a task that it did not wait for is none
    /// of them: the memory was used for something else meanwhile. Where a dump has no addresses its dependencies must do, and
    /// without those, equal content.
    ///
    /// `tasks` are in the order of the dump, their origins empty.
    #[must_use]
    pub fn build(tasks: Vec<GraphTask>, dependencies: &[Dependency], gap: Option<String>) -> TaskGraph {
        let places: HashMap<u64, usize> = tasks.iter().enumerate().map(|(i, t)| (t.task_id, i)).collect();
        let place = |id| places.get(&id).copied();
        let edges: Vec<_> =
            dependencies.iter().filter_map(|d| Some((place(d.from)?, place(d.to)?))).collect();
        let order = dependency_order(&starts(&tasks), &edges);
        let mut slots: Vec<Option<GraphTask>> = tasks.into_iter().map(Some).collect();
        let tasks: Vec<GraphTask> = order.iter().filter_map(|&i| slots[i].take()).collect();
        let mut graph = TaskGraph { tasks, gap };
        graph.find_origins(dependencies);
        graph.find_depths();
        graph
    }

    /// For each view of memory, the outputs that held its bytes when the run ended, the one written last first.
    #[must_use]
    pub fn last_writers(&self, views: &[Place]) -> Vec<Vec<Source>> {
        let mut writes = WriteMap::default();
        for (task, arg) in self.tasks.iter().enumerate().flat_map(|(i, t)| t.outputs().map(move |a| (i, a))) {
            if let Some(here) = arg.place {
                writes.insert(Source { task, arg_index: arg.arg_index }, here);
            }
        }
        views.iter().map(|view| writes.last(view)).collect()
    }

    fn find_origins(&mut self, dependencies: &[Dependency]) {
        let places: HashMap<u64, usize> =
            self.tasks.iter().enumerate().map(|(i, t)| (t.task_id, i)).collect();
        let mut incoming: HashMap<(usize, u16), Vec<usize>> = HashMap::new();
        for d in dependencies.iter().filter(|d| d.why != Why::Order) {
            if let (Some(&from), Some(&to)) = (places.get(&d.from), places.get(&d.to)) {
                incoming.entry((to, d.arg_index)).or_default().push(from);
            }
        }
        let are_derived = self.gap.is_none() && dependencies.iter().any(|d| d.why == Why::Read);
        let waited_for = are_derived.then(|| {
            let places = |d: &Dependency| Some((*places.get(&d.from)?, *places.get(&d.to)?));
            dependencies.iter().filter_map(places).collect()
        });
        let mut finder = Finder {
            writes: WriteMap::default(),
            waited_for,
            contents: HashMap::new(),
            has_edges: !dependencies.is_empty(),
            incoming,
        };
        for place in 0..self.tasks.len() {
            let (done, rest) = self.tasks.split_at_mut(place);
            for arg in rest[0].args.iter_mut().filter(|a| a.role.reads() && !a.is_scalar()) {
                arg.origin = finder.origin(done, place, arg);
            }
            rest[0].args.iter().filter(|a| a.role.writes()).for_each(|arg| finder.wrote(place, arg));
        }
    }

    fn find_depths(&mut self) {
        for place in 0..self.tasks.len() {
            let sources = self.tasks[place].args.iter().flat_map(|a| &a.origin.sources);
            let depth = sources.map(|s| self.tasks[s.task].depth + 1).max().unwrap_or(0);
            self.tasks[place].depth = depth;
        }
    }
}

/// Numbers that grow in the order in which tasks were started: times, or positions where not all have one.
fn starts(tasks: &[GraphTask]) -> Vec<u64> {
    let times: Option<Vec<u64>> = tasks.iter().map(|t| t.dispatched_ns).collect();
    times.unwrap_or_else(|| (0..).take(tasks.len()).collect())
}

struct Finder {
    writes: WriteMap,
    /// Pairs of tasks (waited for, waits), where the runtime derived all that are.
    waited_for: Option<HashSet<(usize, usize)>>,
    /// Who wrote a content last.
    contents: HashMap<(u128, DType), Source>,
    has_edges: bool,
    /// Tasks waited for, by task and argument.
    incoming: HashMap<(usize, u16), Vec<usize>>,
}

impl Finder {
    fn origin(&self, done: &[GraphTask], place: usize, arg: &Argument) -> Origin {
        if let Some(here) = &arg.place {
            let mut sources = self.writes.last(here);
            if let Some(waited_for) = &self.waited_for {
                sources.retain(|source| waited_for.contains(&(source.task, place)));
            }
            return Origin { sources, basis: Basis::Bytes };
        }
        if self.has_edges {
            let from = self.incoming.get(&(place, arg.arg_index)).into_iter().flatten();
            let mut sources: Vec<Source> =
                from.filter(|&&f| f < place).flat_map(|&f| outputs_like(&done[f], f, arg)).collect();
            sources.sort_unstable_by(|a, b| b.cmp(a));
            sources.dedup();
            return Origin { sources, basis: Basis::Edges };
        }
        let hash = arg.before.and_then(|c| c.hash);
        match hash.and_then(|hash| self.contents.get(&(hash, arg.dtype))) {
            Some(&source) => Origin { sources: vec![source], basis: Basis::Content },
            None => Origin { sources: Vec::new(), basis: Basis::Nothing },
        }
    }

    fn wrote(&mut self, place: usize, arg: &Argument) {
        let source = Source { task: place, arg_index: arg.arg_index };
        if let Some(here) = &arg.place {
            self.writes.insert(source, *here);
        }
        if let Some(hash) = arg.after.and_then(|c| c.hash) {
            self.contents.insert((hash, arg.dtype), source);
        }
    }
}

/// The outputs of a task that an input of another may hold: those of its shape, else all.
fn outputs_like(task: &GraphTask, place: usize, input: &Argument) -> Vec<Source> {
    let tensors = || task.outputs().filter(|o| !o.is_scalar());
    let alike: Vec<&Argument> =
        tensors().filter(|o| o.dtype == input.dtype && o.shape == input.shape).collect();
    let content = input.before.and_then(|c| c.hash);
    let same = alike.iter().filter(|o| content.is_some() && o.after.and_then(|c| c.hash) == content);
    let same: Vec<&Argument> = same.copied().collect();
    let chosen = if !same.is_empty() {
        same
    } else if !alike.is_empty() {
        alike
    } else {
        tensors().collect()
    };
    chosen.iter().map(|o| Source { task: place, arg_index: o.arg_index }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskMaker, hash_of};

    fn ids(graph: &TaskGraph) -> Vec<u64> {
        graph.tasks.iter().map(|t| t.task_id).collect()
    }

    fn sources(graph: &TaskGraph, task_id: u64, arg: u16) -> Vec<u64> {
        let task = &graph.tasks[graph.position(task_id).unwrap()];
        task.arg(arg).unwrap().origin.sources.iter().map(|s| graph.tasks[s.task].task_id).collect()
    }

    fn order(from: u64, to: u64) -> Dependency {
        Dependency { from, to, arg_index: 0, why: Why::Order }
    }

    #[test]
    fn an_input_comes_from_the_last_task_that_wrote_its_bytes() {
        let tasks = vec![
            TaskMaker::new(0, "make").output(0x1000, "one").at(10).done(),
            TaskMaker::new(1, "use").input(0x1000, "one").output(0x2000, "x").at(20).done(),
            // The memory is used again.
            TaskMaker::new(2, "make").output(0x1000, "two").at(30).done(),
            TaskMaker::new(3, "use").input(0x1000, "two").output(0x3000, "y").at(40).done(),
            TaskMaker::new(4, "join")
                .input(0x2000, "x")
                .input(0x9000, "outside")
                .output(0x4000, "z")
                .at(50)
                .done(),
        ];
        let graph = TaskGraph::build(tasks, &[], None);
        assert_eq!(sources(&graph, 1, 0), [0]);
        assert_eq!(sources(&graph, 3, 0), [2]);
        assert_eq!((sources(&graph, 4, 0), sources(&graph, 4, 1)), (vec![1], vec![]));
        assert!(graph.tasks[4].args[1].origin.is_external());
        assert_eq!(graph.tasks[4].depth, 2);
        assert_eq!(graph.consumers()[1], [4]);
    }

    #[test]
    fn an_inout_is_given_what_was_there_before_itself() {
        let tasks = vec![
            TaskMaker::new(0, "zero").output(0x1000, "0").at(1).done(),
            TaskMaker::new(1, "add").inout(0x1000, "0", "1").at(2).done(),
            TaskMaker::new(2, "add").inout(0x1000, "1", "2").at(3).done(),
        ];
        let graph = TaskGraph::build(tasks, &[], None);
        assert_eq!((sources(&graph, 1, 0), sources(&graph, 2, 0)), (vec![0], vec![1]));
    }

    #[test]
    fn a_reader_that_ran_too_early_still_belongs_behind_its_producer() {
        let tasks = vec![
            TaskMaker::new(7, "use").input(0x1000, "stale").output(0x2000, "x").at(10).done(),
            TaskMaker::new(3, "make").output(0x1000, "one").at(20).done(),
        ];
        assert_eq!(sources(&TaskGraph::build(tasks.clone(), &[], None), 7, 0), [0_u64; 0]);
        let graph = TaskGraph::build(tasks, &[order(3, 7)], None);
        assert_eq!((ids(&graph), sources(&graph, 7, 0)), (vec![3, 7], vec![3]));
    }

    #[test]
    fn memory_that_held_something_else_before_is_no_origin_where_the_runtime_knows() {
        let tasks = vec![
            TaskMaker::new(0, "make").output(0x1000, "old").at(10).done(),
            TaskMaker::new(1, "use").input(0x1000, "old").output(0x2000, "x").at(20).done(),
            // New memory at the same place, not initialised.
            TaskMaker::new(2, "accumulate").inout(0x1000, "old", "new").at(30).done(),
        ];
        let read = Dependency { from: 0, to: 1, arg_index: 0, why: Why::Read };
        let graph = TaskGraph::build(tasks.clone(), &[read], None);
        assert_eq!((sources(&graph, 1, 0), sources(&graph, 2, 0)), (vec![0], vec![]));
        let lossy = TaskGraph::build(tasks, &[read], Some("records were lost".into()));
        assert_eq!(sources(&lossy, 2, 0), [0]);
    }

    #[test]
    fn without_addresses_dependencies_say_where_content_came_from() {
        let carries = |from, to, arg_index| Dependency { from, to, arg_index, why: Why::Read };
        let tasks = vec![
            TaskMaker::new(0, "two").output(0, "p").output(0, "q").done(),
            TaskMaker::new(1, "use").input(0, "q").input(0, "other").output(0, "r").done(),
        ];
        let graph = TaskGraph::build(tasks, &[carries(0, 1, 0)], None);
        let origin = &graph.tasks[1].args[0].origin;
        assert_eq!((origin.basis, &origin.sources), (Basis::Edges, &vec![Source { task: 0, arg_index: 1 }]));
        assert!(graph.tasks[1].args[1].origin.is_external());
    }

    #[test]
    fn without_addresses_and_dependencies_equal_content_must_do() {
        let tasks = vec![
            TaskMaker::new(0, "make").output(0, "p").done(),
            TaskMaker::new(1, "use").input(0, "p").input(0, "unheard of").output(0, "r").done(),
        ];
        let graph = TaskGraph::build(tasks, &[], None);
        assert_eq!(graph.tasks[1].args[0].origin.basis, Basis::Content);
        let unknown = &graph.tasks[1].args[1].origin;
        assert!(unknown.basis == Basis::Nothing && !unknown.is_external());
        assert_ne!(hash_of("p"), hash_of("r"));
    }
}
