//! What is captured before and behind every command is what an execution of its own finds there.

use std::collections::HashMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tensortap::format::{ArgumentKind, Dump, Record};
use tensortap::{DType, DumpStage};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::{
    Bench, WAYS,
    plan::{Buffer, Do, Given, Launch, Plan, Step},
    succeeded,
};

/// Words of the larger buffers: more than one leaf of a hash.
const WORDS: usize = 3000;

/// Steps of a plan before anybody waits for anybody.
fn steps(
    count: usize,
    queues: usize,
    buffers: usize,
) -> impl Strategy<Value = Vec<(usize, u32, [usize; 4], bool)>> {
    let numbers = [0..buffers, 0..buffers, 0..WORDS, 1..WORDS];
    prop::collection::vec((0..queues, 0..100_u32, numbers, any::<bool>()), count)
}

/// A plan in which whatever may not run at the same time is ordered by its queue or an event.
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
        let callback = *choice % 7 == 0 && !matches!(what, Do::Barrier | Do::Finish | Do::Wait);
        plan.steps.push(Step { queue: *queue, what, waits, callback });
    }
    plan
}

/// One of the things that a step can do, within the buffers.
fn choose(plan: &Plan, choice: u32, [one, other, at, words]: [usize; 4], flag: bool) -> Do {
    let given = |buffer: usize| {
        let size = plan.words(buffer);
        let at = at % size;
        Given { buffer, at, words: 1 + words % (size - at) }
    };
    let launch = |size: usize| {
        // Of a multiple of 32, and groups that the driver chooses or not: PoCL compiles a kernel for every size of its groups.
        let offset = if flag { 0 } else { at % (size / 2) };
        let count = 32 * (1 + words % ((size - offset) / 32));
        Launch { size: count, group: if choice.is_multiple_of(3) { 0 } else { 16 }, offset }
    };
    let overlaps = |x: usize, y: usize| plan.place(x).0 == plan.place(y).0;
    match choice {
        0..30 if !overlaps(one, other) => {
            let size = plan.words(one).min(plan.words(other));
            Do::Mix { x: one, y: other, k: choice * 77, launch: launch(size) }
        }
        0..45 => Do::Put { y: one, k: choice, launch: launch(plan.words(one)) },
        45..52 => {
            let groups = 1 + words % (plan.words(one) / 32);
            Do::Rotate { y: one, launch: Launch { size: groups * 32, group: 32, offset: 0 } }
        }
        52..56 => Do::Look { x: one },
        56..66 => Do::Write { to: given(one), seed: u64::from(choice), blocks: flag },
        66..74 => Do::Read { from: given(one), blocks: flag },
        74..82 if !overlaps(one, other) => {
            let (from, to) = (given(one), given(other));
            let words = from.words.min(to.words);
            Do::Copy { from: Given { words, ..from }, to: Given { words, ..to } }
        }
        74..88 => Do::Fill { to: given(one), word: choice * 0x0101_0101 },
        88..92 => Do::Map { at: given(one), seed: u64::from(choice) },
        92..96 => Do::Barrier,
        96..98 => Do::Finish,
        _ => Do::Wait,
    }
}

/// What a step must wait for: what conflicts with it and is not before it in a queue that keeps order. A mapping is the host's in between, so it waits for all.
fn ordering(plan: &Plan, queue: usize, what: &Do) -> Vec<usize> {
    let is_enqueued = |step: &Step| !matches!(step.what, Do::Gate | Do::Open { .. } | Do::Finish | Do::Wait);
    let all = plan.steps.iter().enumerate().filter(|(_, step)| is_enqueued(step));
    match what {
        Do::Wait => all.map(|(number, _)| number).rev().take(3).collect(),
        Do::Barrier | Do::Finish => Vec::new(),
        _ => all
            .filter(|(_, earlier)| plan.conflicts(&earlier.what, what))
            .filter(|(_, earlier)| earlier.queue != queue || plan.queues[queue])
            .map(|(number, _)| number)
            .collect(),
    }
}

