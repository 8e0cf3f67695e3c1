//! Kernels and orchestrations as their authors write them.

mod kernel_args;
mod orchestration;
