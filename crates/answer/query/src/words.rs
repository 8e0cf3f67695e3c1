//! Texts for tasks, records and dumps, shared by all tables and messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use tensortap::format::{
    ArgumentKind, Dump, Launch, Loss, PayloadState, Record, RunInfo, ScalarValue, Tail, Task, full_name,
    quoted, short_name,
};
use tensortap::scene::FaultKind;
use tensortap::{DumpStage, GoldenVerdict};

use crate::number::{counted, grouped, significant};
pub use crate::printable::{printable, printable_path};

/// `grid 4 x 1 x 1, group 64 x 1 x 1`. Unknown sizes are omitted.
#[must_use]
pub fn launch_text(launch: &Launch) -> String {
    let Launch {
        work_dims: _,
        grid,
        group,
        global_size,
        global_offset,
        shared_bytes,
        cluster,
        is_cooperative,
    } = *launch;
    let wide = |sizes: [u32; 3]| sizes.map(u64::from);
    let all = [
        ("grid", wide(grid)),
        ("group", wide(group)),
        ("items", global_size),
        ("from item", global_offset),
        ("cluster", cluster.map(u64::from)),
    ];
    let known = all.iter().filter(|(_, sizes)| *sizes != [0; 3]);
    let one = |(what, sizes): &(&str, [u64; 3])| {
        format!("{what} {}", sizes.map(|size| size.to_string()).join(" x "))
    };
    let shared =
        (shared_bytes != 0).then(|| format!("{} of shared memory", counted(shared_bytes.into(), "byte")));
    let cooperative = is_cooperative.then(|| "cooperative".to_owned());
    known.map(one).chain(shared).chain(cooperative).collect::<Vec<_>>().join(", ")
}

/// A stage in a sentence.
#[must_use]
pub const fn stage_phrase(stage: DumpStage) -> &'static str {
    match stage {
        DumpStage::BeforeDispatch => "before the task",
        DumpStage::AfterCompletion => "after the task",
    }
}

/// A text with a capital letter at its start.
#[must_use]
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// A task id without leading zeros, as selectors accept it.
pub fn short_task(task_id: u64) -> String {
    format!("{task_id:#x}")
}

/// A task id with its step, if it has one: `2@0x100000002`.
#[must_use]
pub fn step_task(step: u32, task_id: u64) -> String {
    if step == 0 { short_task(task_id) } else { format!("{step}@{task_id:#x}") }
}

/// The option that chooses one of several steps: ` --step 2`. Empty if there is only one step.
#[must_use]
pub fn step_option(steps: &[u32], step: u32) -> String {
    if steps.len() > 1 { format!(" --step {step}") } else { String::new() }
}

/// The kernels of a record's task, joined by `+`; `-` if unknown.
pub fn record_kernels(record: &Record, info: &RunInfo) -> String {
    let names: Vec<_> = record.func_ids().map(|id| info.kernel_name(id)).collect();
    kernels_text(&names)
}

/// Scope and name of a task: `layer 1/attention / k_proj`. `None` if it has neither.
#[must_use]
pub fn task_title(scope: Option<&str>, task_name: Option<&str>) -> Option<String> {
    let words: Vec<_> = [scope, task_name].into_iter().flatten().map(printable).collect();
    (!words.is_empty()).then(|| words.join(" / "))
}

/// The description of a task: `layer 1/attention / k_proj: project_bf16`; `layer 1 / softmax` without a name;
/// `softmax` without a scope.
#[must_use]
pub fn task_words(task: Task<'_>) -> String {
    named_task(task.scope(), task.task_name(), &task.kernel_names())
}

/// A task with its id: `task 0x100000002 (layer 1/attention / k_proj: project_bf16)`.
#[must_use]
pub fn task_reference(task: Task<'_>) -> String {
    format!("task {} ({})", step_task(task.step, task.task_id), task_words(task))
}

/// The description of a task from its parts.
#[must_use]
pub fn named_task(scope: Option<&str>, task_name: Option<&str>, kernels: &[String]) -> String {
    let has_kernels = !kernels.is_empty();
    let kernels = kernels_text(kernels);
    match (scope, task_name) {
        // Copies, fills and host operations have only a name.
        (scope, Some(name)) if !has_kernels => task_title(scope, Some(name)).unwrap_or_default(),
        (scope, Some(name)) => format!("{}: {kernels}", task_title(scope, Some(name)).unwrap_or_default()),
        (Some(scope), None) => format!("{} / {kernels}", printable(scope)),
        (None, None) => kernels,
    }
}

/// The description of an argument: `argument 1 (scores)`.
#[must_use]
pub fn arg_words(task: Task<'_>, arg_index: u16) -> String {
    let name = task.arg_name(arg_index).map(|name| format!(" ({})", printable(name)));
    format!("argument {arg_index}{}", name.unwrap_or_default())
}

