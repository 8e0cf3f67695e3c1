//! The host's side: waits for processes that call, and has memory with each.

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

use super::wire::{self, ATTACH_VERSION, Hello, MAX_TEXT_BYTES, Message, Received};
use crate::{
    DeviceAccess, PlatformError,
    connection::poll_until,
    error::os,
    file,
    host_memory::{HostAccess, HostMemory},
    link_page::{self, Bell, Complaints, host_end},
};

/// Callers that wait to be accepted; further ones wait in `connect`.
const BACKLOG: i32 = 128;

/// A socket that processes call to be recorded. It is the user's alone, and goes away with this value.
#[derive(Debug)]
pub struct AttachListener {
    socket: OwnedFd,
    path: PathBuf,
    closed: Flag,
}

impl AttachListener {
    /// Listens at `path`, where nothing is.
    ///
    /// # Errors
    /// When there can be no socket: a path of more than 107 bytes, a folder that cannot be written, a file in the way.
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

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no further calls: [`accept`](AttachListener::accept) gives those who called before, then none, at once. Any thread
    /// may do this, also while another waits for calls.
    pub fn close(&self) {
        // What cannot be shut down is closed already.
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.closed.raise();
    }

    /// The next process that calls, if one does in time. Processes of other users are turned away without a word.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn accept(&self, timeout: Duration) -> Result<Option<Caller>, PlatformError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // Asked first: nobody calls once it is raised, so whoever is not found then is not there.
            let closed = self.closed.is_raised();
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => match Caller::new(socket) {
                    Some(caller) => return Ok(Some(caller)),
                    None => continue,
                },
                Err(Errno::AGAIN | Errno::INVAL) if closed => return Ok(None),
                Err(Errno::AGAIN) => {}
                // The caller is gone again.
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
    /// Readable when somebody calls.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AttachListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A process that calls. Nothing that it says is trusted.
#[derive(Debug)]
pub struct Caller {
    socket: OwnedFd,
    /// Readable once the process has ended.
    ended: OwnedFd,
    pid: u32,
    kernels: String,
}

impl Caller {
    /// `None`: it is another user's, or has ended already.
    pub(super) fn new(socket: OwnedFd) -> Option<Caller> {
        let peer = socket_peercred(&socket).ok().filter(|peer| peer.uid == geteuid())?;
        let ended = pidfd_open(peer.pid, PidfdFlags::empty()).ok()?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
        Some(Caller { socket, ended, pid, kernels: String::new() })
    }

    /// Its number, as this process knows it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes of text that a process is told about kernels.
    pub const MAX_KERNELS: usize = MAX_TEXT_BYTES;

    /// Tells it, with its welcome, which kernels are meant: names and patterns, a line each. What is longer than
    /// [`Caller::MAX_KERNELS`] is cut.
    pub fn tell_kernels(&mut self, names: &str) {
        names.clone_into(&mut self.kernels);
    }

    /// Whether it has said anything, or hung up, or does within `limit`.
    pub fn has_spoken(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        matches!(poll_until(deadline, [Some(self.socket.as_fd())]), Ok([true]))
    }

    /// What it says of itself. A process that speaks another version is told so.
    ///
    /// # Errors
    /// When it does not say who it is, in time or at all.
    pub fn hello(&mut self, timeout: Duration) -> Result<Hello, PlatformError> {
        let deadline = Instant::now().checked_add(timeout);
        let [spoke] = poll_until(deadline, [Some(self.socket.as_fd())])
            .map_err(os("listening to a process that attaches"))?;
        let strange = |what: String| PlatformError::Attach { what };
        if !spoke {
            return Err(strange(format!("process {} said nothing for {timeout:?}", self.pid)));
        }
        let pid = self.pid;
        match wire::receive(&self.socket).map_err(os("listening to a process that attaches"))? {
            Received::Message(Message::Hello { layout: DUMP_LAYOUT_VERSION, hello }, _) => Ok(hello),
            Received::Message(Message::Hello { layout, .. }, _) => {
                Err(self.other_version(&format!("layout {layout} where this is {DUMP_LAYOUT_VERSION}")))
            }
            Received::OtherVersion(version) => Err(self
                .other_version(&format!("version {version} of the protocol where this is {ATTACH_VERSION}"))),
            Received::Message(message, _) => Err(strange(format!("process {pid} began with {message:?}"))),
            Received::Closed => Err(strange(format!("process {pid} hung up before it said who it is"))),
            Received::Garbage(bytes) => {
                Err(strange(format!("process {pid} began with {bytes} bytes that make no sense")))
            }
        }
    }

    fn other_version(&self, what: &str) -> PlatformError {
        let what = format!(
            "the library in process {} speaks {what}; use the library and the command of one version",
            self.pid
        );
        self.refuse(&what);
        PlatformError::Attach { what }
    }

