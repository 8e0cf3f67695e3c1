//! A local web server that shows dumps, only to users of this machine.
//!
//! It listens on 127.0.0.1. Every request about a dump must carry the token from the printed address
//! ([`guard`]). The dumps are fixed when the server starts; no request names a file. One thread reads
//! requests, and a bounded number of other threads does slow work, so that no request blocks another. Caches
//! are bounded, too:
//!
//! | cached | at most |
//! | --- | --- |
//! | connections | 64; those that never showed the token are dropped first, and end after 64 requests without it |
//! | answers being computed | 8 |
//! | jobs (blame, compare, replay, export) at once / waiting / remembered | 2 / 16 / 32 |
//! | searched or sorted lists per dump | 6, with 16,777,216 rows each |
//! | running searches of all dumps | 6 |
//! | graph and timeline of a dump; its labels and its comparison | one of each; for two goldens |
//!
//! The graph of a dump is large. It is dropped after two minutes without a request about that dump, and built
//! again on demand.

mod actions;
mod answer;
mod compare;
mod connections;
mod graphs;
mod guard;
#[expect(unsafe_code, reason = "asking the allocator to give free memory back")]
mod heap;
mod jobs;
mod lists;
mod open_dumps;
mod pictures;
mod routes;
mod search;
mod tasks;
mod timeline;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tensortap::format::quoted;
use tensortap::scene::Registry;
use tensortap_query::QueryError;
use tokio::net::{TcpListener, TcpStream};

use self::connections::{ConnectionAuth, Connections, TimeoutStream};
use self::guard::Guard;
use self::jobs::Jobs;
use self::open_dumps::OpenDumps;

/// Answers computed at the same time.
const ANSWERS: usize = 8;
/// Time limit for reading a request, and for progress while writing an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of checks whether to stop.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Interval of cleanup of unused data.
const TIDY: Duration = Duration::from_secs(10);
/// Maximum bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// Configuration of the server.
pub struct ServeConfig {
    /// Dumps, or run folders with several; at least one.
    pub dumps: Vec<PathBuf>,
    /// The golden to compare with unless a page chooses another.
    pub golden: Option<PathBuf>,
    /// The port. `None`: any free port.
    pub port: Option<u16>,
    /// Whether pages may replay tasks and write files.
    pub allow_actions: bool,
    /// Scenes, for references and replays.
    pub registry: Registry,
    /// The program name shown in commands.
    pub program: String,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A dump or a golden cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The port cannot be opened.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The requested port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system provides no threads or no random numbers.
    #[error("cannot start the server: {0}")]
    Start(io::Error),
}

/// State shared by all requests.
pub(crate) struct State {
    open_dumps: OpenDumps,
    jobs: Jobs,
    guard: Guard,
    allow_actions: bool,
    /// The command that starts the server with --allow-actions.
    allowing: String,
    registry: Registry,
    program: String,
}

/// A server that owns its port. [`Server::run`] starts serving.
pub struct Server {
    listener: std::net::TcpListener,
    state: Arc<State>,
}

impl Server {
    /// Opens the dumps and the port.
    ///
    /// # Errors
    /// A dump cannot be read, or the port is taken.
    pub fn bind(config: ServeConfig) -> Result<Server, ServeError> {
        let open_dumps = OpenDumps::open(&config.dumps, config.golden.as_deref())?;
        let asked = config.port.unwrap_or(0);
        let listen = |source| ServeError::Listen { port: asked, source };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let guard = Guard::new(port, config.allow_actions).map_err(ServeError::Start)?;
        let allowing = allowing(&config);
        let ServeConfig { allow_actions, registry, program, .. } = config;
        let state =
            State { open_dumps, jobs: Jobs::default(), guard, allow_actions, allowing, registry, program };
        Ok(Server { listener, state: Arc::new(state) })
    }

    /// The address to open in a browser, with the token.
    #[must_use]
    pub fn address(&self) -> String {
        self.state.guard.address()
    }

    /// Serves until `stop` returns true, then cancels running work.
    ///
    /// # Errors
    /// The system provides no threads.
    pub fn run(self, stop: impl Fn() -> bool) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(ANSWERS)
            .build()
            .map_err(ServeError::Start)?;
        let jobs = Arc::clone(&self.state);
        let served = runtime.block_on(self.serve(stop));
        jobs.jobs.stop();
        runtime.shutdown_background();
        served
    }

    async fn serve(self, stop: impl Fn() -> bool) -> Result<(), ServeError> {
        let listener = TcpListener::from_std(self.listener).map_err(ServeError::Start)?;
        let mut open = Connections::default();
        let mut tidied = Instant::now();
        while !stop() {
            if tidied.elapsed() > TIDY {
                tidied = Instant::now();
                if self.state.open_dumps.release_idle() {
                    heap::release_memory();
                }
            }
            let Ok(accepted) = tokio::time::timeout(LOOK_UP, listener.accept()).await else { continue };
            // Ignore connections that broke before they were accepted and those above the limit.
            let Ok((stream, peer)) = accepted else { continue };
            if !open.make_room() {
                continue;
            }
            let shown = ConnectionAuth::default();
            let task = tokio::spawn(connected(Arc::clone(&self.state), stream, peer, shown.clone()));
            open.add(shown, task.abort_handle());
            // Let the connection show its token before others are accepted.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// The command that starts this server with --allow-actions.
fn allowing(config: &ServeConfig) -> String {
    let dumps = config.dumps.iter().map(|dump| format!(" {}", quoted(dump)));
    let golden = config.golden.iter().map(|golden| format!(" --golden {}", quoted(golden)));
    let port = config.port.map(|port| format!(" --port {port}"));
    let words: String = dumps.chain(golden).chain(port).collect();
    format!("{} serve{words} --allow-actions", config.program)
}

/// Serves one connection until it ends.
async fn connected(state: Arc<State>, stream: TcpStream, peer: SocketAddr, shown: ConnectionAuth) {
    let answer = service_fn(move |request| answered(Arc::clone(&state), peer, shown.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(TimeoutStream::new(stream, PATIENCE)), answer);
    // An error means that the browser closed the connection.
    let _ = connection.await;
}

/// Answers one request.
async fn answered(
    state: Arc<State>,
    peer: SocketAddr,
    shown: ConnectionAuth,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let (head, _) = request.into_parts();
    let admitted = if peer.ip().is_loopback() { state.guard.admit(&head) } else { Err(guard::refused()) };
    let has_token = state.guard.has_token(&head);
    if admitted.is_ok() && has_token {
        shown.set();
    }
    let is_last = !has_token && shown.is_enough();
    let answer = match admitted {
        Err(answer) => answer,
        Ok(()) => match routes::quick(&state, &head) {
            Some(answer) => answer,
            None => {
                let state = Arc::clone(&state);
                // The blocking pool bounds how many run at once. Quick requests above never wait for it.
                let made = tokio::task::spawn_blocking(move || routes::api(&state, &head)).await;
                made.unwrap_or_else(|_| answer::Answer::failed())
            }
        },
    };
    let mut response = answer.response();
    if is_last {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
