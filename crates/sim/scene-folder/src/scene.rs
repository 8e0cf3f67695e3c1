//! A scene folder as a [`Scene`], equivalent to a scene in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use tensortap_abi::{KernelEntry, Role};
use tensortap_platform::Sanitizer;
use tensortap_scene::{
    ArgSpec, Case, GraphError, HostArgs, HostTensor, KernelDef, KernelLibrary, Orch, ParamKind, ParamSpec,
    Params, PlacedArg, RefTask, Reference, Runtimes, ScalarArg, Scene, SceneError, Tolerance, unloaded_entry,
};

use crate::bridge::{self, OrchestrationEntry};
use crate::definition::{Definition, Function, GoldenDef, GraphDef, SEED, whole};
use crate::dry::DryBuilder;
use crate::graph::{Step, StepExecutor, steps};
use crate::load::LoadedLibrary;
use crate::plan::{PlannedLibrary, ScenePlan};
use crate::scene_files::SceneFiles;
use crate::worker::{Answer, Request, Worker};
use crate::{FolderError, arrays, golden};

/// File extensions of headers.
const HEADERS: [&str; 4] = ["h", "hpp", "hh", "inc"];

/// The name of the description file in a scene folder.
pub const DESCRIPTION_FILE: &str = "scene.toml";

/// Options for opening a folder.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The executable to start as a worker. `None` means this one.
    pub executable: Option<PathBuf>,
    /// Names of the existing runtimes.
    pub runtimes: Vec<&'static str>,
    /// A sanitizer for the code of the folder. Its flags follow those of the description, and workers get its
    /// environment.
    pub sanitizer: Option<Sanitizer>,
}

/// A scene from a folder.
#[derive(Debug)]
pub struct FolderScene {
    definition: Definition,
    folder: PathBuf,
    plan: Vec<u8>,
    kernels: &'static [KernelDef],
    libraries: BTreeMap<u32, KernelLibrary>,
    code: FunctionHost,
}

/// The process that runs the functions of a folder.
#[derive(Debug)]
enum FunctionHost {
    /// A worker runs them.
    Worker(&'static Worker),
    /// This process is a device or a worker and runs them itself.
    Local(Entries),
}

/// Functions that are loaded into this process.
#[derive(Debug, Default)]
struct Entries {
    orchestration: Option<OrchestrationEntry>,
    golden: Option<KernelEntry>,
    references: BTreeMap<u32, KernelEntry>,
}

/// Advice if a golden file does not match the run.
const GOLDEN_FILE_ADVICE: &str = "; a golden file is valid for only one set of parameters and inputs: use those, or \
                                  compute the golden with `source` or `command` under [golden]";

/// Whether a path is a scene folder, or the description in one.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    description_of(path).is_file()
}

fn description_of(path: &Path) -> PathBuf {
    match path.file_name() {
        Some(name) if name == DESCRIPTION_FILE => path.to_owned(),
        _ => path.join(DESCRIPTION_FILE),
    }
}

