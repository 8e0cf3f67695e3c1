use std::path::PathBuf;

use tensortap_abi::{ArgKind, CoreType, KernelEntry, Role};

use crate::{FaultKind, GraphError, MAX_NAME_BYTES, Reference, Scene, SceneError, Tolerance};

/// The declaration of one kernel argument: how the kernel uses it, and its name.
///
/// ```
/// use tensortap_abi::ArgKind;
/// use tensortap_scene::KernelArg::{self, In, Out, Scalar};
///
/// const SCALE: &[KernelArg] = &[In("x"), Out("y"), Scalar("factor")];
/// assert_eq!((SCALE[2].name(), SCALE[2].kind()), ("factor", ArgKind::Scalar));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelArg {
    /// A tensor that is read.
    In(&'static str),
    /// A tensor whose elements are all written.
    Out(&'static str),
    /// A tensor that is read and written, or only partly written.
    InOut(&'static str),
    /// A scalar.
    Scalar(&'static str),
}

impl KernelArg {
    /// The name, unique within the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            KernelArg::In(name) | KernelArg::Out(name) | KernelArg::InOut(name) | KernelArg::Scalar(name) => {
                name
            }
        }
    }

    /// How the kernel uses the argument.
    pub const fn kind(self) -> ArgKind {
        match self {
            KernelArg::In(_) => ArgKind::In,
            KernelArg::Out(_) => ArgKind::Out,
            KernelArg::InOut(_) => ArgKind::InOut,
            KernelArg::Scalar(_) => ArgKind::Scalar,
        }
    }
}

/// A kernel: its code, its arguments, its reference, and the faults that can be injected.
#[derive(Clone, Copy)]
pub struct KernelDef {
    /// Number of the kernel, unique within its scene. Tasks refer to it.
    pub func_id: u32,
    /// Name of the kernel, unique within its scene. It crosses to the device.
    pub name: &'static str,
    /// The type of core it runs on.
    pub core_type: CoreType,
    /// Its arguments in slot order: tensors, then scalars.
    pub signature: &'static [KernelArg],
    /// Its code.
    pub entry: KernelEntry,
    /// Computes the correct outputs in f64, without sharing code with `entry`. A kernel without a reference
    /// cannot be judged by one.
    pub reference: Option<&'static dyn Reference>,
    /// Allowed difference from the reference. `None` selects the defaults of the dtypes.
    pub tolerance: Option<Tolerance>,
    /// Faults that change the scene's result.
    pub faults: &'static [FaultKind],
}

impl KernelDef {
    /// The name of an argument, or `None` if the signature is too short.
    pub fn arg_name(&self, arg_index: usize) -> Option<&'static str> {
        self.signature.get(arg_index).map(|arg| arg.name())
    }

    /// Checks that arguments match the declaration. Each declared argument must be submitted with the access
    /// that the kernel needs, because dependencies follow from the submission. Additional arguments are
    /// allowed, because the kernels of a mix task share one list.
    ///
    /// `role` returns the role of a tensor argument. The remaining arguments, `args` in total, are scalars.
    ///
    /// # Errors
    ///
    /// The first argument that does not match.
    pub fn check_args(&self, role: impl Fn(usize) -> Option<Role>, args: usize) -> Result<(), GraphError> {
        for (arg_index, arg) in self.signature.iter().enumerate() {
            let given = match role(arg_index) {
                Some(Role::Input) => Some(ArgKind::In),
                Some(Role::Output) => Some(ArgKind::Out),
                Some(Role::InOut) => Some(ArgKind::InOut),
                None if arg_index < args => Some(ArgKind::Scalar),
                None => None,
            };
            if given.is_some_and(|kind| satisfies(kind, arg.kind())) {
                continue;
            }
            return Err(GraphError::Signature {
                kernel: self.name,
                arg_index,
                name: arg.name(),
                declared: declared_as(arg.kind()),
                submitted: given.map_or("not submitted", submitted_as),
            });
        }
        Ok(())
    }

    /// Checks that the names of all arguments are valid and unique.
    pub fn check_names(&self) -> Result<(), SceneError> {
        let bad = |name: &str, problem| {
            Err(SceneError::BadName { kernel: self.name, name: crate::name::excerpt(name), problem })
        };
        for (i, name) in self.signature.iter().map(|arg| arg.name()).enumerate() {
            if name.is_empty() {
                return bad(name, "is empty");
            }
            if name.len() > MAX_NAME_BYTES {
                return bad(name, "is longer than 255 bytes");
            }
            if self.signature[..i].iter().any(|earlier| earlier.name() == name) {
                return bad(name, "names two of its arguments");
            }
        }
        Ok(())
    }
}

