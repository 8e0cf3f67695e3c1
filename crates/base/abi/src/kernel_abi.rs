//! Calling conventions: how kernels receive their tensor arguments.

use crate::{SimplerTensor, TensorDesc};

/// How a kernel receives its tensor arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelAbi {
    /// Tensor slots hold addresses of [`TensorDesc`]s.
    #[default]
    Tensortap,
    /// Convention of the public project `simpler` since May 2026: tensor slots hold addresses of
    /// [`SimplerTensor`]s.
    Simpler,
    /// Tensor slots hold the address of the view's first element.
    Raw,
}

impl KernelAbi {
    /// Every convention.
    pub const ALL: [KernelAbi; 3] = [KernelAbi::Tensortap, KernelAbi::Simpler, KernelAbi::Raw];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            KernelAbi::Tensortap => "tensortap",
            KernelAbi::Simpler => "simpler",
            KernelAbi::Raw => "raw",
        }
    }

    /// The convention of a name.
    pub fn from_name(name: &str) -> Option<KernelAbi> {
        KernelAbi::ALL.into_iter().find(|abi| abi.name() == name)
    }

    /// Whether this convention can describe a view.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(self, desc: &TensorDesc) -> Result<(), &'static str> {
        match self {
            KernelAbi::Tensortap => Ok(()),
            KernelAbi::Simpler => SimplerTensor::of(desc).map(|_| ()),
            KernelAbi::Raw => first_element(desc).map(|_| ()),
        }
    }
}

/// Address of the first element of a view, as [`KernelAbi::Raw`] passes it.
///
/// # Errors
/// The reason why the view has none.
pub fn first_element(desc: &TensorDesc) -> Result<u64, &'static str> {
    let dtype = desc.dtype().ok_or("its dtype is unknown")?;
    let bits = desc
        .start_offset
        .checked_mul(u64::from(dtype.bits()))
        .ok_or("it extends past the end of the address space")?;
    if bits % 8 != 0 {
        return Err("its first element does not start at a byte boundary");
    }
    desc.buffer_addr.checked_add(bits / 8).ok_or("it extends past the end of the address space")
}
