//! What runs or writes something: with leave alone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tensortap::{ExportConfig, ExportFormat, ReplayConfig, Selection as ReplaySelection, TaskChoice};
use tensortap_query::Selectors;
use tensortap_query::document::ReplayDocument;
use tensortap_query::number::{bytes, counted};

use super::State;
use super::answer::{Answer, Params, Problem};

/// Runs one task again and holds what it writes against what it wrote.
pub(crate) fn replay(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let graph = opened.graph()?;
    let name = params.get("task").ok_or_else(|| Problem::new("which task?"))?;
    let place = tensortap_query::find_tasks(graph.tasks(), name)?[0];
    let task = graph.task(place);
    let mut config = ReplayConfig::new(opened.dump.dir(), state.registry.clone());
    config.select = ReplaySelection::Tasks(vec![TaskChoice::Ids(task.task_id, task.task_id)]);
    config.steps = vec![(task.step.into(), task.step.into())];
    let key =
        format!("replay {:p} {} {name} {}", Arc::as_ptr(&opened), opened.generation, state.jobs.count());
    let job = state.jobs.begin(key, move |job| {
        let report = tensortap::replay_observed(&config, &mut |now| job.reach(now.finished, now.tasks));
        let report = report.map_err(Problem::new)?;
        serde_json::to_string(&ReplayDocument::of(&report)).map_err(Problem::new)
    })?;
    Ok(Answer::json(job.text()))
}

#[derive(Serialize)]
struct ExportedDocument {
    folder: String,
    selected: u64,
    selected_text: String,
    files: u64,
    files_text: String,
    bytes: u64,
    bytes_text: String,
    skipped: usize,
}

/// Writes the records that a search leaves to files, in a new folder beside the dump.
pub(crate) fn export(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.shelf.dump(params)?;
    let word = params.get("format").unwrap_or("npy");
    let known = ExportFormat::ALL.into_iter().find(|format| format.name() == word);
    let format = known.ok_or_else(|| {
        let names = ExportFormat::ALL.map(ExportFormat::name).join(", ");
        Problem::with_hint(format!("there is no format `{word}`"), format!("formats are {names}"))
    })?;
    let selectors: Selectors = params.get("q").unwrap_or_default().parse()?;
    let key = format!("export {:p} {}", Arc::as_ptr(&opened), state.jobs.count());
    let job = state.jobs.begin(key, move |job| {
        let selection = selectors.selection(&opened.dump, &|_, _| ())?;
        let mut of = 0_u64;
        for record in selection.records(&opened.dump) {
            of = of.saturating_add(record?.readable_bytes());
        }
        job.reach(0, of);
        let partial = Partial::begin(opened.dump.dir(), format.name(), job.id)?;
        let config = ExportConfig::new(format, partial.path.clone());
        let records = selection.records(&opened.dump);
        let report = tensortap::export_records(&opened.dump, records, &config, &|by| job.advance(by));
        let report = report.map_err(Problem::new)?;
        job.go_on()?;
        let document = ExportedDocument {
            folder: partial.finish()?.display().to_string(),
            selected: report.selected,
            selected_text: counted(report.selected, "record"),
            files: report.files,
            files_text: counted(report.files, "file"),
            bytes: report.file_bytes,
            bytes_text: bytes(report.file_bytes),
            skipped: report.skipped.len(),
        };
        serde_json::to_string(&document).map_err(Problem::new)
    })?;
    Ok(Answer::json(job.text()))
}

/// A folder beside a dump that is being filled, under a name that says so: what has its own name is whole, also when the server is
/// killed. Goes with all that is in it unless it is finished.
struct Partial {
    path: PathBuf,
    dump: PathBuf,
    format: String,
}

impl Partial {
    fn begin(dump: &Path, format: &str, job: u64) -> Result<Partial, Problem> {
        let dump = dump.canonicalize().map_err(Problem::new)?;
        let name = format!(".{}_{format}.{}-{job}.partial", base_name(&dump), std::process::id());
        let path = dump.parent().unwrap_or(&dump).join(name);
        let cannot = |error| Problem::new(format!("cannot create {}: {error}", path.display()));
        fs::create_dir(&path).map_err(cannot)?;
        Ok(Partial { path, dump, format: format.to_owned() })
    }

