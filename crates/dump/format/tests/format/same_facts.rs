//! Every fact of a dump is the same, whether it is read from the index or from the JSON files without it, and a case of
//! one task keeps the facts about it. Only dispatches (`--dump-args`) are in the index alone.

use std::fs;
use std::path::Path;

use crate::common::*;
use crate::vectors::write_every_kind;
use serde_json::{Value, json};
use tensortap_abi::*;
use tensortap_format::*;

/// Everything that a reader learns about a task.
fn task_facts(dump: &Dump, tasks: &Tasks, details: &Details, task: Task<'_>) -> Value {
    let thread = task.thread.map(|at| format!("{:?}", tasks.threads()[at as usize]));
    // The JSON files do not say why a task did not complete.
    let facts = TaskFacts { thread: None, in_flight: task.is_unfinished(), ..task.facts().clone() };
    let argument = |argument: Argument<'_>| {
        let ArgumentFacts { arg_index, kind, role, dtype, start_offset, address, scalar_bits, .. } =
            *argument.facts();
        let known = [argument.dtype_known, argument.role_known, argument.extent_known, argument.is_const];
        let is = [argument.host_writable, argument.is_consistent, argument.is_repeated];
        let view = (argument.shape(), argument.strides(), start_offset, address);
        let name = (argument.own_name(), task.arg_name(arg_index));
        let content = (scalar_bits, argument.before, argument.after);
        format!("{:?}", (arg_index, kind, role, dtype, known, is, view, name, content))
    };
    let collective = task.collective().map(|c| format!("{:?}", (c.sequence, tasks.text(c.group), c.kind)));
    let mut producers: Vec<_> = task.producers().map(|edge| format!("{edge:?}")).collect();
    producers.sort();
    json!({
        "facts": format!("{facts:?}"),
        "thread": thread,
        "queue": dump.queue_name(task.queue),
        "names": format!("{:?}", (task.task_name(), task.scope(), task.kernel_names())),
        "state": [task.is_recorded(), task.is_repeated(), task.is_unfinished()],
        "arguments": task.arguments().map(argument).collect::<Vec<_>>(),
        "uncaptured": format!("{:?}", task.uncaptured_args().collect::<Vec<_>>()),
        "regions": task.regions().map(|region| region.task_id).collect::<Vec<_>>(),
        "children": task.children().map(|child| child.task_id).collect::<Vec<_>>(),
        "collective": collective,
        "details": format!("{:?}", details.of(task.key())),
        "attributes": details.attributes(task.key()).collect::<Vec<_>>(),
        "producers": producers,
    })
}

/// Everything that a reader learns about a dump, except lanes of records and dispatches.
fn facts(dump: &Dump) -> Value {
    let (tasks, details) = (dump.tasks().unwrap(), dump.details().unwrap());
    let mut of_tasks: Vec<_> =
        tasks.iter().map(|task| (task.key(), task_facts(dump, &tasks, &details, task))).collect();
    of_tasks.sort_by_key(|(key, _)| *key);
    let record = |record: Result<Record, FormatError>| {
        let record = record.unwrap();
        let content = dump.payload(&record).ok();
        json!([NamedRecord { record, names: dump.names(&record) }, record.marked, record.is_local, content])
    };
    let event = |event: &AllocationEvent| {
        format!("{:?} in {:?}", AllocationEvent { pool: 0, ..*event }, tasks.text(event.pool))
    };
    json!({
        "tasks": of_tasks.into_iter().map(|(_, facts)| facts).collect::<Vec<_>>(),
        "records": dump.records().map(record).collect::<Vec<_>>(),
        "allocations": tasks.renewed().iter().map(event).collect::<Vec<_>>(),
        "modules": format!("{:?}", dump.modules()),
        "kernels": format!("{:?}", dump.info().kernels),
        "steps": dump.steps(),
        "status": format!("{:?}", dump.status()),
        "totals": [dump.totals().total_tensors, dump.totals().uncaptured, dump.totals().stored_bytes],
    })
}

fn without_index(dir: &Path) -> Value {
    let index = dir.join("tensor_dump.idx");
    let aside = dir.join("aside");
    fs::rename(&index, &aside).unwrap();
    let dump = Dump::open(dir).unwrap();
    assert_eq!(dump.format(), DumpFormat::Manifest);
    assert_eq!(verify(&dump).unwrap().problems, [], "{}", dir.display());
    let facts = facts(&dump);
    fs::rename(&aside, &index).unwrap();
    facts
}

