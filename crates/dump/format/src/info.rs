//! What a dump records about its run at the start.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json;

/// Name of the index in a dump's folder.
pub const INDEX_FILE: &str = "tensor_dump.idx";
/// Name of the payload file.
pub const BIN_FILE: &str = "tensor_dump.bin";
/// Name of the manifest.
pub const MANIFEST_FILE: &str = "tensor_dump.json";
/// Name of the file with tasks and dependencies.
pub const GRAPH_FILE: &str = "graph.json";
/// Name of the file with the orchestration's own arguments.
pub const ARGS_FILE: &str = "args_dump.json";
/// Name of the file with the arguments of every dispatch.
pub const KERNEL_ARGS_FILE: &str = "kernel_args_dump.json";

/// Everything that is known about a run at its start. Stored as JSON in the index; keys that this version
/// does not know are kept in `extra`.
///
/// ```
/// use tensortap_format::RunInfo;
/// let info = RunInfo { scene: "vector_example".into(), dump_level: 2, ..RunInfo::default() };
/// assert_eq!(info.bin_file, "tensor_dump.bin");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunInfo {
    /// Distinguishes runs, and seeds the index's checksums.
    #[serde(with = "json::hex")]
    pub run_id: u64,
    /// Name of the dump's folder; [`crate::DumpWriter::create`] sets it if it is empty.
    pub run_dir: String,
    /// UTC, as [`crate::timestamp`] formats it; sorts as text.
    pub started_at: String,
    /// The host's monotonic clock at `started_at`: nanoseconds, as a decimal string. Empty if not known.
    pub started_monotonic_ns: String,
    /// Platform.
    pub platform: String,
    /// Runtime.
    pub runtime: String,
    /// Scene.
    pub scene: String,
    /// The scene's parameters.
    pub params: Map<String, Value>,
    /// Address at which device memory was mapped.
    #[serde(with = "json::hex")]
    pub device_base: u64,
    /// Number of the dump level.
    pub dump_level: u32,
    /// Whether the arguments of dispatches are recorded (`--dump-args`).
    pub dump_args: bool,
    /// `block` or `drop`.
    pub dump_policy: String,
    /// `live` or `batch`.
    pub dump_collect: String,
    /// Name of the payload file, which is next to the index.
    pub bin_file: String,
    /// Every kernel of the scene.
    pub kernels: Vec<KernelInfo>,
    /// The orchestration's own arguments as the scene declares them, one object each: `name`, `role`,
    /// `dtype`, `shape`.
    pub args: Vec<Value>,
    /// The injected fault, `KERNEL=KIND`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inject_fault: Option<String>,
    /// The folder that the scene was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scene_folder: Option<String>,
    /// The filters that were set, by the names of their options without `--dump-`. Empty if there were none, or if an
    /// earlier version wrote the dump.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Default for RunInfo {
    fn default() -> Self {
        RunInfo {
            run_id: 0,
            run_dir: String::new(),
            started_at: String::new(),
            started_monotonic_ns: String::new(),
            platform: String::new(),
            runtime: String::new(),
            scene: String::new(),
            params: Map::new(),
            device_base: 0,
            dump_level: 0,
            dump_args: false,
            dump_policy: "block".into(),
            dump_collect: "live".into(),
            bin_file: BIN_FILE.into(),
            kernels: Vec::new(),
            args: Vec::new(),
            inject_fault: None,
            scene_folder: None,
            filters: Vec::new(),
            extra: Map::new(),
        }
    }
}

/// Runtime of dumps of recorded programs.
pub const RECORD_RUNTIME: &str = "record";
/// Platform of programs that run on the host.
pub const HOST_PLATFORM: &str = "host";

impl RunInfo {
    /// Whether the tasks belong to a recorded program, which may do unrecorded work between them.
    #[must_use]
    pub fn is_of_program(&self) -> bool {
        self.runtime == RECORD_RUNTIME
    }

    /// Id of the recorded process, if the dump is of one.
    #[must_use]
    pub fn process(&self) -> Option<u64> {
        self.extra.get("process")?.get("pid")?.as_u64()
    }

    /// Rank of the recorded process, if it has one.
    #[must_use]
    pub fn rank(&self) -> Option<u64> {
        self.extra.get("process")?.get("rank")?.as_u64()
    }

    /// Whether the dump has a manifest. Dumps with only dispatch arguments have none.
    pub(crate) fn has_manifest(&self) -> bool {
        self.dump_level != 0 || !self.dump_args
    }

    /// Name of a kernel; `func_<id>` if the dump has no name.
    #[must_use]
    pub fn kernel_name(&self, func_id: u32) -> String {
        self.kernels
            .iter()
            .find(|k| k.func_id == func_id)
            .map_or_else(|| format!("func_{func_id}"), |k| k.name.clone())
    }
}

/// Tolerance of a kernel's outputs: `|a - g| <= atol + rtol * |g|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTolerance {
    /// Relative part.
    pub rtol: f64,
    /// Absolute part.
    pub atol: f64,
}

/// Whether a number refers to nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

/// Description of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelInfo {
    /// Number by which tasks refer to it.
    pub func_id: u32,
    /// Name.
    pub name: String,
    /// `AIC` or `AIV`.
    pub core_type: String,
    /// `IN`, `OUT`, `INOUT` or `SCALAR` per argument.
    pub signature: Vec<String>,
    /// Name of each argument, in slot order; empty if the kernel declares none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arg_names: Vec<String>,
    /// Identifies the build of the kernel: `builtin NAME VERSION BUILD_ID` for a built-in kernel,
    /// `library NAME SYMBOL BUILD_ID` for a kernel of a scene folder.
    pub code: String,
    /// Its declared tolerance; `None` means the default of each dtype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<KernelTolerance>,
    /// Version of the package that contains the kernel; empty if not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Identity of the executable or library that ran it: `gnu:` and its build id, or `xxh3_128:` and the
    /// hash of the file, in hex; empty if not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub build_id: String,
    /// Number of the module that contains its code; 0 if not known.
    #[serde(skip_serializing_if = "is_none")]
    pub module: u32,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
