//! What every dump needs, of a scene's run or of a program's process: how its region is used, how it is collected, when it began.

use std::path::Path;
use std::time::SystemTime;

use tensortap_abi::{DeviceRange, DumpFilter, DumpGeometry};
use tensortap_collector::{CollectEvent, CollectorOptions, Listener, PayloadPath};
use tensortap_format::monotonic_ns;
use tensortap_recorder::SetupOptions;

use crate::{DumpConfig, Warn};

/// Folder for dumps when none is named.
pub const OUTPUTS: &str = "outputs";

/// How a device uses its region; where the region lies is the platform's to say.
pub fn setup_options(config: &DumpConfig, run_id: u64, filter: DumpFilter) -> SetupOptions {
    SetupOptions {
        base: 0,
        run_id,
        level: config.level,
        policy: config.policy,
        collect: config.collect,
        liveness_ms: u64::try_from(config.liveness.as_millis()).unwrap_or(u64::MAX),
        filter,
        of_process: false,
    }
}

/// How a region is collected; what device memory there is, is not known yet.
pub fn collector_options(config: &DumpConfig, geometry: DumpGeometry, run_id: u64) -> CollectorOptions {
    let mut options = CollectorOptions::new(geometry, run_id, DeviceRange::default());
    options.collect = config.collect;
    options.sync = config.sync;
    options.liveness = config.liveness;
    if !config.dedup {
        options.dedup_entries = 0;
    }
    options.payload_path = config.write;
    options.writers = config.writers;
    if config.live.is_some() {
        // Most are gone before they reach the disk.
        options.payload_path = PayloadPath::Buffered;
        options.writers = 1;
        if config.last.is_some() {
            // The window of tasks does not know which payloads records that wait refer to.
            options.dedup_entries = 0;
        }
    }
    options
}

/// Passes on what is to be heard at once.
pub fn listener(warn: Option<Warn>) -> Listener {
    Box::new(move |event: CollectEvent<'_>| {
        if let Some(warn) = &warn {
            warn(&in_words(&event));
        }
    })
}

/// What the user should hear at once.
fn in_words(event: &CollectEvent<'_>) -> String {
    match event {
        CollectEvent::WriteFailed(error) => format!("{error}; the run goes on without its dump"),
        CollectEvent::LaneEnded(error) => format!("{error}; what is recorded in it from here on is lost"),
        CollectEvent::CorruptRecord { lane, seq, fault } => {
            format!("record {seq} of lane {lane} is damaged and left out: {fault}")
        }
        other => other.to_string(),
    }
}

/// Unique enough to tell runs of one machine apart.
pub fn run_id(started: SystemTime) -> u64 {
    let nanos = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    u64::try_from(nanos & u128::from(u64::MAX)).unwrap_or(1) ^ u64::from(std::process::id()) << 40
}

/// The monotonic clock when the wall clock was `then`, a moment ago.
pub fn monotonic_at(then: SystemTime) -> u64 {
    let since = SystemTime::now().duration_since(then).map_or(0, |since| since.as_nanos());
    monotonic_ns().saturating_sub(u64::try_from(since).unwrap_or(0))
}

/// Bytes of the files in a dump's folder; what cannot be looked at counts as nothing.
pub fn folder_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}
