//! The served dumps, each in its last known state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tensortap::analysis::blame::Blame;
use tensortap::analysis::diff::Diff;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::matching::{MatchOptions, Matching, match_tasks};
use tensortap::format::{Dump, FormatError, Record, Tail};
use tensortap::interchange::NamedArrays;
use tensortap_query::golden::{Golden, open as open_golden};
use tensortap_query::timeline::Timeline;
use tensortap_query::{DumpSet, QueryError, TaskIndex};

use super::answer::{Params, Problem};
use super::search::Searches;
use super::timeline::without_flows;

/// Minimum time between checks of a dump that is still being written.
const FRESH: Duration = Duration::from_millis(400);
/// Checks may take at most this fraction (1/SHARE) of the time.
const SHARE: u32 = 8;
/// How long an answer waits for the graph.
const FOR_GRAPH: Duration = Duration::from_secs(20);
/// Derived data of a dump is dropped after this time without a request.
const IDLE: Duration = Duration::from_secs(120);
/// Goldens per dump for which results are cached.
const GOLDENS: usize = 2;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All dumps, and the arrays to compare them with.
pub(crate) struct OpenDumps {
    pub slots: Vec<DumpSlot>,
    /// Arrays that were given as golden, with their path.
    pub files: Option<(PathBuf, NamedArrays)>,
    /// The default golden, as pages name it.
    pub golden: Option<String>,
}

/// One dump.
pub(crate) struct DumpSlot {
    pub path: PathBuf,
    pub name: String,
    /// Whether it is only used as a golden.
    pub only_golden: bool,
    now: Mutex<(Arc<OpenDump>, Instant, Duration)>,
}

/// What a dump is compared with.
pub(crate) enum Baseline<'s> {
    Dump(Arc<OpenDump>),
    Files(&'s Path, &'s NamedArrays),
    Reference,
}

impl OpenDumps {
    pub fn open(dumps: &[PathBuf], golden: Option<&Path>) -> Result<OpenDumps, QueryError> {
        let mut open_dumps = OpenDumps { slots: Vec::new(), files: None, golden: None };
        for path in dumps {
            open_dumps.add(path, false)?;
        }
        if let Some(golden) = golden {
            open_dumps.add_golden(golden)?;
        }
        open_dumps.make_names_unique();
        Ok(open_dumps)
    }

    fn add_golden(&mut self, golden: &Path) -> Result<(), QueryError> {
        match open_golden(golden)? {
            Golden::Files(files) => {
                self.files = Some((golden.to_owned(), files));
                self.golden = Some("files".into());
            }
            Golden::Dump(dump) => {
                let known = self.slots.iter().position(|slot| slot.current().dump.dir() == dump.dir());
                let place = known.unwrap_or(self.slots.len());
                if known.is_none() {
                    self.add(golden, true)?;
                }
                self.golden = Some(place.to_string());
            }
        }
        Ok(())
    }

    /// Uses two path components as the name where the folder name is not enough: for equal names, processes
    /// and ranks.
    fn make_names_unique(&mut self) {
        let names: Vec<String> = self.slots.iter().map(|slot| slot.name.clone()).collect();
        for slot in self.slots.iter_mut().filter(|_| names.len() > 1) {
            let shared = names.iter().filter(|name| **name == slot.name).count() > 1;
            if shared || ["pid-", "rank-"].iter().any(|prefix| slot.name.starts_with(prefix)) {
                slot.name = last_two(&slot.path);
            }
        }
    }

