//! Differences in arguments that launches got by value, such as a struct.
//!
//! Such values contain addresses, which differ from run to run, and uninitialized padding. So a difference is
//! reported, but it is no evidence against a task.

use std::collections::{HashMap, HashSet};

use tensortap_abi::{DumpStage, Role, SLOTS_PER_TASK};
use tensortap_format::{Argument, Dump, FormatError, Task};

use super::observed::is_written;
use super::unwritten::content;
use super::wiring::{WiringChange, WiringDifference};
use crate::graph::TaskGraph;
use crate::labels::{ArgStatus, Status, TaskStatus};
use crate::matching::Matching;

/// Limit on the number of reported bytes.
const MAX_REPORTED_BYTES: usize = 8;
/// Words in this range look like addresses: of processes on this machine, and of devices that share their
/// address space.
const ADDRESSES: std::ops::Range<u64> = 1 << 44..1 << 47;

/// Whether an argument of a launch was passed by value. A launch's memory arguments have unknown roles, so a
/// known input that no task wrote is a value.
pub(crate) fn is_value(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    let is_read_only = arg.role_known && arg.role == Role::Input && !arg.is_scalar();
    graph.observations().is_some()
        && is_read_only
        && task.facts().launch.is_some()
        && !task.kernel_names().is_empty()
        && !is_written(graph, task, arg)
}

/// A value that differs from the golden's in more than addresses.
struct OtherValue {
    task: usize,
    arg_index: u16,
    contents: (Vec<u8>, Vec<u8>),
    /// Positions of the bytes that differ.
    differing: Vec<usize>,
}

