//! Tests that all records of an attached process arrive.

use std::{collections::BTreeMap, thread::scope};

use tensortap_format::{ArgumentKind, Dump};
use tensortap_record::*;

use crate::host::{Host, Kind, PLAIN};

fn payload(dump: &Dump, task_id: u64, arg: u16, stage: DumpStage) -> Vec<u8> {
    let mut of = dump.records().map(Result::unwrap).filter(|record| {
        (record.task_id, record.arg_index, record.stage, record.kind)
            == (task_id, arg, stage, ArgumentKind::Tensor)
    });
    let record = of.next().expect("it was recorded");
    assert!(of.next().is_none(), "it was recorded only once");
    dump.payload(&record).unwrap()
}

#[test]
fn tensors_of_every_view_arrive_with_their_names() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let hello = host.hello();
    assert_eq!((hello.pid, hello.rank), (std::process::id(), None));
    let mut recorder = session.named_thread("worker").unwrap();

    let matrix: Vec<u16> = (0..24).map(|at| 100 + at).collect();
    let outer = recorder.scope("layer 1", ScopeId::NONE).unwrap();
    let info = TaskInfo {
        name: recorder.string("head 3").unwrap(),
        scope: recorder.scope("attention", outer).unwrap(),
        queue: recorder.queue("stream 0").unwrap(),
        step: recorder.step("step 1").unwrap(),
        ..TaskInfo::of(
            recorder
                .define_kernel(&KernelInfo {
                    name: "softmax",
                    args: &[("x", Some(ArgKind::In))],
                    ..KernelInfo::default()
                })
                .unwrap(),
        )
    };
    let mut task = recorder.begin(&info).unwrap();
    let named = recorder.string("scores").unwrap();
    let all = Tensor::of(&matrix[..], DType::UInt16).unwrap();
    // Views of a 4 by 6 matrix: transposed, reversed, one row three times, and empty.
    let views: [(&[u64], &[i64], u64); 4] =
        [(&[6, 4], &[1, 6], 0), (&[24], &[-1], 23), (&[3, 2], &[0, 1], 6), (&[0, 4], &[4, 1], 0)];
    for (arg, (shape, strides, start)) in (0..).zip(views) {
        let view = all.view(shape, strides, start).unwrap().arg(arg);
        assert_eq!(recorder.tensor(&mut task, DumpStage::BeforeDispatch, &view).unwrap(), Outcome::Recorded);
    }
    let scalar = recorder.scalar(&mut task, 5, DType::Float64, 2.5_f64.to_bits(), StringId::NONE).unwrap();
    assert_eq!(scalar, Outcome::Recorded);
    let nibbles = [0x21_u8, 0x43, 0x05];
    let packed = Tensor::of(&nibbles[..], DType::Int4).unwrap().view(&[5], &[1], 0).unwrap();
    recorder
        .tensor(&mut task, DumpStage::AfterCompletion, &packed.arg(4).role(Role::Output).name(named))
        .unwrap();
    assert_eq!(recorder.end(&mut task).unwrap(), Outcome::Recorded);
    assert!(matches!(recorder.end(&mut task), Err(RecordError::BadArgument { what: "task", .. })));
    let second = recorder.begin(&TaskInfo { id: 77, ..TaskInfo::default() }).unwrap().id();
    recorder.edge(task.id(), second, EdgeCause::ReadAfterWrite, 2).unwrap();
    let long = "what is called so ".repeat(40);
    let name = recorder.string(&long).unwrap();
    let mut named_long = recorder.begin(&TaskInfo { name, ..TaskInfo::default() }).unwrap();
    recorder.end(&mut named_long).unwrap();
    assert_eq!((task.id(), second, named_long.id()), (1, 77, 2));
    drop((recorder, session));

    let (_dir, dump, summary) = host.dump();
    let expected: [Vec<u16>; 4] = [
        (0..6).flat_map(|column| (0..4).map(move |row| 100 + column + 6 * row)).collect(),
        (100..124).rev().collect(),
        [106, 107].repeat(3),
        Vec::new(),
    ];
    for (arg, expected) in (0..).zip(&expected) {
        let bytes: Vec<u8> = expected.iter().flat_map(|element| element.to_le_bytes()).collect();
        assert_eq!(payload(&dump, 1, arg, DumpStage::BeforeDispatch), bytes, "argument {arg}");
    }
    assert_eq!(payload(&dump, 1, 4, DumpStage::AfterCompletion), [0x21, 0x43, 0x05]);
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    let first = &records[0];
    assert_eq!((first.shape(), first.strides(), first.start_offset), (&[6, 4][..], &[1, 6][..], 0));
    assert_eq!(first.address, matrix.as_ptr().addr() as u64);
    let scalar = records.iter().find(|record| record.kind == ArgumentKind::Scalar).unwrap();
    assert_eq!((scalar.arg_index, scalar.scalar_bits), (5, Some(2.5_f64.to_bits())));
    let names = dump.names(first);
    assert_eq!((names.arg_name, names.task_name), (Some("x"), Some("head 3")));
    assert_eq!(names.scope, Some("layer 1 / attention"));
    let output = records.iter().find(|record| record.stage == DumpStage::AfterCompletion).unwrap();
    assert_eq!((dump.names(output).arg_name, output.role), (Some("scores"), Role::Output));
    let tasks = dump.tasks().unwrap();
    let task = tasks.iter().find(|task| task.task_id == 1).unwrap();
    assert_eq!((task.kernel_names(), task.argument_total()), (vec!["softmax".to_owned()], Some(6)));
    let (start, end) = (task.facts().start_time().unwrap(), task.facts().end_time().unwrap());
    assert!(start <= end, "{start} to {end}");
    assert!(dump.all_task_names().any(|names| names.task_name == Some(&long)));
    let unfinished: Vec<_> =
        tasks.iter().filter(|task| task.is_unfinished()).map(|task| task.task_id).collect();
    assert_eq!(unfinished, [77]);
    let edge = dump.edges().unwrap()[0];
    assert_eq!((edge.from, edge.to), (1, 77));
    assert_eq!(
        (summary.counters.tensors, summary.counters.scalars, summary.counters.corrupt_records),
        (5, 1, 0)
    );
}

