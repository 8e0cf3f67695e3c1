//! The functions that stand before those of the driver. Each is called as the OpenCL specification has it, with the program's promises for what its
//! pointers lead to; these are the promises that the `unsafe` blocks here hand on.

pub mod contexts;
pub mod events;
pub mod extensions;
pub mod images;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod programs;
pub mod queues;
pub mod shared;
pub mod transfers;

/// The function of the driver that one of these stands before.
macro_rules! behind {
    ($name:ident) => {
        crate::layer::Layer::get().target.$name.expect("the table has its like only where the driver has it")
    };
}
pub(crate) use behind;
