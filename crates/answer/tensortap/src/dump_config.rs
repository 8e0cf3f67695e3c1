use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tensortap_abi::{
    DUMP_ARGS, DUMP_TENSORS, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy, DumpStage,
    LARGE_PAYLOAD_ALIGN, MAX_ARGS,
};
use tensortap_collector::{ArenaGrowth, PayloadPath};
use tensortap_format::{is_pattern, word_fits};
use tensortap_platform::attach::Caller;
use tensortap_platform::available_bytes;
use tensortap_record::MATCHED_BY_NAME;
use tensortap_scene::{KernelDef, Scene};

use crate::{Error, LiveConfig, UnknownName};

/// Maximum size of the dump region in device memory, over all threads.
const MAX_REGION_BYTES: u64 = 64 << 30;
/// Maximum size of an arena that grows. Only bytes that were used take memory; the rest is address space.
const MAX_GROWN_ARENA_BYTES: u64 = 3 << 30;
/// The arenas of a process may grow by the available memory divided by this.
const ARENA_SHARE: u64 = 8;

/// Maximum number of threads of a process that record at the same time, unless memory allows fewer.
const PROGRAM_LANES: u32 = 256;

/// What is captured, how, and where it is stored: all `--dump-…` options.
///
/// ```
/// use tensortap::{DeviceMode, DumpConfig, RunConfig};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("vector_example");
/// // A documentation test cannot become a device process; your `main` can.
/// config.device_mode = DeviceMode::Thread;
/// // As `--dump-args`. Both flags: `DumpConfig { dump_args: true, ..DumpConfig::new(DumpLevel::Full) }`.
/// config.dump = Some(DumpConfig::args_only());
/// config.out = Some(folder.path().join("dump"));
/// let dump = tensortap::run(&config)?.dump.expect("it was asked for");
/// assert_eq!((dump.counters.dispatches, dump.counters.records), (5, 0));
///
/// let dump = tensortap::format::Dump::open(&dump.dir)?;
/// let second = &dump.dispatches()?[1];
/// println!("{} on core {}: {:?}", dump.info().kernel_name(second.func_id), second.core_id, second.args);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DumpConfig {
    /// Which parts of every argument are captured (`--dump-tensor`).
    pub level: DumpLevel,
    /// Whether the final arguments of every dispatch and those of the orchestration are recorded
    /// (`--dump-args`). At level [`DumpLevel::Off`] only they are recorded.
    pub dump_args: bool,
    /// Ranges of task ids, including both ends; empty for all tasks.
    pub tasks: Vec<(u64, u64)>,
    /// Kernels by name, pattern (`add*`, `?mm`) or `func_id`; empty for all kernels.
    pub funcs: Vec<String>,
    /// Arguments by `arg_index`; empty for all arguments.
    pub args: Vec<u16>,
    /// Only this stage.
    pub stage: Option<DumpStage>,
    /// Only this many tasks: the first to be dispatched.
    pub first: Option<u64>,
    /// Only the newest tasks. Older ones are removed, so disk use stays bounded.
    pub last: Option<u64>,
    /// Only the first payload bytes.
    pub max_bytes: Option<u64>,
    /// Whether a full arena stops the device or drops data.
    pub policy: DumpPolicy,
    /// Whether the host reads while the device runs.
    pub collect: DumpCollect,
    /// Silence of the host after which the device continues without it. Also the maximum time that host and
    /// device may wait for each other.
    pub liveness: Duration,
    /// Store equal payloads once.
    pub dedup: bool,
    /// Sync data, then index, before a record is acknowledged.
    pub sync: bool,
    /// Path of payloads to the file.
    pub write: PayloadPath,
    /// Number of threads that write large payloads. 0 means one, and more for a large dump that arrives fast.
    pub writers: usize,
    /// Number of payload files for large payloads. 0 means one, and one for each thread that writes a large dump that
    /// arrives fast.
    pub files: usize,
    /// Compare with a golden during the run, and keep only the payloads of tasks that differ.
    pub live: Option<LiveConfig>,
    /// Bytes of each device thread's arena.
    pub arena_bytes: u64,
    /// Whether the arenas of a program may grow while it waits, as far as memory allows. `arena_bytes` is then the size
    /// at the start.
    pub arena_grows: bool,
    /// Number of record buffers of each device thread.
    pub buffers: u32,
    /// Number of records of each buffer.
    pub records: u32,
    /// Number of threads of a program that can record at the same time; `None` means 256, or as many as
    /// memory allows.
    pub program_threads: Option<u32>,
}

