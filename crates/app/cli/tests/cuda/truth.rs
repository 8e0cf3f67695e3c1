//! Runs random plans, and compares what was captured before and after every command with an execution of the
//! plan on the host.

use std::{collections::HashMap, process::Output};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tensortap::DumpStage;
use tensortap::format::{ArgumentKind, Dump, Record};

use crate::{
    Bench,
    plan::{CaptureExpectation, DeviceCommand, Part, WORDS, World, text},
    succeeded,
};

/// A command made from random numbers.
fn command(choice: u32, [one, other, at, count]: [usize; 4], flag: bool) -> DeviceCommand {
    let part = |buffer: usize, at: usize, words: usize| {
        let at = at % WORDS[buffer];
        Part { buffer, at, words: words.min(WORDS[buffer] - at).max(1) }
    };
    let apart = if one == other { (one + 1) % WORDS.len() } else { other };
    let pair = |one, other| {
        let (x, y) = (part(one, at, count), part(other, at * 7 + count, count));
        let words = x.words.min(y.words);
        (Part { words, ..x }, Part { words, ..y })
    };
    // Kernels may receive two parts of one buffer, which may overlap.
    let (given_x, given_y) = pair(one, other);
    let (x, y) = pair(one, apart);
    let how = count;
    match choice {
        0..25 => DeviceCommand::Mix { x: given_x, y: given_y, k: choice * 77, how },
        25..35 => DeviceCommand::Put { y, k: choice, how },
        35..55 => DeviceCommand::Fold { x: given_x, y: given_y, k: choice * 31, how },
        55..65 => DeviceCommand::Write { to: y, seed: choice, waits: flag },
        65..75 => DeviceCommand::Read { from: x, waits: flag },
        75..85 => DeviceCommand::Copy { to: y, from: x, any: flag },
        85..93 => DeviceCommand::Fill { to: y, word: choice * 0x0101_0101 },
        _ => DeviceCommand::Box { to: apart, from: one, width: 1 + at % 60, rows: 1 + count % 2 },
    }
}

pub fn commands(count: usize, streams: usize) -> impl Strategy<Value = Vec<(usize, DeviceCommand)>> {
    let numbers = [0..WORDS.len(), 0..WORDS.len(), 0..3000_usize, 1..3000_usize];
    let one = (0..=streams, 0..100_u32, numbers, any::<bool>());
    prop::collection::vec(
        one.prop_map(|(stream, choice, numbers, flag)| (stream, command(choice, numbers, flag))),
        count,
    )
}

/// Where content is hashed.
#[derive(Clone, Copy, PartialEq)]
enum HashPlace {
    Device,
    /// On a device that lets a launch overlap with its predecessor.
    Overlapping,
    Host,
}

/// Records a plan and compares everything.
fn check(bench: &Bench, flags: &[u32], commands: &[(usize, DeviceCommand)], run: &str, place: HashPlace) {
    let plan = text(flags, commands);
    let mut world = World::new();
    let expected: Vec<Vec<CaptureExpectation>> = commands.iter().map(|(_, what)| world.run(*what)).collect();
    let unrecorded = succeeded(&bench.program(&plan, None).output().unwrap());
    assert_eq!(unrecorded, world.printed, "the output without recording");
    // A device computes no statistics of bytes of unknown type. Here all types are unknown.
    let findings = |dump: &Dump, expected: &[Vec<CaptureExpectation>]| {
        compare_findings(dump, expected, place == HashPlace::Host)
    };
    for (level, compare) in
        [("full", &compare as &dyn Fn(&Dump, &[Vec<CaptureExpectation>])), ("hash", &findings)]
    {
        let (run, options) = (format!("{run}-{level}"), format!("--dump-tensor={level}"));
        let mut command = bench.program(&plan, Some((&run, &options)));
        match place {
            HashPlace::Device => _ = command.env("FAKE_ARCHITECTURE", "80"),
            HashPlace::Overlapping => _ = command.env("FAKE_COUNTS_EARLY", "1"),
            HashPlace::Host => _ = command.env("FAKE_LOADS_NOTHING", "1"),
        }
        let output = command.output().unwrap();
        let recorded = succeeded(&output);
        assert_eq!(recorded, world.printed, "and when it is recorded");
        if place == HashPlace::Overlapping {
            // If payloads are recorded, the decisions about new content must be made in order.
            assert_eq!(early_launches(&output) > 0, level == "hash", "{run}");
        }
        compare(&bench.dump(&run), &expected);
    }
}

/// Number of the backend's launches that overlapped with their predecessors, as the fake driver reports.
pub fn early_launches(output: &Output) -> u32 {
    let said = String::from_utf8_lossy(&output.stderr);
    let count =
        said.lines().find_map(|line| line.strip_prefix("fake driver: ")?.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no word of the driver in: {said}"))
}

/// The position of each task among the commands.
fn places(dump: &Dump, expected: &[Vec<CaptureExpectation>]) -> HashMap<u64, usize> {
    let tasks = dump.tasks().unwrap();
    let all = tasks.iter().filter(|task| task.facts().operation.name() != "barrier");
    let mut ids: Vec<u64> = all.map(|task| task.key().task_id).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), expected.len(), "every command must have a task");
    assert!(tasks.iter().all(|task| task.facts().completed_ns.is_some()), "all tasks must have ended");
    ids.iter().enumerate().map(|(place, &id)| (id, place)).collect()
}

