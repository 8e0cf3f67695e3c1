//! A recorder of programs in threads of the test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    thread::{JoinHandle, spawn},
    time::Duration,
};

use tempfile::TempDir;
use tensortap_abi::{DeviceRange, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_collector::{Collection, Collector, CollectorOptions, DeviceRegion, RunEnd, Summary};
use tensortap_format::{Dump, DumpWriter, RunInfo, Status, verify};
use tensortap_platform::{
    LINK_PAGE_BYTES,
    attach::{AttachListener, AttachedProcess, Caller, ProcessEvent, RecordingErrors},
};
use tensortap_recorder::{SetupOptions, setup_bytes};

use crate::compile::{installed, library};

const LONG: Duration = Duration::from_secs(60);
const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 8, buffers: 4, records: 32, arena_bytes: 64 << 10 };

/// The recording of one process.
pub struct RecordedProcess {
    pub pid: u32,
    pub dir: PathBuf,
    pub summary: Summary,
    pub said_goodbye: bool,
    pub complaints: RecordingErrors,
}

impl RecordedProcess {
    /// Its dump. Checks that it verifies.
    pub fn dump(&self) -> Dump {
        let dump = Dump::open(&self.dir).unwrap();
        let findings = verify(&dump).unwrap();
        assert!(findings.is_ok(), "{:#?}", findings.problems);
        assert_eq!(self.summary.counters.corrupt_records, 0);
        dump
    }
}

/// Runs a program like `tensortap record`, until it and every attached process have ended.
pub fn record(program: &Path, args: &[&str], dies: bool) -> (TempDir, Output, Vec<RecordedProcess>) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let listener = AttachListener::bind(&socket).unwrap();
    let child = Command::new(program)
        .args(args)
        .env("TENSORTAP_SOCKET", &socket)
        .env("TENSORTAP_LIBRARY", library())
        .env("LD_LIBRARY_PATH", installed())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let root = Arc::new(dir.path().to_owned());
    let (done, waiting) = std::sync::mpsc::channel();
    let waiter = spawn(move || {
        let output = child.wait_with_output().unwrap();
        let _ = done.send(());
        output
    });
    let mut serving: Vec<JoinHandle<Option<RecordedProcess>>> = Vec::new();
    while waiting.try_recv().is_err() {
        if let Some(caller) = listener.accept(Duration::from_millis(10)).unwrap() {
            let root = root.clone();
            serving.push(spawn(move || serve(caller, &root, dies)));
        }
    }
    let output = waiter.join().unwrap();
    let recorded = serving.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    (dir, output, recorded)
}

fn serve(mut caller: Caller, root: &Path, dies: bool) -> Option<RecordedProcess> {
    let pid = caller.pid();
    caller.hello(LONG).unwrap();
    let setup = SetupOptions {
        base: LINK_PAGE_BYTES,
        run_id: pid.into(),
        level: DumpLevel::Full,
        policy: DumpPolicy::Block,
        collect: DumpCollect::Live,
        liveness_ms: 30_000,
        filter: DumpFilter::ALL,
        of_process: true,
    };
    let setup = setup_bytes(GEOMETRY, &setup).unwrap();
    let process = caller
        .welcome(LINK_PAGE_BYTES + GEOMETRY.bytes(), pid.into(), |memory| {
            setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
        })
        .unwrap();
    if dies {
        // Exits without a goodbye and without collecting anything.
        assert_eq!(process.wait(LONG).unwrap(), ProcessEvent::Woken);
        return None;
    }
    Some(collect(&process, pid, root.join(pid.to_string())))
}

fn collect(process: &AttachedProcess, pid: u32, dir: PathBuf) -> RecordedProcess {
    let range = DeviceRange { addr: LINK_PAGE_BYTES, bytes: GEOMETRY.bytes() };
    let region = DeviceRegion::new(process.access(), range).unwrap();
    let info = RunInfo { run_id: pid.into(), dump_level: 2, ..RunInfo::default() };
    let writer = DumpWriter::create(&dir, &info).unwrap();
    let any = DeviceRange { addr: 0, bytes: u64::MAX };
    let options = CollectorOptions::new(GEOMETRY, pid.into(), any);
    let collector = Collector::new(region, writer, &options, Box::new(|event| eprintln!("{event}"))).unwrap();
    let collection = Collection::start(collector).unwrap();
    let said_goodbye = loop {
        match process.wait(LONG).unwrap() {
            ProcessEvent::Woken => collection.notify(),
            ProcessEvent::TimedOut => {}
            ProcessEvent::Goodbye => break true,
            ProcessEvent::Ended => break false,
            ProcessEvent::ProtocolError => panic!("protocol error of process {pid}"),
        }
    };
    let summary = collection.finish(&RunEnd::new(Status::Complete)).unwrap();
    RecordedProcess { pid, dir, summary, said_goodbye, complaints: process.recording_errors().unwrap() }
}
