//! Where the orchestration of a dump is not that of its golden: views of arguments, where inputs came from, tasks waited for.

use std::collections::{BTreeSet, HashSet};

use tensortap_abi::Role;
use tensortap_format::{Argument, Dump};

use crate::graph::{Basis, OutputRef, TaskGraph, TensorView};
use crate::matching::Matching;

/// A view of a buffer, as the orchestration took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenView {
    /// Sizes.
    pub shape: Vec<u64>,
    /// Elements from one to the next, axis by axis.
    pub strides: Vec<i64>,
    /// Its first element, counted from the beginning of the buffer.
    pub start_offset: u64,
}

/// How a task is connected otherwise than its partner in the golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewired {
    /// An argument is another view of its buffer.
    View {
        /// Argument.
        arg_index: u16,
        /// In the dump.
        dump: TakenView,
        /// In the golden.
        golden: TakenView,
    },
    /// What an input holds came from other outputs.
    Source {
        /// Argument.
        arg_index: u16,
        /// In the dump; positions there.
        dump: Vec<OutputRef>,
        /// In the golden; positions there.
        golden: Vec<OutputRef>,
    },
    /// It waits for a task of the dump for which it does not wait in the golden.
    Waits(usize),
    /// It does not wait for a task, by its position in the golden, for which it waits there.
    DoesNotWait(usize),
}

/// One difference between two orchestrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiringDifference {
    /// Position of the task in the dump.
    pub task: usize,
    /// What differs.
    pub what: Rewired,
}

/// Compares how tasks that are partners are connected. Only what both dumps say for certain counts: runtimes have edges of
/// their own, so those are compared within one runtime, where an orchestration states them.
pub(super) fn differences(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
) -> Vec<WiringDifference> {
    if dump.format().is_foreign() || golden.format().is_foreign() {
        return Vec::new();
    }
    let are_whole = graph.gap.is_none() && theirs.gap.is_none();
    let waits = (are_whole && dump.info().runtime == golden.info().runtime)
        .then(|| (waited_for(graph), waited_for(theirs)));
    let are_partners: HashSet<usize> = matching.partner.iter().copied().flatten().collect();
    let golden_of = |task: usize| matching.partner[task];
    let mut found = Vec::new();
    for (task, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        for arg in graph.task(task).arguments().filter(|arg| !arg.is_scalar()) {
            let Some(other) = theirs.task(partner).argument(arg.arg_index) else { continue };
            found.extend(other_view(arg, other).map(|what| WiringDifference { task, what }));
            if are_whole && arg.role == Role::Input {
                let what = other_source((graph, arg), (theirs, other), golden_of);
                found.extend(what.map(|what| WiringDifference { task, what }));
            }
        }
        if let Some((ours, golden)) = &waits {
            let (here, there) = (&ours[task], &golden[partner]);
            let is_new = |on: &&usize| golden_of(**on).is_some_and(|on| !there.contains(&on));
            let still: HashSet<usize> = here.iter().filter_map(|&ours| golden_of(ours)).collect();
            let is_gone = |on: &&usize| are_partners.contains(*on) && !still.contains(*on);
            let new = here.iter().filter(is_new).map(|&on| Rewired::Waits(on));
            let gone = there.iter().filter(is_gone).map(|&on| Rewired::DoesNotWait(on));
            found.extend(new.chain(gone).map(|what| WiringDifference { task, what }));
        }
    }
    found
}

/// By task, those for which its orchestration made it wait.
fn waited_for(graph: &TaskGraph) -> Vec<BTreeSet<usize>> {
    let mut waits = vec![BTreeSet::new(); graph.len()];
    for edge in graph.tasks().edges().iter().filter(|edge| edge.why == "explicit") {
        if let Some((from, to)) = graph.position(edge.producer()).zip(graph.position(edge.consumer())) {
            waits[to].insert(from);
        }
    }
    waits
}

fn other_view(arg: Argument<'_>, other: Argument<'_>) -> Option<Rewired> {
    TensorView::of(arg).zip(TensorView::of(other))?;
    let taken = |arg: Argument<'_>| TakenView {
        shape: arg.shape().to_vec(),
        strides: arg.strides().to_vec(),
        start_offset: arg.start_offset,
    };
    let (dump, golden) = (taken(arg), taken(other));
    (dump != golden).then_some(Rewired::View { arg_index: arg.arg_index, dump, golden })
}

fn other_source(
    (graph, arg): (&TaskGraph, Argument<'_>),
    (theirs, other): (&TaskGraph, Argument<'_>),
    golden_of: impl Fn(usize) -> Option<usize>,
) -> Option<Rewired> {
    let (here, there) = (graph.origin(arg), theirs.origin(other));
    if here.basis != Basis::Bytes || there.basis != Basis::Bytes {
        return None;
    }
    let in_golden = |o: &OutputRef| Some(OutputRef { task: golden_of(o.task)?, arg_index: o.arg_index });
    // Mostly they stand in the same order, and an input may have come from thousands.
    if here.outputs.len() == there.outputs.len()
        && here.outputs.iter().zip(there.outputs).all(|(ours, golden)| in_golden(ours) == Some(*golden))
    {
        return None;
    }
    let mut ours: Vec<OutputRef> = here.outputs.iter().map(in_golden).collect::<Option<_>>()?;
    let mut golden = there.outputs.to_vec();
    ours.sort_unstable();
    golden.sort_unstable();
    (ours != golden).then(|| Rewired::Source {
        arg_index: arg.arg_index,
        dump: here.outputs.to_vec(),
        golden: there.outputs.to_vec(),
    })
}
