//! The metadata of a record.

use std::fmt::Write;

use tensortap::DumpLevel;
use tensortap::TaskId;
use tensortap::format::{ArgumentKind, DispatchFacts, Dump, Loss, Names, PayloadState, Record, full_name};
use tensortap::values::Element;

use tensortap_query::RelatedRecords;
use tensortap_query::number::{bytes, grouped};
use tensortap_query::observed::ObservedRoles;
use tensortap_query::words::{printable, record_kernels, record_name, task_title};

/// The metadata, one fact per line.
pub fn text(dump: &Dump, record: &Record, related: &RelatedRecords) -> String {
    let mut facts = Facts::default();
    let kernel = record_kernels(record, dump.info());
    let of = if kernel == "-" { String::new() } else { format!(" of {kernel}") };
    facts.text = format!("record {}: {}{of}\n", record.index, record_name(record));
    facts.add("task", &task(dump, record));
    let Names { scope, task_name, arg_name, .. } = dump.names(record);
    if let Some(title) = task_title(scope, task_name) {
        facts.add("name", &title);
    }
    if let (Some(id), Some(of)) = (record.dispatch_id(), record.dispatch) {
        let DispatchFacts { core_id, block_idx, subtask_id, .. } = of;
        let core = of.core_type().name();
        facts.add(
            "dispatch",
            &format!("{id:#018x}, block {block_idx}, slot {subtask_id}, core {core_id} ({core})"),
        );
    }
    let (role, stage) = (ObservedRoles::of(dump).choice(record).name(), record.stage.name());
    let named = arg_name.map(|name| format!(" ({})", printable(name))).unwrap_or_default();
    facts.add("argument", &format!("{}{named}, {role}, {stage}", record.arg_index));
    match record.kind {
        ArgumentKind::Scalar => scalar(&mut facts, record),
        ArgumentKind::Tensor => tensor(&mut facts, dump, record, related),
    }
    if record.in_flight {
        facts.add("in flight", "the task had not completed: the content may be incomplete");
    }
    for (key, value) in dump.unknown(record) {
        facts.add(&printable(&key), &printable(&value.to_string()));
    }
    facts.text
}

#[derive(Default)]
struct Facts {
    text: String,
}

impl Facts {
    fn add(&mut self, label: &str, fact: &str) {
        let _ = writeln!(self.text, "  {label:<12}  {fact}");
    }
}

fn task(dump: &Dump, record: &Record) -> String {
    let id = TaskId(record.task_id);
    let ring = if id.ring() > 0 { format!(" (ring {}, {})", id.ring(), id.local()) } else { String::new() };
    let funcs: Vec<String> = record
        .func_ids()
        .map(|func| format!("{} (func {func})", printable(&full_name(&dump.info().kernel_name(func)))))
        .collect();
    let runs = if funcs.is_empty() { String::new() } else { format!(", runs {}", funcs.join(" + ")) };
    format!("{id}{ring}{runs}")
}

fn scalar(facts: &mut Facts, record: &Record) {
    let bits = record.scalar_bits.unwrap_or_default();
    if record.is_local {
        facts.add("local memory", &bytes(bits));
        return;
    }
    facts.add("scalar", record.dtype.name());
    facts.add("value", &Element { dtype: record.dtype, bits: bits.into() }.to_string());
    facts.add("bits", &format!("{bits:#018x}"));
}

fn tensor(facts: &mut Facts, dump: &Dump, record: &Record, related: &RelatedRecords) {
    let size = record.content_bytes();
    let exact = if size < 1024 { String::new() } else { format!(" ({} bytes)", grouped(size)) };
    let shape = list(record.shape());
    facts.add(
        "tensor",
        &format!("{} {shape}, {} elements, {}{exact}", record.dtype, grouped(record.numel), bytes(size)),
    );
    let order = if record.is_contiguous() { "contiguous" } else { "strided; stored contiguously" };
    facts.add(
        "view",
        &format!(
            "strides {}, from element {}, {order}",
            list(record.strides()),
            grouped(record.start_offset)
        ),
    );
    if record.address != 0 {
        facts.add("address", &format!("{:#x}", record.address));
    }
    facts.add("payload", &payload(dump, record));
    if let Some(hash) = record.hash {
        facts.add("hash", &format!("{hash:#034x}"));
    }
    if let Some(same) = related.same_content_text() {
        facts.add("same content", &same);
    }
    if let Some(other) = &related.other_stage {
        let changed = match (record.hash, other.hash) {
            (Some(a), Some(b)) if a == b => "; the kernel did not change it",
            _ => "; --delta shows the changes of the kernel",
        };
        facts.add(other.stage.word(), &format!("record {} ({}){changed}", other.index, record_name(other)));
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    format!("[{}]", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Where the content is stored, or why it is missing.
fn payload(dump: &Dump, record: &Record) -> String {
    let (file, offset) = dump.payload_place(record);
    let (offset, size) = (grouped(offset), grouped(record.bin_size));
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match record.payload {
        PayloadState::Stored => format!("{size} bytes at {offset} of {}", printable(&file)),
        PayloadState::Truncated => {
            let all = grouped(record.content_bytes());
            format!(
                "the first {size} of {all} bytes, at {offset} of {}; the rest was not stored",
                printable(&file)
            )
        }
        PayloadState::None if record.dispatch.is_some() => {
            "none: the dump contains only arguments of dispatches; --dump-tensor stores content".into()
        }
        PayloadState::None => format!("none: {}", why_none(dump)),
        PayloadState::Dropped => why_dropped(dump, record).into(),
        PayloadState::Missing => {
            format!("missing: {size} bytes at {offset} of {}, which is too short", printable(&file))
        }
        PayloadState::Gone => "gone: it left the dump during the run".into(),
        PayloadState::Overwritten => "overwritten in device memory before the host read it".into(),
    }
}

/// Why a payload was dropped: during the run, or by a repair after it. The losses of the record's thread tell which.
fn why_dropped(dump: &Dump, record: &Record) -> &'static str {
    let losses = dump.footer().map(|footer| footer.losses.as_slice()).unwrap_or_default();
    let of_thread = || losses.iter().filter(|loss| loss.thread == record.thread && loss.records > 0);
    let (repaired, other): (Vec<&Loss>, Vec<&Loss>) =
        of_thread().partition(|loss| loss.reason == Loss::PAYLOAD_MISSING);
    match (repaired.is_empty(), other.is_empty()) {
        (false, true) => "marked as lost by repair: the payload file did not contain it",
        (false, false) => {
            "dropped: there was no room for it during the run, or repair did not find it in the payload file"
        }
        (true, _) => "dropped: there was no room for it during the run",
    }
}

/// Why a record has no payload.
fn why_none(dump: &Dump) -> &'static str {
    match DumpLevel::from_tag(dump.info().dump_level) {
        Some(DumpLevel::Hash) => {
            "level hash records only hash and statistics; --dump-tensor=full stores content"
        }
        Some(DumpLevel::Meta) => "level meta stores content only for marked arguments",
        _ => "a filter or a limit removed the content",
    }
}
