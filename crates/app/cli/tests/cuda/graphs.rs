//! A graph launch is one task with the memory of all its nodes. The nodes may be captured, added or changed.

use tensortap::{
    DumpStage,
    format::{Dump, PayloadState},
};

use crate::{Bench, plan::WORDS, succeeded};

/// The device memory, by buffer.
struct World(Vec<Vec<u32>>);

/// The ranges of a graph launch: length, content, and whether the extent is known. The length identifies a
/// range here.
type Ranges = Vec<(usize, Vec<u32>, bool)>;

impl World {
    fn put(&mut self, buffer: usize, at: usize, k: u32, words: usize) {
        (0..words).zip(k..).for_each(|(word, value)| self.0[buffer][at + word] = value);
    }

    /// A range from a word to the end of its buffer, or of a known number of words.
    fn range(&self, buffer: usize, at: usize, words: Option<usize>) -> (usize, Vec<u32>, bool) {
        let words_of = words.unwrap_or(self.0[buffer].len() - at);
        (4 * words_of, self.0[buffer][at..at + words_of].to_vec(), words.is_some())
    }
}

/// The ranges of each task before and after it, in the order of submission.
fn seen(dump: &Dump) -> Vec<(&'static str, Ranges, Ranges)> {
    let tasks = dump.tasks().unwrap();
    let of = |task: u64, stage: DumpStage| {
        let records = dump.records().map(Result::unwrap);
        let records = records.filter(|record| record.task_id == task && record.stage == stage);
        let mut ranges: Ranges = records
            .filter(|record| !record.shape().is_empty())
            .map(|record| {
                let bytes = dump.payload(&record).unwrap().to_vec();
                let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
                (bytes.len(), words, record.extent_known)
            })
            .collect();
        ranges.sort_unstable();
        ranges
    };
    let mut all: Vec<_> =
        tasks.iter().map(|task| (task.key().task_id, task.facts().operation.name())).collect();
    all.sort_unstable();
    all.into_iter()
        .map(|(id, name)| (name, of(id, DumpStage::BeforeDispatch), of(id, DumpStage::AfterCompletion)))
        .collect()
}

fn sorted(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    ranges
}

#[test]
fn graphs_with_any_number_of_ranges_are_captured_completely() {
    let bench = Bench::new();
    for count in [16_usize, 17, 80, 200] {
        let words = |at: usize| 10 + at % 7;
        let mut plan = String::from("stream 1 1\ngraph 0\n");
        for at in 0..count {
            plan += &format!("alloc {at} {}\nnode 0 {at} {at} 0 {} {}\n", words(at), at * 5, words(at));
        }
        plan += "make 0 0\nrun 1 0\nsync 1\n";
        for level in ["full", "hash"] {
            let (run, options) = (format!("{level}{count}"), format!("--dump-tensor={level}"));
            succeeded(&bench.program(&plan, Some((&run, &options))).output().unwrap());
            let dump = bench.dump(&run);
            let hashes = |stage: DumpStage| {
                let records = dump.records().map(Result::unwrap).filter(|record| record.stage == stage);
                let mut hashes: Vec<u128> = records.map(|record| record.hash.unwrap()).collect();
                hashes.sort_unstable();
                hashes
            };
            let expected = |content: &dyn Fn(usize) -> Vec<u8>| {
                let hash = |at| tensortap::values::content_hash(&content(at));
                let mut hashes: Vec<u128> = (0..count).map(hash).collect();
                hashes.sort_unstable();
                hashes
            };
            let left = |at: usize| {
                let word = |word: usize| u32::try_from(at * 5 + word).unwrap().to_le_bytes();
                (0..words(at)).flat_map(word).collect::<Vec<u8>>()
            };
            let given = expected(&|at| vec![0xA5; 4 * words(at)]);
            assert!(hashes(DumpStage::BeforeDispatch) == given, "{run}: what it is given");
            assert!(hashes(DumpStage::AfterCompletion) == expected(&left), "{run}: what it leaves");
            let mut stored = dump.records().map(Result::unwrap);
            let is_stored = |record: tensortap::format::Record| record.payload == PayloadState::Stored;
            assert!(level == "hash" || stored.all(is_stored), "{run}");
        }
    }
}

