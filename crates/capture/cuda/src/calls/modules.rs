//! Modules: code images, which the dump keeps, and their variables.

use std::{cell::RefCell, collections::HashMap, sync::OnceLock};

use tensortap_driver::cubin::{self, Kernel, Variable};
use tensortap_queue::Memory;
use tensortap_record::{
    MemorySpace, ModuleId, ModuleImage, ModuleKind, RecordError, StringId, ThreadRecorder,
};

use super::memory;
use crate::{backend::CudaBackend, raw::LoadedImage};

/// Larger images are not recorded.
const MAX_IMAGE_BYTES: usize = 1 << 30;

/// CUPTI's number of a loaded module.
type Number = u32;

thread_local! {
    /// Modules that were loaded in this thread since the list was last cleared.
    static LOADED_HERE: RefCell<Vec<Number>> = const { RefCell::new(Vec::new()) };
}

/// Loaded modules.
#[derive(Debug)]
pub struct Modules<Id = ModuleId> {
    loaded: HashMap<Number, LoadedModule<Id>>,
    by_kernel: HashMap<String, Vec<Number>>,
    /// Modules by the driver's handles.
    by_handle: HashMap<usize, Number>,
    /// Addresses of known variables, by the driver's handle of the module.
    variables: HashMap<usize, Vec<u64>>,
}

#[derive(Debug)]
struct LoadedModule<Id> {
    module: Option<Id>,
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
}

impl<Id: Copy> LoadedModule<Id> {
    /// The module, and those of its variables that a kernel may use.
    fn of(&self, kernel: &str) -> (Option<Id>, Vec<Variable>) {
        let known = self.kernels.iter().find(|own| own.name == kernel);
        let uses_memory = known.is_none_or(|kernel| kernel.uses_memory);
        let variables = self.variables.iter().filter(|variable| uses_memory || variable.is_constant);
        (self.module, variables.cloned().collect())
    }
}

impl<Id> Default for Modules<Id> {
    fn default() -> Modules<Id> {
        Modules {
            loaded: HashMap::new(),
            by_kernel: HashMap::new(),
            by_handle: HashMap::new(),
            variables: HashMap::new(),
        }
    }
}

impl<Id: Copy + PartialEq> Modules<Id> {
    fn keep(&mut self, number: Number, module: Option<Id>, contents: cubin::Contents) {
        let cubin::Contents { kernels, variables } = contents;
        for kernel in &kernels {
            self.by_kernel.entry(kernel.name.clone()).or_default().push(number);
        }
        self.loaded.insert(number, LoadedModule { module, kernels, variables });
    }

    /// A module is unloaded. Returns the addresses of its variables, and of variables whose module is
    /// unknown.
    fn forget(&mut self, number: Number) -> Vec<u64> {
        if let Some(gone) = self.loaded.remove(&number) {
            for kernel in gone.kernels {
                if let Some(numbers) = self.by_kernel.get_mut(&kernel.name) {
                    numbers.retain(|other| *other != number);
                }
            }
        }
        let by_handle = &mut self.by_handle;
        let gone =
            self.variables.extract_if(|handle, _| by_handle.get(handle).is_none_or(|own| *own == number));
        let gone = gone.flat_map(|(_, at)| at).collect();
        self.by_handle.retain(|_, own| *own != number);
        gone
    }

    /// The module of a handle that contains a kernel of this name. It is the module that is known for the
    /// handle, else the only such module that was loaded `here`, else the only image that contains such a
    /// kernel.
    fn find(&mut self, handle: usize, kernel: &str, here: &[Number]) -> Option<(Option<Id>, Vec<Variable>)> {
        let named = self.by_kernel.get(kernel).map_or(&[][..], Vec::as_slice);
        let known = self.by_handle.get(&handle).copied().filter(|number| self.loaded.contains_key(number));
        let number =
            known.or_else(|| match &here.iter().filter(|own| named.contains(own)).collect::<Vec<_>>()[..] {
                [one] => Some(**one),
                _ => None,
            });
        if let Some(number) = number {
            if handle != 0 {
                self.by_handle.insert(handle, number);
            }
            return Some(self.loaded.get(&number)?.of(kernel));
        }
        let (first, others) = named.split_first()?;
        let first = self.loaded.get(first)?;
        let is_same =
            |other: &Number| self.loaded.get(other).is_some_and(|other| other.module == first.module);
        let is_certain = others.iter().all(is_same) && (others.is_empty() || first.module.is_some());
        is_certain.then(|| first.of(kernel))
    }
}

