//! Where two runs stop lining up: unmatched tasks between matched ones.

use std::collections::{BTreeMap, HashMap};

use super::UnmatchedStretch;
use super::lanes::LanePair;
use crate::graph::TaskGraph;

/// The first stretch of unmatched tasks in submission order of the first graph.
pub(super) fn first_stretch(
    graph: &TaskGraph,
    partner: &[Option<usize>],
    pair_of_second: &[Option<usize>],
    lanes: &[LanePair],
) -> Option<UnmatchedStretch> {
    let stretches = lanes.iter().flat_map(|lane| stretches_of(lane, partner, pair_of_second));
    // A stretch is placed by its first task, or by the task before it if the first graph has none of it.
    stretches.min_by_key(|stretch| {
        let at = stretch.first.first().copied().or(stretch.after);
        at.map(|place| graph.task(place).key())
    })
}

/// Pairs of unmatched tasks that are alone between certain pairs of a lane, or between such a pair and an end of it.
pub(super) fn lone_pairs(
    lane: &LanePair,
    partner: &[Option<usize>],
    pair_of_second: &[Option<usize>],
) -> Vec<(usize, usize)> {
    let [ours, theirs] = [&lane.first, &lane.second].map(|tasks| following(tasks));
    let are_alone = |(first, second): &(usize, usize)| match (ours.get(first), theirs.get(second)) {
        (Some(ours), Some(theirs)) => partner[*ours] == Some(*theirs),
        (None, None) => true,
        _ => false,
    };
    let stretches = stretches_of(lane, partner, pair_of_second).into_iter();
    let lone = stretches.filter_map(|stretch| match (&stretch.first[..], &stretch.second[..]) {
        (&[ours], &[theirs]) => Some((ours, theirs)),
        _ => None,
    });
    lone.filter(are_alone).collect()
}

/// The task after each task of a lane, except for the last one.
fn following(lane: &[usize]) -> HashMap<usize, usize> {
    lane.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The unmatched tasks of a lane, grouped by the matched task before them.
fn stretches_of(
    lane: &LanePair,
    partner: &[Option<usize>],
    pair_of_second: &[Option<usize>],
) -> Vec<UnmatchedStretch> {
    let mut stretches: BTreeMap<Option<usize>, UnmatchedStretch> = BTreeMap::new();
    let begin = |after| UnmatchedStretch { after, ..UnmatchedStretch::default() };
    let mut after = None;
    for &place in &lane.first {
        match partner[place] {
            Some(_) => after = Some(place),
            None => stretches.entry(after).or_insert_with(|| begin(after)).first.push(place),
        }
    }
    after = None;
    for &place in &lane.second {
        match pair_of_second[place] {
            Some(pair) => after = Some(pair),
            None => stretches.entry(after).or_insert_with(|| begin(after)).second.push(place),
        }
    }
    stretches.into_values().collect()
}
