//! The process's side of [`attach`](super).

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    ptr::NonNull,
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
    process::geteuid,
};
use tensortap_abi::DUMP_LAYOUT_VERSION;

use super::wire::{self, ATTACH_VERSION, Hello, Message, ReceivedPacket};
use crate::{
    HostEvent, LINK_PAGE_BYTES, MappedMemory, PlatformError,
    connection::poll_until,
    error::os,
    file,
    link_page::{self, WakeSocket},
    map::{ForkGuard, Mapping},
};

/// How long the host may take to answer. It may be busy writing for other processes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The memory that this process shares with its host, and the sockets to wake each other.
///
/// A forked child does not have the memory. Call [`Attachment::is_own_process`] before touching it.
#[derive(Debug)]
pub struct Attachment {
    socket: OwnedFd,
    to_host: WakeSocket,
    from_host: WakeSocket,
    mapping: Mapping,
    run_id: u64,
    earlier: u64,
    kernels: String,
    guard: ForkGuard,
}

impl Attachment {
    /// Attaches this process to the host that listens at `path`.
    ///
    /// # Errors
    ///
    /// If no host listens there, it belongs to another user, it refuses, or it sends invalid memory.
    pub fn new(path: &Path, hello: &Hello) -> Result<Attachment, PlatformError> {
        let socket = call(path)?;
        let message = Message::Hello { layout: DUMP_LAYOUT_VERSION, hello: hello.clone() };
        wire::send(&socket, &message, &[]).map_err(os("attaching to the recorder"))?;
        let deadline = Instant::now().checked_add(ANSWER_TIMEOUT);
        let [answered] =
            poll_until(deadline, [Some(socket.as_fd())]).map_err(os("attaching to the recorder"))?;
        if !answered {
            return Err(failed(format!("the recorder did not answer within {ANSWER_TIMEOUT:?}")));
        }
        Attachment::from_welcome(socket)
    }

    /// Processes the host's answer, which must have arrived.
    pub(super) fn from_welcome(socket: OwnedFd) -> Result<Attachment, PlatformError> {
        match wire::receive(&socket).map_err(os("attaching to the recorder"))? {
            ReceivedPacket::Message(Message::Welcome { bytes, run_id, earlier, kernels }, files) => {
                Ok(Attachment { kernels, earlier, ..Attachment::with(socket, bytes, run_id, files)? })
            }
            ReceivedPacket::Message(Message::Refused(what), _) => Err(failed(what)),
            ReceivedPacket::OtherVersion(version) => Err(failed(format!(
                "the recorder uses protocol version {version}, this library uses {ATTACH_VERSION}; use the library and the \
                 command of the same version"
            ))),
            ReceivedPacket::Closed => Err(failed("the recorder disconnected".to_owned())),
            ReceivedPacket::Message(..) | ReceivedPacket::Garbage(_) => {
                Err(failed("the recorder sent an answer that is no welcome".to_owned()))
            }
        }
    }

    fn with(
        socket: OwnedFd,
        bytes: u64,
        run_id: u64,
        files: Vec<OwnedFd>,
    ) -> Result<Attachment, PlatformError> {
        let invalid = |what: &str| failed(format!("the recorder sent {what}"));
        let [memory, to_host, from_host] =
            <[OwnedFd; 3]>::try_from(files).map_err(|_| invalid("the wrong number of files"))?;
        if bytes < 2 * LINK_PAGE_BYTES || !file::is_sealed(&memory, bytes) {
            return Err(invalid("a file that is no sealed memory of the announced size"));
        }
        let mapping = Mapping::anywhere(&memory, bytes)?;
        mapping.keep_from_children()?;
        if !link_page::is_initialized(&mapping) {
            return Err(invalid("memory that is not initialized"));
        }
        let (to_host, from_host) = (WakeSocket::from(to_host), WakeSocket::from(from_host));
        let (kernels, guard) = (String::new(), ForkGuard::new()?);
        Ok(Attachment { socket, to_host, from_host, mapping, run_id, earlier: 0, kernels, guard })
    }

