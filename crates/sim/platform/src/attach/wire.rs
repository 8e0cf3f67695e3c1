//! The packets between an attached process and its host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::{
    environment::program_number,
    wire::{receive_packet, send_packet},
};

/// Version of these packets and of the link page.
pub const ATTACH_VERSION: u32 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"TTATTACH");
const MAX_PACKET_BYTES: usize = 512;
const HEADER_BYTES: usize = 48;
pub(super) const MAX_TEXT_BYTES: usize = MAX_PACKET_BYTES - HEADER_BYTES;
const NO_RANK: u64 = u64::MAX;

/// The greeting of a process that attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The process id, as the process sees it.
    pub pid: u32,
    /// The rank of the process in its program, if it has one.
    pub rank: Option<u32>,
    /// Number of ranks of its program, if its environment names it. The rank is below it.
    pub ranks: Option<u32>,
    /// The name of the process.
    pub name: String,
    /// A random number of the program that the process runs. All libraries in the process send the same one.
    /// It changes when the process executes another program.
    pub program: u64,
}

impl Hello {
    /// The greeting of this process. A number of ranks is kept only if the rank is below it.
    pub fn of_this_process(rank: Option<u32>, ranks: Option<u32>) -> Hello {
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let program = program_number();
        let ranks = ranks.filter(|&ranks| rank.is_some_and(|rank| rank < ranks));
        Hello { pid: std::process::id(), rank, ranks, name: name.trim_end().to_owned(), program }
    }
}

/// A packet. The header is little-endian: magic u64 @0, version u32 @8, kind u32 @12, numbers u64 @16, @24,
/// @32, @40. Text follows @48.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// From the process: its greeting, with the version of the record layouts that it writes.
    Hello { layout: u32, hello: Hello },
    /// From the host: the shared memory of `bytes`, the id of the run, and how many libraries of the process
    /// have received this memory before. Three files travel with it: the memory, the wake socket to the host,
    /// and the wake socket to the process.
    Welcome { bytes: u64, run_id: u64, earlier: u64, kernels: String },
    /// From the host: a refusal with its reason.
    Refused(String),
    /// From the process: it records nothing more.
    Goodbye,
}

/// The result of receiving a packet.
#[derive(Debug)]
pub(super) enum ReceivedPacket {
    Message(Message, Vec<OwnedFd>),
    /// The other side uses another version.
    OtherVersion(u32),
    /// The other side is gone.
    Closed,
    /// An invalid packet of this many bytes.
    Garbage(usize),
}

const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const GOODBYE: u32 = 4;

impl Message {
    fn encode(&self) -> Vec<u8> {
        match self {
            Message::Hello { layout, hello: Hello { pid, rank, ranks, name, program } } => {
                let ranks = u64::from(ranks.unwrap_or(0)) << 32;
                let rank = rank.map_or(NO_RANK, |rank| u64::from(rank) | ranks);
                packet(HELLO, [(*layout).into(), (*pid).into(), rank, *program], name)
            }
            Message::Welcome { bytes, run_id, earlier, kernels } => {
                packet(WELCOME, [*bytes, *run_id, *earlier, 0], kernels)
            }
            Message::Refused(why) => packet(REFUSED, [0; 4], why),
            Message::Goodbye => packet(GOODBYE, [0; 4], ""),
        }
    }

    fn decode(kind: u32, numbers: [u64; 4], text: &[u8]) -> Option<Message> {
        let text = || String::from_utf8_lossy(text).into_owned();
        let small = |number: u64| u32::try_from(number).ok();
        match (kind, numbers) {
            (HELLO, [layout, pid, rank, program]) => {
                // The number of ranks is in the upper half; 0 if it is not known.
                let (rank, ranks) = match rank {
                    NO_RANK => (None, None),
                    both => (Some(small(both & u64::from(u32::MAX))?), Some(small(both >> 32)?)),
                };
                let ranks = ranks.filter(|&ranks| ranks > 0);
                if rank.zip(ranks).is_some_and(|(rank, ranks)| rank >= ranks) {
                    return None;
                }
                let hello = Hello { pid: small(pid)?, rank, ranks, name: text(), program };
                Some(Message::Hello { layout: small(layout)?, hello })
            }
            (WELCOME, [bytes, run_id, earlier, 0]) => {
                Some(Message::Welcome { bytes, run_id, earlier, kernels: text() })
            }
            (REFUSED, [0, 0, 0, 0]) => Some(Message::Refused(text())),
            (GOODBYE, [0, 0, 0, 0]) => Some(Message::Goodbye),
            _ => None,
        }
    }
}

