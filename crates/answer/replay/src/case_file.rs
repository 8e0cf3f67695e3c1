//! Format of `case.json`. Numbers beyond 2^53, addresses and hashes are hex strings, as in a dump's manifest.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tensortap_format::KernelInfo;

/// Value of `kind`.
pub const CASE_KIND: &str = "tensortap_case";
/// Format version.
pub const CASE_VERSION: u32 = 1;
/// Description file of a case folder.
pub const CASE_FILE: &str = "case.json";
/// Content file of a case folder.
pub const TENSORS_FILE: &str = "tensors.safetensors";
/// Folder of libraries in a case folder.
pub const KERNELS_FOLDER: &str = "kernels";
/// Instructions for people.
pub const README_FILE: &str = "README.md";
/// Metadata key of the description in a single-file case.
pub const CASE_KEY: &str = "tensortap_case";
/// Metadata key of the instructions in a single-file case.
pub const README_KEY: &str = "readme";

/// Value of `expected`: the outputs that the task wrote.
pub const EXPECTS_CAPTURED: &str = "captured";
/// Value of `expected`: the outputs that the references of its kernels compute.
pub const EXPECTS_REFERENCE: &str = "reference";

/// Description of one task: everything that a replay needs, without the content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseFile {
    /// [`CASE_KIND`].
    pub kind: String,
    /// [`CASE_VERSION`].
    pub schema_version: u32,
    /// The dump it was extracted from.
    pub from: String,
    /// Scene with its kernels.
    pub scene: String,
    /// Platform of the capture.
    pub platform: String,
    /// Runtime of the capture.
    pub runtime: String,
    /// The scene's parameters, for people.
    pub params: Map<String, Value>,
    /// The fault injected in the captured run, `KERNEL=KIND`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject_fault: Option<String>,
    /// The scene folder, if the scene came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene_folder: Option<String>,
    /// The other project that captured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_by: Option<String>,
    /// Kernels from libraries instead of the scene.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<CaseLibrary>,
    /// Facts that the capture lacked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<CaseAssumption>,
    /// Where device memory was mapped.
    #[serde(with = "hex")]
    pub device_base: u64,
    /// The task id.
    #[serde(with = "hex")]
    pub task_id: u64,
    /// Dispatches per kernel.
    pub block_num: u32,
    /// Kernel of each active slot.
    pub subtasks: Vec<CaseSubtask>,
    /// Tensor arguments.
    pub tensors: Vec<CaseTensor>,
    /// Scalar arguments.
    pub scalars: Vec<CaseScalar>,
    /// Source of the expected outputs: [`EXPECTS_CAPTURED`] or [`EXPECTS_REFERENCE`].
    #[serde(default = "captured")]
    pub expected: String,
    /// Tolerance on another platform or against references; null for the default of each dtype.
    pub tolerance: Option<CaseTolerance>,
    /// Set if content was replaced with noise.
    pub redacted: Option<RedactionNotice>,
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
    /// File name of the library in [`KERNELS_FOLDER`].
    pub file: String,
    /// Symbol of its entry.
    pub symbol: String,
    /// ABI of its arguments.
    pub abi: String,
    /// Identifies the build of the library.
    pub build_id: String,
}

/// An argument or context with an assumed value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseAssumption {
    pub arg_index: u16,
    /// Fidelity grade.
    pub grade: String,
    pub reason: String,
}

/// A tensor argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseTensor {
    pub arg_index: u16,
    pub role: String,
    pub dtype: String,
    /// False for bytes of unknown type, such as exponents of `simpler`. Written only if false.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub dtype_known: bool,
    pub shape: Vec<u64>,
    pub strides: Vec<i64>,
    pub start_offset: u64,
    #[serde(with = "hex")]
    pub address: u64,
    /// Content before the task; null for an output.
    pub before: Option<CaseContent>,
    /// Content after the task; null for an input.
    pub after: Option<CaseContent>,
}

/// Captured content of a tensor at one stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseContent {
    /// `stored`, `truncated`, `noise` or `missing`.
    pub payload: String,
    /// Name in the safetensors file, which several contents may share. Null if nothing is stored.
    pub tensor: Option<String>,
    /// Hash of the captured content, `xxh3_128_tree4k`.
    pub hash: Option<String>,
    /// Why nothing is stored.
    pub reason: Option<String>,
    /// Statistics of the captured content, in a redacted case.
    pub stats: Option<CaseStats>,
}

/// Statistics. Non-finite values are left out.
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
    /// Element type of the bits.
    pub dtype: String,
    /// Raw bits; null if not captured.
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

/// Notice that content is noise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RedactionNotice {
    /// Seed of the noise.
    pub seed: u64,
    /// The notice, for people.
    pub note: String,
}

fn yes() -> bool {
    true
}

fn captured() -> String {
    EXPECTS_CAPTURED.into()
}

/// Formats a 64-bit number as a hex string.
pub fn hex64(value: u64) -> String {
    format!("{value:#018x}")
}

/// Parses a hex string.
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
        value.ok_or_else(|| D::Error::custom(format!("`{text}` is not a 64-bit hex string")))
    }
}
