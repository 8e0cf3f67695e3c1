//! The packets between host and device, over a Unix socket that preserves packet boundaries.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use tensortap_abi::{DeviceAddr, DeviceRange};

use crate::Confinement;

/// Version of these packets and of the link page.
pub(crate) const PROTOCOL_VERSION: u32 = 3;
/// Number of files that travel with [`Message::Hello`]: the memory, the wake socket to the host, the wake
/// socket to the device, and the data for the device program.
pub(crate) const HELLO_FILES: usize = 4;

const MAX_PACKET_BYTES: usize = 512;
const HEADER_BYTES: usize = 32;
/// Longer reasons are cut.
const MAX_REASON_BYTES: usize = MAX_PACKET_BYTES - HEADER_BYTES;

/// A packet. The header is little-endian: kind u32 @0, version u32 @4, three numbers u64 @8. Text follows
/// @32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// From the host: the device's memory. `version` is the protocol version and `layout` the version of the
    /// data layouts. `confined` asks the device to confine itself.
    Hello { version: u32, layout: u32, memory: DeviceRange, confined: bool },
    /// From the device: ready for a launch, with the restrictions that are in force.
    Ready(Confinement),
    /// From the device: it cannot become the device, with the reason.
    Refused(String),
    /// From the host: start a launch.
    Launch(DeviceAddr),
    /// From the device: the launch is over.
    Finished,
}

/// The result of receiving a packet.
#[derive(Debug)]
pub(crate) enum ReceivedPacket {
    Message(Message, Vec<OwnedFd>),
    /// The other side is gone.
    Closed,
    /// An invalid packet of this many bytes.
    Garbage(usize),
}

const HELLO: u32 = 1;
const READY: u32 = 2;
const REFUSED: u32 = 3;
const LAUNCH: u32 = 4;
const FINISHED: u32 = 5;

