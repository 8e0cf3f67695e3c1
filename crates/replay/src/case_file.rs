//! What `case.json` says. Numbers beyond 2^53, addresses and hashes are hex strings, as in a dump's manifest.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tensortap_format::KernelInfo;

/// What `kind` says.
pub const CASE_KIND: &str = "tensortap_case";
/// Version of the file.
pub const CASE_VERSION: u32 = 1;
/// Description of a case that is a folder.
pub const CASE_FILE: &str = "case.json";
/// Content of a case that is a folder.
pub const TENSORS_FILE: &str = "tensors.safetensors";
/// Folder of libraries in a case that is a folder.
pub const KERNELS_FOLDER: &str = "kernels";
/// How to use a case, for people.
pub const README_FILE: &str = "README.md";
/// Key of the description in the metadata of a case that is one file.
pub const CASE_KEY: &str = "tensortap_case";
/// Key of the text for people beside it.
pub const README_KEY: &str = "readme";

/// What `expected` says when outputs should be what the task wrote.
pub const EXPECTS_CAPTURED: &str = "captured";
/// What `expected` says when outputs should be what the references of its kernels give.
pub const EXPECTS_REFERENCE: &str = "reference";

/// One task, all that a replay needs but the content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseFile {
    /// [`CASE_KIND`].
    pub kind: String,
    /// [`CASE_VERSION`].
    pub schema_version: u32,
    /// The dump it was cut from.
    pub from: String,
    /// Scene whose kernels it needs.
    pub scene: String,
    /// Platform it was captured on.
    pub platform: String,
    /// Runtime it was captured with.
    pub runtime: String,
    /// The scene's parameters, for people.
    pub params: Map<String, Value>,
    /// The fault that was injected on purpose when it was captured, `KERNEL=KIND`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject_fault: Option<String>,
    /// The folder that the scene was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene_folder: Option<String>,
    /// The project that captured it, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_by: Option<String>,
    /// Kernels that are not those of the scene.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<CaseLibrary>,
    /// What the capture did not say of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<CaseAssumed>,
    /// Where device memory was mapped.
    #[serde(with = "hex")]
    pub device_base: u64,
    /// Identity.
    #[serde(with = "hex")]
    pub task_id: u64,
    /// Times each kernel is dispatched.
    pub block_num: u32,
    /// Kernel of each active slot.
    pub subtasks: Vec<CaseSubtask>,
    /// Tensor arguments.
    pub tensors: Vec<CaseTensor>,
    /// Scalar arguments.
    pub scalars: Vec<CaseScalar>,
    /// Where the expected outputs are from: [`EXPECTS_CAPTURED`] or [`EXPECTS_REFERENCE`].
    #[serde(default = "captured")]
    pub expected: String,
    /// How far outputs may be off, on another platform or from a reference; null for the defaults of their dtypes.
    pub tolerance: Option<CaseTolerance>,
    /// Set when content was replaced by noise.
    pub redacted: Option<Redacted>,
}

/// An active slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseSubtask {
    /// Slot: 0 AIC, 1 AIV0, 2 AIV1.
    pub subtask_id: u32,
    /// Its kernel.
    #[serde(flatten)]
    pub kernel: KernelInfo,
}

/// A kernel from a library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseLibrary {
    /// The kernel's name.
    pub kernel: String,
    /// Name of the library in [`KERNELS_FOLDER`].
    pub file: String,
    /// Its entry.
    pub symbol: String,
    /// How it takes its arguments.
    pub abi: String,
    /// Tells one build of the library from another.
    pub build_id: String,
}

/// An argument, or a context, that something was assumed of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseAssumed {
    pub arg_index: u16,
    /// How true it is to the capture, in a word.
    pub grade: String,
    pub reason: String,
}

/// A tensor argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseTensor {
    pub arg_index: u16,
    pub role: String,
    pub dtype: String,
    /// False of bytes whose meaning is not known, as which exponents of `simpler` are read; written only then.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub dtype_known: bool,
    pub shape: Vec<u64>,
    pub strides: Vec<i64>,
    pub start_offset: u64,
    #[serde(with = "hex")]
    pub address: u64,
    /// What it held before the task; null for an output.
    pub before: Option<CaseContent>,
    /// What it held after the task; null for an input.
    pub after: Option<CaseContent>,
}

/// What is known of content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseContent {
    /// `stored`, `truncated`, `noise` or `missing`.
    pub payload: String,
    /// Name in the safetensors file; several may share one. Null when nothing is stored.
    pub tensor: Option<String>,
    /// Content hash of what was captured, `xxh3_128_tree4k`.
    pub hash: Option<String>,
    /// Why nothing is stored.
    pub reason: Option<String>,
    /// Statistics of what was captured, in a redacted case.
    pub stats: Option<CaseStats>,
}

/// Statistics, floats that are no numbers left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseStats {
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub mean: Option<f64>,
    pub std: Option<f64>,
    pub zeros: u64,
    pub nan: u64,
    pub inf: u64,
}

/// A scalar argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseScalar {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// What the bits mean.
    pub dtype: String,
    /// Raw bits; null when they were not captured.
    pub bits: Option<String>,
    /// The value, for people.
    pub value: Option<String>,
}

/// `|a - g| <= atol + rtol * |g|`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CaseTolerance {
    pub rtol: f64,
    pub atol: f64,
}

/// That content is noise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Redacted {
    /// Seed of the noise.
    pub seed: u64,
    /// In words.
    pub note: String,
}

fn yes() -> bool {
    true
}

fn captured() -> String {
    EXPECTS_CAPTURED.into()
}

/// A hex string of 64 bits.
pub fn hex64(value: u64) -> String {
    format!("{value:#018x}")
}

/// The number of a hex string.
pub fn parse_hex(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("0x").filter(|d| (1..=32).contains(&d.len()))?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u128::from_str_radix(digits, 16).ok())?
}

mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::hex64(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = super::parse_hex(&text).and_then(|value| u64::try_from(value).ok());
        value.ok_or_else(|| D::Error::custom(format!("`{text}` is no hex string of 64 bits")))
    }
}
