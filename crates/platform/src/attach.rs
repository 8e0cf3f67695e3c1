//! Processes that attach themselves to a host, to be recorded by it. The process is the device, and the memory between the
//! two is a sealed file that the host makes and hands over a Unix socket; whichever of them dies, the other still has it.
//!
//! Nothing of a simulated device is in this: the process keeps its signal handlers, its limits and its threads, and goes on
//! when the host is gone. Nothing here knows what the memory is used for.
//!
//! ```
//! # use std::time::Duration;
//! use tensortap_platform::attach::{AttachListener, Attachment, Hello, HostNews, ProcessNews};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("socket");
//! let listener = AttachListener::bind(&path)?;
//! let process = std::thread::spawn(move || -> Result<Vec<u8>, tensortap_platform::PlatformError> {
//!     let attachment = Attachment::new(&path, &Hello::of_this_process(None))?;
//!     let heard = attachment.wait(&attachment.ear()?, 0, Duration::from_secs(60));
//!     assert_eq!(heard, HostNews::Woken);
//!     let mut bytes = vec![0; 5];
//!     attachment.memory().read_into(4096, &mut bytes)?;
//!     attachment.goodbye();
//!     Ok(bytes)
//! });
//!
//! let mut caller = listener.accept(Duration::from_secs(60))?.expect("somebody calls");
//! assert_eq!(caller.hello(Duration::from_secs(60))?.pid, std::process::id());
//! let attached = caller.welcome(1 << 20, 7, |memory| memory.copy_to(4096, b"hello"))?;
//! attached.access().wake();
//! assert_eq!(process.join().expect("it ends")?, b"hello");
//! assert_eq!(attached.wait(Duration::from_secs(60))?, ProcessNews::Goodbye);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod host;
mod process;
mod wire;

pub use crate::link_page::Complaints;
pub use host::{AttachListener, AttachedProcess, Caller, ProcessNews};
pub use process::{Attachment, Ear, HostNews};

use crate::{DeviceAccess, PlatformError, error::os};
pub use wire::{ATTACH_VERSION, Hello};

/// Attaches this process to itself: a thread of it is the host, and nobody is called.
///
/// # Errors
/// As [`Caller::welcome`] and [`Attachment::new`].
pub fn within_this_process(
    bytes: u64,
    run_id: u64,
    prepare: impl FnOnce(&dyn DeviceAccess) -> Result<(), PlatformError>,
) -> Result<(AttachedProcess, Attachment), PlatformError> {
    let (host, process) = crate::wire::pair().map_err(os("attaching this process to itself"))?;
    let caller = Caller::new(host)
        .ok_or_else(|| PlatformError::Attach { what: "this process cannot be watched".to_owned() })?;
    let attached = caller.welcome(bytes, run_id, prepare)?;
    Ok((attached, Attachment::welcomed(process)?))
}

#[cfg(test)]
mod tests;
