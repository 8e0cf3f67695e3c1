//! Devices: open one, copy data to its memory, launch a program on it, and learn how the launch ended.
//!
//! The crate knows bytes and processes. It knows nothing about tasks, scenes, runtimes or dumps.
//!
//! # The two sides
//!
//! **Host.** A [`Platform`] opens a [`Device`]. The host allocates device memory, copies data in, calls
//! [`Device::launch`] with the address of its arguments, and waits. The `runtime` crate is the main caller.
//!
//! **Device.** A [`DeviceProgram`] is called once per launch with a [`DeviceLink`] (memory, and the way to
//! wake the host) and that address.
//!
//! [`attach`] is separate: there, a foreign process plays the device and shares memory with a host that
//! records it. `WorkerProcess` starts helper processes that answer requests.
//!
//! # Device processes
//!
//! By default a simulated device is its own process. A device program that crashes, hangs or is killed takes
//! down the device and never the host. The device process is this same executable, started again, so `main`
//! must begin with [`become_device_if_asked`]. A test harness or an interpreter cannot do that. Either name
//! another executable in [`DeviceOptions::executable`], or use [`DeviceMode::Thread`], which survives neither
//! a crash nor a hang.
//!
//! # What must hold
//!
//! - **A device address is a `u64` on the host.** The host never dereferences it. The host copies ranges, or
//!   reads its own mapping through [`MappedMemory`].
//! - **Device memory outlives the device.** The crash handler of a device stores what failed in device
//!   memory. The host reads it there after the device has died.
//! - **Device memory is one sealed file at a fixed address per rank** ([`base_of_rank`]). Captured addresses
//!   mean the same in every run, and no mapping is ever covered.
//! - **Nothing crosses by pointer.** Host and device exchange small packets over a socket, and words in the
//!   first page of device memory. The protocol over those words is in `tensortap_sync`.
//! - **The host does not trust the device.** An unknown packet is a [`PlatformError::Protocol`]. A wake
//!   socket never blocks, whatever the other side does to it.
//! - **No process is orphaned.** A device exits when the host's end of its socket closes.
//! - **A confined device gives up its rights before its first launch** ([`Confinement`]), after
//!   [`DeviceProgram::prepare`] has loaded libraries.
//!
//! # A new platform
//!
//! Add a module and a line in [`PLATFORMS`]. The conformance suite in `tests/conformance` runs every test on
//! every platform and device mode.
//!
//! # Example
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tensortap_abi::DeviceAddr;
//! use tensortap_platform::{DeviceEvent, DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
//!
//! struct IdleProgram;
//! impl DeviceProgram for IdleProgram {
//!     fn run(&self, link: &DeviceLink, args: DeviceAddr) {
//!         assert!(link.memory().contains(args, 8));
//!     }
//! }
//!
//! let mut options = DeviceOptions::new(Arc::new(IdleProgram));
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
#[expect(
    unsafe_code,
    reason = "removing an environment variable and reading the auxiliary vector are unsafe by signature"
)]
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
pub use file::available_bytes;
pub use link_page::LINK_PAGE_BYTES;
pub use map::{ForkGuard, MappedMemory};
pub use pages::{mappings_allowed, page_bytes};
pub use sanitizer::{Sanitizer, SanitizerReport};
pub use shadow::Shadow;
pub use signal::{
    AltStack, CrashReporter, CrashText, install_crash_handlers, make_file_limits_errors,
    report_crashes_in_this_process, set_crash_recorder, with_file_limits_as_given,
};
pub use sim::{DEFAULT_PLATFORM, PLATFORMS, find};
pub use worker::{
    WorkerExit, WorkerMessage, WorkerProcess, receive_message, send_message, worker_requests, worker_socket,
};
