//! Arguments that are other buffers than in the golden, where roles are not known.
//!
//! Addresses of two runs have nothing to do with one another, so buffers are paired: allocations in their order, as long as sizes agree;
//! what lies in none, and whatever comes later, when tasks that are partners are given both for the first time. A task that is given the
//! partner of another buffer than the golden's is told once: from then on the new pairs count, because a program that forgot to swap two
//! buffers goes on with both the wrong way round.

use std::collections::HashMap;
use std::hash::Hash;

use tensortap_format::{Argument, Renewed, Task};

use super::wiring::{OtherBuffer, Rewired, WiringDifference};
use crate::graph::TaskGraph;
use crate::matching::Matching;

/// What stands for a buffer of one run: its allocation (when and where), and how far into it; without one, its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Buffer {
    allocation: Option<(u64, u64)>,
    offset: u64,
}

/// Arguments that are other buffers, and differ, in the order of tasks.
pub(super) fn differences(
    graph: &TaskGraph,
    theirs: &TaskGraph,
    matching: &Matching,
) -> Vec<WiringDifference> {
    if graph.observations().is_none() || theirs.observations().is_none() {
        return Vec::new();
    }
    let mut pairs = Pairs::of_allocations(graph, theirs);
    let mut found = Vec::new();
    let mut partners: Vec<(usize, usize)> =
        matching.partner.iter().enumerate().filter_map(|(task, partner)| Some((task, (*partner)?))).collect();
    // As the program made them, which is how it learned of its buffers.
    partners.sort_by_key(|&(task, _)| graph.task(task).key());
    for (task, partner) in partners {
        let (here, there) = (graph.task(task), theirs.task(partner));
        let given: Vec<Given<'_>> = here
            .arguments()
            .filter_map(|arg| {
                let other = there.argument(arg.arg_index)?;
                let buffers = (buffer_of(graph, here, arg)?, buffer_of(theirs, there, other)?);
                Some(Given { arg, other, buffers })
            })
            .collect();
        for one in &given {
            if pairs.agree(one.buffers) || !one.differs() {
                continue;
            }
            let expected = pairs.partner_of(one.buffers.0);
            let as_arg = given.iter().find(|other| Some(other.buffers.1) == expected);
            let what = OtherBuffer {
                as_arg: as_arg.map(|other| other.other.arg_index),
                dump: graph.left_behind(one.arg).first().copied(),
                golden: theirs.left_behind(one.other).first().copied(),
            };
            let what = Rewired::Buffer { arg_index: one.arg.arg_index, what };
            found.push(WiringDifference { task, what });
        }
        pairs.learn(&given);
    }
    found
}

/// An argument and its partner.
struct Given<'g> {
    arg: Argument<'g>,
    other: Argument<'g>,
    buffers: (Buffer, Buffer),
}

impl Given<'_> {
    /// Whether what it held differs from the golden's, or nothing of it is known.
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
        Some(Renewed { at_ns, address, .. }) => {
            Buffer { allocation: Some((at_ns, address)), offset: arg.address - address.min(arg.address) }
        }
        None => Buffer { allocation: None, offset: arg.address },
    })
}

/// Which buffers of two runs are the same.
#[derive(Default)]
struct Pairs {
    golden_of: HashMap<Buffer, Buffer>,
    dump_of: HashMap<Buffer, Buffer>,
}

impl Pairs {
    /// Allocations, in order, as long as both runs have the same.
    fn of_allocations(graph: &TaskGraph, theirs: &TaskGraph) -> Pairs {
        let taken = |graph: &TaskGraph| -> Vec<Renewed> {
            graph.tasks().renewed().iter().filter(|renewed| !renewed.freed).copied().collect()
        };
        let mut pairs = Pairs::default();
        for (ours, golden) in taken(graph).iter().zip(&taken(theirs)) {
            if ours.bytes != golden.bytes {
                break;
            }
            let whole = |of: &Renewed| Buffer { allocation: Some((of.at_ns, of.address)), offset: 0 };
            pairs.pair(whole(ours), whole(golden));
        }
        pairs
    }

    fn pair(&mut self, ours: Buffer, golden: Buffer) {
        self.golden_of.insert(ours, golden);
        self.dump_of.insert(golden, ours);
    }

    /// The golden's buffer that one of the dump stands for: by its own pair, or by that of its allocation.
    fn partner_of(&self, ours: Buffer) -> Option<Buffer> {
        of(&self.golden_of, ours)
    }

    /// Whether two buffers may be the same: each has no other partner.
    fn agree(&self, (ours, golden): (Buffer, Buffer)) -> bool {
        let is_free = self.partner_of(ours).is_none() && of(&self.dump_of, golden).is_none();
        is_free || self.partner_of(ours) == Some(golden)
    }

    /// Takes over what the arguments of a task say, where each buffer is one argument on both sides.
    fn learn(&mut self, given: &[Given<'_>]) {
        let is_once = |(ours, golden): (Buffer, Buffer)| {
            let count = |of: &dyn Fn(&Given<'_>) -> bool| given.iter().filter(|given| of(given)).count();
            count(&|given| given.buffers.0 == ours) == 1 && count(&|given| given.buffers.1 == golden) == 1
        };
        for &Given { buffers, .. } in given.iter().filter(|given| is_once(given.buffers)) {
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
