//! Tests decisions: the first of equal ranges is new, and stored content is not.

use super::*;

/// The device's decisions about ranges.
fn decide(kernels: &Kernels, content: &[u8], asked: &[RangeCase], set: &Buffer, mask: u32) -> Vec<Decision> {
    let Kernels { device, program, build } = kernels;
    let buffers = [device.buffer(content)];
    let sources: Vec<Source> = asked.iter().map(RangeCase::source).collect();
    let plans = Plan::by_buffer(&sources).unwrap();
    let results = device.buffer(&vec![0; asked.len() * size_of::<RangeResult>()]);
    let decisions = device.buffer(&vec![0xff; asked.len() * 4]);
    for plan in &plans {
        launch(kernels, plan, &buffers, &results);
        let ranges = device.buffer(plan.ranges().as_bytes());
        let count = u32::try_from(plan.ranges().len()).unwrap();
        let mut args = vec![Arg::Word(count)];
        args.extend([&ranges, &results, set].map(Arg::Buffer));
        args.extend([Arg::Word(mask), Arg::Buffer(&decisions)]);
        device.launch(program, DECIDE, plan.decide_groups(build), build.group, &args);
    }
    let words = device.read(&decisions, asked.len() * 4);
    let words = <[u32]>::ref_from_bytes(&words).unwrap();
    words.iter().map(|word| Decision::from_word(*word).expect("a decision")).collect()
}

#[test]
fn equal_ranges_are_new_exactly_once() {
    // Blocks of 1,000 bytes: 300 distinct ones, each several times.
    let content: Vec<u8> = (0..2000_u32).flat_map(|block| noise((block * 7 % 300).into(), 1000)).collect();
    let asked: Vec<RangeCase> = (0..2000).map(|block| RangeCase::of(0, block * 1000, 1000, None)).collect();
    each(|kernels| {
        let known = tensortap_values::content_hash(&content[5000..6000]);
        let mut stored = StoredHashes::with_room(300);
        assert_eq!(stored.insert(known), Decision::New);
        let set = kernels.device.buffer(stored.slots().as_bytes());
        let first = decide(kernels, &content, &asked, &set, stored.mask());
        let mut new_of = vec![0; 300];
        for (block, decision) in first.iter().enumerate() {
            assert_ne!(*decision, Decision::NewUnkept);
            new_of[block * 7 % 300] += usize::from(*decision == Decision::New);
        }
        let expected: Vec<usize> = (0..300).map(|block| usize::from(block != 35)).collect();
        assert_eq!(new_of, expected, "each content is new once, except the stored one");
        let again = decide(kernels, &content, &asked, &set, stored.mask());
        assert!(again.iter().all(|decision| *decision == Decision::Stored));
        // The set on the device has one slot per content.
        let slots = kernels.device.read(&set, stored.slots().len() * 16);
        let slots = <[[u32; 4]]>::ref_from_bytes(&slots).unwrap();
        assert_eq!(slots.iter().filter(|slot| **slot != [0; 4]).count(), 300);
        assert!(
            slots.iter().all(|slot| *slot == [0; 4] || slot.iter().all(|word| *word != 0)),
            "whole hashes"
        );
    });
}

#[test]
fn a_full_set_reports_content_it_cannot_keep() {
    let content = noise(21, 100 * 64);
    let asked: Vec<RangeCase> = (0..100).map(|block| RangeCase::of(0, block * 64, 64, None)).collect();
    each(|kernels| {
        let stored = StoredHashes::with_room(16);
        let set = kernels.device.buffer(stored.slots().as_bytes());
        for round in 0..2 {
            let decisions = decide(kernels, &content, &asked, &set, stored.mask());
            let count = |wanted| decisions.iter().filter(|decision| **decision == wanted).count();
            assert_eq!(count(Decision::NewUnkept), 100 - 32);
            assert_eq!(count(if round == 0 { Decision::New } else { Decision::Stored }), 32);
        }
    });
}
