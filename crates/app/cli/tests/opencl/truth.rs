//! Runs random plans, and compares what was captured before and after every command with an execution of the
//! plan on the host.

use std::collections::HashMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tensortap::format::{ArgumentKind, Dump, Record};
use tensortap::{DType, DumpStage};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::{
    Bench, WAYS,
    plan::{Buffer, DeviceCommand, Launch, Plan, Step, WordRange},
    succeeded,
};

/// Number of words of the larger buffers: more than one leaf of a hash.
const WORDS: usize = 3000;

/// Steps of a plan, without waits.
fn steps(
    count: usize,
    queues: usize,
    buffers: usize,
) -> impl Strategy<Value = Vec<(usize, u32, [usize; 4], bool)>> {
    let numbers = [0..buffers, 0..buffers, 0..WORDS, 1..WORDS];
    prop::collection::vec((0..queues, 0..100_u32, numbers, any::<bool>()), count)
}

/// A plan in which steps that conflict are ordered by their queue or by an event.
fn make(queues: &[bool], steps: &[(usize, u32, [usize; 4], bool)]) -> Plan {
    let part = |of, at, words| Buffer::Part { of, at, words };
    let buffers = vec![
        Buffer::Own { words: WORDS, seed: 1 },
        Buffer::Own { words: WORDS, seed: 2 },
        Buffer::Own { words: 64, seed: 3 },
        part(0, 1024, 512),
        part(0, 2048, 256),
    ];
    let mut plan = Plan { queues: queues.to_vec(), buffers, steps: Vec::new() };
    for (queue, choice, numbers, flag) in steps {
        let what = choose(&plan, *choice, *numbers, *flag);
        let waits = ordering(&plan, *queue, &what);
        let callback = *choice % 7 == 0
            && !matches!(what, DeviceCommand::Barrier | DeviceCommand::Finish | DeviceCommand::Wait);
        plan.steps.push(Step { queue: *queue, what, waits, callback });
    }
    plan
}

/// An action for a step, within the bounds of the buffers.
fn choose(plan: &Plan, choice: u32, [one, other, at, words]: [usize; 4], flag: bool) -> DeviceCommand {
    let range = |buffer: usize| {
        let size = plan.words(buffer);
        let at = at % size;
        WordRange { buffer, at, words: 1 + words % (size - at) }
    };
    let launch = |size: usize| {
        // Sizes are multiples of 32, and some group sizes are left to the driver: PoCL compiles a kernel for
        // every group size.
        let offset = if flag { 0 } else { at % (size / 2) };
        let count = 32 * (1 + words % ((size - offset) / 32));
        Launch { size: count, group: if choice.is_multiple_of(3) { 0 } else { 16 }, offset }
    };
    let overlaps = |x: usize, y: usize| plan.place(x).0 == plan.place(y).0;
    match choice {
        0..30 if !overlaps(one, other) => {
            let size = plan.words(one).min(plan.words(other));
            DeviceCommand::Mix { x: one, y: other, k: choice * 77, launch: launch(size) }
        }
        0..45 => DeviceCommand::Put { y: one, k: choice, launch: launch(plan.words(one)) },
        45..52 => {
            let groups = 1 + words % (plan.words(one) / 32);
            DeviceCommand::Rotate { y: one, launch: Launch { size: groups * 32, group: 32, offset: 0 } }
        }
        52..56 => DeviceCommand::Look { x: one },
        56..66 => DeviceCommand::Write { to: range(one), seed: u64::from(choice), blocks: flag },
        66..74 => DeviceCommand::Read { from: range(one), blocks: flag },
        74..82 if !overlaps(one, other) => {
            let (from, to) = (range(one), range(other));
            let words = from.words.min(to.words);
            DeviceCommand::Copy { from: WordRange { words, ..from }, to: WordRange { words, ..to } }
        }
        74..88 => DeviceCommand::Fill { to: range(one), word: choice * 0x0101_0101 },
        88..92 => DeviceCommand::Map { at: range(one), seed: u64::from(choice) },
        92..96 => DeviceCommand::Barrier,
        96..98 => DeviceCommand::Finish,
        _ => DeviceCommand::Wait,
    }
}

