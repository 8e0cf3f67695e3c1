//! Writes the files of a case. After an error, partial files are removed.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tensortap_abi::DType;
use tensortap_format::Argument;
use tensortap_interchange::{ArrayHead, ArrayWriter, Content, InterchangeError};

use crate::ReplayError;
use crate::case_file::{
    CASE_FILE, CASE_KEY, CaseContent, CaseFile, CaseLibrary, EXPECTS_REFERENCE, KERNELS_FOLDER, README_FILE,
    README_KEY, TENSORS_FILE, hex64,
};

/// A tensor as stored in the case's file.
pub struct Payload {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

impl Payload {
    /// Content of a tensor, or its first bytes. Element types that safetensors packs differently are stored
    /// as bytes.
    pub fn new(tensor: Argument<'_>, bytes: Vec<u8>, cut: bool) -> Payload {
        if cut || tensor.dtype.bits() < 8 {
            return Payload { dtype: DType::UInt8, shape: vec![bytes.len() as u64], bytes };
        }
        Payload { dtype: tensor.dtype, shape: tensor.shape().to_vec(), bytes }
    }
}

/// Whether the case is a single file.
pub fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|e| e == "safetensors")
}

/// Writes a case and returns its size in bytes. After an error, all partial files are removed.
pub fn write(
    out: &Path,
    case: &str,
    readme: &str,
    payloads: &[(String, Payload)],
    libraries: &[(PathBuf, PathBuf)],
) -> Result<u64, ReplayError> {
    let mut created = CreatedFiles::default();
    let written = created
        .libraries(libraries)
        .and_then(|libraries| Ok(libraries + created.case(out, case, readme, payloads)?));
    if written.is_err() {
        created.undo();
    }
    written
}

/// Files and folders created so far, in order of creation.
#[derive(Default)]
struct CreatedFiles {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl CreatedFiles {
    fn case(
        &mut self,
        out: &Path,
        case: &str,
        readme: &str,
        payloads: &[(String, Payload)],
    ) -> Result<u64, ReplayError> {
        if is_file(out) {
            self.folder(out.parent().unwrap_or(Path::new("")))?;
            return self.tensors(out, payloads, &[(CASE_KEY, case), (README_KEY, readme)]);
        }
        self.folder(out)?;
        // The description is written last: it marks the case as complete.
        let tensors = self.tensors(&out.join(TENSORS_FILE), payloads, &[])?;
        let texts = [(README_FILE, readme), (CASE_FILE, case)];
        texts.into_iter().try_fold(tensors, |sum, (name, text)| Ok(sum + self.text(&out.join(name), text)?))
    }

    fn libraries(&mut self, libraries: &[(PathBuf, PathBuf)]) -> Result<u64, ReplayError> {
        let mut bytes = 0;
        for (from, to) in libraries {
            self.folder(to.parent().unwrap_or(Path::new("")))?;
            self.files.push(to.clone());
            bytes += std::fs::copy(from, to).map_err(|source| not_written(to, source))?;
            // Restrict write permission to the owner, whatever the library's own permissions are.
            let rights = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(to, rights).map_err(|source| not_written(to, source))?;
        }
        Ok(bytes)
    }

