//! The graph of a dump as a picture: which tasks or scopes are drawn, and what joins them. How it is written is for [`Drawing::dot`],
//! [`Drawing::mermaid`] and [`Drawing::svg`]; all three say the same.

mod dot;
mod svg;
mod through;

pub use svg::Layout;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::{Finding, Label};
use tensortap::format::Task;

use crate::number::counted;
use crate::words::{kernels_text, printable, step_task};

/// Boxes that a picture has before it is folded.
pub const FEW: usize = 200;

/// What is drawn of a graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrawOptions<'a> {
    /// Labels of the tasks; none when there are none.
    pub findings: &'a [Finding],
    /// The tasks that are drawn; all when `None`.
    pub only: Option<&'a [usize]>,
    /// Scopes from this depth on are drawn as one box; tasks each for themselves when `None`.
    pub fold: Option<usize>,
    /// Scopes that are drawn as what is in them all the same, by their whole paths.
    pub open: &'a [String],
    /// Whether lines also join tasks between which others lie that are not drawn.
    pub through: bool,
}

/// A picture of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Tasks, or scopes with what is in them.
    pub boxes: Vec<DrawnBox>,
    /// What joins them.
    pub lines: Vec<Line>,
    /// The step that all of them belong to, or what else is to be said above.
    pub title: String,
}

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnBox {
    /// What it is called.
    pub name: String,
    /// What stands below: the task's scope and id, or how many tasks there are.
    pub below: Vec<String>,
    /// The worst label in it.
    pub label: Option<Label>,
    /// The scope that it stands for, by its whole path; `None` of a task.
    pub scope: Option<String>,
    /// Places of the tasks in it: one, or those of the scope.
    pub places: Vec<usize>,
}

/// A line from one box to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Line {
    /// Place of the box it leaves.
    pub from: usize,
    /// Place of the box it reaches.
    pub to: usize,
    /// Whether content passes; otherwise one only waits for the other.
    pub carries: bool,
    /// Whether it passes through tasks that are not drawn.
    pub through: bool,
}

impl Drawing {
    /// Draws a graph.
    #[must_use]
    pub fn of(graph: &TaskGraph, title: &str, options: &DrawOptions<'_>) -> Drawing {
        let fold = options.fold.map(|depth| depth.min(deepest(graph, options.only)));
        let groups = Groups::of(graph, options.only, fold, options.open);
        let is_drawn = |place: usize| groups.of_task.contains_key(&place);
        let mut lines: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        for task in graph.tasks().iter().filter(|task| is_drawn(task.place())) {
            let given =
                task.arguments().flat_map(|arg| graph.outputs_behind(arg)).map(|output| (output.task, true));
            let waited = task.producers().filter_map(|edge| Some((graph.position(edge.producer())?, false)));
            for (from, carries) in given.chain(waited) {
                let ends = groups.of_task.get(&from).zip(groups.of_task.get(&task.place()));
                if let Some((&from, &to)) = ends.filter(|(from, to)| from != to) {
                    *lines.entry((from, to)).or_default() |= carries;
                }
            }
        }
        let mut all: Vec<Line> =
            lines.iter().map(|(&(from, to), &carries)| Line { from, to, carries, through: false }).collect();
        if options.through && groups.of_task.len() <= FEW {
            let ends = |(from, to)| (groups.of_task[&from], groups.of_task[&to]);
            let further: BTreeSet<(usize, usize)> =
                through::joined(graph, &|place| groups.of_task.contains_key(&place))
                    .into_iter()
                    .map(ends)
                    .collect();
            let further = further.into_iter().filter(|ends| ends.0 != ends.1 && !lines.contains_key(ends));
            all.extend(further.map(|(from, to)| Line { from, to, carries: true, through: true }));
            all.sort_unstable();
        }
        let boxes = groups
            .members
            .iter()
            .map(|(folded, places)| drawn(graph, folded.as_ref(), places, options.findings))
            .collect();
        Drawing { boxes, lines: all, title: printable(title).into_owned() }
    }

    /// The task of each box, as commands name it; `None` of one that stands for several.
    #[must_use]
    pub fn tasks(&self, graph: &TaskGraph) -> Vec<Option<String>> {
        let id = |place: usize| step_task(graph.task(place).step, graph.task(place).task_id);
        let task =
            |one: &DrawnBox| one.places.first().filter(|_| one.scope.is_none()).map(|&place| id(place));
        self.boxes.iter().map(task).collect()
    }
}

/// Tasks by the box they are drawn in.
#[derive(Default)]
struct Groups {
    /// What it stands for, where that is more than a task, and places.
    members: Vec<(Option<Folded>, Vec<usize>)>,
    of_task: HashMap<usize, usize>,
    of_name: HashMap<String, usize>,
}

/// What several tasks are drawn as.
struct Folded {
    name: String,
    /// The scope, by its whole path.
    scope: String,
}

impl Folded {
    /// A scope of this depth; of what lies beside such scopes, in the one around them, those of a name. The first and the last task
    /// of a scope in one box would stand before and after what is between them.
    fn of(task: Task<'_>, depth: usize, open: &[String]) -> Option<Folded> {
        let path = task.scope()?;
        let scope = folded(path, depth, open)?;
        if path.split(" / ").count() >= depth {
            return Some(Folded { name: scope.clone(), scope });
        }
        let part = task.task_name().map_or_else(|| kernels_text(&task.kernel_names()), String::from);
        Some(Folded { name: format!("{scope} / {part}"), scope })
    }
}

