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
use crate::{HostEvent, LINK_PAGE_BYTES, PlatformError};

const LONG: Duration = Duration::from_secs(60);
const BYTES: u64 = 4 * LINK_PAGE_BYTES;

struct TestFolder {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn test_folder() -> TestFolder {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    TestFolder { _dir: dir, path }
}

/// A host, and a process that is attached to it.
fn pair(folder: &TestFolder) -> (AttachedProcess, Attachment) {
    let listener = AttachListener::bind(&folder.path).unwrap();
    let path = folder.path.clone();
    let process =
        thread::spawn(move || Attachment::new(&path, &Hello::of_this_process(Some(3), Some(5))).unwrap());
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let hello = caller.hello(LONG).unwrap();
    assert_eq!((hello.pid, hello.rank, hello.ranks), (std::process::id(), Some(3), Some(5)));
    let attached = caller.welcome(BYTES, 7, |memory| memory.copy_to(LINK_PAGE_BYTES, b"set up")).unwrap();
    (attached, process.join().unwrap())
}

fn stranger(folder: &TestFolder) -> rustix::fd::OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(&folder.path).unwrap()).unwrap();
    socket
}

#[test]
fn host_and_process_read_each_others_writes() {
    let folder = test_folder();
    let (attached, attachment) = pair(&folder);
    let mut bytes = [0; 6];
    attachment.memory().read_into(LINK_PAGE_BYTES, &mut bytes).unwrap();
    assert_eq!(&bytes, b"set up");
    assert_eq!((attachment.memory().len(), attachment.run_id()), (BYTES, 7));
    attachment.memory().write_from(BYTES - 6, b"at end").unwrap();
    attached.access().copy_from(BYTES - 6, &mut bytes).unwrap();
    assert_eq!(&bytes, b"at end");
}

#[test]
fn a_process_can_attach_to_itself_without_a_socket_file() {
    let prepare = |memory: &dyn crate::DeviceAccess| memory.copy_to(LINK_PAGE_BYTES, b"set up");
    let (attached, attachment) = within_this_process(BYTES, 9, prepare).unwrap();
    let mut bytes = [0; 6];
    attachment.memory().read_into(LINK_PAGE_BYTES, &mut bytes).unwrap();
    assert_eq!((&bytes, attachment.run_id(), attached.pid()), (b"set up", 9, std::process::id()));
    attachment.wake_host();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Woken);
    attachment.goodbye();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Goodbye);
    drop(attached);
    let listener = attachment.host_listener().unwrap();
    assert_eq!(attachment.wait(&listener, attachment.wakes(), LONG), HostEvent::Gone);
}

#[test]
fn a_wake_reaches_the_host_and_every_thread_that_waits() {
    let folder = test_folder();
    let (attached, attachment) = pair(&folder);
    assert_eq!(attached.wait(Duration::ZERO).unwrap(), ProcessEvent::TimedOut);
    attachment.wake_host();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Woken);
    assert_eq!(attached.wait(Duration::ZERO).unwrap(), ProcessEvent::TimedOut);

    for round in 0..50 {
        let seen = attachment.wakes();
        let listeners: Vec<_> = (0..4).map(|_| attachment.host_listener().unwrap()).collect();
        thread::scope(|scope| {
            let sleepers: Vec<_> = listeners
                .iter()
                .map(|listener| {
                    scope.spawn(|| {
                        while attachment.wakes() == seen {
                            assert_ne!(
                                attachment.wait(listener, seen, LONG),
                                HostEvent::TimedOut,
                                "a wake was lost"
                            );
                        }
                    })
                })
                .collect();
            if round == 0 {
                // In the first round all threads certainly sleep.
                thread::sleep(Duration::from_millis(50));
            }
            attached.access().wake();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
    assert_eq!(
        attachment.wait(&attachment.host_listener().unwrap(), 0, LONG),
        HostEvent::Woken,
        "the wake came before the wait"
    );
}

#[test]
fn each_side_notices_that_the_other_is_gone() {
    let folder = test_folder();
    let (attached, attachment) = pair(&folder);
    let listener = attachment.host_listener().unwrap();
    // A new listener may see one wake from before it was created.
    let _ = attachment.wait(&listener, attachment.wakes(), Duration::ZERO);
    drop(attached);
    assert_eq!(attachment.wait(&listener, attachment.wakes(), LONG), HostEvent::Gone);
    attachment.goodbye();

    let second = self::test_folder();
    let (attached, attachment) = pair(&second);
    attachment.goodbye();
    drop(attachment);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Goodbye);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Goodbye, "that is how it left");
}

