//! Stray writes into the dump region of a run: the run ends, and its dump opens.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tensortap::abi::{DUMP_MAGIC, DumpBufferHeader, DumpBufferState, DumpGeometry, DumpSetupHeader};
use tensortap::format::{self, Dump};

use crate::common::{count_run, executable};

/// Time limit; such runs take a second or two.
const LIMIT: Duration = Duration::from_secs(60);
const MEMORY_BYTES: u64 = 64 << 20;

fn start(platform: &str, out: &Path) -> Child {
    count_run();
    Command::new(executable())
        .args(["run", "stream", "--param", "tasks=1200", "--param", "bytes=8192", "--blocks", "1"])
        .args(["--ring-slots", "256"])
        .args(["--dump-tensor", "--no-dedup", "--dump-liveness", "200ms", "--platform", platform])
        .args(["--dump-arena", "64KiB", "--dump-buffers", "3", "--dump-records", "8"])
        .args(["--device-memory", "64MiB", "--quiet", "--json", "--out"])
        .arg(out)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts")
}

/// The device memory of a running host, and the address of its dump region.
struct Region {
    memory: File,
    base: u64,
    geometry: DumpGeometry,
}

impl Region {
    /// Finds the region by its header, once it exists.
    fn find(host: u32) -> Option<Region> {
        let files = std::fs::read_dir(format!("/proc/{host}/fd")).ok()?.flatten().map(|entry| entry.path());
        let is_memory = |path: &Path| {
            std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"))
        };
        let path = files.into_iter().find(|path| is_memory(path))?;
        let memory = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let word = |at| -> Option<u32> {
            let mut bytes = [0; 4];
            memory.read_exact_at(&mut bytes, at).ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let base = (0..MEMORY_BYTES).step_by(4096).find(|&at| word(at) == Some(DUMP_MAGIC))?;
        let field = |offset: usize| word(base + offset as u64);
        let geometry = DumpGeometry {
            lanes: field(offset_of!(DumpSetupHeader, lane_count))?,
            buffers: field(offset_of!(DumpSetupHeader, buffers_per_lane))?,
            records: field(offset_of!(DumpSetupHeader, records_per_buffer))?,
            arena_bytes: field(offset_of!(DumpSetupHeader, arena_bytes))?.into(),
        };
        Some(Region { memory, base, geometry })
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, self.base + offset).expect("it is memory");
    }

    /// Writes a word, or several, into every lane's state.
    fn scribble_states(&self, field: usize, bytes: &[u8]) {
        for lane in 0..u64::from(self.geometry.lanes) {
            let state = self.geometry.states_offset() + lane * size_of::<DumpBufferState>() as u64;
            self.write(state + field as u64, bytes);
        }
    }

    fn scribble_buffers(&self, field: usize, bytes: &[u8]) {
        for buffer in 0..u64::from(self.geometry.lanes) * u64::from(self.geometry.buffers) {
            let header = self.geometry.buffers_offset() + buffer * self.geometry.buffer_bytes();
            self.write(header + field as u64, bytes);
        }
    }
}

type Scribble = fn(&Region, &[u8; 8]);

/// Overwrites everything that host and device exchange.
const SCRIBBLES: [(&str, Scribble); 13] = [
    ("current_buffer", |region, word| {
        region.scribble_states(offset_of!(DumpBufferState, current_buffer), word);
    }),
    ("write_cursor", |region, word| region.scribble_states(offset_of!(DumpBufferState, write_cursor), word)),
    ("ready_pushed", |region, word| region.scribble_states(offset_of!(DumpBufferState, ready_pushed), word)),
    ("free_popped", |region, word| region.scribble_states(offset_of!(DumpBufferState, free_popped), word)),
    ("leases", |region, word| region.scribble_states(offset_of!(DumpBufferState, leases), word)),
    ("waits", |region, word| region.scribble_states(offset_of!(DumpBufferState, waits), word)),
    ("consumed_cursor", |region, word| {
        region.scribble_states(offset_of!(DumpBufferState, consumed_cursor), word);
    }),
    ("ready_popped", |region, word| region.scribble_states(offset_of!(DumpBufferState, ready_popped), word)),
    ("free_pushed", |region, word| region.scribble_states(offset_of!(DumpBufferState, free_pushed), word)),
    ("whole states", |region, word| {
        region.scribble_states(0, &word.repeat(size_of::<DumpBufferState>() / 8));
    }),
    ("queues", |region, word| {
        let bytes = u64::from(region.geometry.lanes) * region.geometry.queue_bytes();
        region.write(
            region.geometry.queues_offset(),
            &word.repeat(usize::try_from(bytes).expect("it is in memory") / 8),
        );
    }),
    ("committed", |region, word| region.scribble_buffers(offset_of!(DumpBufferHeader, committed), word)),
    ("headers", |region, word| {
        region.scribble_buffers(0, &word.repeat(size_of::<DumpBufferHeader>() / 8));
    }),
];

/// Scribbles into a run that has dumped some records, and waits for its end.
fn scribble_and_wait(platform: &str, scribble: Scribble, word: u64, out: &Path) {
    let mut run = start(platform, out);
    let began = Instant::now();
    let dumped = || std::fs::metadata(out.join("tensor_dump.idx")).map_or(0, |file| file.len());
    while dumped() < 60_000 && run.try_wait().expect("it can be asked").is_none() {
        assert!(began.elapsed() < LIMIT, "it dumps nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let region = Region::find(run.id()).expect("it still runs");
    // Repeatedly, so that it also hits moments when a side waits.
    for _ in 0..50 {
        scribble(&region, &word.to_le_bytes());
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(region);
    let scribbled = Instant::now();
    while run.try_wait().expect("it can be asked").is_none() {
        if scribbled.elapsed() > LIMIT {
            run.kill().expect("it can be killed");
            run.wait().expect("it scribble_and_wait");
            panic!("the run hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn every_scribble(platform: &str, words: [u64; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    for (turn, (what, scribble)) in SCRIBBLES.into_iter().enumerate() {
        let word = words[turn % 2];
        let out = folder.path().join(format!("dump-{turn}"));
        println!("{platform}: {what} = {word:#x}");
        scribble_and_wait(platform, scribble, word, &out);
        let dump = Dump::open(&out).unwrap_or_else(|error| panic!("{what}: it does not open: {error}"));
        assert!(dump.len() > 100, "{what}: records committed before are missing: {}", dump.len());
        let verdict = format::verify(&dump).expect("readable");
        assert!(verdict.is_ok(), "{what}: {:?}", verdict.problems.first());
        std::fs::remove_dir_all(&out).expect("removable");
    }
}

#[test]
fn a_run_ends_after_any_write_into_its_region_on_a2a3sim() {
    every_scribble("a2a3sim", [0, 3]);
}

#[test]
fn a_run_ends_after_any_write_into_its_region_on_a5sim() {
    every_scribble("a5sim", [u64::MAX, 0]);
}