    fn add(&mut self, path: &Path, only_golden: bool) -> Result<(), QueryError> {
        let started = Instant::now();
        let set = DumpSet::open(path)?;
        let took = started.elapsed();
        let (several, run_folder) = (set.members().len() > 1, base_name(set.path()));
        for member in set.into_members() {
            let path = member.dump.dir().to_owned();
            let folder =
                path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into());
            let name = if several { format!("{run_folder} {}", member.name()) } else { folder };
            let now = Mutex::new((Arc::new(OpenDump::new(member.dump, 0)), Instant::now(), took));
            self.slots.push(DumpSlot { path, name, only_golden, now });
        }
        Ok(())
    }

    /// The dump that a request is about.
    pub fn dump(&self, params: &Params) -> Result<Arc<OpenDump>, Problem> {
        let place = params.number::<usize>("dump")?.unwrap_or(0);
        self.slots.get(place).map(DumpSlot::current).ok_or_else(|| Problem::new("there is no such dump"))
    }

    /// Drops derived data that was not used for a while. Returns whether anything was dropped.
    pub fn release_idle(&self) -> bool {
        let opened = self.slots.iter().map(|slot| Arc::clone(&lock(&slot.now).0));
        opened.filter(|opened| opened.release_after(IDLE)).count() > 0
    }

    /// The golden that a request names.
    pub fn baseline(&self, params: &Params) -> Result<Option<Baseline<'_>>, Problem> {
        let no_golden = || Problem::new("there is no such golden");
        match params.get("golden") {
            None => Ok(None),
            Some("reference") => Ok(Some(Baseline::Reference)),
            Some("files") => {
                let (path, files) = self.files.as_ref().ok_or_else(no_golden)?;
                Ok(Some(Baseline::Files(path, files)))
            }
            Some(place) => {
                let place: usize = place.parse().map_err(|_| no_golden())?;
                self.slots.get(place).map(|slot| Some(Baseline::Dump(slot.current()))).ok_or_else(no_golden)
            }
        }
    }
}

fn base_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

/// The last two components of the absolute path.
fn last_two(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let parent = path.parent().and_then(Path::file_name);
    let own = base_name(&path);
    parent.map_or_else(|| own.clone(), |parent| format!("{}/{own}", parent.to_string_lossy()))
}

impl DumpSlot {
    /// The dump in its current state, at most a moment old.
    pub fn current(&self) -> Arc<OpenDump> {
        let mut now = lock(&self.now);
        let (opened, looked, took) = &*now;
        let pause = FRESH.max(*took * SHARE);
        if opened.dump.tail() != Tail::Open || looked.elapsed() < pause {
            return Arc::clone(opened);
        }
        let started = Instant::now();
        // If the dump cannot be read now, keep the previous state.
        let fresh = Dump::open(&self.path).ok();
        let changed =
            fresh.filter(|dump| (dump.len(), dump.tail()) != (opened.dump.len(), opened.dump.tail()));
        let next = match changed {
            Some(dump) => {
                opened.searches.abandon();
                Arc::new(OpenDump::new(dump, opened.generation + 1))
            }
            None => Arc::clone(opened),
        };
        *now = (Arc::clone(&next), Instant::now(), started.elapsed());
        next
    }
}

/// A dump and derived data.
pub(crate) struct OpenDump {
    pub dump: Dump,
    /// How often the dump was found changed.
    pub generation: u64,
    pub searches: Searches,
    graph: Mutex<GraphState>,
    graph_there: Condvar,
    /// When the graph was last requested.
    asked: Mutex<Instant>,
    blames: Mutex<Vec<(String, Arc<Blame>)>>,
    diffs: Mutex<Vec<(String, Arc<Diff>)>>,
    partners: Mutex<Vec<(String, Arc<Matching>)>>,
}

/// The graph of a dump, with data shared by answers about its tasks.
pub(crate) struct Graph {
    pub graph: TaskGraph,
    pub index: TaskIndex,
    timeline: OnceLock<Timeline>,
}

impl Graph {
    /// The timeline, built on first use.
    pub fn timeline(&self, dump: &Dump) -> &Timeline {
        self.timeline.get_or_init(|| without_flows(Timeline::of(dump, &self.graph, |_| true)))
    }
}

impl std::ops::Deref for Graph {
    type Target = TaskGraph;

    fn deref(&self) -> &TaskGraph {
        &self.graph
    }
}

