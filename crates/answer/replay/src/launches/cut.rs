//! Extracts one launch as a case: a dump with only this task and its program.

use std::fmt::Write as _;

use tensortap_abi::DType;
use tensortap_format::{Dump, Launch, Module, ScalarValue, Task};

use super::contents::Contents;
use super::cuda::Cuda;
use super::opencl::OpenCl;
use super::{LaunchBackend, inexact, is_cuda, why_no_launch};
use crate::capture::Capture;
use crate::case_writer::{README_FILE, folder_bytes, in_new_folder, is_file, write_text};
use crate::{ExpectedSource, ExtractConfig, ExtractReport, ReplayError};

/// Extracts one launch with its program as a dump.
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
        return refuse("--redact", format!("{what} launches cannot be redacted"));
    }
    if config.expect != ExpectedSource::Captured {
        return refuse("--expect reference", format!("{what} launches have no references"));
    }
    if is_file(&config.out) {
        return refuse(
            "--out",
            format!("a {what} launch is extracted with its program into a folder, not a file"),
        );
    }
    let not_extracted = |reason: String| ReplayError::NotExtracted { task: task.task_id, reason };
    if let Some(why) = why_no_launch(task) {
        return Err(not_extracted(why));
    }
    let mut grades = Vec::new();
    let gather = if is_of_cuda { Cuda::gather } else { OpenCl::gather };
    gather(&contents, task, &mut grades)?.map_err(not_extracted)?;
    if let Some(why) = contents.damaged(task)? {
        return Err(not_extracted(why));
    }
    if let Some(why) = inexact(task, &grades).filter(|_| !config.allow_inexact) {
        return Err(not_extracted(format!("{why}; add --allow-inexact to extract it anyway")));
    }
    let payloads = in_new_folder(&config.out, |folder| {
        let payloads = dump.cut_task(task, folder)?;
        write_text(&folder.join(README_FILE), &explain(task, module))?;
        Ok(payloads)
    })?;
    Ok(ExtractReport {
        out: config.out.clone(),
        task_id: task.task_id,
        kernels: task.kernel_names(),
        arguments: task.arguments().len(),
        payloads,
        bytes: folder_bytes(&config.out),
        redacted: false,
        expect: ExpectedSource::Captured,
        outside: None,
        libraries: Vec::new(),
    })
}

/// Describes the grid of a launch. If the driver chose the groups, only the work items are known.
fn spread(launch: &Launch) -> String {
    let sizes = |sizes: [u64; 3]| sizes.map(|size| size.to_string()).join(" x ");
    let (grid, group) = (launch.grid.map(u64::from), launch.group.map(u64::from));
    match (group[0], launch.global_size[0]) {
        (0, _) => format!("work items: {}, in groups chosen by the driver", sizes(launch.global_size)),
        (_, 0) => format!("groups: {} of {} work items", sizes(grid), sizes(group)),
        _ => format!("work items: {}, in groups of {}", sizes(launch.global_size), sizes(group)),
    }
}

/// Formats a scalar with its type.
fn scalar(dtype: DType, bits: u64) -> String {
    let value = match ScalarValue::decode(dtype, bits) {
        ScalarValue::Float(value) => format!("{value:?}"),
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value.to_string(),
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value.to_string(),
        ScalarValue::Bool(value) => value.to_string(),
        ScalarValue::Complex(value) => value.to_string(),
    };
    format!("{value} ({})", dtype.name())
}

/// The README of the case.
fn explain(task: Task<'_>, module: Option<&Module>) -> String {
    let kernels = task.kernel_names().join(", ");
    let mut text = format!(
        "# One launch of `{kernels}`\n\nTask {:#x} of a recorded program, with its program and the content of its memory before and \
         after it.\n`tensortap replay` runs it again and compares its outputs; `tensortap show` and `list` show its inputs.\n\n",
        task.task_id
    );
    // Names, options and devices must not end a line or a table cell.
    let line = |text: &str| text.replace(['\n', '\r', '`', '|'], " ");
    if let Some(module) = module {
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
        let _ = writeln!(text, "- {}", spread(launch));
    }
    text += "\n| argument | name | before | after |\n| --- | --- | --- | --- |\n";
    for argument in task.arguments() {
        let hash = |hash: Option<u128>| hash.map_or_else(|| "-".to_owned(), |hash| format!("{hash:032x}"));
        let before = match argument.scalar_bits {
            Some(bits) => scalar(argument.dtype, bits),
            None => hash(argument.hash_before()),
        };
        let (at, name) = (argument.arg_index, line(task.arg_name(argument.arg_index).unwrap_or("-")));
        let _ = writeln!(text, "| {at} | {name} | {before} | {} |", hash(argument.hash_after()));
    }
    text
}