/// Runs a plan recorded and compares everything.
fn check(bench: &Bench, plan: &Plan, name: &str) {
    let tasks = run(bench, plan, (name, ""));
    compare(&bench.dump(name), plan, &tasks.concat(), |dump, record, bytes| {
        let captured = dump.payload(record).unwrap();
        assert!(captured == bytes, "{}", difference(&captured, bytes));
    });
    // What is true of every range lets every launch be run again.
    assert!(bench.replay_all(name) > 0);
}

/// The same by hashes and statistics, which is all that there is.
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

/// The hash of the specification, written down once more.
fn tree_hash(bytes: &[u8]) -> u128 {
    if bytes.len() <= 4096 {
        return xxh3_128(bytes);
    }
    let mut outer = Xxh3::with_seed(bytes.len() as u64);
    bytes.chunks(4096).for_each(|leaf| outer.update(&xxh3_128(leaf).to_le_bytes()));
    outer.digest128()
}

/// Runs a plan recorded, by which it reads what it should; what each of its steps sees.
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
        "what the program itself read"
    );
    tasks
}

/// Every range of every task, before and behind it.
fn compare(
    dump: &Dump,
    plan: &Plan,
    expected: &[Vec<crate::plan::Seen>],
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
    // What buffers were made with is written by tasks of their own.
    let ids = &ids[own..];
    assert_eq!(ids.len(), expected.len(), "a task for every command");
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
    assert!(found.is_empty(), "nothing else is captured: {:?}", found.keys().next());
}

fn difference(captured: &[u8], expected: &[u8]) -> String {
    let at = captured.iter().zip(expected).position(|(captured, expected)| captured != expected);
    format!("{} of {} bytes, the first difference at {at:?}", captured.len(), expected.len())
}

#[test]
fn every_range_of_every_command_is_what_an_execution_of_its_own_finds() {
    let Some(mut bench) = Bench::new() else { return };
    // In order; out of order; two of one kind; both kinds.
    let venues: [&[bool]; 5] = [&[false], &[true], &[false, false], &[true, true], &[false, true]];
    let mut runner = TestRunner::deterministic();
    for (number, queues) in venues.into_iter().enumerate() {
        let strategy = steps(60, queues.len(), 5);
        let chosen = strategy.new_tree(&mut runner).unwrap().current();
        // Copies are the same with and without our code, so they are tried alone where there is most to go wrong.
        let ways = if number == 4 { &WAYS[..] } else { &WAYS[..2] };
        if number == 4 {
            check_hashes(bench.seeing_by("device"), &make(queues, &chosen), "hashes");
        }
        for way in ways {
            check(bench.seeing_by(way), &make(queues, &chosen), &format!("{way}{number}"));
        }
    }
}

#[test]
fn commands_that_a_filter_keeps_out_still_order_the_others() {
    let Some(bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: 64, seed: 4 }, Buffer::Own { words: 64, seed: 5 }];
    let launch = Launch { size: 64, group: 16, offset: 0 };
    let step = |what| Step { queue: 0, what, waits: Vec::new(), callback: false };
    let mix = |k| step(Do::Mix { x: 0, y: 1, k, launch });
    let put = |k| step(Do::Put { y: 1, k, launch });
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
fn what_a_gate_holds_back_is_seen_when_it_runs_and_not_before() {
    let Some(mut bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: WORDS, seed: 4 }, Buffer::Own { words: WORDS, seed: 5 }];
    let all = |buffer| Given { buffer, at: 0, words: WORDS };
    let launch = Launch { size: WORDS, group: 0, offset: 0 };
    let step = |queue, what, waits: &[usize]| Step { queue, what, waits: waits.to_vec(), callback: false };
    for queues in [[false, false], [true, true]] {
        let steps = vec![
            step(0, Do::Gate, &[]),
            // Waits for the gate, and everything for it.
            step(0, Do::Mix { x: 0, y: 1, k: 9, launch }, &[0]),
            step(1, Do::Put { y: 1, k: 3, launch }, &[1]),
            step(1, Do::Copy { from: all(1), to: all(0) }, &[2]),
            step(0, Do::Open { gate: 0 }, &[]),
            step(0, Do::Read { from: all(0), blocks: true }, &[3]),
        ];
        let plan = Plan { queues: queues.to_vec(), buffers: buffers.clone(), steps };
        for way in &WAYS[..2] {
            let order = if queues[0] { "unordered" } else { "ordered" };
            check(bench.seeing_by(way), &plan, &format!("{way}, {order}"));
        }
    }
}

