//! Connections: their number is bounded, those that never showed the token are dropped first, and none waits
//! forever for a client that does not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::open_dumps::lock;

/// Maximum open connections. A browser opens six.
pub(crate) const MOST: usize = 64;

/// Requests without the token that one connection may send. Loading the page needs fewer.
const STRANGE: u32 = 64;

/// Whether a connection ever showed the token, and how many requests it sent without it.
#[derive(Clone, Default)]
pub(crate) struct ConnectionAuth(Arc<Mutex<(bool, u32)>>);

impl ConnectionAuth {
    pub fn set(&self) {
        lock(&self.0).0 = true;
    }

    fn get(&self) -> bool {
        lock(&self.0).0
    }

    /// Counts a request without the token. Returns true when the connection must end, because a flood of
    /// requests would delay others.
    pub fn is_enough(&self) -> bool {
        let mut state = lock(&self.0);
        state.1 = state.1.saturating_add(1);
        state.1 >= STRANGE
    }
}

/// The open connections, oldest first.
#[derive(Default)]
pub(crate) struct Connections(Vec<(ConnectionAuth, AbortHandle)>);

impl Connections {
    /// Makes room for one more connection by dropping the oldest one that never showed the token. Returns
    /// whether there is room.
    pub fn make_room(&mut self) -> bool {
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() < MOST {
            return true;
        }
        let Some(place) = self.0.iter().position(|(shown, _)| !shown.get()) else { return false };
        self.0.remove(place).1.abort();
        true
    }

    pub fn add(&mut self, shown: ConnectionAuth, task: AbortHandle) {
        self.0.push((shown, task));
    }
}

/// A stream whose writes fail if the client reads nothing for too long.
pub(crate) struct TimeoutStream<S> {
    stream: S,
    patience: Duration,
    /// Runs while written data waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub fn new(stream: S, patience: Duration) -> TimeoutStream<S> {
        TimeoutStream { stream, patience, waiting: None }
    }

    /// Returns the result of a write attempt, or a timeout error if the write has been pending for too long.
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

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
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
    fn drops_the_oldest_connection_without_the_token_first() {
        in_runtime(async {
            let mut open = Connections::default();
            let mut all = Vec::new();
            for place in 0..MOST {
                let shown = ConnectionAuth::default();
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
            let gone = |all: &[(ConnectionAuth, tokio::task::JoinHandle<()>)]| -> Vec<usize> {
                (0..MOST).filter(|&place| all[place].1.is_finished()).collect()
            };
            assert_eq!(gone(&all), [1]);
            let fresh = tokio::spawn(std::future::pending::<()>());
            open.add(ConnectionAuth::default(), fresh.abort_handle());
            all.iter().for_each(|(shown, _)| shown.set());
            assert!(open.make_room(), "the fresh one has shown nothing");
            let last = ConnectionAuth::default();
            last.set();
            open.add(last, tokio::spawn(std::future::pending::<()>()).abort_handle());
            assert!(!open.make_room(), "a connection that showed the token is not dropped");
            assert_eq!(gone(&all), [1]);
        });
    }

    #[test]
    fn writes_time_out_if_the_client_does_not_read() {
        in_runtime(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let never_reads = TcpStream::connect(address).await.expect("connected");
            let (stream, _) = listener.accept().await.expect("accepted");
            let mut patient = TimeoutStream::new(stream, Duration::from_millis(50));
            let started = Instant::now();
            let bytes = vec![0; 1 << 16];
            let failed = loop {
                let write = |context: &mut Context<'_>| Pin::new(&mut patient).poll_write(context, &bytes);
                let written =
                    tokio::time::timeout(Duration::from_secs(20), std::future::poll_fn(write)).await;
                if let Err(error) = written.expect("it does not wait forever") {
                    break error;
                }
            };
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
            assert!(started.elapsed() >= Duration::from_millis(50));
            drop(never_reads);
        });
    }
}
