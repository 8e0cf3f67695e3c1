//! Names: of dump folders, of the payload file, and of the newest dump.

use std::{
    fs,
    io::ErrorKind,
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{FormatError, INDEX_FILE, error::AtPath, index::Index};

/// Dumps of the same second in one folder; more than this is something gone wrong.
const MAX_SAME_NAME: u32 = 10_000;

/// A date and a time of day, UTC.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    nanos: u32,
}

impl Civil {
    /// Times before 1970 count as 1970.
    fn of(time: SystemTime) -> Civil {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // Days are counted from 0000-03-01, so that a leap day is the last of its year; 400 years have 146,097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
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

/// A time in UTC with nanoseconds; such texts sort like the times.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// let time = UNIX_EPOCH + Duration::new(1_776_248_100, 5);
/// assert_eq!(tensortap_format::timestamp(time), "2026-04-15T10:15:00.000000005Z");
/// ```
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, nanos } = Civil::of(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Chooses and creates the folder of a new dump: `explicit`, which must be new or empty, or
/// `<outputs>/tensor_dump_<YYYYMMDD_HHMMSS>` (UTC), with `_2`, `_3`, … where that is taken.
pub fn choose_dir(
    explicit: Option<&Path>,
    outputs: &Path,
    started: SystemTime,
) -> Result<PathBuf, FormatError> {
    match explicit {
        Some(dir) => claim_dir(dir),
        None => new_dir(outputs, started),
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

fn new_dir(outputs: &Path, started: SystemTime) -> Result<PathBuf, FormatError> {
    fs::create_dir_all(outputs).at("create", outputs)?;
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(started);
    let stem = format!("tensor_dump_{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}");
    let mut dir = outputs.join(&stem);
    for number in 2..MAX_SAME_NAME {
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => dir = outputs.join(format!("{stem}_{number}")),
            created => return created.at("create", &dir).map(|()| dir),
        }
    }
    Err(FormatError::Exists { path: dir })
}

/// Whether a name from a dump is a file beside its index and nothing else.
pub(crate) fn is_plain_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(only)) if only == name);
    plain && components.next().is_none() && !name.contains('\0')
}

/// The folder of the dump that `path` names: by a file of the dump, by its folder, or by a folder that holds it.
pub(crate) fn locate(path: &Path) -> Result<PathBuf, FormatError> {
    let metadata = fs::metadata(path).at("open", path)?;
    if !metadata.is_dir() {
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return if holds_index(dir) { Ok(dir.to_owned()) } else { Err(no_dump(path)) };
    }
    if holds_index(path) {
        return Ok(path.to_owned());
    }
    find_newest(path).or_else(|_| find_newest(&path.join("outputs"))).map_err(|_| no_dump(path))
}

/// The dump in `outputs` that was started last.
pub fn find_newest(outputs: &Path) -> Result<PathBuf, FormatError> {
    let entries = match fs::read_dir(outputs) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(no_dump(outputs)),
        listed => listed.at("list", outputs)?,
    };
    let dumps = entries.flatten().map(|entry| entry.path()).filter(|dir| holds_index(dir));
    dumps.max_by_key(|dir| age_key(dir)).ok_or_else(|| no_dump(outputs))
}

/// Orders dumps by their start; of the same start, by name. A damaged index counts as older than any other.
fn age_key(dir: &Path) -> (String, usize, PathBuf) {
    let started = Index::open(&dir.join(INDEX_FILE)).map(|index| index.info.started_at).unwrap_or_default();
    // `_10` is later than `_9`.
    (started, dir.as_os_str().len(), dir.to_owned())
}

fn holds_index(dir: &Path) -> bool {
    dir.join(INDEX_FILE).is_file()
}

fn no_dump(path: &Path) -> FormatError {
    FormatError::NoDump { path: path.to_owned() }
}
