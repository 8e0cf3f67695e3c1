//! Libraries that are copied into a case.

use std::path::{Path, PathBuf};

use tensortap_format::Task;

use crate::case_file::{CaseLibrary, KERNELS_FOLDER};
use crate::case_writer::is_file;
use crate::{LibraryKernel, ReplayError};

/// Libraries to copy into a case.
pub struct Libraries {
    /// Their descriptions in the case.
    pub described: Vec<CaseLibrary>,
    /// Each library with the path of its copy in the case.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

impl Libraries {
    /// The libraries of a task's kernels.
    pub fn of(given: &[LibraryKernel], task: Task<'_>, out: &Path) -> Result<Libraries, ReplayError> {
        let mut libraries = Libraries { described: Vec::new(), copies: Vec::new() };
        let kernels = task.kernel_names();
        for given in given.iter().filter(|given| kernels.contains(&given.name)) {
            if is_file(out) {
                let reason = "a single-file case cannot contain a library; choose a folder".into();
                return Err(ReplayError::Option { option: "--out", reason });
            }
            let LibraryKernel { name, library, symbol, build_id, abi, .. } = given;
            let file = libraries.copied(library, out);
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
    fn copied(&mut self, library: &Path, out: &Path) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((_, copy)) = self.copies.iter().find(|(from, _)| from == library) {
            return name(copy);
        }
        let plain: String = name(library).chars().map(plain).collect();
        let (mut unique, mut number) = (plain.clone(), 1);
        while self.copies.iter().any(|(_, copy)| name(copy) == unique) {
            number += 1;
            unique = format!("{number}_{plain}");
        }
        self.copies.push((library.to_owned(), out.join(KERNELS_FOLDER).join(&unique)));
        unique
    }
}

/// Replaces characters that are special in a shell or terminal.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
}