impl DumpConfig {
    /// Valid numbers of record buffers.
    pub const BUFFERS: RangeInclusive<u32> = 2..=1024;
    /// Valid numbers of records per buffer.
    pub const RECORDS: RangeInclusive<u32> = 1..=1 << 20;

    /// Number of buffers for an arena: one record slot per 64 KiB of it. Bursts mostly consist of content
    /// that is already stored, which only needs record slots. With fewer slots, a thread would wait
    /// although the arena is empty.
    ///
    /// ```
    /// use tensortap::DumpConfig;
    /// assert_eq!(DumpConfig::buffers_for(64 << 20, 4096), 2);
    /// assert_eq!(DumpConfig::buffers_for(1 << 30, 256), 64);
    /// assert_eq!(DumpConfig::buffers_for(1 << 40, 1), 1024);
    /// ```
    pub fn buffers_for(arena_bytes: u64, records: u32) -> u32 {
        let buffers = (arena_bytes >> 16) / u64::from(records.max(1));
        u32::try_from(buffers).unwrap_or(u32::MAX).clamp(*Self::BUFFERS.start(), *Self::BUFFERS.end())
    }

    /// This level, with default options.
    pub fn new(level: DumpLevel) -> DumpConfig {
        DumpConfig {
            level,
            dump_args: false,
            tasks: Vec::new(),
            funcs: Vec::new(),
            args: Vec::new(),
            stage: None,
            first: None,
            last: None,
            max_bytes: None,
            policy: DumpPolicy::Block,
            collect: DumpCollect::Live,
            liveness: Duration::from_secs(30),
            dedup: true,
            sync: false,
            write: PayloadPath::Auto,
            writers: 0,
            files: 0,
            live: None,
            arena_bytes: 64 << 20,
            arena_grows: false,
            buffers: 8,
            records: 4096,
            program_threads: None,
        }
    }

    /// Only the arguments of dispatches, with default options.
    pub fn args_only() -> DumpConfig {
        DumpConfig { dump_args: true, ..DumpConfig::new(DumpLevel::Off) }
    }

    /// Whether anything is recorded.
    pub fn records_anything(&self) -> bool {
        self.enable() != 0
    }

    /// The device's enable word.
    pub(crate) fn enable(&self) -> u32 {
        let tensors = if self.level == DumpLevel::Off { 0 } else { DUMP_TENSORS };
        tensors | if self.dump_args { DUMP_ARGS } else { 0 }
    }

    /// Region sizes for a process in which any number of threads may record, as far as memory allows.
    /// Untouched pages cost nothing.
    pub(crate) fn program_geometry(&self) -> Result<(DumpGeometry, ArenaGrowth), Error> {
        let geometry = match self.program_threads {
            Some(threads) => self.geometry(threads)?,
            None => {
                let one = self.geometry(1)?.bytes();
                let lanes = u32::try_from(MAX_REGION_BYTES / one).unwrap_or(u32::MAX).clamp(1, PROGRAM_LANES);
                self.geometry(lanes)?
            }
        };
        let is_fixed = !self.arena_grows
            || (self.policy, self.collect) != (DumpPolicy::Block, DumpCollect::Live)
            || has_address_limit();
        let (start, budget) = (geometry.arena_bytes, if is_fixed { 0 } else { arena_budget() });
        let most = start.saturating_add(budget).min(MAX_GROWN_ARENA_BYTES).max(start);
        let arena_bytes = most / LARGE_PAYLOAD_ALIGN * LARGE_PAYLOAD_ALIGN;
        if arena_bytes == start {
            return Ok((geometry, ArenaGrowth::default()));
        }
        Ok((DumpGeometry { arena_bytes, ..geometry }, ArenaGrowth { start, budget }))
    }