fn packet(kind: u32, numbers: [u64; 4], text: &str) -> Vec<u8> {
    let mut packet = Vec::with_capacity(MAX_PACKET_BYTES);
    packet.extend(MAGIC.to_le_bytes());
    packet.extend(ATTACH_VERSION.to_le_bytes());
    packet.extend(kind.to_le_bytes());
    numbers.iter().for_each(|number| packet.extend(number.to_le_bytes()));
    packet.extend(&text.as_bytes()[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
    packet
}

pub(super) fn send(socket: impl AsFd, message: &Message, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    send_packet(socket, &message.encode(), files)
}

/// Receives one packet. Blocks if the socket does.
pub(super) fn receive(socket: impl AsFd) -> Result<ReceivedPacket, Errno> {
    let mut packet = [0; MAX_PACKET_BYTES];
    let (count, files) = receive_packet(socket, &mut packet)?;
    Ok(if count == 0 {
        ReceivedPacket::Closed
    } else {
        decode_packet(&packet[..count.min(MAX_PACKET_BYTES)], files)
    })
}

fn decode_packet(packet: &[u8], files: Vec<OwnedFd>) -> ReceivedPacket {
    let garbage = ReceivedPacket::Garbage(packet.len());
    let Some((header, text)) = packet.split_first_chunk::<HEADER_BYTES>() else { return garbage };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
    match (word(0), half(8)) {
        (MAGIC, ATTACH_VERSION) => {
            let numbers = std::array::from_fn(|number| word(16 + 8 * number));
            Message::decode(half(12), numbers, text)
                .map_or(garbage, |message| ReceivedPacket::Message(message, files))
        }
        (MAGIC, version) => ReceivedPacket::OtherVersion(version),
        _ => garbage,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::pair;

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            (any::<(u32, u32, u64)>(), any::<Option<u32>>(), any::<Option<u32>>(), "[a-zä ]{0,60}").prop_map(
                |((layout, pid, program), rank, ranks, name)| {
                    let ranks = ranks.filter(|&ranks| rank.is_some_and(|rank| rank < ranks));
                    Message::Hello { layout, hello: Hello { pid, rank, ranks, name, program } }
                }
            ),
            (any::<(u64, u64, u64)>(), "[a-z*\n]{0,60}").prop_map(|((bytes, run_id, earlier), kernels)| {
                Message::Welcome { bytes, run_id, earlier, kernels }
            }),
            "[a-zä ]{0,60}".prop_map(Message::Refused),
            Just(Message::Goodbye),
        ]
    }

    proptest! {
        #[test]
        fn a_message_arrives_as_it_was_sent(message in message()) {
            let (here, there) = pair().unwrap();
            send(&here, &message, &[]).unwrap();
            match receive(&there).unwrap() {
                ReceivedPacket::Message(received, _) => prop_assert_eq!(received, message),
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn any_packet_decodes_or_is_garbage(mut packet in prop::collection::vec(any::<u8>(), 1..MAX_PACKET_BYTES), good in 0..3_usize) {
            let start: Vec<u8> = [&MAGIC.to_le_bytes()[..], &ATTACH_VERSION.to_le_bytes(), &[3, 0, 0, 0]].concat();
            let known = [0, 8, 16][good].min(packet.len());
            packet[..known].copy_from_slice(&start[..known]);
            let received = decode_packet(&packet, Vec::new());
            prop_assert!(good > 0 || matches!(received, ReceivedPacket::Garbage(_)));
        }
    }

    #[test]
    fn another_version_is_distinguished_from_garbage() {
        let mut packet = Message::Goodbye.encode();
        packet[8] = 9;
        assert!(matches!(decode_packet(&packet, Vec::new()), ReceivedPacket::OtherVersion(9)));
        packet[0] ^= 1;
        assert!(matches!(decode_packet(&packet, Vec::new()), ReceivedPacket::Garbage(48)));
    }
}
