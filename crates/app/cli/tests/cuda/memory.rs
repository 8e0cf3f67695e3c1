//! Allocations and releases: storage, pool, stream, and their place in the order of tasks.

use serde_json::{Value, json};
use tensortap::format::Dump;

use crate::{Bench, succeeded};

/// Each allocation and release: whether it was freed, its bytes, number of its storage in order, pool, and the stream and
/// the constant of the launch that it follows.
fn events(dump: &Dump) -> Vec<Value> {
    let tasks = dump.tasks().unwrap();
    let mut storages = Vec::new();
    let event = |event: &tensortap::format::AllocationEvent| {
        assert_ne!(event.storage, 0);
        let number = storages.iter().position(|known| *known == event.storage).unwrap_or_else(|| {
            storages.push(event.storage);
            storages.len() - 1
        });
        let after = tasks.iter().find(|task| task.task_id == event.after_task && event.after_task != 0);
        let constant = after.and_then(|task| task.arguments().find_map(|argument| argument.scalar_bits));
        let queue = dump.queue_name(event.queue).map(|name| name.split(" (").next().unwrap().to_owned());
        json!([event.freed, event.bytes, number, tasks.text(event.pool), queue, constant])
    };
    tasks.renewed().iter().map(event).collect()
}

#[test]
fn stream_ordered_memory_has_its_pool_its_stream_and_its_place_there() {
    let plan = "stream 1 1\nstream 2 1\nalloc 0 16\nput 1 0 0 3 16 0\nalloc_async 1 1 32\nput 1 1 0 5 32 0\n\
                sync 1\nput 2 0 0 6 16 0\nfree_async 1 1\nalloc_from 2 2 64 171\nput 2 2 0 7 64 0\nfree_async 2 2\nsync 1\nsync 2\n\
                free 0\nalloc 3 8\nsync 1\n";
    let bench = Bench::new();
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let expected = [
        json!([false, 64, 0, null, null, null]),
        json!([false, 128, 1, "default pool", "stream 1", 3]),
        json!([true, 128, 1, "default pool", "stream 1", 5]),
        json!([false, 256, 2, "pool 0xab", "stream 2", 6]),
        json!([true, 256, 2, "pool 0xab", "stream 2", 7]),
        json!([true, 64, 0, null, null, 7]),
        json!([false, 32, 3, null, null, 7]),
    ];
    assert_eq!(events(&bench.dump("run")), expected);
}

#[test]
fn blocks_of_an_allocator_in_driver_memory_have_storages_of_their_own() {
    let plan = "stream 1 1\ntorch 0\ntorch_alloc 0 200\nput 1 0 0 7 200 0\ntorch_free 0\ntorch_alloc 1 50\nput 1 1 0 8 50 0\n\
                sync 1\n";
    let bench = Bench::new();
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let expected = [
        json!([false, 2 << 20, 0, null, null, null]),
        json!([false, 1024, 1, "PyTorch", null, null]),
        json!([true, 1024, 1, "PyTorch", null, 7]),
        json!([false, 512, 2, "PyTorch", null, 7]),
    ];
    assert_eq!(events(&bench.dump("run")), expected);
}