/// Short kernel names joined by `+`; `-` if there are none.
///
/// ```
/// use tensortap_query::words::kernels_text;
/// assert_eq!(kernels_text(&["softmax", "_ZN3gpu4fillIfEEvPT_i"]), "softmax+fill<float>");
/// ```
pub fn kernels_text(names: &[impl AsRef<str>]) -> String {
    joined(names, |name| short_name(name))
}

/// Complete kernel names joined by `+`, as in the source of the kernels; `-` if there are none.
pub fn full_kernels_text(names: &[impl AsRef<str>]) -> String {
    joined(names, |name| full_name(name))
}

/// The complete names of kernels if one differs from its symbol; else none.
pub(crate) fn full_names(symbols: &[String]) -> Vec<String> {
    let names: Vec<String> = symbols.iter().map(|symbol| full_name(symbol).into_owned()).collect();
    if names == symbols { Vec::new() } else { names }
}

fn joined<'n>(names: &'n [impl AsRef<str>], form: impl Fn(&'n str) -> Cow<'n, str>) -> String {
    let names: Vec<String> = names.iter().map(|name| printable(&form(name.as_ref())).into_owned()).collect();
    if names.is_empty() { "-".into() } else { names.join("+") }
}

/// Counts equal names and lists at most `most` of them, most frequent first: `softmax 28, pv 2`.
pub fn counted_names(names: impl Iterator<Item = String>, most: usize) -> String {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut words: Vec<String> =
        counts.iter().take(most).map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
    if counts.len() > most {
        words.push(counted((counts.len() - most) as u64, "further kernel"));
    }
    words.join(", ")
}

/// `16x128`; `[]` for a tensor without dimensions, `-` for a scalar.
pub fn shape_text(record: &Record) -> String {
    match (record.kind, record.shape()) {
        (ArgumentKind::Scalar, _) => "-".into(),
        (ArgumentKind::Tensor, shape) => sizes_text(shape),
    }
}

/// `16x128`; `[]` without dimensions.
pub fn sizes_text(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    if sizes.is_empty() { "[]".into() } else { sizes.join("x") }
}

/// The name by which `show` finds a record: `0x100000002/before/1`, with a step `2@0x100000002/before/1`.
#[must_use]
pub fn record_name(record: &Record) -> String {
    let mut name = String::new();
    let _ = write_record_name(&mut name, record);
    name
}

/// Appends the name of a record.
pub fn write_record_name(out: &mut impl fmt::Write, record: &Record) -> fmt::Result {
    if record.step != 0 {
        write!(out, "{}@", record.step)?;
    }
    write!(out, "{:#x}/{}/{}", record.task_id, record.stage.word(), record.arg_index)
}

/// The state of a dump in one word.
#[must_use]
pub const fn state_name(tail: &Tail) -> &'static str {
    match tail {
        Tail::Closed => "closed",
        Tail::Open => "open",
        Tail::Torn { .. } => "torn",
    }
}

/// A scalar value in few digits.
pub fn scalar_text(value: ScalarValue) -> String {
    match value {
        ScalarValue::Float(value) => short_float(value),
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value.to_string(),
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value.to_string(),
        ScalarValue::Bool(value) => value.to_string(),
        ScalarValue::Complex(value) => value.to_string(),
    }
}

/// A float: exact if that is short, else with six digits.
pub fn short_float(value: f64) -> String {
    const DIGITS: usize = 6;
    let exact = format!("{value:?}");
    if exact.len() <= DIGITS + 2 { exact } else { significant(value, DIGITS) }
}

/// A title for a dump: scene, platform and runtime, as far as known. For a dump of another project: its
/// format.
pub fn run_title(dump: &Dump) -> String {
    let RunInfo { scene, platform, runtime, .. } = dump.info();
    let mut text = if dump.format().is_foreign() { dump.format().name().to_owned() } else { String::new() };
    let mut add = |between: &str, name: &str| {
        if !name.is_empty() {
            text += if text.is_empty() { "" } else { between };
            text += &printable(name);
        }
    };
    add(", ", scene);
    add(" on ", platform);
    add(", ", runtime);
    text
}

/// The result of the run: the verdict of its own golden, and an injected fault.
#[must_use]
pub fn run_words(golden: Option<GoldenVerdict>, inject_fault: Option<&str>) -> String {
    let golden = match golden {
        Some(GoldenVerdict::Pass) => "the run's own golden passed",
        Some(GoldenVerdict::Fail) => "the run's own golden failed",
        Some(GoldenVerdict::None) => "the scene has no golden of its own",
        None => "the run's own golden was not judged",
    };
    match inject_fault {
        Some(fault) => format!("{golden}; the fault {} was injected on purpose", printable(fault)),
        None => golden.into(),
    }
}

