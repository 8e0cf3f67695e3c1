//! The libraries that a case brings along.

use std::path::{Path, PathBuf};

use tensortap_format::Task;

use crate::case_file::{CaseLibrary, KERNELS_FOLDER};
use crate::case_writer::is_file;
use crate::{GivenReport, ReplayError};

/// Libraries on their way into a case.
pub struct Libraries {
    /// As the case describes them.
    pub described: Vec<CaseLibrary>,
    /// Each library, and the file of the case that is to be its copy.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

impl Libraries {
    /// Those that the kernels of a task are taken from.
    pub fn of(given: &[GivenReport], task: Task<'_>, out: &Path) -> Result<Libraries, ReplayError> {
        let mut libraries = Libraries { described: Vec::new(), copies: Vec::new() };
        let kernels = task.kernel_names();
        for given in given.iter().filter(|given| kernels.contains(&given.name)) {
            if is_file(out) {
                let reason = "a case that is one file has no place for a library; name a folder".into();
                return Err(ReplayError::Option { option: "--out", reason });
            }
            let GivenReport { name, library, symbol, build_id, abi, .. } = given;
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

    /// The name of a library's copy, which no other library has.
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

/// Characters that mean nothing to a shell or a terminal.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
}
