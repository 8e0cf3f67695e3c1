use std::fmt;

use tensortap_abi::DType;
use thiserror::Error;

/// One of the two tensors of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideName {
    /// The captured tensor.
    Dump,
    /// The expected tensor.
    Golden,
}

impl fmt::Display for SideName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SideName::Dump => "dump",
            SideName::Golden => "golden",
        })
    }
}

/// Why two tensors cannot be compared. The caller adds the names of files and records.
#[derive(Clone, Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum CompareError {
    #[error(
        "the dump's shape is {dump:?}, the golden's {golden:?}; shapes must be equal, nothing is broadcast"
    )]
    Shape { dump: Vec<u64>, golden: Vec<u64> },

    #[error(
        "the dump holds {dump}, the golden {golden}; allow a golden of another float dtype, or convert it"
    )]
    DType { dump: DType, golden: DType },

    #[error("the dump holds {dump}, the golden {golden}; only floats compare with another dtype")]
    NotFloats { dump: DType, golden: DType },

    #[error("shape {shape:?} has more {dtype} elements than 64 bits can count")]
    TooLarge { shape: Vec<u64>, dtype: DType },

    #[error("the {side} has {actual} bytes where its shape needs {expected}; the payload is incomplete")]
    Size { side: SideName, expected: u64, actual: u64 },

    #[error(
        "a chunk of {dump} bytes of the dump and {golden} of the golden is not as many whole elements of \
         both, or is \
         more than is left"
    )]
    Chunk { dump: usize, golden: usize },

    #[error("{name} is {value}; it must be a number that is not negative")]
    Tolerance { name: &'static str, value: f64 },

    #[error("a part may begin at a multiple of {block} elements up to {numel}, not at {first}")]
    PartStart { first: u64, block: usize, numel: u64 },

    #[error("a part that ends at element {end} cannot be joined with one that begins at {first}")]
    NotAdjacent { end: u64, first: u64 },

    #[error("elements {first} to {end} of {numel} were compared; the rest is missing")]
    Incomplete { first: u64, end: u64, numel: u64 },
}
