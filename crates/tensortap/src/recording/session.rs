//! One attached process and its dump, from the welcome to the closed files.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tensortap_abi::{DeviceRange, DumpFilter, DumpGeometry};
use tensortap_collector::{CollectError, Collection, Collector, DeviceRegion, RunEnd, Summary};
use tensortap_format::{
    DumpCounters, DumpWriter, HOST_PLATFORM, RECORD_RUNTIME, RunInfo, Status, WriterOptions, timestamp,
};
use tensortap_platform::attach::{AttachedProcess, Caller, Complaints, Hello, ProcessNews};
use tensortap_platform::{LINK_PAGE_BYTES, PlatformError};
use tensortap_record::ANY_MEMORY;
use tensortap_recorder::{SetupOptions, setup_bytes};

use crate::dump_files::Files;
use crate::dump_plan::{collector_options, listener, monotonic_at, run_id, setup_options};
use crate::{DiskGate, DumpConfig, Error, Warn};

/// A process that dies hangs up a moment before it has ended; one that becomes another program hangs up and goes on.
const DYING: Duration = Duration::from_millis(250);

/// What all dumps of a run have in common.
pub struct Plan {
    pub dump: DumpConfig,
    geometry: DumpGeometry,
    filter: DumpFilter,
    /// Names and patterns of kernels that the filter means, a line each.
    kernels: String,
    pub dir: PathBuf,
    pub disk: Option<Arc<dyn DiskGate>>,
}

impl Plan {
    /// Checks the options.
    pub fn new(dump: DumpConfig, disk: Option<Arc<dyn DiskGate>>) -> Result<Plan, Error> {
        let (geometry, (filter, kernels)) = (dump.program_geometry()?, dump.program_filter()?);
        Ok(Plan { dump, geometry, filter, kernels, dir: PathBuf::new(), disk })
    }

    /// Memory that every process shares with the recorder.
    pub fn memory_bytes(&self) -> u64 {
        (LINK_PAGE_BYTES + self.geometry.bytes()).next_multiple_of(LINK_PAGE_BYTES)
    }
}

/// A process that is being recorded.
pub struct Session {
    attached: AttachedProcess,
    collection: Collection<DeviceRegion, Files>,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process closed it.
    Goodbye,
    /// The process has ended; how, if that is known.
    Ended(Option<ExitStatus>),
    /// The process goes on, without it: as another program perhaps.
    HungUp,
    /// The process said what makes no sense.
    Strange,
    /// The recorder was told to end.
    Closed,
    /// The recorder can no longer follow it.
    Failed(String),
}

/// Why there is no session.
pub enum NotOpened {
    /// The process is gone again.
    CallerGone(String),
    /// The recorder cannot.
    Failed(String),
}

/// What came of a session.
pub struct Closed {
    pub status: Status,
    /// How the process ended, where it did not close its session.
    pub message: Option<String>,
    /// Why the dump is not complete.
    pub problem: Option<String>,
    pub counters: DumpCounters,
    /// What the process could not do.
    pub complaints: Complaints,
}

