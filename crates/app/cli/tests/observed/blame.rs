//! Two recordings of one program, one of them wrong.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::common;
use crate::program::{Launch, Program, Range, on};
use crate::{call, document};

/// The faults of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunFault {
    kernel: bool,
    grid: bool,
    scalar: bool,
    /// The second queue does not wait and runs early.
    event: bool,
    /// There is no barrier, and the last launch runs early.
    barrier: bool,
    /// Nothing initializes the sum, which holds this content.
    garbage: Option<u8>,
    /// Something else writes between two launches.
    stray: bool,
    /// A second queue uses the sum at the same time.
    beside: bool,
}

const N: usize = 64;

/// sum += a + b in one queue. In another queue, after an event, twice = 2 * sum; then, after a barrier, out =
/// twice + 1.
fn run(folder: &Path, wrong: RunFault) -> PathBuf {
    let mut program = Program::new(folder);
    let device = MemorySpace::Host;
    let [a, b, sum, twice, out] =
        [0, 0, wrong.garbage.unwrap_or(0), 0, 0].map(|content| program.buffer(&[content; N], device));
    let all = |buffer: usize| Range(buffer, 0, N);
    let contents: Vec<u8> = (0..64).collect();
    program.write(on("one"), all(a), &contents);
    program.write(on("one"), all(b), &[3; N]);
    if wrong.garbage.is_none() {
        program.write(on("one"), all(sum), &[0; N]);
    }
    program.write(on("two"), all(twice), &[0; N]);
    let add = |program: &mut Program| {
        let reach = if wrong.grid { N / 2 } else { N };
        let scalar = Some(if wrong.scalar { 2 } else { 1 });
        let launch = Launch { grid: if wrong.grid { 2 } else { 4 }, scalar, ..on("one") };
        program.launch("add", launch, &[all(a), all(b), all(sum)], |memory| {
            // Each buffer is borrowed separately.
            let given: Vec<u8> = memory[a].iter().zip(&memory[b]).map(|(a, b)| a.wrapping_add(*b)).collect();
            for (at, (sum, given)) in memory[sum].iter_mut().zip(given).enumerate().take(reach) {
                *sum = sum
                    .wrapping_add(given)
                    .wrapping_add(u8::from(wrong.kernel && at == 5))
                    .wrapping_add(u8::from(wrong.scalar));
            }
        })
    };
    let double = |program: &mut Program, waits: &[u64]| {
        program.launch("double", Launch { waits, ..on("two") }, &[all(sum), all(twice)], |memory| {
            (0..N).for_each(|at| memory[twice][at] = memory[sum][at].wrapping_mul(2));
        })
    };
    let last = |program: &mut Program, waits: &[u64]| {
        program.launch("last", Launch { waits, ..on("out of order") }, &[all(twice), all(out)], |memory| {
            (0..N).for_each(|at| memory[out][at] = memory[twice][at].wrapping_add(1));
        })
    };
    let doubled = if wrong.event {
        let doubled = double(&mut program, &[]);
        add(&mut program);
        doubled
    } else {
        if wrong.beside {
            // It uses another half than `add`, but it gets the whole buffer.
            program.launch("beside", on("three"), &[all(sum)], |_| {});
        }
        let added = add(&mut program);
        if wrong.stray {
            program.memory[sum][7] = 99;
        }
        double(&mut program, &[added])
    };
    if wrong.barrier {
        last(&mut program, &[]);
    } else {
        let barrier = program.barrier(Launch { waits: &[doubled], ..on("out of order") });
        last(&mut program, &[barrier]);
    }
    program.end()
}

/// Blames one run by another; returns the JSON document and the text.
fn blamed(wrong: RunFault, golden: RunFault) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let (wrong, golden) = (run(&dir.path().join("wrong"), wrong), run(&dir.path().join("golden"), golden));
    let line = ["blame", wrong.to_str().unwrap(), "--golden", golden.to_str().unwrap()];
    let (status, text) = call(dir.path(), &line);
    let document = document(dir.path(), &line);
    assert_eq!(status == 0, document["verdict"] == "pass");
    (document, common::unwrapped(&text))
}

/// The first wrong task: its kernel, its label and its document.
pub fn first(document: &Value) -> (String, String, Value) {
    let [first] = document["first_wrong"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    let tasks = document["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|task| task["task_id"] == *first).unwrap();
    (task["kernels"][0].as_str().unwrap().into(), task["label"].as_str().unwrap().into(), task.clone())
}

pub fn wiring<'d>(document: &'d Value, what: &str) -> Vec<&'d Value> {
    document["wiring"].as_array().unwrap().iter().filter(|one| one["what"] == what).collect()
}

