//! The host's side of [`attach`](super): accepts calling processes and shares memory with each.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, chmod},
    io::Errno,
    net::{
        AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
        shutdown, socket_with, sockopt::socket_peercred,
    },
    process::{PidfdFlags, geteuid, pidfd_open},
};
use tensortap_abi::{DUMP_LAYOUT_VERSION, DeviceRange};
use tensortap_sync::Flag;

use super::{
    attached::{AttachedProcess, SharedOffer},
    wire::{self, ATTACH_VERSION, Hello, MAX_TEXT_BYTES, Message, ReceivedPacket},
};
use crate::{
    DeviceAccess, PlatformError,
    connection::poll_until,
    error::os,
    file,
    host_memory::{HostAccess, HostMemory},
    link_page::{self, WakeSocket},
};

/// Length of the queue of connections that wait to be accepted. Further callers block in `connect`.
const BACKLOG: i32 = 128;

/// The Unix socket that processes call to be recorded. Only this user can connect. Dropping the listener
/// removes the socket.
#[derive(Debug)]
pub struct AttachListener {
    socket: OwnedFd,
    path: PathBuf,
    closed: Flag,
}

impl AttachListener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created: the path has more than 107 bytes, the folder is not writable, or a
    /// file exists at `path`.
    pub fn bind(path: &Path) -> Result<AttachListener, PlatformError> {
        let failed = |error| PlatformError::Socket { path: path.to_owned(), error };
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
        bind(&socket, &address).map_err(failed)?;
        let listener = AttachListener { socket, path: path.to_owned(), closed: Flag::new() };
        chmod(path, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        listen(&listener.socket, BACKLOG).map_err(failed)?;
        Ok(listener)
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops accepting calls. [`accept`](AttachListener::accept) still returns processes that called before,
    /// then returns `None` at once. Any thread may call this, even while another thread is in `accept`.
    pub fn close(&self) {
        // If shutting down fails, the socket is already closed.
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.closed.raise();
    }

    /// Returns the next process that calls within `timeout`. Processes of other users are disconnected
    /// silently.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn accept(&self, timeout: Duration) -> Result<Option<Caller>, PlatformError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // The flag is read before `accept`: no process can connect after it is raised, so an empty queue
            // then stays empty.
            let closed = self.closed.is_raised();
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => match Caller::new(socket) {
                    Some(caller) => return Ok(Some(caller)),
                    None => continue,
                },
                Err(Errno::AGAIN | Errno::INVAL) if closed => return Ok(None),
                Err(Errno::AGAIN) => {}
                // The caller has already disconnected.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(os("waiting for processes to attach")(error)),
            }
            let [calls] = poll_until(deadline, [Some(self.socket.as_fd())])
                .map_err(os("waiting for processes to attach"))?;
            if !calls {
                return Ok(None);
            }
        }
    }
}

impl AsFd for AttachListener {
    /// Readable when a process calls.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AttachListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A process that has connected but is not attached yet. Nothing that it sends is trusted.
#[derive(Debug)]
pub struct Caller {
    socket: OwnedFd,
    /// Readable once the process has ended.
    ended: OwnedFd,
    pid: u32,
    program: u64,
    kernels: String,
}

impl Caller {
    /// Returns `None` if the process belongs to another user or has already ended.
    pub(super) fn new(socket: OwnedFd) -> Option<Caller> {
        let peer = socket_peercred(&socket).ok().filter(|peer| peer.uid == geteuid())?;
        let ended = pidfd_open(peer.pid, PidfdFlags::empty()).ok()?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
        Some(Caller { socket, ended, pid, program: 0, kernels: String::new() })
    }

    /// The process id, as the host's system reports it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Maximum length of the kernel names that can be sent to a process, in bytes.
    pub const MAX_KERNELS: usize = MAX_TEXT_BYTES;

    /// Sets the kernels to record, which the process receives with its welcome: names and patterns, one per
    /// line. Text beyond [`Caller::MAX_KERNELS`] is cut.
    pub fn set_kernels(&mut self, names: &str) {
        names.clone_into(&mut self.kernels);
    }