impl FolderScene {
    /// Reads a folder, compiles its sources and checks that every function exists. The scene lives as long as
    /// the process. No code of the folder runs.
    ///
    /// # Errors
    ///
    /// The first mistake in the description, a compiler error, or a missing function.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<&'static FolderScene, FolderError> {
        let file = description_of(path);
        let folder = file.parent().unwrap_or(Path::new("."));
        let folder =
            std::fs::canonicalize(folder).map_err(FolderError::io("open the scene folder", folder))?;
        let description = std::fs::read_to_string(&file).map_err(FolderError::io("read", &file))?;
        let known = (!options.runtimes.is_empty()).then_some(options.runtimes.as_slice());
        let definition = Definition::parse(&description, &file, known)?;
        let opened = SceneFiles { file: &file, folder: &folder, definition: &definition };
        opened.check_files()?;
        let libraries = opened.libraries(options)?;
        let plan = ScenePlan { folder: folder.clone(), description, libraries };
        opened.check_functions(&plan)?;
        let encoded = plan.encode();
        let worker = Box::leak(Box::new(Worker::new(encoded, options)));
        Ok(Box::leak(Box::new(FolderScene::new(
            definition,
            &plan,
            FunctionHost::Worker(worker),
            &BTreeMap::new(),
        ))))
    }

    /// Creates the scene of a plan and loads its libraries into this process.
    pub(crate) fn load(plan: &[u8]) -> Result<&'static FolderScene, String> {
        let plan = ScenePlan::decode(plan)?;
        let file = plan.folder.join(DESCRIPTION_FILE);
        let definition =
            Definition::parse(&plan.description, &file, None).map_err(|error| error.to_string())?;
        let mut loaded = BTreeMap::new();
        for library in &plan.libraries {
            loaded.insert(library.file.as_path(), LoadedLibrary::open(library)?);
        }
        let find = |function: &Function| -> Result<&LoadedLibrary, String> {
            loaded.get(function.file.path()).ok_or_else(|| "the plan of the scene lacks a library".into())
        };
        let mut entries = Entries::default();
        let mut kernels = BTreeMap::new();
        for kernel in &definition.kernels {
            kernels.insert(kernel.func_id, find(&kernel.code)?.kernel(&kernel.code.symbol)?);
            if let Some(reference) = &kernel.reference {
                entries.references.insert(kernel.func_id, find(reference)?.kernel(&reference.symbol)?);
            }
        }
        if let GraphDef::Code(code) = &definition.graph {
            entries.orchestration = Some(find(code)?.orchestration(&code.symbol)?);
        }
        if let GoldenDef::Code(code) = &definition.golden {
            entries.golden = Some(find(code)?.kernel(&code.symbol)?);
        }
        Ok(Box::leak(Box::new(FolderScene::new(definition, &plan, FunctionHost::Local(entries), &kernels))))
    }

    fn new(
        definition: Definition,
        plan: &ScenePlan,
        code: FunctionHost,
        entries: &BTreeMap<u32, KernelEntry>,
    ) -> FolderScene {
        let worker = match &code {
            FunctionHost::Worker(worker) => Some(*worker),
            FunctionHost::Local(_) => None,
        };
        let kernels = definition.kernels.iter().map(|kernel| KernelDef {
            func_id: kernel.func_id,
            name: kernel.name,
            core_type: kernel.core_type,
            signature: kernel.signature,
            entry: entries.get(&kernel.func_id).copied().unwrap_or(unloaded_entry),
            reference: worker.filter(|_| kernel.reference.is_some()).map(|worker| {
                let reference = FolderReference { func_id: kernel.func_id, worker };
                &*Box::leak(Box::new(reference)) as &'static dyn Reference
            }),
            tolerance: kernel.tolerance,
            faults: kernel.faults,
        });
        let kernels = Vec::leak(kernels.collect());
        let libraries = definition.kernels.iter().filter_map(|kernel| {
            let PlannedLibrary { path, build_id, .. } = plan.library(kernel.code.file.path())?.clone();
            Some((kernel.func_id, KernelLibrary { path, symbol: kernel.code.symbol.clone(), build_id }))
        });
        let libraries = libraries.collect();
        FolderScene { folder: plan.folder.clone(), plan: plan.encode(), kernels, libraries, code, definition }
    }

    /// Copies the description, the code and the headers in the folder to another folder, so that the kernels
    /// can be built there.
    ///
    /// # Errors
    ///
    /// If a file cannot be copied.
    pub fn copy_code(&self, to: &Path) -> Result<(), FolderError> {
        let named =
            self.definition.functions().into_iter().map(|(function, _)| function.file.path().to_owned());
        let mut files: BTreeSet<PathBuf> = named.chain([PathBuf::from(DESCRIPTION_FILE)]).collect();
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| PathBuf::from(entry.file_name()));
        files.extend(
            names.filter(|name| name.extension().is_some_and(|ending| HEADERS.iter().any(|h| ending == *h))),
        );
        // Files outside of the folder are not copied, because the copies would be outside of the target
        // folder.
        let inside = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
        for file in files.into_iter().filter(inside) {
            let (from, into) = (self.folder.join(&file), to.join(&file));
            let parent = into.parent().unwrap_or(to);
            std::fs::create_dir_all(parent).map_err(FolderError::io("create", parent))?;
            std::fs::copy(&from, &into).map_err(FolderError::io("copy", &from))?;
        }
        Ok(())
    }

    /// The description of the folder.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    pub(crate) fn reference_entry(&self, func_id: u32) -> Option<KernelEntry> {
        match &self.code {
            FunctionHost::Local(entries) => entries.references.get(&func_id).copied(),
            FunctionHost::Worker(_) => None,
        }
    }

    pub(crate) fn golden_entry(&self) -> Option<KernelEntry> {
        match &self.code {
            FunctionHost::Local(entries) => entries.golden,
            FunctionHost::Worker(_) => None,
        }
    }

    /// Records the steps of the orchestration, without memory.
    pub(crate) fn record_steps(&self, params: &Params) -> Result<Vec<Step>, String> {
        let FunctionHost::Local(Entries { orchestration: Some(entry), .. }) = &self.code else {
            return Err("the orchestration is not loaded into this process".into());
        };
        let mut builder = DryBuilder::default();
        let placed: Vec<PlacedArg> = self.args(params).into_iter().map(|spec| builder.place(spec)).collect();
        let orch = Orch::new(&mut builder, placed).map(|orch| orch.with_scalars(self.scalar_args(params)));
        let mut orch = orch.map_err(|error| error.to_string())?;
        bridge::orchestrate(*entry, &mut orch, self.kernels, params, true).map_err(|error| error.to_string())
    }

    fn execute_steps(&self, orch: &mut Orch<'_>, steps: &[Step]) -> Result<(), GraphError> {
        let mut player = StepExecutor::new(orch, self.kernels);
        for step in steps {
            player.take(step)?;
        }
        player.finish()
    }

    fn whole_params(&self, params: &Params) -> Vec<u64> {
        let whole = self.definition.params.iter().filter(|spec| matches!(spec.kind, ParamKind::Int { .. }));
        whole.map(|spec| params.int(spec.name)).collect()
    }

    fn golden_of_code(&self, params: &Params, inputs: &HostArgs) -> Result<Vec<HostTensor>, String> {
        let FunctionHost::Worker(worker) = &self.code else {
            return Err("the golden is computed by the host".into());
        };
        let tensors = inputs.0.iter().map(|tensor| (tensor.dtype.tag(), tensor.shape.clone())).collect();
        let content: Vec<&[u8]> = inputs.0.iter().map(|tensor| tensor.bytes.as_slice()).collect();
        let request = Request::Golden { tensors, params: self.whole_params(params) };
        let (_, after) =
            worker.ask(&request, &content).map_err(|why| format!("the golden function failed: {why}"))?;
        let specs = self.args(params);
        let written = inputs.0.iter().zip(after).zip(specs).filter(|(_, spec)| spec.role.writes());
        Ok(written.map(|((tensor, bytes), _)| HostTensor { bytes, ..tensor.clone() }).collect())
    }
}

