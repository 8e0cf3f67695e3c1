//! How long it takes to read memory and do next to nothing with it.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

/// Read from one buffer before the other has its turn: both streams are under way at once, as when they are compared.
const TURN_BYTES: usize = 4096;

/// Seconds to read two buffers of one length, each cut into a part per thread.
pub fn time_reading(one: &[u8], other: &[u8], threads: usize) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 1..threads {
            scope.spawn(move || read_part(one, other, number, threads));
        }
        read_part(one, other, 0, threads);
    });
    start.elapsed().as_secs_f64()
}

fn read_part(one: &[u8], other: &[u8], number: usize, threads: usize) {
    let length = one.len().div_ceil(threads).max(1);
    let (Some(one), Some(other)) = (one.chunks(length).nth(number), other.chunks(length).nth(number)) else {
        return;
    };
    for (one, other) in one.chunks(TURN_BYTES).zip(other.chunks(TURN_BYTES)) {
        black_box(fold(one) ^ fold(other));
    }
}

/// Takes every word into account, several at a time.
fn fold(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut lanes = [0_u64; 16];
    let (groups, single) = words.as_chunks::<16>();
    for group in groups {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane ^= u64::from_le_bytes(*word);
        }
    }
    let tail = single.iter().flatten().chain(rest).fold(0, |all, byte| all ^ u64::from(*byte));
    lanes.into_iter().fold(tail, |all, lane| all ^ lane)
}
