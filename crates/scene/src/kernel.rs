use std::path::PathBuf;

use tensortap_abi::{ArgKind, CoreType, KernelEntry, Role};

use crate::{FaultKind, GraphError, MAX_NAME_BYTES, Reference, Scene, SceneError, Tolerance};

/// What a kernel declares of one argument: how it uses it, and the name people know it by.
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
    /// A tensor of which every element is written.
    Out(&'static str),
    /// A tensor that is read and written, or only partly written.
    InOut(&'static str),
    /// A scalar.
    Scalar(&'static str),
}

impl KernelArg {
    /// Its name, unique within the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            KernelArg::In(name) | KernelArg::Out(name) | KernelArg::InOut(name) | KernelArg::Scalar(name) => {
                name
            }
        }
    }

    /// How the kernel uses it.
    pub const fn kind(self) -> ArgKind {
        match self {
            KernelArg::In(_) => ArgKind::In,
            KernelArg::Out(_) => ArgKind::Out,
            KernelArg::InOut(_) => ArgKind::InOut,
            KernelArg::Scalar(_) => ArgKind::Scalar,
        }
    }
}

/// A kernel: what runs, what it takes, what it should compute, and how it can be damaged on purpose.
#[derive(Clone, Copy)]
pub struct KernelDef {
    /// Number by which tasks refer to it; unique within its scene.
    pub func_id: u32,
    /// Name by which it crosses to the device; unique within its scene.
    pub name: &'static str,
    /// Type of core it runs on.
    pub core_type: CoreType,
    /// Its arguments, in slot order: tensors, then scalars.
    pub signature: &'static [KernelArg],
    /// The code.
    pub entry: KernelEntry,
    /// What it should compute, in f64, sharing no code with `entry`; a kernel without one cannot be judged by reference.
    pub reference: Option<&'static dyn Reference>,
    /// How far outputs may be from the reference; `None` for the defaults of their dtypes.
    pub tolerance: Option<Tolerance>,
    /// Faults that show in the scene's result.
    pub faults: &'static [FaultKind],
}

impl KernelDef {
    /// Name of an argument; `None` for one that the signature does not reach.
    pub fn arg_name(&self, arg_index: usize) -> Option<&'static str> {
        self.signature.get(arg_index).map(|arg| arg.name())
    }

    /// Refuses arguments that the kernel could not take: what it declares it must be given, for reading or for writing as it
    /// needs it, for dependencies follow from what was submitted. It may be given more than it declares: kernels of a mix
    /// task share one list. `role` tells that of a tensor; what comes behind the tensors are scalars, of `args` in all.
    ///
    /// # Errors
    /// The first argument that does not fit.
    pub fn check_args(&self, role: impl Fn(usize) -> Option<Role>, args: usize) -> Result<(), GraphError> {
        for (arg_index, arg) in self.signature.iter().enumerate() {
            let given = match role(arg_index) {
                Some(Role::Input) => Some(ArgKind::In),
                Some(Role::Output) => Some(ArgKind::Out),
                Some(Role::InOut) => Some(ArgKind::InOut),
                None if arg_index < args => Some(ArgKind::Scalar),
                None => None,
            };
            if given.is_some_and(|kind| serves(kind, arg.kind())) {
                continue;
            }
            return Err(GraphError::Signature {
                kernel: self.name,
                arg_index,
                name: arg.name(),
                declared: words(arg.kind()),
                submitted: given.map_or("not at all", words),
            });
        }
        Ok(())
    }

    /// Refuses names that could not be told apart, or that no dump would hold: those of the kernel and of each of its
    /// arguments.
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

/// Whether an argument that is submitted like that will do for one that is declared like this.
fn serves(submitted: ArgKind, declared: ArgKind) -> bool {
    match declared {
        ArgKind::In => matches!(submitted, ArgKind::In | ArgKind::InOut),
        // An accumulator is an output of the task that begins it.
        ArgKind::Out | ArgKind::InOut => matches!(submitted, ArgKind::Out | ArgKind::InOut),
        ArgKind::Scalar => submitted == ArgKind::Scalar,
    }
}

fn words(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::In => "as an input",
        ArgKind::Out => "as an output",
        ArgKind::InOut => "as an in-out",
        ArgKind::Scalar => "as a scalar",
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
    /// The file.
    pub path: PathBuf,
    /// Name of the kernel's entry in it.
    pub symbol: String,
    /// Tells one build of the library from another: `gnu:` and its build id, or `xxh3_128:` and the hash of the file.
    pub build_id: String,
}

/// Makes a scene of its [plan](Scene::plan), with its libraries loaded into this process; `known` are the scenes of the executable,
/// which a plan may build upon. The error is in words for the user.
pub type Loader = fn(plan: &[u8], known: &Registry) -> Result<&'static dyn Scene, String>;

/// The scenes a host and its device agree on by name.
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

    /// The registry of a process that can load scenes by their plans.
    #[must_use]
    pub fn with_loader(mut self, loader: Loader) -> Registry {
        self.loader = Some(loader);
        self
    }

    /// The registry with a scene that is found before others of its name.
    #[must_use]
    pub fn with_first(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.insert(0, scene);
        self
    }

    /// The registry with a scene in place of others of its name.
    #[must_use]
    pub fn with_instead(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.retain(|other| other.name() != scene.name());
        self.with_first(scene)
    }

    /// The plans of all scenes that have one, as [`Registry::load_plans`] takes them.
    #[must_use]
    pub fn plans(&self) -> Vec<u8> {
        plans(self.scenes.iter().copied())
    }

    /// The scenes of these plans, loaded into this process.
    ///
    /// # Errors
    /// Why one could not be loaded, in words for the user.
    pub fn load_plans(&self, mut plans: &[u8]) -> Result<Registry, String> {
        let loader = self.loader.ok_or("this executable cannot load scenes of folders")?;
        let mut scenes = Vec::new();
        while let Some((head, rest)) = plans.split_first_chunk::<8>() {
            let bytes = usize::try_from(u64::from_le_bytes(*head)).map_err(|error| error.to_string())?;
            let (plan, rest) = rest.split_at_checked(bytes).ok_or("the plan of a scene is cut off")?;
            scenes.push(loader(plan, self)?);
            plans = rest;
        }
        Ok(Registry { scenes, loader: self.loader })
    }

    /// The registry with one more scene.
    #[must_use]
    pub fn with(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.push(scene);
        self
    }

    /// The registry with those scenes of another whose names it does not have.
    #[must_use]
    pub fn and(mut self, other: &Registry) -> Registry {
        let new: Vec<_> =
            other.scenes.iter().filter(|scene| self.find(scene.name()).is_none()).copied().collect();
        self.scenes.extend(new);
        self.loader = self.loader.or(other.loader);
        self
    }

    /// Every scene, hidden ones too.
    pub fn scenes(&self) -> &[&'static dyn Scene] {
        &self.scenes
    }

    /// The scene of a name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Scene> {
        self.scenes.iter().copied().find(|s| s.name() == name)
    }
}

/// The plans of those scenes that have one, each behind its length.
pub fn plans<'s>(scenes: impl IntoIterator<Item = &'s dyn Scene>) -> Vec<u8> {
    let plans = scenes.into_iter().filter_map(|scene| scene.plan());
    plans.flat_map(|plan| [&(plan.len() as u64).to_le_bytes(), plan].concat()).collect()
}
