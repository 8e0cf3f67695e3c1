//! The side of the process that attaches itself.

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

use super::wire::{self, ATTACH_VERSION, Hello, Message, Received};
use crate::{
    LINK_PAGE_BYTES, MappedMemory, PlatformError,
    connection::poll_until,
    error::os,
    file,
    link_page::{self, Bell},
    map::{ForkGuard, Mapping},
};

/// How long a host may take to answer: it may be writing as fast as it can for others.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The memory that this process shares with its host, and the way to wake one another.
///
/// A process that is forked from this one does not have the memory: ask [`Attachment::is_own_process`] before it is touched.
#[derive(Debug)]
pub struct Attachment {
    socket: OwnedFd,
    to_host: Bell,
    from_host: Bell,
    mapping: Mapping,
    run_id: u64,
    kernels: String,
    guard: ForkGuard,
}

impl Attachment {
    /// Attaches this process to the host that listens at `path`.
    ///
    /// # Errors
    /// When nobody listens there, it is another user, it refuses, or what it hands over is not what it should be.
    pub fn new(path: &Path, hello: &Hello) -> Result<Attachment, PlatformError> {
        let socket = call(path)?;
        let message = Message::Hello { layout: DUMP_LAYOUT_VERSION, hello: hello.clone() };
        wire::send(&socket, &message, &[]).map_err(os("attaching to the recorder"))?;
        let deadline = Instant::now().checked_add(ANSWER_TIMEOUT);
        let [answered] =
            poll_until(deadline, [Some(socket.as_fd())]).map_err(os("attaching to the recorder"))?;
        if !answered {
            return Err(strange(format!("the recorder did not answer within {ANSWER_TIMEOUT:?}")));
        }
        Attachment::welcomed(socket)
    }

    /// Takes the host's answer, which has come.
    pub(super) fn welcomed(socket: OwnedFd) -> Result<Attachment, PlatformError> {
        match wire::receive(&socket).map_err(os("attaching to the recorder"))? {
            Received::Message(Message::Welcome { bytes, run_id, kernels }, files) => {
                Ok(Attachment { kernels, ..Attachment::with(socket, bytes, run_id, files)? })
            }
            Received::Message(Message::Refused(what), _) => Err(strange(what)),
            Received::OtherVersion(version) => Err(strange(format!(
                "the recorder speaks version {version} where this library speaks {ATTACH_VERSION}; use the library and the \
                 command of one version"
            ))),
            Received::Closed => Err(strange("the recorder hung up".to_owned())),
            Received::Message(..) | Received::Garbage(_) => {
                Err(strange("the recorder's answer makes no sense".to_owned()))
            }
        }
    }

    fn with(
        socket: OwnedFd,
        bytes: u64,
        run_id: u64,
        files: Vec<OwnedFd>,
    ) -> Result<Attachment, PlatformError> {
        let handed = |what: &str| strange(format!("the recorder handed over {what}"));
        let [memory, to_host, from_host] =
            <[OwnedFd; 3]>::try_from(files).map_err(|_| handed("the wrong number of files"))?;
        if bytes < 2 * LINK_PAGE_BYTES || !file::is_sealed(&memory, bytes) {
            return Err(handed("a file that is not the memory it should be"));
        }
        let mapping = Mapping::anywhere(&memory, bytes)?;
        mapping.keep_from_children()?;
        if !link_page::is_initialised(&mapping) {
            return Err(handed("memory that it has not prepared"));
        }
        let (to_host, from_host) = (Bell::from(to_host), Bell::from(from_host));
        let kernels = String::new();
        Ok(Attachment { socket, to_host, from_host, mapping, run_id, kernels, guard: ForkGuard::new()? })
    }

