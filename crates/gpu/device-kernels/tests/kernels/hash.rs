//! Tests hashes of every length and alignment against the host.

use tensortap_values::content_hash;

use super::*;

fn check(kernels: &Kernels, content: &[u8], asked: &[RangeCase]) {
    for (asked, outcome) in asked.iter().zip(outcomes(kernels, &[content], asked)) {
        let expected = content_hash(&content[asked.offset..][..asked.bytes]);
        let &RangeCase { offset, bytes, .. } = asked;
        assert_eq!(
            outcome.hash, expected,
            "{bytes} bytes at {offset}, {:?} on {}",
            kernels.build, kernels.device.name
        );
    }
}

#[test]
fn hashes_lengths_around_every_boundary_at_every_alignment() {
    // The last range ends with the buffer, so nothing can be read after it.
    let content = noise(1, 9024);
    each(|kernels| {
        for alignment in [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 24] {
            let near = |edge: usize| edge.saturating_sub(20)..=edge + 20;
            let edges = [0, 64, 128, 240, 1024, 2048, 3072, 4096, 8192, 8980];
            let lengths = (0..=260).chain(edges.into_iter().flat_map(near));
            let fits = lengths.filter(|length| alignment + length <= content.len());
            let asked: Vec<RangeCase> =
                fits.map(|length| RangeCase::of(0, alignment, length, None)).collect();
            check(kernels, &content, &asked);
        }
    });
}

#[test]
fn hashes_every_length_up_to_9000_bytes() {
    let content = noise(2, 9100);
    each(|kernels| {
        let asked: Vec<RangeCase> =
            (0..=9000).map(|length| RangeCase::of(0, length % 17, length, None)).collect();
        check(kernels, &content, &asked);
    });
}

#[test]
fn hashes_a_range_that_ends_with_its_buffer() {
    each(|kernels| {
        for bytes in [1, 13, 255, 4095, 4097, 12_291] {
            let content = noise(3, bytes);
            let asked: Vec<RangeCase> =
                (0..bytes.min(20)).map(|begin| RangeCase::of(0, begin, bytes - begin, None)).collect();
            check(kernels, &content, &asked);
        }
    });
}

#[test]
fn hashes_large_ranges_of_random_sizes_and_offsets() {
    let content = noise(4, 40 << 20);
    let bundle = 64 * 4096;
    each(|kernels| {
        let mut random = fastrand::Rng::with_seed(5);
        let edges = [15, 16, 17, 63, 64, 65, 67, 128, 1023, 1024, 1025].map(|leaves| leaves * 4096);
        let mut asked = Vec::new();
        for edge in edges.into_iter().chain([17 * bundle, 33 * bundle, 48 * bundle]) {
            asked.extend(
                [edge - 1, edge, edge + 1].map(|bytes| RangeCase::of(0, random.usize(..40), bytes, None)),
            );
            asked.push(RangeCase::of(0, 16 * random.usize(..1000), edge, None));
        }
        for _ in 0..20 {
            let bytes = random.usize(..8 << 20);
            asked.push(RangeCase::of(0, random.usize(..content.len() - bytes), bytes, None));
        }
        asked.push(RangeCase::of(0, 0, content.len(), None));
        check(kernels, &content, &asked);
    });
}

#[test]
fn hashes_ranges_of_more_buffers_than_a_launch_has() {
    let contents: Vec<Vec<u8>> =
        (0..19).map(|seed| noise(seed, 5000 + 700 * usize::try_from(seed).unwrap())).collect();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let asked: Vec<RangeCase> = (0..60).map(|i| RangeCase::of(i * 7 % 19, i, 4000 + 10 * i, None)).collect();
    each(|kernels| {
        for (asked, outcome) in asked.iter().zip(outcomes(kernels, &contents, &asked)) {
            let expected = content_hash(&contents[asked.buffer][asked.offset..][..asked.bytes]);
            assert_eq!(outcome.hash, expected, "buffer {}", asked.buffer);
        }
    });
}

#[test]
fn every_changed_byte_changes_the_hash() {
    let bytes = 300_000;
    each(|kernels| {
        let mut random = fastrand::Rng::with_seed(6);
        let mut content = noise(7, bytes);
        let asked = [RangeCase::of(0, 3, bytes - 3, None), RangeCase::of(0, 0, bytes, None)];
        let before = outcomes(kernels, &[&content], &asked);
        for place in [3, bytes - 1, 4095, 4096, random.usize(3..bytes), random.usize(3..bytes)] {
            content[place] ^= 1 << random.u32(..8);
            for (before, after) in before.iter().zip(outcomes(kernels, &[&content], &asked)) {
                assert_ne!(before.hash, after.hash, "byte {place}");
            }
            check(kernels, &content, &asked);
            content = noise(7, bytes);
        }
    });
}