#[test]
fn only_the_user_may_use_the_socket_and_drop_removes_it() {
    let folder = test_folder();
    let listener = AttachListener::bind(&folder.path).unwrap();
    let mode = std::fs::metadata(&folder.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(AttachListener::bind(&folder.path), Err(PlatformError::Socket { .. })));
    drop(listener);
    assert!(!folder.path.exists());
    let refused = Attachment::new(&folder.path, &Hello::of_this_process(None, None));
    assert!(matches!(refused, Err(PlatformError::Socket { .. })));
}

#[test]
fn a_caller_without_a_valid_greeting_is_reported_with_its_pid() {
    let folder = test_folder();
    let listener = AttachListener::bind(&folder.path).unwrap();
    let say = |bytes: &[u8]| {
        let socket = stranger(&folder);
        if !bytes.is_empty() {
            send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        }
        let mut caller = listener.accept(LONG).unwrap().unwrap();
        let heard = caller.hello(Duration::from_millis(20)).unwrap_err().to_string();
        drop(socket);
        heard
    };
    let me = std::process::id();
    assert_eq!(say(b""), format!("process {me} sent no greeting within 20ms"));
    assert_eq!(say(b"GET / HTTP/1.1"), format!("process {me} sent 14 bytes that are no greeting"));
    assert_eq!(say(&[0xff; 512]), format!("process {me} sent 512 bytes that are no greeting"));
    let socket = stranger(&folder);
    drop(socket);
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let heard = caller.hello(LONG).unwrap_err().to_string();
    assert_eq!(heard, format!("process {me} disconnected before its greeting"));
}

