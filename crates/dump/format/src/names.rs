//! Names of dump folders and payload files, and finding the newest dump.

use std::{
    fs,
    io::ErrorKind,
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    FormatError, GRAPH_FILE, INDEX_FILE, KERNEL_ARGS_FILE, MANIFEST_FILE,
    error::AtPath,
    index::{Index, open_regular, read_up_to},
    layout::INDEX_MAGIC,
    source::{JsonKind, case_at, detect, is_single_file, simpler},
};

/// Maximum number of dumps with the same second in one folder. More indicates a problem.
const MAX_SAME_NAME: u32 = 10_000;

/// A date and a time of day, UTC.
struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    nanos: u32,
}

impl UtcTime {
    /// Times before 1970 become 1970.
    fn of(time: SystemTime) -> UtcTime {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // Days are counted from 0000-03-01, so that a leap day is the last day of its year. 400 years have
        // 146,097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        UtcTime {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            nanos: since.subsec_nanos(),
        }
    }
}

/// A time in UTC with nanoseconds. Such texts sort like the times.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// let time = UNIX_EPOCH + Duration::new(1_776_248_100, 5);
/// assert_eq!(tensortap_format::timestamp(time), "2026-04-15T10:15:00.000000005Z");
/// ```
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    let UtcTime { year, month, day, hour, minute, second, nanos } = UtcTime::of(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// The current value of the monotonic clock in nanoseconds. Read together with the wall clock, it converts
/// times between the two.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Chooses and creates the folder of a new dump: `explicit`, which must be new or empty, or
/// `<outputs>/tensor_dump_<YYYYMMDD_HHMMSS>` (UTC). If that exists, appends `_2`, `_3`, ….
pub fn choose_dir(
    explicit: Option<&Path>,
    outputs: &Path,
    started: SystemTime,
) -> Result<PathBuf, FormatError> {
    choose_dir_named(explicit, outputs, "tensor_dump", started)
}

/// As [`choose_dir`], for folders named `<name>_<YYYYMMDD_HHMMSS>`.
pub fn choose_dir_named(
    explicit: Option<&Path>,
    outputs: &Path,
    name: &str,
    started: SystemTime,
) -> Result<PathBuf, FormatError> {
    match explicit {
        Some(dir) => claim_dir(dir),
        None => new_dir(outputs, name, started),
    }
}

fn claim_dir(dir: &Path) -> Result<PathBuf, FormatError> {
    fs::create_dir_all(dir).at("create", dir)?;
    let mut entries = fs::read_dir(dir).at("list", dir)?;
    if entries.next().is_some() {
        return Err(FormatError::OutputNotEmpty { dir: dir.to_owned() });
    }
    Ok(dir.to_owned())
}

fn new_dir(outputs: &Path, name: &str, started: SystemTime) -> Result<PathBuf, FormatError> {
    fs::create_dir_all(outputs).at("create", outputs)?;
    let UtcTime { year, month, day, hour, minute, second, .. } = UtcTime::of(started);
    let stem = format!("{name}_{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}");
    let mut dir = outputs.join(&stem);
    for number in 2..MAX_SAME_NAME {
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => dir = outputs.join(format!("{stem}_{number}")),
            created => return created.at("create", &dir).map(|()| dir),
        }
    }
    Err(FormatError::Exists { path: dir })
}

/// A path quoted as one word for a shell, for messages with a command to run.
///
/// ```
/// use tensortap_format::quoted;
/// assert_eq!(quoted("outputs/tensor_dump_20260415_101500_2".as_ref()), "outputs/tensor_dump_20260415_101500_2");
/// assert_eq!(quoted("my dump".as_ref()), "'my dump'");
/// assert_eq!(quoted("it's".as_ref()), r"'it'\''s'");
/// assert_eq!(quoted("$HOME".as_ref()), "'$HOME'");
/// assert_eq!(quoted("".as_ref()), "''");
/// assert_eq!(quoted("a\x1b[2J\u{202e}'".as_ref()), r"$'a\x1b[2J\xe2\x80\xae\''");
/// ```
#[must_use]
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else if text.chars().all(|c| c.is_alphanumeric() || c == ' ' || c.is_ascii_graphic()) {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        format!("$'{}'", text.chars().map(spelled).collect::<String>())
    }
}

/// A character between `$'` and `'`. Characters without a plain form are escaped by their bytes, so that
/// they can neither control a terminal nor end a line. The shell still reads the same name.
fn spelled(c: char) -> String {
    match c {
        '\'' | '\\' => format!("\\{c}"),
        c if c.is_alphanumeric() || c == ' ' || c.is_ascii_graphic() => c.into(),
        c => c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
    }
}

/// Whether a name from a dump is a plain file name.
pub(crate) fn is_plain_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(only)) if only == name);
    plain && components.next().is_none() && !name.contains('\0')
}

/// File names of manifests, in all versions.
const MANIFEST_NAMES: [&str; 3] = [MANIFEST_FILE, simpler::MANIFEST_FILES[0], simpler::MANIFEST_FILES[1]];

/// The location of a dump.
pub(crate) struct DumpLocation {
    /// The dump's folder, or the file of a case in one file.
    pub(crate) dir: PathBuf,
    /// Its index or manifest.
    pub(crate) file: PathBuf,
    pub(crate) is_index: bool,
}

impl DumpLocation {
    fn index(file: PathBuf) -> DumpLocation {
        DumpLocation { dir: folder_of(&file).to_owned(), file, is_index: true }
    }

    fn manifest(file: PathBuf) -> DumpLocation {
        DumpLocation { dir: folder_of(&file).to_owned(), file, is_index: false }
    }

    fn case(file: PathBuf) -> DumpLocation {
        let dir = if is_single_file(&file) { &file } else { folder_of(&file) };
        DumpLocation { dir: dir.to_owned(), file, is_index: false }
    }

