//! Computes from a dump, without the code under test, which tasks can have collided in a run with an injected
//! race.
//!
//! The rule: a race lets the successors of one task start before that task has run, and respects every other
//! dependency. So, by the run's captured times, exactly one task has edges to tasks that were dispatched
//! before it completed: the *late* task. Without its outgoing edges, it is unordered with the tasks they lead
//! to; every other pair is still ordered. A task *collided* with the late task if three facts hold. Edges lead
//! from the late task to it. One of both wrote a byte that the other read or wrote. It was dispatched before the
//! late task completed.
//!
//! A collision without harm must not be reported. The captured bytes show the harm:
//!
//! - A task *misread* if a byte of its input differs from what the previous task in dispatch order, which is
//!   a dependency order here, left there. That can only happen to bytes that the late task writes. The task
//!   read too early if the late task should have written the byte; the byte was overwritten if another task
//!   should have.
//! - A task is *torn* if its kernels, called here on its inputs, compute something else than was captured.
//!
//! A task that misread, or is torn, raced with the late task. The late task, if it is torn, raced with one of
//! the tasks that collided with it by writing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use tensortap::DumpStage;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::labels::{Label, Race, RaceKind};
use tensortap::format::{ArgumentKind, Dump, Edge, Record, TaskFacts};
use tensortap::scene::Scene;

use crate::oracle;

/// One argument at one stage.
struct View {
    arg_index: u16,
    /// Addresses of its bytes, in content order.
    runs: Vec<Range<u64>>,
    content: Vec<u8>,
}

/// A set of bytes in memory: disjoint ranges sorted by address.
struct Bytes(Vec<Range<u64>>);

impl Bytes {
    fn of(mut runs: Vec<Range<u64>>) -> Bytes {
        runs.sort_unstable_by_key(|run| run.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for run in runs {
            match joined.last_mut() {
                Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
                _ => joined.push(run),
            }
        }
        Bytes(joined)
    }

    /// The parts of a run that are in the set, in address order.
    fn shared_with(&self, run: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.0.partition_point(|own| own.end <= run.start);
        let own = self.0[first..].iter().take_while(move |own| own.start < run.end);
        own.map(move |own| own.start.max(run.start)..own.end.min(run.end))
    }

    fn meet(&self, others: &[Range<u64>]) -> bool {
        others.iter().any(|run| self.shared_with(run.clone()).next().is_some())
    }
}

struct Node {
    task: TaskFacts,
    before: Vec<View>,
    after: Vec<View>,
}

impl Node {
    fn end(&self) -> u64 {
        self.task.completed_ns.expect("completed")
    }

    fn reads(&self) -> Vec<Range<u64>> {
        self.before.iter().flat_map(|v| v.runs.iter().cloned()).collect()
    }

    fn writes(&self) -> Vec<Range<u64>> {
        self.after.iter().flat_map(|v| v.runs.iter().cloned()).collect()
    }
}

/// A run with a race, and what it did.
pub struct ExpectedRace {
    late: u64,
    /// Tasks that collided with the late one by writing.
    writers: BTreeSet<u64>,
    /// The arguments that tasks misread, with the kind of race.
    misread: BTreeMap<u64, BTreeMap<u16, RaceKind>>,
    torn: BTreeSet<u64>,
    /// Tasks, arguments and stages with other content than in a run without the race.
    differing: HashSet<(u64, u16, DumpStage)>,
}

impl ExpectedRace {
    /// Computes the expected race from a dump and from a dump of the same graph and venue without the race.
    pub fn of(dump: &Dump, plain: &Dump, scene: &dyn Scene, kernel: &str) -> Result<ExpectedRace, String> {
        let edges = dump.edges().expect("readable");
        let tasks: HashMap<u64, TaskFacts> =
            dump.tasks().expect("readable").iter().map(|t| (t.task_id, t.facts().clone())).collect();
        let late = late_task(&tasks, &edges)?;
        let damaged = scene.kernels().iter().find(|k| k.name == kernel).expect("of the scene").func_id;
        if !tasks[&late].func_id.contains(&damaged) {
            return Err(format!("{late:#x} was late, and is none of {kernel}"));
        }
        let nodes = nodes(dump, &tasks, late);
        let me = nodes.iter().find(|n| n.task.task_id == late).expect("one of them");
        let (touched, written) = (Bytes::of([me.reads(), me.writes()].concat()), Bytes::of(me.writes()));
        let below = reached(&edges, late, |e| (e.from, e.to));
        let collided = |n: &&Node| below.contains(&n.task.task_id) && n.task.dispatched_ns < me.end();
        let writers = nodes.iter().filter(collided).filter(|n| touched.meet(&n.writes()));
        let writers: BTreeSet<u64> = writers.map(|n| n.task.task_id).collect();
        let readers = nodes.iter().filter(collided).filter(|n| written.meet(&n.reads()));
        let suspects: BTreeSet<u64> =
            readers.map(|n| n.task.task_id).chain(writers.iter().copied()).chain([late]).collect();
        let torn = oracle::tasks(dump)
            .into_iter()
            .filter(|t| suspects.contains(&t.id()) && t.run(scene, None) != Some(true))
            .map(|t| t.id())
            .collect();
        let misread = misread(&nodes, &edges, late, &written);
        Ok(ExpectedRace { late, writers, misread, torn, differing: differing(dump, plain) })
    }