#[test]
fn another_protocol_version_is_reported_to_both_sides() {
    let folder = test_folder();
    let listener = AttachListener::bind(&folder.path).unwrap();
    let socket = stranger(&folder);
    let mut hello = [0; 48];
    hello[..8].copy_from_slice(b"TTATTACH");
    hello[8..16].copy_from_slice(&[99, 0, 0, 0, 1, 0, 0, 0]);
    send(&socket, &hello, SendFlags::NOSIGNAL).unwrap();
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let said = caller.hello(LONG).unwrap_err().to_string();
    assert!(said.contains("protocol version 99"), "{said}");
    match wire::receive(&socket).unwrap() {
        wire::ReceivedPacket::Message(wire::Message::Refused(why), _) => assert_eq!(why, said),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_that_is_not_sealed_or_not_initialized_is_refused() {
    let open = rustix::fs::memfd_create(c"open", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&open, BYTES).unwrap();
    let small = crate::file::create(BYTES / 2).unwrap();
    let blank = crate::file::create(BYTES).unwrap();
    let (wake, _) = crate::link_page::WakeSocket::pair().unwrap();
    let offers: [(&[rustix::fd::BorrowedFd<'_>], &str); 4] = [
        (
            &[open.as_fd(), wake.as_fd(), wake.as_fd()],
            "a file that is no sealed memory of the announced size",
        ),
        (
            &[small.as_fd(), wake.as_fd(), wake.as_fd()],
            "a file that is no sealed memory of the announced size",
        ),
        (&[blank.as_fd(), wake.as_fd(), wake.as_fd()], "memory that is not initialized"),
        (&[blank.as_fd()], "the wrong number of files"),
    ];
    for (files, why) in offers {
        let folder = test_folder();
        let listener = AttachListener::bind(&folder.path).unwrap();
        let path = folder.path.clone();
        let process = thread::spawn(move || Attachment::new(&path, &Hello::of_this_process(None, None)));
        let mut caller = listener.accept(LONG).unwrap().unwrap();
        caller.hello(LONG).unwrap();
        let welcome = wire::Message::Welcome { bytes: BYTES, run_id: 1, earlier: 0, kernels: String::new() };
        wire::send(caller.socket(), &welcome, files).unwrap();
        let said = process.join().unwrap().unwrap_err().to_string();
        assert_eq!(said, format!("the recorder sent {why}"));
    }
}

#[test]
fn close_keeps_earlier_callers_and_wakes_the_accepting_thread() {
    let folder = test_folder();
    let listener = AttachListener::bind(&folder.path).unwrap();
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.accept(LONG).unwrap().is_none());
        // The thread must end whether it waits already or not.
        listener.close();
        waiting.join().unwrap()
    });
    assert!(waiting, "no process called");

    let second = self::test_folder();
    let listener = AttachListener::bind(&second.path).unwrap();
    let _early = stranger(&second);
    listener.close();
    let late = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    assert!(connect(&late, &SocketAddrUnix::new(&second.path).unwrap()).is_err(), "the listener is closed");
    assert!(listener.accept(LONG).unwrap().is_some(), "this process called before the close");
    assert!(listener.accept(LONG).unwrap().is_none());
}

#[test]
fn disconnecting_is_distinguished_from_ending() {
    let folder = test_folder();
    let (attached, attachment) = pair(&folder);
    drop(attachment);
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Ended);
    assert!(!attached.ends_within(Duration::ZERO), "the process is this one and still runs");
}

/// A listener, and a first library of this process that is attached to it.
fn first_library(folder: &TestFolder) -> (AttachListener, AttachedProcess, Attachment) {
    let listener = AttachListener::bind(&folder.path).unwrap();
    let (caller, library) = call(&listener, folder, |hello| hello);
    let attached = caller.welcome(BYTES, 7, |memory| memory.copy_to(LINK_PAGE_BYTES, b"set up")).unwrap();
    (listener, attached, library.join().unwrap().unwrap())
}

/// A library that calls, and the call as the host sees it.
fn call(
    listener: &AttachListener,
    folder: &TestFolder,
    change: impl FnOnce(Hello) -> Hello,
) -> (Caller, thread::JoinHandle<Result<Attachment, PlatformError>>) {
    let (path, hello) = (folder.path.clone(), change(Hello::of_this_process(None, None)));
    let library = thread::spawn(move || Attachment::new(&path, &hello));
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    caller.hello(LONG).unwrap();
    (caller, library)
}

#[test]
fn libraries_of_a_process_share_its_memory_until_the_last_one_leaves() {
    let folder = test_folder();
    let (listener, attached, first) = first_library(&folder);
    let (caller, library) = call(&listener, &folder, |hello| hello);
    attached.join(caller).unwrap();
    let second = library.join().unwrap().unwrap();
    assert_eq!((first.earlier(), second.earlier(), second.run_id(), second.memory().len()), (0, 1, 7, BYTES));
    first.memory().write_from(BYTES - 5, b"first").unwrap();
    let mut bytes = [0; 5];
    second.memory().read_into(BYTES - 5, &mut bytes).unwrap();
    assert_eq!(&bytes, b"first");

    // Both are woken, and both wake.
    let quiet = || while attached.wait(Duration::ZERO).unwrap() == ProcessEvent::Woken {};
    for library in [&first, &second] {
        quiet();
        library.wake_host();
        assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Woken);
        let (listener, seen) = (library.host_listener().unwrap(), library.wakes());
        attached.access().wake();
        assert_eq!(library.wait(&listener, seen, LONG), HostEvent::Woken);
    }
    quiet();
    first.goodbye();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::TimedOut, "the second one is still there");
    second.goodbye();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Goodbye);
}

