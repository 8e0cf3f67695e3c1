use tensortap_format::FormatError;

/// Why an analysis could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
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
