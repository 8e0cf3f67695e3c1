use tensortap::{DeviceMode, Request};

use super::RunArgs;
use crate::verbs::has_rings;
use tensortap_query::number::counted;

/// What the user should know before the run: options without effect, and what thread mode gives up.
pub fn of(args: &RunArgs, request: &Request) -> Vec<String> {
    let runtime = request.runtime.name();
    let mut notes = Vec::new();
    if args.build.is_some() && runtime != "aicpu_build_graph" {
        notes.push(no_effect("--build", runtime, "only aicpu_build_graph has a choice"));
    }
    for (option, given) in
        [("--ring-slots", args.ring_slots.is_some()), ("--ring-heap", args.ring_heap.is_some())]
    {
        if given && !has_rings(runtime) {
            notes.push(no_effect(option, runtime, "its tasks are in one array"));
        }
    }
    if let Some(blocks) = args.device.blocks.filter(|blocks| (1..args.schedulers).contains(blocks)) {
        let idle = counted(u64::from(args.schedulers - blocks), "scheduler");
        notes.push(format!("{idle} will have nothing to do: each needs a block of its own"));
    }
    if args.device.device_mode == DeviceMode::Thread {
        notes.push("in thread mode a kernel that crashes or hangs takes tensortap with it".into());
    }
    notes
}

fn no_effect(option: &str, runtime: &str, why: &str) -> String {
    format!("{option} has no effect with {runtime}: {why}")
}
