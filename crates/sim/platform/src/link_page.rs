//! The first page of device memory, which holds the words of the link between host and device, and the
//! sockets that wake a sleeping side. The allocator never hands out this page.
//!
//! This module only places the words. The protocol over them (who sleeps, who was woken) is in
//! [`tensortap_sync::link`].

use std::{
    io::{IoSlice, IoSliceMut},
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
    recvmsg, sendmsg, socketpair,
};
use tensortap_sync::{
    SharedU64, Word,
    link::{DeviceEnd, HostEnd, LinkCells, LinkWords},
};

use crate::{
    PlatformError,
    error::os,
    host_memory::{HostMemory, HostWord},
    map::Mapping,
};

/// Size of the area at the start of device memory that belongs to the link.
pub const LINK_PAGE_BYTES: u64 = 4096;

const LINK_MAGIC: u64 = 0x5454_4c49_4e4b_3031;

/// One word per cache line, because the two sides write different words.
#[repr(C, align(64))]
struct LinkPage {
    /// [`LINK_MAGIC`]. Written by the host before the device starts.
    magic: u64,
    reserved0: [u64; 7],
    /// 1 while the host sleeps in `wait`. Written by the host.
    host_sleeps: u64,
    reserved1: [u64; 7],
    /// 1 once the device has woken the host. Set by the device, cleared by the host.
    host_woken: u64,
    reserved2: [u64; 7],
    /// Number of device threads that wait for the host. Written by the device.
    device_sleepers: u64,
    reserved3: [u64; 7],
    /// How often the host has woken the device. Written by the host.
    device_wakes: u64,
    reserved4: [u64; 7],
    /// Threads that found no free lane, and calls that were refused. Written by the device.
    threads_refused: u64,
    calls_refused: u64,
    /// Length of `first_error` in bytes. 0 until the text is complete.
    first_error_bytes: u64,
    reserved5: [u64; 5],
    /// Why the first call was refused. Written once, by the thread that counts the first refusal.
    first_error: [u64; FIRST_ERROR_WORDS],
    reserved6: [u64; 432],
}

/// Words of `first_error`.
const FIRST_ERROR_WORDS: usize = 32;
/// Bytes of `first_error`.
const FIRST_ERROR_BYTES: usize = FIRST_ERROR_WORDS * 8;

/// The errors of a process that records itself, as the process reports them. The host must not trust these
/// values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingErrors {
    /// Threads that could not record because no lane was free.
    pub threads_refused: u64,
    /// Calls that were refused because of their arguments.
    pub calls_refused: u64,
    /// Why the first call was refused.
    pub first: Option<String>,
}

const _: () = {
    assert!(size_of::<LinkPage>() as u64 == LINK_PAGE_BYTES);
    assert!(align_of::<LinkPage>() == 64);
    assert!(offset_of!(LinkPage, magic) == 0);
    assert!(offset_of!(LinkPage, host_sleeps) == 64);
    assert!(offset_of!(LinkPage, host_woken) == 128);
    assert!(offset_of!(LinkPage, device_sleepers) == 192);
    assert!(offset_of!(LinkPage, device_wakes) == 256);
    assert!(offset_of!(LinkPage, threads_refused) == 320);
    assert!(offset_of!(LinkPage, first_error) == 384);
};

/// The link page as the host accesses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPage<'a>(&'a HostMemory);

/// The host's end of the link.
pub(crate) fn host_end(memory: &HostMemory) -> HostEnd<HostPage<'_>> {
    HostEnd::new(HostPage(memory))
}

/// Initializes the page, which is all zero, before the device starts.
pub(crate) fn initialize(memory: &HostMemory) -> Result<(), PlatformError> {
    let HostWord { memory, addr } = HostPage(memory).word(offset_of!(LinkPage, magic));
    memory.write_u64(addr, LINK_MAGIC)
}

impl<'a> HostPage<'a> {
    fn word(&self, offset: usize) -> HostWord<'a> {
        HostWord { memory: self.0, addr: self.0.range().addr + offset as u64 }
    }
}

