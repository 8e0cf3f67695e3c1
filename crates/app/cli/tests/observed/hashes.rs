//! Two recordings with only hashes: differences are known, but not which bytes differ.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tensortap::abi::{DumpLevel, MemorySpace};

use crate::blame::{blamed_runs, first};
use crate::program::{Launch, Program, Range, on};

const N: usize = 64;

fn all(buffer: usize) -> Range {
    Range(buffer, 0, N)
}

fn task<'d>(document: &'d Value, kernel: &str) -> &'d Value {
    let mut tasks = document["tasks"].as_array().unwrap().iter();
    tasks.find(|task| task["kernels"][0] == kernel).unwrap()
}

/// Label and reason of a kernel's task.
fn label(document: &Value, kernel: &str) -> (String, String) {
    let task = task(document, kernel);
    (task["label"].as_str().unwrap().to_owned(), task["reason"].as_str().unwrap_or_default().to_owned())
}

/// `scale` computes `y` from `x`, and `add` sums it.
fn chain(folder: &Path, factor: u8) -> PathBuf {
    let mut program = Program::at(folder, DumpLevel::Hash);
    let [x, y, sums] = [0; 3].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let contents: Vec<u8> = (0..64).collect();
    program.write(on("one"), all(x), &contents);
    for buffer in [y, sums] {
        program.write(on("one"), all(buffer), &[0; N]);
    }
    program.launch("scale", on("one"), &[all(x), all(y)], |memory| {
        let given = memory[x].clone();
        memory[y].iter_mut().zip(&given).for_each(|(to, from)| *to = from.wrapping_mul(factor));
    });
    program.launch("add", on("one"), &[all(y), all(sums)], |memory| {
        let given = memory[y].clone();
        memory[sums].iter_mut().zip(&given).for_each(|(to, from)| *to = to.wrapping_add(*from));
    });
    program.read(on("one"), all(sums));
    program.end()
}

#[test]
fn hashes_suffice_to_name_the_wrong_launch() {
    let (document, text) = blamed_runs(|dir| chain(dir, 4), |dir| chain(dir, 3));
    let (kernel, found, task) = first(&document);
    assert_eq!((&kernel[..], &found[..], &task["arg_index"]), ("scale", "wrong_here", &1.into()), "{text}");
    assert!(text.contains("the hashes differ (rule: equal)"), "{text}");
    assert_eq!(label(&document, "add").0, "inherited", "{text}");
    assert_eq!(blamed_runs(|dir| chain(dir, 3), |dir| chain(dir, 3)).0["verdict"], "pass");
}

/// Two launches in two unordered queues. Both get the whole buffer and use one half each.
fn halves(folder: &Path, level: DumpLevel, added: u8) -> PathBuf {
    let mut program = Program::at(folder, level);
    let shared = program.buffer(&[0; N], MemorySpace::Host);
    let waits = &[program.write(on("one"), all(shared), &[0; N])];
    for (kernel, from, added) in [("low", 0, added), ("high", N / 2, 7)] {
        program.launch(kernel, Launch { waits, ..on(kernel) }, &[all(shared)], |memory| {
            memory[shared][from..from + N / 2].iter_mut().for_each(|value| *value += added);
        });
    }
    program.end()
}

#[test]
fn an_ambiguous_change_blames_no_task_by_hash() {
    let blamed = |level| blamed_runs(|dir| halves(dir, level, 3), |dir| halves(dir, level, 2));
    let (document, text) = blamed(DumpLevel::Hash);
    let (found, reason) = label(&document, "low");
    let words = "argument 0 after the task: nothing orders the task with task 0x3, which may have written there; \
     hashes do not show which bytes differ";
    assert!(found == "unknown" && reason.starts_with(words), "{found}: {reason}");
    assert_eq!(document["first_wrong"], json!([]), "{text}");
    // Contents show whose bytes differ.
    let (document, text) = blamed(DumpLevel::Full);
    assert_eq!(label(&document, "low").0, "wrong_here", "{text}");
}

/// A launch writes the first half of memory with arbitrary content.
fn part(folder: &Path, level: DumpLevel, garbage: u8, values: &[u8]) -> PathBuf {
    let mut program = Program::at(folder, level);
    let y = program.buffer(&[garbage; N], MemorySpace::Host);
    program.launch("part", on("one"), &[all(y)], |memory| memory[y][..N / 2].copy_from_slice(values));
    program.end()
}

#[test]
fn a_partly_written_uninitialized_buffer_is_not_judged_by_hash() {
    let right = [5; N / 2];
    let one_is_wrong = [&[6][..], &right[1..]].concat();
    let all_are_wrong = [6; N / 2];
    let blamed = |level, garbage, values: &[u8]| {
        blamed_runs(|dir| part(dir, level, garbage, values), |dir| part(dir, level, 200, &right)).0
    };
    let (found, reason) = label(&blamed(DumpLevel::Hash, 100, &right), "part");
    let words = "argument 0 after the task: hashes do not show which bytes differ";
    assert!(found == "unknown" && reason.contains(words), "{found}: {reason}");
    assert_eq!(label(&blamed(DumpLevel::Full, 100, &right), "part").0, "ok");
    assert_eq!(label(&blamed(DumpLevel::Full, 100, &one_is_wrong), "part").0, "wrong_here");
    // If all of it is wrong, it may have been computed from the garbage.
    assert_eq!(label(&blamed(DumpLevel::Full, 100, &all_are_wrong), "part").0, "fed");
    // If both runs had the same content before, the launch caused the difference.
    assert_eq!(label(&blamed(DumpLevel::Hash, 200, &all_are_wrong), "part").0, "wrong_here");
}
