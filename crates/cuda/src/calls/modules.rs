//! Modules: images of code, which are kept in the dump, and the variables that they have.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tensortap_queue::Memory;
use tensortap_record::{ModuleId, ModuleImage, ModuleKind};

use super::{
    memory,
    variables::{self, Placed},
};
use crate::{
    cubin::{self, Variable},
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
    kernels: Vec<String>,
    variables: Arc<[Variable]>,
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
            self.by_kernel.entry(kernel.clone()).or_default().push(number);
        }
        self.loaded.insert(number, Loaded { module, kernels, variables: variables.into() });
    }

    /// A module goes. Where the variables begin that go with it, and those of modules that are not told from it.
    fn forget(&mut self, number: Number) -> Vec<u64> {
        if let Some(gone) = self.loaded.remove(&number) {
            for kernel in gone.kernels {
                if let Some(numbers) = self.by_kernel.get_mut(&kernel) {
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
    fn find(
        &mut self,
        handle: usize,
        kernel: &str,
        here: &[Number],
    ) -> Option<(Option<Id>, Arc<[Variable]>)> {
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
            let Loaded { module, variables, .. } = self.loaded.get(&number)?;
            return Some((*module, Arc::clone(variables)));
        }
        let (first, others) = named.split_first()?;
        let first = self.loaded.get(first)?;
        let is_same =
            |other: &Number| self.loaded.get(other).is_some_and(|other| other.module == first.module);
        let is_certain = others.iter().all(is_same) && (others.is_empty() || first.module.is_some());
        is_certain.then(|| (first.module, Arc::clone(&first.variables)))
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

/// The code of a kernel.
#[derive(Debug, Default)]
pub struct Code {
    /// The module, if that is certain.
    pub module: Option<ModuleId>,
    /// Its variables.
    pub variables: Vec<Placed>,
    /// Whether it has more than are looked at.
    pub has_more: bool,
}

/// The code of a kernel, which is loaded for it if it was not.
pub fn code(door: &Door, kernel: usize, name: impl FnOnce() -> String) -> (String, Code) {
    door.driver.relaxed(|| {
        let _ = LOADED_HERE.try_with(|here| here.borrow_mut().clear());
        let function = door.driver.load(kernel);
        let here = LOADED_HERE.try_with(RefCell::take).unwrap_or_default();
        let (handle, name) = (door.driver.module(function), name());
        let found = door.state().modules.find(handle, &name, &here);
        let Some((module, declared)) = found else { return (name, Code::default()) };
        let lies = |variable: &Variable| {
            let (address, bytes) = door.driver.variable(handle, &variable.name).filter(|_| handle != 0)?;
            Some(Memory { address, bytes, space: variables::space(variable.is_managed) })
        };
        let (variables, has_more) = variables::placed(&declared, |variable| &variable.name, lies);
        variables.iter().filter_map(|placed| placed.at).for_each(|memory| place(door, handle, memory));
        (name, Code { module, variables, has_more })
    })
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
        let variable = |name: &&str| Variable { name: (*name).to_owned(), bytes: 4, is_managed: false };
        cubin::Contents {
            kernels: kernels.iter().map(|&name| name.to_owned()).collect(),
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
        let name = |found: Option<(Option<u32>, Arc<[Variable]>)>| found.map(|(_, all)| all[0].name.clone());
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
