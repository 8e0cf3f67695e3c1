use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::error::Interrupted;
use crate::interrupt::Interrupt;

/// As the dump writes: pieces of this size, at multiples of it.
const PIECE_BYTES: usize = 1 << 20;
/// As large as the default arena, so that neither side finds its bytes in a cache.
const SOURCE_BYTES: usize = 64 << 20;

/// What a plain writer writes.
pub struct Source {
    bytes: Vec<u8>,
}

impl Source {
    /// Bytes that no disk can compress.
    pub fn new() -> Source {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut bytes = Vec::with_capacity(SOURCE_BYTES);
        while bytes.len() < SOURCE_BYTES {
            // A xorshift generator: any full-period one does.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        Source { bytes }
    }

    /// Writes `total` bytes, a multiple of the piece, to a new file, one piece after the other, and syncs them.
    pub fn write(&self, path: &Path, total: u64, interrupt: &Interrupt) -> anyhow::Result<Duration> {
        let told = || format!("writing {}", path.display());
        let started = Instant::now();
        let file = File::create_new(path).with_context(told)?;
        let pieces = self.bytes.chunks_exact(PIECE_BYTES).cycle();
        for (offset, piece) in (0..total).step_by(PIECE_BYTES).zip(pieces) {
            if interrupt.requested() {
                return Err(Interrupted.into());
            }
            file.write_all_at(piece, offset).with_context(told)?;
        }
        file.sync_data().with_context(told)?;
        Ok(started.elapsed())
    }
}
