//! Content that another CPU has just written, like the output of a kernel when a scheduler records it. Its cache lines come
//! from the CPU that wrote them, which costs more than the work on them.

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Round;
use super::rig::{LentMemory, Rig};
use crate::BenchError;

/// Content of a round, which fits the cache of one CPU.
const ROUND_BYTES: u64 = 256 << 10;
const MOST_RECORDS: u64 = 1024;

/// Number of tensors of a size that are written and then recorded.
pub(super) const fn records(bytes: u64) -> u64 {
    let records = ROUND_BYTES / bytes;
    if records > MOST_RECORDS { MOST_RECORDS } else { records }
}

/// Two CPUs for one thread each, on different cores if possible.
pub(super) fn two_cpus() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let first = cpus.next()?;
    let rest: Vec<usize> = cpus.collect();
    let same_core = siblings(first);
    let second = rest.iter().find(|cpu| !same_core.contains(cpu)).or(rest.first())?;
    Some([first, *second])
}

/// CPUs of the same core; empty if the system does not report them.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    cpus_of_list(fs::read_to_string(path).unwrap_or_default().trim())
}

/// Reads a CPU list of the system: `0,8` or `0-1`.
fn cpus_of_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Rounds in which one thread writes all tensors, and a thread on another CPU copies them; copies, hashes and stores them;
/// and records them.
pub(super) fn rounds(mut rig: Rig, count: u32, [here, there]: [usize; 2]) -> Result<Vec<Round>, BenchError> {
    let (to_writer, of_reader) = sync_channel(1);
    let (to_reader, of_writer) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(move || write_each(there, &of_reader, &to_reader));
        let reader = scope.spawn(move || {
            stay_on(here);
            // Both threads end when their channel closes.
            let mut written = |rig: &mut Rig| {
                let lent = to_writer.send(rig.lend()).ok().and_then(|()| of_writer.recv().ok());
                lent.map(|memory| rig.take_back(memory))
                    .ok_or_else(|| BenchError::Wrong("the writer ended".into()))
            };
            (0..count).map(|_| round(&mut rig, &mut written)).collect()
        });
        reader.join().unwrap_or_else(|_| Err(BenchError::Wrong("the reader ended".into())))
    })
}

fn round(
    rig: &mut Rig,
    written: &mut impl FnMut(&mut Rig) -> Result<(), BenchError>,
) -> Result<Round, BenchError> {
    written(rig)?;
    let copy = rig.copy_each();
    written(rig)?;
    let limit = rig.limit_each();
    written(rig)?;
    let record = rig.record_each()?;
    Ok(Round { record, copy, limit })
}

fn write_each(cpu: usize, of_reader: &Receiver<LentMemory>, to_reader: &SyncSender<LentMemory>) {
    stay_on(cpu);
    for (number, mut memory) in (1_u8..=255).cycle().zip(of_reader) {
        memory.tensors().fill(number);
        if to_reader.send(memory).is_err() {
            return;
        }
    }
}

/// Pins the thread. If that is refused, the threads probably still run on different CPUs.
fn stay_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    let _ = sched_setaffinity(None, &only);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cpu_lists() {
        assert_eq!(cpus_of_list("0,8"), [0, 8]);
        assert_eq!(cpus_of_list("2-4,7"), [2, 3, 4, 7]);
        assert!(cpus_of_list("").is_empty());
    }

    #[test]
    fn records_what_another_thread_wrote() {
        let Some(cpus) = two_cpus() else { return };
        let rig = Rig::fresh(256, records(256));
        let rounds = rounds(rig, 2, cpus).unwrap();
        // The rig itself checks the number of recorded bytes.
        assert!(rounds.iter().all(|round| round.record > 0.0 && round.copy > 0.0 && round.limit > 0.0));
    }
}
