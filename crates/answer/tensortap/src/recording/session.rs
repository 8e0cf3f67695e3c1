//! One attached process and its dump, from the handshake to the closed files.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tensortap_abi::{DumpFilter, DumpGeometry};
use tensortap_collector::{
    ArenaGrowth, ArenaUse, CollectError, Collection, DeviceRegion, DumpSetup, RunEnd, Summary,
    write_to_process,
};
use tensortap_format::{DumpCounters, Footer, RunInfo, Status, timestamp};
use tensortap_platform::attach::{AttachedProcess, Caller, Hello, ProcessEvent, RecordingErrors};
use tensortap_platform::{LINK_PAGE_BYTES, PlatformError};

use super::vendor_libraries::VendorLibraries;
use crate::dump_config::arena_budget;
use crate::dump_files::Files;
use crate::dump_plan::{dump_setup, dump_writer, listener, remove_empty_dump};
use crate::{DiskGate, DumpConfig, Error, Warn};

/// A dying process hangs up a moment before it ends. A process that executes another program hangs up and
/// continues.
const DYING: Duration = Duration::from_millis(250);

/// Settings that all dumps of a run share.
pub struct RecordingPlan {
    pub dump: DumpConfig,
    geometry: DumpGeometry,
    arena: ArenaGrowth,
    filter: DumpFilter,
    /// Names and patterns of kernels for the filter, one per line.
    kernels: String,
    pub dir: PathBuf,
    pub disk: Option<Arc<dyn DiskGate>>,
}

impl RecordingPlan {
    /// Checks the options.
    pub fn new(dump: DumpConfig, disk: Option<Arc<dyn DiskGate>>) -> Result<RecordingPlan, Error> {
        let ((geometry, arena), (filter, kernels)) = (dump.program_geometry()?, dump.program_filter()?);
        Ok(RecordingPlan { dump, geometry, arena, filter, kernels, dir: PathBuf::new(), disk })
    }

    /// How much of its arenas a process may use that attaches now. Others may have used memory since the start.
    fn arena(&self) -> ArenaGrowth {
        let budget = if self.arena.budget == 0 { 0 } else { arena_budget() };
        ArenaGrowth { budget, ..self.arena }
    }

    /// Size of the memory that every process shares with the recorder.
    pub fn memory_bytes(&self) -> u64 {
        (LINK_PAGE_BYTES + self.geometry.bytes()).next_multiple_of(LINK_PAGE_BYTES)
    }
}

/// A process that is being recorded.
pub struct Session {
    attached: Arc<AttachedProcess>,
    libraries: VendorLibraries,
    collection: Collection<DeviceRegion, Files>,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The process closed its session.
    Goodbye,
    /// The process has ended; with its status if known.
    Ended(Option<ExitStatus>),
    /// The process closed the connection and continues, perhaps as another program.
    HungUp,
    /// The process violated the protocol.
    Strange,
    /// Recording was requested to end.
    Closed,
    /// The recorder can no longer follow the process.
    Failed(String),
}

/// Why a session could not be opened.
pub enum OpenError {
    /// The process has gone away.
    CallerGone(String),
    /// The recorder failed.
    Failed(String),
}

/// The result of a session.
pub struct SessionReport {
    pub status: Status,
    /// How the process ended, if it did not close its session.
    pub message: Option<String>,
    /// Why the dump is incomplete.
    pub problem: Option<String>,
    pub counters: DumpCounters,
    /// How its arenas were used.
    pub arena: ArenaUse,
    /// Requests of the process that failed.
    pub errors: RecordingErrors,
}

impl Session {
    /// Creates the dump's folder and files, has it entered in the ledger (`enter`), hands the memory to the
    /// process, and starts to collect.
    pub fn open(
        caller: Caller,
        hello: &Hello,
        plan: &RecordingPlan,
        folder: &str,
        warn: Warn,
        enter: impl FnOnce(),
    ) -> Result<Session, OpenError> {
        let dir = plan.dir.join(folder);
        let mut setup = dump_setup(&plan.dump, caller.pid(), plan.geometry, plan.filter);
        setup.collector.arena = plan.arena();
        let info = run_info(&setup, hello, caller.pid());
        let files = fs::create_dir(&dir)
            .map_err(|error| format!("cannot create {}: {error}", dir.display()))
            .and_then(|()| dump_writer(&plan.dump, &dir, &info).map_err(|error| error.to_string()));
        let writer = match files {
            Ok(writer) => writer,
            Err(why) => {
                caller.refuse(&format!("the recorder cannot create the dump: {why}"));
                remove_empty_dump(&dir);
                return Err(OpenError::Failed(why));
            }
        };
        enter();
        let attached = welcome(caller, plan, &setup).inspect_err(|_| remove_empty_dump(&dir))?;
        let files = Files { writer, gate: plan.disk.clone(), reserved: 0, live: None };
        let collection = setup.collect_process(attached.access(), files, listener(Some(warn)));
        let collection = collection.map_err(|error| OpenError::Failed(error.to_string()))?;
        let libraries = VendorLibraries::of(attached.pid());
        Ok(Session { attached: Arc::new(attached), libraries, collection })
    }