    /// Says no, and why. The caller is gone with this value.
    pub fn refuse(&self, why: &str) {
        // Who is told no and has gone already has lost nothing.
        let _ = wire::send(&self.socket, &Message::Refused(why.to_owned()), &[]);
    }

    /// Makes memory of `bytes`, lets `prepare` write to it, and hands it over. Its addresses count from 0; the first
    /// [`LINK_PAGE_BYTES`](crate::LINK_PAGE_BYTES) belong to the link.
    ///
    /// # Errors
    /// When there is no such memory, it cannot be prepared, or the process is gone ([`PlatformError::Attach`]).
    pub fn welcome(
        self,
        bytes: u64,
        run_id: u64,
        prepare: impl FnOnce(&dyn DeviceAccess) -> Result<(), PlatformError>,
    ) -> Result<AttachedProcess, PlatformError> {
        let memory = HostMemory::new(DeviceRange { addr: 0, bytes }, file::create(bytes)?, true)?;
        let ((to_host, from_process), (to_process, from_host)) = (Bell::pair()?, Bell::pair_for_many()?);
        link_page::initialise(&memory)?;
        let access = HostAccess::new(memory, to_process);
        prepare(&access)?;
        let files = [access.host_memory().file(), to_host.as_fd(), from_host.as_fd()];
        let pid = self.pid;
        wire::send(&self.socket, &Message::Welcome { bytes, run_id, kernels: self.kernels.clone() }, &files)
            .map_err(|error| match error {
                Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => {
                    PlatformError::Attach { what: format!("process {pid} hung up before it was answered") }
                }
                error => os("handing memory to a process that attaches")(error),
            })?;
        let Caller { socket, ended, pid, .. } = self;
        Ok(AttachedProcess { socket, ended, pid, from_process, access: Arc::new(access) })
    }
}

/// A process that shares memory with this one.
#[derive(Debug)]
pub struct AttachedProcess {
    socket: OwnedFd,
    ended: OwnedFd,
    pid: u32,
    from_process: Bell,
    access: Arc<HostAccess>,
}

/// What is new of an attached process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessNews {
    /// It has called [`Attachment::wake_host`](super::Attachment::wake_host) since the last time.
    Woken,
    /// Nothing, in time.
    Nothing,
    /// It says that nothing more will come.
    Goodbye,
    /// It has ended, or is another program now, and said nothing before.
    Ended,
    /// It says what makes no sense; it is listened to no more.
    Strange,
}

impl AttachedProcess {
    /// Its number, as this process knows it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process itself has ended, or does within `limit`: its socket hangs up a moment before. One that only hung up
    /// goes on, as another program perhaps.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        matches!(poll_until(deadline, [Some(self.ended.as_fd())]), Ok([true]))
    }

    /// The memory between the two. It outlives the process.
    pub fn access(&self) -> Arc<dyn DeviceAccess> {
        self.access.clone()
    }

    /// What it could not do, as it says itself. Also of a process that has ended.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub fn complaints(&self) -> Result<Complaints, PlatformError> {
        link_page::complaints(self.access.host_memory())
    }

    /// Sleeps until there is news, or until `timeout` has passed. What the process said before it ended comes first.
    ///
    /// # Errors
    /// When the system fails.
    pub fn wait(&self, timeout: Duration) -> Result<ProcessNews, PlatformError> {
        let page = host_end(self.access.host_memory());
        let woken = page.fall_asleep()?;
        let deadline = Instant::now().checked_add(if woken { Duration::ZERO } else { timeout });
        let files = [self.socket.as_fd(), self.from_process.as_fd(), self.ended.as_fd()];
        let ready = poll_until(deadline, files.map(Some));
        page.get_up()?;
        let [said, rang, ended] = ready.map_err(os("waiting for an attached process"))?;
        if said {
            return self.hear();
        }
        // A forked child may hold the socket open: that the process has ended is seen by its number alone. Nobody who rings on can hide it.
        if ended {
            return Ok(ProcessNews::Ended);
        }
        if rang || woken {
            self.from_process.silence();
            page.take_wake()?;
            return Ok(ProcessNews::Woken);
        }
        Ok(ProcessNews::Nothing)
    }

    fn hear(&self) -> Result<ProcessNews, PlatformError> {
        match wire::receive(&self.socket) {
            Ok(Received::Message(Message::Goodbye, _)) => Ok(ProcessNews::Goodbye),
            Ok(Received::Closed) => Ok(ProcessNews::Ended),
            Ok(_) => Ok(ProcessNews::Strange),
            Err(error) => Err(os("listening to an attached process")(error)),
        }
    }
}