/// The steps that a step must wait for: those that conflict with it and are not before it in an in-order
/// queue. The host writes through a mapping in between, so a mapping waits for all.
fn ordering(plan: &Plan, queue: usize, what: &DeviceCommand) -> Vec<usize> {
    let is_enqueued = |step: &Step| {
        !matches!(
            step.what,
            DeviceCommand::Gate | DeviceCommand::Open { .. } | DeviceCommand::Finish | DeviceCommand::Wait
        )
    };
    let all = plan.steps.iter().enumerate().filter(|(_, step)| is_enqueued(step));
    match what {
        DeviceCommand::Wait => all.map(|(number, _)| number).rev().take(3).collect(),
        DeviceCommand::Barrier | DeviceCommand::Finish => Vec::new(),
        _ => all
            .filter(|(_, earlier)| plan.conflicts(&earlier.what, what))
            .filter(|(_, earlier)| earlier.queue != queue || plan.queues[queue])
            .map(|(number, _)| number)
            .collect(),
    }
}

/// Records a plan and compares all content.
fn check(bench: &Bench, plan: &Plan, name: &str) {
    let tasks = run(bench, plan, (name, ""));
    compare(&bench.dump(name), plan, &tasks.concat(), |dump, record, bytes| {
        let captured = dump.payload(record).unwrap();
        assert!(captured == bytes, "{}", difference(&captured, bytes));
    });
    // If every range is right, every launch can be replayed.
    assert!(bench.replay_all(name) > 0);
}

/// Records only hashes and statistics of a plan and compares them.
fn check_hashes(bench: &Bench, plan: &Plan, name: &str) {
    let tasks = run(bench, plan, (name, "--dump-tensor=hash"));
    compare(&bench.dump(name), plan, &tasks.concat(), |_, record, bytes| {
        assert_eq!(record.hash, Some(tree_hash(bytes)));
        let values: Vec<f64> = match record.dtype {
            DType::UInt32 => words(bytes).into_iter().map(f64::from).collect(),
            _ => bytes.iter().map(|&byte| f64::from(byte)).collect(),
        };
        let stats = record.stats.expect("statistics are taken");
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
        assert_eq!((stats.min, stats.max, stats.numel), (least, most, values.len() as u64));
        let zeros = values.iter().filter(|&&value| value == 0.0).count() as u64;
        let mean = values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).unwrap());
        assert!(stats.zeros == zeros && (stats.mean - mean).abs() <= mean * 1e-9, "{stats:?} {mean}");
    });
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The tree hash, implemented a second time from the specification.
fn tree_hash(bytes: &[u8]) -> u128 {
    if bytes.len() <= 4096 {
        return xxh3_128(bytes);
    }
    let mut outer = Xxh3::with_seed(bytes.len() as u64);
    bytes.chunks(4096).for_each(|leaf| outer.update(&xxh3_128(leaf).to_le_bytes()));
    outer.digest128()
}

/// Records a plan, and checks what the program read. Returns what each of its steps sees.
fn run(bench: &Bench, plan: &Plan, (name, options): (&str, &str)) -> Vec<crate::plan::Tasks> {
    bench.write("plan.json", &plan.json().to_string());
    let args = ["plan.json", "results.json"];
    let output = bench.program(Some((name, options)), "execute.py").args(args).output().unwrap();
    succeeded(&output);
    let (tasks, read) = plan.execute();
    let results: Vec<String> =
        serde_json::from_str(&std::fs::read_to_string(bench.path("results.json")).unwrap()).unwrap();
    let hex = |words: &[u32]| -> String {
        words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(
        results,
        read.iter().map(|words| hex(words)).collect::<Vec<_>>(),
        "the values that the program read"
    );
    tasks
}

/// Compares every range of every task, before and after it.
fn compare(
    dump: &Dump,
    plan: &Plan,
    expected: &[Vec<crate::plan::RangeState>],
    holds: impl Fn(&Dump, &Record, &[u8]),
) {
    let tasks = dump.tasks().unwrap();
    let own = plan.buffers.iter().filter(|buffer| matches!(buffer, Buffer::Own { .. })).count();
    let mut ids: Vec<u64> = tasks
        .iter()
        .filter(|task| task.facts().operation.name() != "barrier")
        .map(|task| task.key().task_id)
        .collect();
    ids.sort_unstable();
    // The initial content of each buffer is written by a task of its own.
    let ids = &ids[own..];
    assert_eq!(ids.len(), expected.len(), "every command must have a task");
    let places: HashMap<u64, usize> = ids.iter().enumerate().map(|(place, &id)| (id, place)).collect();
    let mut found: HashMap<(usize, u16, DumpStage), Record> = HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        let is_value =
            record.kind == ArgumentKind::Scalar || (record.shape() == [4] && record.dtype == DType::UInt32);
        let Some(&place) = places.get(&record.task_id).filter(|_| !is_value) else { continue };
        found.insert((place, record.arg_index, record.stage), record);
    }
    for (place, seen) in expected.iter().enumerate() {
        for range in seen {
            for (stage, words) in
                [(DumpStage::BeforeDispatch, &range.before), (DumpStage::AfterCompletion, &range.after)]
            {
                let bytes: Option<Vec<u8>> =
                    words.as_ref().map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect());
                let captured = found.remove(&(place, range.arg, stage));
                let what = format!("command {place} ({:#x}), argument {}, {stage:?}", ids[place], range.arg);
                assert_eq!(captured.is_some(), bytes.is_some(), "{what}");
                if let (Some(captured), Some(bytes)) = (captured, bytes) {
                    println!("{what}");
                    holds(dump, &captured, &bytes);
                }
            }
        }
    }
    assert!(found.is_empty(), "captured but not expected: {:?}", found.keys().next());
}

