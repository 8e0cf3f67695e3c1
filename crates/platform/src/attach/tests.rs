use std::{
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::PathBuf,
    thread,
    time::Duration,
};

use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};

use super::*;
use crate::{LINK_PAGE_BYTES, PlatformError};

const LONG: Duration = Duration::from_secs(60);
const BYTES: u64 = 4 * LINK_PAGE_BYTES;

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    Place { _dir: dir, path }
}

/// A host and a process that is attached to it.
fn pair(place: &Place) -> (AttachedProcess, Attachment) {
    let listener = AttachListener::bind(&place.path).unwrap();
    let path = place.path.clone();
    let process = thread::spawn(move || Attachment::new(&path, &Hello::of_this_process(Some(3))).unwrap());
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let hello = caller.hello(LONG).unwrap();
    assert_eq!((hello.pid, hello.rank), (std::process::id(), Some(3)));
    let attached = caller.welcome(BYTES, 7, |memory| memory.copy_to(LINK_PAGE_BYTES, b"set up")).unwrap();
    (attached, process.join().unwrap())
}

fn stranger(place: &Place) -> rustix::fd::OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(&place.path).unwrap()).unwrap();
    socket
}

#[test]
fn what_either_side_writes_the_other_reads() {
    let place = place();
    let (attached, attachment) = pair(&place);
    let mut bytes = [0; 6];
    attachment.memory().read_into(LINK_PAGE_BYTES, &mut bytes).unwrap();
    assert_eq!(&bytes, b"set up");
    assert_eq!((attachment.memory().len(), attachment.run_id()), (BYTES, 7));
    attachment.memory().write_from(BYTES - 6, b"at end").unwrap();
    attached.access().copy_from(BYTES - 6, &mut bytes).unwrap();
    assert_eq!(&bytes, b"at end");
}

#[test]
fn a_process_is_its_own_host_without_a_socket_in_the_file_system() {
    let prepare = |memory: &dyn crate::DeviceAccess| memory.copy_to(LINK_PAGE_BYTES, b"set up");
    let (attached, attachment) = within_this_process(BYTES, 9, prepare).unwrap();
    let mut bytes = [0; 6];
    attachment.memory().read_into(LINK_PAGE_BYTES, &mut bytes).unwrap();
    assert_eq!((&bytes, attachment.run_id(), attached.pid()), (b"set up", 9, std::process::id()));
    attachment.wake_host();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Woken);
    attachment.goodbye();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Goodbye);
    drop(attached);
    let ear = attachment.ear().unwrap();
    assert_eq!(attachment.wait(&ear, attachment.wakes(), LONG), HostNews::Gone);
}

#[test]
fn a_wake_reaches_the_host_and_every_thread_that_waits() {
    let place = place();
    let (attached, attachment) = pair(&place);
    assert_eq!(attached.wait(Duration::ZERO).unwrap(), ProcessNews::Nothing);
    attachment.wake_host();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Woken);
    assert_eq!(attached.wait(Duration::ZERO).unwrap(), ProcessNews::Nothing);

    for round in 0..50 {
        let seen = attachment.wakes();
        let ears: Vec<_> = (0..4).map(|_| attachment.ear().unwrap()).collect();
        thread::scope(|scope| {
            let sleepers: Vec<_> = ears
                .iter()
                .map(|ear| {
                    scope.spawn(|| {
                        while attachment.wakes() == seen {
                            assert_ne!(
                                attachment.wait(ear, seen, LONG),
                                HostNews::Nothing,
                                "a wake was lost"
                            );
                        }
                    })
                })
                .collect();
            if round == 0 {
                // This time they sleep for certain.
                thread::sleep(Duration::from_millis(50));
            }
            attached.access().wake();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
    assert_eq!(attachment.wait(&attachment.ear().unwrap(), 0, LONG), HostNews::Woken, "it was woken before");
}

#[test]
fn the_end_of_either_side_is_seen_by_the_other() {
    let place = place();
    let (attached, attachment) = pair(&place);
    let ear = attachment.ear().unwrap();
    // The bell of an ear may ring once for what was before.
    let _ = attachment.wait(&ear, attachment.wakes(), Duration::ZERO);
    drop(attached);
    assert_eq!(attachment.wait(&ear, attachment.wakes(), LONG), HostNews::Gone);
    attachment.goodbye();

    let second = self::place();
    let (attached, attachment) = pair(&second);
    attachment.goodbye();
    drop(attachment);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Goodbye);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Ended);
}

