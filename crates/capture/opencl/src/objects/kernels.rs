//! Kernels, their arguments, and their programs.

use std::{collections::HashMap, sync::Arc};

use tensortap_record::{DType, KernelId, ModuleKind};

use super::Key;
use crate::{
    ffi::{self, Dispatch, Kernel, Program},
    raw::{self, info},
    types,
};

/// The driver is asked for the names of at most this many arguments. Further arguments have only numbers.
const MAX_ARGS: u32 = 4096;

/// What the driver reports about a kernel.
#[derive(Debug)]
pub struct KernelFacts {
    /// Its name.
    pub name: String,
    /// The program that contains it.
    pub program: Option<Arc<ProgramImage>>,
    /// Its arguments.
    pub args: Vec<ArgFacts>,
}

/// What the driver reports about an argument.
#[derive(Clone, Debug)]
pub struct ArgFacts {
    /// Its name. Empty if unknown.
    pub name: String,
    /// The type of its elements, or of those it points to.
    pub dtype: Option<DType>,
    /// Number of elements in a vector.
    pub lanes: u64,
    /// Whether it points to memory, if known.
    pub is_pointer: Option<bool>,
    /// Whether its type is an OpenCL object such as a sampler.
    pub is_object: bool,
    /// Whether it points to memory that the kernel declares const or constant.
    pub is_const: bool,
}

/// The value of an argument that the program has set.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value, or the handle of an object.
    Bytes(Box<[u8]>),
    /// Local memory of this many bytes.
    Local(usize),
    /// An address of shared memory.
    Shared(usize),
}

/// A kernel with its current arguments.
#[derive(Clone, Debug)]
pub struct KernelState {
    /// The program's references.
    pub references: u32,
    /// What the driver reports about it.
    pub facts: Arc<KernelFacts>,
    /// Its number in the dump, once it is defined.
    pub id: Option<KernelId>,
    /// Arguments that are set.
    pub args: Vec<Option<Arg>>,
    /// Shared memory that it may access without an argument.
    pub shared: Vec<usize>,
}

impl KernelState {
    /// A new kernel.
    pub fn new(facts: KernelFacts) -> KernelState {
        let args = vec![None; facts.args.len()];
        KernelState { references: 1, facts: Arc::new(facts), id: None, args, shared: Vec::new() }
    }

    /// The program has set an argument.
    pub fn set(&mut self, at: u32, arg: Arg) {
        if let Some(place) = self.args.get_mut(at as usize) {
            *place = Some(arg);
        }
    }
}

impl KernelFacts {
    /// Asks the driver about a kernel.
    pub fn ask(target: &Dispatch, kernel: Kernel) -> KernelFacts {
        let count = raw::value::<u32>(info!(target, clGetKernelInfo(kernel, ffi::KERNEL_NUM_ARGS)));
        let count = count.unwrap_or(0).min(MAX_ARGS);
        KernelFacts {
            name: raw::text_info(info!(target, clGetKernelInfo(kernel, ffi::KERNEL_FUNCTION_NAME)))
                .unwrap_or_default(),
            program: None,
            args: (0..count).map(|at| ArgFacts::ask(target, kernel, at)).collect(),
        }
    }

    /// The program that contains a kernel.
    pub fn program(target: &Dispatch, kernel: Kernel) -> Option<Program> {
        let handle = raw::value::<usize>(info!(target, clGetKernelInfo(kernel, ffi::KERNEL_PROGRAM)));
        handle.map(std::ptr::with_exposed_provenance_mut)
    }
}

impl ArgFacts {
    /// The type of the elements in an argument's memory, and the number of elements in a vector.
    pub fn elements(facts: Option<&ArgFacts>) -> (Option<DType>, u64) {
        facts.map_or((None, 1), |facts| (facts.dtype, facts.lanes))
    }

    fn ask(target: &Dispatch, kernel: Kernel, at: u32) -> ArgFacts {
        let ask = |what| info!(target, clGetKernelArgInfo(kernel, at, what));
        let Some(type_name) = raw::text_info(ask(ffi::KERNEL_ARG_TYPE_NAME)) else {
            return ArgFacts {
                name: String::new(),
                dtype: None,
                lanes: 1,
                is_pointer: None,
                is_object: false,
                is_const: false,
            };
        };
        let known = types::read(&type_name);
        let address = raw::value::<u32>(ask(ffi::KERNEL_ARG_ADDRESS_QUALIFIER));
        let qualifiers = raw::value::<u64>(ask(ffi::KERNEL_ARG_TYPE_QUALIFIER)).unwrap_or(0);
        let is_declared = address == Some(ffi::ARG_ADDRESS_CONSTANT) || qualifiers & ffi::ARG_TYPE_CONST != 0;
        ArgFacts {
            name: raw::text_info(ask(ffi::KERNEL_ARG_NAME)).unwrap_or_default(),
            dtype: known.dtype,
            lanes: known.lanes,
            is_pointer: Some(known.is_pointer),
            is_object: known.is_object,
            is_const: known.is_pointer && (known.is_const || is_declared),
        }
    }
}

/// Programs that were built, with their options.
#[derive(Debug, Default)]
pub struct Programs {
    /// The options that the program gave.
    pub options: HashMap<Key, String>,
    /// Images of programs that kernels were created from.
    images: HashMap<Key, Arc<ProgramImage>>,
    count: u64,
}

/// The code of a program.
#[derive(Debug, Default)]
pub struct ProgramImage {
    /// Its name in the dump: "program" and a number.
    pub name: String,
    /// Source, intermediate code or a binary.
    pub kind: ModuleKind,
    /// The options that the program gave.
    pub options: String,
    /// The device it was built for.
    pub device: String,
    /// The code.
    pub bytes: Vec<u8>,
    /// Whether it has program-scope variables. Kernels use them without an argument.
    pub has_variables: bool,
}

impl Programs {
    /// The program builds a program with these options. An older image of the same handle is forgotten.
    pub fn set_options(&mut self, program: Key, options: String) {
        self.images.remove(&program);
        self.options.insert(program, options);
    }

    /// The image of a program, if it is known.
    pub fn image(&self, program: Key) -> Option<Arc<ProgramImage>> {
        self.images.get(&program).map(Arc::clone)
    }

    /// Adds the image of a program. This sets its name and its options.
    pub fn add_image(&mut self, program: Key, image: ProgramImage) -> Arc<ProgramImage> {
        self.count += 1;
        let options = self.options.get(&program).cloned().unwrap_or_default();
        let name = format!("program {}", self.count);
        let image = Arc::new(ProgramImage { name, options, ..image });
        self.images.insert(program, Arc::clone(&image));
        image
    }
}
