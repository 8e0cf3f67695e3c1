use tensortap_abi::{ArgKind, CoreType, KernelEntry};

use crate::{FaultKind, Reference, Scene, Tolerance};

/// A kernel: what runs, what it takes, what it should compute, and how it can be damaged on purpose.
#[derive(Clone, Copy)]
pub struct KernelDef {
    /// Number by which tasks refer to it; unique within its scene.
    pub func_id: u32,
    /// Name by which it crosses to the device; unique within its scene.
    pub name: &'static str,
    /// Type of core it runs on.
    pub core_type: CoreType,
    /// Its arguments, in slot order.
    pub signature: &'static [ArgKind],
    /// The code.
    pub entry: KernelEntry,
    /// What it should compute, in f64, sharing no code with `entry`.
    pub reference: Reference,
    /// How far outputs may be from the reference; `None` for the defaults of their dtypes.
    pub tolerance: Option<Tolerance>,
    /// Faults that show in the scene's result.
    pub faults: &'static [FaultKind],
}

impl std::fmt::Debug for KernelDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelDef({} {} on {})", self.func_id, self.name, self.core_type)
    }
}

/// The scenes a host and its device agree on by name.
#[derive(Clone, Default)]
pub struct Registry {
    scenes: Vec<&'static dyn Scene>,
}

impl Registry {
    /// A registry of these scenes.
    pub fn new(scenes: &[&'static dyn Scene]) -> Registry {
        Registry { scenes: scenes.to_vec() }
    }

    /// The registry with one more scene.
    #[must_use]
    pub fn with(mut self, scene: &'static dyn Scene) -> Registry {
        self.scenes.push(scene);
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
