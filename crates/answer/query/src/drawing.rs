//! The graph of a dump as a picture: which tasks or scopes are drawn, and which lines connect them.
//! [`Drawing::dot`], [`Drawing::mermaid`] and [`Drawing::svg`] write the same picture.

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

/// Maximum boxes before a picture is folded.
pub const FEW: usize = 200;

/// Options of a drawing.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrawOptions<'a> {
    /// Labels of the tasks; empty without labels.
    pub findings: &'a [Finding],
    /// The tasks to draw. `None`: all.
    pub only: Option<&'a [usize]>,
    /// Scopes of this depth and deeper are drawn as one box. `None`: each task has its own box.
    pub fold: Option<usize>,
    /// Full paths of scopes whose content is drawn nevertheless.
    pub open: &'a [String],
    /// Whether to also connect tasks through tasks that are not drawn.
    pub through: bool,
}

/// A picture of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Tasks and folded scopes.
    pub boxes: Vec<DrawnBox>,
    /// Lines between boxes.
    pub lines: Vec<DrawnEdge>,
    /// The title of the picture.
    pub title: String,
}

/// A box: a task or a folded scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnBox {
    /// What it is called.
    pub name: String,
    /// Lines below the name: the task's scope and id, or the number of tasks.
    pub below: Vec<String>,
    /// The worst label of its tasks.
    pub label: Option<Label>,
    /// Full path of the folded scope; `None` for a task.
    pub scope: Option<String>,
    /// Places of its tasks in the graph.
    pub places: Vec<usize>,
}

/// A line from one box to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DrawnEdge {
    /// Index of the box where it starts.
    pub from: usize,
    /// Index of the box where it ends.
    pub to: usize,
    /// Whether content passes. Otherwise it is only a dependency.
    pub carries: bool,
    /// Whether it passes through tasks that are not drawn.
    pub through: bool,
}

impl Drawing {
    /// Draws a graph.
    #[must_use]
    pub fn of(graph: &TaskGraph, title: &str, options: &DrawOptions<'_>) -> Drawing {
        let fold = options.fold.map(|depth| depth.min(deepest(graph, options.only)));
        let groups = BoxGroups::of(graph, options.only, fold, options.open);
        let is_drawn = |place: usize| groups.of_task.contains_key(&place);
        let mut lines: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        for task in graph.tasks().iter().filter(|task| is_drawn(task.place())) {
            let given =
                task.arguments().flat_map(|arg| graph.producers_of(arg)).map(|output| (output.task, true));
            let waited = task.producers().filter_map(|edge| Some((graph.position(edge.producer())?, false)));
            for (from, carries) in given.chain(waited) {
                let ends = groups.of_task.get(&from).zip(groups.of_task.get(&task.place()));
                if let Some((&from, &to)) = ends.filter(|(from, to)| from != to) {
                    *lines.entry((from, to)).or_default() |= carries;
                }
            }
        }
        let mut all: Vec<DrawnEdge> = lines
            .iter()
            .map(|(&(from, to), &carries)| DrawnEdge { from, to, carries, through: false })
            .collect();
        if options.through && groups.of_task.len() <= FEW {
            let ends = |(from, to)| (groups.of_task[&from], groups.of_task[&to]);
            let further: BTreeSet<(usize, usize)> =
                through::joined(graph, &|place| groups.of_task.contains_key(&place))
                    .into_iter()
                    .map(ends)
                    .collect();
            let further = further.into_iter().filter(|ends| ends.0 != ends.1 && !lines.contains_key(ends));
            all.extend(further.map(|(from, to)| DrawnEdge { from, to, carries: true, through: true }));
            all.sort_unstable();
        }
        let boxes = groups
            .members
            .iter()
            .map(|(folded, places)| drawn(graph, folded.as_ref(), places, options.findings))
            .collect();
        Drawing { boxes, lines: all, title: printable(title).into_owned() }
    }

    /// The task of each box, as used in commands; `None` for a folded scope.
    #[must_use]
    pub fn tasks(&self, graph: &TaskGraph) -> Vec<Option<String>> {
        let id = |place: usize| step_task(graph.task(place).step, graph.task(place).task_id);
        let task =
            |one: &DrawnBox| one.places.first().filter(|_| one.scope.is_none()).map(|&place| id(place));
        self.boxes.iter().map(task).collect()
    }
}

/// Tasks grouped by box.
#[derive(Default)]
struct BoxGroups {
    /// For each box: the folded scope, if any, and the places of its tasks.
    members: Vec<(Option<FoldedBox>, Vec<usize>)>,
    of_task: HashMap<usize, usize>,
    of_name: HashMap<String, usize>,
}

