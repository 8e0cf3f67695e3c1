use std::{
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rustix::{
    fs::{Mode, OFlags},
    process::{Resource, Rlimit, Signal, getrlimit, setrlimit},
};
use tensortap_abi::{DeviceRange, LAYOUT_VERSION};

use super::{DeviceLink, LinkParts, run_launches, start_link_thread};
use crate::{
    Confinement, DeviceMode, DeviceProgram, PlatformError, confine,
    environment::{DEVICE_VARIABLE, forget_started_as_device, started_as_device},
    error::os,
    file,
    link_page::WakeSocket,
    signal,
    wire::{self, HELLO_FILES, Message, PROTOCOL_VERSION, ReceivedPacket},
};

/// Exit code of a process that should have become a device but could not.
const EXIT_NOT_A_DEVICE: i32 = 2;
/// Exit code of a device whose program panicked: the same as for any Rust program.
const EXIT_PANICKED: i32 = 101;

/// Turns this process into a device if a host started it as one. Then it never returns. Otherwise it returns
/// at once.
///
/// Call it at the top of `main`, before threads are started and arguments are read.
///
/// The device process ignores SIGINT, SIGTERM and SIGHUP, because the host decides when to stop. It writes no
/// core file and has crash handlers (see [`crate::set_crash_recorder`]). It prints to standard error only. It
/// ends when the host ends. If the host asks for it, the process confines itself ([`Confinement`]).
///
/// ```no_run
/// use tensortap_platform::{DeviceLink, DeviceProgram, become_device_if_asked};
///
/// struct Program;
/// impl DeviceProgram for Program {
///     fn run(&self, link: &DeviceLink, args: u64) {
///         assert!(link.memory().contains(args, 8));
///     }
/// }
///
/// fn main() {
///     become_device_if_asked(&Program);
///     println!("only the host gets here");
/// }
/// ```
pub fn become_device_if_asked(program: &dyn DeviceProgram) {
    if !started_as_device() {
        return;
    }
    match prepare() {
        Ok(DeviceStart { link, confined, program_data }) => serve(&link, program, confined, &program_data),
        Err(error) => {
            eprintln!("tensortap device: {error}");
            signal::exit_now(EXIT_NOT_A_DEVICE)
        }
    }
}

/// The state of a device process after its handshake, before it is confined.
struct DeviceStart {
    link: DeviceLink,
    confined: bool,
    program_data: Vec<u8>,
}

fn serve(link: &DeviceLink, program: &dyn DeviceProgram, confined: bool, program_data: &[u8]) -> ! {
    let run = || -> Result<(), PlatformError> {
        if !program_data.is_empty() {
            program.prepare(program_data).map_err(|reason| PlatformError::NotPrepared { reason })?;
            signal::record_exits();
        }
        // The last moment: everything that the device needs is open, and this thread starts all others.
        let confinement = if confined { confine::confine() } else { Confinement::NONE };
        let (launches, _) =
            start_link_thread(link, || signal::exit_now(0)).map_err(os("starting the link thread"))?;
        link.send(&Message::Ready(confinement)).map_err(os("answering the host"))?;
        run_launches(link, program, &launches);
        Ok(())
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => signal::exit_now(0),
        Ok(Err(error)) => {
            let _ = link.send(&Message::Refused(error.to_string()));
            signal::exit_now(EXIT_NOT_A_DEVICE)
        }
        // The panic hook has already printed the message.
        Err(_) => signal::exit_now(EXIT_PANICKED),
    }
}

fn prepare() -> Result<DeviceStart, PlatformError> {
    let socket = take_socket()?;
    forget_started_as_device();
    configure_process();
    let (memory, confined, files) = receive_hello(&socket)?;
    let [file, to_host, from_host, program_data] = files;
    let program_data = file::read_bytes(program_data)?;
    let reply_to = socket.try_clone().map_err(os("duplicating the socket to the host"))?;
    let parts = LinkParts {
        mode: DeviceMode::Process,
        memory,
        file,
        socket,
        to_host: WakeSocket::from(to_host),
        from_host: WakeSocket::from(from_host),
        lease: None,
    };
    let link = DeviceLink::new(parts).inspect_err(|error| refuse(&reply_to, &error.to_string()))?;
    Ok(DeviceStart { link, confined, program_data })
}

/// Moves the socket to another file descriptor. The device program might read standard input.
fn take_socket() -> Result<OwnedFd, PlatformError> {
    let stdin = rustix::stdio::stdin();
    if rustix::net::sockopt::socket_type(stdin).is_err() {
        return Err(PlatformError::Protocol {
            what: format!(
                "the environment variable {DEVICE_VARIABLE} without a socket on standard input (unset the variable to run normally)"
            ),
        });
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map_err(os("taking the socket to the host"))?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(os("opening /dev/null"))?;
    rustix::stdio::dup2_stdin(null).map_err(os("replacing standard input"))?;
    Ok(socket)
}

/// Settings that are useful but not vital, so failures are ignored.
fn configure_process() {
    let _ = rustix::thread::set_name(c"tt-device");
    // A running device ends when the socket closes. This also ends a device that is stopped by a signal.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let limit = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit });
    signal::ignore_termination_signals();
    let _ = signal::install_crash_handlers();
}

fn receive_hello(socket: &OwnedFd) -> Result<(DeviceRange, bool, [OwnedFd; HELLO_FILES]), PlatformError> {
    let received = wire::receive(socket).map_err(os("waiting for the host's first message"))?;
    let ReceivedPacket::Message(Message::Hello { version, layout, memory, confined }, files) = received
    else {
        return Err(PlatformError::Protocol { what: "no greeting as its first packet".to_owned() });
    };
    if (version, layout) != (PROTOCOL_VERSION, LAYOUT_VERSION) {
        let reason = format!(
            "the host uses protocol {version} with layout {layout}, this executable uses protocol {PROTOCOL_VERSION} \
             with layout {LAYOUT_VERSION}; use executables of one build"
        );
        refuse(socket, &reason);
        return Err(PlatformError::Protocol { what: reason });
    }
    let files = files
        .try_into()
        .map_err(|_| PlatformError::Protocol { what: "a greeting without its files".to_owned() })?;
    Ok((memory, confined, files))
}

fn refuse(socket: &OwnedFd, reason: &str) {
    let _ = wire::send(socket, &Message::Refused(reason.to_owned()), &[]);
}
