//! The device's side: the link to the host, the loop over launches, and how a process becomes a device.

mod become_device;
mod link;
mod memory;
mod serve;

pub use become_device::become_device_if_asked;
pub use link::{DeviceLink, HostEvent};
pub use memory::DeviceMemory;

pub(crate) use link::LinkParts;
pub(crate) use serve::{run_launches, start_link_thread};