#[test]
fn two_good_runs_agree() {
    let (document, _) = blamed(RunFault::default(), RunFault::default());
    assert_eq!(document["verdict"], "pass", "{document:#}");
    assert_eq!(document["wiring"].as_array().unwrap().len(), 0);
    assert!(document["tasks"].as_array().unwrap().iter().all(|task| task["label"] == "ok"), "{document:#}");
}

#[test]
fn a_wrong_kernel_is_named_and_its_consumers_inherit() {
    let (document, text) = blamed(RunFault { kernel: true, ..RunFault::default() }, RunFault::default());
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("add", "wrong_here", &2.into()));
    assert_eq!(task["reason"], Value::Null, "nothing is ambiguous about it");
    let inherited = document["tasks"].as_array().unwrap().iter().filter(|t| t["label"] == "inherited");
    assert_eq!(inherited.map(|t| t["kernels"][0].as_str().unwrap()).collect::<Vec<_>>(), ["double", "last"]);
    assert!(text.contains("(add) is wrong here"), "{text}");
}

#[test]
fn a_wrong_launch_size_is_reported() {
    let (document, text) = blamed(RunFault { grid: true, ..RunFault::default() }, RunFault::default());
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("add", "wrong_here"));
    let [size] = wiring(&document, "launch")[..] else { panic!("{document:#}") };
    assert_eq!((&size["dump"]["grid"][0], &size["golden"]["grid"][0]), (&2.into(), &4.into()));
    assert!(text.contains("in the dump grid 2 x 1 x 1, group 16 x 1 x 1"), "{text}");
}

#[test]
fn a_different_scalar_is_reported() {
    let (document, text) = blamed(RunFault { scalar: true, ..RunFault::default() }, RunFault::default());
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("add", "fed"));
    assert_eq!(wiring(&document, "scalar").len(), 1);
    assert!(text.contains("argument 3 is 2, but 1 in the golden"), "{text}");
}

#[test]
fn a_missing_event_with_a_stale_read_is_a_race() {
    let (document, text) = blamed(RunFault { event: true, ..RunFault::default() }, RunFault::default());
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("double", "raced", &0.into()), "{task:#}");
    assert_eq!(task["raced_with"]["how"], "unordered");
    let [lost] = wiring(&document, "lost_order")[..] else { panic!("{document:#}") };
    assert_eq!(
        (&lost["task_id"], &lost["dump"]["task_id"]),
        (&task["task_id"], &task["raced_with"]["task_id"])
    );
    assert!(text.contains("is not ordered after task") && text.contains("as it is in the golden"), "{text}");
}

#[test]
fn a_missing_barrier_is_reported_even_without_consequences() {
    let (document, text) = blamed(RunFault { barrier: true, ..RunFault::default() }, RunFault::default());
    let [lost] = wiring(&document, "lost_order")[..] else { panic!("{document:#}") };
    let tasks = document["tasks"].as_array().unwrap();
    let kernel = |id: &Value| tasks.iter().find(|task| task["task_id"] == *id).unwrap()["kernels"][0].clone();
    assert_eq!(
        (kernel(&lost["task_id"]), kernel(&lost["dump"]["task_id"])),
        ("last".into(), "double".into())
    );
    assert!(text.contains("is not ordered after task") && text.contains("(double)"), "{text}");
}

#[test]
fn an_uninitialized_buffer_is_reported() {
    let garbage = |content| RunFault { garbage: Some(content), ..RunFault::default() };
    let (document, text) = blamed(garbage(17), garbage(0));
    let (kernel, label, task) = first(&document);
    // The launch adds to it, so the launch is right and its input is not.
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("add", "fed", &2.into()), "{task:#}");
    assert!(text.contains("an uninitialized buffer: no task of either run wrote it"), "{text}");
}