#[test]
fn short_lived_threads_share_lanes_without_loss() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let (threads, tasks) = (20_u64, 30_u64);
    scope(|scope| {
        for pair in 0..threads / 2 {
            let workers = [2 * pair, 2 * pair + 1].map(|thread| {
                let session = session.clone();
                scope.spawn(move || {
                    let mut recorder = session.thread().unwrap();
                    for number in 0..tasks {
                        let id = (thread + 1) << 32 | number;
                        let mut task = recorder.begin(&TaskInfo { id, ..TaskInfo::default() }).unwrap();
                        let content = [id.wrapping_mul(0x9e37_79b9_7f4a_7c15); 40];
                        let tensor = Tensor::of(&content, DType::UInt64).unwrap().role(Role::Output);
                        assert_eq!(
                            recorder.tensor(&mut task, DumpStage::AfterCompletion, &tensor).unwrap(),
                            Outcome::Recorded
                        );
                        recorder.end(&mut task).unwrap();
                    }
                })
            });
            let _: [(); 2] = workers.map(|worker| worker.join().unwrap());
        }
    });
    let counters = session.counters().unwrap();
    assert_eq!((counters.bytes, counters.dropped, counters.refused), (threads * tasks * 320, 0, 0));
    drop(session);
    let (_dir, dump, summary) = host.dump();
    assert_eq!((dump.len(), summary.counters.dropped_records), (threads * tasks, 0));
    for record in dump.records().map(Result::unwrap) {
        let expected = record.task_id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(40);
        assert_eq!(dump.payload(&record).unwrap(), expected);
    }
    let lanes: BTreeMap<u32, u64> =
        dump.records().map(Result::unwrap).fold(BTreeMap::new(), |mut lanes, record| {
            *lanes.entry(record.thread).or_default() += 1;
            lanes
        });
    assert!(lanes.len() <= 2, "two at a time: {lanes:?}");
}

#[test]
fn refuses_and_counts_a_handle_without_a_free_lane() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut handles: Vec<_> = (0..4).map(|_| session.thread().unwrap()).collect();
    assert!(matches!(session.thread(), Err(RecordError::NoLane { lanes: 4 })));
    assert_eq!(session.counters().unwrap().refused, 1);
    handles.pop();
    handles.push(session.thread().unwrap());
    drop((handles, session));
    host.dump();
}

