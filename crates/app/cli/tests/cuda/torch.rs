//! If the program's own allocator hands out parts of larger memory, a pointer reaches to the end of its
//! block.

use tensortap::{DumpStage, format::Dump};

use crate::{Bench, succeeded};

/// Number of words of the block that the allocator makes for a request.
fn block(words: usize) -> usize {
    words.next_multiple_of(128)
}

/// The arguments of each launch, in order: position, stage, content, and whether the extent is known.
fn seen(dump: &Dump) -> Vec<(u64, u16, DumpStage, Vec<u8>, bool)> {
    let records = dump.records().map(Result::unwrap).filter(|record| !record.shape().is_empty());
    let mut seen: Vec<_> = records
        .map(|record| {
            let content = dump.payload(&record).unwrap().to_vec();
            (record.task_id, record.arg_index, record.stage, content, record.extent_known)
        })
        .collect();
    seen.sort_unstable_by_key(|(task, arg, stage, ..)| (*task, *arg, *stage as u8));
    seen
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn blocks_of_an_allocator_like_pytorchs_are_known_and_its_reports_still_arrive() {
    // Two blocks. The first one is freed without a wait, and its memory is allocated again as a smaller
    // block.
    let plan = |bound: u32| {
        format!(
            "stream 1 1\ntorch {bound}\ntorch_alloc 0 200\ntorch_alloc 1 300\nput 1 0 0 7 200 0\nmix 1 0 10 1 5 3 90 0\n\
             torch_free 0\ntorch_alloc 2 50\nput 1 2 0 9 50 0\nput 1 0 150 1 1 0\nread 1 1 5 90\ntorch_reported 0\n"
        )
    };
    for bound in [0, 1] {
        let (bench, plan) = (Bench::new(), plan(bound));
        let alone = succeeded(&bench.program(&plan, None).output().unwrap());
        let recorded = succeeded(&bench.program(&plan, Some(("run", ""))).output().unwrap());
        assert_eq!(recorded, alone, "its results and its reports to the profiler");
        let fresh = |words: usize| vec![0xA5A5_A5A5_u32; words];
        let (mut first, mut second) = (fresh(block(200)), fresh(block(300)));
        let mut expected: Vec<(u16, DumpStage, Vec<u8>, bool)> = Vec::new();
        let (before, after) = (DumpStage::BeforeDispatch, DumpStage::AfterCompletion);
        expected.push((0, before, bytes(&first), true));
        (0..200).for_each(|at| first[at] = 7 + u32::try_from(at).unwrap());
        expected.push((0, after, bytes(&first), true));
        expected.push((0, before, bytes(&first[10..]), true));
        expected.push((0, after, bytes(&first[10..]), true));
        expected.push((1, before, bytes(&second[5..]), true));
        for at in 0..90 {
            second[5 + at] = second[5 + at].wrapping_mul(3).wrapping_add(first[10 + at]).wrapping_add(3);
        }
        expected.push((1, after, bytes(&second[5..]), true));
        // The first 128 words are a new block now.
        expected.push((0, before, bytes(&first[..128]), true));
        (0..50).for_each(|at| first[at] = 9 + u32::try_from(at).unwrap());
        expected.push((0, after, bytes(&first[..128]), true));
        // The rest of the old block belongs to no block. It is captured up to the next block, with an
        // uncertain extent.
        expected.push((0, before, bytes(&first[150..]), false));
        first[150] = 1;
        expected.push((0, after, bytes(&first[150..]), false));
        expected.push((0, before, bytes(&second[5..95]), true));
        let seen: Vec<_> = seen(&bench.dump("run"))
            .into_iter()
            .map(|(_, arg, stage, content, is_known)| (arg, stage, content, is_known))
            .collect();
        assert_eq!(seen.len(), expected.len());
        for (place, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!(
                (seen.0, seen.1, seen.2.len(), seen.3),
                (expected.0, expected.1, expected.2.len(), expected.3),
                "record {place} of binding {bound}"
            );
            assert!(seen.2 == expected.2, "content of record {place} of binding {bound}");
        }
    }
}

#[test]
fn a_repeated_launch_reaches_to_the_end_of_the_current_block() {
    let bench = Bench::new();
    // The same kernel with the same parameters three times, the last time with a smaller block at the same
    // address. Then a fourth launch with the first block again.
    let plan = "stream 1 1\ntorch 0\ntorch_alloc 0 200\nput 1 0 0 7 50 0\nput 1 0 0 7 50 0\ntorch_free 0\ntorch_alloc 2 50\nput 1 2 0 7 50 0\n\
                torch_free 2\ntorch_alloc 3 200\nput 1 3 0 7 50 0\n";
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let lengths: Vec<usize> =
        seen(&bench.dump("run")).iter().map(|(_, _, _, content, _)| content.len()).collect();
    let [large, small] = [200, 50].map(|words| 4 * block(words));
    assert_eq!(lengths, [large, large, large, large, small, small, large, large]);
}
