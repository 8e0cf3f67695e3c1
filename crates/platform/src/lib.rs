//! Devices: bytes in device memory, one device program that is started, and how it ended.
//!
//! This crate knows nothing of tasks, scenes, runtimes or dumps. A [`Platform`] opens a [`Device`]; the host
//! allocates and copies, launches with the address of some arguments, and waits. On the other side a
//! [`DeviceProgram`] is called with a [`DeviceLink`] and that address.
//!
//! Simulated devices are a process of their own by default, so a program that crashes or hangs takes the device
//! down and never the host. The device process is this very executable, started again: `main` begins with
//! [`become_device_if_asked`]. Where that is not possible (a test harness, an interpreter), name an executable in
//! [`DeviceOptions::executable`], or use [`DeviceMode::Thread`], which survives neither crash nor hang.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tensortap_abi::DeviceAddr;
//! use tensortap_platform::{DeviceEvent, DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
//!
//! struct Nothing;
//! impl DeviceProgram for Nothing {
//!     fn run(&self, link: &DeviceLink, args: DeviceAddr) {
//!         assert!(link.memory().contains(args, 8));
//!     }
//! }
//!
//! let mut options = DeviceOptions::new(Arc::new(Nothing));
//! options.mode = DeviceMode::Thread;
//! options.memory_bytes = Some(1 << 20);
//! let mut device = find("a2a3sim")?.open(&options)?;
//! let args = device.allocate(8, 64, "arguments")?;
//! device.copy_to(args, &7u64.to_le_bytes())?;
//! device.launch(args)?;
//! assert_eq!(device.wait(Duration::from_secs(60))?, DeviceEvent::Finished);
//! # Ok::<(), tensortap_platform::PlatformError>(())
//! ```
#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "tensortap-platform needs 64-bit little-endian Linux: device addresses are 64-bit and memory is a memfd"
);

mod address;
mod alloc;
mod api;
pub mod attach;
mod confine;
mod connection;
mod device;
#[expect(unsafe_code, reason = "removing an environment variable is unsafe by signature")]
mod environment;
mod error;
mod file;
mod host_memory;
mod link_page;
mod listen;
#[expect(unsafe_code, reason = "memory maps and raw access to them")]
mod map;
mod pages;
mod process;
mod sanitizer;
#[expect(unsafe_code, reason = "calling functions of a sanitizer that was found at run time")]
mod shadow;
#[expect(unsafe_code, reason = "signal handlers and alternate stacks")]
mod signal;
mod sim;
mod thread;
mod wire;
mod worker;

pub use address::{RANKS, abandoned_devices, base_of_rank};
pub use api::{
    DeathCause, Device, DeviceAccess, DeviceEvent, DeviceMode, DeviceOptions, DeviceProgram, Platform,
};
pub use confine::{Confinement, SIGSYS, confine as confine_this_process, refused_call};
pub use device::{DeviceLink, DeviceMemory, HostEvent, become_device_if_asked};
pub use error::PlatformError;
pub use link_page::LINK_PAGE_BYTES;
pub use map::{ForkGuard, MappedMemory};
pub use pages::{mappings_allowed, page_bytes};
pub use sanitizer::{Sanitizer, SanitizerReport};
pub use shadow::Shadow;
pub use signal::{
    AltStack, CrashTeller, CrashText, install_crash_handlers, make_file_limits_errors, set_crash_recorder,
    tell_crashes_in_this_process, with_file_limits_as_given,
};
pub use sim::{DEFAULT_PLATFORM, PLATFORMS, find};
pub use worker::{
    WorkerFate, WorkerMessage, WorkerProcess, receive_message, send_message, worker_requests, worker_socket,
};
