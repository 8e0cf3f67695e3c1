//! Verifies a dump on every CPU.

use tensortap_format::{Dump, Findings, FormatError, verify_spread};
use tensortap_sync::parallel::spread;

use crate::parallel::threads;

/// As [`verify`](crate::format::verify()), but hashes payloads on several threads. `jobs` is their number;
/// `None` means one per CPU.
///
/// # Errors
/// If a file cannot be read.
pub fn verify(dump: &Dump, jobs: Option<usize>) -> Result<Findings, FormatError> {
    let jobs = threads(jobs);
    verify_spread(dump, &|count, work| spread(jobs, count, work))
}
