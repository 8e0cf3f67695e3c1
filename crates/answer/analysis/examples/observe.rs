//! Measures the analysis of graphs with unknown roles and many tasks: `cargo run --release -p
//! tensortap-analysis --example observe [TASKS [SHAPE]]` prints for each graph shape the seconds for the
//! order of tasks, the seconds for the whole analysis, and the peak memory.
//!
//! To count instructions instead of seconds, run the built example under `valgrind --tool=callgrind` or `perf
//! stat -e instructions:u`.

use std::time::Instant;

use tensortap_abi::{DType, DumpStage, NO_KERNEL, Role, SLOTS_PER_TASK};
use tensortap_analysis::graph::TaskGraph;
use tensortap_analysis::observation::Order;
use tensortap_format::{
    AllocationEvent, ArgumentKind, ArgumentRecord, Assembler, Edge, PayloadState, TaskFacts, TaskKey,
    TaskPart, Tasks,
};

/// First byte, rows and columns, strides in bytes.
type View = (u64, [u64; 2], [i64; 2]);

/// Builds a graph task by task.
#[derive(Default)]
struct GraphBuilder {
    assembler: Assembler,
    edges: Vec<(u64, u64)>,
    count: u64,
}

impl GraphBuilder {
    /// Adds a task with a queue, the tasks it waits for, and its ranges (first byte, bytes). The task changes
    /// the last range.
    fn task(&mut self, queue: u32, waits: &[u64], given: &[(u64, u64)]) -> u64 {
        let given: Vec<View> = given.iter().map(|&(from, bytes)| (from, [1, bytes], [0, 1])).collect();
        self.task_of_views(queue, waits, &given)
    }

    /// The same with views.
    fn task_of_views(&mut self, queue: u32, waits: &[u64], given: &[View]) -> u64 {
        let task_id = self.count;
        self.count += 1;
        let key = TaskKey { step: 0, task_id };
        let mut facts = TaskFacts::unknown(key);
        facts.tensor_count = u32::try_from(given.len()).expect("few arguments");
        (facts.queue, facts.dispatched_ns) = (queue, task_id + 1);
        facts.completed_ns = Some(task_id + 2);
        self.assembler.take(TaskPart::Task(facts));
        for (arg_index, (from, shape, strides)) in (0_u16..).zip(given) {
            let is_last = usize::from(arg_index) + 1 == given.len();
            for stage in [DumpStage::BeforeDispatch, DumpStage::AfterCompletion] {
                let is_after = stage == DumpStage::AfterCompletion;
                let hash = u128::from(if is_last && is_after { task_id } else { u64::MAX });
                let number = task_id * 16 + u64::from(arg_index) * 2 + u64::from(is_after);
                self.assembler.take(TaskPart::Argument(ArgumentRecord {
                    number,
                    task: key,
                    func_id: [NO_KERNEL; SLOTS_PER_TASK],
                    stage,
                    arg_index,
                    kind: ArgumentKind::Tensor,
                    role: Role::InOut,
                    dtype: DType::UInt8,
                    dtype_known: false,
                    role_known: false,
                    extent_known: true,
                    host_writable: false,
                    shape,
                    strides,
                    start_offset: 0,
                    address: 0x10_0000 + from,
                    scalar_bits: None,
                    hash: Some(hash),
                    payload: PayloadState::Stored,
                    bytes: shape.iter().product(),
                    in_flight: false,
                    name: 0,
                }));
            }
        }
        self.edges.extend(waits.iter().map(|&from| (from, task_id)));
        task_id
    }

    fn finish(mut self) -> Tasks {
        for (from, to) in self.edges {
            let edge = Edge { step: 0, from_step: 0, from, to, arg_index: 0, why: "event" };
            self.assembler.take(TaskPart::Edge(edge));
        }
        self.assembler.finish(&[])
    }
}

const BUFFER: u64 = 4096;

/// Repeats: a barrier, then `width` tasks. Each task uses one shared buffer and one of its own.
fn fork_join(tasks: u64, width: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut barrier = made.task(1, &[], &[]);
    while made.count < tasks {
        let branches: Vec<u64> = (0..width)
            .map(|branch| made.task(1, &[barrier], &[(0, BUFFER), ((branch + 1) * BUFFER, BUFFER)]))
            .collect();
        barrier = made.task(1, &branches, &[]);
    }
    made.finish()
}

