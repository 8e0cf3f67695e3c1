//! Generated CUDA programs are sound, use memory as a caching allocator does, and run on the fake driver.

use super::*;
use crate::api::tests::{all_facts, best_answer};
use crate::machine::{ArgTrace, Source};
use crate::program::Deviation;
use crate::recording::Capture;

/// The plans of right runs, one per seed.
fn right_runs(seeds: u64) -> impl Iterator<Item = (u64, Runs)> {
    (0..seeds).map(|seed| (seed, plan(&mut fastrand::Rng::with_seed(seed), Fault::None)))
}

fn args(traces: &[TaskTrace]) -> impl Iterator<Item = &ArgTrace> {
    traces.iter().filter(|trace| trace.kernel.is_some()).flat_map(|trace| &trace.args)
}

#[test]
fn right_programs_read_nothing_that_is_uninitialized() {
    for (seed, runs) in right_runs(100) {
        for arg in args(&runs.truth(&runs.golden)) {
            let mut read = arg.sources.iter().zip(&arg.read).filter(|(_, is_read)| **is_read);
            assert!(read.all(|(source, _)| *source != Source::Garbage), "seed {seed}");
        }
    }
}

#[test]
fn right_programs_do_not_depend_on_garbage_padding_and_stale_pointers() {
    for (seed, runs) in right_runs(100) {
        let [left, right] = [&runs.actual, &runs.golden].map(|plan| runs.truth(plan));
        for (left, right) in args(&left).zip(args(&right)) {
            let mut written = (0..left.places.len()).filter(|&at| left.written[at]);
            assert!(written.all(|at| left.after_of(at) == right.after_of(at)), "seed {seed}");
        }
    }
}

#[test]
fn a_pointer_reaches_to_the_end_of_its_block_or_segment() {
    let (mut reported, mut inside, mut other) = (0, 0, 0);
    for (seed, runs) in right_runs(30) {
        let mut memory = runs.memory(&runs.golden);
        let traces = execute_in(&runs.golden, &mut memory, &mut Unobserved);
        for arg in args(&traces) {
            let end = arg.places.last().expect("an element") + arg.element.bytes();
            let (segment, _) = memory.in_segment(arg.places[0]);
            let segment = memory.segments()[segment].clone();
            if runs.caching.reports_blocks {
                assert!(end % 512 == segment.start % 512 && end <= segment.end, "seed {seed}");
                reported += 1;
                inside += u32::from(end < segment.end);
            } else {
                assert_eq!(end, segment.end, "seed {seed}");
                other += 1;
            }
        }
    }
    assert!(reported > 50 && other > 50, "{reported} and {other}");
    assert!(inside > reported / 2, "{inside} of {reported} blocks end before their segment");
}

#[test]
fn a_reused_piece_contains_what_an_earlier_piece_left() {
    let leftovers = right_runs(30).filter(|(_, runs)| {
        let traces = runs.truth(&runs.golden);
        let mut written = std::collections::HashMap::new();
        args(&traces).any(|arg| {
            let left = (0..arg.places.len()).any(|at| {
                let content = written.get(&arg.places[at]).map(Vec::as_slice);
                arg.sources[at] == Source::Garbage && content == Some(arg.before_of(at))
            });
            let all = (0..arg.places.len()).filter(|&at| arg.written[at]);
            all.for_each(|at| _ = written.insert(arg.places[at], arg.after_of(at).to_vec()));
            left
        })
    });
    let count = leftovers.count();
    assert!(count > 5, "{count} of 30 programs");
}

#[test]
fn noise_and_small_errors_are_wrong_in_bytes_of_unknown_type() {
    for (fault, judged) in [(Fault::Noise, Fault::Code), (Fault::Below, Fault::Value)] {
        let runs = plan(&mut fastrand::Rng::with_seed(3), fault);
        assert_eq!(runs.judged, judged);
        let traces = runs.truth(&runs.actual);
        let launches = traces.iter().filter(|trace| trace.kernel.is_some()).count();
        assert_eq!(runs.guilt.guilty.len(), if fault == Fault::Noise { launches } else { 1 });
    }
}

#[test]
fn only_kernels_that_deviate_are_built_again() {
    let mut count = 0;
    for seed in 0..20 {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), Fault::Value);
        let of_guilty = |action: &Action| match action {
            Action::Launch { id, launch } if runs.guilt.guilty.contains(id) => Some(launch.kernel),
            _ => None,
        };
        let guilty: Vec<usize> = runs.actual.program.actions.iter().filter_map(of_guilty).collect();
        assert!(runs.rebuilt.is_empty() || runs.rebuilt.keys().eq(guilty.iter()), "seed {seed}");
        count += runs.rebuilt.len();
    }
    assert!((5..15).contains(&count), "{count} of 20 kernels");
    for seed in 0..10 {
        assert!(plan(&mut fastrand::Rng::with_seed(seed), Fault::Scalar).rebuilt.is_empty(), "seed {seed}");
    }
}

