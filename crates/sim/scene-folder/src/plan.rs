//! The plan that crosses to a device: the description as the host read it, and the libraries with its
//! functions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::FolderError;

/// The data that another process needs to create the scene.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenePlan {
    /// The folder.
    pub folder: PathBuf,
    /// The description, as the host read it.
    pub description: String,
    /// The library of each source and library in the description.
    pub libraries: Vec<PlannedLibrary>,
}

/// A library to load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedLibrary {
    /// The path in the description: the library, or its source.
    pub file: PathBuf,
    /// The file to load.
    pub path: PathBuf,
    /// The build id that the loaded file must have.
    pub build_id: String,
}

impl ScenePlan {
    /// Encodes the plan.
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and lists of them")
    }

    /// Decodes a plan.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ScenePlan, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("the plan of a scene is invalid: {error}"))
    }

    /// The library with the functions of a file.
    pub(crate) fn library(&self, file: &std::path::Path) -> Option<&PlannedLibrary> {
        self.libraries.iter().find(|library| library.file == file)
    }
}

impl PlannedLibrary {
    /// A library with its current build id.
    pub(crate) fn new(file: PathBuf, path: PathBuf) -> Result<PlannedLibrary, FolderError> {
        let build_id = crate::build_id(&path).map_err(FolderError::io("read", &path))?;
        Ok(PlannedLibrary { file, path, build_id })
    }
}