enum GraphState {
    NotRequested,
    Building,
    Ready(Result<Arc<Graph>, Problem>),
}

impl OpenDump {
    fn new(dump: Dump, generation: u64) -> OpenDump {
        OpenDump {
            dump,
            generation,
            searches: Searches::default(),
            graph: Mutex::new(GraphState::NotRequested),
            graph_there: Condvar::new(),
            asked: Mutex::new(Instant::now()),
            blames: Mutex::default(),
            diffs: Mutex::default(),
            partners: Mutex::default(),
        }
    }

    /// The task graph; `None` if it is still being built after `patience`.
    pub fn graph_within(self: &Arc<Self>, patience: Duration) -> Result<Option<Arc<Graph>>, Problem> {
        *lock(&self.asked) = Instant::now();
        let mut state = lock(&self.graph);
        if matches!(*state, GraphState::NotRequested) {
            *state = GraphState::Building;
            let mine = Arc::clone(self);
            thread::Builder::new()
                .name("graph".into())
                .spawn(move || {
                    let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let graph = load(&mine.dump, &[])?;
                        let index = TaskIndex::of(&mine.dump, &graph)?;
                        Ok::<Graph, FormatError>(Graph { index, graph, timeline: OnceLock::new() })
                    }));
                    let built = match built {
                        Ok(built) => built.map(Arc::new).map_err(Problem::from),
                        Err(_) => Err(Problem::new("the graph of the dump cannot be built")),
                    };
                    *lock(&mine.graph) = GraphState::Ready(built);
                    mine.graph_there.notify_all();
                    // Building the graph used more memory than the result needs.
                    super::heap::release_memory();
                })
                .map_err(Problem::new)?;
        }
        let is_building = |state: &mut GraphState| matches!(state, GraphState::Building);
        let waited = self.graph_there.wait_timeout_while(state, patience, is_building);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*state {
            GraphState::Ready(built) => built.clone().map(Some),
            GraphState::NotRequested | GraphState::Building => Ok(None),
        }
    }

    /// Drops the graph and results based on it if it was not requested for `idle`. Returns whether it was
    /// dropped. Running requests keep their reference.
    fn release_after(&self, idle: Duration) -> bool {
        let mut graph = lock(&self.graph);
        let is_there = matches!(*graph, GraphState::Ready(Ok(_)));
        if !is_there || lock(&self.asked).elapsed() < idle {
            return false;
        }
        *graph = GraphState::NotRequested;
        lock(&self.partners).clear();
        self.searches.abandon();
        true
    }

    /// The graph, for answers that cannot do without it.
    pub fn graph(self: &Arc<Self>) -> Result<Arc<Graph>, Problem> {
        self.graph_within(FOR_GRAPH)?.ok_or_else(|| {
            Problem::with_hint("the graph of the dump is still being built", "try again shortly")
        })
    }

    /// The labels for a golden, if they were computed.
    pub fn blame(&self, golden: Option<&str>) -> Option<Arc<Blame>> {
        kept(&self.blames, golden?)
    }

    pub fn keep_blame(&self, golden: &str, blame: Blame) -> Arc<Blame> {
        keep(&self.blames, golden, blame)
    }

    pub fn diff(&self, golden: &str) -> Option<Arc<Diff>> {
        kept(&self.diffs, golden)
    }

    pub fn keep_diff(&self, golden: &str, diff: Diff) -> Arc<Diff> {
        keep(&self.diffs, golden, diff)
    }

    /// Matches the tasks with those of the golden.
    pub fn partners(self: &Arc<Self>, golden: &Arc<OpenDump>, name: &str) -> Result<Arc<Matching>, Problem> {
        let name = format!("{name} {}", golden.generation);
        if let Some(known) = kept(&self.partners, &name) {
            return Ok(known);
        }
        let (ours, theirs) = (self.graph()?, golden.graph()?);
        let ignore_blocks = !self.dump.has_graph() || !golden.dump.has_graph();
        let options = MatchOptions { ignore_blocks, threads: 2, ..MatchOptions::default() };
        Ok(keep(&self.partners, &name, match_tasks(&ours, &theirs, options)))
    }

    /// The golden's counterpart of a record.
    pub fn partner(
        self: &Arc<Self>,
        golden: &Arc<OpenDump>,
        name: &str,
        record: &Record,
    ) -> Result<Option<Record>, Problem> {
        let (ours, theirs) = (self.graph()?, golden.graph()?);
        let matching = self.partners(golden, name)?;
        let place = ours.position(record.task_key());
        let Some(partner) = place.and_then(|place| matching.partner.get(place).copied().flatten()) else {
            return Ok(None);
        };
        let argument = theirs.task(partner).arguments().find(|arg| arg.arg_index == record.arg_index);
        let captured = argument.and_then(|arg| match record.stage {
            tensortap::DumpStage::BeforeDispatch => arg.before,
            tensortap::DumpStage::AfterCompletion => arg.after,
        });
        Ok(captured.map(|captured| golden.dump.record(captured.record)).transpose()?)
    }
}

