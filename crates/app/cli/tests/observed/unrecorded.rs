//! Programs with known roles: dumps without the writer of an input, programs that declare only some edges, and a missing
//! barrier.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::{DumpFilter, EdgeCause, Role};
use tensortap::record::{FolderOptions, QueueId, Session, TaskInfo, Tensor, ThreadRecorder};
use tensortap::{DType, DumpStage};

use crate::blame::{blamed_runs, first};
use crate::common;

const N: usize = 8;

/// A program that records its tasks with their roles.
struct KnownRoles {
    session: Session,
    recorder: ThreadRecorder,
    memory: Vec<Box<[f32]>>,
    folder: PathBuf,
    /// The queue of the next tasks.
    queue: QueueId,
    /// What the program declares about its edges.
    cause: EdgeCause,
}

impl KnownRoles {
    fn new(folder: &Path, filter: DumpFilter, buffers: usize) -> KnownRoles {
        let options = FolderOptions { filter, ..FolderOptions::default() };
        let session = Session::in_folder(folder, &options).unwrap();
        let recorder = session.named_thread("main").unwrap();
        let memory = (0..buffers).map(|_| vec![0.0; N].into()).collect();
        KnownRoles {
            session,
            recorder,
            memory,
            folder: folder.to_owned(),
            queue: QueueId::NONE,
            cause: EdgeCause::Explicit,
        }
    }

    /// Runs a task that reads whole buffers and writes the first elements of another one.
    fn task(
        &mut self,
        kernel: &str,
        (reads, (writes, len)): (&[usize], (usize, usize)),
        waits: &[u64],
        compute: impl FnOnce(&[Box<[f32]>], usize) -> f32 + Copy,
    ) -> u64 {
        let kernel = self.recorder.kernel(kernel).unwrap();
        let mut task = self.recorder.begin(&TaskInfo { queue: self.queue, ..TaskInfo::of(kernel) }).unwrap();
        for &wait in waits {
            self.recorder.edge(wait, task.id(), self.cause, 0).unwrap();
        }
        for (arg, &buffer) in (0..).zip(reads) {
            let tensor = Tensor::of(&self.memory[buffer][..], DType::Float32).unwrap();
            let tensor = tensor.arg(arg).role(Role::Input);
            self.recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap();
        }
        let made: Vec<f32> = (0..len).map(|at| compute(&self.memory, at)).collect();
        self.memory[writes][..len].copy_from_slice(&made);
        let tensor = Tensor::of(&self.memory[writes][..len], DType::Float32).unwrap();
        let tensor = tensor.arg(u16::try_from(reads.len()).unwrap()).role(Role::Output);
        self.recorder.tensor(&mut task, DumpStage::AfterCompletion, &tensor).unwrap();
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    fn end(self) -> PathBuf {
        drop(self.recorder);
        self.session.close().unwrap();
        self.folder
    }
}

/// What a run records of `init`, which writes all of y.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Init {
    Recorded,
    /// A filter removes it, like `--dump-func part,use` and `--dump-last 2`.
    Filtered,
    /// The program writes y itself.
    Unrecorded,
}

/// `init` writes y, `part` writes the first half of y again, `use` reads y. A wrong `init` leaves something wrong in the
/// other half.
fn parts(folder: &Path, init: Init, wrong: Option<&str>) -> PathBuf {
    let mut filter = DumpFilter::ALL;
    if init == Init::Filtered {
        filter.tasks[0] = [2, 3];
        filter.task_ranges = 1;
    }
    let mut program = KnownRoles::new(folder, filter, 3);
    let [x, y, z] = [0, 1, 2];
    program.memory[x].iter_mut().zip(1_u8..).for_each(|(value, at)| *value = at.into());
    let off = move |kernel: &str| if wrong == Some(kernel) { 100.0 } else { 0.0 };
    let made = move |at: usize| (at + 10) as f32 + if at == 5 { off("init") } else { 0.0 };
    if init == Init::Unrecorded {
        (0..N).for_each(|at| program.memory[y][at] = made(at));
    } else {
        program.task("init", (&[x], (y, N)), &[], |_, at| made(at));
    }
    program.task("part", (&[x], (y, 4)), &[], |memory, at| memory[x][at] + off("part"));
    program.task("use", (&[y], (z, N)), &[], |memory, at| memory[y][at] * 2.0 + off("use"));
    program.end()
}