/// The same, with each branch in its own in-order queue.
fn fork_join_in_queues(tasks: u64, width: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut barrier = made.task(0, &[], &[]);
    let mut lasts: Vec<Option<u64>> = vec![None; usize::try_from(width).expect("few queues")];
    while made.count < tasks {
        for branch in 0..width {
            let last = &mut lasts[usize::try_from(branch).expect("few queues")];
            let waits: Vec<u64> = last.iter().copied().chain([barrier]).collect();
            let queue = u32::try_from(branch).expect("few queues") + 1;
            *last = Some(made.task(queue, &waits, &[(0, BUFFER), ((branch + 1) * BUFFER, BUFFER)]));
        }
        let all: Vec<u64> = lasts.iter().flatten().copied().chain([barrier]).collect();
        barrier = made.task(0, &all, &[]);
    }
    made.finish()
}

/// In-order queues, with an event between two of them every `every` tasks (0: never).
fn queues(tasks: u64, count: u64, every: u64, segment: bool) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut lasts: Vec<Option<u64>> = vec![None; usize::try_from(count).expect("few queues")];
    let mut random = fastrand::Rng::with_seed(7);
    while made.count < tasks {
        let queue = usize::try_from(made.count % count).expect("few queues");
        let mut waits: Vec<u64> = lasts[queue].into_iter().collect();
        if every > 0 && made.count % every < count {
            waits.extend(lasts[random.usize(..lasts.len())]);
        }
        let range = |random: &mut fastrand::Rng| match segment {
            // Like an allocator that hides extents: from a pointer to the end of the pool.
            true => {
                let from = random.u64(..2048) * 512;
                (from, 2048 * 512 - from)
            }
            false => (random.u64(..64) * BUFFER, BUFFER),
        };
        let given = [range(&mut random), range(&mut random)];
        let number = u32::try_from(queue).expect("few queues") + 1;
        lasts[queue] = Some(made.task(number, &waits, &given));
    }
    made.finish()
}

/// An out-of-order queue whose tasks wait for up to three of the last `window`.
fn out_of_order(tasks: u64, window: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut random = fastrand::Rng::with_seed(11);
    while made.count < tasks {
        let latest = made.count.min(window);
        let waits = if latest == 0 { 0 } else { random.u64(1..=3) };
        let waits: Vec<u64> = (0..waits).map(|_| made.count - 1 - random.u64(..latest)).collect();
        let given = [(random.u64(..1024) * BUFFER, BUFFER), (random.u64(..1024) * BUFFER, BUFFER)];
        made.task(1, &waits, &given);
    }
    made.finish()
}

/// Tasks without any order. Each uses one shared buffer and one of its own.
fn unordered(tasks: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    while made.count < tasks {
        let own = (made.count + 1) * BUFFER;
        made.task(1, &[], &[(0, BUFFER), (own, BUFFER)]);
    }
    made.finish()
}

/// A worst case: each task waits for two arbitrary earlier ones, so neither few chains nor short windows
/// describe the order.
fn hostile(tasks: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut random = fastrand::Rng::with_seed(13);
    while made.count < tasks {
        let latest = made.count;
        let waits: Vec<u64> = (0..latest.min(2)).map(|_| random.u64(latest / 2..latest)).collect();
        made.task(1, &waits, &[(0, BUFFER), (random.u64(..1024) * BUFFER, BUFFER)]);
    }
    made.finish()
}

/// Each task waits for `edges` arbitrary earlier ones and uses ranges of a few buffers.
fn random_edges(tasks: u64, edges: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut random = fastrand::Rng::with_seed(17);
    while made.count < tasks {
        let latest = made.count;
        let waits: Vec<u64> = (0..latest.min(edges)).map(|_| random.u64(..latest)).collect();
        made.task(1, &waits, &[(random.u64(..64) * BUFFER, BUFFER), (random.u64(..64) * BUFFER, BUFFER)]);
    }
    made.finish()
}

/// Interleaved rows of one region: views with gaps, in queues without order between them.
fn strided(tasks: u64, count: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut lasts: Vec<Option<u64>> = vec![None; usize::try_from(count).expect("few queues")];
    let mut random = fastrand::Rng::with_seed(19);
    while made.count < tasks {
        let queue = usize::try_from(made.count % count).expect("few queues");
        let view = |random: &mut fastrand::Rng| {
            (random.u64(..4096), [random.u64(2..64), random.u64(1..32)], [random.i64(40..4096), 1])
        };
        let given = [view(&mut random), view(&mut random)];
        let waits: Vec<u64> = lasts[queue].into_iter().collect();
        let number = u32::try_from(queue).expect("few queues") + 1;
        lasts[queue] = Some(made.task_of_views(number, &waits, &given));
    }
    made.finish()
}