    /// Gives it a name of its own.
    fn finish(self) -> Result<PathBuf, Problem> {
        let named = new_folder(&self.dump, &self.format)?;
        // The new folder is empty, and so gives way to it.
        let renamed = fs::rename(&self.path, &named);
        renamed.map_err(|error| Problem::new(format!("cannot create {}: {error}", named.display())))?;
        Ok(named)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn base_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "dump".into(), |name| name.to_string_lossy().into_owned())
}

/// Makes a folder beside the dump that was not there yet, so that no other export has it: no request names one.
fn new_folder(dump: &Path, format: &str) -> Result<PathBuf, Problem> {
    let (name, parent) = (base_name(dump), dump.parent().unwrap_or(dump));
    let names =
        std::iter::once(format!("{name}_{format}")).chain((2..1000).map(|n| format!("{name}_{format}_{n}")));
    for path in names.map(|name| parent.join(name)) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Problem::new(format!("cannot create {}: {error}", path.display()))),
        }
    }
    Err(Problem::new("there are too many exports beside the dump already"))
}

/// Gives a job up.
pub(crate) fn cancel(state: &State, params: &Params) -> Result<Answer, Problem> {
    let job = find(state, params)?;
    job.give_up();
    Ok(Answer::json(job.text()))
}

/// How far a job has come.
pub(crate) fn job(state: &State, params: &Params) -> Result<Answer, Problem> {
    Ok(Answer::json(find(state, params)?.text()))
}

fn find(state: &State, params: &Params) -> Result<Arc<super::jobs::Job>, Problem> {
    let id = params.number("job")?.ok_or_else(|| Problem::new("which job?"))?;
    state.jobs.find(id).ok_or_else(|| Problem::new("there is no such job, or no more"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_export_has_its_name_when_it_is_whole_and_leaves_nothing_when_it_is_not() {
        let folder = std::env::temp_dir().join(format!("tensortap-web-partial-{}", std::process::id()));
        let dump = folder.join("dump");
        fs::create_dir_all(&dump).expect("made");
        let names = || -> BTreeSet<String> {
            let entries = fs::read_dir(&folder).expect("a folder");
            entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
        };
        let given_up = Partial::begin(&dump, "npy", 1).expect("begun");
        fs::write(given_up.path.join("half"), "half").expect("written");
        // Whoever looks now, or after the server was killed now, finds no export.
        assert!(!folder.join("dump_npy").exists());
        assert!(names().iter().any(|name| name.ends_with(".partial")), "{:?}", names());
        drop(given_up);
        assert_eq!(names(), BTreeSet::from(["dump".to_owned()]));
        for expected in ["dump_npy", "dump_npy_2"] {
            let whole = Partial::begin(&dump, "npy", 2).expect("begun");
            fs::write(whole.path.join("file"), "all").expect("written");
            let named = whole.finish().expect("renamed");
            assert_eq!(fs::read(named.join("file")).expect("there"), b"all");
            assert!(named.ends_with(expected), "{named:?}");
        }
        assert_eq!(names().len(), 3, "{:?}", names());
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn no_two_exports_get_the_same_folder_and_a_link_is_none() {
        let folder = std::env::temp_dir().join(format!("tensortap-web-{}", std::process::id()));
        let dump = folder.join("dump");
        fs::create_dir_all(&dump).expect("made");
        std::os::unix::fs::symlink(folder.join("elsewhere"), folder.join("dump_npy_2")).expect("linked");
        let made: Vec<PathBuf> = std::thread::scope(|scope| {
            let one = || new_folder(&dump, "npy").expect("made");
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        let different: BTreeSet<&PathBuf> = made.iter().collect();
        assert_eq!(different.len(), 8, "{made:?}");
        assert!(made.iter().all(|path| path.is_dir() && !path.is_symlink()), "{made:?}");
        assert!(!folder.join("elsewhere").exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
