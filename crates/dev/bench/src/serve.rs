//! Response times of `tensortap serve`: HTTP requests like those of its pages, for a dump with many records. The server is a
//! separate process.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::machine::load_average;
use crate::sample_dump;
use crate::scratch::Scratch;
use crate::watch::check;
use crate::{BenchError, Machine, Watch};

/// Disk space for index and manifest of one record.
const RECORD_BYTES: u64 = 1024;
/// Rows of a page.
const ROWS: u64 = 60;
/// Target of the median of every response time.
const TARGET_S: f64 = 0.1;
/// Time limit for work in the background.
const PATIENCE: Duration = Duration::from_secs(600);

const NOTES: [&str; 3] = [
    "a response: a new connection, the request, and reading the whole response; from the page cache",
    "first response of a search: a new search, answered with the results of the first 60 ms while it continues in the \
     background; other pages are of a completed search",
    "memory: RssAnon of the server afterwards, with the graph of all tasks; peak: VmHWM including file pages, while that \
     graph was built; page: the script heap in chromium, if it is installed",
];

/// The configuration of the benchmark.
#[derive(Clone, Debug)]
pub struct ServeBenchConfig {
    /// The executable with the command line.
    pub program: PathBuf,
    /// Records of the dump, one for each task.
    pub records: u64,
    /// Requests of each kind.
    pub asks: u32,
    /// Folder on the disk to use; new files are removed afterwards.
    pub dir: PathBuf,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct ServeBenchReport {
    /// The machine.
    pub machine: Machine,
    /// Records of the dump.
    pub records: u64,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// Start of the server.
    pub start: ServeStart,
    /// By kind of request.
    pub cases: Vec<ServeCase>,
    /// Memory.
    pub memory: ServeMemory,
    /// Notes about the method.
    pub notes: [&'static str; 3],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum ServeBenchPart {
    /// First: the machine and its load average.
    Machine(Machine, Option<f64>),
    /// Next.
    Start(ServeStart),
    /// Next, several.
    Case(ServeCase),
    /// Last.
    Memory(ServeMemory),
}

/// Seconds since the start of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServeStart {
    /// Until the server prints its address.
    pub address_s: f64,
    /// Until the first page of records.
    pub first_rows_s: f64,
    /// Until tasks can be listed. Their graph is built in the background.
    pub tasks_s: f64,
}

/// Response times of one kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServeCase {
    /// The kind of request.
    pub what: &'static str,
    /// Number of requests.
    pub asked: u32,
    /// Median response time.
    pub median_s: f64,
    /// 99th percentile of the response times.
    pub p99_s: f64,
    /// Target of the median.
    pub target_s: f64,
    /// Whether the median meets it.
    pub met: bool,
}

/// Memory of the server and a page.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServeMemory {
    /// Anonymous memory of the server at the end.
    pub anonymous_bytes: u64,
    /// Peak resident memory of the server.
    pub peak_bytes: u64,
    /// Script heap of a page that lists the tasks; `None` without a browser.
    pub page_bytes: Option<u64>,
}

/// Measures everything.
pub fn serve(
    config: &ServeBenchConfig,
    watch: &dyn Watch<ServeBenchPart>,
) -> Result<ServeBenchReport, BenchError> {
    let scratch = Scratch::new(&config.dir)?;
    let (free, needed) = (scratch.free_bytes()?, config.records.saturating_mul(RECORD_BYTES));
    if needed > free {
        return Err(BenchError::NoRoom { needed, free, headroom: 0, dir: config.dir.clone() });
    }
    watch.expect(8);
    let (machine, load_average_before) = (Machine::read(), load_average());
    watch.part(ServeBenchPart::Machine(machine.clone(), load_average_before));
    watch.begin("writing a dump to serve".into());
    let dump = scratch.path("records");
    sample_dump::without_payload(&dump, config.records, || check(watch))?;
    watch.advance();
    let (server, start) = begin(config, &dump, watch)?;
    watch.part(ServeBenchPart::Start(start));
    let mut cases = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        check(watch)?;
        watch.begin(kind.what.into());
        let case = measure(config, &server, kind, number as u64, watch)?;
        watch.advance();
        watch.part(ServeBenchPart::Case(case));
        cases.push(case);
    }
    let memory = server.memory()?;
    watch.part(ServeBenchPart::Memory(memory));
    Ok(ServeBenchReport {
        machine,
        records: config.records,
        load_average_before,
        load_average_after: load_average(),
        start,
        cases,
        memory,
        notes: NOTES,
    })
}

/// Starts a server and waits until its background work is done.
fn begin(
    config: &ServeBenchConfig,
    dump: &std::path::Path,
    watch: &dyn Watch<ServeBenchPart>,
) -> Result<(Server, ServeStart), BenchError> {
    watch.begin("starting the server".into());
    let started = Instant::now();
    let server = Server::start(&config.program, dump)?;
    let address_s = started.elapsed().as_secs_f64();
    server.ask(&format!("/api/records?count={ROWS}"))?;
    let first_rows_s = started.elapsed().as_secs_f64();
    complete(&server, &format!("/api/tasks?count={ROWS}"), watch)?;
    let tasks_s = started.elapsed().as_secs_f64();
    watch.advance();
    Ok((server, ServeStart { address_s, first_rows_s, tasks_s }))
}

