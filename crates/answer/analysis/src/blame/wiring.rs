//! Differences in how the tasks of a dump and of its golden are connected: views, producers, dependencies,
//! launch sizes and scalars.

use std::collections::{BTreeSet, HashSet};

use tensortap_abi::Role;
use tensortap_format::{Argument, Dump, Launch, Task};

use crate::graph::{OriginBasis, OutputRef, TaskGraph, TensorView, candidates};
use crate::matching::Matching;

/// The view of a buffer that an argument uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgView {
    /// Size of each axis.
    pub shape: Vec<u64>,
    /// Stride of each axis, in elements.
    pub strides: Vec<i64>,
    /// Offset of the first element in the buffer.
    pub start_offset: u64,
}

/// How a task is connected differently than its partner in the golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WiringChange {
    /// An argument uses another view of its buffer.
    View {
        /// Argument.
        arg_index: u16,
        /// View in the dump.
        dump: ArgView,
        /// View in the golden.
        golden: ArgView,
    },
    /// An input has other producers.
    Source {
        /// Argument.
        arg_index: u16,
        /// Producers in the dump, as positions there.
        dump: Vec<OutputRef>,
        /// Producers in the golden, as positions there.
        golden: Vec<OutputRef>,
    },
    /// An argument is a different buffer.
    Buffer {
        /// Argument.
        arg_index: u16,
        /// The buffers.
        what: BufferChange,
    },
    /// The task waits for a task of the dump that it does not wait for in the golden.
    Waits(usize),
    /// The task does not wait for a task that it waits for in the golden; a position in the golden.
    DoesNotWait(usize),
    /// Nothing orders the task after a task of the dump, although the golden orders their partners.
    LostOrder(usize),
    /// The launch has another size.
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
    /// An argument passed by value differs outside its addresses.
    Value {
        /// Argument.
        arg_index: u16,
        /// Position of the first differing byte.
        first: usize,
        /// Bytes of the dump from there.
        dump: Vec<u8>,
        /// Bytes of the golden from there.
        golden: Vec<u8>,
    },
}

/// The buffer that a task used instead of its partner's buffer in the golden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferChange {
    /// The argument index that this buffer has in the golden's task, if it is an argument there.
    pub as_arg: Option<u16>,
    /// The last earlier task that used the dump's buffer, as a position there.
    pub dump: Option<OutputRef>,
    /// The last earlier task that used the golden's buffer, as a position there.
    pub golden: Option<OutputRef>,
}

/// One difference in the connections of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiringDifference {
    /// Position of the task in the dump.
    pub task: usize,
    /// What differs.
    pub what: WiringChange,
}

/// Compares the connections of matched tasks. Only connections that both dumps record for certain count.
/// Runtimes add edges of their own, so explicit edges are compared only if both dumps come from the same
/// runtime.
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
            let Some(other) = theirs.task(partner).counterpart(arg) else { continue };
            if arg.is_scalar() {
                found.extend(other_scalar(graph, arg, other).map(|what| WiringDifference { task, what }));
                continue;
            }
            if !candidates::is_used(arg, other) {
                continue;
            }
            found.extend(other_view(arg, other).map(|what| WiringDifference { task, what }));
            // With unknown roles, the producers follow from observed changes, not from what the program
            // intended.
            if are_whole && arg.role == Role::Input && graph.observations().is_none() {
                let what = other_source((graph, arg), (theirs, other), golden_of);
                found.extend(what.map(|what| WiringDifference { task, what }));
            }
        }
        if are_whole {
            let lost = lost_order((graph, theirs), (task, partner), &partner_here, golden_of);
            found.extend(
                lost.into_iter().map(|on| WiringDifference { task, what: WiringChange::LostOrder(on) }),
            );
        }
        if let Some((ours, golden)) = &waits {
            let (here, there) = (&ours[task], &golden[partner]);
            let is_new = |on: &&usize| golden_of(**on).is_some_and(|on| !there.contains(&on));
            let still: HashSet<usize> = here.iter().filter_map(|&ours| golden_of(ours)).collect();
            let is_gone = |on: &&usize| are_partners.contains(*on) && !still.contains(*on);
            let new = here.iter().filter(is_new).map(|&on| WiringChange::Waits(on));
            let gone = there.iter().filter(is_gone).map(|&on| WiringChange::DoesNotWait(on));
            found.extend(new.chain(gone).map(|what| WiringDifference { task, what }));
        }
    }
    found.sort_by_key(|difference| difference.task);
    found
}