/// Compares the hash and the statistics of every range of every task with those of the expected words.
fn compare_findings(dump: &Dump, expected: &[Vec<CaptureExpectation>], has_statistics: bool) {
    let places = places(dump, expected);
    let mut found: HashMap<(usize, u16, DumpStage), Record> = HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        let is_value = record.kind == ArgumentKind::Scalar || record.shape() == [32];
        let Some(&place) = places.get(&record.task_id).filter(|_| !is_value) else { continue };
        found.insert((place, record.arg_index, record.stage), record);
    }
    for (place, seen) in expected.iter().enumerate() {
        for CaptureExpectation { arg, before, after } in seen {
            for (stage, words) in [(DumpStage::BeforeDispatch, before), (DumpStage::AfterCompletion, after)] {
                let record = found.remove(&(place, *arg, stage));
                let Some(words) = words else {
                    assert!(record.is_none(), "command {place}, argument {arg}, {stage:?}");
                    continue;
                };
                let what = || format!("command {place}, argument {arg}, {stage:?}");
                let record = record.unwrap_or_else(|| panic!("{} is not there", what()));
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                assert_eq!(record.hash, Some(tensortap::values::content_hash(&bytes)), "{}", what());
                // The host gathers and measures boxes in any case.
                assert!(
                    record.stats.is_some() == (has_statistics || record.shape().len() == 3),
                    "{}",
                    what()
                );
                let Some(stats) = record.stats else { continue };
                let mean = bytes.iter().map(|&byte| f64::from(byte)).sum::<f64>() / bytes.len() as f64;
                let squares = bytes.iter().map(|&byte| (f64::from(byte) - mean).powi(2)).sum::<f64>();
                let (min, max) = (bytes.iter().min().copied().unwrap(), bytes.iter().max().copied().unwrap());
                let zeros = bytes.iter().filter(|byte| **byte == 0).count() as u64;
                assert_eq!((stats.min, stats.max), (min.into(), max.into()), "{}", what());
                assert_eq!(
                    (stats.zeros, stats.nan, stats.inf, stats.numel),
                    (zeros, 0, 0, bytes.len() as u64)
                );
                assert!((stats.mean - mean).abs() < 1e-9, "{}: {} {mean}", what(), stats.mean);
                assert!((stats.std - (squares / bytes.len() as f64).sqrt()).abs() < 1e-9, "{}", what());
            }
        }
    }
    assert!(found.is_empty(), "captured but not expected: {:?}", found.keys().next());
}

/// Compares every range of every task, before and after it.
fn compare(dump: &Dump, expected: &[Vec<CaptureExpectation>]) {
    let places = places(dump, expected);
    let mut found: HashMap<(usize, u16, DumpStage), Vec<u8>> = HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        // The structure that `fold` receives is a value.
        let is_value = record.kind == ArgumentKind::Scalar || record.shape() == [32];
        let Some(&place) = places.get(&record.task_id).filter(|_| !is_value) else { continue };
        let content = dump.payload(&record).unwrap().to_vec();
        found.insert((place, record.arg_index, record.stage), content);
    }
    for (place, seen) in expected.iter().enumerate() {
        for CaptureExpectation { arg, before, after } in seen {
            for (stage, words) in [(DumpStage::BeforeDispatch, before), (DumpStage::AfterCompletion, after)] {
                let bytes: Option<Vec<u8>> =
                    words.as_ref().map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect());
                let captured = found.remove(&(place, *arg, stage));
                let lengths = (captured.as_ref().map(Vec::len), bytes.as_ref().map(Vec::len));
                assert!(captured == bytes, "command {place}, argument {arg}, {stage:?}: {lengths:?} bytes");
            }
        }
    }
    assert!(found.is_empty(), "captured but not expected: {:?}", found.keys().next());
}

#[test]
fn every_range_of_every_command_matches_an_execution_on_the_host() {
    let bench = Bench::new();
    // Only the legacy stream; with one that is ordered with it; with one that is not; with several of both.
    let venues: [&[u32]; 4] = [&[], &[0], &[1], &[0, 1, 0, 1]];
    let mut runner = TestRunner::deterministic();
    for (number, flags) in venues.into_iter().enumerate() {
        let chosen = commands(70, flags.len()).new_tree(&mut runner).unwrap().current();
        let places = [
            ("device", HashPlace::Device),
            ("overlapping", HashPlace::Overlapping),
            ("host", HashPlace::Host),
        ];
        for (name, place) in places {
            check(&bench, flags, &chosen, &format!("{name}{number}"), place);
        }
    }
}
