//! Modules: images of code, which are kept in the dump, and the variables that they have.

use std::{cell::RefCell, collections::HashMap, sync::OnceLock};

use tensortap_queue::Memory;
use tensortap_record::{
    MemorySpace, ModuleId, ModuleImage, ModuleKind, RecordError, StringId, ThreadRecorder,
};

use super::memory;
use crate::{
    cubin::{self, Kernel, Variable},
    door::Door,
    raw::LoadedImage,
};

/// Larger images are not kept.
const MOST_IMAGE_BYTES: usize = 1 << 30;

/// Number of a module that is loaded, as CUPTI has it.
type Number = u32;

thread_local! {
    /// Modules that were loaded in this thread since it was last asked.
    static LOADED_HERE: RefCell<Vec<Number>> = const { RefCell::new(Vec::new()) };
}

/// Modules that are loaded.
#[derive(Debug)]
pub struct Modules<Id = ModuleId> {
    loaded: HashMap<Number, Loaded<Id>>,
    by_kernel: HashMap<String, Vec<Number>>,
    /// By the driver's handles.
    by_handle: HashMap<usize, Number>,
    /// Where variables begin that are known to be there, by handles.
    variables: HashMap<usize, Vec<u64>>,
}

#[derive(Debug)]
struct Loaded<Id> {
    module: Option<Id>,
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
}

impl<Id: Copy> Loaded<Id> {
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
        self.loaded.insert(number, Loaded { module, kernels, variables });
    }

    /// A module goes. Where the variables begin that go with it, and those of modules that are not told from it.
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

    /// The module of a handle that has a kernel of this name: the one that is known for the handle, the only one that was loaded `here` for it, or, where all
    /// that have such a kernel are the same, that one.
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
pub fn loaded(door: &Door, LoadedImage { number, image }: LoadedImage<'_>) {
    if image.is_empty() || image.len() > MOST_IMAGE_BYTES {
        return;
    }
    let contents = cubin::contents(image);
    let name = match &contents.kernels[..] {
        [] => "code without kernels".to_owned(),
        [one] => one.name.clone(),
        [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
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
    door.state().modules.keep(number, module, contents);
    let _ = LOADED_HERE.try_with(|here| here.borrow_mut().push(number));
}

/// A module goes: handles of its kernels may be those of others from now on, and its variables are no more.
pub fn goes(door: &Door, number: Number) {
    let gone = {
        let mut state = door.state();
        state.kernels.clear();
        state.repeats.clear();
        state.modules.forget(number)
    };
    gone.into_iter().for_each(|address| memory::goes(door, address));
}

/// A variable of a module.
#[derive(Debug)]
pub struct Placed {
    /// What it is called.
    name: String,
    id: OnceLock<StringId>,
    /// Where it begins, and its bytes; none where the driver does not say.
    pub at: Option<(u64, u64)>,
}

impl Placed {
    /// What it is called, in the dump.
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
    /// The module, if that is certain.
    pub module: Option<ModuleId>,
    /// Variables of it that the kernel may use.
    pub variables: Vec<Placed>,
    /// Whether it has more than are looked at.
    pub has_more: bool,
}

/// More variables of one module are not looked at.
const MOST_VARIABLES: usize = 64;

/// The code of a kernel, which is loaded for it if it was not.
pub fn code(door: &Door, kernel: usize, name: impl FnOnce() -> String) -> (String, Code) {
    door.driver.relaxed(|| {
        let _ = LOADED_HERE.try_with(|here| here.borrow_mut().clear());
        let function = door.driver.load(kernel);
        let here = LOADED_HERE.try_with(RefCell::take).unwrap_or_default();
        let (handle, name) = (door.driver.module(function), name());
        let found = door.state().modules.find(handle, &name, &here);
        let Some((module, variables)) = found else { return (name, Code::default()) };
        let placed = |variable: &Variable| {
            let at = door.driver.variable(handle, &variable.name).filter(|_| handle != 0);
            if let Some((address, bytes)) = at {
                place(door, handle, Memory { address, bytes, space: space(variable.is_managed) });
            }
            Placed { name: variable.name.clone(), id: OnceLock::new(), at }
        };
        let has_more = variables.len() > MOST_VARIABLES;
        let variables = variables.iter().take(MOST_VARIABLES).map(placed).collect();
        (name, Code { module, variables, has_more })
    })
}

fn space(is_managed: bool) -> MemorySpace {
    if is_managed { MemorySpace::Managed } else { MemorySpace::Device }
}

/// A variable of a module, or of a library, is there as long as that.
pub fn place(door: &Door, handle: usize, variable: Memory) {
    let is_new = {
        let mut state = door.state();
        let is_new = !state.allocations.has(variable.address, variable.bytes);
        if is_new {
            state.modules.variables.entry(handle).or_default().push(variable.address);
        }
        is_new
    };
    if is_new {
        memory::comes_as(door, variable, None);
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
    fn a_name_that_two_modules_have_is_of_neither_until_one_is_gone() {
        let mut modules = Modules::<u32>::default();
        let find =
            |modules: &mut Modules<u32>, name: &str| modules.find(0, name, &[]).map(|(module, _)| module);
        modules.keep(1, Some(10), contents(&["a", "b"], &[]));
        modules.keep(2, Some(10), contents(&["a", "b"], &[]));
        assert_eq!(find(&mut modules, "b"), Some(Some(10)), "one image, loaded twice");
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
    fn a_handle_is_known_by_what_was_loaded_for_it() {
        let mut modules = Modules::<u32>::default();
        modules.keep(1, Some(10), contents(&["a"], &["one"]));
        modules.keep(2, Some(20), contents(&["a"], &["other"]));
        let name = |found: Option<(Option<u32>, Vec<Variable>)>| found.map(|(_, all)| all[0].name.clone());
        assert_eq!(name(modules.find(500, "a", &[])), None);
        assert_eq!(name(modules.find(500, "a", &[2, 7])), Some("other".to_owned()));
        assert_eq!(name(modules.find(500, "a", &[])), Some("other".to_owned()), "from now on");
        modules.variables.extend([(500, vec![4096]), (600, vec![8192]), (700, vec![12_288])]);
        modules.by_handle.insert(600, 1);
        let mut gone = modules.forget(2);
        gone.sort_unstable();
        assert_eq!(gone, [4096, 12_288], "its own, and those of whom nobody knows whose they are");
        assert_eq!(name(modules.find(500, "a", &[])), Some("one".to_owned()));
    }
}
