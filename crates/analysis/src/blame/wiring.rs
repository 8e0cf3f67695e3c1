//! Where the orchestration of a dump is not that of its golden: views of arguments, where inputs came from, tasks waited for, sizes
//! of launches, scalars.

use std::collections::{BTreeSet, HashSet};

use tensortap_abi::Role;
use tensortap_format::{Argument, Dump, Launch, Task};

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
    /// An argument is another buffer.
    Buffer {
        /// Argument.
        arg_index: u16,
        /// Which.
        what: OtherBuffer,
    },
    /// It waits for a task of the dump for which it does not wait in the golden.
    Waits(usize),
    /// It does not wait for a task, by its position in the golden, for which it waits there.
    DoesNotWait(usize),
    /// Nothing orders it behind a task of the dump whose partner the golden orders before its own.
    LostOrder(usize),
    /// It was launched in another size.
    Launch {
        /// In the dump.
        dump: Launch,
        /// In the golden.
        golden: Launch,
    },
    /// A scalar has another value.
    Scalar {
        /// Argument.
        arg_index: u16,
        /// Its bits in the dump.
        dump: u64,
        /// Its bits in the golden.
        golden: u64,
    },
    /// Something that was passed by value differs, and not in its addresses alone.
    Value {
        /// Argument.
        arg_index: u16,
        /// The first byte that differs.
        first: usize,
        /// What the dump has from there on.
        dump: Vec<u8>,
        /// What the golden has there.
        golden: Vec<u8>,
    },
}

/// A buffer that a task was given instead of the one that its partner in the golden was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherBuffer {
    /// The argument that it is of the task in the golden, if it is one there.
    pub as_arg: Option<u16>,
    /// Who was given the buffer of the dump last, before the task; a position there.
    pub dump: Option<OutputRef>,
    /// Who was given the buffer of the golden last; a position there.
    pub golden: Option<OutputRef>,
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
    let mut partner_here = vec![None; theirs.len()];
    matching.partner.iter().enumerate().for_each(|(ours, other)| {
        if let Some(other) = *other {
            partner_here[other] = Some(ours);
        }
    });
    let mut found = super::buffers::differences(graph, theirs, matching);
    for (task, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        found.extend(
            other_launch(graph.task(task), theirs.task(partner)).map(|what| WiringDifference { task, what }),
        );
        for arg in graph.task(task).arguments() {
            let Some(other) = theirs.task(partner).argument(arg.arg_index) else { continue };
            if arg.is_scalar() {
                found.extend(other_scalar(graph, arg, other).map(|what| WiringDifference { task, what }));
                continue;
            }
            found.extend(other_view(arg, other).map(|what| WiringDifference { task, what }));
            // Of memory whose role is not known the tasks that changed it are what was observed, not what was meant.
            if are_whole && arg.role == Role::Input && graph.observations().is_none() {
                let what = other_source((graph, arg), (theirs, other), golden_of);
                found.extend(what.map(|what| WiringDifference { task, what }));
            }
        }
        if are_whole {
            let lost = lost_order((graph, theirs), (task, partner), &partner_here, golden_of);
            found.extend(lost.into_iter().map(|on| WiringDifference { task, what: Rewired::LostOrder(on) }));
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
    found.sort_by_key(|difference| difference.task);
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

/// Tasks of the dump that nothing orders before a task, though their partners are ordered before its own in the golden: directly, or
/// through tasks that the dump does not have, such as a barrier that is gone.
fn lost_order(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    (task, partner): (usize, usize),
    partner_here: &[Option<usize>],
    golden_of: impl Fn(usize) -> Option<usize>,
) -> Vec<usize> {
    let Some(seen) = graph.observations() else { return Vec::new() };
    let (mut lost, mut open, mut walked) = (Vec::new(), vec![partner], HashSet::new());
    while let Some(at) = open.pop() {
        for edge in theirs.task(at).producers() {
            let Some(from) = theirs.position(edge.producer()).filter(|from| walked.insert(*from)) else {
                continue;
            };
            match partner_here[from] {
                // What is not known to be before may be, where the order of the later one is not known.
                Some(ours) if !seen.order().is_before(ours, task) && !seen.order().is_unknown(task) => {
                    lost.push(ours)
                }
                Some(_) => {}
                None if walked.len() <= MOST_WALKED => open.push(from),
                None => {}
            }
        }
    }
    lost.retain(|&ours| {
        golden_of(ours).is_some() && ours != task && !are_apart(graph.task(ours), graph.task(task))
    });
    lost.sort_unstable();
    lost
}

/// Whether two tasks run no code and touch no bytes in common, such as two buffers that threads make: their order is nobody's concern.
fn are_apart(one: Task<'_>, other: Task<'_>) -> bool {
    let range = |arg: Argument<'_>| {
        let bytes = arg.before.or(arg.after).map_or(1, |captured| captured.bytes.max(1));
        (arg.address, arg.address.saturating_add(bytes))
    };
    let ranges = |task: Task<'_>| task.arguments().map(range).collect::<Vec<_>>();
    let (ours, theirs) = (ranges(one), ranges(other));
    let run_nothing = one.kernel_names().is_empty() && other.kernel_names().is_empty();
    let touch = ours.iter().any(|a| theirs.iter().any(|b| a.0 < b.1 && b.0 < a.1));
    run_nothing && !ours.is_empty() && !theirs.is_empty() && !touch
}

/// Tasks that are walked back through to find one that the dump has.
const MOST_WALKED: usize = 1000;

fn other_launch(task: Task<'_>, golden: Task<'_>) -> Option<Rewired> {
    let (dump, golden) = (**task.launch.as_ref()?, **golden.launch.as_ref()?);
    (dump != golden).then_some(Rewired::Launch { dump, golden })
}

/// Scalars of scenes are told as what a task was fed.
fn other_scalar(graph: &TaskGraph, arg: Argument<'_>, other: Argument<'_>) -> Option<Rewired> {
    graph.observations()?;
    let (dump, golden) = arg.scalar_bits.zip(other.scalar_bits)?;
    (dump != golden).then_some(Rewired::Scalar { arg_index: arg.arg_index, dump, golden })
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