    /// Sorts dumps by their start, then by name. A damaged index counts as older than any other. For a
    /// manifest without a start time, its modification time counts.
    fn age_key(&self) -> (String, usize, PathBuf) {
        let written = || fs::metadata(&self.file).and_then(|metadata| metadata.modified());
        let started = if self.is_index {
            Index::open(&self.file).map(|index| index.info.started_at).unwrap_or_default()
        } else {
            written().map(timestamp).unwrap_or_default()
        };
        // `_10` sorts after `_9`.
        (started, self.file.as_os_str().len(), self.file.clone())
    }
}

/// The folder that contains a file.
pub(crate) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The dump that `path` names: a file of the dump, its folder, or a folder that contains it.
pub(crate) fn locate(path: &Path) -> Result<DumpLocation, FormatError> {
    let metadata = fs::metadata(path).at("open", path)?;
    // A case of version 1 among dumps is never the newest of them; only its own path names it.
    let case = || case_at(path).map(DumpLocation::case);
    if metadata.is_dir() {
        let inner = || newest_in(path).or_else(|| newest_in(&path.join("outputs")));
        let found = dump_in(path).or_else(case).or_else(inner).or_else(|| unrecognised_in(path));
        return found.ok_or_else(|| no_dump(path));
    }
    case().map_or_else(|| locate_by_file(path), Ok)
}

/// A file is identified by its content. A manifest without recognizable content and a payload file
/// represent the dump in their folder.
fn locate_by_file(path: &Path) -> Result<DumpLocation, FormatError> {
    if starts_with_index_magic(path) {
        return Ok(DumpLocation::index(path.to_owned()));
    }
    let dir = folder_of(path);
    match detect(path) {
        JsonKind::Foreign => Ok(DumpLocation::manifest(path.to_owned())),
        JsonKind::Own if !holds_index(dir) => Ok(DumpLocation::manifest(path.to_owned())),
        JsonKind::Other if !represents_its_folder(path) && dump_in(dir).is_some() => {
            if claims_to_be_a_manifest(path) && !is_manifest_neighbor(path) {
                return Ok(DumpLocation::manifest(path.to_owned()));
            }
            Err(FormatError::NotADump { path: path.to_owned(), reason: "it is not a manifest".into() })
        }
        JsonKind::Own | JsonKind::OrchestrationArgs | JsonKind::Other => {
            let by_itself = || claims_to_be_a_manifest(path).then(|| DumpLocation::manifest(path.to_owned()));
            dump_in(dir).or_else(by_itself).ok_or_else(|| no_dump(path))
        }
    }
}

/// Whether a file with unrecognizable content has a name that represents the dump in its folder.
fn represents_its_folder(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_payload_file = path.extension().is_some_and(|extension| extension == "bin");
    is_payload_file || [INDEX_FILE, KERNEL_ARGS_FILE].contains(&name) || MANIFEST_NAMES.contains(&name)
}

/// Whether the error of opening a file as a manifest is more helpful than "no tensor dump".
fn claims_to_be_a_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Whether the name is that of a file next to a manifest. Such a file never hides a dump.
fn is_manifest_neighbor(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    [GRAPH_FILE, simpler::DEPS_FILE].contains(&name) || name.starts_with(simpler::NAME_MAP)
}

/// The dump directly in a folder.
fn dump_in(dir: &Path) -> Option<DumpLocation> {
    if holds_index(dir) {
        return Some(DumpLocation::index(dir.join(INDEX_FILE)));
    }
    let is_candidate = |path: &PathBuf| claims_to_be_a_manifest(path) && !is_manifest_neighbor(path);
    let files = entries(dir).filter(|path| is_candidate(path) && path.is_file());
    let manifests = files.filter(|path| matches!(detect(path), JsonKind::Own | JsonKind::Foreign));
    manifests.map(DumpLocation::manifest).max_by_key(DumpLocation::age_key)
}

/// Finds a manifest only by its name: a manifest that is truncated before its first record should cause a
/// specific error.
fn unrecognised_in(dir: &Path) -> Option<DumpLocation> {
    let named = MANIFEST_NAMES.map(|name| dir.join(name));
    named.into_iter().find(|path| path.is_file()).map(DumpLocation::manifest)
}

/// The newest dump in the subfolders of a folder, up to two levels deep.
fn newest_in(outputs: &Path) -> Option<DumpLocation> {
    let inner = |dir: PathBuf| dump_in(&dir).or_else(|| newest_of(entries(&dir)));
    entries(outputs).filter(|path| path.is_dir()).filter_map(inner).max_by_key(DumpLocation::age_key)
}

fn newest_of(dirs: impl Iterator<Item = PathBuf>) -> Option<DumpLocation> {
    dirs.filter(|path| path.is_dir()).filter_map(|dir| dump_in(&dir)).max_by_key(DumpLocation::age_key)
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The newest dump in `outputs`, of any format: in a subfolder, or in a subfolder of one.
pub fn find_newest(outputs: &Path) -> Result<PathBuf, FormatError> {
    match fs::read_dir(outputs) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).at("list", outputs),
        _ => {}
    }
    newest_in(outputs).map(|located| located.dir).ok_or_else(|| no_dump(outputs))
}

fn holds_index(dir: &Path) -> bool {
    dir.join(INDEX_FILE).is_file()
}

fn starts_with_index_magic(path: &Path) -> bool {
    let mut magic = [0; INDEX_MAGIC.len()];
    open_regular(path).is_ok_and(|file| read_up_to(&file, &mut magic, 0).is_ok()) && magic == INDEX_MAGIC
}

fn no_dump(path: &Path) -> FormatError {
    FormatError::NoDump { path: path.to_owned() }
}