    /// Whether the process sends data or disconnects within `limit`.
    pub fn has_data(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        matches!(poll_until(deadline, [Some(self.socket.as_fd())]), Ok([true]))
    }

    /// Receives the greeting of the process. A process with another protocol version receives a refusal.
    ///
    /// # Errors
    ///
    /// If no valid greeting arrives within `timeout`.
    pub fn hello(&mut self, timeout: Duration) -> Result<Hello, PlatformError> {
        let deadline = Instant::now().checked_add(timeout);
        let [spoke] = poll_until(deadline, [Some(self.socket.as_fd())])
            .map_err(os("listening to a process that attaches"))?;
        let failed = |what: String| PlatformError::Attach { what };
        if !spoke {
            return Err(failed(format!("process {} sent no greeting within {timeout:?}", self.pid)));
        }
        let pid = self.pid;
        match wire::receive(&self.socket).map_err(os("listening to a process that attaches"))? {
            ReceivedPacket::Message(Message::Hello { layout: DUMP_LAYOUT_VERSION, hello }, _) => {
                self.program = hello.program;
                Ok(hello)
            }
            ReceivedPacket::Message(Message::Hello { layout, .. }, _) => Err(self
                .other_version(&format!("record layout {layout}, this command uses {DUMP_LAYOUT_VERSION}"))),
            ReceivedPacket::OtherVersion(version) => Err(self
                .other_version(&format!("protocol version {version}, this command uses {ATTACH_VERSION}"))),
            ReceivedPacket::Message(message, _) => {
                Err(failed(format!("process {pid} sent {message:?} instead of a greeting")))
            }
            ReceivedPacket::Closed => Err(failed(format!("process {pid} disconnected before its greeting"))),
            ReceivedPacket::Garbage(bytes) => {
                Err(failed(format!("process {pid} sent {bytes} bytes that are no greeting")))
            }
        }
    }

    fn other_version(&self, what: &str) -> PlatformError {
        let what = format!(
            "the library in process {} uses {what}; use the library and the command of the same version",
            self.pid
        );
        self.refuse(&what);
        PlatformError::Attach { what }
    }

    /// Sends a refusal with its reason and disconnects.
    pub fn refuse(&self, why: &str) {
        // The process may have disconnected already. Then it needs no reason.
        let _ = wire::send(&self.socket, &Message::Refused(why.to_owned()), &[]);
    }

    /// Creates shared memory of `bytes`, lets `prepare` fill it, and sends it to the process. Addresses in it
    /// count from 0. The first [`LINK_PAGE_BYTES`](crate::LINK_PAGE_BYTES) belong to the link.
    ///
    /// # Errors
    ///
    /// If the memory cannot be created or prepared, or if the process is gone ([`PlatformError::Attach`]).
    pub fn welcome(
        self,
        bytes: u64,
        run_id: u64,
        prepare: impl FnOnce(&dyn DeviceAccess) -> Result<(), PlatformError>,
    ) -> Result<AttachedProcess, PlatformError> {
        let memory = HostMemory::new(DeviceRange { addr: 0, bytes }, file::create(bytes)?, true)?;
        let ((to_host, from_process), (to_process, from_host)) =
            (WakeSocket::pair()?, WakeSocket::pair_for_many()?);
        link_page::initialize(&memory)?;
        let access = HostAccess::new(memory, to_process);
        prepare(&access)?;
        let Caller { socket, ended, pid, program, kernels } = self;
        let offer = SharedOffer { bytes, run_id, kernels, to_host, from_host };
        let process = AttachedProcess::new((pid, program, ended), offer, from_process, Arc::new(access));
        process.hand_over(&socket, 0)?;
        process.connect(socket);
        Ok(process)
    }

    /// Its connection, its process id and its [program](Hello::program).
    pub(super) fn parts(&self) -> (BorrowedFd<'_>, u32, u64) {
        (self.socket.as_fd(), self.pid, self.program)
    }

    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}
