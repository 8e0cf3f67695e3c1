//! Scenes with kernels from libraries that the user names, for replays. The kernels replace those of a scene,
//! or form a scene of their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tensortap_abi::{CoreType, KernelAbi, KernelEntry};
use tensortap_scene::{
    ArgSpec, Case, GraphError, HostArgs, HostTensor, KernelDef, KernelLibrary, Orch, ParamSpec, Params,
    Registry, Runtimes, ScalarArg, Scene, SceneError, Tolerance, unloaded_entry,
};

use crate::library::{ABI_VERSION, Exports};
use crate::load::LoadedLibrary;
use crate::plan::PlannedLibrary;
use crate::{FolderError, FolderScene};

/// Prefix of the plans of such scenes. All other plans are those of folders.
const MARK: &[u8] = b"given:";

/// Libraries of `simpler` that export this symbol need functions of its simulator, which tensortap does not
/// have.
const SIMPLER_HOOKS: &str = "pto_sim_register_hooks";

/// A kernel in a library that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserKernel {
    /// The name of the kernel.
    pub name: String,
    /// The library.
    pub path: PathBuf,
    /// The symbol of its entry.
    pub symbol: String,
    /// Its calling convention.
    pub abi: KernelAbi,
}

/// The plan that crosses to a device.
#[derive(Serialize, Deserialize)]
struct UserKernelPlan {
    name: String,
    /// The scene with the other kernels.
    scene: Option<String>,
    /// The plan of that scene, if it is a folder.
    base: Option<String>,
    kernels: Vec<PlannedKernel>,
}

#[derive(Serialize, Deserialize)]
struct PlannedKernel {
    func_id: u32,
    name: String,
    library: PlannedLibrary,
    symbol: String,
    abi: String,
}

/// A scene with kernels from the user's libraries.
pub struct UserKernelScene {
    name: &'static str,
    base: Option<&'static dyn Scene>,
    kernels: &'static [KernelDef],
    given: BTreeMap<u32, (KernelLibrary, KernelAbi)>,
    plan: Vec<u8>,
}

impl UserKernelScene {
    /// The scene `base` with kernels of these libraries instead of its kernels with the same names.
    ///
    /// # Errors
    ///
    /// If a library is invalid, lacks the symbol, or cannot be used here. None of its code runs.
    pub fn replacing(
        base: &'static dyn Scene,
        name: &str,
        kernels: &[UserKernel],
    ) -> Result<&'static UserKernelScene, FolderError> {
        let of_base = |name: &str| base.kernels().iter().find(|kernel| kernel.name == name);
        let kernels: Vec<(u32, &UserKernel)> = kernels
            .iter()
            .filter_map(|given| of_base(&given.name).map(|kernel| (kernel.func_id, given)))
            .collect();
        let plan = UserKernelPlan {
            name: name.into(),
            scene: Some(base.name().into()),
            base: base.plan().map(|plan| String::from_utf8_lossy(plan).into_owned()),
            kernels: planned(&kernels)?,
        };
        Ok(UserKernelScene::new(Some(base), plan, &BTreeMap::new()))
    }

    /// A scene that has only these kernels, numbered in this order, for tasks of another project.
    ///
    /// # Errors
    ///
    /// As for [`UserKernelScene::replacing`].
    pub fn standalone(name: &str, kernels: &[UserKernel]) -> Result<&'static UserKernelScene, FolderError> {
        let kernels: Vec<(u32, &UserKernel)> = (0..).zip(kernels).collect();
        let plan = UserKernelPlan { name: name.into(), scene: None, base: None, kernels: planned(&kernels)? };
        Ok(UserKernelScene::new(None, plan, &BTreeMap::new()))
    }

    /// Whether this is the plan of such a scene.
    pub(crate) fn is_plan(plan: &[u8]) -> bool {
        plan.starts_with(MARK)
    }

    /// Creates the scene of a plan and loads its libraries into this process.
    pub(crate) fn load(plan: &[u8], known: &Registry) -> Result<&'static UserKernelScene, String> {
        let json = plan.strip_prefix(MARK).unwrap_or_default();
        let plan: UserKernelPlan = serde_json::from_slice(json)
            .map_err(|error| format!("the plan of user kernels is invalid: {error}"))?;
        let base = match (&plan.base, &plan.scene) {
            (Some(folder), _) => Some(FolderScene::load(folder.as_bytes())? as &'static dyn Scene),
            (None, Some(scene)) => {
                let none =
                    || format!("this device executable has no scene `{scene}`; use executables of one build");
                Some(known.find(scene).ok_or_else(none)?)
            }
            (None, None) => None,
        };
        let mut entries = BTreeMap::new();
        for kernel in &plan.kernels {
            entries.insert(kernel.func_id, LoadedLibrary::open(&kernel.library)?.kernel(&kernel.symbol)?);
        }
        Ok(UserKernelScene::new(base, plan, &entries))
    }

    /// User kernels that are not in `entries` refuse to be called, because no code of a library runs in the
    /// host.
    fn new(
        base: Option<&'static dyn Scene>,
        plan: UserKernelPlan,
        entries: &BTreeMap<u32, KernelEntry>,
    ) -> &'static UserKernelScene {
        let encoded = [MARK, &serde_json::to_vec(&plan).expect("strings and lists of them")].concat();
        let entry = |func_id: u32| entries.get(&func_id).copied().unwrap_or(unloaded_entry);
        let is_given = |func_id: u32| plan.kernels.iter().any(|kernel| kernel.func_id == func_id);
        let of_base =
            base.map_or(&[][..], Scene::kernels).iter().map(|kernel| match is_given(kernel.func_id) {
                true => KernelDef { entry: entry(kernel.func_id), faults: &[], ..*kernel },
                false => *kernel,
            });
        let new = plan.kernels.iter().filter(|_| base.is_none()).map(|kernel| KernelDef {
            func_id: kernel.func_id,
            name: kernel.name.clone().leak(),
            core_type: CoreType::Aiv,
            signature: &[],
            entry: entry(kernel.func_id),
            reference: None,
            tolerance: None,
            faults: &[],
        });
        let kernels = Vec::leak(of_base.chain(new).collect());
        let given =
            plan.kernels.into_iter().map(|PlannedKernel { func_id, library, symbol, abi, .. }| {
                let PlannedLibrary { path, build_id, .. } = library;
                let abi = KernelAbi::from_name(&abi).unwrap_or_default();
                (func_id, (KernelLibrary { path, symbol, build_id }, abi))
            });
        let given = given.collect();
        let name = plan.name.leak();
        Box::leak(Box::new(UserKernelScene { name, base, kernels, given, plan: encoded }))
    }
}

