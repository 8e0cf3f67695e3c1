//! Which launch must wait for which, from the elements that both use.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::program::{Action, Edges, HostWrite, Program};

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
            Action::Host { view, .. } => {
                uses.writes = view.elements().iter().map(|&at| (view.block, at)).collect()
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

fn lane_of(action: &Action) -> usize {
    match action {
        Action::Host { lane, .. } => *lane,
        Action::Launch { launch, .. } => launch.lane,
        Action::Alloc { .. } | Action::Free { .. } => 0,
    }
}

/// Declares what launches of different lanes wait for, as the style of the program says.
pub fn declare(program: &mut Program, random: &mut fastrand::Rng) {
    let edges = program.style.edges;
    if edges == Edges::None {
        return;
    }
    let mut writer: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
    let mut readers: HashMap<(usize, usize), Vec<(usize, usize)>> = HashMap::new();
    let mut all = Vec::new();
    for (position, action) in program.actions.iter().enumerate() {
        let Some(id) = action.id() else { continue };
        let (uses, lane) = (Uses::of(program, action), lane_of(action));
        let before = uses.reads.iter().chain(&uses.writes).filter_map(|at| writer.get(at));
        let read = uses.writes.iter().filter_map(|at| readers.get(at)).flatten();
        let waits: BTreeSet<usize> =
            before.chain(read).filter(|(of, other)| *other != lane && *of != id).map(|(of, _)| *of).collect();
        let is_recorded = position >= program.unrecorded_prefix
            && !matches!(action, Action::Host { how: HostWrite::Unrecorded, .. });
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
        all.push((position, waits));
    }
    for (position, waits) in all {
        if let Action::Launch { launch, .. } = &mut program.actions[position] {
            launch.waits = waits.into_iter().filter(|_| edges == Edges::Complete || random.bool()).collect();
        }
    }
}
