//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

/// Written in pieces of this size.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes a file through `write`. It has its name only when all of it was written; until then what had that name before stays. What
/// is no regular file, as a pipe, is written to as it is.
pub fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cannot = || format!("writing {}", path.display());
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let file = File::options().write(true).open(path).with_context(cannot)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written = write(&mut out)?;
        out.flush().with_context(cannot)?;
        return Ok(written);
    }
    anyhow::ensure!(!path.is_dir(), "{} is a folder; name a file", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    anyhow::ensure!(folder.is_dir(), "{}: there is no folder {}; make it first", cannot(), folder.display());
    // A temporary file is its owner's alone unless told: this one may be read as any that this user makes.
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