    /// Whether this is the process that attached, and not one that was forked from it: that one has no such memory.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.guard.is_own_process()
    }

    /// The number of what is recorded.
    pub fn run_id(&self) -> u64 {
        self.run_id
    }

    /// Names and patterns of the kernels that are meant, a line each; empty where the host names none.
    pub fn kernels(&self) -> &str {
        &self.kernels
    }

    /// The memory, to copy from and to.
    pub fn memory(&self) -> MappedMemory<'_> {
        MappedMemory::new(&self.mapping, 0)
    }

    /// Where the memory is mapped, for as long as this value lives.
    pub fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Wakes the host if it sleeps.
    pub fn wake_host(&self) {
        if link_page::device_end(&self.mapping).is_some_and(|end| end.wake_host()) {
            self.to_host.ring();
        }
    }

    /// An ear for one thread, to wait for the host.
    ///
    /// # Errors
    /// When this process may open no more files.
    pub fn ear(&self) -> Result<Ear, PlatformError> {
        let doing = "listening to the recorder";
        let ear = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os(doing))?;
        // Edges: each ring is heard by every thread that waits. Nobody silences the bell, or others would not hear it any more.
        let bell = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&ear, &self.from_host, epoll::EventData::new_u64(BELL), bell).map_err(os(doing))?;
        let gone = epoll::EventFlags::RDHUP;
        epoll::add(&ear, &self.socket, epoll::EventData::new_u64(SOCKET), gone).map_err(os(doing))?;
        Ok(Ear(ear))
    }

    /// How often the host has woken this process: each time it has given something back. Take it, then look at memory, then
    /// [wait](Attachment::wait): no wake is missed.
    pub fn wakes(&self) -> u64 {
        link_page::device_end(&self.mapping).map_or(0, |end| end.wakes())
    }

    /// Sleeps until the host has woken this process more often than `seen` says, is gone, or `timeout` has passed. Any number of
    /// threads may, each with an ear of its own; all are woken. May return early.
    pub fn wait(&self, ear: &Ear, seen: u64, timeout: Duration) -> HostNews {
        let Some(end) = link_page::device_end(&self.mapping) else { return HostNews::Gone };
        end.asleep(|| if end.wakes() == seen { ear.listen(timeout) } else { HostNews::Woken })
    }

    /// Whether the host has hung up. Does not wait.
    pub fn is_host_gone(&self) -> bool {
        // And no poll, which a program that may open no files at all is refused.
        let looked = recv(&self.socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR))
    }

    /// Counts a thread that cannot record, for the host to know.
    pub fn refuse_thread(&self) {
        link_page::refuse_thread(&self.mapping);
    }

    /// Counts a call that was refused, for the host to know, and tells it why the first was.
    pub fn refuse_call(&self, why: &dyn std::fmt::Display) {
        link_page::refuse_call(&self.mapping, why);
    }

    /// Tells the host that nothing more will come.
    pub fn goodbye(&self) {
        // A host that is gone needs no word.
        let _ = wire::send(&self.socket, &Message::Goodbye, &[]);
    }
}

/// With which one thread listens to the host.
#[derive(Debug)]
pub struct Ear(OwnedFd);

/// What a thread has heard of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNews {
    /// It has given something back.
    Woken,
    /// Nothing, in time.
    Nothing,
    /// It is gone and never gives anything back again.
    Gone,
}

const BELL: u64 = 0;
const SOCKET: u64 = 1;

impl Ear {
    fn listen(&self, timeout: Duration) -> HostNews {
        let mut heard = Vec::with_capacity(2);
        let timeout = Timespec::try_from(timeout).ok();
        match epoll::wait(&self.0, spare_capacity(&mut heard), timeout.as_ref()) {
            // The host says nothing on the socket: whatever happens there is its end.
            Ok(_) if heard.iter().any(|event| event.data.u64() == SOCKET) => HostNews::Gone,
            Ok(0) | Err(_) => HostNews::Nothing,
            Ok(_) => HostNews::Woken,
        }
    }
}

fn call(path: &Path) -> Result<OwnedFd, PlatformError> {
    let failed = |error| PlatformError::Socket { path: path.to_owned(), error };
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    // Many may call at once, and wait here; a host that is stopped is not waited for for ever.
    set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIMEOUT)).map_err(failed)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                return Err(strange(format!("the recorder took no calls for {ANSWER_TIMEOUT:?}")));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let peer = socket_peercred(&socket).map_err(failed)?;
    if peer.uid != geteuid() {
        return Err(strange("the recorder is another user's".to_owned()));
    }
    Ok(socket)
}

fn strange(what: String) -> PlatformError {
    PlatformError::Attach { what }
}
