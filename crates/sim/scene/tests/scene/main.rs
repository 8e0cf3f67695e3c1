//! Tests of the API for kernels and orchestrations.

mod kernel_args;
mod orchestration;
