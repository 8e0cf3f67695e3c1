//! Kernels, their arguments, and the programs they come from.

use std::{collections::HashMap, ffi::c_void, sync::Arc};

use tensortap_record::{DType, KernelId};

use super::Key;
use crate::{
    ffi::{self, Dispatch, Kernel, Status},
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
    pub program: Key,
    /// Its arguments.
    pub args: Vec<ArgFacts>,
}

/// What is known of an argument.
#[derive(Clone, Debug, Default)]
pub struct ArgFacts {
    /// What it is called; empty when not known.
    pub name: String,
    /// Its elements, or those it points to.
    pub dtype: Option<DType>,
    /// Whether it points to memory; none when not known.
    pub is_pointer: Option<bool>,
    /// Whether it is memory of a group.
    pub is_local: bool,
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
        let info = |what: u32| {
            move |room: usize, value: *mut c_void, size: *mut usize| match target.clGetKernelInfo {
                // SAFETY: a kernel that the program has just been given, and what is written to is this call's.
                Some(ask) => unsafe { ask(kernel, what, room, value, size) },
                None => ffi::INVALID_OPERATION,
            }
        };
        let count = raw::value::<u32>(info(ffi::KERNEL_NUM_ARGS)).unwrap_or(0).min(MOST_ARGS);
        KernelFacts {
            name: raw::told_text(info(ffi::KERNEL_FUNCTION_NAME)).unwrap_or_default(),
            program: raw::value::<usize>(info(ffi::KERNEL_PROGRAM)).unwrap_or(0),
            args: (0..count).map(|at| ArgFacts::ask(target, kernel, at)).collect(),
        }
    }
}

impl ArgFacts {
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
            return ArgFacts::default();
        };
        let known = types::read(&type_name);
        let space = raw::value::<u32>(info(ffi::KERNEL_ARG_ADDRESS_QUALIFIER));
        ArgFacts {
            name: raw::told_text(info(ffi::KERNEL_ARG_NAME)).unwrap_or_default(),
            dtype: known.dtype,
            is_pointer: Some(known.is_pointer),
            is_local: space == Some(ffi::KERNEL_ARG_ADDRESS_LOCAL),
        }
    }
}

/// Programs.
#[derive(Debug, Default)]
pub struct Programs {
    /// What each was built with, in the program's words.
    pub options: HashMap<Key, String>,
}