#[test]
fn a_process_has_one_session_until_its_last_close() {
    let host = Host::new(PLAIN);
    let (first, second) = (host.session(), Session::attach_to("/no/such/socket".as_ref()).unwrap());
    assert!(first.is_same(&second) && first.is_same(&first.clone()));
    let mut recorder = second.thread().unwrap();
    assert!(first.close().unwrap().is_none());
    assert!(recorder.begin(&TaskInfo::default()).is_ok(), "another handle is open");
    second.close().unwrap();
    assert!(matches!(recorder.begin(&TaskInfo::default()), Err(RecordError::Closed)));
    assert!(matches!(Session::attach_to("/no/such/socket".as_ref()), Err(RecordError::Attach(_))));
    let (_dir, dump, _) = host.dump();
    assert_eq!(dump.tasks().unwrap().iter().count(), 1);
}

/// Addresses of tensortap's memory files in this process.
fn addresses_of_memory_files() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let files = maps.lines().filter(|line| line.contains("memfd:tensortap"));
    files.map(|line| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()).collect()
}

/// Maps a page at this address, unless it is in use.
fn page_at(address: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let at = std::ptr::without_provenance_mut(address);
    // SAFETY: the flag prevents replacing a mapping.
    let page = unsafe { libc::mmap(at, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    (page == at).then_some(page.cast())
}

#[test]
fn handles_of_the_parent_are_closed_in_a_forked_process() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let addresses = addresses_of_memory_files();
    // SAFETY: the child uses no locks of other threads and exits without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let content = [1_u8; 8];
        let tensor = Tensor::of(&content, DType::UInt8).unwrap();
        let dead = [
            recorder.begin(&TaskInfo::default()).err(),
            recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).err(),
            recorder.end(&mut task).err(),
            session.counters().err(),
            session.thread().err(),
        ];
        let all_dead = dead.iter().all(|error| matches!(error, Some(RecordError::Forked)));
        // The child can map its own memory at the parent's address, and it is not unmapped.
        let own: Vec<_> = addresses.iter().filter_map(|&at| page_at(at)).collect();
        drop((recorder, session.clone(), session));
        for page in &own {
            // SAFETY: this process mapped the page.
            unsafe { page.write_volatile(1) };
        }
        // SAFETY: ends the child immediately.
        unsafe {
            libc::_exit(if !all_dead {
                1
            } else if own.is_empty() {
                2
            } else {
                0
            })
        };
    }
    let mut status = 0;
    // SAFETY: waits for this child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's checks pass");
    assert_eq!(recorder.end(&mut task).unwrap(), Outcome::Recorded, "the parent goes on");
    drop((recorder, session));
    let (_dir, dump, _) = host.dump();
    assert!(!dump.tasks().unwrap().iter().next().unwrap().is_unfinished());
}

#[test]
fn counts_filtered_tasks_with_their_arguments() {
    let filter = DumpFilter { first_tasks: 1, ..DumpFilter::ALL };
    let host = Host::new(Kind { filter, ..PLAIN });
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let content = [1_u8; 8];
    let tensor = Tensor::of(&content, DType::UInt8).unwrap();
    for (number, expected) in [(0, Outcome::Recorded), (1, Outcome::Filtered), (2, Outcome::Filtered)] {
        let mut task = recorder.begin(&TaskInfo { records: 1, ..TaskInfo::default() }).unwrap();
        assert_eq!(task.is_filtered(), number > 0);
        assert_eq!(recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap(), expected);
        assert_eq!(recorder.end(&mut task).unwrap(), expected);
    }
    assert_eq!(session.counters().unwrap().filtered, 2);
    drop((recorder, session));
    assert_eq!(host.dump().1.len(), 1);
}

