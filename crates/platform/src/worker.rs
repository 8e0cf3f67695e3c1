//! Processes that answer questions: this very executable, started again with a variable set, which hears and answers over a socket until whoever
//! started it is gone. What a worker is asked, and what it may do, is for its users to say.

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
/// The largest part of a message that is believed to be one.
const MAX_PART_BYTES: u64 = 1 << 40;
/// Parts that one message may have.
const MAX_PARTS: u64 = 1 << 16;

/// What crosses: a text, and parts that follow it.
pub type WorkerMessage = (Vec<u8>, Vec<Vec<u8>>);

/// A worker that was started. It is ended when this is dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    socket: UnixStream,
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What became of a worker that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerFate {
    /// It has not answered in time, and was ended.
    Late,
    /// It has ended by itself.
    Exited(i32),
    /// It has crashed, or was killed.
    Crashed(DeathCause),
    /// It answers what nobody understands, or its end cannot be told.
    Odd(String),
}

impl WorkerProcess {
    /// Starts an executable, this one where none is named, as the worker that `variable` stands for. `prepare` may change what it is started with.
    ///
    /// # Errors
    /// There can be no socket, or no process.
    pub fn start(
        variable: &str,
        executable: Option<&Path>,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<WorkerProcess> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(executable.unwrap_or(Path::new(THIS_EXECUTABLE)));
        command.env(variable, "1");
        prepare(&mut command);
        // What it prints is none of this program's output.
        let output = Stdio::from(io::stderr());
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(output).spawn()?;
        Ok(WorkerProcess { child, socket })
    }

    /// Says something. `patience` is how long the worker may take to hear it; `None` for ever.
    ///
    /// # Errors
    /// It does not hear; [`WorkerProcess::fate`] says why.
    pub fn say(&mut self, text: &[u8], parts: &[&[u8]], patience: Option<Duration>) -> io::Result<()> {
        self.socket.set_write_timeout(patience)?;
        send_message(&mut self.socket, text, parts)
    }

    /// Hears an answer. `patience` is how long it may be silent; `None` for ever.
    ///
    /// # Errors
    /// It does not answer; [`WorkerProcess::fate`] says why.
    pub fn hear(&mut self, patience: Option<Duration>) -> io::Result<WorkerMessage> {
        self.socket.set_read_timeout(patience)?;
        receive_message(&mut self.socket)
    }

    /// What became of it, by the error that was met. It is gone then.
    #[must_use]
    pub fn fate(mut self, error: &Error) -> WorkerFate {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => WorkerFate::Late,
            // The socket closes a moment before the process is gone.
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                match self.child.wait() {
                    Ok(status) => match (status.signal(), status.code()) {
                        (None, Some(code)) => WorkerFate::Exited(code),
                        (signal, code) => WorkerFate::Crashed(DeathCause { signal, code }),
                    },
                    Err(error) => WorkerFate::Odd(error.to_string()),
                }
            }
            _ => WorkerFate::Odd(format!("its process cannot be understood: {error}")),
        }
    }
}

/// In a worker: the socket to whoever started it, in place of standard input, which nothing can be read from any more.
///
/// # Errors
/// Standard input cannot be replaced.
pub fn worker_socket() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// In a worker: what it is asked, one after the other. When whoever asks is gone, or says what nobody understands, the process ends, whatever it is doing.
///
/// # Errors
/// There can be no thread to hear with.
pub fn worker_requests(socket: &UnixStream) -> io::Result<Receiver<WorkerMessage>> {
    let mut ears = socket.try_clone()?;
    let (heard, requests) = channel();
    std::thread::Builder::new().name("tt-ears".into()).spawn(move || {
        while let Ok(request) = receive_message(&mut ears) {
            if heard.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0)
    })?;
    Ok(requests)
}

/// Sends a text and parts, each behind its length.
///
/// # Errors
/// Those of the writer.
pub fn send_message(to: &mut impl Write, text: &[u8], parts: &[&[u8]]) -> io::Result<()> {
    to.write_all(&(parts.len() as u64).to_le_bytes())?;
    for part in std::iter::once(&text).chain(parts) {
        to.write_all(&(part.len() as u64).to_le_bytes())?;
        to.write_all(part)?;
    }
    to.flush()
}

/// Receives what [`send_message`] sends.
///
/// # Errors
/// Those of the reader, and what is no message.
pub fn receive_message(from: &mut impl Read) -> io::Result<WorkerMessage> {
    let count = number(from)?;
    if count > MAX_PARTS {
        return Err(Error::other("a message of too many parts"));
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
        return Err(Error::other("a message that is too long"));
    }
    let mut part = Vec::new();
    // Memory grows with what comes, not with what was announced.
    from.take(length).read_to_end(&mut part)?;
    if part.len() as u64 == length { Ok(part) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_and_what_is_none_is_refused() {
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

    /// A process that is no worker, but ends in ways that workers do.
    fn shell(script: &str) -> WorkerProcess {
        WorkerProcess::start("TENSORTAP_NOBODY", Some(Path::new("/bin/sh")), |command| {
            command.args(["-c", script]);
        })
        .unwrap()
    }

    #[test]
    fn what_became_of_a_worker_is_told() {
        let fate = |script: &str, patience: Option<Duration>| {
            let mut worker = shell(script);
            let error = worker.hear(patience).unwrap_err();
            worker.fate(&error)
        };
        assert_eq!(fate("exit 7", None), WorkerFate::Exited(7));
        let DeathCause { signal, .. } = match fate("kill -ABRT $$", None) {
            WorkerFate::Crashed(cause) => cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(signal, Some(6));
        assert_eq!(fate("exec sleep 60", Some(Duration::from_millis(50))), WorkerFate::Late);
        let noise = "printf '\\377\\377\\377\\377\\377\\377\\377\\377' >&0; exec sleep 60";
        assert!(matches!(fate(noise, None), WorkerFate::Odd(_)));
    }
}