/// Whether an argument that is submitted as one kind satisfies a declaration of another kind.
fn satisfies(submitted: ArgKind, declared: ArgKind) -> bool {
    match declared {
        ArgKind::In => matches!(submitted, ArgKind::In | ArgKind::InOut),
        // The first task of an accumulation submits the accumulator as an output.
        ArgKind::Out | ArgKind::InOut => matches!(submitted, ArgKind::Out | ArgKind::InOut),
        ArgKind::Scalar => submitted == ArgKind::Scalar,
    }
}

fn declared_as(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::In => "as an input",
        ArgKind::Out => "as an output",
        ArgKind::InOut => "as an in-out",
        ArgKind::Scalar => "as a scalar",
    }
}

fn submitted_as(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::In => "submitted as an input",
        ArgKind::Out => "submitted as an output",
        ArgKind::InOut => "submitted as an in-out",
        ArgKind::Scalar => "submitted as a scalar",
    }
}

impl std::fmt::Debug for KernelDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelDef({} {} on {})", self.func_id, self.name, self.core_type)
    }
}

/// A shared library with the code of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLibrary {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the kernel's entry in the library.
    pub symbol: String,
    /// Identifies the build of the library: `gnu:` and its build id, or `xxh3_128:` and the hash of the file.
    pub build_id: String,
}

/// Creates a scene from its [plan](Scene::plan) and loads its libraries into this process. `known` are the
/// scenes of the executable, which a plan may extend. The error is a message for the user.
pub type Loader = fn(plan: &[u8], known: &Registry) -> Result<&'static dyn Scene, String>;

/// The scenes that a process knows by name. Host and device must have the same ones.
#[derive(Clone, Default)]
pub struct Registry {
    scenes: Vec<&'static dyn Scene>,
    loader: Option<Loader>,
}

impl Registry {
    /// A registry of these scenes.
    pub fn new(scenes: &[&'static dyn Scene]) -> Registry {
        Registry { scenes: scenes.to_vec(), loader: None }
    }

    /// Adds a loader, for a process that can load scenes from plans.
    #[must_use]
    pub fn with_loader(mut self, loader: Loader) -> Registry {
        self.loader = Some(loader);
        self
    }

    /// Adds a scene that is found before others with its name.
    #[must_use]
    pub fn with_first(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.insert(0, scene);
        self
    }

    /// Adds a scene and removes others with its name.
    #[must_use]
    pub fn with_instead(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.retain(|other| other.name() != scene.name());
        self.with_first(scene)
    }

    /// The plans of all scenes that have one, in the format of [`Registry::load_plans`].
    #[must_use]
    pub fn plans(&self) -> Vec<u8> {
        plans(self.scenes.iter().copied())
    }

    /// Loads the scenes of these plans into this process.
    ///
    /// # Errors
    ///
    /// A message for the user, if a scene could not be loaded.
    pub fn load_plans(&self, mut plans: &[u8]) -> Result<Registry, String> {
        let loader = self.loader.ok_or("this executable cannot load scenes from folders")?;
        let mut scenes = Vec::new();
        while let Some((head, rest)) = plans.split_first_chunk::<8>() {
            let bytes = usize::try_from(u64::from_le_bytes(*head)).map_err(|error| error.to_string())?;
            let (plan, rest) = rest.split_at_checked(bytes).ok_or("the plan of a scene is truncated")?;
            scenes.push(loader(plan, self)?);
            plans = rest;
        }
        Ok(Registry { scenes, loader: self.loader })
    }

    /// Adds a scene.
    #[must_use]
    pub fn with(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.push(scene);
        self
    }

    /// Adds those scenes of another registry whose names are not in this one.
    #[must_use]
    pub fn and(mut self, other: &Registry) -> Registry {
        let new: Vec<_> =
            other.scenes.iter().filter(|scene| self.find(scene.name()).is_none()).copied().collect();
        self.scenes.extend(new);
        self.loader = self.loader.or(other.loader);
        self
    }

    /// All scenes, including hidden ones.
    pub fn scenes(&self) -> &[&'static dyn Scene] {
        &self.scenes
    }

    /// The scene with this name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Scene> {
        self.scenes.iter().copied().find(|s| s.name() == name)
    }
}

/// The plans of those scenes that have one, each preceded by its length.
pub fn plans<'s>(scenes: impl IntoIterator<Item = &'s dyn Scene>) -> Vec<u8> {
    let plans = scenes.into_iter().filter_map(|scene| scene.plan());
    plans.flat_map(|plan| [&(plan.len() as u64).to_le_bytes(), plan].concat()).collect()
}
