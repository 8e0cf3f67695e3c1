//! A process that shares memory with the host, and the connections of its libraries.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{
    Caller,
    wire::{self, Message, ReceivedPacket},
};
use crate::{
    DeviceAccess, PlatformError,
    connection::poll_until,
    error::os,
    host_memory::HostAccess,
    link_page::{self, RecordingErrors, WakeSocket, host_end},
};

/// Maximum number of libraries of one process that share its memory at a time.
pub const MAX_LIBRARIES: usize = 16;

/// A process that shares memory with this one. Each of its libraries that attached has a connection.
#[derive(Debug)]
pub struct AttachedProcess {
    connections: Mutex<Connections>,
    /// Readable once the process has ended.
    ended: OwnedFd,
    pid: u32,
    /// The program that the process ran when it attached.
    program: u64,
    offer: SharedOffer,
    from_process: WakeSocket,
    access: Arc<HostAccess>,
}

/// What every library of the process receives, besides the memory.
#[derive(Debug)]
pub(super) struct SharedOffer {
    pub bytes: u64,
    pub run_id: u64,
    pub kernels: String,
    /// The ends of the wake sockets that belong to the process.
    pub to_host: WakeSocket,
    pub from_host: WakeSocket,
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<Arc<OwnedFd>>,
    /// How many libraries have received the memory so far.
    so_far: u64,
    /// Whether no library may join anymore.
    is_closed: bool,
    /// Whether a library disconnected without a goodbye.
    has_hung_up: bool,
    has_violated_protocol: bool,
}

/// The result of [`AttachedProcess::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The process has called [`Attachment::wake_host`](super::Attachment::wake_host) since the last wait.
    Woken,
    /// Nothing happened within the timeout, or nothing of interest.
    TimedOut,
    /// Every library of the process has announced that it records nothing more.
    Goodbye,
    /// The process ended, or executed another program, or all its libraries have disconnected, at least one of
    /// them without a goodbye.
    Ended,
    /// The process sent an invalid packet. The host must disconnect it.
    ProtocolError,
}

/// Why a caller does not share the memory of a process.
#[derive(Debug)]
pub enum JoinError {
    /// It is another process or another program, or the recording of the process is over. It needs memory of its
    /// own.
    IsOther(Caller),
    /// The process has [`MAX_LIBRARIES`] connections already.
    TooMany(Caller),
    /// It could not receive the memory.
    Failed(PlatformError),
}

impl AttachedProcess {
    pub(super) fn new(
        (pid, program, ended): (u32, u64, OwnedFd),
        offer: SharedOffer,
        from_process: WakeSocket,
        access: Arc<HostAccess>,
    ) -> AttachedProcess {
        let connections = Mutex::default();
        AttachedProcess { connections, ended, pid, program, offer, from_process, access }
    }

    /// Shares the memory with another library of the process. Everything that the process sent before the call
    /// counts first: a library that said goodbye has left.
    ///
    /// # Errors
    ///
    /// If the caller is another process or cannot receive the memory.
    pub fn join(&self, caller: Caller) -> Result<(), JoinError> {
        let mut connections = self.connections();
        self.settle(&mut connections);
        let (socket, pid, program) = caller.parts();
        // The system reported the caller's pid. The process has not ended since it attached, so no other process
        // had this pid when it called.
        let is_same = (pid, program) == (self.pid, self.program) && !self.ends_within(Duration::ZERO);
        if connections.is_closed || !is_same {
            return Err(JoinError::IsOther(caller));
        }
        if connections.open.len() >= MAX_LIBRARIES {
            return Err(JoinError::TooMany(caller));
        }
        self.hand_over(socket, connections.so_far).map_err(JoinError::Failed)?;
        connections.add(caller.into_socket());
        drop(connections);
        // The thread that waits must listen to the new connection too.
        self.offer.to_host.send_wake();
        Ok(())
    }

    /// Lets no library join anymore.
    pub fn close(&self) {
        self.connections().is_closed = true;
    }

    /// Closes all connections. The process learns that its host is gone.
    pub fn disconnect(&self) {
        let mut connections = self.connections();
        connections.is_closed = true;
        connections.open.clear();
    }