impl LinkWords for HostPage<'_> {
    type Error = PlatformError;

    fn host_sleeps(&self) -> impl Word<Error = PlatformError> {
        self.word(offset_of!(LinkPage, host_sleeps))
    }

    fn host_woken(&self) -> impl Word<Error = PlatformError> {
        self.word(offset_of!(LinkPage, host_woken))
    }

    fn device_sleepers(&self) -> impl Word<Error = PlatformError> {
        self.word(offset_of!(LinkPage, device_sleepers))
    }

    fn device_wakes(&self) -> impl Word<Error = PlatformError> {
        self.word(offset_of!(LinkPage, device_wakes))
    }
}

/// The device's end of the link, or `None` if the memory is too small for a link page.
pub(crate) fn device_end(mapping: &Mapping) -> Option<DeviceEnd<'_>> {
    Some(DeviceEnd::new(LinkCells {
        host_sleeps: mapping.word(offset_of!(LinkPage, host_sleeps))?,
        host_woken: mapping.word(offset_of!(LinkPage, host_woken))?,
        device_sleepers: mapping.word(offset_of!(LinkPage, device_sleepers))?,
        device_wakes: mapping.word(offset_of!(LinkPage, device_wakes))?,
    }))
}

/// Counts a thread that found no free lane.
pub(crate) fn refuse_thread(mapping: &Mapping) {
    if let Some(count) = mapping.word(offset_of!(LinkPage, threads_refused)) {
        count.add(1);
    }
}

/// Counts a refused call, and stores the reason of the first one.
pub(crate) fn refuse_call(mapping: &Mapping, why: &dyn std::fmt::Display) {
    let word = |offset: usize| mapping.word(offset);
    if word(offset_of!(LinkPage, calls_refused)).is_none_or(|count| count.add(1) > 0) {
        return;
    }
    let why = why.to_string();
    let why = &why.as_bytes()[..why.floor_char_boundary(FIRST_ERROR_BYTES)];
    for (at, part) in why.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        if let Some(word) = word(offset_of!(LinkPage, first_error) + 8 * at) {
            word.set(u64::from_le_bytes(bytes));
        }
    }
    // Release: a host that reads the length sees the complete text.
    if let Some(bytes) = word(offset_of!(LinkPage, first_error_bytes)) {
        bytes.publish(why.len() as u64);
    }
}

/// The errors that the process has counted so far.
pub(crate) fn recording_errors(memory: &HostMemory) -> Result<RecordingErrors, PlatformError> {
    let word = |offset: usize| {
        let HostWord { memory, addr } = HostPage(memory).word(offset);
        memory.read_u64(addr)
    };
    let bytes = usize::try_from(word(offset_of!(LinkPage, first_error_bytes))?).unwrap_or(0);
    let mut text = vec![0; bytes.min(FIRST_ERROR_BYTES)];
    memory.copy_from(memory.range().addr + offset_of!(LinkPage, first_error) as u64, &mut text)?;
    Ok(RecordingErrors {
        threads_refused: word(offset_of!(LinkPage, threads_refused))?,
        calls_refused: word(offset_of!(LinkPage, calls_refused))?,
        first: (bytes > 0).then(|| String::from_utf8_lossy(&text).into_owned()),
    })
}

/// Whether the host has initialized this memory. Checked once, before the device program can overwrite it.
pub(crate) fn is_initialized(mapping: &Mapping) -> bool {
    mapping.word(offset_of!(LinkPage, magic)).map(SharedU64::see) == Some(LINK_MAGIC)
}

/// One end of a socket pair that wakes the other side. One side sends wakes, the other polls. Several wakes
/// that were not received yet may count as one.
///
/// It is a pair of datagram sockets and not an eventfd, because the other side is not trusted. Both sides
/// share the flags of an eventfd, so the other side could make its calls block. On a socket, each call has
/// its own non-blocking flag. With datagrams, closing the other end does not look like a wake.
#[derive(Debug)]
pub(crate) struct WakeSocket {
    end: OwnedFd,
    /// The receiving end, if the receivers never clear it. The sender makes room here for another wake.
    other: Option<OwnedFd>,
}

/// Limit on the wakes that one call to `clear` removes. Later calls remove the rest.
const MAX_CLEARED_WAKES: usize = 64;