fn kept<T>(list: &Mutex<Vec<(String, Arc<T>)>>, name: &str) -> Option<Arc<T>> {
    lock(list).iter().find(|(known, _)| known == name).map(|(_, kept)| Arc::clone(kept))
}

fn keep<T>(list: &Mutex<Vec<(String, Arc<T>)>>, name: &str, one: T) -> Arc<T> {
    let one = Arc::new(one);
    let mut list = lock(list);
    list.retain(|(known, _)| known != name);
    list.push((name.to_owned(), Arc::clone(&one)));
    if list.len() > GOLDENS {
        list.remove(0);
    }
    one
}

#[cfg(test)]
mod tests {
    use tensortap::abi::TaskRecord;
    use tensortap::analysis::graph::load_with_progress;
    use tensortap::format::{DumpWriter, Footer, IndexRecord, RunInfo, Status};

    use super::*;

    #[test]
    fn loading_a_graph_can_be_canceled() {
        let folder = std::env::temp_dir().join(format!("tensortap-watched-{}", std::process::id()));
        let mut writer = DumpWriter::create(&folder, &RunInfo::default()).expect("created");
        let task = TaskRecord { task_id: 1, started_ns: 1, completed_ns: 2, ..TaskRecord::default() };
        writer.append(0, 0..1, &[IndexRecord::plain(&task)]).expect("appended");
        writer.finish(&Footer::new(Status::Complete)).expect("finished");
        let dump = Dump::open(&folder).expect("opened");
        // First while records are read, then while the origins of content are determined.
        for let_pass in 0..2 {
            let left = Mutex::new(let_pass);
            let watch = || match &mut *lock(&left) {
                0 => super::super::jobs::unwind(),
                left => *left -= 1,
            };
            let loaded = std::panic::AssertUnwindSafe(|| {
                load_with_progress(&dump, &[], &watch).map(|graph| graph.len())
            });
            assert!(std::panic::catch_unwind(loaded).is_err(), "{let_pass}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn an_unused_graph_is_dropped_and_built_again() {
        let folder = std::env::temp_dir().join(format!("tensortap-open-dumps-{}", std::process::id()));
        let writer = DumpWriter::create(&folder, &RunInfo::default()).expect("created");
        writer.finish(&Footer::new(Status::Complete)).expect("finished");
        let opened = Arc::new(OpenDump::new(Dump::open(&folder).expect("opened"), 0));
        assert!(!opened.release_after(Duration::ZERO), "no graph yet");
        let first = opened.graph().expect("built");
        assert!(!opened.release_after(Duration::from_secs(1000)), "it was just requested");
        assert!(opened.release_after(Duration::ZERO) && !opened.release_after(Duration::ZERO));
        assert_eq!(Arc::strong_count(&first), 1, "no other reference is left");
        assert!(!Arc::ptr_eq(&first, &opened.graph().expect("built again")));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
