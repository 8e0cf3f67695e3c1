//! What `scenes --json` prints.

use std::collections::BTreeMap;

use serde::Serialize;
use tensortap::scene::{KernelDef, ParamKind, ParamSpec, Scene};

/// The document of a scene.
#[derive(Serialize)]
pub struct SceneDocument {
    name: &'static str,
    about: &'static str,
    runtimes: Vec<&'static str>,
    platforms: Vec<&'static str>,
    kernels: Vec<KernelDocument>,
    params: BTreeMap<&'static str, ParamDocument>,
}

#[derive(Serialize)]
struct KernelDocument {
    name: &'static str,
    func_id: u32,
    core_type: String,
    args: Vec<ArgDocument>,
    faults: Vec<&'static str>,
}

#[derive(Serialize)]
struct ArgDocument {
    arg_name: &'static str,
    kind: &'static str,
}

/// Values are 64-bit integers or words, and always strings.
#[derive(Serialize)]
struct ParamDocument {
    about: &'static str,
    default: &'static str,
    #[serde(flatten)]
    values: ValuesDocument,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ValuesDocument {
    Range { min: String, max: String },
    Choice { choices: &'static [&'static str] },
}

impl SceneDocument {
    /// The document of a scene.
    #[must_use]
    pub fn of(scene: &dyn Scene) -> SceneDocument {
        SceneDocument {
            name: scene.name(),
            about: scene.about(),
            runtimes: tensortap::runtimes_of(scene),
            platforms: tensortap::PLATFORMS.iter().map(|platform| platform.name()).collect(),
            kernels: scene.kernels().iter().map(KernelDocument::of).collect(),
            params: scene.params().iter().map(|param| (param.name, ParamDocument::of(param))).collect(),
        }
    }
}

impl KernelDocument {
    fn of(kernel: &KernelDef) -> KernelDocument {
        KernelDocument {
            name: kernel.name,
            func_id: kernel.func_id,
            core_type: kernel.core_type.to_string(),
            args: kernel
                .signature
                .iter()
                .map(|arg| ArgDocument { arg_name: arg.name(), kind: arg.kind().name() })
                .collect(),
            faults: kernel.faults.iter().map(|fault| fault.name()).collect(),
        }
    }
}

impl ParamDocument {
    fn of(param: &ParamSpec) -> ParamDocument {
        let values = match param.kind {
            ParamKind::Int { min, max } => {
                ValuesDocument::Range { min: min.to_string(), max: max.to_string() }
            }
            ParamKind::Choice(choices) => ValuesDocument::Choice { choices },
        };
        ParamDocument { about: param.about, default: param.default, values }
    }
}