fn difference(captured: &[u8], expected: &[u8]) -> String {
    let at = captured.iter().zip(expected).position(|(captured, expected)| captured != expected);
    format!("{} of {} bytes, the first difference at {at:?}", captured.len(), expected.len())
}

#[test]
fn every_range_of_every_command_matches_an_execution_on_the_host() {
    let Some(mut bench) = Bench::new() else { return };
    // In order; out of order; two of the same kind; both kinds.
    let venues: [&[bool]; 5] = [&[false], &[true], &[false, false], &[true, true], &[false, true]];
    let mut runner = TestRunner::deterministic();
    for (number, queues) in venues.into_iter().enumerate() {
        let strategy = steps(60, queues.len(), 5);
        let chosen = strategy.new_tree(&mut runner).unwrap().current();
        // Copies are the same with and without device code. Copies without device code are only tested with
        // the most complex queues.
        let ways = if number == 4 { &WAYS[..] } else { &WAYS[..2] };
        if number == 4 {
            check_hashes(bench.with_snapshots_by("device"), &make(queues, &chosen), "hashes");
        }
        for way in ways {
            check(bench.with_snapshots_by(way), &make(queues, &chosen), &format!("{way}{number}"));
        }
    }
}

#[test]
fn filtered_commands_still_order_the_others() {
    let Some(bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: 64, seed: 4 }, Buffer::Own { words: 64, seed: 5 }];
    let launch = Launch { size: 64, group: 16, offset: 0 };
    let step = |what| Step { queue: 0, what, waits: Vec::new(), callback: false };
    let mix = |k| step(DeviceCommand::Mix { x: 0, y: 1, k, launch });
    let put = |k| step(DeviceCommand::Put { y: 1, k, launch });
    let plan = Plan { queues: vec![false], buffers, steps: vec![put(1), mix(1), put(2), mix(2), put(3)] };
    bench.write("plan.json", &plan.json().to_string());
    let mut program = bench.program(Some(("run", "--dump-func put")), "execute.py");
    succeeded(&program.args(["plan.json", "results.json"]).output().unwrap());
    let mut list = std::process::Command::new(crate::common::executable());
    let output = list.args(["list", "run"]).current_dir(bench.path("")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches(" changed ").count(), 6, "{text}");
    assert!(!text.contains("ambiguous") && !text.contains("blend"), "{text}");
}

#[test]
fn commands_after_a_gate_are_captured_when_they_run() {
    let Some(mut bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: WORDS, seed: 4 }, Buffer::Own { words: WORDS, seed: 5 }];
    let all = |buffer| WordRange { buffer, at: 0, words: WORDS };
    let launch = Launch { size: WORDS, group: 0, offset: 0 };
    let step = |queue, what, waits: &[usize]| Step { queue, what, waits: waits.to_vec(), callback: false };
    for queues in [[false, false], [true, true]] {
        let steps = vec![
            step(0, DeviceCommand::Gate, &[]),
            // Waits for the gate. All later steps wait for it.
            step(0, DeviceCommand::Mix { x: 0, y: 1, k: 9, launch }, &[0]),
            step(1, DeviceCommand::Put { y: 1, k: 3, launch }, &[1]),
            step(1, DeviceCommand::Copy { from: all(1), to: all(0) }, &[2]),
            step(0, DeviceCommand::Open { gate: 0 }, &[]),
            step(0, DeviceCommand::Read { from: all(0), blocks: true }, &[3]),
        ];
        let plan = Plan { queues: queues.to_vec(), buffers: buffers.clone(), steps };
        for way in &WAYS[..2] {
            let order = if queues[0] { "unordered" } else { "ordered" };
            check(bench.with_snapshots_by(way), &plan, &format!("{way}, {order}"));
        }
    }
}

