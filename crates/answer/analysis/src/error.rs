use std::path::PathBuf;

use tensortap_format::FormatError;
use tensortap_interchange::InterchangeError;

/// Why an analysis failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A golden in files cannot be read.
    #[error(transparent)]
    Interchange(#[from] InterchangeError),
    /// No array of a golden in files has a name that identifies a record.
    #[error(
        "none of the arrays is named after a record, an argument or an output of the run, so there is nothing \
         to compare; name an array TASK.ARGUMENT, or use the names that `tensortap export` writes"
    )]
    UnnamedArrays,
    /// The dump does not record the addresses of the run's outputs.
    #[error(
        "{} does not record where the outputs of its run were in memory, so they cannot be assembled from what \
         the tasks wrote; use a dump that tensortap recorded, which has this in its index (tensor_dump.idx)",
        .dump.display()
    )]
    NoOutputPlaces {
        /// Folder of the dump.
        dump: PathBuf,
    },
    /// The scene of the dump is unknown, so there are no references to run.
    #[error(
        "the dump is from scene `{scene}`, which this program does not know, so its kernels have no reference \
         here; compare with a golden dump instead (--golden)"
    )]
    UnknownScene {
        /// Name in the dump; empty when it has none.
        scene: String,
    },
}
