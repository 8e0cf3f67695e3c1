use std::path::Path;

use tensortap_abi::{DType, KernelAbi, Role};

use crate::{
    Case, GraphError, HostArgs, HostTensor, KernelDef, KernelLibrary, Orch, ParamSpec, Params, ScalarArg,
    SceneError, Tolerance,
};

/// The runtimes that a scene supports. Prefer a kind over names, so that the scene also runs on new runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtimes {
    /// All runtimes.
    All,
    /// Runtimes that build the graph on the device during the run.
    DeviceBuilt,
    /// Runtimes with these names.
    Only(&'static [&'static str]),
}

impl Runtimes {
    /// Whether a runtime is supported.
    pub fn include(self, name: &str, builds_on_device: bool) -> bool {
        match self {
            Runtimes::All => true,
            Runtimes::DeviceBuilt => builds_on_device,
            Runtimes::Only(names) => names.contains(&name),
        }
    }
}

/// An argument of the orchestration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgSpec {
    /// The name, unique within the scene.
    pub name: &'static str,
    /// The element type.
    pub dtype: DType,
    /// The sizes of all dimensions.
    pub shape: Vec<u64>,
    /// The scene fills inputs. Outputs are compared with the golden. In-outs are both.
    pub role: Role,
}

impl ArgSpec {
    /// An argument that the scene fills.
    pub fn input(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::Input }
    }

    /// An argument that the graph writes and the golden contains.
    pub fn output(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::Output }
    }

    /// An argument that the scene fills and the graph changes.
    pub fn inout(name: &'static str, dtype: DType, shape: &[u64]) -> ArgSpec {
        ArgSpec { name, dtype, shape: shape.into(), role: Role::InOut }
    }
}

/// Defines the functions of a [`Scene`] that return constants. `hidden` is optional.
///
/// ```
/// # use tensortap_scene::{ArgSpec, GraphError, HostArgs, HostTensor, Orch, ParamSpec, Params, Scene, scene_facts};
/// struct Nothing;
///
/// impl Scene for Nothing {
///     scene_facts! {
///         name: "nothing",
///         about: "an empty graph",
///         params: &[ParamSpec::int("n", "16", 1, 1024, "elements")],
///         kernels: &[],
///     }
/// #   fn args(&self, _: &Params) -> Vec<ArgSpec> { Vec::new() }
/// #   fn fill(&self, _: &Params, _: &mut HostArgs) {}
/// #   fn orchestrate(&self, _: &mut Orch<'_>, _: &Params) -> Result<(), GraphError> { Ok(()) }
/// #   fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> { None }
///     // …
/// }
/// assert_eq!((Nothing.name(), Nothing.params()[0].name, Nothing.hidden()), ("nothing", "n", false));
/// ```
#[macro_export]
macro_rules! scene_facts {
    (
        name: $name:expr,
        about: $about:expr,
        $(hidden: $hidden:expr,)?
        params: $params:expr,
        kernels: $kernels:expr,
    ) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn about(&self) -> &'static str {
            $about
        }

        $(fn hidden(&self) -> bool {
            $hidden
        })?

        fn params(&self) -> &'static [$crate::ParamSpec] {
            const { $params }
        }

        fn kernels(&self) -> &'static [$crate::KernelDef] {
            const { $kernels }
        }
    };
}

/// A runnable example: kernels, orchestration, inputs and golden. Host and device know it by name.
pub trait Scene: Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line for `tensortap scenes`.
    fn about(&self) -> &'static str;

    /// Whether the scene is left out of listings, because it is only for tests.
    fn hidden(&self) -> bool {
        false
    }

    /// The supported runtimes. The first one in the list of runtimes is the default.
    fn runtimes(&self) -> Runtimes {
        Runtimes::All
    }

    /// The parameters.
    fn params(&self) -> &'static [ParamSpec];

    /// Checks relations between parameters, which the range of a single parameter cannot express.
    fn check(&self, _params: &Params) -> Result<(), SceneError> {
        Ok(())
    }

    /// The kernels.
    fn kernels(&self) -> &'static [KernelDef];

    /// The tensor arguments of the orchestration.
    fn args(&self, params: &Params) -> Vec<ArgSpec>;

    /// The scalar arguments of the orchestration by name. They follow the tensors.
    fn scalar_args(&self, _params: &Params) -> Vec<(&'static str, ScalarArg)> {
        Vec::new()
    }

    /// Fills inputs and in-outs, from a seed in the parameters. Outputs stay zero.
    fn fill(&self, params: &Params, args: &mut HostArgs);

    /// Submits the tasks. The same code runs on every supported runtime.
    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError>;

    /// The expected content of each output and in-out, computed independently of the kernels. `None` if there
    /// is nothing to check.
    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>>;

    /// Like [`Scene::golden`], for scenes whose golden can fail: a file is missing, or a function crashes.
    ///
    /// # Errors
    ///
    /// A message for the user.
    fn try_golden(&self, params: &Params, inputs: &HostArgs) -> Result<Option<Vec<HostTensor>>, String> {
        Ok(self.golden(params, inputs))
    }

    /// The allowed difference of an output from the golden. `None` selects the default of its dtype.
    fn tolerance(&self, _output: &str) -> Option<Tolerance> {
        None
    }

    /// The cases that `tensortap test` runs.
    fn cases(&self) -> Vec<Case> {
        vec![Case::default()]
    }

    /// The data that a device needs to load the scene with its [`Loader`](crate::Loader). `None` if host and
    /// device have the scene in their executables.
    fn plan(&self) -> Option<&[u8]> {
        None
    }

    /// The library that contains the code of a kernel. `None` if the kernel is part of the executable.
    fn library(&self, _func_id: u32) -> Option<&KernelLibrary> {
        None
    }

    /// The calling convention of a kernel.
    fn abi(&self, _func_id: u32) -> KernelAbi {
        KernelAbi::Tensortap
    }

    /// The folder of the scene. Dumps record it, so that the kernels can be found again.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Like [`Scene::host_args`], for scenes whose inputs can be missing.
    ///
    /// # Errors
    ///
    /// The input that could not be filled.
    fn try_host_args(&self, params: &Params) -> Result<HostArgs, SceneError> {
        Ok(self.host_args(params))
    }

    /// Tensors in host memory for all arguments, with filled inputs.
    fn host_args(&self, params: &Params) -> HostArgs {
        let specs = self.args(params);
        let mut args = HostArgs(specs.iter().map(|s| HostTensor::zeros(s.name, s.dtype, &s.shape)).collect());
        self.fill(params, &mut args);
        args
    }
}
