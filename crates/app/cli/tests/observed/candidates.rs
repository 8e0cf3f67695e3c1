//! Launches that receive their memory through a struct. Some words of the struct are stale pointers, and its padding holds
//! whatever was there before.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Program, Range, on};

const N: usize = 64;
/// Position of the input's pointer in the struct.
const INPUT: usize = 16;
/// Position of the output's pointer in the struct.
const OUTPUT: usize = 24;

/// What a stale pointer refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stale {
    /// Memory that no task uses.
    Unused,
    /// The output of the launch.
    Output,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The content of padding and of memory that no task uses.
    garbage: u8,
    /// The stale pointer, with its position in the struct.
    stale: Option<(usize, Stale)>,
    /// The second launch has a wrong kernel.
    is_wrong: bool,
    /// An additional launch changes the input of the second launch.
    has_extra: bool,
}

/// Three launches of one kernel: b = 2a, y = 2x, z = 2y.
fn run(folder: &Path, run: Run) -> PathBuf {
    let mut program = Program::new(folder);
    let [a, b, x, y, z] = [0; 5].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let unused = program.buffer(&[run.garbage; N], MemorySpace::Host);
    let all = |buffer: usize| Range(buffer, 0, N);
    program.write(on("one"), all(a), &[3; N]);
    program.write(on("one"), all(x), &(1..).take(N).collect::<Vec<u8>>());
    for (from, to) in [(a, b), (x, y), (y, z)] {
        if from == x && run.has_extra {
            program.launch("shift", on("one"), &[all(x)], |memory| memory[x][7] += 1);
        }
        let mut words = vec![(INPUT, all(from)), (OUTPUT, all(to))];
        if let Some((byte, stale)) = run.stale {
            words.push((byte, all(if stale == Stale::Unused { unused } else { to })));
            words.sort_by_key(|(byte, _)| *byte);
        }
        let mut value = vec![run.garbage; 48];
        for &(byte, Range(buffer, ..)) in &words {
            let address = program.memory[buffer].as_ptr().addr() as u64;
            value[byte..byte + 8].copy_from_slice(&address.to_le_bytes());
        }
        program.launch_with_value("twice", on("one"), (&value, &words), |memory| {
            let input = memory[from].clone();
            (0..N).for_each(|at| memory[to][at] = input[at].wrapping_mul(2));
            memory[to][5] += u8::from(run.is_wrong && from == x);
        });
    }
    program.read(on("one"), all(z));
    program.end()
}

/// Pairs of stale pointers of two runs.
const STALE: [[Option<(usize, Stale)>; 2]; 6] = [
    [None, None],
    [Some((32, Stale::Unused)), None],
    // The words before the real ones shift the indices of the arguments.
    [Some((8, Stale::Unused)), None],
    [None, Some((8, Stale::Output))],
    [Some((32, Stale::Unused)), Some((32, Stale::Output))],
    [Some((32, Stale::Unused)), Some((32, Stale::Unused))],
];

fn compared(stale: [Option<(usize, Stale)>; 2], fault: Run) -> (Value, String) {
    let [ours, golden] = stale;
    let (document, text) = blamed_runs(
        |dir| run(dir, Run { garbage: 40, stale: ours, ..fault }),
        |dir| run(dir, Run { garbage: 50, stale: golden, ..Run::default() }),
    );
    (document, common::unwrapped(&text))
}

/// Whether both structs point to memory at one position, and its content differs. Then the kernel may have read it.
fn may_be_input(stale: [Option<(usize, Stale)>; 2]) -> bool {
    stale.iter().all(Option::is_some)
}

#[test]
fn right_runs_with_other_stale_pointers_and_padding_pass() {
    for stale in STALE.into_iter().flat_map(|[one, other]| [[one, other], [other, one]]) {
        let (document, text) = compared(stale, Run::default());
        assert_eq!(document["verdict"], "pass", "{stale:?}: {text}");
        assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "{stale:?}: {text}");
        assert!(document["unmatched"]["dump"].as_array().is_none_or(Vec::is_empty), "{stale:?}: {text}");
        assert!(!text.contains("passed by value, differs"), "{stale:?}: {text}");
    }
}

#[test]
fn a_wrong_kernel_is_named_unless_a_stale_pointer_may_be_its_input() {
    for stale in STALE.into_iter().flat_map(|[one, other]| [[one, other], [other, one]]) {
        let (document, text) = compared(stale, Run { is_wrong: true, ..Run::default() });
        assert_eq!(document["verdict"], "fail", "{stale:?}: {text}");
        match may_be_input(stale) {
            false => assert_eq!(first(&document).1, "wrong_here", "{stale:?}: {text}"),
            true => assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "{stale:?}: {text}"),
        }
        assert_eq!(document["tasks"][0]["label"], "ok", "{stale:?}: {text}");
    }
}

#[test]
fn an_additional_launch_before_an_input_in_a_struct_is_the_cause() {
    for stale in STALE.into_iter().filter(|&stale| !may_be_input(stale)) {
        let (document, text) = compared(stale, Run { has_extra: true, ..Run::default() });
        assert_eq!(first(&document).1, "fed", "{stale:?}: {text}");
        assert!(text.contains("(shift) before it is not in the golden"), "{stale:?}: {text}");
    }
}