#[track_caller]
fn check_same(dir: &Path) {
    assert_same(&without_index(dir), &facts(&Dump::open(dir).unwrap()));
}

/// Shows only the first line that differs.
#[track_caller]
fn assert_same(found: &Value, expected: &Value) {
    let lines = |facts: &Value| serde_json::to_string_pretty(facts).unwrap();
    let (found, expected) = (lines(found), lines(expected));
    for (at, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {at}");
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// A dump with every kind of record, and facts whose form differs between index and JSON: long lists, lists with a lost
/// part, tasks that did not complete, and tasks without arguments.
fn odd(dir: &Path) {
    let mut scribe = write_every_kind(dir);
    let list = |first: u32, count: u8| {
        let mut list = AttributeRecord {
            task_id: 90,
            name: 1 + first % 3,
            first,
            total: 40,
            count,
            is_list: 1,
            ..Default::default()
        };
        for at in 0..usize::from(count) {
            (list.types[at], list.values[at]) = (AttributeType::Integer as u8, at as u64);
        }
        IndexRecord::plain(&list)
    };
    let long = |first, count| {
        let mut record = list(first, count);
        record = IndexRecord::plain(&AttributeRecord { name: 9, ..*record.get().unwrap() });
        record
    };
    let empty = AttributeRecord { task_id: 90, name: 11, is_list: 1, ..Default::default() };
    let region = TaskRecord {
        flags: RECORD_REGION,
        name: 4,
        scope: 2,
        source_file: 5,
        operation: Operation::Operator as u8,
        queue: 1,
        tensor_count: 0,
        scalar_count: 0,
        ..task_fields(90, NO_KERNEL, 60, 0)
    };
    let inner = TaskRecord {
        flags: RECORD_REGION | RECORD_HAS_PARENT,
        task_id: 91,
        parent_task: 90,
        step: 3,
        ..region
    };
    let waiting = TaskRecord { flags: RECORD_HAS_PARENT, task_id: 92, parent_task: 91, ..region };
    scribe.append(4, &[IndexRecord::plain(&region), list(16, 16), list(0, 16), IndexRecord::plain(&empty)]);
    scribe.append(4, &[long(0, 16), long(16, 16), long(32, 8), IndexRecord::plain(&inner)]);
    let collective =
        CollectiveRecord { task_id: 92, sequence: u64::MAX, group: 77, collective: 1, ..Default::default() };
    let lane = LaneRecord { tid: 7, lane: 5, name: 11, ..LaneRecord::default() };
    scribe.append(
        5,
        &[IndexRecord::plain(&lane), IndexRecord::plain(&waiting), IndexRecord::plain(&collective)],
    );
    let in_flight = TaskRecord { flags: waiting.flags | RECORD_IN_FLIGHT, ..waiting };
    let marked = TensorRecord {
        space: MemorySpace::Host as u8,
        flags: RECORD_MARKED | RECORD_ROLE_UNKNOWN | RECORD_HAS_HASH,
        ..tensor_fields(92, BEFORE, Role::Input, 0, b"by value")
    };
    let allocation = AllocationRecord {
        flags: RECORD_EXTENDED,
        address: marked.address - 8,
        bytes: 16,
        at_ns: 50,
        pool: 10,
        ..AllocationRecord::default()
    };
    let next_to_it = AllocationRecord { address: marked.address + 8, ..allocation };
    scribe.append(6, &[IndexRecord::plain(&in_flight), IndexRecord::tensor(&marked, Payload::None)]);
    scribe.append(6, &[IndexRecord::plain(&allocation), IndexRecord::plain(&next_to_it)]);
    scribe.append(5, &[IndexRecord::plain(&TaskRecord { completed_ns: 80, ..inner })]);
    scribe.finish(Status::Crashed);
}

#[test]
fn index_and_json_files_have_the_same_facts() {
    let dir = tempfile::tempdir().unwrap();
    let [kinds, strange, plain] = ["every kind", "odd", "plain"].map(|name| dir.path().join(name));
    write_every_kind(&kinds).finish(Status::Complete);
    check_same(&kinds);
    odd(&strange);
    check_same(&strange);
    finished(&plain, 3, 100);
    check_same(&plain);
}

#[test]
fn a_repaired_dump_keeps_its_facts() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, torn, replaced] = ["whole", "torn", "replaced"].map(|name| dir.path().join(name));
    odd(&whole);
    let expected = facts(&Dump::open(&whole).unwrap());
    // The footer is missing: the files are made again from the index.
    odd(&torn);
    let index = torn.join("tensor_dump.idx");
    let bytes = fs::read(&index).unwrap();
    fs::write(&index, &bytes[..bytes.len() - 20]).unwrap();
    assert!(repair(&torn).unwrap().set_aside.is_none());
    let mended = facts(&Dump::open(&torn).unwrap());
    assert_same(&mended["tasks"], &expected["tasks"]);
    // The index has fewer records than the manifest, and is set aside.
    odd(&replaced);
    let index = replaced.join("tensor_dump.idx");
    fs::write(&index, &bytes[..bytes.len() / 3]).unwrap();
    assert!(repair(&replaced).unwrap().set_aside.is_some());
    assert_same(&facts(&Dump::open(&replaced).unwrap()), &expected);
}

