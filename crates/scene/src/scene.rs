use std::path::Path;

use tensortap_abi::{DType, KernelAbi, Role};

use crate::{
    Case, GraphError, HostArgs, HostTensor, KernelDef, KernelLibrary, Orch, ParamSpec, Params, ScalarArg,
    SceneError, Tolerance,
};

/// Runtimes that a scene makes sense for. By kind where that is enough, so that a new runtime has scenes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtimes {
    /// Every one.
    All,
    /// Those that build the graph on the device, while it runs.
    DeviceBuilt,
    /// These, by name.
    Only(&'static [&'static str]),
}

impl Runtimes {
    /// Whether a runtime is one of them.
    pub fn include(self, name: &str, builds_on_device: bool) -> bool {
        match self {
            Runtimes::All => true,
            Runtimes::DeviceBuilt => builds_on_device,
            Runtimes::Only(names) => names.contains(&name),
        }
    }
}

/// One of the orchestration's own arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgSpec {
    /// Name, unique in the scene.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Inputs are filled by the scene; outputs are checked against the golden; in-outs are both.
    pub role: Role,
}

impl ArgSpec {
    /// An argument the scene fills.
    pub fn input(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::Input }
    }

    /// An argument the graph writes and the golden knows.
    pub fn output(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::Output }
    }

    /// An argument the scene fills and the graph changes.
    pub fn inout(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::InOut }
    }
}

/// A runnable case: kernels, orchestration, inputs and golden. Both host and device know it by name.
pub trait Scene: Send + Sync {
    /// Name, as on the command line.
    fn name(&self) -> &'static str;

    /// One line for `tensortap scenes`.
    fn about(&self) -> &'static str;

    /// Not listed: a scene made for tests.
    fn hidden(&self) -> bool {
        false
    }

    /// Runtimes it makes sense for; the first of them in the registry is the default.
    fn runtimes(&self) -> Runtimes {
        Runtimes::All
    }

    /// Its parameters.
    fn params(&self) -> &'static [ParamSpec];

    /// Relations between parameters that one parameter's range cannot say.
    fn check(&self, _params: &Params) -> Result<(), SceneError> {
        Ok(())
    }

    /// Its kernels.
    fn kernels(&self) -> &'static [KernelDef];

    /// The orchestration's own arguments.
    fn args(&self, params: &Params) -> Vec<ArgSpec>;

    /// The orchestration's own scalar arguments, by name; they stand behind its tensors.
    fn scalar_args(&self, _params: &Params) -> Vec<(&'static str, ScalarArg)> {
        Vec::new()
    }

    /// Writes the contents of inputs and in-outs, from a seed in the parameters. Outputs stay zero.
    fn fill(&self, params: &Params, args: &mut HostArgs);

    /// Submits the tasks. The same code serves every runtime of the scene.
    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError>;

    /// What each output and in-out should hold in the end, computed independently of the kernels. `None` when the
    /// scene has nothing to check.
    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>>;

    /// The same for scenes whose golden may fail to be computed: files that are not there, a function that crashes.
    ///
    /// # Errors
    /// Why it could not be computed, in words for the user.
    fn try_golden(&self, params: &Params, inputs: &HostArgs) -> Result<Option<Vec<HostTensor>>, String> {
        Ok(self.golden(params, inputs))
    }

    /// How far an output may be from the golden; the default of its dtype when `None`.
    fn tolerance(&self, _output: &str) -> Option<Tolerance> {
        None
    }

    /// What `tensortap test` runs it with.
    fn cases(&self) -> Vec<Case> {
        vec![Case::default()]
    }

    /// What a device must be given before it can run the scene, for a [`Loader`](crate::Loader) there; `None` when host and
    /// device have the scene in their executables.
    fn plan(&self) -> Option<&[u8]> {
        None
    }

    /// The library that holds the code of a kernel; `None` for one that is part of the executable.
    fn library(&self, _func_id: u32) -> Option<&KernelLibrary> {
        None
    }

    /// How a kernel takes its arguments.
    fn abi(&self, _func_id: u32) -> KernelAbi {
        KernelAbi::Tensortap
    }

    /// The folder it was read from; dumps record it, so that the kernels are found again.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// The same for scenes whose inputs may not be there.
    ///
    /// # Errors
    /// The input that could not be filled.
    fn try_host_args(&self, params: &Params) -> Result<HostArgs, SceneError> {
        Ok(self.host_args(params))
    }

    /// Tensors in host memory for all arguments, inputs filled.
    fn host_args(&self, params: &Params) -> HostArgs {
        let specs = self.args(params);
        let mut args = HostArgs(specs.iter().map(|s| HostTensor::zeros(s.name, s.dtype, &s.shape)).collect());
        self.fill(params, &mut args);
        args
    }
}
