//! A session that needs no recorder: a thread of this process collects into a folder.

use std::{
    path::Path,
    thread::{Builder, JoinHandle},
    time::{Duration, SystemTime},
};

use tensortap_abi::{DeviceRange, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_collector::{
    CollectError, CollectEvent, Collection, Collector, CollectorOptions, DeviceRegion, RunEnd, Summary,
};
use tensortap_format::{
    DumpWriter, HOST_PLATFORM, RECORD_RUNTIME, RunInfo, Status, choose_dir, monotonic_ns, timestamp,
};
use tensortap_platform::{
    LINK_PAGE_BYTES,
    attach::{AttachedProcess, Attachment, ProcessNews, within_this_process},
};
use tensortap_recorder::{SetupOptions, setup_bytes};

use crate::{RecordError, core::say};

/// Where tensors of such a program may lie: anywhere. Their addresses are its own, or those of devices that it uses.
pub const ANY_MEMORY: DeviceRange = DeviceRange { addr: 0, bytes: u64::MAX };

/// How a session records into a folder of its own. [`FolderOptions::default`] is every task, without loss.
#[derive(Clone, Copy, Debug)]
pub struct FolderOptions {
    /// How much is recorded.
    pub level: DumpLevel,
    /// What a full arena does.
    pub policy: DumpPolicy,
    /// What passes.
    pub filter: DumpFilter,
    /// Sizes of the memory through which it goes. Pages that nobody touches cost nothing.
    pub geometry: DumpGeometry,
    /// Stillness of the collecting thread after which nobody waits for it.
    pub liveness: Duration,
}

impl Default for FolderOptions {
    fn default() -> FolderOptions {
        FolderOptions {
            level: DumpLevel::Full,
            policy: DumpPolicy::Block,
            filter: DumpFilter::ALL,
            geometry: DumpGeometry { lanes: 64, buffers: 8, records: 256, arena_bytes: 4 << 20 },
            liveness: Duration::from_secs(30),
        }
    }
}

/// How often the collecting thread looks whether the session still lasts, if nobody wakes it.
const LOOK: Duration = Duration::from_secs(1);

/// The thread that collects.
pub(crate) struct Collecting(JoinHandle<Result<Summary, CollectError>>);

impl Collecting {
    /// What came of it, after a goodbye.
    pub fn finish(self) -> Result<Summary, CollectError> {
        self.0.join().unwrap_or_else(|_| {
            Err(CollectError::Thread("has panicked; the dump is readable up to its last frame".to_owned()))
        })
    }
}

/// Creates the files, and starts to collect into them.
pub(crate) fn start(dir: &Path, options: &FolderOptions) -> Result<(Attachment, Collecting), RecordError> {
    let &FolderOptions { level, policy, filter, geometry, liveness } = options;
    let started = SystemTime::now();
    let run_id = run_id(started);
    let setup = SetupOptions {
        base: LINK_PAGE_BYTES,
        run_id,
        level,
        policy,
        collect: DumpCollect::Live,
        liveness_ms: u64::try_from(liveness.as_millis()).unwrap_or(u64::MAX),
        filter,
        of_process: true,
    };
    let setup = setup_bytes(geometry, &setup).map_err(RecordError::Setup)?;
    let prepare = |memory: &dyn tensortap_platform::DeviceAccess| {
        setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
    };
    let (attached, attachment) = within_this_process(LINK_PAGE_BYTES + geometry.bytes(), run_id, prepare)
        .map_err(RecordError::Attach)?;

    let folder = |source| RecordError::Folder { dir: dir.to_owned(), source };
    let claimed = choose_dir(Some(dir), Path::new(""), started).map_err(folder)?;
    let writer = DumpWriter::create(&claimed, &run_info(options, run_id, started)).map_err(folder)?;
    let range = DeviceRange { addr: LINK_PAGE_BYTES, bytes: geometry.bytes() };
    let region = DeviceRegion::new(attached.access(), range).expect("it was made of this size");
    let collector_options =
        CollectorOptions { liveness, ..CollectorOptions::new(geometry, run_id, ANY_MEMORY) };
    let listener = Box::new(|event: CollectEvent<'_>| say(&event.to_string()));
    let collector =
        Collector::new(region, writer, &collector_options, listener).map_err(RecordError::Collect)?;
    let collection = Collection::start(collector).map_err(RecordError::Collect)?;
    let thread = Builder::new().name("tt-folder".to_owned()).spawn(move || collect(&attached, collection));
    let thread = thread.map_err(|error| CollectError::Thread(format!("could not be started: {error}")));
    Ok((attachment, Collecting(thread.map_err(RecordError::Collect)?)))
}

fn collect(
    process: &AttachedProcess,
    collection: Collection<DeviceRegion, DumpWriter>,
) -> Result<Summary, CollectError> {
    loop {
        match process.wait(LOOK) {
            Ok(ProcessNews::Woken) => collection.notify(),
            Ok(ProcessNews::Nothing) => {}
            Ok(ProcessNews::Goodbye | ProcessNews::Ended | ProcessNews::Strange) | Err(_) => break,
        }
    }
    let finished_at = Some(timestamp(SystemTime::now()));
    collection.finish(&RunEnd { finished_at, ..RunEnd::new(Status::Complete) })
}

fn run_info(options: &FolderOptions, run_id: u64, started: SystemTime) -> RunInfo {
    let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    RunInfo {
        run_id,
        started_at: timestamp(started),
        started_monotonic_ns: monotonic_ns().to_string(),
        platform: HOST_PLATFORM.into(),
        runtime: RECORD_RUNTIME.into(),
        scene: program.trim_end().into(),
        dump_level: options.level as u32,
        dump_policy: match options.policy {
            DumpPolicy::Block => "block".into(),
            DumpPolicy::Drop => "drop".into(),
        },
        ..RunInfo::default()
    }
}

/// Tells one run from another, also of two processes in the same moment.
fn run_id(started: SystemTime) -> u64 {
    let since = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() << 32 ^ u64::from(since.subsec_nanos()) << 2 ^ u64::from(std::process::id())
}