#[test]
fn staging_memory_is_freed_when_its_content_was_read() {
    let Some(mut bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: 1024, seed: 4 }, Buffer::Own { words: 1024, seed: 5 }];
    let launch = Launch { size: 1024, group: 16, offset: 0 };
    let step = |what| Step { queue: 0, what, waits: Vec::new(), callback: false };
    let steps = (0..40)
        .flat_map(|k| [step(DeviceCommand::Mix { x: 0, y: 1, k, launch }), step(DeviceCommand::Finish)])
        .collect();
    let plan = Plan { queues: vec![false], buffers, steps };
    bench.write("plan.json", &plan.json().to_string());
    let mut program = bench.with_snapshots_by("device").program(Some(("run", "")), "execute.py");
    // Room for two launches at a time.
    program.env("TENSORTAP_OPENCL_RING", "32768").args(["plan.json", "results.json"]);
    succeeded(&program.output().unwrap());
    let dump = bench.dump("run");
    let captured = dump.records().map(Result::unwrap).filter(|record| record.shape() == [1024]).count();
    // A call waits for room for at most 100 ms, so on a busy machine some may find none.
    assert!(captured > 100, "{captured} of 160 ranges are there");

    let mut program = bench.program(Some(("small", "")), "execute.py");
    program.env("TENSORTAP_OPENCL_RING", "2048").args(["plan.json", "results.json"]);
    let output = program.output().unwrap();
    succeeded(&output);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(notes.matches("the staging memory on the device is full").count(), 1, "{notes}");
    assert!(bench.dump("small").records().map(Result::unwrap).all(|record| record.shape() != [1024]));

    // Larger ranges are hashed in place.
    let part = Buffer::Own { words: 2048, seed: 6 };
    let launch = Launch { size: 2048, group: 16, offset: 0 };
    let steps = vec![step(DeviceCommand::Put { y: 0, k: 3, launch })];
    let plan = Plan { queues: vec![false], buffers: vec![part], steps };
    bench.write("plan.json", &plan.json().to_string());
    let mut program = bench.program(Some(("hashed", "")), "execute.py");
    program.env("TENSORTAP_OPENCL_RING", "2048").args(["plan.json", "results.json"]);
    succeeded(&program.output().unwrap());
    let dump = bench.dump("hashed");
    let records: Vec<Record> =
        dump.records().map(Result::unwrap).filter(|record| record.shape() == [2048]).collect();
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (tasks, _) = plan.execute();
    let [range] = &tasks[0][0][..] else { panic!("one range") };
    let expected = [&range.before, &range.after].map(|words| tree_hash(&bytes(words.as_ref().unwrap())));
    assert_eq!(records.iter().map(|record| record.hash).collect::<Vec<_>>(), expected.map(Some));
    assert!(records.iter().all(|record| dump.payload(record).is_err()), "payloads had no room");
}

#[test]
fn equal_content_is_stored_again_if_requested() {
    let Some(mut bench) = Bench::new() else { return };
    let launch = Launch { size: 2048, group: 16, offset: 0 };
    let step = |k| Step {
        queue: 0,
        what: DeviceCommand::Put { y: 0, k, launch },
        waits: Vec::new(),
        callback: false,
    };
    let buffers = vec![Buffer::Own { words: 2048, seed: 6 }];
    let plan = Plan { queues: vec![false], buffers, steps: [3, 4, 3, 4].map(step).into() };
    bench.with_snapshots_by("device");
    let tasks = run(&bench, &plan, ("run", "--no-dedup")).concat();
    let places = std::cell::RefCell::new(std::collections::HashSet::new());
    compare(&bench.dump("run"), &plan, &tasks, |dump, record, bytes| {
        assert_eq!(dump.payload(record).unwrap(), bytes);
        assert!(places.borrow_mut().insert(record.bin_offset), "each has a place of its own");
    });
}

#[test]
fn short_lived_queues_share_staging_memory_until_the_context_is_released() {
    let Some(mut bench) = Bench::new() else { return };
    // Much more than anything else that the program allocates.
    const RING: &str = "51380224";
    let mut program = bench.with_snapshots_by("device").program(Some(("run", "")), "queues.py");
    let output = program.env("TENSORTAP_OPENCL_RING", RING).arg(RING).output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let blocks: Vec<&str> = said.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(blocks, ["1", "1", "1", "1", "1", "1", "0"], "{said}");
    // Each launch is captured: two stages of three ranges.
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let launches = tasks.iter().filter(|task| task.kernel_names() == ["one"]);
    let captured = launches.filter(|task| {
        task.argument(0).is_some_and(|argument| argument.before.is_some() && argument.after.is_some())
    });
    assert_eq!(captured.count(), 3);
}
