//! Shared test setup: a region, a folder, and a collector between them.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use tempfile::TempDir;
use tensortap_abi::{DumpBufferState, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_collector::{Collector, CollectorOptions, Listener, RunEnd, Sink, Summary};
use tensortap_format::{Dump, DumpWriter, RunInfo, Status, WriterOptions, verify};
use tensortap_recorder::{SetupOptions, setup_bytes};

use crate::{RegionMemory, device::FakeLane, testing::TestMemory};

pub const RUN_ID: u64 = 0x5eed;

/// Bytes for tensors after the region.
pub const TENSOR_BYTES: u64 = 4 << 20;

/// Small, so that everything wraps soon.
pub const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 2, buffers: 3, records: 4, arena_bytes: 64 << 10 };

pub struct Rig {
    pub memory: TestMemory,
    pub options: CollectorOptions,
    pub dir: TempDir,
    pub setup: SetupOptions,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    pub fn new(geometry: DumpGeometry, mapped: bool) -> Rig {
        let memory = TestMemory::new(geometry.bytes() + TENSOR_BYTES, mapped);
        let setup = SetupOptions {
            base: memory.range().addr,
            run_id: RUN_ID,
            level: DumpLevel::Full,
            policy: DumpPolicy::Block,
            collect: DumpCollect::Live,
            liveness_ms: 30_000,
            filter: DumpFilter::ALL,
            of_process: false,
        };
        // With several writers, because every property must hold with them too; command line runs use one.
        let options =
            CollectorOptions { writers: 2, ..CollectorOptions::new(geometry, RUN_ID, memory.range()) };
        let rig = Rig { memory, options, dir: TempDir::new().unwrap(), setup, heard: Arc::default() };
        rig.set_up();
        rig
    }

    pub fn set_up(&self) {
        let mut setup = setup_bytes(self.options.geometry, &self.setup).unwrap();
        setup.state.arena_limit = self.options.arena.start;
        setup.try_write(|offset, bytes| self.memory.write(offset, bytes)).unwrap();
    }

    pub fn batch(geometry: DumpGeometry) -> Rig {
        let mut rig = Rig::new(geometry, true);
        rig.setup.collect = DumpCollect::Batch;
        rig.options.collect = DumpCollect::Batch;
        rig.set_up();
        rig
    }

    pub fn dump_dir(&self) -> PathBuf {
        self.dir.path().join("dump")
    }

    pub fn writer(&self, options: WriterOptions) -> DumpWriter {
        let info = RunInfo { run_id: RUN_ID, ..RunInfo::default() };
        DumpWriter::create_with(&self.dump_dir(), &info, options).unwrap()
    }

    pub fn collector(&self) -> Collector<TestMemory, DumpWriter> {
        self.collector_with(self.writer(WriterOptions::default()))
    }

    pub fn collector_with<S: Sink>(&self, sink: S) -> Collector<TestMemory, S> {
        Collector::new(self.memory.clone(), sink, &self.options, self.listener()).unwrap()
    }

    pub fn listener(&self) -> Listener {
        let heard = self.heard.clone();
        Box::new(move |event| heard.lock().unwrap().push(format!("{event:?}")))
    }

    /// Events so far, as text.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    pub fn lane(&self, lane: u32) -> FakeLane {
        FakeLane::new(self.memory.clone(), self.options.geometry, lane, self.options.run_id)
    }

    pub fn state(&self, lane: u32, field: usize) -> u64 {
        let index = u64::from(lane) * size_of::<DumpBufferState>() as u64;
        self.memory.read_u64(self.options.geometry.states_offset() + index + field as u64).unwrap()
    }

    pub fn dump(&self) -> Dump {
        Dump::open(&self.dump_dir()).unwrap()
    }

    /// Opens the dump and checks all of it.
    pub fn verified(&self) -> Dump {
        let dump = self.dump();
        let verdict = verify(&dump).unwrap();
        assert!(verdict.is_ok(), "{:#?}", verdict.problems);
        dump
    }
}

pub fn finish<S: Sink>(collector: Collector<TestMemory, S>) -> Summary {
    collector.finish(&RunEnd::new(Status::Complete)).unwrap()
}

/// Bytes that differ for every seed.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}
