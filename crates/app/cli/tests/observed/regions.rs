//! Two programs with different structure: one computes a part with other launches than the other.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::program::{Program, Range, on};

const N: usize = 64;
const LAYERS: usize = 3;

/// How attention is computed, and the layer whose `norm` is wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Setup {
    /// One launch instead of three.
    is_fused: bool,
    wrong_norm: Option<usize>,
    /// The layer whose attention is wrong.
    wrong_attention: Option<usize>,
}

/// In each layer: norm, attention (x' = 3 * x + 1), and two equal launches of `add`.
fn run(folder: &Path, setup: Setup) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y, scores, shares] = [1, 2, 3, 4].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    for (buffer, content) in [(x, 1_u8), (y, 2), (scores, 3), (shares, 4)] {
        program.write(on("one"), all(buffer), &[content; N]);
    }
    let map = |program: &mut Program, kernel: &str, [from, to]: [usize; 2], f: &dyn Fn(u8) -> u8| {
        program.launch(kernel, on("one"), &[all(from), all(to)], |memory| {
            (0..N).for_each(|at| memory[to][at] = f(memory[from][at]));
        });
    };
    for layer in 0..LAYERS {
        let off = u8::from(setup.wrong_norm == Some(layer));
        let wrong = u8::from(setup.wrong_attention == Some(layer));
        map(&mut program, "norm", [x, y], &|value| value.wrapping_add(7 + off));
        if setup.is_fused {
            map(&mut program, "attention", [y, x], &|value| value.wrapping_mul(3).wrapping_add(1 + wrong));
        } else {
            map(&mut program, "scores", [y, scores], &|value| value.wrapping_mul(3));
            map(&mut program, "softmax", [scores, shares], &|value| value.wrapping_add(1 + wrong));
            map(&mut program, "values", [shares, x], &|value| value);
        }
        map(&mut program, "add", [x, x], &|value| value.wrapping_add(5));
        map(&mut program, "add", [x, x], &|value| value.wrapping_add(5));
    }
    program.read(on("one"), all(x));
    program.end()
}

/// Labels of the tasks of a kernel.
fn labels<'d>(document: &'d Value, kernel: &str) -> Vec<&'d str> {
    let tasks = document["tasks"].as_array().unwrap().iter();
    let of_kernel = tasks.filter(|task| task["kernels"][0] == kernel);
    of_kernel.map(|task| task["label"].as_str().unwrap()).collect()
}

#[test]
fn tasks_outside_of_a_replaced_part_are_compared() {
    for is_fused in [true, false] {
        let [setup, other] = [is_fused, !is_fused].map(|is_fused| Setup { is_fused, ..Setup::default() });
        let (document, text) = blamed_runs(|dir| run(dir, setup), |dir| run(dir, other));
        assert_eq!(labels(&document, "norm"), ["ok"; LAYERS], "{text}");
        assert_eq!(labels(&document, "add"), ["ok"; 2 * LAYERS], "{text}");
        let replaced = if is_fused { "attention" } else { "softmax" };
        assert_eq!(labels(&document, replaced), ["unknown"; LAYERS], "{text}");
        assert_eq!(document["first_wrong"], serde_json::json!([]), "{text}");
        assert_eq!(document["verdict"], "pass", "{text}");
    }
}

#[test]
fn a_wrong_launch_outside_of_a_replaced_part_is_named() {
    let golden = Setup::default();
    let wrong = Setup { is_fused: true, wrong_norm: Some(1), ..Setup::default() };
    let (document, text) = blamed_runs(|dir| run(dir, wrong), |dir| run(dir, golden));
    let (kernel, label, _) = first(&document);
    assert_eq!((&kernel[..], &label[..]), ("norm", "wrong_here"), "{text}");
    assert_eq!(labels(&document, "norm")[..2], ["ok", "wrong_here"], "{text}");
}

