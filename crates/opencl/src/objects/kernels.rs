//! Kernels, their arguments, and the programs they come from.

use std::{collections::HashMap, ffi::c_void, sync::Arc};

use tensortap_record::{DType, KernelId, ModuleKind};

use super::Key;
use crate::{
    ffi::{self, Dispatch, Kernel, Program, Status},
    raw, types,
};

/// Arguments that are asked for; a kernel with more has them by number.
const MOST_ARGS: u32 = 4096;

/// What is known of a kernel from the driver.
#[derive(Debug)]
pub struct KernelFacts {
    /// What it is called.
    pub name: String,
    /// The program it comes from.
    pub program: Option<Arc<Image>>,
    /// Its arguments.
    pub args: Vec<ArgFacts>,
}

/// What is known of an argument.
#[derive(Clone, Debug)]
pub struct ArgFacts {
    /// What it is called; empty when not known.
    pub name: String,
    /// Its elements, or those it points to.
    pub dtype: Option<DType>,
    /// How many of those belong together, in a vector.
    pub lanes: u64,
    /// Whether it points to memory; none when not known.
    pub is_pointer: Option<bool>,
    /// Whether its type is one of the driver's objects.
    pub is_object: bool,
}

/// What the program has set.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value, or the handle of an object.
    Bytes(Box<[u8]>),
    /// So much memory of a group.
    Local(usize),
    /// An address of shared memory.
    Shared(usize),
}

/// A kernel with the arguments it has now.
#[derive(Clone, Debug)]
pub struct KernelState {
    /// How often the program holds it.
    pub holds: u32,
    /// What it is.
    pub facts: Arc<KernelFacts>,
    /// Its number in the dump, once it has one.
    pub id: Option<KernelId>,
    /// What is set.
    pub args: Vec<Option<Arg>>,
    /// Shared memory that it reaches beside its arguments.
    pub shared: Vec<usize>,
}

impl KernelState {
    /// A kernel that was just made.
    pub fn new(facts: KernelFacts) -> KernelState {
        let args = vec![None; facts.args.len()];
        KernelState { holds: 1, facts: Arc::new(facts), id: None, args, shared: Vec::new() }
    }

    /// An argument was set.
    pub fn set(&mut self, at: u32, arg: Arg) {
        if let Some(place) = self.args.get_mut(at as usize) {
            *place = Some(arg);
        }
    }
}

impl KernelFacts {
    /// Asks the driver.
    pub fn ask(target: &Dispatch, kernel: Kernel) -> KernelFacts {
        let info = |what| KernelFacts::info(target, kernel, what);
        let count = raw::value::<u32>(info(ffi::KERNEL_NUM_ARGS)).unwrap_or(0).min(MOST_ARGS);
        KernelFacts {
            name: raw::told_text(info(ffi::KERNEL_FUNCTION_NAME)).unwrap_or_default(),
            program: None,
            args: (0..count).map(|at| ArgFacts::ask(target, kernel, at)).collect(),
        }
    }

    /// The handle of the program that a kernel comes from.
    pub fn program(target: &Dispatch, kernel: Kernel) -> Option<Program> {
        let handle = raw::value::<usize>(KernelFacts::info(target, kernel, ffi::KERNEL_PROGRAM));
        handle.map(std::ptr::with_exposed_provenance_mut)
    }

    fn info(
        target: &Dispatch,
        kernel: Kernel,
        what: u32,
    ) -> impl FnMut(usize, *mut c_void, *mut usize) -> Status {
        move |room, value, size| match target.clGetKernelInfo {
            // SAFETY: a kernel that the program has just been given, and what is written to is this call's.
            Some(ask) => unsafe { ask(kernel, what, room, value, size) },
            None => ffi::INVALID_OPERATION,
        }
    }
}

impl ArgFacts {
    /// What the memory of an argument has: elements, and how many of them belong together.
    pub fn elements(facts: Option<&ArgFacts>) -> (Option<DType>, u64) {
        facts.map_or((None, 1), |facts| (facts.dtype, facts.lanes))
    }

    fn ask(target: &Dispatch, kernel: Kernel, at: u32) -> ArgFacts {
        let info = |what: u32| {
            move |room: usize, value: *mut c_void, size: *mut usize| -> Status {
                match target.clGetKernelArgInfo {
                    // SAFETY: as above.
                    Some(ask) => unsafe { ask(kernel, at, what, room, value, size) },
                    None => ffi::INVALID_OPERATION,
                }
            }
        };
        let Some(type_name) = raw::told_text(info(ffi::KERNEL_ARG_TYPE_NAME)) else {
            return ArgFacts {
                name: String::new(),
                dtype: None,
                lanes: 1,
                is_pointer: None,
                is_object: false,
            };
        };
        let known = types::read(&type_name);
        ArgFacts {
            name: raw::told_text(info(ffi::KERNEL_ARG_NAME)).unwrap_or_default(),
            dtype: known.dtype,
            lanes: known.lanes,
            is_pointer: Some(known.is_pointer),
            is_object: known.is_object,
        }
    }
}

/// Programs that were built.
#[derive(Debug, Default)]
pub struct Programs {
    /// What each was built with, in the program's words.
    pub options: HashMap<Key, String>,
    /// Images of those that kernels were taken from.
    images: HashMap<Key, Arc<Image>>,
    count: u64,
}

/// The code of a program.
#[derive(Debug, Default)]
pub struct Image {
    /// Which it is, by its number.
    pub name: String,
    /// What the bytes are.
    pub kind: ModuleKind,
    /// The options it was built with, in the program's words.
    pub options: String,
    /// The device it was built for.
    pub device: String,
    /// The code.
    pub bytes: Vec<u8>,
    /// Whether there are variables that live as long as the program, and that no argument leads to.
    pub has_variables: bool,
}

impl Programs {
    /// A program is built, with these options. What its handle stood for before is gone.
    pub fn built(&mut self, program: Key, options: String) {
        self.images.remove(&program);
        self.options.insert(program, options);
    }

    /// The image of a program, where it is known.
    pub fn image(&self, program: Key) -> Option<Arc<Image>> {
        self.images.get(&program).map(Arc::clone)
    }

    /// The image of a program, as the driver tells it; its name and options are given here.
    pub fn keep(&mut self, program: Key, image: Image) -> Arc<Image> {
        self.count += 1;
        let options = self.options.get(&program).cloned().unwrap_or_default();
        let name = format!("program {}", self.count);
        let image = Arc::new(Image { name, options, ..image });
        self.images.insert(program, Arc::clone(&image));
        image
    }
}
