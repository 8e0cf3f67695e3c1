//! Measures the cost of the dump's hooks for a scheduler when nothing is dumped, in instructions.
//! `scripts/count-instructions` runs it under callgrind, which counts from the entry to the return of the
//! `counted_…` functions.
//!
//! Arguments: `without-dump` or `counting-hooks`, then the number of tasks.

use std::hint::black_box;

use tensortap_runtime::drive::{DrivenGraph, HookCounts, hooks_compiled_in};

/// Small enough for a normal run of all benchmarks.
const DEFAULT_TASKS: u32 = 10_000;

#[inline(never)]
fn counted_without_dump(graph: &DrivenGraph) -> u64 {
    graph.run_without_dump()
}

/// Shows that the measurement can distinguish hooks from no hooks.
#[inline(never)]
fn counted_counting_hooks(graph: &DrivenGraph) -> u64 {
    let HookCounts { before, after } = graph.run_counting_hooks();
    assert_eq!(before, after);
    after
}

fn main() {
    // `cargo bench` adds its own options.
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let mode = args.next().unwrap_or_else(|| "without-dump".into());
    let tasks = args.next().map_or(DEFAULT_TASKS, |text| text.parse().expect("the number of tasks"));
    let graph = DrivenGraph::new(tasks);
    let completed = match mode.as_str() {
        "without-dump" => counted_without_dump(black_box(&graph)),
        "counting-hooks" => counted_counting_hooks(black_box(&graph)),
        _ => panic!("`{mode}` is not a mode; use without-dump or counting-hooks"),
    };
    assert_eq!(completed, u64::from(tasks), "every task is complete");
    let hooks = if hooks_compiled_in() { "compiled in" } else { "compiled out" };
    println!("{mode}: {completed} tasks, hooks {hooks}");
}
