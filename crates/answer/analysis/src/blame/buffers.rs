//! Arguments that are different buffers than in the golden, for dumps with unknown roles.
//!
//! Addresses of two runs are unrelated, so buffers are paired. Allocations are paired in order as long as
//! their sizes agree. Other buffers are paired when two matched tasks use both for the first time. If a task
//! uses another buffer than the partner of the golden's, this is reported once and the new pair replaces the
//! old one: a program that forgot to swap two buffers keeps using both the wrong way round.

use std::collections::HashMap;
use std::hash::Hash;

use tensortap_format::{AllocationEvent, Argument, Task};

use super::wiring::{BufferChange, WiringChange, WiringDifference};
use crate::graph::TaskGraph;
use crate::matching::Matching;

/// Identifies a buffer of one run: its allocation (time and address) and the offset into it. Without an
/// allocation, the offset is the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Buffer {
    allocation: Option<(u64, u64)>,
    offset: u64,
}

/// Arguments that are other buffers and whose content differs, in task order.
pub(super) fn differences(
    graph: &TaskGraph,
    theirs: &TaskGraph,
    matching: &Matching,
) -> Vec<WiringDifference> {
    if graph.observations().is_none() || theirs.observations().is_none() {
        return Vec::new();
    }
    let mut pairs = BufferPairs::of_allocations(graph, theirs);
    let mut found = Vec::new();
    let mut partners: Vec<(usize, usize)> =
        matching.partner.iter().enumerate().filter_map(|(task, partner)| Some((task, (*partner)?))).collect();
    // In submission order, the order in which the program used its buffers.
    partners.sort_by_key(|&(task, _)| graph.task(task).key());
    for (task, partner) in partners {
        let (here, there) = (graph.task(task), theirs.task(partner));
        let given: Vec<ArgPair<'_>> = here
            .arguments()
            .filter_map(|arg| {
                let other = there.argument(arg.arg_index)?;
                let buffers = (buffer_of(graph, here, arg)?, buffer_of(theirs, there, other)?);
                Some(ArgPair { arg, other, buffers })
            })
            .collect();
        for one in &given {
            if pairs.agree(one.buffers) || !one.differs() {
                continue;
            }
            let expected = pairs.partner_of(one.buffers.0);
            let as_arg = given.iter().find(|other| Some(other.buffers.1) == expected);
            let what = BufferChange {
                as_arg: as_arg.map(|other| other.other.arg_index),
                dump: graph.last_holders(one.arg).first().copied(),
                golden: theirs.last_holders(one.other).first().copied(),
            };
            let what = WiringChange::Buffer { arg_index: one.arg.arg_index, what };
            found.push(WiringDifference { task, what });
        }
        pairs.learn(&given);
    }
    found
}

/// An argument and the same argument of the partner task.
struct ArgPair<'g> {
    arg: Argument<'g>,
    other: Argument<'g>,
    buffers: (Buffer, Buffer),
}

impl ArgPair<'_> {
    /// Whether the content differs from the golden's, or no content is known.
    fn differs(&self) -> bool {
        let before = self.arg.hash_before().zip(self.other.hash_before());
        let after = self.arg.hash_after().zip(self.other.hash_after());
        let mut known = [before, after].into_iter().flatten().peekable();
        known.peek().is_none() || known.any(|(ours, golden)| ours != golden)
    }
}

fn buffer_of(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> Option<Buffer> {
    if arg.is_scalar() || arg.address == 0 {
        return None;
    }
    let allocation = graph.observations()?.allocation(task, arg);
    Some(match allocation {
        Some(AllocationEvent { at_ns, address, .. }) => {
            Buffer { allocation: Some((at_ns, address)), offset: arg.address - address.min(arg.address) }
        }
        None => Buffer { allocation: None, offset: arg.address },
    })
}

/// Which buffers of the two runs correspond.
#[derive(Default)]
struct BufferPairs {
    golden_of: HashMap<Buffer, Buffer>,
    dump_of: HashMap<Buffer, Buffer>,
}

impl BufferPairs {
    /// Pairs allocations in order, as long as their sizes agree.
    fn of_allocations(graph: &TaskGraph, theirs: &TaskGraph) -> BufferPairs {
        let taken = |graph: &TaskGraph| -> Vec<AllocationEvent> {
            graph.tasks().renewed().iter().filter(|renewed| !renewed.freed).copied().collect()
        };
        let mut pairs = BufferPairs::default();
        for (ours, golden) in taken(graph).iter().zip(&taken(theirs)) {
            if ours.bytes != golden.bytes {
                break;
            }
            let whole = |of: &AllocationEvent| Buffer { allocation: Some((of.at_ns, of.address)), offset: 0 };
            pairs.pair(whole(ours), whole(golden));
        }
        pairs
    }

    fn pair(&mut self, ours: Buffer, golden: Buffer) {
        self.golden_of.insert(ours, golden);
        self.dump_of.insert(golden, ours);
    }

    /// The golden's buffer for a buffer of the dump: from its own pair, or from the pair of its allocation.
    fn partner_of(&self, ours: Buffer) -> Option<Buffer> {
        of(&self.golden_of, ours)
    }

    /// Whether two buffers may correspond: neither has a different partner.
    fn agree(&self, (ours, golden): (Buffer, Buffer)) -> bool {
        let is_free = self.partner_of(ours).is_none() && of(&self.dump_of, golden).is_none();
        is_free || self.partner_of(ours) == Some(golden)
    }

    /// Pairs the buffers of a task's arguments, if each buffer is only one argument on both sides.
    fn learn(&mut self, given: &[ArgPair<'_>]) {
        let is_once = |(ours, golden): (Buffer, Buffer)| {
            let count = |of: &dyn Fn(&ArgPair<'_>) -> bool| given.iter().filter(|given| of(given)).count();
            count(&|given| given.buffers.0 == ours) == 1 && count(&|given| given.buffers.1 == golden) == 1
        };
        for &ArgPair { buffers, .. } in given.iter().filter(|given| is_once(given.buffers)) {
            if self.partner_of(buffers.0) != Some(buffers.1) {
                self.pair(buffers.0, buffers.1);
            }
        }
    }
}

fn of(pairs: &HashMap<Buffer, Buffer>, one: Buffer) -> Option<Buffer> {
    let whole = Buffer { offset: 0, ..one };
    let by_allocation = || {
        let partner = pairs.get(&whole).filter(|_| one.allocation.is_some())?;
        Some(Buffer { offset: one.offset, ..*partner })
    };
    pairs.get(&one).copied().or_else(by_allocation)
}
