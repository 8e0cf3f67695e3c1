//! The plain write that dumps are compared with.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::error::io;

/// Pieces of this size at multiples of it, like the dump.
const PIECE_BYTES: usize = 1 << 20;
/// As large as the default arena, so that neither side reads from a cache.
const SOURCE_BYTES: usize = 64 << 20;
/// Time between two checks for an interruption.
const LOOK: Duration = Duration::from_millis(20);

/// The data of the plain write.
pub struct Noise {
    bytes: Vec<u8>,
}

impl Noise {
    /// Incompressible bytes.
    pub fn new() -> Noise {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut bytes = Vec::with_capacity(SOURCE_BYTES);
        while bytes.len() < SOURCE_BYTES {
            // A xorshift generator.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        Noise { bytes }
    }

    /// Writes `total` bytes, a multiple of the piece size, to new files and syncs them, with one thread for each file.
    pub fn write(
        &self,
        paths: &[PathBuf],
        total: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Duration, BenchError> {
        let started = Instant::now();
        let stop = Mutex::new(false);
        let stops = &|| *stop.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = total / PIECE_BYTES as u64;
        let share = |number: u64| pieces * number / paths.len() as u64;
        let ends: Vec<Result<Instant, BenchError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(paths)
                .map(|(number, path)| {
                    let bytes = (share(number + 1) - share(number)) * PIECE_BYTES as u64;
                    scope.spawn(move || self.write_one(path, bytes, stops))
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                if !goes_on() {
                    *stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
                }
                std::thread::sleep(LOOK);
            }
            threads.into_iter().map(|thread| thread.join().expect("a plain write does not panic")).collect()
        });
        let last = ends.into_iter().try_fold(started, |last, end| Ok::<_, BenchError>(last.max(end?)))?;
        Ok(last - started)
    }

    /// Writes and syncs one file. Returns the time when it was done.
    fn write_one(&self, path: &Path, bytes: u64, stops: impl Fn() -> bool) -> Result<Instant, BenchError> {
        let file = File::create_new(path).map_err(io("creating", path))?;
        let pieces = self.bytes.chunks_exact(PIECE_BYTES).cycle();
        for (offset, piece) in (0..bytes).step_by(PIECE_BYTES).zip(pieces) {
            if stops() {
                return Err(BenchError::Interrupted);
            }
            file.write_all_at(piece, offset).map_err(io("writing", path))?;
        }
        file.sync_data().map_err(io("syncing", path))?;
        Ok(Instant::now())
    }
}
