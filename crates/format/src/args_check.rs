//! Whether `args_dump.json` and `kernel_args_dump.json` say what the index says.

use std::{
    io::{BufReader, Read, Write},
    path::Path,
};

use serde_json::Value;

use crate::{
    ARGS_FILE, Dump, Footer, FormatError, KERNEL_ARGS_FILE,
    error::AtPath,
    index::open_regular,
    manifest::{JsonInput, StreamError},
    manifest_check::{is_written_as, same},
    source,
    verify::{Problem, repair_command},
};

/// A file written by another program may be larger than ours by this factor before it is no longer read.
const MAX_GROWTH: u64 = 16;

/// Whether both files are there and right, should the dump have them.
pub(crate) fn args_are_right(dir: &Path, input: &JsonInput<'_>) -> Result<bool, FormatError> {
    Ok(!input.index.info.dump_args
        || says_the_same(&dir.join(ARGS_FILE), |out| input.write_args(out))?
            && says_the_same(&dir.join(KERNEL_ARGS_FILE), |out| input.write_kernel_args(out))?)
}

/// What is wrong with the files of a closed dump; one that is not there is not looked at.
pub(crate) fn args_problems(dump: &Dump) -> Result<Vec<Problem>, FormatError> {
    let (source::Source::Indexed(indexed), Some(footer)) = (dump.source(), dump.footer()) else {
        return Ok(Vec::new());
    };
    if !dump.info().dump_args {
        return Ok(Vec::new());
    }
    let (index, end) = (&indexed.index, indexed.survey.end);
    let footer = Footer { totals: dump.totals().clone(), ..footer.clone() };
    let input = JsonInput::new(index, end, &footer, &[])?;
    let mut problems = Vec::new();
    for name in [ARGS_FILE, KERNEL_ARGS_FILE] {
        let path = dump.dir().join(name);
        let write = |out: &mut dyn Write| {
            if name == ARGS_FILE { input.write_args(out) } else { input.write_kernel_args(out) }
        };
        if path.exists() && !says_the_same(&path, write)? {
            let what = format!("{name} does not say what the index says");
            problems.push(Problem::of_dump(what, repair_command(dump.dir())));
        }
    }
    Ok(problems)
}

/// Whether a file is there and means what `write` writes; it may have more keys.
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
    match write(&mut expected) {
        Ok(()) => {}
        Err(StreamError::Index(error)) => return Err(error),
        Err(StreamError::Output(error)) => return Err(error).at("read", path),
    }
    let file = BufReader::with_capacity(1 << 18, open_regular(path)?);
    let found: Option<Value> = serde_json::from_reader(file.take(MAX_GROWTH * expected.len() as u64)).ok();
    let expected: Option<Value> = serde_json::from_slice(&expected).ok();
    Ok(expected.zip(found).is_some_and(|(expected, found)| same(&expected, &found)))
}