#[test]
fn a_dump_of_one_task_keeps_the_facts_about_it() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    odd(&from);
    let dump = Dump::open(&from).unwrap();
    let tasks = dump.tasks().unwrap();
    let key = TaskKey { step: 0, task_id: 92 };
    dump.cut_task(tasks.find(key).unwrap(), &to).unwrap();
    let cut = Dump::open(&to).unwrap();
    assert_eq!(verify(&cut).unwrap().problems, []);
    let (cut_tasks, details) = (cut.tasks().unwrap(), cut.details().unwrap());
    assert_eq!(cut_tasks.len(), 3, "the task and the regions that contain it");
    let (task, all) = (cut_tasks.find(key).unwrap(), dump.details().unwrap());
    let regions: Vec<_> = task.regions().map(|region| (region.key(), region.task_name())).collect();
    let outer = TaskKey { step: 0, task_id: 90 };
    assert_eq!(regions, [(TaskKey { step: 3, task_id: 91 }, Some("step 1")), (outer, Some("step 1"))]);
    for own in cut_tasks.iter().map(|task| task.key()) {
        let attributes = |details: &Details| json!(details.attributes(own).collect::<Vec<_>>());
        assert_eq!(attributes(&details), attributes(&all), "{own:?}");
        assert_eq!(details.of(own), all.of(own));
    }
    assert_eq!(task.collective().map(|collective| collective.sequence), Some(u64::MAX));
    let events: Vec<_> =
        cut_tasks.renewed().iter().map(|event| (event.at_ns, cut_tasks.text(event.pool))).collect();
    assert_eq!(events, [(50, Some("pool"))], "only the memory of its argument");
    check_same(&to);
}