/// The first differing bytes of each value of matched tasks. Ignored are addresses, and bytes that also differ in a right
/// launch of the kernel: they hold whatever was there before.
///
/// # Errors
/// A file cannot be read.
pub(super) fn differences(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> Result<Vec<WiringDifference>, FormatError> {
    let mut found = Vec::new();
    for (place, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        let (task, partner) = (graph.task(place), theirs.task(partner));
        for arg in task.arguments() {
            let Some(other) = partner.counterpart(arg) else { continue };
            if arg.hash_before() == other.hash_before() || !is_value(graph, task, arg) {
                continue;
            }
            let stage = DumpStage::BeforeDispatch;
            let contents = content(dump, arg, stage)?.zip(content(golden, other, stage)?);
            let Some(contents) = contents else { continue };
            let points = |task: Task<'_>, at: usize| task.arguments().any(|own| points_to(arg, at, own));
            let is_address = |at: usize| points(task, at) && points(partner, at);
            let differing = differing_bytes(&contents.0, &contents.1, is_address);
            if !differing.is_empty() {
                found.push(OtherValue { task: place, arg_index: arg.arg_index, contents, differing });
            }
        }
    }
    let harmless = harmless_bytes(graph, &found, statuses);
    let first_of = |value: OtherValue| {
        let harmless = harmless.get(&(graph.task(value.task).func_id, value.arg_index));
        let counts = |at: &&usize| harmless.is_none_or(|harmless| !harmless.contains(at));
        let first = *value.differing.iter().find(counts)?;
        let mut following =
            value.differing.iter().filter(|at| (first..first + MAX_REPORTED_BYTES).contains(at));
        let end = following.next_back()? + 1;
        let (dump, golden) = (value.contents.0[first..end].to_vec(), value.contents.1[first..end].to_vec());
        let what = WiringChange::Value { arg_index: value.arg_index, first, dump, golden };
        Some(WiringDifference { task: value.task, what })
    };
    Ok(found.into_iter().filter_map(first_of).collect())
}

/// Whether an argument is the memory that the word at a position of a value points to.
fn points_to(value: Argument<'_>, at: usize, arg: Argument<'_>) -> bool {
    let word = arg.pointer_word();
    word.is_some_and(|word| word.arg_index == value.arg_index && word.byte as usize == at)
}

/// The bytes of values that differ in right tasks, by kernels and argument.
fn harmless_bytes(
    graph: &TaskGraph,
    values: &[OtherValue],
    statuses: &[TaskStatus],
) -> HashMap<([u32; SLOTS_PER_TASK], u16), HashSet<usize>> {
    let mut harmless: HashMap<_, HashSet<usize>> = HashMap::new();
    for value in values.iter().filter(|value| has_right_outputs(&statuses[value.task])) {
        let key = (graph.task(value.task).func_id, value.arg_index);
        harmless.entry(key).or_default().extend(&value.differing);
    }
    harmless
}

/// Scalars that differ only in bytes that also differ in a right launch of the kernel, such as the padding of a small
/// struct.
pub(super) fn harmless_scalars(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> HashSet<(usize, u16)> {
    if graph.observations().is_none() {
        return HashSet::new();
    }
    let mut differing: Vec<(usize, u16, u64)> = Vec::new();
    for (place, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        let task = graph.task(place);
        let other_bits = |arg: Argument<'_>| theirs.task(partner).counterpart(arg)?.scalar_bits;
        for arg in task.arguments().filter(|_| task.facts().launch.is_some()) {
            let Some((ours, golden)) = arg.scalar_bits.zip(other_bits(arg)) else { continue };
            differing.push((place, arg.arg_index, ours ^ golden));
        }
    }
    let key = |place: usize, arg_index: u16| (graph.task(place).func_id, arg_index);
    let mut harmless: HashMap<_, u64> = HashMap::new();
    for &(place, arg_index, bits) in &differing {
        if has_right_outputs(&statuses[place]) {
            *harmless.entry(key(place, arg_index)).or_default() |= whole_bytes(bits);
        }
    }
    let is_harmless = |&(place, arg_index, bits): &(usize, u16, u64)| {
        bits != 0 && harmless.get(&key(place, arg_index)).is_some_and(|harmless| bits & !harmless == 0)
    };
    let those = differing.iter().filter(|one| is_harmless(one));
    those.map(|&(place, arg_index, _)| (place, arg_index)).collect()
}

/// Sets all bits of every byte that has a set bit.
fn whole_bytes(bits: u64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes().map(|byte| if byte == 0 { 0 } else { 0xff }))
}

/// Whether a task left everything right.
fn has_right_outputs(status: &TaskStatus) -> bool {
    let TaskStatus::Compared(args) = status else { return false };
    let is_right = |arg: &ArgStatus| matches!(arg.after, Status::Within | Status::NotApplicable);
    args.iter().all(is_right) && args.iter().any(|arg| arg.after == Status::Within)
}

/// The positions at which two values differ. Words that are addresses are skipped.
fn differing_bytes(ours: &[u8], golden: &[u8], is_address: impl Fn(usize) -> bool) -> Vec<usize> {
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let looks_like_one = |bytes: &[u8], at| word(bytes, at).is_some_and(|word| ADDRESSES.contains(&word));
    let is_left_out = |at: usize| {
        let at = at / 8 * 8;
        looks_like_one(ours, at) && looks_like_one(golden, at) || is_address(at)
    };
    let all = ours.len().min(golden.len());
    (0..all).filter(|&at| ours[at] != golden[at] && !is_left_out(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_that_are_no_addresses_are_found() {
        let value = |address: u64, inside: u64, count: u32, by: f32| {
            [&address.to_le_bytes()[..], &inside.to_le_bytes(), &count.to_le_bytes(), &by.to_le_bytes()]
                .concat()
        };
        let golden = value(0x7f00_1234_5000, 0x3_0200_0000, 5, 1.5);
        let found = |other: &[u8]| differing_bytes(&golden, other, |at| at == 8);
        assert!(found(&golden).is_empty());
        assert!(found(&value(0x7e00_0000_0000, 0x4_0200_0000, 5, 1.5)).is_empty(), "addresses");
        assert_eq!(found(&value(0x7e00_0000_0000, 1, 261, 1.5)), [17], "bytes of a number that differ");
        assert_eq!(found(&value(7, 1, 5, 1.5))[0], 0, "no address in one of them");
        assert_eq!(found(&value(0x7e00_0000_0000, 1, 5, -2.5)), [22, 23]);
    }
}