impl Session {
    /// Makes the dump's folder and files, lets it be entered in the books, hands memory over, and begins to collect.
    pub fn open(
        caller: Caller,
        hello: &Hello,
        plan: &Plan,
        folder: &str,
        warn: Warn,
        enter: impl FnOnce(),
    ) -> Result<Session, NotOpened> {
        let dir = plan.dir.join(folder);
        let failed = |error: &dyn std::error::Error| NotOpened::Failed(error.to_string());
        let started = SystemTime::now();
        let run_id = run_id(started) ^ u64::from(caller.pid());
        let info = run_info(&plan.dump, hello, caller.pid(), run_id, started);
        let files = fs::create_dir(&dir)
            .map_err(|error| format!("cannot create {}: {error}", dir.display()))
            .and_then(|()| new_writer(plan, &dir, &info));
        let writer = match files {
            Ok(writer) => writer,
            Err(why) => {
                caller.refuse(&format!("the recorder has no place for the dump: {why}"));
                take_back(&dir);
                return Err(NotOpened::Failed(why));
            }
        };
        enter();
        let attached = welcome(caller, plan, run_id).inspect_err(|_| take_back(&dir))?;
        let range = DeviceRange { addr: LINK_PAGE_BYTES, bytes: plan.geometry.bytes() };
        let region = DeviceRegion::new(attached.access(), range)
            .ok_or_else(|| NotOpened::Failed("the region lies outside its memory".into()))?;
        let mut options = collector_options(&plan.dump, plan.geometry, run_id);
        options.device_memory = ANY_MEMORY;
        let files = Files { writer, gate: plan.disk.clone(), reserved: 0, live: None };
        let collector =
            Collector::new(region, files, &options, listener(Some(warn))).map_err(|e| failed(&e))?;
        let collection = Collection::start(collector).map_err(|e| failed(&e))?;
        Ok(Session { attached, collection })
    }

    /// Serves the process until it ends, or `is_closing` says that the recorder does, which it is asked every `look`.
    pub fn serve(&self, look: Duration, is_closing: impl Fn() -> bool) -> Ending {
        while !is_closing() {
            match self.attached.wait(look) {
                Ok(ProcessNews::Woken) => self.collection.notify(),
                Ok(ProcessNews::Nothing) => {}
                Ok(ProcessNews::Goodbye) => return Ending::Goodbye,
                Ok(ProcessNews::Ended) if self.attached.ends_within(DYING) => return Ending::Ended(None),
                Ok(ProcessNews::Ended) => return Ending::HungUp,
                Ok(ProcessNews::Strange) => return Ending::Strange,
                Err(error) => return Ending::Failed(error.to_string()),
            }
        }
        Ending::Closed
    }

    /// Takes what is left and closes the files.
    pub fn close(self, ending: &Ending) -> Closed {
        let Session { attached, collection } = self;
        let (status, message) = in_words(ending);
        let mut end = RunEnd::new(status);
        end.message.clone_from(&message);
        end.finished_at = Some(timestamp(SystemTime::now()));
        let finished = finish(collection, &end);
        // Only a claim of the process, and nothing that a dump lacks: if it cannot be read, it is not told.
        let complaints = attached.complaints().unwrap_or_default();
        // Whoever still records there hears now that nobody listens.
        drop(attached);
        match finished {
            Ok(Summary { status, failure, counters, .. }) => {
                Closed { status, message, problem: failure, counters, complaints }
            }
            Err(error) => Closed {
                status: Status::DumpFailed,
                message,
                problem: Some(error.to_string()),
                counters: DumpCounters::default(),
                complaints,
            },
        }
    }
}

fn finish(collection: Collection<DeviceRegion, Files>, end: &RunEnd) -> Result<Summary, CollectError> {
    let collector = collection.stop()?;
    collector.dismiss()?;
    collector.finish(end)
}

fn new_writer(plan: &Plan, dir: &Path, info: &RunInfo) -> Result<DumpWriter, String> {
    let options = WriterOptions { keep_last_tasks: plan.dump.last, sync: plan.dump.sync };
    DumpWriter::create_with(dir, info, options).map_err(|error| error.to_string())
}

fn welcome(mut caller: Caller, plan: &Plan, run_id: u64) -> Result<AttachedProcess, NotOpened> {
    let failed = |error: &dyn std::error::Error| NotOpened::Failed(error.to_string());
    let of_process = SetupOptions {
        base: LINK_PAGE_BYTES,
        of_process: true,
        ..setup_options(&plan.dump, run_id, plan.filter)
    };
    let setup = setup_bytes(plan.geometry, &of_process).map_err(|error| failed(&error))?;
    caller.tell_kernels(&plan.kernels);
    let attached = caller.welcome(plan.memory_bytes(), run_id, |memory| {
        setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
    });
    attached.map_err(|error| match error {
        PlatformError::Attach { what } => NotOpened::CallerGone(what),
        error => failed(&error),
    })
}