    /// Sends the memory to a library. `earlier` libraries received it before.
    pub(super) fn hand_over(&self, socket: impl AsFd, earlier: u64) -> Result<(), PlatformError> {
        let SharedOffer { bytes, run_id, kernels, to_host, from_host } = &self.offer;
        let files = [self.access.host_memory().file(), to_host.as_fd(), from_host.as_fd()];
        let welcome = Message::Welcome { bytes: *bytes, run_id: *run_id, earlier, kernels: kernels.clone() };
        let pid = self.pid;
        wire::send(socket, &welcome, &files).map_err(|error| match error {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => PlatformError::Attach {
                what: format!("process {pid} disconnected before it received its memory"),
            },
            error => os("handing memory to a process that attaches")(error),
        })
    }

    pub(super) fn connect(&self, socket: OwnedFd) {
        self.connections().add(socket);
    }

    /// The process id, as the host's system reports it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process ends within `limit`. Its socket closes a moment before it ends. A process that
    /// only closed the socket keeps running, perhaps as another program.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        matches!(poll_until(deadline, [Some(self.ended.as_fd())]), Ok([true]))
    }

    /// The shared memory. It outlives the process.
    pub fn access(&self) -> Arc<dyn DeviceAccess> {
        self.access.clone()
    }

    /// The errors that the process counted about itself. They stay readable after the process has ended.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read.
    pub fn recording_errors(&self) -> Result<RecordingErrors, PlatformError> {
        link_page::recording_errors(self.access.host_memory())
    }

    /// Sleeps until an event or until `timeout` has passed. A packet that the process sent before it ended is
    /// returned first. Only one thread may wait.
    ///
    /// # Errors
    ///
    /// If a system call fails.
    pub fn wait(&self, timeout: Duration) -> Result<ProcessEvent, PlatformError> {
        let page = host_end(self.access.host_memory());
        let woken = page.fall_asleep()?;
        let (sockets, is_over) = {
            let connections = self.connections();
            (connections.open.clone(), connections.event().is_some())
        };
        let deadline = Instant::now().checked_add(if woken || is_over { Duration::ZERO } else { timeout });
        let mut files: [Option<BorrowedFd<'_>>; MAX_LIBRARIES + 2] = [None; MAX_LIBRARIES + 2];
        files[0] = Some(self.from_process.as_fd());
        files[1] = Some(self.ended.as_fd());
        files[2..].iter_mut().zip(&sockets).for_each(|(file, socket)| *file = Some(socket.as_fd()));
        let ready = poll_until(deadline, files);
        page.get_up()?;
        let [woke, ended, ..] = ready.map_err(os("waiting for an attached process"))?;
        let mut connections = self.connections();
        self.settle(&mut connections);
        if let Some(event) = connections.event() {
            return Ok(event);
        }
        drop(connections);
        // A forked child may hold the socket open, so only the process descriptor shows the end. It is
        // checked before the wake socket: a child that keeps sending wakes cannot hide the end.
        if ended {
            return Ok(ProcessEvent::Ended);
        }
        if woke || woken {
            self.from_process.clear();
            page.take_wake()?;
            return Ok(ProcessEvent::Woken);
        }
        Ok(ProcessEvent::TimedOut)
    }

    /// Takes the packets that have arrived.
    fn settle(&self, connections: &mut Connections) {
        let mut open = std::mem::take(&mut connections.open);
        open.retain(|socket| connections.hear(socket));
        connections.is_closed |= open.is_empty();
        connections.open = open;
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn add(&mut self, socket: OwnedFd) {
        self.so_far += 1;
        self.open.push(Arc::new(socket));
    }

    /// Takes the packets of one connection. Returns whether it stays open.
    fn hear(&mut self, socket: &OwnedFd) -> bool {
        let now = Some(Instant::now());
        let Ok([true]) = poll_until(now, [Some(socket.as_fd())]) else { return true };
        match wire::receive(socket) {
            Ok(ReceivedPacket::Message(Message::Goodbye, _)) => {}
            Ok(ReceivedPacket::Closed) => self.has_hung_up = true,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Ok(_) => self.has_violated_protocol = true,
            Err(_) => self.has_hung_up = true,
        }
        false
    }

    /// How the recording of the process ends, if it does.
    fn event(&self) -> Option<ProcessEvent> {
        match self {
            Connections { has_violated_protocol: true, .. } => Some(ProcessEvent::ProtocolError),
            Connections { open, .. } if !open.is_empty() => None,
            Connections { has_hung_up: true, .. } => Some(ProcessEvent::Ended),
            Connections { .. } => Some(ProcessEvent::Goodbye),
        }
    }
}