/// Plans the libraries in their current state. Reads them only as files.
fn planned(kernels: &[(u32, &UserKernel)]) -> Result<Vec<PlannedKernel>, FolderError> {
    let plan = |&(func_id, given): &(u32, &UserKernel)| {
        let path =
            std::fs::canonicalize(&given.path).map_err(FolderError::io("open the library", &given.path))?;
        check(given, &path)?;
        Ok(PlannedKernel {
            func_id,
            name: given.name.clone(),
            library: PlannedLibrary::new(given.path.clone(), path)?,
            symbol: given.symbol.clone(),
            abi: given.abi.name().into(),
        })
    };
    kernels.iter().map(plan).collect()
}

fn check(given: &UserKernel, path: &Path) -> Result<(), FolderError> {
    let refuse = |problem: String| Err(FolderError::Library { path: given.path.clone(), problem });
    let exports = Exports::read(path)?;
    if let Some(version) = exports.other_version() {
        return refuse(format!(
            "it was compiled with version {version} of tensortap.h, but this is version {ABI_VERSION}; compile it again"
        ));
    }
    if given.abi == KernelAbi::Simpler && exports.has(SIMPLER_HOOKS) {
        return refuse(format!(
            "it exports `{SIMPLER_HOOKS}`, so it needs functions of the simulator of `simpler`, which tensortap does not have; \
             build it without them"
        ));
    }
    if exports.has(&given.symbol) {
        return Ok(());
    }
    let (name, symbol) = (&given.name, &given.symbol);
    let similar = exports.similar(symbol);
    refuse(match similar.is_empty() {
        true => format!(
            "kernel `{name}` is the function `{symbol}`, which it does not export; define it, and declare it extern \"C\" in C++"
        ),
        false => format!(
            "kernel `{name}` is the function `{symbol}`, which it does not export; it exports {}; select one with {name}=LIB:SYMBOL",
            similar.join(", ")
        ),
    })
}

impl Scene for UserKernelScene {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.base.map_or("kernels from libraries", Scene::about)
    }

    fn hidden(&self) -> bool {
        self.base.is_none_or(Scene::hidden)
    }

    fn runtimes(&self) -> Runtimes {
        self.base.map_or(Runtimes::All, Scene::runtimes)
    }

    fn params(&self) -> &'static [ParamSpec] {
        self.base.map_or(&[], Scene::params)
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        self.base.map_or(Ok(()), |base| base.check(params))
    }

    fn kernels(&self) -> &'static [KernelDef] {
        self.kernels
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        self.base.map_or_else(Vec::new, |base| base.args(params))
    }

    fn scalar_args(&self, params: &Params) -> Vec<(&'static str, ScalarArg)> {
        self.base.map_or_else(Vec::new, |base| base.scalar_args(params))
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        self.base.iter().for_each(|base| base.fill(params, args));
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let none = || GraphError::Other("kernels from libraries have no orchestration".into());
        self.base.ok_or_else(none)?.orchestrate(o, params)
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        self.base?.golden(params, inputs)
    }

    fn try_golden(&self, params: &Params, inputs: &HostArgs) -> Result<Option<Vec<HostTensor>>, String> {
        self.base.map_or(Ok(None), |base| base.try_golden(params, inputs))
    }

    fn tolerance(&self, output: &str) -> Option<Tolerance> {
        self.base?.tolerance(output)
    }

    fn cases(&self) -> Vec<Case> {
        self.base.map_or_else(Vec::new, Scene::cases)
    }

    fn plan(&self) -> Option<&[u8]> {
        Some(&self.plan)
    }

    fn library(&self, func_id: u32) -> Option<&KernelLibrary> {
        match self.given.get(&func_id) {
            Some((library, _)) => Some(library),
            None => self.base?.library(func_id),
        }
    }

    fn abi(&self, func_id: u32) -> KernelAbi {
        self.given.get(&func_id).map_or(KernelAbi::Tensortap, |(_, abi)| *abi)
    }

    fn folder(&self) -> Option<&Path> {
        self.base?.folder()
    }

    fn try_host_args(&self, params: &Params) -> Result<HostArgs, SceneError> {
        match self.base {
            Some(base) => base.try_host_args(params),
            None => Ok(HostArgs(Vec::new())),
        }
    }
}
