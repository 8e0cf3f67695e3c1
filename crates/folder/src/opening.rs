//! From a description to libraries: the files that it names are there, compiled, and export what they should.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::definition::{CodeFile, Definition, Fill, GoldenDef};
use crate::library::{ABI_VERSION, Exports};
use crate::plan::{PlannedLibrary, ScenePlan};
use crate::scene::OpenOptions;
use crate::{FolderError, Mistake, compile};

/// A description whose files are looked at.
pub struct Opening<'o> {
    /// The description.
    pub file: &'o Path,
    /// The folder it is in.
    pub folder: &'o Path,
    /// What it says.
    pub definition: &'o Definition,
}

impl Opening<'_> {
    fn mistake(&self, line: usize, problem: String, remedy: &str) -> FolderError {
        Mistake { path: self.file.to_owned(), line, problem, remedy: remedy.to_owned() }.into()
    }

    /// Every file that the description names is there.
    pub fn check_files(&self) -> Result<(), FolderError> {
        let code = self
            .definition
            .functions()
            .into_iter()
            .map(|(f, what)| (f.file.path(), f.line, what))
            .collect::<Vec<_>>();
        let inputs = self.definition.tensors.iter().filter_map(|tensor| match &tensor.fill {
            Fill::File(path) => Some((path.as_path(), tensor.line, format!("tensor `{}`", tensor.name))),
            _ => None,
        });
        let golden = match &self.definition.golden {
            GoldenDef::Files(files) => files.as_slice(),
            _ => &[],
        };
        let golden = golden
            .iter()
            .map(|(name, path, line)| (path.as_path(), *line, format!("the golden of `{name}`")));
        for (path, line, what) in code.into_iter().chain(inputs).chain(golden) {
            if !self.folder.join(path).is_file() {
                let problem =
                    format!("{what} is in {}, and there is no such file in the folder", path.display());
                return Err(self.mistake(line, problem, "put it there, or name another"));
            }
        }
        Ok(())
    }

    /// Compiles what has sources, and gives the library of each file.
    pub fn libraries(&self, options: &OpenOptions) -> Result<Vec<PlannedLibrary>, FolderError> {
        let files: BTreeSet<&CodeFile> =
            self.definition.functions().into_iter().map(|(function, _)| &function.file).collect();
        let sources = files.iter().filter_map(|file| match file {
            CodeFile::Source(path) => Some(path.clone()),
            CodeFile::Library(_) => None,
        });
        let sources: Vec<PathBuf> = sources.collect();
        let flags = options.sanitizer.as_ref().map_or(&[][..], |sanitizer| &sanitizer.flags);
        if options.sanitizer.is_some() && sources.is_empty() {
            return Err(FolderError::NothingToSanitize { folder: self.folder.to_owned() });
        }
        let made = compile::compile(self.folder, &sources, &self.definition.build, flags)?;
        let library = |file: &&CodeFile| match file {
            CodeFile::Source(path) => PlannedLibrary::new(path.clone(), made[path].clone()),
            CodeFile::Library(path) => PlannedLibrary::new(path.clone(), self.folder.join(path)),
        };
        files.iter().map(library).collect()
    }

    /// Every function is exported by its library, which was compiled with this version of the header.
    pub fn check_functions(&self, plan: &ScenePlan) -> Result<(), FolderError> {
        for (function, what) in self.definition.functions() {
            let Some(library) = plan.library(function.file.path()) else { continue };
            let exports = Exports::read(&library.path)?;
            if let Some(version) = exports.other_version() {
                let problem = format!(
                    "it was compiled with version {version} of tensortap.h, and this is version {ABI_VERSION}; compile it again"
                );
                return Err(FolderError::Library { path: self.folder.join(function.file.path()), problem });
            }
            if !exports.has(&function.symbol) {
                let (symbol, file) = (&function.symbol, function.file.path().display());
                let problem = format!("{what} is the function `{symbol}`, which {file} does not export");
                let alike = exports.alike(symbol);
                let remedy = match alike.is_empty() {
                    true => "define it, and in C++ make it extern \"C\"".to_owned(),
                    false => format!(
                        "name another in `symbol` (it exports {}), or make it extern \"C\"",
                        alike.join(", ")
                    ),
                };
                return Err(self.mistake(function.line, problem, &remedy));
            }
        }
        Ok(())
    }
}