#[test]
fn level_marked_records_marked_tasks_and_arguments() {
    let host = Host::new(Kind { level: DumpLevel::Marked, ..PLAIN });
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let content = [1_u8; 8];
    let tensor = Tensor::of(&content, DType::UInt8).unwrap();
    let mut outcomes = Vec::new();
    for (whole, one) in [(true, false), (false, true), (false, false)] {
        let mut task = recorder.begin(&TaskInfo { marked: whole, ..TaskInfo::default() }).unwrap();
        let tensor = if one { tensor.marked() } else { tensor };
        outcomes.push(recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap());
        recorder.end(&mut task).unwrap();
    }
    assert_eq!(outcomes, [Outcome::Recorded, Outcome::Recorded, Outcome::NotWanted]);
    drop((recorder, session));
    assert_eq!(host.dump().1.len(), 2);
}

#[test]
fn records_writes_and_frees_of_unrecorded_code() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let content = [7_u8; 100];
    let name = recorder.string("read from a file").unwrap();
    let memory = Tensor::of(&content, DType::UInt8).unwrap().guessed(true, false, false);
    assert_eq!(recorder.wrote(&memory, name).unwrap(), Outcome::Recorded);
    let address = content.as_ptr().addr() as u64;
    assert_eq!(recorder.allocation(address, 100, MemorySpace::Host, true).unwrap(), Outcome::Recorded);
    let elsewhere = Tensor::elsewhere(0x1000, 8, DType::UInt8, MemorySpace::Device);
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let refused = recorder.tensor(&mut task, DumpStage::BeforeDispatch, &elsewhere);
    assert!(matches!(refused, Err(RecordError::BadArgument { .. })), "the memory is not readable");
    drop((recorder, session));
    let (_dir, dump, summary) = host.dump();
    assert_eq!(payload(&dump, 1, 0, DumpStage::AfterCompletion), content);
    assert_eq!(dump.names(&dump.record(0).unwrap()).task_name, Some("read from a file"));
    assert_eq!(summary.counters.corrupt_records, 0);
}

#[test]
fn records_a_view_that_exceeds_its_memory_as_not_captured() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let content = [7_u8; 16];
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let outside = Tensor::of(&content, DType::UInt8).unwrap().view(&[17], &[1], 0).unwrap();
    let inside = Tensor::of(&content, DType::UInt8).unwrap().arg(1);
    let said = recorder.tensors(&mut task, DumpStage::BeforeDispatch, &[outside, inside]).unwrap_err();
    assert_eq!(said.to_string(), "argument 0: the view ends at byte 17, but its buffer has 16 bytes");
    assert_eq!(session.counters().unwrap().uncaptured, 1);
    let too_many = Tensor::of(&content, DType::UInt8).unwrap().arg(2).view(&[1; 9], &[1; 9], 0).unwrap();
    let said = recorder.tensor(&mut task, DumpStage::BeforeDispatch, &too_many).unwrap_err();
    assert_eq!(said.to_string(), "argument 2: 9 dimensions: at most 8 are supported, merge some");
    assert_eq!(session.counters().unwrap().uncaptured, 2);
    let wide = recorder.scalar(&mut task, 3, DType::Complex128, 0, StringId::NONE).unwrap_err();
    assert!(wide.to_string().contains("record a tensor without dimensions"), "{wide}");
    assert!(Tensor::of(&content[..15], DType::UInt16).is_err());
    recorder.end(&mut task).unwrap();
    drop((recorder, session));
    let (_dir, dump, summary) = host.dump();
    let uncaptured = dump.uncaptured().unwrap();
    let reasons: Vec<_> = uncaptured.iter().map(|arg| (arg.arg_index, arg.reason)).collect();
    assert_eq!(reasons, [(0, UncapturedReason::BadDescriptor), (2, UncapturedReason::TooManyDimensions)]);
    assert_eq!(dump.len(), 1);
    assert_eq!(payload(&dump, 1, 1, DumpStage::BeforeDispatch), content, "later tensors are recorded");
    assert_eq!(summary.counters.uncaptured, 2);
}

#[test]
fn flushed_records_are_in_files() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    recorder.end(&mut task).unwrap();
    assert!(recorder.flush().unwrap());
    let dump = Dump::open(&host.socket().with_file_name("dump")).unwrap();
    assert_eq!(dump.tasks().unwrap().iter().count(), 1, "before the session ends");
    drop((dump, recorder, session));
    host.dump();
}
