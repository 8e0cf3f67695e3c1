//! Several goldens: what differs between right runs is no evidence.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tensortap::abi::{DumpLevel, MemorySpace};

use crate::common;
use crate::document;
use crate::program::{Program, Range, on};

const N: usize = 64;

/// A run of a program whose first 8 elements are random, as of a random number generator.
#[derive(Clone, Copy)]
struct RandomRun {
    level: DumpLevel,
    /// The random value.
    random: u8,
    /// The element that is wrong.
    wrong: Option<usize>,
}

fn run(folder: &Path, made: RandomRun) -> PathBuf {
    let mut program = Program::at(folder, made.level);
    let [x, y] = [0; 2].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer| Range(buffer, 0, N);
    [x, y].iter().for_each(|&buffer| _ = program.write(on("one"), all(buffer), &[1; N]));
    program.launch("noise", on("one"), &[all(x)], |memory| {
        memory[x][..8].fill(made.random);
        memory[x][8..].fill(5);
        made.wrong.into_iter().for_each(|at| memory[x][at] ^= 0x40);
    });
    program.launch("use", on("one"), &[all(x), all(y)], |memory| {
        let given = memory[x].clone();
        memory[y].iter_mut().zip(&given).for_each(|(to, from)| *to = from + 1);
    });
    program.end()
}

/// The answers with one golden and with two.
fn answers(made: RandomRun) -> [Value; 2] {
    let dir = tempfile::tempdir().unwrap();
    let right = |random| RandomRun { random, wrong: None, ..made };
    let dumps = [("wrong", made), ("right", right(20)), ("other", right(30))]
        .map(|(name, made)| run(&dir.path().join(name), made).to_str().unwrap().to_owned());
    let one = ["blame", &dumps[0], "--golden", &dumps[1]];
    let two = [&one[..], &["--golden", &dumps[2]]].concat();
    [document(dir.path(), &one), document(dir.path(), &two)]
}

fn labels(document: &Value) -> Vec<&str> {
    let tasks = document["tasks"].as_array().unwrap();
    tasks.iter().filter_map(|task| task["label"].as_str()).filter(|label| *label != "ok").collect()
}

#[test]
fn what_differs_between_right_runs_is_no_evidence() {
    for level in [DumpLevel::Full, DumpLevel::Hash] {
        let [one, two] = answers(RandomRun { level, random: 10, wrong: None });
        assert_eq!((&one["verdict"], labels(&one)[0]), (&"fail".into(), "wrong_here"), "{one:#}");
        assert_eq!((&two["verdict"], labels(&two).len()), (&"pass".into(), 0), "{two:#}");
    }
}

#[test]
fn other_elements_are_still_judged() {
    let [_, two] = answers(RandomRun { level: DumpLevel::Full, random: 10, wrong: Some(40) });
    assert_eq!((&two["verdict"], labels(&two)), (&"fail".into(), vec!["wrong_here", "inherited"]), "{two:#}");
    let [_, two] = answers(RandomRun { level: DumpLevel::Full, random: 10, wrong: Some(3) });
    assert_eq!(two["verdict"], "pass", "{two:#}");
}

#[test]
fn only_dumps_can_be_given_as_several_goldens() {
    let dir = tempfile::tempdir().unwrap();
    let right = RandomRun { level: DumpLevel::Full, random: 1, wrong: None };
    let dump = run(&dir.path().join("dump"), right);
    let dump = dump.to_str().unwrap();
    let array = dir.path().join("y.npy");
    std::fs::write(&array, b"\x93NUMPY\x01\x00\x46\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }            \n\x07")
        .unwrap();
    let goldens = ["--golden", dump, "--golden", array.to_str().unwrap()];
    let output = Command::new(common::executable()).args(["blame", dump]).args(goldens).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && message.contains("y.npy contains arrays; only dumps"),
        "{message}"
    );
}