impl Message {
    fn encode(&self) -> Vec<u8> {
        match self {
            Message::Hello { version, layout, memory, confined } => {
                let layout = u64::from(*layout) | u64::from(*confined) << 32;
                packet(HELLO, *version, [memory.addr, memory.bytes, layout], "")
            }
            Message::Ready(given_up) => packet(READY, PROTOCOL_VERSION, [given_up.bits(), 0, 0], ""),
            Message::Refused(reason) => packet(REFUSED, PROTOCOL_VERSION, [0; 3], reason),
            Message::Launch(args) => packet(LAUNCH, PROTOCOL_VERSION, [*args, 0, 0], ""),
            Message::Finished => packet(FINISHED, PROTOCOL_VERSION, [0; 3], ""),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Message> {
        let (header, text) = bytes.split_at_checked(HEADER_BYTES)?;
        let word = |at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let half = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        match half(0)? {
            HELLO => Some(Message::Hello {
                version: half(4)?,
                layout: half(24)?,
                confined: half(28)? == 1,
                memory: DeviceRange { addr: word(8)?, bytes: word(16)? },
            }),
            READY => Some(Message::Ready(Confinement::from_bits(word(8)?))),
            REFUSED => Some(Message::Refused(String::from_utf8_lossy(text).into_owned())),
            LAUNCH => Some(Message::Launch(word(8)?)),
            FINISHED => Some(Message::Finished),
            _ => None,
        }
    }
}

fn packet(kind: u32, version: u32, numbers: [u64; 3], text: &str) -> Vec<u8> {
    let mut packet = Vec::with_capacity(MAX_PACKET_BYTES);
    packet.extend(kind.to_le_bytes());
    packet.extend(version.to_le_bytes());
    numbers.iter().for_each(|number| packet.extend(number.to_le_bytes()));
    packet.extend(&text.as_bytes()[..text.floor_char_boundary(MAX_REASON_BYTES)]);
    packet
}

/// A connected pair of sockets, closed on exec.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message with files.
pub(crate) fn send(socket: impl AsFd, message: &Message, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    send_packet(socket, &message.encode(), files)
}

/// Sends one packet with files. A missing peer is an error and never raises SIGPIPE.
pub(crate) fn send_packet(socket: impl AsFd, packet: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HELLO_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::INVAL);
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives one packet. Blocks if the socket does.
pub(crate) fn receive(socket: impl AsFd) -> Result<ReceivedPacket, Errno> {
    let mut packet = [0; MAX_PACKET_BYTES];
    let (count, files) = receive_packet(socket, &mut packet)?;
    Ok(match (count, Message::decode(&packet[..count.min(MAX_PACKET_BYTES)])) {
        (0, _) => ReceivedPacket::Closed,
        (_, Some(message)) => ReceivedPacket::Message(message, files),
        (count, None) => ReceivedPacket::Garbage(count),
    })
}

/// Receives one packet and its files. Blocks if the socket does. Zero bytes mean that the other side is gone.
pub(crate) fn receive_packet(socket: impl AsFd, packet: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HELLO_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let mut parts = [IoSliceMut::new(packet)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            // A peer that closed with unread data causes one reset. The data that it sent before is still
            // readable.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(error) => return Err(error),
        }
    };
    Ok((count, take_files(&mut control)))
}

fn take_files(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file;

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<(u32, u32, u64, u64, bool)>().prop_map(|(version, layout, addr, bytes, confined)| {
                Message::Hello { version, layout, memory: DeviceRange { addr, bytes }, confined }
            }),
            (0..8_u64).prop_map(|bits| Message::Ready(Confinement::from_bits(bits))),
            "[a-zä ]{0,60}".prop_map(Message::Refused),
            any::<u64>().prop_map(Message::Launch),
            Just(Message::Finished),
        ]
    }

    proptest! {
        #[test]
        fn messages_arrive_as_sent_and_in_order(messages in prop::collection::vec(message(), 1..8)) {
            let (here, there) = pair().unwrap();
            for message in &messages {
                send(&here, message, &[]).unwrap();
            }
            drop(here);
            for message in &messages {
                match receive(&there).unwrap() {
                    ReceivedPacket::Message(received, files) => {
                        prop_assert_eq!(&received, message);
                        prop_assert!(files.is_empty());
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert!(matches!(receive(&there).unwrap(), ReceivedPacket::Closed));
        }

        #[test]
        fn any_packet_decodes_or_is_garbage(bytes in prop::collection::vec(any::<u8>(), 0..MAX_PACKET_BYTES)) {
            let known = bytes.len() >= HEADER_BYTES && matches!(bytes[..4], [1..=5, 0, 0, 0]);
            if Message::decode(&bytes).is_some() {
                prop_assert!(known);
            }
        }
    }

    #[test]
    fn files_travel_with_a_message_and_close_on_exec() {
        let (here, there) = pair().unwrap();
        let file = file::create(8192).unwrap();
        send(&here, &Message::Ready(Confinement::NONE), &[file.as_fd()]).unwrap();
        let ReceivedPacket::Message(Message::Ready(_), files) = receive(&there).unwrap() else {
            panic!("no message");
        };
        assert_eq!(files.len(), 1);
        assert_eq!(rustix::fs::fstat(&files[0]).unwrap().st_ino, rustix::fs::fstat(&file).unwrap().st_ino);
        let flags = rustix::io::fcntl_getfd(&files[0]).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let (here, there) = pair().unwrap();
        send(&here, &Message::Refused("ä".repeat(1000)), &[]).unwrap();
        let ReceivedPacket::Message(Message::Refused(reason), _) = receive(&there).unwrap() else {
            panic!("no message");
        };
        assert_eq!(reason, "ä".repeat(MAX_REASON_BYTES / 2));
    }

    #[test]
    fn sending_to_a_closed_end_is_an_error() {
        let (here, there) = pair().unwrap();
        drop(there);
        assert_eq!(send(&here, &Message::Finished, &[]), Err(Errno::PIPE));
    }
}
