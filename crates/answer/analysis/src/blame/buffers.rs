//! Arguments that are different buffers than in the golden, for dumps with unknown roles.
//!
//! Addresses of two runs are unrelated, so buffers are paired. Allocations are paired in order as long as their sizes
//! agree. Other buffers are paired when two matched tasks use both for the first time. If the contents are equal, a new
//! pair replaces an older one, which was only a guess.
//!
//! If a task uses another buffer than the partner of the golden's, this is reported once, and both pairs count from then
//! on. So a program that forgot to swap two buffers may keep using both the wrong way round, or use them the right way
//! again. As long as all buffers with equal contents have equal addresses, a buffer with one address in both runs is the
//! same buffer.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use tensortap_format::{AllocationEvent, Argument, Task};

use super::wiring::{BufferChange, WiringChange, WiringDifference};
use crate::graph::{TaskGraph, candidates};
use crate::matching::Matching;

/// Identifies a buffer of one run: its allocation (time and address) and the offset into it. Without an
/// allocation, the offset is the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Buffer {
    allocation: Option<(u64, u64)>,
    offset: u64,
}

impl Buffer {
    fn address(self) -> u64 {
        self.allocation.map_or(0, |(_, address)| address).wrapping_add(self.offset)
    }

    fn whole(self) -> Buffer {
        Buffer { offset: 0, ..self }
    }
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
    // In dependency order: a task that reads a buffer does not decide which one its writer should have used.
    let partners =
        matching.partner.iter().enumerate().filter_map(|(task, partner)| Some((task, (*partner)?)));
    for (task, partner) in partners {
        let (here, there) = (graph.task(task), theirs.task(partner));
        let given: Vec<ArgPair<'_>> = here
            .arguments()
            .filter_map(|arg| {
                let other = there.counterpart(arg).filter(|other| candidates::is_used(arg, *other))?;
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
    /// The partner of each buffer.
    golden_of: HashMap<Buffer, Buffer>,
    dump_of: HashMap<Buffer, Buffer>,
    /// Pairs that were used in place of those, with other contents.
    wrong_uses: HashSet<(Buffer, Buffer)>,
    /// Whether some buffer with equal content has different addresses in the two runs. Then equal addresses
    /// mean nothing.
    have_other_addresses: bool,
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

    /// Whether two buffers may correspond: they were a pair before, neither has a partner, or both have the
    /// same address.
    fn agree(&self, (ours, golden): (Buffer, Buffer)) -> bool {
        let is_free = self.partner_of(ours).is_none() && of(&self.dump_of, golden).is_none();
        let are_in_one_allocation = ours.allocation.is_some() && ours.offset == golden.offset;
        let was_pair = self.wrong_uses.contains(&(ours, golden))
            || are_in_one_allocation && self.wrong_uses.contains(&(ours.whole(), golden.whole()));
        let is_at_same_address = !self.have_other_addresses && ours.address() == golden.address();
        is_free || is_at_same_address || self.partner_of(ours) == Some(golden) || was_pair
    }

    /// Learns the pairs of a task's arguments, if each buffer is only one argument on both sides.
    fn learn(&mut self, given: &[ArgPair<'_>]) {
        let is_once = |(ours, golden): (Buffer, Buffer)| {
            let count = |of: &dyn Fn(&ArgPair<'_>) -> bool| given.iter().filter(|given| of(given)).count();
            count(&|given| given.buffers.0 == ours) == 1 && count(&|given| given.buffers.1 == golden) == 1
        };
        for one in given.iter().filter(|given| is_once(given.buffers)) {
            let buffers @ (ours, golden) = one.buffers;
            let is_free = self.partner_of(ours).is_none() && of(&self.dump_of, golden).is_none();
            let has_equal_content = !one.differs();
            self.have_other_addresses |= has_equal_content && ours.address() != golden.address();
            if self.partner_of(ours) != Some(golden) && (is_free || has_equal_content) {
                self.pair(ours, golden);
            } else if !self.agree(buffers) {
                self.wrong_uses.insert(buffers);
            }
        }
    }
}

fn of(pairs: &HashMap<Buffer, Buffer>, one: Buffer) -> Option<Buffer> {
    let whole = one.whole();
    let by_allocation = || {
        let partner = pairs.get(&whole).filter(|_| one.allocation.is_some())?;
        Some(Buffer { offset: one.offset, ..*partner })
    };
    pairs.get(&one).copied().or_else(by_allocation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};

    /// Three tasks of one buffer each, with the content before and after each task.
    fn run(buffers: [u64; 3], contents: [&str; 3]) -> TaskGraph {
        let task = |(id, (&address, content)): (u64, (&u64, &str))| {
            TaskBuilder::new(id, "step").unknown_role(address, content, &format!("{content}'")).at(id * 10)
        };
        graph_of((0..).zip(buffers.iter().zip(contents)).map(task).collect(), &[], None)
    }

    /// The tasks that use other buffers than in the golden.
    fn tasks_with_other_buffers(dump: &TaskGraph, golden: &TaskGraph) -> Vec<usize> {
        let matching = Matching { partner: vec![Some(0), Some(1), Some(2)], ..Matching::default() };
        differences(dump, golden, &matching).iter().map(|difference| difference.task).collect()
    }

    #[test]
    fn a_buffer_that_was_once_used_in_place_of_another_is_right_again_later() {
        let golden = run([0x1000, 0x2000, 0x1000], ["a", "b", "c"]);
        let (same, elsewhere) = ([0x1000, 0x1000, 0x1000], [0x7000, 0x7000, 0x7000]);
        for addresses in [same, elsewhere] {
            let dump = run(addresses, ["a", "wrong", "also wrong"]);
            assert_eq!(tasks_with_other_buffers(&dump, &golden), [1], "{addresses:x?}");
        }
    }

    #[test]
    fn a_buffer_with_one_address_in_both_runs_is_not_another() {
        // The first use of a buffer is wrong, so the first pair is. The later uses are right.
        let golden = run([0x2000, 0x1000, 0x2000], ["a", "b", "c"]);
        let dump = run([0x1000, 0x1000, 0x2000], ["wrong", "also wrong", "wrong, too"]);
        assert_eq!(tasks_with_other_buffers(&dump, &golden), [0_usize; 0]);
    }

    #[test]
    fn equal_addresses_mean_nothing_if_equal_contents_are_at_other_addresses() {
        // The buffers have swapped addresses, and the last task uses the wrong one.
        let golden = run([0x1000, 0x2000, 0x1000], ["a", "b", "c"]);
        let dump = run([0x2000, 0x1000, 0x1000], ["a", "b", "wrong"]);
        assert_eq!(tasks_with_other_buffers(&dump, &golden), [2]);
    }
}
