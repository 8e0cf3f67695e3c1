//! Recording a foreign process: the process attaches itself to a host and shares memory with it.
//!
//! The attaching process plays the device. The shared memory is a sealed file that the host creates and sends
//! over a Unix socket. If one side dies, the other side still has the memory.
//!
//! Several libraries of one process may attach, each with its own connection. The host shares the same memory
//! with all of them ([`AttachedProcess::join`]). The system reports which process calls, so no other process
//! receives that memory.
//!
//! A process that attaches changes nothing else: it keeps its signal handlers, limits and threads, and it
//! goes on when the host is gone. This module does not know what the memory is used for. Callers are the
//! `record` crate (process side) and the `tensortap` crate (host side).
//!
//! ```
//! # use std::time::Duration;
//! use tensortap_platform::HostEvent;
//! use tensortap_platform::attach::{AttachListener, Attachment, Hello, ProcessEvent};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("socket");
//! let listener = AttachListener::bind(&path)?;
//! let process = std::thread::spawn(move || -> Result<Vec<u8>, tensortap_platform::PlatformError> {
//!     let attachment = Attachment::new(&path, &Hello::of_this_process(None, None))?;
//!     let heard = attachment.wait(&attachment.host_listener()?, 0, Duration::from_secs(60));
//!     assert_eq!(heard, HostEvent::Woken);
//!     let mut bytes = vec![0; 5];
//!     attachment.memory().read_into(4096, &mut bytes)?;
//!     attachment.goodbye();
//!     Ok(bytes)
//! });
//!
//! let mut caller = listener.accept(Duration::from_secs(60))?.expect("a process calls");
//! assert_eq!(caller.hello(Duration::from_secs(60))?.pid, std::process::id());
//! let attached = caller.welcome(1 << 20, 7, |memory| memory.copy_to(4096, b"hello"))?;
//! attached.access().wake();
//! assert_eq!(process.join().expect("the thread ends")?, b"hello");
//! assert_eq!(attached.wait(Duration::from_secs(60))?, ProcessEvent::Goodbye);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attached;
mod host;
mod process;
mod wire;

pub use crate::link_page::RecordingErrors;
pub use attached::{AttachedProcess, JoinError, MAX_LIBRARIES, ProcessEvent};
pub use host::{AttachListener, Caller};
pub use process::{Attachment, HostListener};

use crate::{DeviceAccess, PlatformError, error::os};
pub use wire::{ATTACH_VERSION, Hello};

/// Attaches this process to itself: one of its threads is the host. No socket file is needed.
///
/// # Errors
/// As [`Caller::welcome`] and [`Attachment::new`].
pub fn within_this_process(
    bytes: u64,
    run_id: u64,
    prepare: impl FnOnce(&dyn DeviceAccess) -> Result<(), PlatformError>,
) -> Result<(AttachedProcess, Attachment), PlatformError> {
    let (host, process) = crate::wire::pair().map_err(os("attaching this process to itself"))?;
    let caller = Caller::new(host).ok_or_else(|| PlatformError::Attach {
        what: "the system gave no process descriptor (pidfd) for this process".to_owned(),
    })?;
    let attached = caller.welcome(bytes, run_id, prepare)?;
    Ok((attached, Attachment::from_welcome(process)?))
}

#[cfg(test)]
mod tests;