#[test]
fn a_graph_launch_is_one_task_with_the_union_of_its_nodes_ranges() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nalloc 1 3000\nalloc 2 1500\nalloc 3 256\n\
        capture 1\nput 1 0 100 5 50 0\nmix 1 0 100 1 0 3 50 1\nfill 1 2 0 9 20\ncopy 1 3 0 2 0 10 0\ncaptured 1 0\n\
        make 0 0\nrun 1 0\nrun 1 0\nput 1 3 0 4 4 0\n\
        graph 1\nnode 1 0 3 4 7 10\nmake 1 1\nrun 1 1\nset 1 0 2 8 50 5\nrun 1 1\n\
        graph 2\nchild 2 1\nnode 2 1 0 2000 1 3\nmake 2 2\nrun 1 2\nupdate 1 2\nrun 1 1\ndestroy 2\nread 1 1 0 60\n";
    let alone = succeeded(&bench.program(plan, None).output().unwrap());
    let output = bench.program(plan, Some(("run", ""))).output().unwrap();
    assert_eq!(succeeded(&output), alone);

    let mut world = World(WORDS.map(|words| vec![0xA5A5_A5A5; words]).to_vec());
    let mut expected: Vec<(&str, Ranges, Ranges)> = Vec::new();
    let captured = |world: &World| {
        sorted(vec![
            world.range(0, 100, None),
            world.range(1, 0, None),
            world.range(2, 0, Some(20)),
            world.range(3, 0, Some(10)),
        ])
    };
    for _ in 0..2 {
        let before = captured(&world);
        world.put(0, 100, 5, 50);
        for at in 0..50 {
            world.0[1][at] =
                world.0[1][at].wrapping_mul(3).wrapping_add(world.0[0][100 + at]).wrapping_add(3);
        }
        world.0[2][..20].fill(9);
        world.0[3][..10].fill(9);
        expected.push(("graph", before, captured(&world)));
    }
    let before = vec![world.range(3, 0, None)];
    world.put(3, 0, 4, 4);
    expected.push(("kernel", before, vec![world.range(3, 0, None)]));
    // A node that was added and then changed.
    let before = vec![world.range(3, 4, None)];
    world.put(3, 4, 7, 10);
    expected.push(("graph", before, vec![world.range(3, 4, None)]));
    let before = vec![world.range(2, 8, None)];
    world.put(2, 8, 50, 5);
    expected.push(("graph", before, vec![world.range(2, 8, None)]));
    // A child graph, and a graph that replaces it.
    for _ in 0..2 {
        let both = |world: &World| sorted(vec![world.range(3, 4, None), world.range(0, 2000, None)]);
        let before = both(&world);
        world.put(3, 4, 7, 10);
        world.put(0, 2000, 1, 3);
        expected.push(("graph", before, both(&world)));
    }
    expected.push(("host_read", vec![world.range(1, 0, Some(60))], vec![]));

    let dump = bench.dump("run");
    assert!(dump.uncaptured().unwrap().is_empty(), "{:?}", dump.uncaptured().unwrap().first());
    let seen = seen(&dump);
    assert_eq!(seen.len(), expected.len());
    for (place, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        let shape = |ranges: &Ranges| {
            ranges.iter().map(|(bytes, _, is_known)| (*bytes, *is_known)).collect::<Vec<_>>()
        };
        assert_eq!(
            (seen.0, shape(&seen.1), shape(&seen.2)),
            (expected.0, shape(&expected.1), shape(&expected.2)),
            "task {place}"
        );
        assert!(seen.1 == expected.1, "what task {place} finds");
        assert!(seen.2 == expected.2, "what task {place} leaves");
    }
}

#[test]
fn blocks_reused_within_a_capture_keep_their_sizes_at_capture() {
    let bench = Bench::new();
    // The second block takes the first half of the first block's memory.
    let plan = "stream 1 1\ntorch 0\ntorch_alloc 0 200\ncapture 1\nput 1 0 0 7 200 0\ntorch_free 0\ntorch_alloc 1 50\nput 1 1 0 9 50 0\n\
        torch_free 1\ncaptured 1 0\nmake 0 0\nrun 1 0\n";
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let mut left = World(vec![vec![0xA5A5_A5A5; 256]]);
    let before = vec![(1024, left.0[0].clone(), true)];
    left.put(0, 0, 7, 200);
    left.put(0, 0, 9, 50);
    assert!(seen(&bench.dump("run")) == [("graph", before, vec![(1024, left.0[0].clone(), true)])]);
}