/// A module was loaded.
pub fn loaded(backend: &CudaBackend, LoadedImage { number, image }: LoadedImage<'_>) {
    if image.is_empty() || image.len() > MAX_IMAGE_BYTES {
        return;
    }
    let contents = cubin::contents(image);
    let name = match &contents.kernels[..] {
        [] => "code without kernels".to_owned(),
        [one] => one.name.clone(),
        [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
    };
    let (_, device) = backend.driver.device();
    let module = backend.record(|recorder| {
        recorder.module_image(&ModuleImage {
            name: &name,
            kind: ModuleKind::Cubin,
            options: "",
            device: &device,
            image,
        })
    });
    backend.state().modules.keep(number, module, contents);
    let _ = LOADED_HERE.try_with(|here| here.borrow_mut().push(number));
}

/// A module is unloaded with its variables. New kernels may get the handles of its kernels.
pub fn unloaded(backend: &CudaBackend, number: Number) {
    let gone = {
        let mut state = backend.state();
        state.kernels.clear();
        state.launch_cache.clear();
        state.modules.forget(number)
    };
    gone.into_iter().for_each(|address| memory::freed(backend, address, None));
}

/// A variable of a module.
#[derive(Debug)]
pub struct ModuleVariable {
    /// Its name.
    name: String,
    id: OnceLock<StringId>,
    /// Its address and size, if known.
    pub at: Option<(u64, u64)>,
}

impl ModuleVariable {
    /// Number of its name in the dump.
    pub fn name(&self, recorder: &mut ThreadRecorder) -> Result<StringId, RecordError> {
        if let Some(&known) = self.id.get() {
            return Ok(known);
        }
        let id = recorder.string(&self.name)?;
        Ok(*self.id.get_or_init(|| id))
    }
}

/// The code of a kernel.
#[derive(Debug, Default)]
pub struct Code {
    /// The module, if it is certain.
    pub module: Option<ModuleId>,
    /// Variables that the kernel may use.
    pub variables: Vec<ModuleVariable>,
    /// Whether there are more variables than are captured.
    pub has_more: bool,
}

/// At most this many variables of a module are captured.
const MAX_VARIABLES: usize = 64;

/// The code of a kernel. Loads the code if it is not loaded yet.
pub fn code(backend: &CudaBackend, kernel: usize, name: impl FnOnce() -> String) -> (String, Code) {
    backend.driver.relaxed(|| {
        let _ = LOADED_HERE.try_with(|here| here.borrow_mut().clear());
        let function = backend.driver.load(kernel);
        let here = LOADED_HERE.try_with(RefCell::take).unwrap_or_default();
        let (handle, name) = (backend.driver.module(function), name());
        let found = backend.state().modules.find(handle, &name, &here);
        let Some((module, variables)) = found else { return (name, Code::default()) };
        let placed = |variable: &Variable| {
            let at = backend.driver.variable(handle, &variable.name).filter(|_| handle != 0);
            if let Some((address, bytes)) = at {
                place(backend, handle, Memory { address, bytes, space: space(variable.is_managed) });
            }
            ModuleVariable { name: variable.name.clone(), id: OnceLock::new(), at }
        };
        let has_more = variables.len() > MAX_VARIABLES;
        let variables = variables.iter().take(MAX_VARIABLES).map(placed).collect();
        (name, Code { module, variables, has_more })
    })
}

fn space(is_managed: bool) -> MemorySpace {
    if is_managed { MemorySpace::Managed } else { MemorySpace::Device }
}

/// Adds a variable of a module or library. It lives as long as the module.
pub fn place(backend: &CudaBackend, handle: usize, variable: Memory) {
    let is_new = {
        let mut state = backend.state();
        let is_new = !state.allocations.has(variable.address, variable.bytes);
        if is_new {
            state.modules.variables.entry(handle).or_default().push(variable.address);
        }
        is_new
    };
    if is_new {
        memory::add(backend, variable, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(kernels: &[&str], variables: &[&str]) -> cubin::Contents {
        let variable = |name: &&str| Variable {
            name: (*name).to_owned(),
            bytes: 4,
            is_managed: false,
            is_constant: false,
        };
        let kernel = |name: &&str| Kernel { name: (*name).to_owned(), uses_memory: true };
        cubin::Contents {
            kernels: kernels.iter().map(kernel).collect(),
            variables: variables.iter().map(variable).collect(),
        }
    }

    #[test]
    fn a_kernel_name_in_two_modules_is_ambiguous_until_one_is_unloaded() {
        let mut modules = Modules::<u32>::default();
        let find =
            |modules: &mut Modules<u32>, name: &str| modules.find(0, name, &[]).map(|(module, _)| module);
        modules.keep(1, Some(10), contents(&["a", "b"], &[]));
        modules.keep(2, Some(10), contents(&["a", "b"], &[]));
        assert_eq!(find(&mut modules, "b"), Some(Some(10)), "the same image, loaded twice");
        modules.keep(3, Some(20), contents(&["b", "c"], &["v"]));
        assert_eq!(
            (find(&mut modules, "a"), find(&mut modules, "b"), find(&mut modules, "d")),
            (Some(Some(10)), None, None)
        );
        modules.forget(1);
        modules.forget(2);
        assert_eq!((find(&mut modules, "a"), find(&mut modules, "b")), (None, Some(Some(20))));
    }

    #[test]
    fn a_handle_is_identified_by_the_module_that_was_loaded_for_it() {
        let mut modules = Modules::<u32>::default();
        modules.keep(1, Some(10), contents(&["a"], &["one"]));
        modules.keep(2, Some(20), contents(&["a"], &["other"]));
        let name = |found: Option<(Option<u32>, Vec<Variable>)>| found.map(|(_, all)| all[0].name.clone());
        assert_eq!(name(modules.find(500, "a", &[])), None);
        assert_eq!(name(modules.find(500, "a", &[2, 7])), Some("other".to_owned()));
        assert_eq!(name(modules.find(500, "a", &[])), Some("other".to_owned()), "the handle stays known");
        modules.variables.extend([(500, vec![4096]), (600, vec![8192]), (700, vec![12_288])]);
        modules.by_handle.insert(600, 1);
        let mut gone = modules.forget(2);
        gone.sort_unstable();
        assert_eq!(gone, [4096, 12_288], "its own variables, and those of unknown modules");
        assert_eq!(name(modules.find(500, "a", &[])), Some("one".to_owned()));
    }
}
