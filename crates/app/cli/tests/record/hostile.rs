//! A misbehaving process of the same user that calls the recorder.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, send, sendmsg, socket_with,
};

use crate::program;

/// A hello message of the recorder's own version.
fn hello(rank: u64) -> Vec<u8> {
    let mut packet = b"TTATTACH".to_vec();
    packet.extend(1_u32.to_le_bytes());
    packet.extend(1_u32.to_le_bytes());
    for number in [u64::from(tensortap::abi::DUMP_LAYOUT_VERSION), std::process::id().into(), rank, 0] {
        packet.extend(number.to_le_bytes());
    }
    packet.extend(b"hostile\x1b[2J/../../x");
    packet
}

fn call() -> OwnedFd {
    let path = std::env::var_os("TENSORTAP_SOCKET").unwrap();
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(std::path::Path::new(&path)).unwrap()).unwrap();
    socket
}

fn say(socket: &OwnedFd, bytes: &[u8]) {
    // A rejected process cannot send anymore.
    let _ = send(socket, bytes, SendFlags::NOSIGNAL);
}

/// Waits until the recorder has answered or hung up.
fn answer(socket: &OwnedFd) {
    let _ = recv(socket, &mut [0; 512], RecvFlags::empty());
}

/// Attacks one after another. At the end, while some are still active, a well-behaved process.
pub fn attack() {
    let mut other_version = hello(u64::MAX);
    other_version[8] = 99;
    let mut huge = hello(u64::MAX);
    huge[16..24].fill(0xff);
    for bytes in
        [&b"GET / HTTP/1.1"[..], &[0xff; 512], &vec![0x41; 100_000], &other_version, &huge, &hello(1 << 40)]
    {
        let socket = call();
        say(&socket, bytes);
        answer(&socket);
    }
    send_files();
    // An accepted process that then sends invalid messages.
    let welcome = call();
    say(&welcome, &hello(u64::MAX));
    answer(&welcome);
    (0..100).for_each(|_| say(&welcome, b"nonsense"));
    // Silent callers, more than the recorder handles at a time, for as long as this process lives.
    let silent: Vec<OwnedFd> = (0..100).map(|_| call()).collect();

    let [program, args @ ..] = program::words();
    let role = ("TENSORTAP_TEST_PROGRAM", "tasks 2 50");
    let good = Command::new(program).args(args).envs([role]).env("RANK", "7").status().unwrap();
    drop((silent, welcome));
    assert!(good.success());
}

/// Sends hello and disconnects before the answer, `times` times.
pub fn hang_up(times: usize) {
    for _ in 0..times {
        say(&call(), &hello(u64::MAX));
        // More than a few unanswered calls of one process are rejected.
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
}

/// Sends unexpected files.
fn send_files() {
    let socket = call();
    let file = std::fs::File::open("/dev/zero").unwrap();
    let files = [file.as_fd(), file.as_fd(), file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let _ = sendmsg(&socket, &[IoSlice::new(b"take these")], &mut control, SendFlags::NOSIGNAL);
    answer(&socket);
}