#[test]
fn room_on_the_device_is_given_back_when_its_content_was_read() {
    let Some(mut bench) = Bench::new() else { return };
    let buffers = vec![Buffer::Own { words: 1024, seed: 4 }, Buffer::Own { words: 1024, seed: 5 }];
    let launch = Launch { size: 1024, group: 16, offset: 0 };
    let step = |what| Step { queue: 0, what, waits: Vec::new(), callback: false };
    let steps = (0..40).flat_map(|k| [step(Do::Mix { x: 0, y: 1, k, launch }), step(Do::Finish)]).collect();
    let plan = Plan { queues: vec![false], buffers, steps };
    bench.write("plan.json", &plan.json().to_string());
    let mut program = bench.seeing_by("device").program(Some(("run", "")), "execute.py");
    // For two launches at a time.
    program.env("TENSORTAP_OPENCL_RING", "32768").args(["plan.json", "results.json"]);
    succeeded(&program.output().unwrap());
    let dump = bench.dump("run");
    let captured = dump.records().map(Result::unwrap).filter(|record| record.shape() == [1024]).count();
    // A call waits for room 100 ms at most, so on a busy machine some may find none.
    assert!(captured > 100, "{captured} of 160 ranges are there");

    let mut program = bench.program(Some(("small", "")), "execute.py");
    program.env("TENSORTAP_OPENCL_RING", "2048").args(["plan.json", "results.json"]);
    let output = program.output().unwrap();
    succeeded(&output);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told.matches("there is no room for it on its way from the device").count(), 1, "{told}");
    assert!(bench.dump("small").records().map(Result::unwrap).all(|record| record.shape() != [1024]));

    // Larger ranges are hashed where they are.
    let part = Buffer::Own { words: 2048, seed: 6 };
    let launch = Launch { size: 2048, group: 16, offset: 0 };
    let steps = vec![step(Do::Put { y: 0, k: 3, launch })];
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
    assert!(records.iter().all(|record| dump.payload(record).is_err()), "there was no room for it");
}

#[test]
fn content_that_comes_again_is_stored_again_where_that_is_asked() {
    let Some(mut bench) = Bench::new() else { return };
    let launch = Launch { size: 2048, group: 16, offset: 0 };
    let step = |k| Step { queue: 0, what: Do::Put { y: 0, k, launch }, waits: Vec::new(), callback: false };
    let buffers = vec![Buffer::Own { words: 2048, seed: 6 }];
    let plan = Plan { queues: vec![false], buffers, steps: [3, 4, 3, 4].map(step).into() };
    bench.seeing_by("device");
    let tasks = run(&bench, &plan, ("run", "--no-dedup")).concat();
    let places = std::cell::RefCell::new(std::collections::HashSet::new());
    compare(&bench.dump("run"), &plan, &tasks, |dump, record, bytes| {
        assert_eq!(dump.payload(record).unwrap(), bytes);
        assert!(places.borrow_mut().insert(record.bin_offset), "each has a place of its own");
    });
}

#[test]
fn queues_that_come_and_go_share_what_is_made_for_their_device_until_the_context_goes() {
    let Some(mut bench) = Bench::new() else { return };
    // A size that nothing else has, and that memory of its own is mapped for.
    const RING: &str = "51380224";
    let mut program = bench.seeing_by("device").program(Some(("run", "")), "queues.py");
    let output = program.env("TENSORTAP_OPENCL_RING", RING).arg(RING).output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let places: Vec<&str> = said.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(places.len(), 7, "{said}");
    assert!(places[0] != "None" && places[..6].iter().all(|place| *place == places[0]), "{said}");
    assert_eq!(places[6], "None", "{said}");
    // And each launch is seen: two stages of three.
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let launches = tasks.iter().filter(|task| task.kernel_names() == ["one"]);
    let captured = launches.filter(|task| {
        task.argument(0).is_some_and(|argument| argument.before.is_some() && argument.after.is_some())
    });
    assert_eq!(captured.count(), 3);
}
