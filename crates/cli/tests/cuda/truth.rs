//! What is captured before and behind every command is what an execution of its own finds there.

use std::{collections::HashMap, process::Output};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tensortap::DumpStage;
use tensortap::format::{ArgumentKind, Dump, Record};

use crate::{
    Bench,
    plan::{Do, Part, Seen, WORDS, World, text},
    succeeded,
};

/// A command out of numbers.
fn command(choice: u32, [one, other, at, count]: [usize; 4], flag: bool) -> Do {
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
    // Kernels may be given two parts of one buffer, and of those which overlap.
    let (given_x, given_y) = pair(one, other);
    let (x, y) = pair(one, apart);
    let how = count;
    match choice {
        0..25 => Do::Mix { x: given_x, y: given_y, k: choice * 77, how },
        25..35 => Do::Put { y, k: choice, how },
        35..55 => Do::Fold { x: given_x, y: given_y, k: choice * 31, how },
        55..65 => Do::Write { to: y, seed: choice, waits: flag },
        65..75 => Do::Read { from: x, waits: flag },
        75..85 => Do::Copy { to: y, from: x, any: flag },
        85..93 => Do::Fill { to: y, word: choice * 0x0101_0101 },
        _ => Do::Box { to: apart, from: one, width: 1 + at % 60, rows: 1 + count % 2 },
    }
}

pub fn commands(count: usize, streams: usize) -> impl Strategy<Value = Vec<(usize, Do)>> {
    let numbers = [0..WORDS.len(), 0..WORDS.len(), 0..3000_usize, 1..3000_usize];
    let one = (0..=streams, 0..100_u32, numbers, any::<bool>());
    prop::collection::vec(
        one.prop_map(|(stream, choice, numbers, flag)| (stream, command(choice, numbers, flag))),
        count,
    )
}

/// Where content is hashed.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Device,
    /// On a device that lets a launch begin beside the one before it.
    Overlapping,
    Host,
}

/// Records a plan and compares everything.
fn check(bench: &Bench, flags: &[u32], commands: &[(usize, Do)], run: &str, place: Where) {
    let plan = text(flags, commands);
    let mut world = World::new();
    let expected: Vec<Vec<Seen>> = commands.iter().map(|(_, what)| world.run(*what)).collect();
    let unrecorded = succeeded(&bench.program(&plan, None).output().unwrap());
    assert_eq!(unrecorded, world.printed, "what the program finds when nobody records");
    // A device takes no statistics of bytes whose type is not known; here none is.
    let findings =
        |dump: &Dump, expected: &[Vec<Seen>]| compare_findings(dump, expected, place == Where::Host);
    for (level, compare) in [("full", &compare as &dyn Fn(&Dump, &[Vec<Seen>])), ("hash", &findings)] {
        let (run, options) = (format!("{run}-{level}"), format!("--dump-tensor={level}"));
        let mut command = bench.program(&plan, Some((&run, &options)));
        match place {
            Where::Device => _ = command.env("FAKE_ARCHITECTURE", "80"),
            Where::Overlapping => _ = command.env("FAKE_COUNTS_EARLY", "1"),
            Where::Host => _ = command.env("FAKE_LOADS_NOTHING", "1"),
        }
        let output = command.output().unwrap();
        let recorded = succeeded(&output);
        assert_eq!(recorded, world.printed, "and when it is recorded");
        if place == Where::Overlapping {
            // Where content is kept, what is new has to be decided first.
            assert_eq!(early_launches(&output) > 0, level == "hash", "{run}");
        }
        compare(&bench.dump(&run), &expected);
    }
}

/// Launches of ours that began beside the one before them, as the driver says.
pub fn early_launches(output: &Output) -> u32 {
    let said = String::from_utf8_lossy(&output.stderr);
    let count =
        said.lines().find_map(|line| line.strip_prefix("fake driver: ")?.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no word of the driver in: {said}"))
}

/// The place of each task among the commands.
fn places(dump: &Dump, expected: &[Vec<Seen>]) -> HashMap<u64, usize> {
    let tasks = dump.tasks().unwrap();
    let all = tasks.iter().filter(|task| task.facts().operation.name() != "barrier");
    let mut ids: Vec<u64> = all.map(|task| task.key().task_id).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), expected.len(), "a task for every command");
    assert!(tasks.iter().all(|task| task.facts().completed_ns.is_some()), "all of them have ended");
    ids.iter().enumerate().map(|(place, &id)| (id, place)).collect()
}

/// Hash and statistics of every range of every task, before and behind it, computed here from the words.
fn compare_findings(dump: &Dump, expected: &[Vec<Seen>], has_statistics: bool) {
    let places = places(dump, expected);
    let mut found: HashMap<(usize, u16, DumpStage), Record> = HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        let is_value = record.kind == ArgumentKind::Scalar || record.shape() == [32];
        let Some(&place) = places.get(&record.task_id).filter(|_| !is_value) else { continue };
        found.insert((place, record.arg_index, record.stage), record);
    }
    for (place, seen) in expected.iter().enumerate() {
        for Seen { arg, before, after } in seen {
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
                // Boxes are gathered, and so measured, by the host in any case.
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
    assert!(found.is_empty(), "nothing else is captured: {:?}", found.keys().next());
}

/// Every range of every task, before and behind it.
fn compare(dump: &Dump, expected: &[Vec<Seen>]) {
    let places = places(dump, expected);
    let mut found: HashMap<(usize, u16, DumpStage), Vec<u8>> = HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        // The structure that `fold` is given is a value.
        let is_value = record.kind == ArgumentKind::Scalar || record.shape() == [32];
        let Some(&place) = places.get(&record.task_id).filter(|_| !is_value) else { continue };
        let content = dump.payload(&record).unwrap().to_vec();
        found.insert((place, record.arg_index, record.stage), content);
    }
    for (place, seen) in expected.iter().enumerate() {
        for Seen { arg, before, after } in seen {
            for (stage, words) in [(DumpStage::BeforeDispatch, before), (DumpStage::AfterCompletion, after)] {
                let bytes: Option<Vec<u8>> =
                    words.as_ref().map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect());
                let captured = found.remove(&(place, *arg, stage));
                let lengths = (captured.as_ref().map(Vec::len), bytes.as_ref().map(Vec::len));
                assert!(captured == bytes, "command {place}, argument {arg}, {stage:?}: {lengths:?} bytes");
            }
        }
    }
    assert!(found.is_empty(), "nothing else is captured: {:?}", found.keys().next());
}

#[test]
fn every_range_of_every_command_is_what_an_execution_of_its_own_finds() {
    let bench = Bench::new();
    // The legacy stream alone; beside it one that waits for it; one that does not; several of both.
    let venues: [&[u32]; 4] = [&[], &[0], &[1], &[0, 1, 0, 1]];
    let mut runner = TestRunner::deterministic();
    for (number, flags) in venues.into_iter().enumerate() {
        let chosen = commands(70, flags.len()).new_tree(&mut runner).unwrap().current();
        let places = [("device", Where::Device), ("overlapping", Where::Overlapping), ("host", Where::Host)];
        for (name, place) in places {
            check(&bench, flags, &chosen, &format!("{name}{number}"), place);
        }
    }
}
