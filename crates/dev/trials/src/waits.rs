//! Which launch must wait for which, from the elements that both use.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::program::{Action, Edges, HostWrite, Overlap, Program, View};

/// The elements of blocks that an action may read, as far as the recording shows, and those that it writes.
#[derive(Default)]
pub struct Uses {
    pub reads: HashSet<(usize, usize)>,
    pub writes: HashSet<(usize, usize)>,
}

impl Uses {
    pub fn of(program: &Program, action: &Action) -> Uses {
        let mut uses = Uses::default();
        match action {
            Action::Host { data, .. } => {
                let places = |view: &View| -> HashSet<_> {
                    view.elements().iter().map(|&at| (view.block, at)).collect()
                };
                uses.reads = data.read.as_ref().map(|read| places(&read.view)).unwrap_or_default();
                uses.writes = places(&data.view);
            }
            Action::Launch { launch, .. } => {
                for (arg, param) in launch.args.iter().zip(&program.kernels[launch.kernel].params) {
                    let elements = arg.view.elements();
                    let place = |at: usize| (arg.view.block, elements[at]);
                    if param.access.writes() {
                        uses.writes.extend(arg.used.clone().map(place));
                    }
                    if param.access.reads() || !param.role_known {
                        uses.reads.extend((0..elements.len()).map(place));
                    }
                }
            }
            Action::Alloc { .. } | Action::Free { .. } => {}
        }
        uses
    }

    /// Whether the order of two actions matters.
    pub fn conflict(&self, other: &Uses) -> bool {
        !self.writes.is_disjoint(&other.reads)
            || !self.writes.is_disjoint(&other.writes)
            || !self.reads.is_disjoint(&other.writes)
    }
}

/// Puts the recorded actions of a program in another order that computes the same. Each lane keeps its order.
pub fn interleave(program: &mut Program, random: &mut fastrand::Rng) {
    let actions = program.actions.split_off(program.unrecorded_prefix);
    let uses: Vec<Uses> = actions.iter().map(|action| Uses::of(program, action)).collect();
    let must_follow = |late: usize, early: usize| match (&actions[late], &actions[early]) {
        (Action::Alloc { .. } | Action::Free { .. }, _) | (_, Action::Alloc { .. } | Action::Free { .. }) => {
            true
        }
        (left, right) => lane_of(left) == lane_of(right) || uses[late].conflict(&uses[early]),
    };
    let mut left: Vec<usize> = (0..actions.len()).collect();
    while !left.is_empty() {
        let ready =
            (0..left.len()).filter(|&at| left[..at].iter().all(|&early| !must_follow(left[at], early)));
        let ready: Vec<usize> = ready.collect();
        let next = left.remove(*random.choice(ready.iter()).expect("the first action follows no other"));
        program.actions.push(actions[next].clone());
    }
}

/// Gives every launch another lane, as threads take launches as they come.
pub fn reassign(program: &mut Program, random: &mut fastrand::Rng) {
    let lanes = program.style.lanes;
    for action in &mut program.actions {
        if let Action::Launch { launch, .. } = action {
            launch.lane = random.usize(..lanes);
        }
    }
    declare(program, random);
}

fn lane_of(action: &Action) -> usize {
    match action {
        Action::Host { data, .. } => data.lane,
        Action::Launch { launch, .. } => launch.lane,
        Action::Alloc { .. } | Action::Free { .. } => 0,
    }
}

/// Declares what launches of different lanes wait for, and where their inputs come from, as the style of the program says.
pub fn declare(program: &mut Program, random: &mut fastrand::Rng) {
    let edges = program.style.edges;
    // A program may declare every order and forget some of its data, or the other way around.
    let forgets_feeds = random.bool();
    for (position, needed) in needed(program) {
        if let Action::Launch { launch, .. } = &mut program.actions[position] {
            let mut is_declared = |is_complete: bool| is_complete || random.bool();
            launch.waits = match edges {
                Edges::None => Vec::new(),
                _ => needed.waits.into_iter().filter(|_| is_declared(edges == Edges::Complete)).collect(),
            };
            launch.feeds = match program.style.declares_feeds {
                true => needed.feeds.into_iter().filter(|_| is_declared(!forgets_feeds)).collect(),
                false => Vec::new(),
            };
        }
    }
}

/// Declares where all inputs come from.
#[cfg(test)]
pub fn declare_all_feeds(program: &mut Program) {
    for (position, needed) in needed(program) {
        if let Action::Launch { launch, .. } = &mut program.actions[position] {
            launch.feeds = needed.feeds.into_iter().collect();
        }
    }
}

/// What a launch depends on.
struct Needed {
    /// Recorded tasks of other lanes that must come before it.
    waits: BTreeSet<usize>,
    /// Recorded tasks that wrote what it may read.
    feeds: BTreeSet<usize>,
}

/// What each action depends on, by its position.
fn needed(program: &Program) -> Vec<(usize, Needed)> {
    let mut writer: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
    let mut readers: HashMap<(usize, usize), Vec<(usize, usize)>> = HashMap::new();
    let (mut all, mut last) = (Vec::new(), None);
    for (position, action) in program.actions.iter().enumerate() {
        let Some(id) = action.id() else { continue };
        let (uses, lane) = (Uses::of(program, action), lane_of(action));
        let before = uses.reads.iter().chain(&uses.writes).filter_map(|at| writer.get(at));
        let read = uses.writes.iter().filter_map(|at| readers.get(at)).flatten();
        // A launch does not wait for the one that it runs together with.
        let shares = |of: &usize| match action {
            Action::Launch { launch, .. } if launch.overlap == Overlap::Shares => last == Some(*of),
            _ => false,
        };
        let feeds = uses.reads.iter().filter_map(|at| writer.get(at)).map(|(of, _)| *of);
        let feeds = feeds.filter(|of| !shares(of)).collect();
        let waits = before.chain(read).filter(|(of, other)| *other != lane && *of != id).map(|(of, _)| *of);
        let waits = waits.filter(|of| !shares(of)).collect();
        last = Some(id);
        let is_recorded = position >= program.unrecorded_prefix
            && !matches!(action, Action::Host { data, .. } if data.how == HostWrite::Unrecorded);
        for &at in &uses.writes {
            readers.remove(&at);
            if is_recorded {
                writer.insert(at, (id, lane));
            } else {
                writer.remove(&at);
            }
        }
        if is_recorded {
            uses.reads.iter().for_each(|&at| readers.entry(at).or_default().push((id, lane)));
        }
        all.push((position, Needed { waits, feeds }));
    }
    all
}
