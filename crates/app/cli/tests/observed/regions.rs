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
        map(&mut program, "norm", [x, y], &|value| value.wrapping_add(7 + off));
        if setup.is_fused {
            map(&mut program, "attention", [y, x], &|value| value.wrapping_mul(3).wrapping_add(1));
        } else {
            map(&mut program, "scores", [y, scores], &|value| value.wrapping_mul(3));
            map(&mut program, "softmax", [scores, shares], &|value| value.wrapping_add(1));
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
    }
}

#[test]
fn a_wrong_launch_outside_of_a_replaced_part_is_named() {
    let golden = Setup::default();
    let wrong = Setup { is_fused: true, wrong_norm: Some(1) };
    let (document, text) = blamed_runs(|dir| run(dir, wrong), |dir| run(dir, golden));
    let (kernel, label, _) = first(&document);
    assert_eq!((&kernel[..], &label[..]), ("norm", "wrong_here"), "{text}");
    assert_eq!(labels(&document, "norm")[..2], ["ok", "wrong_here"], "{text}");
}