#[test]
fn the_best_answer_breaks_no_rule_and_decides_all_that_is_decidable() {
    let mut decidable = 0;
    for (seed, &fault) in (0..).zip(FAULTS.iter().cycle().take(170)) {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), fault);
        let [actual, golden] = [&runs.actual, &runs.golden].map(|plan| runs.truth(plan));
        let [actual_facts, golden_facts] = [&actual, &golden].map(|traces| all_facts(traces));
        let case = Case {
            fault: runs.judged,
            guilt: &runs.guilt,
            style: &runs.golden.program.style,
            has_names: false,
            actual: Run { traces: &actual, facts: &actual_facts, capture: Capture::FULL },
            golden: Run { traces: &golden, facts: &golden_facts, capture: Capture::FULL },
        };
        let judgment = case.judge(&best_answer(&case));
        assert!(!judgment.is_violation(), "seed {seed}, {fault:?}: {judgment:?}");
        assert!(!judgment.is_decidable || judgment.named_first, "seed {seed}, {fault:?}: {judgment:?}");
        decidable += u64::from(judgment.is_decidable);
    }
    assert!(decidable > 20, "{decidable} of 170 trials are decidable");
}

/// Runs the program without a recorder. Returns its exit status and the memory at the end.
fn perform(dir: &Path, text: &str) -> (Option<i32>, String) {
    let [plan, result] = ["plan", "result"].map(|name| dir.join(name));
    std::fs::write(&plan, text).expect("a plan");
    let mut command = Command::new(driver::built(dir).expect("a driver").join("cuda"));
    let output = command.arg(&plan).arg(&result).env_remove("CUDA_INJECTION64_PATH").output().expect("a run");
    (output.status.code(), std::fs::read_to_string(&result).unwrap_or_default())
}

#[test]
fn the_fake_driver_leaves_what_the_machine_computed_and_checks_what_kernels_read() {
    let dir = std::env::temp_dir().join(format!("trials-cuda-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    for seed in 0..12 {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), Fault::Stale);
        let (mut memory, none) = (runs.memory(&runs.actual), HashMap::new());
        let agreed = runs.waits();
        let mut script = Script::new(&runs.actual, &runs.layouts, runs.caching, &none, &agreed);
        execute_in(&runs.actual, &mut memory, &mut script);
        let text = script.finish(&memory, runs.reads);
        let (status, result) = perform(&dir, &text);
        assert_eq!(status, Some(0), "seed {seed}");
        assert_eq!(script::compare(&memory, &result), Ok(()), "seed {seed}");
        let Some(at) = text.find("\nreads ") else { continue };
        let end = at + 1 + text[at + 1..].find('\n').expect("a line");
        let other = if text.as_bytes()[end - 1] == b'0' { "1" } else { "0" };
        let changed = [&text[..end - 1], other, &text[end..]].concat();
        assert_eq!(perform(&dir, &changed).0, Some(70), "seed {seed}: another content is expected");
    }
    std::fs::remove_dir_all(&dir).expect("the folder");
}

#[test]
fn code_deviates_only_where_the_plan_says_so() {
    let runs = plan(&mut fastrand::Rng::with_seed(1), Fault::Code);
    let kernels = |plan: &Plan, rebuilt: &HashMap<usize, u64>| {
        let mut memory = runs.memory(plan);
        let agreed = runs.waits();
        let mut script = Script::new(plan, &runs.layouts, runs.caching, rebuilt, &agreed);
        execute_in(plan, &mut memory, &mut script);
        let text = script.finish(&memory, false);
        text.lines().filter(|line| line.starts_with("kernel ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (actual, golden) = (kernels(&runs.actual, &runs.rebuilt), kernels(&runs.golden, &HashMap::new()));
    let differs = actual.iter().zip(&golden).filter(|(left, right)| left != right).count();
    assert_eq!((actual.len(), differs), (golden.len(), 1), "one kernel has other code");
    let kernel = runs.golden.program.actions.iter().find_map(|action| match action {
        Action::Launch { launch, .. } => Some(launch.kernel),
        _ => None,
    });
    let rebuilt = HashMap::from([(kernel.expect("a launch"), 77)]);
    let line = &kernels(&runs.golden, &rebuilt)[0];
    assert!(line.contains(" 77 ") && *line != golden[0], "{line}");
    assert!(runs.actual.deviations.iter().all(|(_, of)| matches!(of, Deviation::Code { .. })));
}

#[test]
fn both_runs_wait_for_the_same_streams() {
    let mut count = 0;
    for seed in 0..40 {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), Fault::WrongBuffer);
        let (agreed, none) = (runs.waits(), HashMap::new());
        let [left, right] = [&runs.actual, &runs.golden].map(|plan| {
            let mut script = Script::new(plan, &runs.layouts, runs.caching, &none, &agreed);
            execute_in(plan, &mut runs.memory(plan), &mut script);
            script.waits
        });
        assert_eq!(left, right, "seed {seed}");
        count += left.values().map(std::collections::BTreeSet::len).sum::<usize>();
    }
    assert!(count > 20, "{count} waits");
}