    /// Whether this process is the one that attached. A forked child is not, and it does not have the memory.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.guard.is_own_process()
    }

    /// The id of the recording run.
    pub fn run_id(&self) -> u64 {
        self.run_id
    }

    /// Whether another library of this process received the same memory before.
    pub fn is_shared(&self) -> bool {
        self.earlier > 0
    }

    /// How many libraries of this process received the same memory before.
    pub fn earlier(&self) -> u64 {
        self.earlier
    }

    /// The kernels to record: names and patterns, one per line. Empty if the host selected none.
    pub fn kernels(&self) -> &str {
        &self.kernels
    }

    /// The shared memory, for copies.
    pub fn memory(&self) -> MappedMemory<'_> {
        MappedMemory::new(&self.mapping, 0)
    }

    /// The start of the mapping. Valid while this value lives.
    pub fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Wakes the host if it sleeps.
    pub fn wake_host(&self) {
        if link_page::device_end(&self.mapping).is_some_and(|end| end.wake_host()) {
            self.to_host.send_wake();
        }
    }

    /// Creates a listener with which one thread waits for the host.
    ///
    /// # Errors
    ///
    /// If this process cannot open more files.
    pub fn host_listener(&self) -> Result<HostListener, PlatformError> {
        let doing = "listening to the recorder";
        let listener = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os(doing))?;
        // Edge-triggered, so one wake reaches every thread that waits. No thread may drain the socket, or
        // others would miss the wake.
        let wake = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&listener, &self.from_host, epoll::EventData::new_u64(WAKE), wake).map_err(os(doing))?;
        let gone = epoll::EventFlags::RDHUP;
        epoll::add(&listener, &self.socket, epoll::EventData::new_u64(SOCKET), gone).map_err(os(doing))?;
        Ok(HostListener(listener))
    }

    /// How often the host has woken this process. The host wakes it each time it releases space. To miss no
    /// wake, read this count, then look at memory, then call [`Attachment::wait`].
    pub fn wakes(&self) -> u64 {
        link_page::device_end(&self.mapping).map_or(0, |end| end.wakes())
    }

    /// Sleeps until the host has woken this process more than `seen` times, is gone, or `timeout` has passed.
    /// Any number of threads may wait, each with its own listener. A wake reaches all of them. May return
    /// early.
    pub fn wait(&self, listener: &HostListener, seen: u64, timeout: Duration) -> HostEvent {
        let Some(end) = link_page::device_end(&self.mapping) else { return HostEvent::Gone };
        end.asleep(|| if end.wakes() == seen { listener.wait(timeout) } else { HostEvent::Woken })
    }

    /// Whether the host has closed its socket. Does not block.
    pub fn is_host_gone(&self) -> bool {
        // `recv` and not `poll`: a program that may not open files may also be forbidden to poll.
        let looked = recv(&self.socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR))
    }

    /// Counts a thread that cannot record. The host reads the count.
    pub fn refuse_thread(&self) {
        link_page::refuse_thread(&self.mapping);
    }

    /// Counts a call that was refused, and stores the reason of the first one. The host reads both.
    pub fn refuse_call(&self, why: &dyn std::fmt::Display) {
        link_page::refuse_call(&self.mapping, why);
    }

    /// Announces that this process records nothing more.
    pub fn goodbye(&self) {
        // A host that is gone needs no goodbye.
        let _ = wire::send(&self.socket, &Message::Goodbye, &[]);
    }
}

/// One thread's way to wait for the host: an epoll file over the wake socket and the connection.
#[derive(Debug)]
pub struct HostListener(OwnedFd);

const WAKE: u64 = 0;
const SOCKET: u64 = 1;

impl HostListener {
    fn wait(&self, timeout: Duration) -> HostEvent {
        let mut events = Vec::with_capacity(2);
        let timeout = Timespec::try_from(timeout).ok();
        match epoll::wait(&self.0, spare_capacity(&mut events), timeout.as_ref()) {
            // The host sends nothing over the socket after the welcome, so any event there means that it is
            // gone.
            Ok(_) if events.iter().any(|event| event.data.u64() == SOCKET) => HostEvent::Gone,
            Ok(0) | Err(_) => HostEvent::TimedOut,
            Ok(_) => HostEvent::Woken,
        }
    }
}

fn call(path: &Path) -> Result<OwnedFd, PlatformError> {
    let socket_error = |error| PlatformError::Socket { path: path.to_owned(), error };
    let address = SocketAddrUnix::new(path).map_err(socket_error)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(socket_error)?;
    // Many processes may call at once and wait here. The timeout ends the wait for a host that is stopped.
    set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIMEOUT)).map_err(socket_error)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                return Err(failed(format!("the recorder accepted no connection within {ANSWER_TIMEOUT:?}")));
            }
            Err(error) => return Err(socket_error(error)),
        }
    }
    let peer = socket_peercred(&socket).map_err(socket_error)?;
    if peer.uid != geteuid() {
        return Err(failed("the recorder belongs to another user".to_owned()));
    }
    Ok(socket)
}

fn failed(what: String) -> PlatformError {
    PlatformError::Attach { what }
}
