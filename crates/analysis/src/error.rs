use std::path::PathBuf;

use tensortap_format::FormatError;
use tensortap_interchange::InterchangeError;

/// Why an analysis could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A golden in files cannot be read.
    #[error(transparent)]
    Interchange(#[from] InterchangeError),
    /// A golden of files says nothing about which record an array is for.
    #[error(
        "none of the arrays is named after a record, an argument or an output of the run, so nothing says what to compare"
    )]
    UnnamedArrays,
    /// The dump does not say where the outputs of its run lay.
    #[error(
        "{} does not say where the outputs of its run lay, so they cannot be put together from what tasks wrote; dumps that \
         tensortap made say so in their index (tensor_dump.idx)", .dump.display()
    )]
    NoOutputPlaces {
        /// Folder of the dump.
        dump: PathBuf,
    },
    /// The dump's scene is not known, so there is nothing to compute with.
    #[error(
        "the dump is of scene `{scene}`, which this program does not know, so its kernels have no reference here; \
         compare with a golden dump instead (--golden)"
    )]
    UnknownScene {
        /// Name in the dump; empty when it has none.
        scene: String,
    },
}
