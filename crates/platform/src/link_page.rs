//! The first page of device memory, where the words of the link lie, and the bells that ring when somebody sleeps.
//! The allocator never hands the page out.
//!
//! Who sleeps and who was woken is the protocol of [`tensortap_sync::link`]; here is where its words lie.

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

/// Bytes at the start of device memory that belong to the link between host and device.
pub const LINK_PAGE_BYTES: u64 = 4096;

const LINK_MAGIC: u64 = 0x5454_4c49_4e4b_3031;

/// One word per cache line, so that the two sides do not share lines they write.
#[repr(C, align(64))]
struct LinkPage {
    /// [`LINK_MAGIC`], written by the host before the device starts.
    magic: u64,
    reserved0: [u64; 7],
    /// 1 while the host sleeps in `wait`. Written by the host.
    host_sleeps: u64,
    reserved1: [u64; 7],
    /// 1 once the device has woken the host. Set by the device, cleared by the host.
    host_woken: u64,
    reserved2: [u64; 7],
    /// Device threads that sleep on the host. Written by the device.
    device_sleepers: u64,
    reserved3: [u64; 7],
    /// How often the host has woken the device. Written by the host.
    device_wakes: u64,
    reserved4: [u64; 7],
    /// Threads that found no place to record in, and calls that were refused. Counted by the device.
    threads_refused: u64,
    calls_refused: u64,
    /// Bytes of `complaint`; 0 until it is there.
    complaint_bytes: u64,
    reserved5: [u64; 5],
    /// Why the first call was refused. Written once, by whoever counts the first.
    complaint: [u64; COMPLAINT_WORDS],
    reserved6: [u64; 432],
}

/// Words of a complaint.
const COMPLAINT_WORDS: usize = 32;
/// Its bytes.
const COMPLAINT_BYTES: usize = COMPLAINT_WORDS * 8;

/// What a process that records itself could not do. It says so itself: nothing of it is more than a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaints {
    /// Threads that found no lane.
    pub threads_refused: u64,
    /// Calls that were refused because of what they were given.
    pub calls_refused: u64,
    /// Why the first of them was.
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
    assert!(offset_of!(LinkPage, complaint) == 384);
};

/// The page as the host reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPage<'a>(&'a HostMemory);

/// The host's end of the link.
pub(crate) fn host_end(memory: &HostMemory) -> HostEnd<HostPage<'_>> {
    HostEnd::new(HostPage(memory))
}

/// Prepares the page, before the device starts. All of it is zero then.
pub(crate) fn initialise(memory: &HostMemory) -> Result<(), PlatformError> {
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

/// The device's end of the link; `None` when the memory is too small for a link page.
pub(crate) fn device_end(mapping: &Mapping) -> Option<DeviceEnd<'_>> {
    Some(DeviceEnd::new(LinkCells {
        host_sleeps: mapping.word(offset_of!(LinkPage, host_sleeps))?,
        host_woken: mapping.word(offset_of!(LinkPage, host_woken))?,
        device_sleepers: mapping.word(offset_of!(LinkPage, device_sleepers))?,
        device_wakes: mapping.word(offset_of!(LinkPage, device_wakes))?,
    }))
}

/// Counts a thread that found no lane.
pub(crate) fn refuse_thread(mapping: &Mapping) {
    if let Some(count) = mapping.word(offset_of!(LinkPage, threads_refused)) {
        count.add(1);
    }
}

/// Counts a call that was refused, and keeps why the first was.
pub(crate) fn refuse_call(mapping: &Mapping, why: &dyn std::fmt::Display) {
    let word = |offset: usize| mapping.word(offset);
    if word(offset_of!(LinkPage, calls_refused)).is_none_or(|count| count.add(1) > 0) {
        return;
    }
    let why = why.to_string();
    let why = &why.as_bytes()[..why.floor_char_boundary(COMPLAINT_BYTES)];
    for (at, part) in why.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        if let Some(word) = word(offset_of!(LinkPage, complaint) + 8 * at) {
            word.set(u64::from_le_bytes(bytes));
        }
    }
    // Pairs with the host's reading: who finds it finds all of the text.
    if let Some(bytes) = word(offset_of!(LinkPage, complaint_bytes)) {
        bytes.publish(why.len() as u64);
    }
}

/// What the process has counted so far.
pub(crate) fn complaints(memory: &HostMemory) -> Result<Complaints, PlatformError> {
    let word = |offset: usize| {
        let HostWord { memory, addr } = HostPage(memory).word(offset);
        memory.read_u64(addr)
    };
    let bytes = usize::try_from(word(offset_of!(LinkPage, complaint_bytes))?).unwrap_or(0);
    let mut text = vec![0; bytes.min(COMPLAINT_BYTES)];
    memory.copy_from(memory.range().addr + offset_of!(LinkPage, complaint) as u64, &mut text)?;
    Ok(Complaints {
        threads_refused: word(offset_of!(LinkPage, threads_refused))?,
        calls_refused: word(offset_of!(LinkPage, calls_refused))?,
        first: (bytes > 0).then(|| String::from_utf8_lossy(&text).into_owned()),
    })
}