#[test]
fn the_socket_is_the_users_alone_and_goes_away() {
    let place = place();
    let listener = AttachListener::bind(&place.path).unwrap();
    let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(AttachListener::bind(&place.path), Err(PlatformError::Socket { .. })));
    drop(listener);
    assert!(!place.path.exists());
    let refused = Attachment::new(&place.path, &Hello::of_this_process(None));
    assert!(matches!(refused, Err(PlatformError::Socket { .. })));
}

#[test]
fn a_caller_who_says_nothing_or_nonsense_is_named() {
    let place = place();
    let listener = AttachListener::bind(&place.path).unwrap();
    let say = |bytes: &[u8]| {
        let socket = stranger(&place);
        if !bytes.is_empty() {
            send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        }
        let mut caller = listener.accept(LONG).unwrap().unwrap();
        let heard = caller.hello(Duration::from_millis(20)).unwrap_err().to_string();
        drop(socket);
        heard
    };
    let me = std::process::id();
    assert_eq!(say(b""), format!("process {me} said nothing for 20ms"));
    assert_eq!(say(b"GET / HTTP/1.1"), format!("process {me} began with 14 bytes that make no sense"));
    assert_eq!(say(&[0xff; 512]), format!("process {me} began with 512 bytes that make no sense"));
    let socket = stranger(&place);
    drop(socket);
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let heard = caller.hello(LONG).unwrap_err().to_string();
    assert_eq!(heard, format!("process {me} hung up before it said who it is"));
}

#[test]
fn a_process_of_another_version_is_told_so_and_so_is_the_host() {
    let place = place();
    let listener = AttachListener::bind(&place.path).unwrap();
    let socket = stranger(&place);
    let mut hello = [0; 48];
    hello[..8].copy_from_slice(b"TTATTACH");
    hello[8..16].copy_from_slice(&[99, 0, 0, 0, 1, 0, 0, 0]);
    send(&socket, &hello, SendFlags::NOSIGNAL).unwrap();
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let said = caller.hello(LONG).unwrap_err().to_string();
    assert!(said.contains("speaks version 99"), "{said}");
    match wire::receive(&socket).unwrap() {
        wire::Received::Message(wire::Message::Refused(why), _) => assert_eq!(why, said),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_that_hands_over_what_is_no_sealed_memory_is_not_believed() {
    let open = rustix::fs::memfd_create(c"open", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&open, BYTES).unwrap();
    let small = crate::file::create(BYTES / 2).unwrap();
    let blank = crate::file::create(BYTES).unwrap();
    let (bell, _) = crate::link_page::Bell::pair().unwrap();
    let offers: [(&[rustix::fd::BorrowedFd<'_>], &str); 4] = [
        (&[open.as_fd(), bell.as_fd(), bell.as_fd()], "a file that is not the memory it should be"),
        (&[small.as_fd(), bell.as_fd(), bell.as_fd()], "a file that is not the memory it should be"),
        (&[blank.as_fd(), bell.as_fd(), bell.as_fd()], "memory that it has not prepared"),
        (&[blank.as_fd()], "the wrong number of files"),
    ];
    for (files, why) in offers {
        let place = place();
        let listener = AttachListener::bind(&place.path).unwrap();
        let path = place.path.clone();
        let process = thread::spawn(move || Attachment::new(&path, &Hello::of_this_process(None)));
        let mut caller = listener.accept(LONG).unwrap().unwrap();
        caller.hello(LONG).unwrap();
        let welcome = wire::Message::Welcome { bytes: BYTES, run_id: 1, kernels: String::new() };
        wire::send(caller.socket(), &welcome, files).unwrap();
        let said = process.join().unwrap().unwrap_err().to_string();
        assert_eq!(said, format!("the recorder handed over {why}"));
    }
}

#[test]
fn a_closed_listener_gives_those_who_called_before_and_wakes_who_waits() {
    let place = place();
    let listener = AttachListener::bind(&place.path).unwrap();
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.accept(LONG).unwrap().is_none());
        // Whether it waits already or not, it ends.
        listener.close();
        waiting.join().unwrap()
    });
    assert!(waiting, "nobody called");

    let second = self::place();
    let listener = AttachListener::bind(&second.path).unwrap();
    let _early = stranger(&second);
    listener.close();
    let late = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    assert!(connect(&late, &SocketAddrUnix::new(&second.path).unwrap()).is_err(), "it is closed");
    assert!(listener.accept(LONG).unwrap().is_some(), "this one called before");
    assert!(listener.accept(LONG).unwrap().is_none());
}

#[test]
fn a_process_that_hangs_up_is_told_from_one_that_has_ended() {
    let place = place();
    let (attached, attachment) = pair(&place);
    drop(attachment);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessNews::Ended);
    assert!(!attached.ends_within(Duration::ZERO), "it is this process");
}
