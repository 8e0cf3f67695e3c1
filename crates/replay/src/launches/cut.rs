//! One launch as a case of its own: a dump that has nothing else, with its program.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tensortap_format::{Dump, Module, Task};

use super::contents::Contents;
use super::cuda::Cuda;
use super::opencl::OpenCl;
use super::{Door, inexact, is_cuda, no_launch};
use crate::capture::Capture;
use crate::case_writer::is_file;
use crate::{Expect, ExtractConfig, ExtractReport, ReplayError};

/// Cuts one launch out, with its program, as a dump of its own.
pub fn extract(
    config: &ExtractConfig,
    capture: &dyn Capture,
    dump: &Dump,
    task: Task<'_>,
) -> Result<ExtractReport, ReplayError> {
    let modules = dump.modules();
    let contents = Contents::new(capture, dump);
    let id = contents.module_of(task);
    let module = modules.iter().find(|module| module.id == id);
    let is_of_cuda = module.map_or_else(|| modules.iter().all(is_cuda), is_cuda);
    let what = if is_of_cuda { "CUDA" } else { "OpenCL" };
    let refuse = |option, reason: String| Err(ReplayError::Option { option, reason });
    if config.redact.is_some() {
        return refuse("--redact", format!("a launch of {what} is cut out as it is"));
    }
    if config.expect != Expect::Captured {
        return refuse("--expect reference", format!("launches of {what} have no references"));
    }
    if is_file(&config.out) {
        return refuse("--out", format!("a launch of {what} becomes a folder, which its program lies in"));
    }
    let not_extracted = |reason: String| ReplayError::NotExtracted { task: task.task_id, reason };
    if let Some(why) = no_launch(task) {
        return Err(not_extracted(why));
    }
    let mut grades = Vec::new();
    let gather = if is_of_cuda { Cuda::gather } else { OpenCl::gather };
    gather(&contents, task, &mut grades)?.map_err(not_extracted)?;
    if let Some(why) = inexact(task, &grades).filter(|_| !config.allow_inexact) {
        return Err(not_extracted(format!("{why}; --allow-inexact")));
    }
    let mut cut = dump.cut_task(task.task_id, &config.out)?;
    cut.bytes += explain(&config.out, task, module)?;
    Ok(ExtractReport {
        out: config.out.clone(),
        task_id: task.task_id,
        kernels: task.kernel_names(),
        arguments: task.arguments().len(),
        payloads: cut.payloads,
        bytes: cut.bytes,
        redacted: false,
        expect: Expect::Captured,
        outside: None,
        libraries: Vec::new(),
    })
}

/// Writes what the case is, for people; its size.
fn explain(out: &Path, task: Task<'_>, module: Option<&Module>) -> Result<u64, ReplayError> {
    let kernels = task.kernel_names().join(", ");
    let mut text = format!(
        "# One launch of `{kernels}`\n\nTask {:#x} of a recorded program, with its program and what its memory held before and after it. `tensortap replay` of \
         this folder runs it again and compares what it leaves; `tensortap show` and `list` show what it was given.\n\n",
        task.task_id
    );
    if let Some(module) = module {
        // Neither an option nor a device ends the line, whatever it holds.
        let line = |text: &str| text.replace(['\n', '\r', '`'], " ");
        let _ = writeln!(
            text,
            "- program: {} ({}, {} bytes)",
            line(&module.name),
            module.kind.name(),
            module.bytes
        );
        let _ = writeln!(text, "- built for: {}", line(&module.device));
        if !module.options.is_empty() {
            let _ = writeln!(text, "- options: `{}`", line(&module.options));
        }
    }
    if let Some(launch) = task.launch.as_deref() {
        let sizes = |sizes: [u32; 3]| sizes.map(|size| size.to_string()).join(" x ");
        let _ = writeln!(text, "- groups: {} of {} work items", sizes(launch.grid), sizes(launch.group));
    }
    text += "\n| argument | before | after |\n| --- | --- | --- |\n";
    for argument in task.arguments() {
        let hash = |hash: Option<u128>| hash.map_or_else(|| "-".to_owned(), |hash| format!("{hash:032x}"));
        let before = match argument.scalar_bits {
            Some(bits) => format!("{bits:#x}"),
            None => hash(argument.hash_before()),
        };
        let _ = writeln!(text, "| {} | {before} | {} |", argument.arg_index, hash(argument.hash_after()));
    }
    let path = out.join("README.md");
    fs::write(&path, &text).map_err(|source| ReplayError::Io { action: "write", path, source })?;
    Ok(text.len() as u64)
}
