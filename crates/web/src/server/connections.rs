//! Connections: a bounded number, of which those that never showed the token make room, and none waits for ever for a reader.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::shelf::lock;

/// Connections at once; a browser has six.
pub(crate) const MOST: usize = 64;

/// Questions without the token that one connection may ask: the page and its files are fewer.
const STRANGE: u32 = 64;

/// Whether a connection ever brought the token, and how often it asked without.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Mutex<(bool, u32)>>);

impl Shown {
    pub fn set(&self) {
        lock(&self.0).0 = true;
    }

    fn get(&self) -> bool {
        lock(&self.0).0
    }

    /// Counts a question without the token; whether these are enough, as whoever sends thousands at once keeps others waiting.
    pub fn is_enough(&self) -> bool {
        let mut state = lock(&self.0);
        state.1 = state.1.saturating_add(1);
        state.1 >= STRANGE
    }
}

/// Those that are open, the oldest first.
#[derive(Default)]
pub(crate) struct Connections(Vec<(Shown, AbortHandle)>);

impl Connections {
    /// Makes room for one more: the oldest that never showed the token has to go. Whether there is room.
    pub fn make_room(&mut self) -> bool {
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() < MOST {
            return true;
        }
        let Some(place) = self.0.iter().position(|(shown, _)| !shown.get()) else { return false };
        self.0.remove(place).1.abort();
        true
    }

    pub fn add(&mut self, shown: Shown, task: AbortHandle) {
        self.0.push((shown, task));
    }
}

/// A stream that fails when the other side takes nothing of what is written for so long.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while something waits to be taken.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None }
    }

    /// What came of an attempt to write, or that it was waited for long enough.
    fn waited<T>(&mut self, made: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if made.is_ready() {
            self.waiting = None;
            return made;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let made = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.waited(made, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let made = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.waited(made, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn whoever_never_shows_the_token_makes_room_and_whoever_did_stays() {
        in_runtime(async {
            let mut open = Connections::default();
            let mut all = Vec::new();
            for place in 0..MOST {
                let shown = Shown::default();
                if place % 2 == 0 {
                    shown.set();
                }
                let task = tokio::spawn(std::future::pending::<()>());
                assert!(open.make_room());
                open.add(shown.clone(), task.abort_handle());
                all.push((shown, task));
            }
            assert!(open.make_room(), "the oldest without token goes");
            tokio::task::yield_now().await;
            let gone = |all: &[(Shown, tokio::task::JoinHandle<()>)]| -> Vec<usize> {
                (0..MOST).filter(|&place| all[place].1.is_finished()).collect()
            };
            assert_eq!(gone(&all), [1]);
            let fresh = tokio::spawn(std::future::pending::<()>());
            open.add(Shown::default(), fresh.abort_handle());
            all.iter().for_each(|(shown, _)| shown.set());
            assert!(open.make_room(), "the fresh one has shown nothing");
            let last = Shown::default();
            last.set();
            open.add(last, tokio::spawn(std::future::pending::<()>()).abort_handle());
            assert!(!open.make_room(), "whoever has shown the token is not put out");
            assert_eq!(gone(&all), [1]);
        });
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up() {
        in_runtime(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let never_reads = TcpStream::connect(address).await.expect("connected");
            let (stream, _) = listener.accept().await.expect("accepted");
            let mut patient = Patient::new(stream, Duration::from_millis(50));
            let started = Instant::now();
            let bytes = vec![0; 1 << 16];
            let failed = loop {
                let write = |context: &mut Context<'_>| Pin::new(&mut patient).poll_write(context, &bytes);
                let written =
                    tokio::time::timeout(Duration::from_secs(20), std::future::poll_fn(write)).await;
                if let Err(error) = written.expect("it does not wait for ever") {
                    break error;
                }
            };
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
            assert!(started.elapsed() >= Duration::from_millis(50));
            drop(never_reads);
        });
    }
}
