//! Launches that receive something wrong and leave it alone, or overwrite it: the cause is found where the error first shows.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Program, Range, on};

const N: usize = 64;
const HALF: usize = N / 2;

/// The kernel and the label of each wrong task of a document.
fn labels(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tasks = document["tasks"].as_array().unwrap().iter();
    tasks.map(|task| (text(&task["kernels"][0]), text(&task["label"]))).collect()
}

fn label(document: &Value, kernel: &str) -> String {
    labels(document).into_iter().find(|(of, _)| of == kernel).unwrap().1
}

/// The host writes `x`, or `x` holds garbage. `half` writes the first half of `x` and gets all of it; `double` reads the rest.
fn half_written(folder: &Path, (is_written, garbage): (bool, u8)) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y] = [garbage, 0].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    program.write(on("one"), Range(y, 0, N), &[1; N]);
    if is_written {
        program.write(on("one"), Range(x, 0, N), &[7; N]);
    }
    program.launch("half", on("one"), &[Range(x, 0, N)], |memory| memory[x][..HALF].fill(5));
    program.launch("double", on("one"), &[Range(x, 0, N), Range(y, 0, N)], |memory| {
        (0..N).for_each(|at| memory[y][at] = memory[x][at].wrapping_mul(2));
    });
    program.end()
}

#[test]
fn the_first_launch_that_shows_an_error_is_fed_if_the_one_before_only_passed_it_on() {
    let (document, text) =
        blamed_runs(|dir| half_written(dir, (false, 90)), |dir| half_written(dir, (true, 90)));
    assert_eq!(label(&document, "half"), "masked", "{text}");
    let (kernel, label, _) = first(&document);
    assert_eq!((kernel.as_str(), label.as_str()), ("double", "fed"), "{text}");
    let text = common::unwrapped(&text);
    assert!(text.contains("uninitialized memory, which task 0x2 of the golden writes before"), "{text}");
}

/// `both` writes `x` through two arguments that overlap, `fix` writes its first bytes again, `double` reads all of it.
fn fixed(folder: &Path, is_fixed: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y] = [0, 0].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    program.write(on("one"), Range(x, 0, N), &[1; N]);
    program.write(on("one"), Range(y, 0, N), &[1; N]);
    program.launch("both", on("one"), &[Range(x, 0, N), Range(x, 0, HALF)], |memory| memory[x].fill(5));
    if is_fixed {
        program.launch("fix", on("one"), &[Range(x, 0, 8)], |memory| memory[x][..8].fill(6));
    }
    program.launch("double", on("one"), &[Range(x, 0, N), Range(y, 0, N)], |memory| {
        (0..N).for_each(|at| memory[y][at] = memory[x][at].wrapping_mul(2));
    });
    program.end()
}

#[test]
fn a_missing_launch_is_found_although_overlapping_arguments_hold_other_bytes() {
    let (document, text) = blamed_runs(|dir| fixed(dir, false), |dir| fixed(dir, true));
    let (kernel, label, _) = first(&document);
    assert_eq!((kernel.as_str(), label.as_str()), ("double", "fed"), "{text}");
}

/// A buffer whose allocation is not recorded holds garbage. The host writes its beginning, `scale` all the rest.
fn overwritten(folder: &Path, (garbage, last): (u8, u8)) -> PathBuf {
    let mut program = Program::new(folder);
    let x = program.unrecorded_buffer(&[garbage; N], MemorySpace::Host);
    program.write(on("one"), Range(x, 0, 8), &[7; 8]);
    program.launch("scale", on("one"), &[Range(x, 0, N)], |memory| {
        memory[x][8..].fill(5);
        memory[x][N - 1] = last;
    });
    program.end()
}

#[test]
fn garbage_that_a_launch_overwrites_next_to_written_elements_is_no_input() {
    let (document, text) = blamed_runs(|dir| overwritten(dir, (90, 5)), |dir| overwritten(dir, (91, 5)));
    assert_eq!((label(&document, "scale").as_str(), &document["verdict"]), ("ok", &"pass".into()), "{text}");
    // One of many overwritten elements is wrong: a kernel that read the garbage would leave more of them wrong.
    let (document, text) = blamed_runs(|dir| overwritten(dir, (90, 6)), |dir| overwritten(dir, (91, 5)));
    assert_eq!(label(&document, "scale"), "wrong_here", "{text}");
}
