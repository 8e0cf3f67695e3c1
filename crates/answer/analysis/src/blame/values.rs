//! Differences in arguments that launches got by value, such as a struct.
//!
//! Such values contain addresses, which differ from run to run, and uninitialized padding. So a difference is
//! reported, but it is no evidence against a task.

use tensortap_abi::{DumpStage, Role};
use tensortap_format::{Argument, Dump, FormatError, Task};

use super::observed::is_written;
use super::unwritten::content;
use super::wiring::{WiringChange, WiringDifference};
use crate::graph::TaskGraph;
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

/// The first differing bytes of each value of matched tasks, ignoring addresses.
///
/// # Errors
/// A file cannot be read.
pub(super) fn differences(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
) -> Result<Vec<WiringDifference>, FormatError> {
    let mut found = Vec::new();
    for (place, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        let (task, partner) = (graph.task(place), theirs.task(partner));
        for arg in task.arguments() {
            let Some(other) = partner.argument(arg.arg_index) else { continue };
            if arg.hash_before() == other.hash_before() || !is_value(graph, task, arg) {
                continue;
            }
            let stage = DumpStage::BeforeDispatch;
            let contents = content(dump, arg, stage)?.zip(content(golden, other, stage)?);
            let Some((ours, golden)) = contents else { continue };
            let is_address = |at: usize| {
                let name = format!("{}+{at}", arg.arg_index);
                let stands_for = |task: Task<'_>| {
                    task.arguments().any(|arg| task.arg_name(arg.arg_index) == Some(&name[..]))
                };
                stands_for(task) && stands_for(partner)
            };
            let arg_index = arg.arg_index;
            found.extend(first_difference(&ours, &golden, is_address).map(|(first, dump, golden)| {
                WiringDifference { task: place, what: WiringChange::Value { arg_index, first, dump, golden } }
            }));
        }
    }
    Ok(found)
}

/// The position of the first difference between two values and the bytes of both sides from there. Words that
/// are addresses are skipped.
fn first_difference(
    ours: &[u8],
    golden: &[u8],
    is_address: impl Fn(usize) -> bool,
) -> Option<(usize, Vec<u8>, Vec<u8>)> {
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let looks_like_one = |bytes: &[u8], at| word(bytes, at).is_some_and(|word| ADDRESSES.contains(&word));
    let is_left_out = |at: usize| {
        let at = at / 8 * 8;
        looks_like_one(ours, at) && looks_like_one(golden, at) || is_address(at)
    };
    let differs = |at: &usize| ours[*at] != golden[*at] && !is_left_out(*at);
    let all = ours.len().min(golden.len());
    let first = (0..all).find(differs)?;
    let end = (first..all).take(MAX_REPORTED_BYTES).take_while(differs).last().map_or(first, |last| last + 1);
    Some((first, ours[first..end].to_vec(), golden[first..end].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_that_is_no_address_is_found() {
        let value = |address: u64, inside: u64, count: u32, by: f32| {
            [&address.to_le_bytes()[..], &inside.to_le_bytes(), &count.to_le_bytes(), &by.to_le_bytes()]
                .concat()
        };
        let golden = value(0x7f00_1234_5000, 0x3_0200_0000, 5, 1.5);
        let found = |other: &[u8]| first_difference(&golden, other, |at| at == 8);
        assert_eq!(found(&golden), None);
        assert_eq!(found(&value(0x7e00_0000_0000, 0x4_0200_0000, 5, 1.5)), None, "addresses");
        assert_eq!(
            found(&value(0x7e00_0000_0000, 1, 261, 1.5)),
            Some((17, vec![0], vec![1])),
            "bytes of a number that differ"
        );
        assert_eq!(
            found(&value(7, 1, 5, 1.5)).map(|(first, ..)| first),
            Some(0),
            "no address in one of them"
        );
        let (first, ours, theirs) = found(&value(0x7e00_0000_0000, 1, 5, -2.5)).unwrap();
        assert_eq!((first, ours, theirs), (22, vec![0xc0, 0x3f], vec![0x20, 0xc0]));
    }
}