/// The label of a kernel's task; `None` if the dump lacks it.
fn label<'d>(document: &'d Value, kernel: &str) -> Option<&'d str> {
    let tasks = document["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["kernels"][0] == kernel)?["label"].as_str()
}

#[test]
fn a_task_is_not_wrong_if_an_element_of_its_input_has_no_recorded_writer() {
    for ours in [Init::Recorded, Init::Filtered, Init::Unrecorded] {
        for golden in [Init::Recorded, Init::Filtered, Init::Unrecorded] {
            let (document, text) =
                blamed_runs(|dir| parts(dir, ours, Some("init")), |dir| parts(dir, golden, None));
            assert_eq!(document["verdict"], "fail", "{ours:?} {golden:?}: {text}");
            let used = label(&document, "use");
            let expected: &[&str] = match (ours, golden) {
                (Init::Recorded, Init::Recorded) => &["inherited"],
                _ => &["fed", "unknown", "inherited"],
            };
            assert!(expected.contains(&used.unwrap()), "{ours:?} {golden:?}: {used:?}: {text}");
            assert_eq!(label(&document, "part"), Some("ok"), "{ours:?} {golden:?}: {text}");
        }
    }
}

#[test]
fn a_wrong_task_is_named_although_its_input_has_no_recorded_writer() {
    for init in [Init::Recorded, Init::Filtered, Init::Unrecorded] {
        for kernel in ["part", "use"] {
            let (document, text) =
                blamed_runs(|dir| parts(dir, init, Some(kernel)), |dir| parts(dir, init, None));
            let (named, label, _) = first(&document);
            assert_eq!((&*named, &*label), (kernel, "wrong_here"), "{init:?}: {text}");
        }
        let (document, text) = blamed_runs(|dir| parts(dir, init, None), |dir| parts(dir, init, None));
        assert_eq!(document["verdict"], "pass", "{init:?}: {text}");
    }
}

/// `one` writes p, `two` writes q, `sum` adds them, `last` doubles the sum. The program declares only some of the edges.
fn edges(folder: &Path, (declared, cause): (u32, EdgeCause), wrong: Option<&str>) -> PathBuf {
    let mut program = KnownRoles::new(folder, DumpFilter::ALL, 5);
    program.cause = cause;
    let [x, p, q, sum, last] = [0, 1, 2, 3, 4];
    program.memory[x].iter_mut().zip(1_u8..).for_each(|(value, at)| *value = at.into());
    let off = move |kernel: &str, at: usize| if wrong == Some(kernel) && at == 3 { 100.0 } else { 0.0 };
    let if_declared = |number: u32, task: u64| if declared >> number & 1 == 1 { vec![task] } else { vec![] };
    let one = program.task("one", (&[x], (p, N)), &[], |memory, at| memory[x][at] + 1.0 + off("one", at));
    let two = program.task("two", (&[x], (q, N)), &[], |memory, at| memory[x][at] * 3.0 + off("two", at));
    let waits = [if_declared(0, one), if_declared(1, two)].concat();
    let added = program.task("sum", (&[p, q], (sum, N)), &waits, |memory, at| {
        memory[p][at] + memory[q][at] + off("sum", at)
    });
    let waits = if_declared(2, added);
    program.task("last", (&[sum], (last, N)), &waits, |memory, at| memory[sum][at] * 2.0 + off("last", at));
    program.end()
}