/// Checks that the cause is the replaced part: either one of its tasks, or the first task after it, which was fed what the
/// part left. The launches of the part differ between the runs.
fn assert_part_is_the_cause(document: &Value, text: &str, part: &[&str]) {
    let named: Vec<&Value> = document["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|task| ["wrong_here", "raced", "fed"].contains(&task["label"].as_str().unwrap()))
        .collect();
    assert!(named.len() < 2, "{text}");
    for task in named {
        let reason = task["reason"].as_str().unwrap_or_default();
        let is_fed =
            task["label"] == "fed" && part.iter().any(|kernel| reason.contains(&format!("({kernel})")));
        assert!(part.contains(&task["kernels"][0].as_str().unwrap()) || is_fed, "{text}");
    }
    let headline = document["headline"].as_str().unwrap();
    let says_part = part.iter().any(|kernel| headline.contains(&format!("({kernel})")));
    assert!(says_part || headline.contains("unknown") || headline.contains("cannot be judged"), "{text}");
}

#[test]
fn a_wrong_launch_inside_of_a_replaced_part_accuses_no_task_outside_of_it() {
    for is_fused in [true, false] {
        for layer in 0..LAYERS {
            let wrong = Setup { is_fused, wrong_attention: Some(layer), ..Setup::default() };
            let golden = Setup { is_fused: !is_fused, ..Setup::default() };
            let (document, text) = blamed_runs(|dir| run(dir, wrong), |dir| run(dir, golden));
            assert_eq!(document["verdict"], "fail", "{text}");
            assert_part_is_the_cause(&document, &text, &["attention", "scores", "softmax", "values"]);
        }
    }
}

/// A program with SiLU: two launches, `sigmoid` and `mul`. With ReLU, one launch in their place. Other launches of `mul` follow.
fn activation(folder: &Path, is_relu: bool, wrong_up: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, h, s, y, z] = [1, 2, 3, 4, 5].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    let content: Vec<u8> = (0..N).map(|at| u8::try_from(at * 37 % 251).unwrap()).collect();
    program.write(on("one"), all(x), &content);
    for buffer in [h, s, y, z] {
        program.write(on("one"), all(buffer), &[0; N]);
    }
    for _ in 0..LAYERS {
        let off = u8::from(wrong_up);
        program.launch("up", on("one"), &[all(x), all(h)], |memory| {
            (0..N).for_each(|at| memory[h][at] = memory[x][at].wrapping_mul(5).wrapping_add(off));
        });
        if is_relu {
            program.launch("relu", on("one"), &[all(h), all(y)], |memory| {
                (0..N).for_each(|at| memory[y][at] = if memory[h][at] < 128 { memory[h][at] } else { 0 });
            });
        } else {
            program.launch("sigmoid", on("one"), &[all(h), all(s)], |memory| {
                (0..N).for_each(|at| memory[s][at] = memory[h][at].wrapping_mul(3) >> 2);
            });
            program.launch("mul", on("one"), &[all(h), all(s), all(y)], |memory| {
                (0..N).for_each(|at| memory[y][at] = memory[h][at].wrapping_mul(memory[s][at]));
            });
        }
        program.launch("mul", on("one"), &[all(y), all(x), all(z)], |memory| {
            (0..N).for_each(|at| memory[z][at] = memory[y][at].wrapping_mul(memory[x][at]));
        });
        program.launch("down", on("one"), &[all(z), all(x)], |memory| {
            (0..N).for_each(|at| memory[x][at] = memory[z][at].wrapping_add(9));
        });
    }
    program.read(on("one"), all(x));
    program.end()
}

#[test]
fn a_replaced_activation_is_the_cause_and_no_other_task_is_named() {
    for is_relu in [true, false] {
        let (document, text) =
            blamed_runs(|dir| activation(dir, is_relu, false), |dir| activation(dir, !is_relu, false));
        assert_eq!(document["verdict"], "fail", "{text}");
        assert_part_is_the_cause(&document, &text, &["relu", "sigmoid", "mul"]);
        assert!(!labels(&document, "mul").contains(&"wrong_here"), "{text}");
        // An error before the replaced part is named as always.
        let (document, text) =
            blamed_runs(|dir| activation(dir, is_relu, true), |dir| activation(dir, !is_relu, false));
        let wrong = document["tasks"].as_array().unwrap().iter().find(|task| task["label"] == "wrong_here");
        assert_eq!(wrong.unwrap()["kernels"][0], "up", "{text}");
        assert!(document["headline"].as_str().unwrap().contains("(up) is wrong here"), "{text}");
    }
}