/// Mostly different ranges of one region, in queues that wait for each other now and then.
fn nested(tasks: u64, count: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut lasts: Vec<Option<u64>> = vec![None; usize::try_from(count).expect("few queues")];
    let mut random = fastrand::Rng::with_seed(23);
    while made.count < tasks {
        let queue = usize::try_from(made.count % count).expect("few queues");
        let mut waits: Vec<u64> = lasts[queue].into_iter().collect();
        if made.count % 100 < count {
            waits.extend(lasts[random.usize(..lasts.len())]);
        }
        let range = |random: &mut fastrand::Rng| (random.u64(..1 << 30), random.u64(1..1 << 30));
        let given = [range(&mut random), range(&mut random)];
        let number = u32::try_from(queue).expect("few queues") + 1;
        lasts[queue] = Some(made.task(number, &waits, &given));
    }
    made.finish()
}

/// Memory that is allocated and freed all the time, below ranges that contain all of it.
fn renewed(tasks: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    let mut lasts = [None; 4];
    while made.count < tasks {
        let queue = usize::try_from(made.count % 4).expect("few queues");
        let waits: Vec<u64> = lasts[queue].into_iter().collect();
        let range = (made.count * BUFFER, BUFFER);
        let memory = AllocationEvent {
            at_ns: made.count,
            address: 0x10_0000,
            bytes: 1 << 40,
            freed: false,
            host_writable: false,
            ..AllocationEvent::default()
        };
        made.assembler.take(TaskPart::AllocationEvent(memory));
        lasts[queue] =
            Some(made.task(u32::try_from(queue).expect("few queues") + 1, &waits, &[range, range]));
    }
    made.finish()
}

/// The tasks between the recorded ones are missing, and each has many predecessors.
fn missing(tasks: u64) -> Tasks {
    let mut made = GraphBuilder::default();
    for _ in 0..tasks {
        made.task(1, &[], &[(0, BUFFER)]);
    }
    let (many, hub) = (tasks * 4, 1 << 40);
    made.edges.extend((0..tasks).map(|from| (from, hub)));
    for number in 0..many {
        let missing = hub + 1 + number;
        made.edges.extend([(hub, missing), (missing + 1, missing)]);
    }
    made.edges.push((hub + 1, tasks - 1));
    made.finish()
}

type Shape = (&'static str, fn(u64) -> Tasks);

const SHAPES: [Shape; 16] = [
    ("one-queue", |tasks| queues(tasks, 1, 0, false)),
    ("four-queues", |tasks| queues(tasks, 4, 100, false)),
    ("four-queues-apart", |tasks| queues(tasks, 4, 0, false)),
    ("four-queues-segment", |tasks| queues(tasks, 4, 100, true)),
    ("fork-join-1000", |tasks| fork_join(tasks, 1000)),
    ("fork-join-1000-queues", |tasks| fork_join_in_queues(tasks, 1000)),
    ("out-of-order-50", |tasks| out_of_order(tasks, 50)),
    ("out-of-order-1000", |tasks| out_of_order(tasks, 1000)),
    ("unordered", unordered),
    ("hostile", hostile),
    ("random-edges-20", |tasks| random_edges(tasks, 20)),
    ("strided", |tasks| strided(tasks, 1)),
    ("strided-queues", |tasks| strided(tasks, 4)),
    ("nested", |tasks| nested(tasks, 4)),
    ("renewed", renewed),
    ("missing", missing),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let tasks: u64 = words.next().map_or(100_000, |count| count.parse().expect("TASKS is a number"));
    let only = words.next();
    println!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "shape", "tasks", "order s", "all s", "peak MiB", "undecided"
    );
    for (name, shape) in SHAPES.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let tasks = shape(tasks);
        let begun = Instant::now();
        let order = Order::of(&tasks);
        let order_s = begun.elapsed().as_secs_f64();
        drop(order);
        let (count, begun) = (tasks.len(), Instant::now());
        let graph = TaskGraph::build(tasks, None);
        let all_s = begun.elapsed().as_secs_f64();
        let seen = graph.observations().expect("roles are not known");
        let undecided = seen.undecided_count();
        println!(
            "{name:<24} {count:>9} {order_s:>9.2} {all_s:>9.2} {:>9} {undecided:>9} {:?}",
            peak_mib(),
            seen.counts()
        );
    }
}

/// Peak memory of this process in MiB, which is that of the largest shape so far.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
