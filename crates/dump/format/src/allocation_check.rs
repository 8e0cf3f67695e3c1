//! Checks allocations and releases of memory with known storages: a storage is allocated and released at most once, at one
//! place, and no two storages of one pool share bytes at the same time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tensortap_abi::{AllocationRecord, MemorySpace, QueueRecord, RecordKind};

use crate::{
    Dump, FormatError,
    json::Hex64,
    verify::{Findings, Problem},
};

const REMEDY: &str = "verdicts about this memory are not reliable; correct the calls that record it, or report an error of \
                      tensortap if a library recorded it";

/// Checks the allocations of a dump. `may_lack_tasks` is true if filters or losses may have removed tasks.
pub(crate) fn check_allocations(
    dump: &Dump,
    may_lack_tasks: bool,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let (mut events, mut queues) = (Vec::new(), HashSet::new());
    dump.for_each_of(&[RecordKind::Allocation, RecordKind::Queue], |record| {
        queues.extend(record.get().map(|queue: &QueueRecord| queue.id));
        events.extend(record.get().filter(|event: &&AllocationRecord| event.storage != 0).copied());
    })?;
    let mut after: HashSet<u64> =
        events.iter().map(|event| event.after_task).filter(|task| *task != 0).collect();
    if !may_lack_tasks && !after.is_empty() {
        dump.for_each_of(&[RecordKind::Task], |record| _ = after.remove(&record.task_id()))?;
    }
    // Stable: events of one time stay in the order of the index.
    events.sort_by_key(|event| event.at_ns);
    let mut live = LiveStorages::default();
    for event in &events {
        let mut problem = |what: String| {
            let verb = if event.freed == 0 { "allocation" } else { "release" };
            let what =
                format!("{verb} of storage {} at {}: {what}", Hex64(event.storage), Hex64(event.address));
            findings.problem(Problem::of_dump(what, REMEDY));
        };
        if event.queue != 0 && !queues.contains(&event.queue) {
            problem(format!("it names queue {}, which is not in the dump", event.queue));
        }
        if !may_lack_tasks && after.contains(&event.after_task) {
            problem(format!("it follows task {}, which is not in the dump", Hex64(event.after_task)));
        }
        let checked = if event.freed == 0 { live.allocate(event) } else { live.release(event) };
        if let Err(what) = checked {
            problem(what);
        }
    }
    Ok(())
}

/// Whose bytes may not be shared: those of one pool in one memory space.
type PoolKey = (u8, u32);

#[derive(Default)]
struct LiveStorages {
    /// Storages by pool and first address: end and storage. No two overlap.
    pools: BTreeMap<(PoolKey, u64), (u64, u64)>,
    /// The same by memory space, first address and pool.
    places: BTreeSet<(u8, u64, u32)>,
    /// Where each known storage was allocated, and whether it was released.
    known: HashMap<u64, (u64, u64, bool)>,
}

impl LiveStorages {
    fn allocate(&mut self, event: &AllocationRecord) -> Result<(), String> {
        let &AllocationRecord { address, bytes, storage, space, pool, .. } = event;
        let end = address.saturating_add(bytes);
        if self.known.insert(storage, (address, end, false)).is_some() {
            return Err(
                "this storage was allocated before; each allocation needs an identity of its own".into()
            );
        }
        if end == address {
            return Ok(());
        }
        let of_pool = ((space, pool), 0)..((space, pool), end);
        let before = self.pools.range(of_pool).next_back().map(|(&(_, start), &place)| (start, place));
        let overlapping = before.filter(|(_, (stop, _))| *stop > address);
        if let Some((start, _)) = overlapping {
            self.remove(space, start, pool);
        }
        self.pools.insert(((space, pool), address), (end, storage));
        self.places.insert((space, address, pool));
        let Some((start, (_, other))) = overlapping else { return Ok(()) };
        let space = MemorySpace::from_tag(space).unwrap_or_default().name();
        let (other, at) = (Hex64(other), Hex64(start));
        Err(format!("it overlaps storage {other} at {at} in {space} memory, which was not released before"))
    }

    /// Memory that was allocated before recording began may be released.
    fn release(&mut self, event: &AllocationRecord) -> Result<(), String> {
        let &AllocationRecord { address, bytes, storage, space, .. } = event;
        let end = address.saturating_add(bytes);
        // Storages inside of released memory end with it, such as the blocks of an allocator that had the memory.
        let inside: Vec<_> = self.places.range((space, address, 0)..(space, end, 0)).copied().collect();
        inside.into_iter().for_each(|(space, start, pool)| self.remove(space, start, pool));
        match self.known.insert(storage, (address, end, true)) {
            Some((.., true)) => Err("this storage was released before".into()),
            Some((start, stop, false)) if (start, stop) != (address, end) => {
                let (allocated, at) = (stop - start, Hex64(start));
                Err(format!("it has {bytes} bytes, but {allocated} bytes at {at} were allocated"))
            }
            _ => Ok(()),
        }
    }

    fn remove(&mut self, space: u8, start: u64, pool: u32) {
        self.pools.remove(&((space, pool), start));
        self.places.remove(&(space, start, pool));
    }
}