#[test]
fn blame_stops_at_an_unattributed_change() {
    let (document, text) = blamed(RunFault { stray: true, ..RunFault::default() }, RunFault::default());
    let (kernel, label, task) = first(&document);
    // No recorded task wrote it, so no task is accused.
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("double", "fed", &0.into()), "{task:#}");
    assert_eq!(task["raced_with"], Value::Null);
    let tasks = document["tasks"].as_array().unwrap();
    let left = tasks.iter().find(|task| task["kernels"][0] == "add").unwrap();
    assert_eq!(left["label"], "ok");
    let id = u64::from_str_radix(&left["task_id"].as_str().unwrap()[2..], 16).unwrap();
    let words = format!("are not what task {id:#x} left there, and no recorded task changed that since");
    assert!(text.contains("an unattributed change: bytes") && text.contains(&words), "{text}");
}

#[test]
fn a_culprit_with_an_ambiguous_change_names_the_other_tasks() {
    let beside = RunFault { beside: true, ..RunFault::default() };
    let (document, text) = blamed(RunFault { kernel: true, ..beside }, beside);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..]), ("add", "wrong_here"));
    let tasks = document["tasks"].as_array().unwrap();
    let beside = tasks.iter().find(|task| task["kernels"][0] == "beside").unwrap();
    let id = u64::from_str_radix(&beside["task_id"].as_str().unwrap()[2..], 16).unwrap();
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("ambiguous") && reason.contains(&format!("task {id:#x}")), "{reason}");
    assert!(text.contains("argument 2 is ambiguous: nothing orders it with task"), "{text}");
}

/// Launches `step` several times from one buffer into the other and swaps the buffers each time, except
/// before launch `forgotten`. With `reversed`, the buffers are allocated in the other order.
fn ping_pong(folder: &Path, forgotten: Option<usize>, reversed: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let [one, two] = [0; 2].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let (mut from, mut to) = if reversed { (two, one) } else { (one, two) };
    let all = |buffer: usize| Range(buffer, 0, N);
    let contents: Vec<u8> = (0..64).collect();
    program.write(on("one"), all(from), &contents);
    program.write(on("one"), all(to), &[0; N]);
    for launch in 0..5 {
        if launch > 0 && forgotten != Some(launch) {
            (from, to) = (to, from);
        }
        program.launch("step", on("one"), &[all(from), all(to)], |memory| {
            (0..N).for_each(|at| memory[to][at] = memory[from][at].wrapping_mul(3).wrapping_add(1));
        });
    }
    program.end()
}

/// Blames one run by another; returns the JSON document and the text.
pub fn blamed_runs(make: impl Fn(&Path) -> PathBuf, golden: impl Fn(&Path) -> PathBuf) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let (wrong, golden) = (make(&dir.path().join("wrong")), golden(&dir.path().join("golden")));
    let line = ["blame", wrong.to_str().unwrap(), "--golden", golden.to_str().unwrap()];
    let (_, text) = call(dir.path(), &line);
    (document(dir.path(), &line), text.replace(dir.path().to_str().unwrap(), "DIR"))
}

#[test]
fn buffers_that_were_not_swapped_are_reported_once_at_their_launch() {
    for reversed in [false, true] {
        let (document, text) =
            blamed_runs(|dir| ping_pong(dir, Some(3), reversed), |dir| ping_pong(dir, None, false));
        let (kernel, label, task) = first(&document);
        assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("step", "fed", &0.into()), "{task:#}");
        let steps = document["tasks"].as_array().unwrap().iter().filter(|task| task["kernels"][0] == "step");
        let fourth = steps.clone().nth(3).unwrap();
        assert_eq!(task["task_id"], fourth["task_id"], "{document:#}");
        let reason = "argument 0 is a different buffer than in the golden: the one that is argument 1 there";
        assert_eq!(task["reason"], reason);
        let buffers = wiring(&document, "buffer");
        let arguments: Vec<_> = buffers.iter().map(|one| (&one["task_id"], &one["arg_index"])).collect();
        let id = &task["task_id"];
        assert_eq!(
            arguments,
            [(id, &0.into()), (id, &1.into())],
            "reported once, although all later buffers are swapped, too"
        );
        assert_eq!(buffers[0]["dump"]["is_arg_in_golden"], 1);
        assert_eq!(document["labels"]["inherited"], 1, "{document:#}");
        if !reversed {
            insta::assert_snapshot!("blame_of_buffers_that_were_not_swapped", text);
        }
    }
}

#[test]
fn the_same_buffers_at_other_addresses_are_no_difference() {
    let (document, _) = blamed_runs(|dir| ping_pong(dir, None, true), |dir| ping_pong(dir, None, false));
    assert_eq!((&document["verdict"], &document["wiring"]), (&"pass".into(), &Value::Array(vec![])));
}
