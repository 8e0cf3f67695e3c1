//! Worker processes: helpers that answer requests over a socket until their owner is gone.
//!
//! A worker is this same executable, started again with an environment variable. The `scene-folder` crate
//! runs code of scene folders in workers, and `launch-host` runs single launches in them. Both define the
//! requests and the restrictions of their workers.

use std::{
    fs::File,
    io::{self, Error, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use crate::DeathCause;

const THIS_EXECUTABLE: &str = "/proc/self/exe";
/// Limit on the length of one part, to detect invalid messages.
const MAX_PART_BYTES: u64 = 1 << 40;
/// Limit on the number of parts of one message.
const MAX_PARTS: u64 = 1 << 16;

/// A message: a text, followed by parts.
pub type WorkerMessage = (Vec<u8>, Vec<Vec<u8>>);

/// A running worker. It is killed when this value is dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    socket: UnixStream,
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // The worker may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Why a worker does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// It did not answer in time and was killed.
    TimedOut,
    /// It exited with this code.
    Exited(i32),
    /// It crashed or was killed.
    Crashed(DeathCause),
    /// It sent an invalid message, or the cause of its end is unknown.
    ProtocolError(String),
}

impl WorkerProcess {
    /// Starts `executable` (default: this one) as a worker. The environment variable `variable` tells the
    /// process which worker to become. `prepare` may change the command.
    ///
    /// # Errors
    ///
    /// If the socket or the process cannot be created.
    pub fn start(
        variable: &str,
        executable: Option<&Path>,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<WorkerProcess> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(executable.unwrap_or(Path::new(THIS_EXECUTABLE)));
        command.env(variable, "1");
        prepare(&mut command);
        // The output of the worker is not part of this program's output.
        let output = Stdio::from(io::stderr());
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(output).spawn()?;
        Ok(WorkerProcess { child, socket })
    }

    /// Sends a message. `timeout` limits how long the worker may take to read it. `None` means no limit.
    ///
    /// # Errors
    ///
    /// If the worker does not read it. [`WorkerProcess::into_exit`] returns the cause.
    pub fn send(&mut self, text: &[u8], parts: &[&[u8]], timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_write_timeout(timeout)?;
        send_message(&mut self.socket, text, parts)
    }

    /// Receives a message. `timeout` limits how long to wait. `None` means no limit.
    ///
    /// # Errors
    ///
    /// If the worker does not answer. [`WorkerProcess::into_exit`] returns the cause.
    pub fn receive(&mut self, timeout: Option<Duration>) -> io::Result<WorkerMessage> {
        self.socket.set_read_timeout(timeout)?;
        receive_message(&mut self.socket)
    }

    /// Ends the worker and returns why it did not answer, given the error of the call that failed.
    #[must_use]
    pub fn into_exit(mut self, error: &Error) -> WorkerExit {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => WorkerExit::TimedOut,
            // The socket closes a moment before the process ends.
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                match self.child.wait() {
                    Ok(status) => match (status.signal(), status.code()) {
                        (None, Some(code)) => WorkerExit::Exited(code),
                        (signal, code) => WorkerExit::Crashed(DeathCause { signal, code }),
                    },
                    Err(error) => WorkerExit::ProtocolError(error.to_string()),
                }
            }
            _ => WorkerExit::ProtocolError(format!("it sent an invalid answer: {error}")),
        }
    }
}

/// In a worker: returns the socket to its owner. Replaces standard input with `/dev/null`.
///
/// # Errors
///
/// If standard input cannot be replaced.
pub fn worker_socket() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// In a worker: returns the incoming requests. If the owner is gone or sends an invalid message, the process
/// exits at once, whatever it is doing.
///
/// # Errors
///
/// If the thread that receives requests cannot be started.
pub fn worker_requests(socket: &UnixStream) -> io::Result<Receiver<WorkerMessage>> {
    let mut stream = socket.try_clone()?;
    let (sender, requests) = channel();
    std::thread::Builder::new().name("tt-requests".into()).spawn(move || {
        while let Ok(request) = receive_message(&mut stream) {
            if sender.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0)
    })?;
    Ok(requests)
}

/// Sends a text and parts, each after its length.
///
/// # Errors
///
/// Those of the writer.
pub fn send_message(to: &mut impl Write, text: &[u8], parts: &[&[u8]]) -> io::Result<()> {
    to.write_all(&(parts.len() as u64).to_le_bytes())?;
    for part in std::iter::once(&text).chain(parts) {
        to.write_all(&(part.len() as u64).to_le_bytes())?;
        to.write_all(part)?;
    }
    to.flush()
}

/// Receives a message of [`send_message`].
///
/// # Errors
///
/// Those of the reader, or an invalid message.
pub fn receive_message(from: &mut impl Read) -> io::Result<WorkerMessage> {
    let count = number(from)?;
    if count > MAX_PARTS {
        return Err(Error::other("the message has too many parts"));
    }
    let text = part(from)?;
    let parts = (0..count).map(|_| part(from)).collect::<io::Result<Vec<_>>>()?;
    Ok((text, parts))
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn part(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = number(from)?;
    if length > MAX_PART_BYTES {
        return Err(Error::other("a part of the message is too long"));
    }
    let mut part = Vec::new();
    // Memory grows with the received bytes, not with the announced length.
    from.take(length).read_to_end(&mut part)?;
    if part.len() as u64 == length { Ok(part) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_invalid_ones_are_refused() {
        let mut sent = Vec::new();
        send_message(&mut sent, b"text", &[&[7; 300], b""]).unwrap();
        let (text, parts) = receive_message(&mut &sent[..]).unwrap();
        assert_eq!((&text[..], parts), (&b"text"[..], vec![vec![7; 300], Vec::new()]));
        for cut in [0, 7, 12, 20, sent.len() - 1] {
            assert!(receive_message(&mut &sent[..cut]).is_err(), "{cut}");
        }
        let huge = [1_u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        assert!(receive_message(&mut &huge[..]).is_err());
        assert!(receive_message(&mut &u64::MAX.to_le_bytes()[..]).is_err());
    }

    /// A process that ends in the ways that workers do.
    fn shell(script: &str) -> WorkerProcess {
        WorkerProcess::start("TENSORTAP_TEST_WORKER", Some(Path::new("/bin/sh")), |command| {
            command.args(["-c", script]);
        })
        .unwrap()
    }

    #[test]
    fn into_exit_returns_how_a_worker_ended() {
        let exit_of = |script: &str, timeout: Option<Duration>| {
            let mut worker = shell(script);
            let error = worker.receive(timeout).unwrap_err();
            worker.into_exit(&error)
        };
        assert_eq!(exit_of("exit 7", None), WorkerExit::Exited(7));
        let DeathCause { signal, .. } = match exit_of("kill -ABRT $$", None) {
            WorkerExit::Crashed(cause) => cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(signal, Some(6));
        assert_eq!(exit_of("exec sleep 60", Some(Duration::from_millis(50))), WorkerExit::TimedOut);
        let noise = "printf '\\377\\377\\377\\377\\377\\377\\377\\377' >&0; exec sleep 60";
        assert!(matches!(exit_of(noise, None), WorkerExit::ProtocolError(_)));
    }
}
