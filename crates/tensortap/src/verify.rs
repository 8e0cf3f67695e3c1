//! Checking a dump with every CPU.

use tensortap_format::{Dump, Findings, FormatError, verify_spread};

use crate::parallel::{spread, threads};

/// [`verify`](crate::format::verify()) with payloads hashed by several threads; one for each CPU unless `jobs` says otherwise.
///
/// # Errors
/// A file cannot be read.
pub fn verify(dump: &Dump, jobs: Option<usize>) -> Result<Findings, FormatError> {
    let jobs = threads(jobs);
    verify_spread(dump, &|count, work| spread(jobs, count, work))
}