/// Whether the host has prepared this memory. Asked once, before the device program can overwrite it.
pub(crate) fn is_initialised(mapping: &Mapping) -> bool {
    mapping.word(offset_of!(LinkPage, magic)).map(SharedU64::see) == Some(LINK_MAGIC)
}

/// One end of a bell: rung at the one, heard with poll at the other. Rings that nobody has heard yet may count as one.
///
/// It is a pair of sockets for datagrams, and no event file: whether a call on an event file waits is a flag that both sides can change,
/// and the other side is not trusted. Here every call says for itself that it does not wait. Datagrams, because the other end cannot make
/// this one look as if something had come by closing its own.
#[derive(Debug)]
pub(crate) struct Bell {
    end: OwnedFd,
    /// The other end, where nobody there silences it: room for another ring is made here.
    other: Option<OwnedFd>,
}

/// Rings that are forgotten at a time; more are heard again.
const MOST_RINGS: usize = 64;

impl Bell {
    /// The end that rings and the end that hears.
    pub(crate) fn pair() -> Result<(Bell, Bell), PlatformError> {
        let made = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        made.map(|(rings, hears)| (rings.into(), hears.into())).map_err(os("creating a bell"))
    }

    /// The same for several who hear, none of whom may silence it for the others.
    pub(crate) fn pair_for_many() -> Result<(Bell, Bell), PlatformError> {
        let (rings, hears) = Bell::pair()?;
        let other = hears.end.try_clone().map_err(os("creating a bell"))?;
        Ok((Bell { other: Some(other), ..rings }, hears))
    }

    /// Never waits. When there is no room for another ring, it rings already; when nobody hears it, nobody needs it.
    pub(crate) fn ring(&self) {
        if let (Err(Errno::AGAIN | Errno::NOBUFS), Some(other)) = (self.send(), &self.other) {
            let _ = receive(other);
            let _ = self.send();
        }
    }

    fn send(&self) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.end, &[IoSlice::new(&[1])], &mut SendAncillaryBuffer::default(), flags)
    }

    /// Forgets the rings so far. Never waits.
    pub(crate) fn silence(&self) {
        for _ in 0..MOST_RINGS {
            if receive(&self.end).is_err() {
                return;
            }
        }
    }
}

/// Takes one ring, if there is one.
fn receive(end: &OwnedFd) -> Result<(), Errno> {
    let (mut ring, mut nothing) = ([0], RecvAncillaryBuffer::default());
    recvmsg(end, &mut [IoSliceMut::new(&mut ring)], &mut nothing, RecvFlags::DONTWAIT).map(|_| ())
}

impl From<OwnedFd> for Bell {
    fn from(fd: OwnedFd) -> Bell {
        Bell { end: fd, other: None }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::DeviceRange;
    use tensortap_sync::link::Wakes;

    use super::*;
    use crate::file;

    /// Both ends over one file: the host copies, or maps as well.
    fn with_both_ends(maps: bool, test: impl Fn(&HostEnd<HostPage<'_>>, &DeviceEnd<'_>)) {
        let range = DeviceRange { addr: 0x2000_0000_0000, bytes: 2 * LINK_PAGE_BYTES };
        let memory = HostMemory::new(range, file::create(range.bytes).unwrap(), maps).unwrap();
        let mapping = Mapping::anywhere(memory.file(), range.bytes).unwrap();
        assert!(!is_initialised(&mapping));
        initialise(&memory).unwrap();
        assert!(is_initialised(&mapping));
        test(&host_end(&memory), &device_end(&mapping).unwrap());
    }

    #[test]
    fn the_device_wakes_the_host_over_the_page() {
        for maps in [true, false] {
            with_both_ends(maps, |host, device| {
                assert!(!device.wake_host(), "nobody sleeps");
                assert!(host.fall_asleep().unwrap(), "the wake was kept");
                host.take_wake().unwrap();
                assert!(!host.fall_asleep().unwrap(), "the wake was taken");
                assert!(device.wake_host());
                assert!(!device.wake_host(), "one ring is under way");
                host.get_up().unwrap();
                host.take_wake().unwrap();
                assert!(!device.wake_host(), "the host is up");
            });
        }
    }

    #[test]
    fn a_bell_waits_for_nobody_whatever_the_other_side_does_to_it() {
        let (rings, hears) = Bell::pair().unwrap();
        // Flags of a file are those of everybody who has it.
        for end in [&rings, &hears] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::empty()).unwrap();
        }
        let is_heard = || {
            let mut files = [rustix::event::PollFd::new(&hears, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut files, Some(&rustix::event::Timespec::default())).unwrap() > 0
        };
        hears.silence();
        assert!(!is_heard());
        (0..10_000).for_each(|_| rings.ring());
        assert!(is_heard());
        (0..10_000).for_each(|_| hears.silence());
        assert!(!is_heard());
        drop(rings);
        hears.silence();
        assert!(!is_heard(), "an end that is gone does not ring");
    }

    #[test]
    fn the_host_wakes_the_device_over_the_page() {
        for maps in [true, false] {
            with_both_ends(maps, |host, device| {
                let mut wakes = Wakes::default();
                assert!(!host.wake_device(&mut wakes).unwrap(), "nobody sleeps");
                assert!(!host.wake_device(&mut wakes).unwrap());
                assert_eq!(device.wakes(), 2, "the wakes were kept");
            });
        }
    }
}