#[test]
fn a_new_connection_is_heard_while_the_host_waits() {
    let folder = test_folder();
    let (listener, attached, first) = first_library(&folder);
    let began = std::time::Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            while attached.wait(LONG).unwrap() == ProcessEvent::Woken {}
            attached.wait(LONG).unwrap()
        });
        let (caller, library) = call(&listener, &folder, |hello| hello);
        attached.join(caller).unwrap();
        let second = library.join().unwrap().unwrap();
        first.goodbye();
        second.goodbye();
        assert_eq!(waiting.join().unwrap(), ProcessEvent::Goodbye);
    });
    assert!(began.elapsed() < LONG / 2, "it waited for the first connection only");
}

#[test]
fn after_the_last_goodbye_another_program_or_a_closed_recording_none_may_join() {
    let folder = test_folder();
    let (listener, attached, first) = first_library(&folder);
    let refused = |change: fn(Hello) -> Hello| {
        let (caller, library) = call(&listener, &folder, change);
        let refused = attached.join(caller);
        let is_other = matches!(refused, Err(JoinError::IsOther(_)));
        drop(refused);
        assert!(library.join().unwrap().is_err(), "it received nothing");
        is_other
    };
    assert!(refused(|hello| Hello { program: hello.program ^ 1, ..hello }), "another program");
    // The host has not waited since the goodbye, but it was sent before the call.
    first.goodbye();
    assert!(refused(|hello| hello), "the first one has left");

    let (listener, attached, _first) = first_library(&self::test_folder());
    drop(listener);
    attached.close();
    let folder = self::test_folder();
    let listener = AttachListener::bind(&folder.path).unwrap();
    let (caller, _library) = call(&listener, &folder, |hello| hello);
    assert!(matches!(attached.join(caller), Err(JoinError::IsOther(_))));
}

#[test]
fn a_process_has_at_most_sixteen_connections() {
    let folder = test_folder();
    let (listener, attached, first) = first_library(&folder);
    let mut others = Vec::new();
    for number in 1..=MAX_LIBRARIES {
        let (caller, library) = call(&listener, &folder, |hello| hello);
        match attached.join(caller) {
            Ok(()) => others.push(library.join().unwrap().unwrap()),
            Err(JoinError::TooMany(_)) => assert_eq!(number, MAX_LIBRARIES),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(others.len(), MAX_LIBRARIES - 1);
    // One that leaves makes room.
    first.goodbye();
    let (caller, library) = call(&listener, &folder, |hello| hello);
    attached.join(caller).unwrap();
    assert_eq!(library.join().unwrap().unwrap().earlier(), MAX_LIBRARIES as u64);
}

#[test]
fn one_library_that_hangs_up_or_violates_the_protocol_counts_for_the_process() {
    let folder = test_folder();
    let (listener, attached, first) = first_library(&folder);
    let (caller, library) = call(&listener, &folder, |hello| hello);
    attached.join(caller).unwrap();
    drop(library.join().unwrap().unwrap());
    while attached.wait(Duration::from_millis(1)).unwrap() != ProcessEvent::TimedOut {}
    first.goodbye();
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::Ended, "one said no goodbye");

    let folder = self::test_folder();
    let (listener, attached, _first) = first_library(&folder);
    let socket = stranger(&folder);
    let mut caller = listener.accept(LONG).unwrap().unwrap();
    let hello = wire::Message::Hello {
        layout: tensortap_abi::DUMP_LAYOUT_VERSION,
        hello: Hello::of_this_process(None, None),
    };
    wire::send(&socket, &hello, &[]).unwrap();
    caller.hello(LONG).unwrap();
    attached.join(caller).unwrap();
    send(&socket, b"nonsense", SendFlags::NOSIGNAL).unwrap();
    while attached.wait(LONG).unwrap() == ProcessEvent::Woken {}
    assert_eq!(attached.wait(LONG).unwrap(), ProcessEvent::ProtocolError);
}