    /// Creates a folder and its missing parents.
    fn folder(&mut self, folder: &Path) -> Result<(), ReplayError> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.is_dir()).collect();
        for path in missing.into_iter().rev() {
            std::fs::create_dir(path).map_err(|source| not_written(path, source))?;
            self.folders.push(path.to_owned());
        }
        Ok(())
    }

    fn tensors(
        &mut self,
        path: &Path,
        payloads: &[(String, Payload)],
        notes: &[(&str, &str)],
    ) -> Result<u64, ReplayError> {
        self.files.push(path.to_owned());
        let arrays: Vec<(ArrayHead<'_>, &dyn Content)> = payloads
            .iter()
            .map(|(name, Payload { dtype, shape, bytes })| {
                (ArrayHead { name, dtype: *dtype, shape }, bytes as &dyn Content)
            })
            .collect();
        ArrayWriter::new().safetensors(path, &arrays, notes).map_err(|error| match error {
            InterchangeError::Io { source, .. } => not_written(path, source),
            other => not_written(path, io::Error::other(other.to_string())),
        })
    }

    fn text(&mut self, path: &Path, text: &str) -> Result<u64, ReplayError> {
        self.files.push(path.to_owned());
        std::fs::write(path, text).map_err(|source| not_written(path, source))?;
        Ok(text.len() as u64)
    }

    /// Removes the created files, and the created folders that are empty.
    fn undo(&self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn not_written(path: &Path, source: io::Error) -> ReplayError {
    ReplayError::NotWritten { path: path.to_owned(), source }
}

/// Text of the README: what the case is, what it contains, and how to replay it.
pub fn readme(case: &CaseFile, out: &Path, program: &str) -> String {
    let name = out.file_name().map_or_else(|| "CASE".into(), |n| n.to_string_lossy().into_owned());
    let kernels: Vec<&str> = case.subtasks.iter().map(|s| s.kernel.name.as_str()).collect();
    let (task, scene, kernels) = (hex64(case.task_id), &case.scene, kernels.join(" + "));
    let from_reference = case.expected == EXPECTS_REFERENCE;
    let outputs = if from_reference { "the outputs it should produce" } else { "the outputs it produced" };
    let captured = match &case.captured_by {
        Some(by) => format!("by `{by}`"),
        None => format!("on `{}` with runtime `{}`", case.platform, case.runtime),
    };
    let mut text = format!(
        "# Task {task} of `{scene}`: {kernels}\n\n\
         One task with its captured arguments and {outputs}, captured {captured}.\n\
         It needs no other file.\n\n\
         ```sh\n{program} replay {name}\n{program} replay {name} --platform a5sim\n{program} replay {name} --debugger --trust\n```\n\n"
    );
    for CaseLibrary { kernel, file, symbol, abi, build_id } in &case.libraries {
        let library = format!("{KERNELS_FOLDER}/{file}");
        let _ = writeln!(
            text,
            "Kernel `{kernel}` is `{symbol}` of `{library}` (ABI `{abi}`, {build_id}). On another machine this code\n\
             runs only if you name it: add `--kernel {kernel}={name}/{library}:{symbol}`.\n"
        );
    }
    if from_reference {
        text += "The f64 references of its kernels computed the expected outputs from the inputs, rounded to the element type.\n\
                 On every platform outputs are compared by the kernel's rule, not bit by bit.\n\n";
    }
    if case.redacted.is_some() {
        text += "**Redacted.** Tensor contents are seeded noise in the range of the captured values. Shapes, dtypes,\n\
                 scalars, statistics and hashes are the captured ones. Outputs cannot be checked; replay with\n\
                 `--allow-inexact`.\n\n";
    }
    text += "| argument | role | dtype | shape | before | after |\n| --- | --- | --- | --- | --- | --- |\n";
    for tensor in &case.tensors {
        let content = |content: &Option<CaseContent>| match content {
            None => String::new(),
            Some(CaseContent { tensor: Some(name), payload, .. }) => format!("`{name}` ({payload})"),
            Some(CaseContent { payload, .. }) => payload.clone(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:?} | {} | {} |",
            tensor.arg_index,
            tensor.role,
            tensor.dtype,
            tensor.shape,
            content(&tensor.before),
            content(&tensor.after)
        );
    }
    for scalar in &case.scalars {
        let value = scalar.value.as_deref().unwrap_or("unknown");
        let _ = writeln!(text, "| {} | scalar | {} | | {value} | |", scalar.arg_index, scalar.dtype);
    }
    text += "\nTensor contents are in safetensors form: contiguous, row-major, little endian. Equal contents are stored once.\n\
             4-bit elements are stored as bytes, two to a byte, the low half first.\n";
    if let Some(tolerance) = case.tolerance {
        let (rtol, atol) = (tolerance.rtol, tolerance.atol);
        let when = if from_reference { "Outputs" } else { "On another platform outputs" };
        let _ = writeln!(text, "{when} may differ by rtol {rtol:e}, atol {atol:e}.");
    }
    text
}