    /// Region sizes for this many recording threads.
    pub(crate) fn geometry(&self, threads: u32) -> Result<DumpGeometry, Error> {
        let bad = |option: &'static str, value: u64, expected: String| {
            Err(Error::DumpOption { option, value: value.to_string(), expected })
        };
        if !(64 << 10..=1 << 40).contains(&self.arena_bytes) {
            return bad("--dump-arena", self.arena_bytes, "use 64 KiB to 1 TiB".into());
        }
        let possible = |range: RangeInclusive<u32>| format!("use {} to {}", range.start(), range.end());
        if !Self::BUFFERS.contains(&self.buffers) {
            return bad("--dump-buffers", self.buffers.into(), possible(Self::BUFFERS));
        }
        if !Self::RECORDS.contains(&self.records) {
            return bad("--dump-records", self.records.into(), possible(Self::RECORDS));
        }
        let arena_bytes = self.arena_bytes.next_multiple_of(LARGE_PAYLOAD_ALIGN);
        let geometry =
            DumpGeometry { lanes: threads, buffers: self.buffers, records: self.records, arena_bytes };
        if geometry.bytes() > MAX_REGION_BYTES {
            let expected = format!(
                "{threads} threads need {} bytes, but at most {MAX_REGION_BYTES} are allowed",
                geometry.bytes()
            );
            return bad("--dump-arena", self.arena_bytes, expected);
        }
        Ok(geometry)
    }

    /// The filter in the form in which the device applies it to a scene.
    pub(crate) fn filter(&self, scene: &dyn Scene) -> Result<DumpFilter, Error> {
        self.filter_of(|word| func_ids(scene, word))
    }

    /// The filter in the form in which a program applies it, with names and patterns of kernels, one per
    /// line. Their numbers are known only while the program runs.
    pub(crate) fn program_filter(&self) -> Result<(DumpFilter, String), Error> {
        let filter = self.filter_of(|word| match word.parse() {
            Ok(id @ 0..MATCHED_BY_NAME) => Ok(vec![id]),
            _ => Ok(vec![MATCHED_BY_NAME]),
        })?;
        let is_name = |word: &&String| !matches!(word.parse(), Ok(0..MATCHED_BY_NAME));
        let names: Vec<&str> = self.funcs.iter().filter(is_name).map(String::as_str).collect();
        let names = names.join("\n");
        if names.len() > Caller::MAX_KERNELS {
            return Err(Error::DumpOption {
                option: "--dump-func",
                value: format!("{} bytes of names", names.len()),
                expected: format!(
                    "at most {} bytes are possible; use a pattern for several kernels",
                    Caller::MAX_KERNELS
                ),
            });
        }
        Ok((filter, names))
    }

    fn filter_of(&self, func_ids: impl Fn(&str) -> Result<Vec<u32>, Error>) -> Result<DumpFilter, Error> {
        let mut filter = DumpFilter::ALL;
        if self.tasks.len() > DumpFilter::MAX_TASK_RANGES {
            return Err(Error::DumpOption {
                option: "--dump-task",
                value: format!("{} ranges", self.tasks.len()),
                expected: format!("at most {} ranges are possible; merge some", DumpFilter::MAX_TASK_RANGES),
            });
        }
        for (range, &(first, last)) in filter.tasks.iter_mut().zip(&self.tasks) {
            *range = [first, last];
        }
        filter.task_ranges = self.tasks.len() as u64;
        if !self.funcs.is_empty() {
            filter.funcs = [0; 4];
            for name in &self.funcs {
                for id in func_ids(name)? {
                    filter.funcs[id as usize / 64] |= 1 << (id % 64);
                }
            }
        }
        if !self.args.is_empty() {
            filter.args = 0;
            for &arg in &self.args {
                if usize::from(arg) >= MAX_ARGS {
                    let expected = format!("arguments are numbered 0 to {}", MAX_ARGS - 1);
                    return Err(Error::DumpOption { option: "--dump-arg", value: arg.to_string(), expected });
                }
                filter.args |= 1 << arg;
            }
        }
        filter.stages = self.stage.map_or(u64::MAX, |stage| 1 << stage as u32);
        filter.first_tasks = self.first.unwrap_or(u64::MAX);
        filter.max_bytes = self.max_bytes.unwrap_or(u64::MAX);
        Ok(filter)
    }
}