/// The result of a dump's run. `None` for recorded programs and dumps of other projects.
#[must_use]
pub fn run_status(dump: &Dump) -> Option<String> {
    let golden = dump.footer().and_then(|footer| footer.golden);
    let is_of_scene = !dump.format().is_foreign() && !dump.info().is_of_program();
    is_of_scene.then(|| run_words(golden, dump.info().inject_fault.as_deref()))
}

/// A signal with its name: `SIGSEGV (11)`.
///
/// ```
/// use tensortap_query::words::signal_words;
/// assert_eq!((&signal_words(11)[..], &signal_words(64)[..]), ("SIGSEGV (11)", "signal 64"));
/// ```
#[must_use]
pub fn signal_words(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    format!("{name} ({signal})")
}

/// How a recorded command failed: `by SIGSEGV (11)`, `with status 3`. `None` if it succeeded.
#[must_use]
pub fn ended_words(exit_code: Option<i32>, signal: Option<i32>) -> Option<String> {
    match (signal, exit_code) {
        (Some(signal), _) => Some(format!("by {}", signal_words(signal))),
        // A shell exits with 128 plus the signal that ended its command.
        (None, Some(code @ 129..=159)) => {
            Some(format!("with status {code}, which means {}", signal_words(code - 128)))
        }
        (None, Some(0) | None) => None,
        (None, Some(code)) => Some(format!("with status {code}")),
    }
}

/// The replay option that injects the fault of the captured run. Empty if there was no fault, or if it is not
/// a fault of this task's kernels.
#[must_use]
pub fn fault_option(task: Task<'_>, inject_fault: Option<&str>) -> String {
    let is_its_own = |fault: &&str| {
        let (kernel, kind) = fault.rsplit_once('=').unwrap_or_default();
        kind != FaultKind::Race.name() && task.kernel_names().iter().any(|name| name == kernel)
    };
    // Kernel names and fault kinds need no quotes, but arbitrary text from a dump may.
    let is_plain = |fault: &str| fault.chars().all(|c| c.is_ascii_alphanumeric() || "_-.=".contains(c));
    inject_fault.filter(is_its_own).map_or(String::new(), |fault| match is_plain(fault) {
        true => format!(" --inject-fault {fault}"),
        false => format!(" --inject-fault {}", quoted(Path::new(fault))),
    })
}

/// Flags of a record that was not captured completely, contiguously and after completion.
pub fn flag_words(record: &Record) -> [&'static str; 3] {
    let tensor = record.kind == ArgumentKind::Tensor;
    let payload = match record.payload {
        PayloadState::Stored => "",
        PayloadState::None if !tensor => "",
        PayloadState::None => "no_payload",
        other => other.name(),
    };
    let strided = if tensor && !record.is_contiguous() { "strided" } else { "" };
    let in_flight = if record.in_flight { "in_flight" } else { "" };
    [payload, strided, in_flight]
}

/// Lost records by reason, summed over threads: `no_host 3, no_space 1,200`. Empty if nothing was lost.
#[must_use]
pub fn losses_by_reason(losses: &[Loss]) -> String {
    let mut by_reason = BTreeMap::new();
    for loss in losses.iter().filter(|loss| loss.records > 0) {
        let records: &mut u64 = by_reason.entry(loss.reason.as_str()).or_default();
        *records = records.saturating_add(loss.records);
    }
    let parts: Vec<String> = by_reason
        .into_iter()
        .map(|(reason, records)| format!("{} {}", printable(reason), grouped(records)))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_short() {
        for (value, text) in [
            (ScalarValue::Float(1.0), "1.0"),
            (ScalarValue::Float(f64::from(0.1_f32)), "0.100000"),
            (ScalarValue::Float(f64::MAX), "1.79769e308"),
            (ScalarValue::Float(f64::NEG_INFINITY), "-inf"),
            (ScalarValue::Int64(i64::MIN), "-9223372036854775808"),
            (ScalarValue::UInt64(u64::MAX), "18446744073709551615"),
            (ScalarValue::Bool(true), "true"),
        ] {
            assert_eq!(scalar_text(value), text);
        }
    }

    #[test]
    fn losses_are_summed_per_reason() {
        let loss = |thread, reason: &str, records| Loss { thread, reason: reason.into(), records, bytes: 0 };
        let losses =
            [loss(1, "no_space", 500), loss(2, "no_space", 700), loss(2, "no_host", 3), loss(3, "x", 0)];
        assert_eq!(losses_by_reason(&losses), "no_host 3, no_space 1,200");
        assert_eq!(losses_by_reason(&[]), "");
    }
}
