//! A misbehaving process of the same user that calls the recorder.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg, send,
    sendmsg, socket_with,
};
use tensortap_platform::attach::{ATTACH_VERSION, Hello};

use crate::program;

/// A hello message of the recorder's own version.
fn hello(rank: u64) -> Vec<u8> {
    hello_as(rank, std::process::id(), 0)
}

/// As `hello`, of a process that claims a process id and the number of a program.
fn hello_as(rank: u64, pid: u32, program: u64) -> Vec<u8> {
    let mut packet = b"TTATTACH".to_vec();
    packet.extend(ATTACH_VERSION.to_le_bytes());
    packet.extend(1_u32.to_le_bytes());
    for number in [u64::from(tensortap::abi::DUMP_LAYOUT_VERSION), pid.into(), rank, program] {
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
    for bytes in [
        &b"GET / HTTP/1.1"[..],
        &[0xff; 512],
        &vec![0x41; 100_000],
        &other_version,
        &huge,
        &hello(2 << 32 | 7),
    ] {
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

/// The content that only its own process may see.
pub const SECRET: &[u8] = b"the content of one process, which no other process receives";

/// What a caller receives.
struct Welcome {
    /// 2 for a welcome, 3 for a refusal.
    kind: u32,
    /// How many libraries received the same memory before.
    earlier: u64,
    memory: Option<File>,
    _socket: OwnedFd,
}

fn welcome(hello: &[u8]) -> Welcome {
    let socket = call();
    say(&socket, hello);
    let mut packet = [0; 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut packet)];
    recvmsg(&socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let files = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let number = |at: usize| u64::from_le_bytes(packet[at..at + 8].try_into().unwrap());
    let kind = u32::from_le_bytes(packet[12..16].try_into().unwrap());
    Welcome { kind, earlier: number(32), memory: files.map(File::from), _socket: socket }
}

impl Welcome {
    fn has_secret(&self) -> bool {
        let mut content = Vec::new();
        let mut memory = self.memory.as_ref().unwrap();
        memory.read_to_end(&mut content).unwrap();
        content.windows(SECRET.len()).any(|part| part == SECRET)
    }
}

/// A recorded process with a secret. Its child claims to be this process, and this process calls too often.
/// Returns what went wrong.
pub fn impersonate(record_secret: impl FnOnce()) -> Vec<String> {
    record_secret();
    let (me, program) = (std::process::id(), Hello::of_this_process(None, None).program);
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    // SAFETY: the child only calls the recorder and ends without running any code of the harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mine = welcome(&hello_as(u64::MAX, me, program));
        let is_own = mine.kind == 2 && mine.earlier == 0 && !mine.has_secret();
        // SAFETY: it has no preconditions.
        unsafe { libc::_exit(if is_own { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the status goes to a local variable of this function.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    expect(status == 0, "the child received memory of its parent");

    // The same process, with the number of another program, as after exec.
    let other = welcome(&hello_as(u64::MAX, me, program ^ 1));
    expect(other.kind == 2 && other.earlier == 0 && !other.has_secret(), "another program received memory");
    // This process itself, as many times as it may.
    let mut own = Vec::new();
    while own.len() < 100 {
        let next = welcome(&hello_as(u64::MAX, 1, program ^ 1));
        if next.kind != 2 {
            break;
        }
        own.push(next);
    }
    expect(own.len() == 15, &format!("{} more libraries were welcome", own.len()));
    expect(own.iter().zip(1..).all(|(own, earlier)| own.earlier == earlier), "one memory for all");
    wrong
}
