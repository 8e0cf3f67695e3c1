//! Modules: images of code, which are kept in the dump.

use std::collections::HashMap;

use tensortap_record::{ModuleId, ModuleImage, ModuleKind};

use crate::{cubin, door::Door};

/// Larger images are not kept.
const MOST_IMAGE_BYTES: usize = 1 << 30;

/// Modules by the kernels that they have.
#[derive(Debug)]
pub struct Modules<Id = ModuleId> {
    /// None: several have one of that name.
    by_kernel: HashMap<String, Option<Id>>,
}

impl<Id> Default for Modules<Id> {
    fn default() -> Modules<Id> {
        Modules { by_kernel: HashMap::new() }
    }
}

impl<Id: Copy + PartialEq> Modules<Id> {
    /// The module that a kernel of this name is of, if that is certain.
    pub fn of(&self, kernel: &str) -> Option<Id> {
        self.by_kernel.get(kernel).copied().flatten()
    }

    fn keep(&mut self, module: Id, kernels: Vec<String>) {
        for kernel in kernels {
            let known = self.by_kernel.entry(kernel).or_insert(Some(module));
            if *known != Some(module) {
                *known = None;
            }
        }
    }
}

/// A module was loaded.
pub fn loaded(door: &Door, image: &[u8]) {
    if image.is_empty() || image.len() > MOST_IMAGE_BYTES {
        return;
    }
    let kernels = cubin::kernels(image);
    let name = match &kernels[..] {
        [] => "code without kernels".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    };
    let (_, device) = door.driver.device();
    let module = door.record(|recorder| {
        recorder.module_image(&ModuleImage {
            name: &name,
            kind: ModuleKind::Cubin,
            options: "",
            device: &device,
            image,
        })
    });
    if let Some(module) = module {
        door.state().modules.keep(module, kernels);
    }
}

/// A module goes: handles of its kernels may be those of others from now on.
pub fn goes(door: &Door) {
    door.state().kernels.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_two_modules_have_is_of_neither() {
        let mut modules = Modules::<u32>::default();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (one, other) = (1, 2);
        modules.keep(one, names(&["a", "b"]));
        modules.keep(one, names(&["a"]));
        modules.keep(other, names(&["b", "c"]));
        assert_eq!((modules.of("a"), modules.of("b"), modules.of("c")), (Some(one), None, Some(other)));
        modules.keep(one, names(&["b"]));
        assert_eq!(modules.of("b"), None, "and stays so");
        assert_eq!(modules.of("d"), None);
    }
}
