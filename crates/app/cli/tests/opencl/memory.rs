//! Allocations and releases: storage, pool, queue, and their place in the order of tasks.

use serde_json::json;
use tensortap::format::AllocationEvent;

use crate::{Bench, succeeded};

#[test]
fn buffers_and_shared_memory_have_storages_and_places_in_the_order_of_tasks() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "memory.py").output().unwrap());
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let constant = |event: &AllocationEvent| {
        let after = tasks.iter().find(|task| task.task_id == event.after_task)?;
        after.argument(1)?.scalar_bits
    };
    let mut storages = Vec::new();
    let event = |event: &AllocationEvent| {
        assert_ne!(event.storage, 0);
        if !storages.contains(&event.storage) {
            storages.push(event.storage);
        }
        let number = storages.iter().position(|known| *known == event.storage);
        let queue = dump.queue_name(event.queue).map(|name| name.split(" (").next().unwrap().to_owned());
        json!([event.freed, event.bytes, number, tasks.text(event.pool), queue, constant(event)])
    };
    let events: Vec<_> = tasks.renewed().iter().map(event).collect();
    let pool = "shared virtual memory";
    let mut expected = vec![
        json!([false, 64, 0, null, null, null]),
        json!([true, 64, 0, null, null, 3]),
        json!([false, 128, 1, null, null, 3]),
        json!([false, 256, 2, pool, null, 4]),
        // In the order of the queue, after the command that frees it.
        json!([true, 256, 2, pool, "queue 1", null]),
    ];
    // The driver may keep the second buffer until the process ends.
    if events.len() > expected.len() {
        expected.push(json!([true, 128, 1, null, null, null]));
    }
    assert_eq!(events, expected);
}
