//! Checks the files of a description, compiles the sources, and checks that the libraries export all
//! functions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::definition::{CodeFile, Definition, Fill, GoldenDef};
use crate::library::{ABI_VERSION, Exports};
use crate::plan::{PlannedLibrary, ScenePlan};
use crate::scene::OpenOptions;
use crate::{FolderError, Mistake, compile};

/// A description with its files.
pub struct SceneFiles<'o> {
    /// The description file.
    pub file: &'o Path,
    /// The folder that contains it.
    pub folder: &'o Path,
    /// Its content.
    pub definition: &'o Definition,
}

impl SceneFiles<'_> {
    fn mistake(&self, line: usize, problem: String, remedy: &str) -> FolderError {
        Mistake { path: self.file.to_owned(), line, problem, remedy: remedy.to_owned() }.into()
    }

    /// Checks that all files in the description exist.
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
                let problem = format!("{what} is in {}, but the folder has no such file", path.display());
                return Err(self.mistake(line, problem, "add the file, or change the path"));
            }
        }
        Ok(())
    }

    /// Compiles all sources and returns the library of each file.
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

    /// Checks that the libraries export all functions, and that they were compiled with this version of the
    /// header.
    pub fn check_functions(&self, plan: &ScenePlan) -> Result<(), FolderError> {
        for (function, what) in self.definition.functions() {
            let Some(library) = plan.library(function.file.path()) else { continue };
            let exports = Exports::read(&library.path)?;
            if let Some(version) = exports.other_version() {
                let problem = format!(
                    "it was compiled with version {version} of tensortap.h, but this is version {ABI_VERSION}; compile it again"
                );
                return Err(FolderError::Library { path: self.folder.join(function.file.path()), problem });
            }
            if !exports.has(&function.symbol) {
                let (symbol, file) = (&function.symbol, function.file.path().display());
                let problem = format!("{what} is the function `{symbol}`, which {file} does not export");
                let similar = exports.similar(symbol);
                let remedy = match similar.is_empty() {
                    true => "define it, and declare it extern \"C\" in C++".to_owned(),
                    false => format!(
                        "set `symbol` to another function (it exports {}), or declare it extern \"C\"",
                        similar.join(", ")
                    ),
                };
                return Err(self.mistake(function.line, problem, &remedy));
            }
        }
        Ok(())
    }
}
