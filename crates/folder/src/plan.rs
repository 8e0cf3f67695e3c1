//! What crosses to a device: the description as the host read it, and which libraries hold its functions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::FolderError;

/// A scene as another process makes it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenePlan {
    /// The folder.
    pub folder: PathBuf,
    /// The description, as the host read it.
    pub description: String,
    /// The library of each source or library that the description names.
    pub libraries: Vec<PlannedLibrary>,
}

/// A library to be loaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedLibrary {
    /// As the description names it, or its source.
    pub file: PathBuf,
    /// What to load.
    pub path: PathBuf,
    /// Identity of its build, to be found in the file that is loaded.
    pub build_id: String,
}

impl ScenePlan {
    /// As it crosses.
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and lists of them")
    }

    /// From the bytes that crossed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ScenePlan, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("the plan of a scene makes no sense: {error}"))
    }

    /// The library that holds the functions of a file.
    pub(crate) fn library(&self, file: &std::path::Path) -> Option<&PlannedLibrary> {
        self.libraries.iter().find(|library| library.file == file)
    }
}

impl PlannedLibrary {
    /// A library with the identity that it has now.
    pub(crate) fn new(file: PathBuf, path: PathBuf) -> Result<PlannedLibrary, FolderError> {
        let build_id = crate::build_id(&path).map_err(FolderError::io("read", &path))?;
        Ok(PlannedLibrary { file, path, build_id })
    }
}