impl WakeSocket {
    /// The sending end and the receiving end.
    pub(crate) fn pair() -> Result<(WakeSocket, WakeSocket), PlatformError> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        pair.map(|(sender, receiver)| (sender.into(), receiver.into())).map_err(os("creating a wake socket"))
    }

    /// Like [`WakeSocket::pair`], for several receivers. None of them may clear the socket, because the
    /// others would miss the wake.
    pub(crate) fn pair_for_many() -> Result<(WakeSocket, WakeSocket), PlatformError> {
        let (sender, receiver) = WakeSocket::pair()?;
        let other = receiver.end.try_clone().map_err(os("creating a wake socket"))?;
        Ok((WakeSocket { other: Some(other), ..sender }, receiver))
    }

    /// Sends a wake without blocking. If the buffer is full, a wake is already pending. If the receiver is
    /// gone, the error is ignored.
    pub(crate) fn send_wake(&self) {
        if let (Err(Errno::AGAIN | Errno::NOBUFS), Some(other)) = (self.send(), &self.other) {
            let _ = receive(other);
            let _ = self.send();
        }
    }

    fn send(&self) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.end, &[IoSlice::new(&[1])], &mut SendAncillaryBuffer::default(), flags)
    }

    /// Removes all pending wakes without blocking.
    pub(crate) fn clear(&self) {
        for _ in 0..MAX_CLEARED_WAKES {
            if receive(&self.end).is_err() {
                return;
            }
        }
    }
}

/// Removes one pending wake.
fn receive(end: &OwnedFd) -> Result<(), Errno> {
    let (mut wake, mut nothing) = ([0], RecvAncillaryBuffer::default());
    recvmsg(end, &mut [IoSliceMut::new(&mut wake)], &mut nothing, RecvFlags::DONTWAIT).map(|_| ())
}

impl From<OwnedFd> for WakeSocket {
    fn from(fd: OwnedFd) -> WakeSocket {
        WakeSocket { end: fd, other: None }
    }
}

impl AsFd for WakeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::DeviceRange;
    use tensortap_sync::link::WakeCounter;

    use super::*;
    use crate::file;

    /// Runs `test` on both ends over one file. The host maps the file or copies.
    fn with_both_ends(maps: bool, test: impl Fn(&HostEnd<HostPage<'_>>, &DeviceEnd<'_>)) {
        let range = DeviceRange { addr: 0x2000_0000_0000, bytes: 2 * LINK_PAGE_BYTES };
        let memory = HostMemory::new(range, file::create(range.bytes).unwrap(), maps).unwrap();
        let mapping = Mapping::anywhere(memory.file(), range.bytes).unwrap();
        assert!(!is_initialized(&mapping));
        initialize(&memory).unwrap();
        assert!(is_initialized(&mapping));
        test(&host_end(&memory), &device_end(&mapping).unwrap());
    }

    #[test]
    fn the_device_wakes_the_host_over_the_page() {
        for maps in [true, false] {
            with_both_ends(maps, |host, device| {
                assert!(!device.wake_host(), "the host does not sleep");
                assert!(host.fall_asleep().unwrap(), "the wake is still pending");
                host.take_wake().unwrap();
                assert!(!host.fall_asleep().unwrap(), "the wake was already taken");
                assert!(device.wake_host());
                assert!(!device.wake_host(), "a wake is already pending");
                host.get_up().unwrap();
                host.take_wake().unwrap();
                assert!(!device.wake_host(), "the host does not sleep");
            });
        }
    }

    #[test]
    fn a_wake_socket_never_blocks_even_if_the_other_side_clears_its_flags() {
        let (sender, receiver) = WakeSocket::pair().unwrap();
        // The flags of an open file are shared with every process that has it.
        for end in [&sender, &receiver] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::empty()).unwrap();
        }
        let is_readable = || {
            let mut files = [rustix::event::PollFd::new(&receiver, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut files, Some(&rustix::event::Timespec::default())).unwrap() > 0
        };
        receiver.clear();
        assert!(!is_readable());
        (0..10_000).for_each(|_| sender.send_wake());
        assert!(is_readable());
        (0..10_000).for_each(|_| receiver.clear());
        assert!(!is_readable());
        drop(sender);
        receiver.clear();
        assert!(!is_readable(), "a closed sender does not look like a wake");
    }

    #[test]
    fn the_host_wakes_the_device_over_the_page() {
        for maps in [true, false] {
            with_both_ends(maps, |host, device| {
                let mut wakes = WakeCounter::default();
                assert!(!host.wake_device(&mut wakes).unwrap(), "no device thread sleeps");
                assert!(!host.wake_device(&mut wakes).unwrap());
                assert_eq!(device.wakes(), 2, "wakes without a sleeper are counted");
            });
        }
    }
}
