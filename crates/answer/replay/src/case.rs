//! Facts of a case that a dump does not have. A case is a dump of one task with these facts in its run information.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensortap_abi::{DumpStage, KernelAbi};
use tensortap_format::{KernelTolerance, RunInfo, Task};
use tensortap_values::content_hash;

use crate::{ArgReport, ExpectedSource, Grade, KernelCode, LibraryKernel, ReplayError};

/// Key of the facts in the run information and in the manifest.
pub const CASE_KEY: &str = "case";
/// Folder of libraries in a case.
pub const KERNELS_FOLDER: &str = "kernels";

/// The facts, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseSection {
    /// The dump it was extracted from.
    pub from: String,
    /// The other project or the program that captured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captured_by: Option<String>,
    /// Source of the expected outputs.
    pub expected: ExpectedSource,
    /// Tolerance on another platform or against references; null for the default of each dtype.
    pub tolerance: Option<KernelTolerance>,
    /// Set if content was replaced with noise.
    pub redacted: Option<RedactionNotice>,
    /// Kernels from libraries instead of the scene.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<CaseLibrary>,
    /// Facts that the capture lacked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<CaseAssumption>,
    /// Contents that are not stored as captured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<ContentNote>,
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
    pub grade: Grade,
    pub reason: String,
}

/// Notice that content is noise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RedactionNotice {
    /// Seed of the noise.
    pub seed: u64,
    /// The notice, for people.
    pub note: String,
}

/// Content of an argument at one stage that is not stored as captured: it is missing, or noise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContentNote {
    pub arg_index: u16,
    /// Stage of the record.
    pub stage: String,
    /// Why nothing is stored; absent for noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Hash of the captured content, if noise replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Statistics of the captured content, if noise replaces it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub stats: Value,
}

impl CaseSection {
    /// The note on a content.
    pub fn note(&self, arg_index: u16, stage: DumpStage) -> Option<&ContentNote> {
        self.contents.iter().find(|note| note.arg_index == arg_index && note.stage == stage.name())
    }
}

/// The facts of an open case.
#[derive(Debug)]
pub struct OpenCase {
    pub section: CaseSection,
    /// The libraries that it contains.
    pub code: Vec<KernelCode>,
    /// Facts that the capture lacked.
    pub assumed: Vec<ArgReport>,
    /// Key of its scene in the registry. A case with its own libraries gets a scene of its own.
    pub scene_key: String,
}

impl OpenCase {
    /// The facts of the case at `path`, or `None` if it is an ordinary dump. `folder` has the files of the case.
    pub fn of(path: &Path, folder: &Path, info: &RunInfo) -> Result<Option<OpenCase>, String> {
        let Some(section) = info.extra.get(CASE_KEY) else { return Ok(None) };
        let section: CaseSection =
            serde_json::from_value(section.clone()).map_err(|error| error.to_string())?;
        if section.tolerance.is_some_and(|tolerance| !(tolerance.rtol >= 0.0 && tolerance.atol >= 0.0)) {
            return Err("its tolerance is not a positive number".into());
        }
        let code = section.libraries.iter().map(|library| library.code(folder)).collect::<Result<_, _>>()?;
        let is_own = section.captured_by.is_some() || !section.libraries.is_empty();
        let own_key = || format!("{} {:032x}", info.scene, content_hash(path.as_os_str().as_encoded_bytes()));
        let scene_key = if is_own { own_key() } else { info.scene.clone() };
        let assumed = section.assumed.iter().map(|assumed| ArgReport {
            arg_index: assumed.arg_index,
            role: None,
            grade: assumed.grade,
            reason: Some(assumed.reason.clone()),
        });
        Ok(Some(OpenCase { assumed: assumed.collect(), section, code, scene_key }))
    }
}

impl CaseLibrary {
    /// The library, which must be in the case's own folder.
    fn code(&self, folder: &Path) -> Result<KernelCode, String> {
        let CaseLibrary { kernel, file, symbol, abi, build_id } = self;
        let abi = KernelAbi::from_name(abi).ok_or_else(|| format!("unknown ABI `{abi}`"))?;
        let mut parts = Path::new(file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            return Err(format!("`{file}` is not a plain file name"));
        }
        Ok(KernelCode {
            name: kernel.clone(),
            path: folder.join(KERNELS_FOLDER).join(file),
            symbol: symbol.clone(),
            abi: Some(abi),
            of_case: Some(build_id.clone()),
        })
    }
}

/// Libraries to copy into a case.
#[derive(Default)]
pub struct Libraries {
    /// Their descriptions in the case.
    pub described: Vec<CaseLibrary>,
    /// Each library with the file name of its copy.
    pub copies: Vec<(PathBuf, String)>,
}

impl Libraries {
    /// The libraries of a task's kernels.
    pub fn of(given: &[LibraryKernel], task: Task<'_>, is_file: bool) -> Result<Libraries, ReplayError> {
        let mut libraries = Libraries::default();
        let kernels = task.kernel_names();
        for given in given.iter().filter(|given| kernels.contains(&given.name)) {
            if is_file {
                let reason = "a single-file case cannot contain a library; choose a folder".into();
                return Err(ReplayError::Option { option: "--out", reason });
            }
            let LibraryKernel { name, library, symbol, build_id, abi, .. } = given;
            let file = libraries.copied(library);
            libraries.described.push(CaseLibrary {
                kernel: name.clone(),
                file,
                symbol: symbol.clone(),
                abi: abi.name().into(),
                build_id: build_id.clone(),
            });
        }
        Ok(libraries)
    }

    /// A unique file name for a library's copy.
    fn copied(&mut self, library: &Path) -> String {
        if let Some((_, copy)) = self.copies.iter().find(|(from, _)| from == library) {
            return copy.clone();
        }
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        let plain: String = name.chars().map(plain).collect();
        let (mut unique, mut number) = (plain.clone(), 1);
        while self.copies.iter().any(|(_, copy)| *copy == unique) {
            number += 1;
            unique = format!("{number}_{plain}");
        }
        self.copies.push((library.to_owned(), unique.clone()));
        unique
    }
}

/// Replaces characters that are special in a shell or terminal.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
}
