//! Reads and writes arrays in the file formats of other tools: `.npy`, `.npz`, `.safetensors`, CSV, text and
//! raw bytes.
//!
//! [`ArrayWriter`] writes arrays of any size in pieces, with bytes from any [`Content`]. [`NamedArrays`]
//! opens a file or a folder as a list of named arrays and reads bytes on demand.
//!
//! If a format lacks a dtype, the exact bits are stored under another one ([`numpy_storage`]): `bfloat16` as
//! `uint16`, 8-bit floats as `uint8`, and 4-bit elements packed in a one-dimensional `uint8`. The
//! [`ExportManifest`] next to the files records the true dtypes, and [`NamedArrays`] restores them.
//!
//! The crate does not know dumps: the exporter names the arrays.
//!
//! Readers do not trust files: headers are limited, sizes are checked against the file before memory is
//! allocated, and a file that shrinks meanwhile is an error.
//!
//! ```
//! use tensortap_abi::DType;
//! use tensortap_interchange::{ArrayHead, ArrayWriter, NamedArrays};
//!
//! let dir = tempfile::tempdir()?;
//! let content = [1.0_f32, 2.0, 3.0].map(f32::to_le_bytes).concat();
//! let head = ArrayHead { name: "c", dtype: DType::Float32, shape: &[3] };
//! ArrayWriter::new().npy(&dir.path().join("c.npy"), &head, &content)?;
//!
//! let arrays = NamedArrays::open(dir.path())?;
//! let array = arrays.get("c").ok_or("no c")?;
//! assert_eq!((array.dtype, array.shape.as_slice()), (DType::Float32, &[3][..]));
//! assert_eq!(array.content()?, content);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod arrays;
mod content;
mod csv;
mod error;
mod manifest;
mod name;
mod npy;
mod npz;
mod order;
mod safetensors;
mod storage;
mod txt;
mod writer;

pub use arrays::{NamedArray, NamedArrays};
pub use content::Content;
pub use csv::read_csv;
pub use error::InterchangeError;
pub use manifest::{EXPORT_MANIFEST_FILE, ExportManifest, ExportedArray, ManifestWriter, SkippedRecord};
pub use name::{ArrayName, role_word};
pub use storage::{StoredType, numpy_storage, safetensors_storage};
pub use txt::{TextArray, read_txt};
pub use writer::{ArrayHead, ArrayWriter};