    /// Compares a report with the expected race.
    pub fn check(&self, blame: &Blame) -> Result<(), String> {
        let by_golden = blame.golden.is_some();
        let mut raced = 0;
        for (task, finding) in blame.graph.tasks().iter().zip(&blame.findings) {
            let id = task.task_id;
            let said = || format!("{id:#x} is {} {:?}", finding.label.name(), finding.race);
            let expected = if by_golden { self.harmed_by_golden(id) } else { self.harmed(id) };
            if (finding.label == Label::Raced) != expected.is_some() {
                return Err(format!("{}, and should have raced by {expected:?}", said()));
            }
            if finding.label == Label::WrongHere {
                return Err(said());
            }
            let Some(harm) = expected else { continue };
            raced += 1;
            let Some(Race { other, kind }) = finding.race else { return Err(said()) };
            let other = blame.graph.task(other).task_id;
            let right_pair = if id == self.late { self.writers.contains(&other) } else { other == self.late };
            let right_kind = match harm {
                RaceEffect::Torn => kind == RaceKind::Overlapped,
                RaceEffect::Misread(args) => finding.arg_index.and_then(|arg| args.get(&arg)) == Some(&kind),
            };
            if !right_pair || !right_kind {
                let (late, writers) = (self.late, &self.writers);
                return Err(format!("{} with {other:#x}; {late:#x} was late, writers {writers:x?}", said()));
            }
        }
        if raced == 0 { Err("nothing raced".into()) } else { Ok(()) }
    }

    /// The harm that a task shows by itself.
    fn harmed(&self, id: u64) -> Option<RaceEffect<'_>> {
        let torn = self.torn.contains(&id).then_some(RaceEffect::Torn);
        torn.or_else(|| self.misread.get(&id).map(RaceEffect::Misread))
    }

    /// The harm that a golden shows. Misread content counts only if it differs from the golden. A task with
    /// other wrong inputs inherits the error.
    fn harmed_by_golden(&self, id: u64) -> Option<RaceEffect<'_>> {
        let differs = |arg: u16| self.differing.contains(&(id, arg, DumpStage::BeforeDispatch));
        let misread = self.misread.get(&id).filter(|args| args.keys().any(|&arg| differs(arg)));
        let differs_at =
            |wanted| self.differing.iter().any(|&(task, _, stage)| task == id && stage == wanted);
        let torn = self.torn.contains(&id)
            && !differs_at(DumpStage::BeforeDispatch)
            && differs_at(DumpStage::AfterCompletion);
        misread.map(RaceEffect::Misread).or_else(|| torn.then_some(RaceEffect::Torn))
    }
}

#[derive(Debug)]
enum RaceEffect<'a> {
    Torn,
    Misread(&'a BTreeMap<u16, RaceKind>),
}

/// The task that its successors did not wait for.
fn late_task(tasks: &HashMap<u64, TaskFacts>, edges: &[Edge]) -> Result<u64, String> {
    let end = |id| tasks[&id].completed_ns.expect("completed");
    let broken = edges.iter().filter(|e| tasks[&e.to].dispatched_ns < end(e.from));
    let late: BTreeSet<u64> = broken.map(|e| e.from).collect();
    if let Some(edge) = edges.iter().find(|e| tasks[&e.from].dispatched_ns >= tasks[&e.to].dispatched_ns) {
        return Err(format!("{edge:?} is not in the order of dispatch"));
    }
    match late.iter().collect::<Vec<_>>().as_slice() {
        [late] => Ok(**late),
        _ => Err(format!("late are {late:x?}")),
    }
}

/// Tasks that touch the memory of the late task, including itself, in dispatch order.
fn nodes(dump: &Dump, tasks: &HashMap<u64, TaskFacts>, late: u64) -> Vec<Node> {
    let mut records: HashMap<u64, Vec<Record>> = HashMap::new();
    for record in dump.records().map(|r| r.expect("readable")).filter(|r| r.kind == ArgumentKind::Tensor) {
        records.entry(record.task_id).or_default().push(record);
    }
    let touched = Bytes::of(records[&late].iter().flat_map(oracle::runs).collect());
    let mut nodes = Vec::new();
    for (id, records) in &records {
        if !records.iter().any(|r| touched.meet(&[bounds(r)])) {
            continue;
        }
        let views = |stage: DumpStage| -> Vec<View> {
            let of_stage = records.iter().filter(|r| r.stage == stage);
            let view = |r: &Record| View {
                arg_index: r.arg_index,
                runs: oracle::runs(r),
                content: dump.payload(r).expect("stored"),
            };
            of_stage.map(view).collect()
        };
        let (before, after) = (views(DumpStage::BeforeDispatch), views(DumpStage::AfterCompletion));
        nodes.push(Node { task: tasks[id].clone(), before, after });
    }
    nodes.sort_by_key(|n| n.task.dispatched_ns);
    nodes
}