/// For each task, the tasks that it waits for through explicit edges.
fn waited_for(graph: &TaskGraph) -> Vec<BTreeSet<usize>> {
    let mut waits = vec![BTreeSet::new(); graph.len()];
    for edge in graph.tasks().edges().iter().filter(|edge| edge.why == "explicit") {
        if let Some((from, to)) = graph.position(edge.producer()).zip(graph.position(edge.consumer())) {
            waits[to].insert(from);
        }
    }
    waits
}

/// Tasks of the dump that are not ordered before a task although the golden orders their partners: directly,
/// or through tasks that the dump lacks, such as a removed barrier.
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
                // If the order of the later task is not fully known, the tasks may still be ordered.
                Some(ours) if !seen.order().is_before(ours, task) && !seen.order().is_unknown(task) => {
                    lost.push(ours)
                }
                Some(_) => {}
                None if walked.len() <= MAX_WALKED => open.push(from),
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

/// Whether two tasks run no kernels and touch no common bytes, such as two allocations on different threads:
/// then their order does not matter.
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

/// Limit on the number of the golden's tasks that are walked back to find one that the dump has.
const MAX_WALKED: usize = 1000;

fn other_launch(task: Task<'_>, golden: Task<'_>) -> Option<WiringChange> {
    let (dump, golden) = (**task.launch.as_ref()?, **golden.launch.as_ref()?);
    (dump != golden).then_some(WiringChange::Launch { dump, golden })
}

/// Scalars of scenes are reported with the label `fed` instead.
fn other_scalar(graph: &TaskGraph, arg: Argument<'_>, other: Argument<'_>) -> Option<WiringChange> {
    graph.observations()?;
    let (dump, golden) = arg.scalar_bits.zip(other.scalar_bits)?;
    (dump != golden).then_some(WiringChange::Scalar { arg_index: arg.arg_index, dump, golden })
}

fn other_view(arg: Argument<'_>, other: Argument<'_>) -> Option<WiringChange> {
    TensorView::of(arg).zip(TensorView::of(other))?;
    let taken = |arg: Argument<'_>| ArgView {
        shape: arg.shape().to_vec(),
        strides: arg.strides().to_vec(),
        start_offset: arg.start_offset,
    };
    let (dump, golden) = (taken(arg), taken(other));
    (dump != golden).then_some(WiringChange::View { arg_index: arg.arg_index, dump, golden })
}

fn other_source(
    (graph, arg): (&TaskGraph, Argument<'_>),
    (theirs, other): (&TaskGraph, Argument<'_>),
    golden_of: impl Fn(usize) -> Option<usize>,
) -> Option<WiringChange> {
    let (here, there) = (graph.origin(arg), theirs.origin(other));
    if here.basis != OriginBasis::Bytes || there.basis != OriginBasis::Bytes {
        return None;
    }
    let in_golden = |o: &OutputRef| Some(OutputRef { task: golden_of(o.task)?, arg_index: o.arg_index });
    // Producers are mostly in the same order, and an input may have thousands.
    if here.outputs.len() == there.outputs.len()
        && here.outputs.iter().zip(there.outputs).all(|(ours, golden)| in_golden(ours) == Some(*golden))
    {
        return None;
    }
    let mut ours: Vec<OutputRef> = here.outputs.iter().map(in_golden).collect::<Option<_>>()?;
    let mut golden = there.outputs.to_vec();
    ours.sort_unstable();
    golden.sort_unstable();
    (ours != golden).then(|| WiringChange::Source {
        arg_index: arg.arg_index,
        dump: here.outputs.to_vec(),
        golden: there.outputs.to_vec(),
    })
}