/// The problems of a dump with these events: time, freed, address, bytes, storage, pool.
fn problems(name: &str, events: &[(u64, u8, u64, u64, u64, u32)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join(name);
    let mut scribe = TestWriter::new(&dir, &info());
    scribe.append(0, &[IndexRecord::string(1, "pool"), IndexRecord::string(2, "blocks")]);
    scribe.task(0, 7, 16);
    let record = |&(at_ns, freed, address, bytes, storage, pool): &(u64, u8, u64, u64, u64, u32)| {
        let flags = RECORD_EXTENDED;
        let event =
            AllocationRecord { flags, at_ns, freed, address, bytes, storage, pool, ..Default::default() };
        IndexRecord::plain(&event)
    };
    scribe.append(0, &events.iter().map(record).collect::<Vec<_>>());
    scribe.finish(Status::Complete);
    let of_index = verify(&Dump::open(&dir).unwrap()).unwrap().problems;
    fs::remove_file(dir.join("tensor_dump.idx")).unwrap();
    let of_json = verify(&Dump::open(&dir).unwrap()).unwrap().problems;
    assert_eq!(of_json, of_index, "{name}");
    of_index.into_iter().map(|problem| problem.what).collect()
}

#[test]
fn allocations_that_contradict_each_other_are_problems() {
    const NEW: u8 = 0;
    const FREE: u8 = 1;
    let right = [
        // Released before recording began; allocated again at the same address.
        (1, FREE, 100, 10, 1, 0),
        (2, NEW, 100, 10, 2, 0),
        // Blocks of a pool in that memory, one of which is never released.
        (3, NEW, 100, 4, 3, 2),
        (3, NEW, 104, 4, 4, 2),
        (4, FREE, 100, 4, 3, 2),
        (5, NEW, 102, 2, 5, 2),
        (6, FREE, 100, 10, 2, 0),
        (7, NEW, 100, 20, 6, 0),
        (8, NEW, 104, 4, 7, 2),
        (9, NEW, 120, 0, 8, 0),
        (9, NEW, 120, 1, 9, 0),
        // Without a storage, anything may be allocated or released.
        (9, NEW, 100, 20, 0, 0),
        (9, FREE, 5, 20, 0, 0),
    ];
    assert_eq!(problems("right", &right), Vec::<String>::new());
    for (name, events, expected) in [
        (
            "overlap",
            vec![(1, NEW, 100, 10, 1, 1), (2, NEW, 109, 10, 2, 1)],
            "overlaps storage 0x0000000000000001",
        ),
        (
            "inside",
            vec![(1, NEW, 100, 10, 1, 1), (2, NEW, 104, 2, 2, 1)],
            "overlaps storage 0x0000000000000001",
        ),
        (
            "in time",
            vec![(2, NEW, 100, 10, 2, 1), (1, NEW, 100, 10, 1, 1)],
            "allocation of storage 0x0000000000000002",
        ),
        ("twice", vec![(1, NEW, 100, 10, 1, 1), (2, NEW, 200, 10, 1, 1)], "was allocated before"),
        ("freed twice", vec![(1, FREE, 100, 10, 1, 1), (2, FREE, 100, 10, 1, 1)], "was released before"),
        ("size", vec![(1, NEW, 100, 10, 1, 1), (2, FREE, 100, 9, 1, 1)], "it has 9 bytes, but 10 bytes at"),
        (
            "place",
            vec![(1, NEW, 100, 10, 1, 1), (2, FREE, 101, 10, 1, 1)],
            "it has 10 bytes, but 10 bytes at",
        ),
    ] {
        let found = problems(name, &events);
        assert!(found.len() == 1 && found[0].contains(expected), "{name}: {found:?}");
    }
    // Places in the order of tasks that the dump does not have.
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(&dir.path().join("order"), &info());
    scribe.task(0, 7, 16);
    let event = AllocationRecord {
        flags: RECORD_EXTENDED,
        storage: 1,
        bytes: 8,
        after_task: 7,
        ..Default::default()
    };
    let others = [
        AllocationRecord { address: 8, storage: 2, after_task: 8, ..event },
        AllocationRecord { address: 16, storage: 3, queue: 3, ..event },
    ];
    scribe.append(0, &[event, others[0], others[1]].map(|event| IndexRecord::plain(&event)));
    scribe.finish(Status::Complete);
    let found = verify(&Dump::open(&dir.path().join("order")).unwrap()).unwrap().problems;
    let found: Vec<&str> = found.iter().map(|problem| &*problem.what).collect();
    let [task, queue] = &found[..] else { panic!("{found:?}") };
    assert!(
        task.contains("it follows task 0x0000000000000008") && queue.contains("queue 3, which is not"),
        "{found:?}"
    );
}

/// Calls a function with every value of a document that has no parts.
fn leaves(value: &mut Value, each: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| leaves(value, each)),
        Value::Object(values) => values.values_mut().for_each(|value| leaves(value, each)),
        leaf => each(leaf),
    }
}

#[test]
fn facts_with_any_values_cause_an_error_or_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    odd(&from);
    fs::remove_file(from.join("tensor_dump.idx")).unwrap();
    let graph = read_json(from.join("graph.json"));
    let mut count = 0;
    leaves(&mut graph.clone(), &mut |_| count += 1);
    let replacements = [
        Value::Null,
        json!(-1),
        json!(u32::MAX),
        json!(u64::MAX),
        json!("0xffffffffffffffff"),
        json!("?"),
        json!([]),
        json!({"type": "int", "value": "x"}),
    ];
    let mut read = 0;
    let largest = json!(u32::MAX);
    let every = (0..count).zip(replacements.iter().cycle());
    for (number, replacement) in every.chain((0..count).map(|number| (number, &largest))) {
        let (mut damaged, mut at) = (graph.clone(), 0);
        leaves(&mut damaged, &mut |leaf| {
            if at == number {
                *leaf = replacement.clone();
            }
            at += 1;
        });
        fs::write(from.join("graph.json"), serde_json::to_vec(&damaged).unwrap()).unwrap();
        let Ok(dump) = Dump::open(&from) else { continue };
        let _ = verify(&dump);
        let (Ok(tasks), Ok(details)) = (dump.tasks(), dump.details()) else { continue };
        read += 1;
        for task in tasks.iter() {
            let _ =
                (task.regions().count(), task.children().count(), task.collective(), details.of(task.key()));
            let _ = (details.attributes(task.key()).count(), dump.facts_of(task));
        }
    }
    assert!(read > 100 && read < 2 * count, "{read} of {} documents are read", 2 * count);
}