    /// The process, for its other libraries.
    pub fn process(&self) -> &Arc<AttachedProcess> {
        &self.attached
    }

    /// Serves the process until it ends, or until `is_closing`, which is checked every `look`, returns
    /// true.
    pub fn serve(&mut self, look: Duration, is_closing: impl Fn() -> bool) -> SessionEnd {
        while !is_closing() {
            self.libraries.look_again();
            match self.attached.wait(look) {
                Ok(ProcessEvent::Woken) => self.collection.notify(),
                Ok(ProcessEvent::TimedOut) => {}
                Ok(ProcessEvent::Goodbye) => return SessionEnd::Goodbye,
                Ok(ProcessEvent::Ended) if self.attached.ends_within(DYING) => {
                    return SessionEnd::Ended(None);
                }
                Ok(ProcessEvent::Ended) => return SessionEnd::HungUp,
                Ok(ProcessEvent::ProtocolError) => return SessionEnd::Strange,
                Err(error) => return SessionEnd::Failed(error.to_string()),
            }
        }
        SessionEnd::Closed
    }

    /// Drains the remaining records and closes the files.
    pub fn close(self, ending: &SessionEnd) -> SessionReport {
        let Session { attached, mut libraries, collection } = self;
        // A process that closes its session is still there.
        libraries.look();
        attached.close();
        let (status, message) = in_words(ending);
        let mut end = RunEnd::new(status);
        end.message.clone_from(&message);
        end.finished_at = Some(timestamp(SystemTime::now()));
        end.extra.extend(libraries.document().map(|document| ("libraries".to_owned(), document)));
        let finished = finish(collection, &end);
        // These are only claims of the process and do not affect the dump, so a read error is ignored.
        let errors = attached.recording_errors().unwrap_or_default();
        // The process's remaining threads now learn that the recorder is gone.
        attached.disconnect();
        match finished {
            Ok(Summary { status, failure, counters, arena, .. }) => {
                SessionReport { status, message, problem: failure, counters, arena, errors }
            }
            Err(error) => SessionReport {
                status: Status::DumpFailed,
                message,
                problem: Some(error.to_string()),
                counters: DumpCounters::default(),
                arena: ArenaUse::default(),
                errors,
            },
        }
    }
}

fn finish(collection: Collection<DeviceRegion, Files>, end: &RunEnd) -> Result<Summary, CollectError> {
    let collector = collection.stop()?;
    collector.dismiss()?;
    collector.finish(end)
}

fn welcome(
    mut caller: Caller,
    plan: &RecordingPlan,
    setup: &DumpSetup,
) -> Result<AttachedProcess, OpenError> {
    let failed = |error: &dyn std::error::Error| OpenError::Failed(error.to_string());
    let region = setup.process_region().map_err(|error| failed(&error))?;
    caller.set_kernels(&plan.kernels);
    let attached =
        caller.welcome(plan.memory_bytes(), setup.run_id(), |memory| write_to_process(&region, memory));
    attached.map_err(|error| match error {
        PlatformError::Attach { what } => OpenError::CallerGone(what),
        error => failed(&error),
    })
}

fn run_info(setup: &DumpSetup, hello: &Hello, pid: u32) -> RunInfo {
    let process = serde_json::json!({"pid": pid, "rank": hello.rank, "name": hello.name});
    let extra = [("process".to_owned(), process)].into_iter().collect();
    RunInfo { extra, ..setup.process_info(&hello.name) }
}

/// The dump's status, and how its process ended if it did not close its session.
fn in_words(ending: &SessionEnd) -> (Status, Option<String>) {
    const UNCLOSED: &str = Footer::UNCLOSED_SESSION;
    let (status, message) = match ending {
        SessionEnd::Goodbye => return (Status::Complete, None),
        SessionEnd::Ended(Some(status)) => match (status.signal(), status.code()) {
            (Some(signal), _) => (by_signal(signal), format!("the process was ended by signal {signal}")),
            (None, Some(0)) => (Status::Complete, format!("the process exited with status 0 {UNCLOSED}")),
            (None, code) => {
                (Status::Crashed, format!("the process exited with status {} {UNCLOSED}", code.unwrap_or(-1)))
            }
        },
        SessionEnd::Ended(None) => (Status::Crashed, format!("the process ended {UNCLOSED}")),
        SessionEnd::HungUp => (
            Status::Crashed,
            format!("the process became another program or closed the connection {UNCLOSED}"),
        ),
        SessionEnd::Strange => (Status::Crashed, "protocol error; the process was disconnected".into()),
        SessionEnd::Closed => {
            (Status::Interrupted, "the recorder was stopped before the process ended".into())
        }
        SessionEnd::Failed(why) => {
            (Status::DumpFailed, format!("the recorder could not follow the process: {why}"))
        }
    };
    (status, Some(message))
}

/// A crash is caused by the program, an interrupt by the user; any other signal came from elsewhere.
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
    fn a_dump_reports_how_its_process_ended() {
        let ended = |raw| in_words(&SessionEnd::Ended(Some(ExitStatus::from_raw(raw))));
        assert_eq!(in_words(&SessionEnd::Goodbye), (Status::Complete, None));
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
        assert_eq!(in_words(&SessionEnd::Ended(None)).0, Status::Crashed);
    }
}
