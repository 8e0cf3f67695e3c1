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
    link_page::Bell,
    signal,
    wire::{self, HELLO_FILES, Message, PROTOCOL_VERSION, Received},
};

/// Exit code of a process that was asked to become a device and could not.
const EXIT_NOT_A_DEVICE: i32 = 2;
/// Exit code of a device whose program panicked, as that of any Rust program.
const EXIT_PANICKED: i32 = 101;

/// Becomes a device when the host that started this process asked for it; then it never returns. Otherwise it
/// returns at once. Call it at the top of `main`, before threads are started and arguments are read.
///
/// The device process ignores SIGINT, SIGTERM and SIGHUP (the host decides), leaves no core file, has crash handlers installed (see
/// [`crate::set_crash_recorder`]), prints to standard error only, and ends when the host does. If the host asks for it, it gives up
/// whatever kernels do not need ([`Confinement`]).
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
///     println!("the host goes on here");
/// }
/// ```
pub fn become_device_if_asked(program: &dyn DeviceProgram) {
    if !started_as_device() {
        return;
    }
    match prepare() {
        Ok(Prepared { link, confined, given }) => serve(&link, program, confined, &given),
        Err(error) => {
            eprintln!("tensortap device: {error}");
            signal::exit_now(EXIT_NOT_A_DEVICE)
        }
    }
}

/// What a device process has when it begins.
struct Prepared {
    link: DeviceLink,
    confined: bool,
    given: Vec<u8>,
}

fn serve(link: &DeviceLink, program: &dyn DeviceProgram, confined: bool, given: &[u8]) -> ! {
    let run = || -> Result<(), PlatformError> {
        if !given.is_empty() {
            program.prepare(given).map_err(|reason| PlatformError::NotPrepared { reason })?;
            signal::record_exits();
        }
        // All that the device needs is open by now, and every other thread is started by this one.
        let given_up = if confined { confine::confine() } else { Confinement::NONE };
        let (launches, _) =
            start_link_thread(link, || signal::exit_now(0)).map_err(os("starting the link thread"))?;
        link.send(&Message::Ready(given_up)).map_err(os("answering the host"))?;
        run_launches(link, program, &launches);
        Ok(())
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => signal::exit_now(0),
        Ok(Err(error)) => {
            let _ = link.send(&Message::Refused(error.to_string()));
            signal::exit_now(EXIT_NOT_A_DEVICE)
        }
        // The panic hook has said what there is to say.
        Err(_) => signal::exit_now(EXIT_PANICKED),
    }
}

fn prepare() -> Result<Prepared, PlatformError> {
    let socket = take_socket()?;
    forget_started_as_device();
    settle_process();
    let (memory, confined, files) = receive_hello(&socket)?;
    let [file, to_host, from_host, given] = files;
    let given = file::read_bytes(given)?;
    let reply_to = socket.try_clone().map_err(os("duplicating the socket to the host"))?;
    let parts = LinkParts {
        mode: DeviceMode::Process,
        memory,
        file,
        socket,
        to_host: Bell::from(to_host),
        from_host: Bell::from(from_host),
        lease: None,
    };
    let link = DeviceLink::new(parts).inspect_err(|error| refuse(&reply_to, &error.to_string()))?;
    Ok(Prepared { link, confined, given })
}

/// Moves the socket away from standard input, where the device program might read it.
fn take_socket() -> Result<OwnedFd, PlatformError> {
    let stdin = rustix::stdio::stdin();
    if rustix::net::sockopt::socket_type(stdin).is_err() {
        return Err(PlatformError::Protocol {
            what: format!("{DEVICE_VARIABLE} without a socket on standard input (unset it to run normally)"),
        });
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin, 3).map_err(os("taking the socket to the host"))?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(os("opening /dev/null"))?;
    rustix::stdio::dup2_stdin(null).map_err(os("replacing standard input"))?;
    Ok(socket)
}

/// Nothing here is vital, so nothing fails.
fn settle_process() {
    let _ = rustix::thread::set_name(c"tt-device");
    // The end of the socket ends a device that runs; this ends one that is stopped, too.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let limit = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit });
    signal::leave_ending_to_the_host();
    let _ = signal::install_crash_handlers();
}

fn receive_hello(socket: &OwnedFd) -> Result<(DeviceRange, bool, [OwnedFd; HELLO_FILES]), PlatformError> {
    let received = wire::receive(socket).map_err(os("waiting for the host's first message"))?;
    let Received::Message(Message::Hello { version, layout, memory, confined }, files) = received else {
        return Err(PlatformError::Protocol { what: "no greeting".to_owned() });
    };
    if (version, layout) != (PROTOCOL_VERSION, LAYOUT_VERSION) {
        let reason = format!(
            "the host speaks protocol {version} with layout {layout}, this executable protocol {PROTOCOL_VERSION} \
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
