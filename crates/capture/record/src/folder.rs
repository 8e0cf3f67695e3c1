//! Sessions without a recorder: a thread of this process writes the dump.

use std::{
    path::Path,
    thread::{Builder, JoinHandle},
    time::{Duration, SystemTime},
};

use tensortap_abi::{DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_collector::{
    ANY_MEMORY, CollectError, CollectEvent, Collection, CollectorOptions, DeviceRegion, DumpSetup, RunEnd,
    write_to_process,
};
use tensortap_format::{DumpWriter, RunInfo, Status, choose_dir, timestamp};
use tensortap_platform::{
    LINK_PAGE_BYTES,
    attach::{AttachedProcess, Attachment, ProcessEvent, within_this_process},
};

pub use tensortap_collector::Summary;

use crate::{RecordError, core::say};

/// Options of a session with its own folder. The default records every task without loss.
#[derive(Clone, Copy, Debug)]
pub struct FolderOptions {
    /// The dump level.
    pub level: DumpLevel,
    /// What to do if an arena is full.
    pub policy: DumpPolicy,
    /// The filter of tasks and arguments.
    pub filter: DumpFilter,
    /// Sizes of the memory between threads and collector. Unused pages cost nothing.
    pub geometry: DumpGeometry,
    /// Inactivity of the collector thread after which recording threads stop waiting for it.
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

/// Interval at which the collector thread checks the session if nothing wakes it.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until the dump is complete, after the session's goodbye.
pub(crate) type FinishDump = Box<dyn FnOnce() -> Result<Summary, RecordError> + Send>;

/// Creates the dump and starts the collector thread.
pub(crate) fn start(dir: &Path, options: &FolderOptions) -> Result<(Attachment, FinishDump), RecordError> {
    let &FolderOptions { level, policy, filter, geometry, liveness } = options;
    let collector = CollectorOptions { liveness, ..CollectorOptions::new(geometry, 0, ANY_MEMORY) };
    let setup = DumpSetup::new(std::process::id(), level, policy, filter, collector);
    let region = setup.process_region().map_err(RecordError::Setup)?;
    let prepare = |memory: &dyn tensortap_platform::DeviceAccess| write_to_process(&region, memory);
    let bytes = LINK_PAGE_BYTES + geometry.bytes();
    let (attached, attachment) =
        within_this_process(bytes, setup.run_id(), prepare).map_err(RecordError::Attach)?;

    let folder = |source| RecordError::Folder { dir: dir.to_owned(), source };
    let claimed = choose_dir(Some(dir), Path::new(""), setup.started()).map_err(folder)?;
    let writer = DumpWriter::create(&claimed, &run_info(&setup)).map_err(folder)?;
    let listener = Box::new(|event: CollectEvent<'_>| say(&event.to_string()));
    let collection = setup.collect_process(attached.access(), writer, listener).map_err(failed)?;
    let thread = Builder::new().name("tt-folder".to_owned()).spawn(move || collect(&attached, collection));
    let thread =
        thread.map_err(|error| failed(CollectError::Thread(format!("could not be started: {error}"))))?;
    Ok((attachment, Box::new(|| finish(thread))))
}

fn failed(error: CollectError) -> RecordError {
    RecordError::Collect(Box::new(error))
}

fn finish(thread: JoinHandle<Result<Summary, CollectError>>) -> Result<Summary, RecordError> {
    let joined = thread.join().unwrap_or_else(|_| {
        Err(CollectError::Thread(
            "has panicked; the dump is readable up to its last complete frame".to_owned(),
        ))
    });
    joined.map_err(failed)
}

fn collect(
    process: &AttachedProcess,
    collection: Collection<DeviceRegion, DumpWriter>,
) -> Result<Summary, CollectError> {
    loop {
        match process.wait(LOOK) {
            Ok(ProcessEvent::Woken) => collection.notify(),
            Ok(ProcessEvent::TimedOut) => {}
            Ok(ProcessEvent::Goodbye | ProcessEvent::Ended | ProcessEvent::ProtocolError) | Err(_) => break,
        }
    }
    let finished_at = Some(timestamp(SystemTime::now()));
    collection.finish(&RunEnd { finished_at, ..RunEnd::new(Status::Complete) })
}

fn run_info(setup: &DumpSetup) -> RunInfo {
    let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    setup.process_info(program.trim_end())
}