/// By how many bytes the arenas of a process may grow at this moment; 0 if the available memory is not known.
pub(crate) fn arena_budget() -> u64 {
    let group = Path::new("/sys/fs/cgroup");
    let read = |name: &str| std::fs::read_to_string(group.join(name)).unwrap_or_default();
    let of_group = left_in_group(&read("memory.max"), &read("memory.current")).unwrap_or(u64::MAX);
    available_bytes().unwrap_or(0).min(of_group) / ARENA_SHARE
}

/// Memory that is left to a container, from the files of its control group; `None` without a limit.
fn left_in_group(most: &str, used: &str) -> Option<u64> {
    let most: u64 = most.trim().parse().ok()?;
    Some(most.saturating_sub(used.trim().parse().unwrap_or(0)))
}

/// Whether the program's address space or its files, which include its memory files, are limited.
fn has_address_limit() -> bool {
    [Resource::As, Resource::Fsize].into_iter().any(|resource| getrlimit(resource).current.is_some())
}

/// The kernels that a name, number or pattern selects. A pattern may select none.
fn func_ids(scene: &dyn Scene, word: &str) -> Result<Vec<u32>, Error> {
    let kernels = || scene.kernels().iter().filter(|k| k.func_id < 256);
    let is_meant = |k: &&KernelDef| word_fits(word, k.name) || word.parse() == Ok(k.func_id);
    let meant: Vec<u32> = kernels().filter(is_meant).map(|k| k.func_id).collect();
    if meant.is_empty() && !is_pattern(word) {
        return Err(UnknownName::new("kernel", word, scene.kernels().iter().map(|k| k.name)).into());
    }
    Ok(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_what_its_group_has_left() {
        assert_eq!(left_in_group("1000\n", "300\n"), Some(700));
        assert_eq!(left_in_group("1000\n", "1300\n"), Some(0));
        assert_eq!(left_in_group("1000", ""), Some(1000));
        assert_eq!([left_in_group("max\n", "5\n"), left_in_group("", "")], [None, None]);
    }

    #[test]
    fn only_blocking_dumps_that_are_read_live_have_growing_arenas() {
        let growing =
            DumpConfig { arena_bytes: 1 << 20, arena_grows: true, ..DumpConfig::new(DumpLevel::Full) };
        let (geometry, arena) = growing.program_geometry().unwrap();
        assert!(geometry.arena_bytes >= 1 << 20 && geometry.arena_bytes <= MAX_GROWN_ARENA_BYTES);
        assert_eq!(arena.start > 0, geometry.arena_bytes > 1 << 20, "{arena:?}");
        for fixed in [
            DumpConfig { arena_grows: false, ..growing.clone() },
            DumpConfig { policy: DumpPolicy::Drop, ..growing.clone() },
            DumpConfig { collect: DumpCollect::Batch, ..growing.clone() },
        ] {
            let (geometry, arena) = fixed.program_geometry().unwrap();
            assert_eq!((geometry.arena_bytes, arena), (1 << 20, ArenaGrowth::default()));
        }
    }
}
