//! A server of pages about dumps, for the people at this machine alone.
//!
//! It listens on 127.0.0.1, and every request for anything of a dump must bring the token that the address has ([`guard`]). Which dumps there are is said when it
//! is started; no request names a file. Requests are read by one thread; what takes time is done by others, a bounded number at once, so
//! that none waits for it. What is kept for the next question is bounded, too:
//!
//! | kept | at most |
//! | --- | --- |
//! | connections | 64; those that never showed the token make room, and end after 64 questions without it |
//! | answers in the making | 8 |
//! | jobs (blame, compare, replay, export) at once / waiting / remembered | 2 / 16 / 32 |
//! | searches and orders of lists per dump | 6, of 16,777,216 places each |
//! | searches under way, of all dumps | 6 |
//! | graph and timeline of a dump; its labels and its comparison | one of each; for two goldens |
//!
//! The graph, which grows with the tasks, goes when nobody has asked about its dump for two minutes, and comes back when somebody does.

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
mod pictures;
mod routes;
mod search;
mod shelf;
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

use self::connections::{Connections, Patient, Shown};
use self::guard::Guard;
use self::jobs::Jobs;
use self::shelf::Shelf;

/// Answers that are made at once.
const ANSWERS: usize = 8;
/// A request must have come whole after this, and some of its answer must have been taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is asked whether to stop.
const LOOK_UP: Duration = Duration::from_millis(50);
/// How often is looked for what nobody needs any more.
const TIDY: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// What is served, and how.
pub struct ServeConfig {
    /// Dumps, or run folders with several; at least one.
    pub dumps: Vec<PathBuf>,
    /// What they are held against unless a page says otherwise.
    pub golden: Option<PathBuf>,
    /// Port; any that is free when `None`.
    pub port: Option<u16>,
    /// Whether pages may replay tasks and write files.
    pub allow_actions: bool,
    /// Scenes, for references and replays.
    pub registry: Registry,
    /// The program that devices are started from, as for a replay.
    pub program: String,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A dump or a golden cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Nothing can be listened on.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The port asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system gives no threads or no random numbers.
    #[error("cannot start to serve: {0}")]
    Start(io::Error),
}

/// What all answers are made of.
pub(crate) struct State {
    shelf: Shelf,
    jobs: Jobs,
    guard: Guard,
    allow_actions: bool,
    /// The command that would start it with leave to act.
    allowing: String,
    registry: Registry,
    program: String,
}

/// A server that has its port and serves when it is [run](Server::run).
pub struct Server {
    listener: std::net::TcpListener,
    state: Arc<State>,
}

impl Server {
    /// Opens the dumps and takes the port.
    ///
    /// # Errors
    /// A dump cannot be read, or the port is taken.
    pub fn bind(config: ServeConfig) -> Result<Server, ServeError> {
        let shelf = Shelf::open(&config.dumps, config.golden.as_deref())?;
        let asked = config.port.unwrap_or(0);
        let listen = |source| ServeError::Listen { port: asked, source };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let guard = Guard::new(port, config.allow_actions).map_err(ServeError::Start)?;
        let allowing = allowing(&config);
        let ServeConfig { allow_actions, registry, program, .. } = config;
        let state = State { shelf, jobs: Jobs::default(), guard, allow_actions, allowing, registry, program };
        Ok(Server { listener, state: Arc::new(state) })
    }

    /// The address to open in a browser, with the token.
    #[must_use]
    pub fn address(&self) -> String {
        self.state.guard.address()
    }

    /// Serves until `stop` says so; work that is under way then is given up.
    ///
    /// # Errors
    /// The system gives no threads.
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
                if self.state.shelf.release_idle() {
                    heap::give_back();
                }
            }
            let Ok(accepted) = tokio::time::timeout(LOOK_UP, listener.accept()).await else { continue };
            // A connection that broke before it was taken is nobody's concern, and neither is one too many.
            let Ok((stream, peer)) = accepted else { continue };
            if !open.make_room() {
                continue;
            }
            let shown = Shown::default();
            let task = tokio::spawn(connected(Arc::clone(&self.state), stream, peer, shown.clone()));
            open.add(shown, task.abort_handle());
            // It may show its token before others are taken.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// The command that starts such a server with leave to act.
fn allowing(config: &ServeConfig) -> String {
    let dumps = config.dumps.iter().map(|dump| format!(" {}", quoted(dump)));
    let golden = config.golden.iter().map(|golden| format!(" --golden {}", quoted(golden)));
    let port = config.port.map(|port| format!(" --port {port}"));
    let words: String = dumps.chain(golden).chain(port).collect();
    format!("{} serve{words} --allow-actions", config.program)
}

/// One connection, until it ends.
async fn connected(state: Arc<State>, stream: TcpStream, peer: SocketAddr, shown: Shown) {
    let answer = service_fn(move |request| answered(Arc::clone(&state), peer, shown.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Patient::new(stream, PATIENCE)), answer);
    // A browser that goes away ends its connection; there is nobody to tell.
    let _ = connection.await;
}

/// The answer to one request.
async fn answered(
    state: Arc<State>,
    peer: SocketAddr,
    shown: Shown,
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
                // As many as there are threads for; others wait in line, and not for requests of the kind above.
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