impl Groups {
    fn of(graph: &TaskGraph, only: Option<&[usize]>, fold: Option<usize>, open: &[String]) -> Groups {
        let mut groups = Groups::default();
        match only {
            None => (0..graph.len()).for_each(|place| groups.add(graph, place, fold, open)),
            Some(only) => only.iter().for_each(|&place| groups.add(graph, place, fold, open)),
        }
        groups
    }

    fn add(&mut self, graph: &TaskGraph, place: usize, fold: Option<usize>, open: &[String]) {
        let task = graph.task(place);
        let folded = fold.and_then(|depth| Folded::of(task, depth, open));
        let number = match folded {
            None => {
                self.members.push((None, Vec::new()));
                self.members.len() - 1
            }
            Some(folded) => *self.of_name.entry(folded.name.clone()).or_insert_with(|| {
                self.members.push((Some(folded), Vec::new()));
                self.members.len() - 1
            }),
        };
        self.members[number].1.push(place);
        self.of_task.insert(place, number);
    }
}

/// The first names of a scope's path, or all where it has fewer; one more for each of these scopes that is open, and nothing when the
/// last is.
fn folded(scope: &str, depth: usize, open: &[String]) -> Option<String> {
    let names: Vec<&str> = scope.split(" / ").collect();
    let paths = (depth.min(names.len())..=names.len()).map(|end| names[..end].join(" / "));
    paths.into_iter().find(|path| !path.is_empty() && !open.contains(path))
}

fn drawn(graph: &TaskGraph, folded: Option<&Folded>, places: &[usize], findings: &[Finding]) -> DrawnBox {
    let label = places.iter().filter_map(|&place| findings.get(place)).map(|finding| finding.label);
    let label = label.min_by_key(|label| Label::ALL.iter().position(|known| known == label));
    let task = graph.task(places[0]);
    match folded {
        Some(Folded { name, scope }) => {
            let below = vec![counted(places.len() as u64, "task")];
            let places = places.to_vec();
            DrawnBox { name: printable(name).into_owned(), below, label, scope: Some(scope.clone()), places }
        }
        None => {
            let kernels = kernels_text(&task.kernel_names());
            let name = task.task_name().map_or_else(|| kernels.clone(), |name| printable(name).into_owned());
            let scope = task.scope().map(|scope| printable(scope).into_owned());
            let below = scope.into_iter().chain([step_task(task.step, task.task_id)]).collect();
            DrawnBox { name, below, label, scope: None, places: places.to_vec() }
        }
    }
}

/// The tasks at most so many lines away from one, in either direction, in the order of the graph.
#[must_use]
pub fn neighbourhood(graph: &TaskGraph, place: usize, hops: usize) -> Vec<usize> {
    let consumers = graph.consumers();
    let mut reached: BTreeMap<usize, usize> = BTreeMap::from([(place, 0)]);
    let mut waiting = VecDeque::from([place]);
    while let Some(at) = waiting.pop_front() {
        let distance = reached[&at];
        if distance == hops {
            continue;
        }
        let task = graph.task(at);
        let before = task.arguments().flat_map(|arg| graph.outputs_behind(arg)).map(|output| output.task);
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let waiting_for = task.consumers().filter_map(|edge| graph.position(edge.consumer()));
        for next in before.chain(waited).chain(waiting_for).chain(consumers[at].iter().copied()) {
            reached.entry(next).or_insert_with(|| {
                waiting.push_back(next);
                distance + 1
            });
        }
    }
    reached.into_keys().collect()
}

/// How deep the scopes of tasks go.
fn deepest(graph: &TaskGraph, only: Option<&[usize]>) -> usize {
    let depth = |place: usize| graph.task(place).scope().map_or(0, |scope| scope.split(" / ").count());
    let deepest = match only {
        None => (0..graph.len()).map(depth).max(),
        Some(only) => only.iter().map(|&place| depth(place)).max(),
    };
    deepest.unwrap_or(0).max(1)
}

/// The least fold that leaves at most [`FEW`] boxes, or the one that leaves fewest; `None` when nothing has to be folded.
#[must_use]
pub fn fold_for(graph: &TaskGraph, only: Option<&[usize]>) -> Option<usize> {
    /// Of deeper scopes only so many are tried.
    const DEEPEST: usize = 8;
    let count = |fold: Option<usize>| Groups::of(graph, only, fold, &[]).members.len();
    if count(None) <= FEW {
        return None;
    }
    let deepest_first =
        (1..=deepest(graph, only).min(DEEPEST)).rev().map(|depth| (count(Some(depth)), depth));
    let counts: Vec<(usize, usize)> = deepest_first.collect();
    let fits = counts.iter().find(|(boxes, _)| *boxes <= FEW);
    fits.or_else(|| counts.iter().min()).map(|&(_, depth)| depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_that_is_open_gives_way_to_what_is_in_it() {
        let folded = |open: &[&str]| {
            let open: Vec<String> = open.iter().map(ToString::to_string).collect();
            folded("token 3 / layer 1 / attention", 1, &open)
        };
        assert_eq!(folded(&[]).as_deref(), Some("token 3"));
        assert_eq!(folded(&["token 3"]).as_deref(), Some("token 3 / layer 1"));
        assert_eq!(folded(&["token 3", "layer 1"]).as_deref(), Some("token 3 / layer 1"));
        let all = ["token 3", "token 3 / layer 1", "token 3 / layer 1 / attention"];
        assert_eq!(folded(&all), None, "its tasks stand for themselves");
    }
}