/// Removes the files of a dump that holds nothing. A folder that holds anything else is left alone.
fn take_back(dir: &Path) {
    let _ = fs::remove_file(dir.join(tensortap_format::INDEX_FILE));
    let _ = fs::remove_dir(dir);
}

fn run_info(config: &DumpConfig, hello: &Hello, pid: u32, run_id: u64, started: SystemTime) -> RunInfo {
    let process = serde_json::json!({"pid": pid, "rank": hello.rank, "name": hello.name});
    RunInfo {
        run_id,
        started_at: timestamp(started),
        started_monotonic_ns: monotonic_at(started).to_string(),
        platform: HOST_PLATFORM.into(),
        runtime: RECORD_RUNTIME.into(),
        scene: hello.name.clone(),
        dump_level: config.level as u32,
        dump_policy: config.policy.name().into(),
        dump_collect: config.collect.name().into(),
        extra: [("process".to_owned(), process)].into_iter().collect(),
        ..RunInfo::default()
    }
}

/// The dump's status, and how its process ended where it did not say goodbye.
fn in_words(ending: &Ending) -> (Status, Option<String>) {
    const UNCLOSED: &str = "without closing its session";
    let (status, message) = match ending {
        Ending::Goodbye => return (Status::Complete, None),
        Ending::Ended(Some(status)) => match (status.signal(), status.code()) {
            (Some(signal), _) => (by_signal(signal), format!("the process was ended by signal {signal}")),
            (None, Some(0)) => (Status::Complete, format!("the process exited with status 0 {UNCLOSED}")),
            (None, code) => {
                (Status::Crashed, format!("the process exited with status {} {UNCLOSED}", code.unwrap_or(-1)))
            }
        },
        Ending::Ended(None) => (Status::Crashed, format!("the process ended {UNCLOSED}")),
        Ending::HungUp => {
            (Status::Crashed, format!("the process became another program, or hung up, {UNCLOSED}"))
        }
        Ending::Strange => {
            (Status::Crashed, "the process said what makes no sense, and is heard no more".into())
        }
        Ending::Closed => (Status::Interrupted, "the recorder was told to end before the process".into()),
        Ending::Failed(why) => {
            (Status::DumpFailed, format!("the recorder could not follow the process: {why}"))
        }
    };
    (status, Some(message))
}

/// A crash is the program's own doing, an interrupt the user's; anything else came from somebody else.
fn by_signal(signal: i32) -> Status {
    use rustix::process::Signal;
    let crashes =
        [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::ABORT, Signal::SYS, Signal::TRAP];
    match signal {
        signal if signal == Signal::INT.as_raw() => Status::Interrupted,
        signal if crashes.iter().any(|crash| crash.as_raw() == signal) => Status::Crashed,
        _ => Status::Killed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_says_how_its_process_ended() {
        let ended = |raw| in_words(&Ending::Ended(Some(ExitStatus::from_raw(raw))));
        assert_eq!(in_words(&Ending::Goodbye), (Status::Complete, None));
        let (status, message) = ended(11);
        assert_eq!(
            (status, message.as_deref()),
            (Status::Crashed, Some("the process was ended by signal 11"))
        );
        assert_eq!(
            (ended(9).0, ended(15).0, ended(2).0),
            (Status::Killed, Status::Killed, Status::Interrupted)
        );
        let (status, message) = ended(3 << 8);
        assert_eq!(status, Status::Crashed);
        assert_eq!(message.unwrap(), "the process exited with status 3 without closing its session");
        assert_eq!(ended(0).0, Status::Complete);
        assert_eq!(in_words(&Ending::Ended(None)).0, Status::Crashed);
    }
}