impl Scene for FolderScene {
    fn name(&self) -> &'static str {
        self.definition.name
    }

    fn about(&self) -> &'static str {
        self.definition.about
    }

    fn runtimes(&self) -> Runtimes {
        self.definition.runtimes.map_or(Runtimes::All, Runtimes::Only)
    }

    fn params(&self) -> &'static [ParamSpec] {
        self.definition.params
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        let param = whole(params);
        for tensor in &self.definition.tensors {
            tensor.sizes(&param).map_err(|why| SceneError::Sizes {
                scene: self.name(),
                tensor: tensor.name,
                why: format!("{why} (line {} of {DESCRIPTION_FILE})", tensor.line),
            })?;
        }
        Ok(())
    }

    fn kernels(&self) -> &'static [KernelDef] {
        self.kernels
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let param = whole(params);
        let spec = |(tensor, role): (&crate::definition::TensorDef, Role)| {
            let shape = tensor.sizes(&param).unwrap_or_default();
            ArgSpec { name: tensor.name, dtype: tensor.dtype, shape, role }
        };
        self.definition.args().map(spec).collect()
    }

    fn scalar_args(&self, _params: &Params) -> Vec<(&'static str, ScalarArg)> {
        self.definition.scalars.clone()
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        // Callers that need the error use `try_host_args`.
        let _ = self.fill_all(params, args);
    }

    fn try_host_args(&self, params: &Params) -> Result<HostArgs, SceneError> {
        let specs = self.args(params);
        let mut args = HostArgs(specs.iter().map(|s| HostTensor::zeros(s.name, s.dtype, &s.shape)).collect());
        self.fill_all(params, &mut args)?;
        Ok(args)
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        match (&self.definition.graph, &self.code) {
            (GraphDef::Tasks(tasks), _) => {
                let steps = steps(&self.definition, tasks, params).map_err(GraphError::Other)?;
                self.execute_steps(o, &steps)
            }
            (GraphDef::Code(_), FunctionHost::Local(Entries { orchestration: Some(entry), .. })) => {
                bridge::orchestrate(*entry, o, self.kernels, params, false).map(|_| ())
            }
            (GraphDef::Code(_), FunctionHost::Worker(worker)) => {
                let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                match worker.ask(&Request::Orchestrate { params }, &[]).map_err(GraphError::Other)? {
                    (Answer::Steps(steps), _) => self.execute_steps(o, &steps),
                    _ => Err(GraphError::Other("its worker process returned no steps".into())),
                }
            }
            _ => Err(GraphError::Other("the orchestration is not loaded".into())),
        }
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        self.try_golden(params, inputs).ok().flatten()
    }

    fn try_golden(&self, params: &Params, inputs: &HostArgs) -> Result<Option<Vec<HostTensor>>, String> {
        let written = || self.args(params).into_iter().filter(|spec| spec.role.writes());
        match &self.definition.golden {
            GoldenDef::None => Ok(None),
            GoldenDef::Files(files) => {
                let tensor = |spec: ArgSpec| {
                    let (_, path, _) = files.iter().find(|(name, ..)| *name == spec.name)?;
                    let bytes = arrays::read(&self.folder.join(path), spec.dtype, &spec.shape);
                    let bytes = bytes
                        .map_err(|why| format!("the golden of `{}`: {why}{GOLDEN_FILE_ADVICE}", spec.name));
                    Some(bytes.map(|bytes| HostTensor { bytes, ..zeros(&spec) }))
                };
                written().filter_map(tensor).collect::<Result<_, _>>().map(Some)
            }
            GoldenDef::Code(_) => self.golden_of_code(params, inputs).map(Some),
            GoldenDef::Command(command) => {
                let outputs: Vec<HostTensor> = written().map(|spec| zeros(&spec)).collect();
                golden::by_command(command, &self.folder, params, inputs, outputs).map(Some)
            }
        }
    }

    fn tolerance(&self, output: &str) -> Option<Tolerance> {
        self.definition.tensors.iter().find(|tensor| tensor.name == output)?.tolerance
    }

    fn cases(&self) -> Vec<Case> {
        let cases = &self.definition.cases;
        if cases.is_empty() { vec![Case::default()] } else { cases.clone() }
    }

    fn plan(&self) -> Option<&[u8]> {
        Some(&self.plan)
    }

    fn library(&self, func_id: u32) -> Option<&KernelLibrary> {
        self.libraries.get(&func_id)
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

fn zeros(spec: &ArgSpec) -> HostTensor {
    HostTensor::zeros(spec.name, spec.dtype, &spec.shape)
}

impl FolderScene {
    fn fill_all(&self, params: &Params, args: &mut HostArgs) -> Result<(), SceneError> {
        for ((tensor, _), host) in self.definition.args().zip(&mut args.0) {
            arrays::fill(host, &tensor.fill, &self.folder, params.int(SEED))
                .map_err(|why| SceneError::Input { scene: self.name(), tensor: tensor.name, why })?;
        }
        Ok(())
    }
}

/// A reference function in a library, run by a worker.
struct FolderReference {
    func_id: u32,
    worker: &'static Worker,
}

impl Reference for FolderReference {
    fn run(&self, task: &mut RefTask) -> Result<(), String> {
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let content: Vec<Vec<u8>> = task.tensors.iter().map(|tensor| bytes(&tensor.values)).collect();
        let sizes = |shape: &[usize]| shape.iter().map(|&size| size as u64).collect();
        let request = Request::Reference {
            func_id: self.func_id,
            shapes: task.tensors.iter().map(|tensor| sizes(&tensor.shape)).collect(),
            scalars: task.scalars.iter().map(|scalar| scalar.bits).collect(),
            block_num: task.block_num,
        };
        let content: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
        let (_, after) = self.worker.ask(&request, &content)?;
        for (tensor, bytes) in task.tensors.iter_mut().zip(after) {
            let words = bytes.as_chunks::<8>().0;
            tensor.values.iter_mut().zip(words).for_each(|(value, word)| *value = f64::from_le_bytes(*word));
        }
        Ok(())
    }
}