/// The program says only that one task waits for another, or also why.
const CAUSES: [EdgeCause; 2] = [EdgeCause::Explicit, EdgeCause::ReadAfterWrite];

#[test]
fn a_program_that_declares_only_some_edges_gets_the_same_answer() {
    for (declared, cause) in (0..8).flat_map(|declared| CAUSES.map(|cause| (declared, cause))) {
        for kernel in ["one", "two", "sum", "last"] {
            let (document, text) = blamed_runs(
                |dir| edges(dir, (declared, cause), Some(kernel)),
                |dir| edges(dir, (declared, cause), None),
            );
            let (named, found, _) = first(&document);
            assert_eq!((&*named, &*found), (kernel, "wrong_here"), "{declared:b}: {text}");
            let later: &[&str] = match kernel {
                "one" | "two" => &["sum", "last"],
                "sum" => &["last"],
                _ => &[],
            };
            for task in later {
                assert_eq!(label(&document, task), Some("inherited"), "{declared:b} {kernel}: {text}");
            }
        }
        // Other edges are declared in the golden.
        let (document, text) = blamed_runs(
            |dir| edges(dir, (declared, cause), Some("two")),
            |dir| edges(dir, (7 - declared, cause), None),
        );
        assert!(!text.contains("raced with"), "{declared:b}: {text}");
        for kernel in ["one", "sum", "last"] {
            let label = label(&document, kernel).unwrap();
            assert!(
                !["wrong_here", "raced"].contains(&label),
                "{declared:b} {kernel}: {}",
                common::unwrapped(&text)
            );
        }
    }
}

/// How a run orders `gather` after `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Barrier {
    Waits,
    /// Nothing orders the two, and `gather` runs first.
    Missing,
    /// Nothing orders the two, and `gather` runs late enough.
    Lucky,
}

/// `init` and `scale` write y in one queue, `gather` reads y in another queue.
fn queues(folder: &Path, barrier: Barrier) -> PathBuf {
    let mut program = KnownRoles::new(folder, DumpFilter::ALL, 3);
    let [x, y, z] = [0, 1, 2];
    program.memory[x].iter_mut().zip(1_u8..).for_each(|(value, at)| *value = at.into());
    let [one, two] = ["one", "two"].map(|name| program.recorder.queue(name).unwrap());
    let gather = |program: &mut KnownRoles, waits: &[u64]| {
        program.queue = two;
        program.task("gather", (&[y], (z, N)), waits, |memory, at| memory[y][at] + 1.0);
        program.queue = one;
    };
    program.queue = one;
    let init = program.task("init", (&[], (y, N)), &[], |_, at| at as f32);
    if barrier == Barrier::Missing {
        gather(&mut program, &[init]);
    }
    let scale = program.task("scale", (&[x], (y, N)), &[init], |memory, at| memory[x][at] * 3.0);
    match barrier {
        Barrier::Waits => gather(&mut program, &[init, scale]),
        Barrier::Lucky => gather(&mut program, &[init]),
        Barrier::Missing => {}
    }
    program.end()
}

#[test]
fn a_missing_barrier_between_tasks_with_known_roles_is_a_race() {
    let compared = |ours, golden| blamed_runs(|dir| queues(dir, ours), |dir| queues(dir, golden));
    let (document, text) = compared(Barrier::Missing, Barrier::Waits);
    let (named, found, task) = first(&document);
    assert_eq!((&*named, &*found), ("gather", "raced"), "{text}");
    let scale = document["tasks"].as_array().unwrap().iter().find(|task| task["kernels"][0] == "scale");
    assert_eq!(label(&document, "scale"), Some("ok"), "{text}");
    assert!(task.to_string().contains(scale.unwrap()["task_id"].as_str().unwrap()), "{task:#}");
    for barrier in [Barrier::Waits, Barrier::Lucky] {
        let (document, text) = compared(barrier, Barrier::Waits);
        assert_eq!(document["verdict"], "pass", "{barrier:?}: {text}");
    }
}