/// A box of several tasks.
struct FoldedBox {
    name: String,
    /// Full path of the scope.
    scope: String,
}

impl FoldedBox {
    /// The box of a task: its scope of this depth. Tasks next to such scopes are grouped by name, because one
    /// box for the first and the last task of a scope would be both before and after the rest.
    fn of(task: Task<'_>, depth: usize, open: &[String]) -> Option<FoldedBox> {
        let path = task.scope()?;
        let scope = folded(path, depth, open)?;
        if path.split(" / ").count() >= depth {
            return Some(FoldedBox { name: scope.clone(), scope });
        }
        let part = task.task_name().map_or_else(|| kernels_text(&task.kernel_names()), String::from);
        Some(FoldedBox { name: format!("{scope} / {part}"), scope })
    }
}

impl BoxGroups {
    fn of(graph: &TaskGraph, only: Option<&[usize]>, fold: Option<usize>, open: &[String]) -> BoxGroups {
        let mut groups = BoxGroups::default();
        match only {
            None => (0..graph.len()).for_each(|place| groups.add(graph, place, fold, open)),
            Some(only) => only.iter().for_each(|&place| groups.add(graph, place, fold, open)),
        }
        groups
    }

    fn add(&mut self, graph: &TaskGraph, place: usize, fold: Option<usize>, open: &[String]) {
        let task = graph.task(place);
        let folded = fold.and_then(|depth| FoldedBox::of(task, depth, open));
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

/// The first `depth` names of a scope's path, or one more name for each of these prefixes that is open.
/// `None` if the whole path is open.
fn folded(scope: &str, depth: usize, open: &[String]) -> Option<String> {
    let names: Vec<&str> = scope.split(" / ").collect();
    let paths = (depth.min(names.len())..=names.len()).map(|end| names[..end].join(" / "));
    paths.into_iter().find(|path| !path.is_empty() && !open.contains(path))
}

fn drawn(graph: &TaskGraph, folded: Option<&FoldedBox>, places: &[usize], findings: &[Finding]) -> DrawnBox {
    let label = places.iter().filter_map(|&place| findings.get(place)).map(|finding| finding.label);
    let label = label.min_by_key(|label| Label::ALL.iter().position(|known| known == label));
    let task = graph.task(places[0]);
    match folded {
        Some(FoldedBox { name, scope }) => {
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

/// The tasks at most `hops` edges away from one, in either direction, in graph order.
#[must_use]
pub fn neighborhood(graph: &TaskGraph, place: usize, hops: usize) -> Vec<usize> {
    let consumers = graph.consumers();
    let mut reached: BTreeMap<usize, usize> = BTreeMap::from([(place, 0)]);
    let mut waiting = VecDeque::from([place]);
    while let Some(at) = waiting.pop_front() {
        let distance = reached[&at];
        if distance == hops {
            continue;
        }
        let task = graph.task(at);
        let before = task.arguments().flat_map(|arg| graph.producers_of(arg)).map(|output| output.task);
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

/// The largest depth of scopes.
fn deepest(graph: &TaskGraph, only: Option<&[usize]>) -> usize {
    let depth = |place: usize| graph.task(place).scope().map_or(0, |scope| scope.split(" / ").count());
    let deepest = match only {
        None => (0..graph.len()).map(depth).max(),
        Some(only) => only.iter().map(|&place| depth(place)).max(),
    };
    deepest.unwrap_or(0).max(1)
}

/// The deepest fold that leaves at most [`FEW`] boxes, or the one that leaves fewest. `None` if folding is
/// not needed.
#[must_use]
pub fn fold_for(graph: &TaskGraph, only: Option<&[usize]>) -> Option<usize> {
    /// Maximum depth to try.
    const DEEPEST: usize = 8;
    let count = |fold: Option<usize>| BoxGroups::of(graph, only, fold, &[]).members.len();
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
    fn an_open_scope_is_drawn_as_its_content() {
        let folded = |open: &[&str]| {
            let open: Vec<String> = open.iter().map(ToString::to_string).collect();
            folded("token 3 / layer 1 / attention", 1, &open)
        };
        assert_eq!(folded(&[]).as_deref(), Some("token 3"));
        assert_eq!(folded(&["token 3"]).as_deref(), Some("token 3 / layer 1"));
        assert_eq!(folded(&["token 3", "layer 1"]).as_deref(), Some("token 3 / layer 1"));
        let all = ["token 3", "token 3 / layer 1", "token 3 / layer 1 / attention"];
        assert_eq!(folded(&all), None, "its tasks have their own boxes");
    }
}
