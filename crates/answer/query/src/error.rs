//! Errors of selectors and of queries.

use std::io;
use std::path::{Path, PathBuf};

use tensortap::UnknownName;
use tensortap::analysis::AnalysisError;
use tensortap::format::FormatError;
use tensortap::interchange::InterchangeError;

use crate::number::counted_in;

/// A selector that cannot be parsed. The message says what is valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Neither a number nor a range.
    #[error("a number is decimal (12) or hex (0x100000002), a range is FIRST-LAST, both ends included")]
    NoNumber,
    /// Past 64 bits.
    #[error("the number does not fit in 64 bits")]
    TooLarge,
    /// A range whose ends are swapped.
    #[error("the range ends before it begins; did you mean {last}-{first}?")]
    Backwards {
        /// Its first end, as written.
        first: String,
        /// Its last end, as written.
        last: String,
    },
    /// A list with an open quote.
    #[error(
        "a quote is not closed; put a name with commas in quotes, and escape a quote in it with a backslash"
    )]
    OpenQuote,
    /// A half of a task id that does not fit in 32 bits.
    #[error("a ring and a position must each fit in 32 bits")]
    RingTooLarge,
    /// Neither a number nor a name of a task.
    #[error("{0}; a task can also be named by its ring and position (1:2) or by its kernel")]
    NoTask(Box<SelectorError>),
    /// Not a shape.
    #[error(
        "a shape is sizes joined by x (16x128); * matches one dimension of any size, ... any number of \
         dimensions, [] for none"
    )]
    NoShape,
    /// Not a hash.
    #[error("a hash is 1 to 32 hex digits; a prefix is enough: 765e781b")]
    NoHash,
    /// Not a stage.
    #[error("a stage is before or after")]
    NoStage,
    /// Not a role.
    #[error(
        "a role is input, output or inout or, for arguments of unknown role, same, changed, ambiguous or unobserved"
    )]
    NoRole,
    /// Not a kind.
    #[error("a kind is tensor or scalar")]
    NoKind,
    /// Not an element type.
    #[error("an element type is float32 or f32, bfloat16 or bf16, int8 or i8, ...")]
    NoDtype,
    /// Not a selector.
    #[error("a selector is one of {} and nan", .selectors.join(", "))]
    NoSelector {
        /// The known selectors.
        selectors: Vec<&'static str>,
    },
    /// A selector without its value.
    #[error("the selector {0} needs a value")]
    NoValue(&'static str),
    /// Not an argument.
    #[error("an argument is a number: tensors first, then scalars")]
    NoArgument,
    /// Not a slice.
    #[error("a slice has a term per axis, separated by commas: 3, 0:4, ::2, -1, : or ... for all axes left")]
    NoSlice,
    /// Two ellipses.
    #[error("a slice has ... only once")]
    TwoEllipses,
    /// A step of 0.
    #[error("a step of 0 is not allowed")]
    NoStep,
    /// More terms than axes.
    #[error("the slice has {terms} terms, but the tensor has {}", counted_in(*axes as u64, "axis", "axes"))]
    TooManyTerms {
        /// Terms of the slice.
        terms: usize,
        /// Axes of the tensor.
        axes: usize,
    },
    /// A position outside an axis.
    #[error("position {at} is out of range for axis {axis}, which has {size} positions")]
    Outside {
        /// The requested position.
        at: i64,
        /// The axis.
        axis: usize,
        /// Its length.
        size: i64,
    },
    /// An axis that is too long for positions.
    #[error("axis {0} is too long to slice")]
    AxisTooLong(usize),
    /// Not a sort key.
    #[error("a sort key is one of {}; -KEY sorts the largest first", .keys.join(", "))]
    NoKey {
        /// The known keys.
        keys: Vec<&'static str>,
    },
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A name that does not exist in the dump.
    #[error("there is no {} `{}`", .0.what, .0.name)]
    Unknown(UnknownName),
    /// The answer cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A record or task that does not exist or is ambiguous, or a request about it that cannot be answered.
    #[error("{message}")]
    Record {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A types file cannot be read or parsed.
    #[error("types file {said_in}: {message}")]
    Types {
        /// File and line.
        said_in: String,
        /// What is wrong.
        message: String,
    },
    /// A golden cannot be read.
    #[error(transparent)]
    Interchange(#[from] InterchangeError),
    /// The dumps cannot be compared.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The scene of the dump cannot be loaded.
    #[error(transparent)]
    Tensortap(Box<tensortap::Error>),
    /// A run folder has several dumps, but one is needed.
    #[error("{} holds {} dumps: {}", .path.display(), .dumps.len(), .dumps.join(", "))]
    SeveralDumps {
        /// The folder.
        path: PathBuf,
        /// The folders of its dumps.
        dumps: Vec<String>,
    },
    /// No dump has such a rank or process.
    #[error("{}", no_rank_words(what, path, ranks))]
    NoRank {
        /// `rank` or `process`.
        what: &'static str,
        /// The folder.
        path: PathBuf,
        /// Names of the existing dumps. Empty: `path` is one dump that is in no run folder.
        ranks: Vec<String>,
    },
}

/// A single dump without a rank or process id is in no run folder, so there is nothing to choose.
fn no_rank_words(what: &str, path: &Path, ranks: &[String]) -> String {
    let option = if what == "rank" { "--rank" } else { "--pid" };
    match ranks {
        [] => format!("{} is one dump, not a run folder with several; remove {option}", path.display()),
        _ => format!("{} has no such {what}; there are: {}", path.display(), ranks.join(", ")),
    }
}

impl From<tensortap::Error> for QueryError {
    fn from(error: tensortap::Error) -> QueryError {
        QueryError::Tensortap(Box::new(error))
    }
}