/// Repeats a request until the response is complete.
fn complete(server: &Server, path: &str, watch: &dyn Watch<ServeBenchPart>) -> Result<(), BenchError> {
    let until = Instant::now() + PATIENCE;
    while server.ask(path)?["complete"] != true {
        check(watch)?;
        if Instant::now() > until {
            return Err(server.failed("a list does not complete".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A kind of request.
struct Kind {
    what: &'static str,
    /// A list that is requested until it is complete, before the measurement.
    before: Option<&'static str>,
    /// The request, from a random number and the number of records.
    path: fn(u64, u64) -> String,
}

const KINDS: [Kind; 6] = [
    Kind {
        what: "records, a page anywhere",
        before: None,
        path: |random, records| format!("/api/records?from={}&count={ROWS}", random % records),
    },
    Kind {
        what: "search, first response",
        before: None,
        path: |random, records| {
            let from = random % records;
            format!("/api/records?q=func:add+index:{from}-{}&count={ROWS}", from + 1 + random % 100_000)
        },
    },
    Kind {
        what: "search, a page anywhere",
        before: Some("/api/records?q=func:add"),
        path: |random, records| {
            format!("/api/records?q=func:add&from={}&count={ROWS}", random % (records / 4).max(1))
        },
    },
    Kind {
        what: "sorted, a page anywhere",
        before: Some("/api/records?sort=-task_id"),
        path: |random, records| format!("/api/records?sort=-task_id&from={}&count={ROWS}", random % records),
    },
    Kind {
        what: "tasks, a page anywhere",
        before: None,
        path: |random, records| format!("/api/tasks?from={}&count={ROWS}", random % records),
    },
    Kind {
        what: "one task",
        before: None,
        path: |random, records| format!("/api/task?task={:#x}", random % records),
    },
];

fn measure(
    config: &ServeBenchConfig,
    server: &Server,
    kind: &Kind,
    seed: u64,
    watch: &dyn Watch<ServeBenchPart>,
) -> Result<ServeCase, BenchError> {
    if let Some(before) = kind.before {
        complete(server, before, watch)?;
    }
    // A xorshift generator with the same positions in every run.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (seed + 1);
    let mut took = Vec::new();
    for _ in 0..config.asks {
        check(watch)?;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let path = (kind.path)(state >> 8, config.records);
        let asked = Instant::now();
        server.ask(&path)?;
        took.push(asked.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    let at = |share: usize| took[(took.len() * share).div_ceil(100).clamp(1, took.len()) - 1];
    let (median_s, p99_s) = (at(50), at(99));
    let asked = config.asks;
    Ok(ServeCase { what: kind.what, asked, median_s, p99_s, target_s: TARGET_S, met: median_s < TARGET_S })
}

/// A running server. Dropping the value ends it.
struct Server {
    child: Child,
    program: String,
    port: u16,
    token: String,
}

impl Server {
    fn start(program: &std::path::Path, dump: &std::path::Path) -> Result<Server, BenchError> {
        let name = program.display().to_string();
        let failed = |said: String| BenchError::Program { program: name.clone(), said };
        let child = Command::new(program)
            .args(["serve", "--no-open", "--quiet"])
            .arg(dump)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut server = Server {
            child: child.map_err(|error| failed(error.to_string()))?,
            program: name.clone(),
            port: 0,
            token: String::new(),
        };
        let mut line = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        let address =
            line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split_once("/#token="));
        let (port, token) =
            address.ok_or_else(|| failed(format!("it printed no address: {}", line.trim())))?;
        server.port = port.parse().map_err(|_| failed(format!("it printed an invalid port: {port}")))?;
        token.clone_into(&mut server.token);
        Ok(server)
    }

    fn failed(&self, said: String) -> BenchError {
        BenchError::Program { program: self.program.clone(), said }
    }

    /// Sends a request and returns the JSON response.
    fn ask(&self, path: &str) -> Result<Value, BenchError> {
        let asked = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            let Server { port, token, .. } = self;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Tensortap-Token: {token}\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = asked().map_err(|error| self.failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&answer);
        let wrong = || {
            self.failed(format!(
                "unexpected response to {path}: {}",
                text.lines().next().unwrap_or("nothing")
            ))
        };
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(wrong)?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(wrong());
        }
        serde_json::from_str(body).map_err(|_| wrong())
    }

    fn memory(&self) -> Result<ServeMemory, BenchError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|error| self.failed(error.to_string()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
            kib.map_or(0, |kib| kib << 10)
        };
        let page_bytes = self.page_bytes();
        Ok(ServeMemory { anonymous_bytes: field("RssAnon:"), peak_bytes: field("VmHWM:"), page_bytes })
    }

    /// The script heap, which the page reports after a browser has shown it.
    fn page_bytes(&self) -> Option<u64> {
        let address = format!("http://127.0.0.1:{}/#token={}", self.port, self.token);
        let shown = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--enable-precise-memory-info", "--virtual-time-budget=8000", "--dump-dom", &address])
            .stderr(Stdio::null())
            .output();
        let page = String::from_utf8(shown.ok()?.stdout).ok()?;
        let heap = page.split_once("data-heap-bytes=\"")?.1;
        heap.split('"').next()?.parse().ok().filter(|_| page.contains("aria-rowindex"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
