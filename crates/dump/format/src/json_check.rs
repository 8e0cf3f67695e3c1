//! Compares the JSON files next to the manifest with the index: `graph.json`, and with `--dump-args` also
//! `args_dump.json` and `kernel_args_dump.json`.

use std::{
    io::{BufReader, Read, Write},
    path::Path,
};

use serde_json::Value;

use crate::{
    ARGS_FILE, Dump, FormatError, GRAPH_FILE, KERNEL_ARGS_FILE,
    error::AtPath,
    index::open_regular,
    manifest::{JsonInput, StreamError},
    manifest_check::{closed, is_written_as, same},
    verify::{Problem, repair_command},
};

/// Maximum growth of a file that a different program rewrote. Larger files are not read.
const MAX_GROWTH: u64 = 16;

/// The files that a closed dump has next to its manifest.
fn files_beside(input: &JsonInput<'_>) -> &'static [&'static str] {
    if input.index.info.dump_args { &[GRAPH_FILE, ARGS_FILE, KERNEL_ARGS_FILE] } else { &[GRAPH_FILE] }
}

fn write_beside(input: &JsonInput<'_>, name: &str, out: &mut dyn Write) -> Result<(), StreamError> {
    match name {
        ARGS_FILE => input.write_args(out),
        KERNEL_ARGS_FILE => input.write_kernel_args(out),
        _ => input.write_graph(out),
    }
}

/// Whether all of them exist and match.
pub(crate) fn files_beside_are_right(dir: &Path, input: &JsonInput<'_>) -> Result<bool, FormatError> {
    for name in files_beside(input) {
        if !says_the_same(&dir.join(name), |out| write_beside(input, name, out))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Problems of the files of a closed dump. Missing files are not checked here.
pub(crate) fn problems_beside(dump: &Dump) -> Result<Vec<Problem>, FormatError> {
    let Some((index, end, footer)) = closed(dump) else { return Ok(Vec::new()) };
    let input = JsonInput::new(index, end, &footer, &[])?;
    let mut problems = Vec::new();
    for name in files_beside(&input) {
        let path = dump.dir().join(name);
        if path.exists() && !says_the_same(&path, |out| write_beside(&input, name, out))? {
            let what = format!("{name} differs from the index");
            problems.push(Problem::of_dump(what, repair_command(dump.dir())));
        }
    }
    Ok(problems)
}

/// Whether a file exists and equals what `write` writes, apart from additional keys.
fn says_the_same(
    path: &Path,
    write: impl Fn(&mut dyn Write) -> Result<(), StreamError>,
) -> Result<bool, FormatError> {
    if !path.is_file() {
        return Ok(false);
    }
    if is_written_as(path, |out| write(out))? {
        return Ok(true);
    }
    let mut expected = Vec::new();
    write(&mut expected).at("read", path)?;
    let file = BufReader::with_capacity(1 << 18, open_regular(path)?);
    let found: Option<Value> = serde_json::from_reader(file.take(MAX_GROWTH * expected.len() as u64)).ok();
    let expected: Option<Value> = serde_json::from_slice(&expected).ok();
    Ok(expected.zip(found).is_some_and(|(expected, found)| same(&expected, &found)))
}
