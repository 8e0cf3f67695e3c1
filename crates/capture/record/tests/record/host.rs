//! A recorder in a thread of the test.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{JoinHandle, spawn},
    time::Duration,
};

use tempfile::TempDir;
use tensortap_abi::{DeviceRange, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_collector::{
    ANY_MEMORY, Collection, Collector, CollectorOptions, DeviceRegion, RunEnd, Summary,
};
use tensortap_format::{Dump, DumpWriter, RunInfo, Status, verify};
use tensortap_platform::{
    LINK_PAGE_BYTES,
    attach::{AttachListener, AttachedProcess, Hello, ProcessEvent},
};
use tensortap_record::Session;
use tensortap_recorder::{SetupOptions, setup_bytes};
use tensortap_sync::Flag;

pub const LONG: Duration = Duration::from_secs(60);
const RUN_ID: u64 = 0x5eed;

/// Settings of a host.
#[derive(Clone, Copy)]
pub struct Kind {
    pub geometry: DumpGeometry,
    pub level: DumpLevel,
    pub filter: DumpFilter,
    pub liveness_ms: u64,
}

pub const PLAIN: Kind = Kind {
    geometry: DumpGeometry { lanes: 4, buffers: 3, records: 16, arena_bytes: 64 << 10 },
    level: DumpLevel::Full,
    filter: DumpFilter::ALL,
    liveness_ms: 30_000,
};

/// A process has one attachment at a time, but tests run in parallel.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Host {
    dir: TempDir,
    serving: JoinHandle<Option<Summary>>,
    hello: mpsc::Receiver<Hello>,
    /// While raised, nothing is collected.
    pub stalled: Arc<Flag>,
    die: Arc<Flag>,
    alone: MutexGuard<'static, ()>,
}

impl Host {
    pub fn new(kind: Kind) -> Host {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let listener = AttachListener::bind(&dir.path().join("socket")).unwrap();
        let (stalled, die) = (Arc::new(Flag::new()), Arc::new(Flag::new()));
        let (said, hello) = mpsc::channel();
        let (path, flags) = (dir.path().join("dump"), (stalled.clone(), die.clone()));
        let serving = spawn(move || {
            let mut caller = listener.accept(LONG).unwrap().unwrap();
            said.send(caller.hello(LONG).unwrap()).unwrap();
            let setup = SetupOptions {
                base: LINK_PAGE_BYTES,
                run_id: RUN_ID,
                level: kind.level,
                policy: DumpPolicy::Block,
                collect: DumpCollect::Live,
                liveness_ms: kind.liveness_ms,
                filter: kind.filter,
                of_process: true,
            };
            let setup = setup_bytes(kind.geometry, &setup).unwrap();
            let bytes = LINK_PAGE_BYTES + kind.geometry.bytes();
            let process = caller.welcome(bytes, RUN_ID, |memory| {
                setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
            });
            serve(&process.unwrap(), kind, &path, &flags.0, &flags.1)
        });
        Host { dir, serving, hello, stalled, die, alone }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub fn session(&self) -> Session {
        Session::attach_to(&self.socket()).unwrap()
    }

    pub fn hello(&self) -> Hello {
        self.hello.recv_timeout(LONG).unwrap()
    }

    /// Ends without a goodbye, like a killed recorder. Close the session before dropping the returned guard;
    /// otherwise other tests attach to it.
    pub fn die(self) -> MutexGuard<'static, ()> {
        self.die.raise();
        assert!(self.serving.join().unwrap().is_none());
        self.alone
    }

    /// The dump, after the session was closed. Checks that it verifies.
    pub fn dump(self) -> (TempDir, Dump, Summary) {
        let _alone = self.alone;
        let summary = self.serving.join().unwrap().expect("it did not die");
        let dump = Dump::open(&self.dir.path().join("dump")).unwrap();
        let findings = verify(&dump).unwrap();
        assert!(findings.is_ok(), "{:#?}", findings.problems);
        (self.dir, dump, summary)
    }
}

fn serve(
    process: &AttachedProcess,
    kind: Kind,
    path: &std::path::Path,
    stalled: &Flag,
    die: &Flag,
) -> Option<Summary> {
    let range = DeviceRange { addr: LINK_PAGE_BYTES, bytes: kind.geometry.bytes() };
    let region = DeviceRegion::new(process.access(), range).unwrap();
    let info = RunInfo { run_id: RUN_ID, dump_level: kind.level as u32, ..RunInfo::default() };
    let writer = DumpWriter::create(path, &info).unwrap();
    let options = CollectorOptions::new(kind.geometry, RUN_ID, ANY_MEMORY);
    let mut collector = Some(Collector::new(region, writer, &options, Box::new(|_| {})).unwrap());
    let mut collection = None;
    loop {
        if die.is_raised() {
            return None;
        }
        // A stalled host has not started to collect.
        if collection.is_none() && !stalled.is_raised() {
            collection = collector.take().map(|collector| Collection::start(collector).unwrap());
        }
        match process.wait(Duration::from_millis(5)).unwrap() {
            ProcessEvent::Goodbye => break,
            ProcessEvent::Woken => {
                if let Some(collection) = &collection {
                    collection.notify();
                }
            }
            ProcessEvent::TimedOut => {}
            news => panic!("{news:?}"),
        }
    }
    let end = RunEnd::new(Status::Complete);
    Some(match (collection, collector) {
        (Some(collection), _) => collection.finish(&end).unwrap(),
        (None, collector) => collector.unwrap().finish(&end).unwrap(),
    })
}
