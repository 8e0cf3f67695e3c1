//! What every dump of this crate needs, of a scene's run or of a recorded process: settings, files, warnings.

use std::path::Path;

use tensortap_abi::{DeviceRange, DumpFilter, DumpGeometry};
use tensortap_collector::{CollectEvent, CollectorOptions, DumpSetup, Listener, PayloadPath};
use tensortap_format::{DumpWriter, FormatError, INDEX_FILE, RunInfo, WriterOptions};

use crate::{DumpConfig, Warn};

/// Folder for dumps if the user names none.
pub const OUTPUTS: &str = "outputs";

/// A dump with these options that starts now. The geometry and the device memory may be set later. `process` is
/// the process that records or is recorded.
pub fn dump_setup(
    config: &DumpConfig,
    process: u32,
    geometry: DumpGeometry,
    filter: DumpFilter,
) -> DumpSetup {
    let mut collector = CollectorOptions::new(geometry, 0, DeviceRange::default());
    collector.collect = config.collect;
    collector.sync = config.sync;
    collector.liveness = config.liveness;
    if !config.dedup {
        collector.dedup_entries = 0;
    }
    collector.payload_path = config.write;
    (collector.writers, collector.files) = (config.writers, config.files);
    if config.live.is_some() {
        // Most payloads are removed before they reach the disk.
        collector.payload_path = PayloadPath::Buffered;
        (collector.writers, collector.files) = (1, 1);
        if config.last.is_some() {
            // The task window does not know which payloads the waiting records refer to.
            collector.dedup_entries = 0;
        }
    }
    DumpSetup::new(process, config.level, config.policy, filter, collector)
}

/// Creates the files of a dump.
pub fn dump_writer(config: &DumpConfig, dir: &Path, info: &RunInfo) -> Result<DumpWriter, FormatError> {
    let options = WriterOptions { keep_last_tasks: config.last, sync: config.sync };
    DumpWriter::create_with(dir, info, options)
}

/// Removes the files of an empty dump. A folder with other files is not removed.
pub fn remove_empty_dump(dir: &Path) {
    let _ = std::fs::remove_file(dir.join(INDEX_FILE));
    let _ = std::fs::remove_dir(dir);
}

/// A listener that passes events to the user.
pub fn listener(warn: Option<Warn>) -> Listener {
    Box::new(move |event: CollectEvent<'_>| {
        if let Some(warn) = &warn {
            warn(&in_words(&event));
        }
    })
}

/// The text of an event for the user.
fn in_words(event: &CollectEvent<'_>) -> String {
    match event {
        CollectEvent::WriteFailed(error) => format!("{error}; the run continues without its dump"),
        CollectEvent::LaneEnded(error) => format!("{error}; later records of this lane are lost"),
        CollectEvent::CorruptRecord { lane, seq, fault } => {
            format!("record {seq} of lane {lane} is damaged and skipped: {fault}")
        }
        other => other.to_string(),
    }
}

/// Size of all files in a dump's folder. Files that cannot be read count as zero.
pub fn folder_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}