/// Address range of a view, including gaps.
fn bounds(record: &Record) -> Range<u64> {
    let (mut low, mut high) = (i128::from(record.start_offset), i128::from(record.start_offset));
    for (&size, &stride) in record.shape().iter().zip(record.strides()) {
        let reach = i128::from(size.saturating_sub(1)) * i128::from(stride);
        (low, high) = (low + reach.min(0), high + reach.max(0));
    }
    let width = i128::from(record.dtype.bits() / 8);
    let at = |element: i128| record.address + u64::try_from(element * width).expect("inside its buffer");
    at(low)..at(high + 1)
}

/// Arguments that differ from what earlier tasks left.
fn misread(
    nodes: &[Node],
    edges: &[Edge],
    late: u64,
    written: &Bytes,
) -> BTreeMap<u64, BTreeMap<u16, RaceKind>> {
    let mut misread: BTreeMap<u64, BTreeMap<u16, RaceKind>> = BTreeMap::new();
    let mut memory = Memory::new(written);
    for node in nodes {
        let id = node.task.task_id;
        let mut waited_for: Option<HashSet<u64>> = None;
        for view in &node.before {
            for (place, given) in memory.places(view) {
                let Some((_, by)) = memory.left[place].filter(|(left, _)| *left != given) else { continue };
                let above = waited_for.get_or_insert_with(|| reached(edges, id, |e| (e.to, e.from)));
                // Without a dependency, the memory was reused.
                if !above.contains(&by) {
                    continue;
                }
                // If the content of several writers is missing, a report names the newest, which is never the
                // late task.
                let args = misread.entry(id).or_default();
                if by == late {
                    args.entry(view.arg_index).or_insert(RaceKind::ReadTooEarly);
                } else {
                    args.insert(view.arg_index, RaceKind::Overwritten);
                }
            }
        }
        for view in &node.after {
            for (place, byte) in memory.places(view) {
                memory.left[place] = Some((byte, id));
            }
        }
    }
    misread
}

/// The last content and writer of each byte that the late task writes.
struct Memory<'b> {
    written: &'b Bytes,
    /// Where each range of `written` begins in `left`.
    begins: Vec<usize>,
    left: Vec<Option<(u8, u64)>>,
}

impl<'b> Memory<'b> {
    fn new(written: &'b Bytes) -> Memory<'b> {
        let mut begins = Vec::new();
        let mut bytes = 0;
        for range in &written.0 {
            begins.push(bytes);
            bytes += length(range);
        }
        Memory { written, begins, left: vec![None; bytes] }
    }

    /// The bytes of a view that the late task writes: their positions in `left` and their values in the view.
    fn places(&self, view: &View) -> Vec<(usize, u8)> {
        let (mut places, mut content) = (Vec::new(), 0);
        for run in &view.runs {
            for shared in self.written.shared_with(run.clone()) {
                let number = self.written.0.partition_point(|range| range.end <= shared.start);
                let at = self.begins[number] + length(&(self.written.0[number].start..shared.start));
                let from = content + length(&(run.start..shared.start));
                places.extend((at..).zip(view.content[from..][..length(&shared)].iter().copied()));
            }
            content += length(run);
        }
        assert_eq!(content, view.content.len(), "each byte of content has an address");
        places
    }
}

fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("small")
}

/// Tasks that can be reached through edges; `ends` gives the direction.
fn reached(edges: &[Edge], from: u64, ends: impl Fn(&Edge) -> (u64, u64)) -> HashSet<u64> {
    let mut next: HashMap<u64, Vec<u64>> = HashMap::new();
    for (near, far) in edges.iter().map(ends) {
        next.entry(near).or_default().push(far);
    }
    let (mut found, mut open) = (HashSet::new(), vec![from]);
    while let Some(id) = open.pop() {
        for &far in next.get(&id).into_iter().flatten() {
            if found.insert(far) {
                open.push(far);
            }
        }
    }
    found
}

/// Tensors that differ from a run of the same graph at the same venue without the race.
fn differing(dump: &Dump, plain: &Dump) -> HashSet<(u64, u16, DumpStage)> {
    let contents = |dump: &Dump| -> HashMap<(u64, u16, DumpStage), Option<u128>> {
        let tensors = dump.records().map(|r| r.expect("readable")).filter(|r| r.kind == ArgumentKind::Tensor);
        tensors.map(|r| ((r.task_id, r.arg_index, r.stage), r.hash)).collect()
    };
    let right = contents(plain);
    let ours = contents(dump);
    ours.into_iter().filter(|(key, hash)| right[key] != *hash).map(|(key, _)| key).collect()
}
