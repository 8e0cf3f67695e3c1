//! Actions that run kernels or write files. The server allows them only with --allow-actions.

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

/// Replays one task and compares its output with the captured output.
pub(crate) fn replay(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let graph = opened.graph()?;
    let name = params.get("task").ok_or_else(|| Problem::new("the request names no task"))?;
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

/// Exports the records that match a search to a new folder next to the dump.
pub(crate) fn export(state: &Arc<State>, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
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
        let partial = PartialFolder::begin(opened.dump.dir(), format.name(), job.id)?;
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

/// A folder next to a dump that is being filled. It has a temporary name until it is complete, so that a
/// folder with a final name is always complete, even if the server is killed. It is removed on drop unless it
/// was finished.
struct PartialFolder {
    path: PathBuf,
    dump: PathBuf,
    format: String,
}

impl PartialFolder {
    fn begin(dump: &Path, format: &str, job: u64) -> Result<PartialFolder, Problem> {
        let dump = dump.canonicalize().map_err(Problem::new)?;
        let name = format!(".{}_{format}.{}-{job}.partial", base_name(&dump), std::process::id());
        let path = dump.parent().unwrap_or(&dump).join(name);
        let cannot = |error| Problem::new(format!("cannot create {}: {error}", path.display()));
        fs::create_dir(&path).map_err(cannot)?;
        Ok(PartialFolder { path, dump, format: format.to_owned() })
    }

    /// Gives the folder its final name.
    fn finish(self) -> Result<PathBuf, Problem> {
        let named = new_folder(&self.dump, &self.format)?;
        // `rename` replaces the empty new folder.
        let renamed = fs::rename(&self.path, &named);
        renamed.map_err(|error| Problem::new(format!("cannot create {}: {error}", named.display())))?;
        Ok(named)
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn base_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "dump".into(), |name| name.to_string_lossy().into_owned())
}

/// Creates a new folder next to the dump. No request names a folder, so two exports never share one.
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
    Err(Problem::new("there are already too many exports next to the dump"))
}

/// Cancels a job.
pub(crate) fn cancel(state: &State, params: &Params) -> Result<Answer, Problem> {
    let job = find(state, params)?;
    job.cancel();
    Ok(Answer::json(job.text()))
}

/// The progress of a job.
pub(crate) fn job(state: &State, params: &Params) -> Result<Answer, Problem> {
    Ok(Answer::json(find(state, params)?.text()))
}

fn find(state: &State, params: &Params) -> Result<Arc<super::jobs::Job>, Problem> {
    let id = params.number("job")?.ok_or_else(|| Problem::new("the request names no job"))?;
    state
        .jobs
        .find(id)
        .ok_or_else(|| Problem::new("there is no such job; finished jobs are forgotten after a while"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_export_gets_its_name_when_complete_and_is_removed_otherwise() {
        let folder = std::env::temp_dir().join(format!("tensortap-web-partial-{}", std::process::id()));
        let dump = folder.join("dump");
        fs::create_dir_all(&dump).expect("made");
        let names = || -> BTreeSet<String> {
            let entries = fs::read_dir(&folder).expect("a folder");
            entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
        };
        let canceled = PartialFolder::begin(&dump, "npy", 1).expect("begun");
        fs::write(canceled.path.join("half"), "half").expect("written");
        // No export is visible now, nor if the server were killed now.
        assert!(!folder.join("dump_npy").exists());
        assert!(names().iter().any(|name| name.ends_with(".partial")), "{:?}", names());
        drop(canceled);
        assert_eq!(names(), BTreeSet::from(["dump".to_owned()]));
        for expected in ["dump_npy", "dump_npy_2"] {
            let whole = PartialFolder::begin(&dump, "npy", 2).expect("begun");
            fs::write(whole.path.join("file"), "all").expect("written");
            let named = whole.finish().expect("renamed");
            assert_eq!(fs::read(named.join("file")).expect("there"), b"all");
            assert!(named.ends_with(expected), "{named:?}");
        }
        assert_eq!(names().len(), 3, "{:?}", names());
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn exports_never_share_a_folder_or_follow_a_link() {
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
