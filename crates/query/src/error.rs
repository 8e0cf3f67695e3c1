//! What can be wrong with a question, or with the dump it is asked of.

use std::io;
use std::path::PathBuf;

use tensortap::Unknown;
use tensortap::analysis::AnalysisError;
use tensortap::format::FormatError;
use tensortap::interchange::InterchangeError;

/// A selector that cannot be read. Its text says what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Neither a number nor a range.
    #[error("a number is decimal (12) or hex (0x100000002), a range is FIRST-LAST with both ends in it")]
    NoNumber,
    /// Past 64 bits.
    #[error("this is more than a 64-bit number")]
    TooLarge,
    /// A range whose ends are swapped.
    #[error("the range ends before it begins; did you mean {last}-{first}?")]
    Backwards {
        /// Its first end, as given.
        first: String,
        /// Its last end, as given.
        last: String,
    },
    /// A list that ends within quotes.
    #[error(
        "a quote is not closed; a name with commas stands in quotes as a whole, a quote in it behind a backslash"
    )]
    OpenQuote,
    /// A half of a task id that does not fit.
    #[error("a ring and a position in it have 32 bits")]
    RingTooLarge,
    /// Neither a task's number nor a name.
    #[error("{0}; a task is also meant by its ring and position (1:2) or its kernel's name")]
    NoTask(Box<SelectorError>),
    /// No shape.
    #[error(
        "a shape is sizes joined by x (16x128); * stands for one dimension of any size, ... for any number of \
         dimensions, [] for none"
    )]
    NoShape,
    /// No hash.
    #[error("a hash is 1 to 32 hex digits, the first of it are enough: 765e781b")]
    NoHash,
    /// No stage.
    #[error("a stage is before or after")]
    NoStage,
    /// No role.
    #[error(
        "a role is input, output or inout, or what was observed where it is not known: same, changed, ambiguous or unobserved"
    )]
    NoRole,
    /// No kind.
    #[error("a kind is tensor or scalar")]
    NoKind,
    /// No element type.
    #[error("an element type is float32 or f32, bfloat16 or bf16, int8 or i8, ...")]
    NoDtype,
    /// No selector.
    #[error("a selector is one of {} and nan", .selectors.join(", "))]
    NoSelector {
        /// Those that there are.
        selectors: Vec<&'static str>,
    },
    /// A selector without its value.
    #[error("the selector {0} wants a value")]
    NoValue(&'static str),
    /// No argument.
    #[error("an argument is a number: tensors first, then scalars")]
    NoArgument,
    /// No slice.
    #[error("a slice has a term per axis, separated by commas: 3, 0:4, ::2, -1, : or ... for all axes left")]
    NoSlice,
    /// Two ellipses.
    #[error("a slice has ... only once")]
    TwoEllipses,
    /// A step that leads nowhere.
    #[error("a step of 0 leads nowhere")]
    NoStep,
    /// More terms than axes.
    #[error("the slice has {terms} terms and the tensor {axes} axes")]
    TooManyTerms {
        /// Terms of the slice.
        terms: usize,
        /// Axes of the tensor.
        axes: usize,
    },
    /// A position that an axis does not have.
    #[error("position {at} is outside of axis {axis}, which has {size}")]
    Outside {
        /// The position asked for.
        at: i64,
        /// The axis.
        axis: usize,
        /// Its length.
        size: i64,
    },
    /// An axis longer than any position.
    #[error("axis {0} is too long to be sliced")]
    AxisTooLong(usize),
    /// No field that rows can be sorted by.
    #[error("a key is one of {}; -KEY has the largest first", .keys.join(", "))]
    NoKey {
        /// The keys there are.
        keys: Vec<&'static str>,
    },
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A name that nothing in the dump has.
    #[error("there is no {} `{}`", .0.what, .0.name)]
    Unknown(Unknown),
    /// The answer cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A record that does not exist, or is not one alone.
    #[error("{message}")]
    Record {
        /// What is wrong.
        message: String,
        /// What would do.
        hint: String,
    },
    /// A file of types cannot be read or understood.
    #[error("{said_in}: {message}")]
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
    /// The scene of the dump cannot be had.
    #[error(transparent)]
    Tensortap(Box<tensortap::Error>),
    /// A run folder has several dumps, and one is wanted.
    #[error("{} holds {} dumps: {}", .path.display(), .dumps.len(), .dumps.join(", "))]
    SeveralDumps {
        /// The folder.
        path: PathBuf,
        /// The folders of its dumps.
        dumps: Vec<String>,
    },
    /// None of the dumps is of such a rank or process.
    #[error("{} has no such {what}; there are: {}", .path.display(), .ranks.join(", "))]
    NoRank {
        /// What was asked for.
        what: &'static str,
        /// The folder.
        path: PathBuf,
        /// The dumps that there are.
        ranks: Vec<String>,
    },
}

impl From<tensortap::Error> for QueryError {
    fn from(error: tensortap::Error) -> QueryError {
        QueryError::Tensortap(Box::new(error))
    }
}
