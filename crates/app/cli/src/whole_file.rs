//! Files that are written completely or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes a file with `write`. The file gets its name after everything is written; until then an older file of that
/// name stays. A path that is not a regular file, such as a pipe, is written to directly.
pub fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cannot = || format!("cannot write {}", path.display());
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let file = File::options().write(true).open(path).with_context(cannot)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written = write(&mut out)?;
        out.flush().with_context(cannot)?;
        return Ok(written);
    }
    anyhow::ensure!(!path.is_dir(), "{} is a folder, not a file", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    anyhow::ensure!(
        folder.is_dir(),
        "{}: the folder {} does not exist; create it first",
        cannot(),
        folder.display()
    );
    // Temporary files are private by default. This one gets the usual permissions of new files.
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tensortap-").permissions(fs::Permissions::from_mode(0o666));
    let (file, temporary) = builder.tempfile_in(folder).with_context(cannot)?.into_parts();
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    let written = write(&mut out).with_context(cannot)?;
    let file = out.into_inner().map_err(|error| error.into_error()).with_context(cannot)?;
    drop(file);
    temporary.persist(path).map_err(|error| error.error).with_context(cannot)?;
    Ok(written)
}
