//! Compares the header with the Rust layouts: writes constants and offsets of Rust as a C file that asserts
//! them. The header asserts its own sizes.

use std::{fmt::Write as _, mem::offset_of};

use tensortap::{
    Counts, FolderSettings, KernelArg, MemoryEvent, ModuleImageInfo, RecordApi, RecordedTask, ReservedSpace,
    STATUSES, TaskDescription, Value, View,
};
use tensortap_abi::{
    AttributeType, CollectiveKind, DType, DumpLevel, DumpStage, EdgeCause, MAX_ATTRIBUTE_VALUES, MAX_DIMS,
    MemorySpace, ModuleKind, Operation, Role,
};

use crate::compile::{STRICT, compile};

macro_rules! offsets {
    ($is:ident, $c:literal, $rust:ident: $($field:ident)+) => {
        $is(concat!("sizeof(", $c, ")"), size_of::<$rust>());
        $($is(concat!("offsetof(", $c, ", ", stringify!($field), ")"), offset_of!($rust, $field));)+
    };
}

/// The assertions, for both languages.
fn asserts() -> String {
    let mut text = String::from("#include <tensortap_record.h>\n");
    let mut is = |what: &str, value: usize| {
        let _ =
            writeln!(text, "TT_STATIC_ASSERT((long long){what} == {value}, \"{what} is {value} in Rust\");");
    };
    for dtype in DType::ALL {
        is(&format!("TT_{}", dtype.name().to_uppercase()), dtype.tag().into());
    }
    for (name, role) in [("TT_IN", Role::Input), ("TT_OUT", Role::Output), ("TT_INOUT", Role::InOut)] {
        is(name, role.tag().into());
    }
    for (name, tag) in [
        ("TT_BEFORE", DumpStage::BeforeDispatch as usize),
        ("TT_AFTER", DumpStage::AfterCompletion as usize),
        ("TT_DEVICE_MEMORY", MemorySpace::Device as usize),
        ("TT_HOST_MEMORY", MemorySpace::Host as usize),
        ("TT_PINNED_MEMORY", MemorySpace::Pinned as usize),
        ("TT_MANAGED_MEMORY", MemorySpace::Managed as usize),
        ("TT_RUN_KERNEL", Operation::Kernel as usize),
        ("TT_COPY", Operation::Copy as usize),
        ("TT_FILL", Operation::Fill as usize),
        ("TT_HOST_READ", Operation::HostRead as usize),
        ("TT_HOST_WRITE", Operation::HostWrite as usize),
        ("TT_GRAPH", Operation::Graph as usize),
        ("TT_OPERATOR", Operation::Operator as usize),
        ("TT_BARRIER", Operation::Barrier as usize),
        ("TT_EXPLICIT", EdgeCause::Explicit as usize),
        ("TT_READ_AFTER_WRITE", EdgeCause::ReadAfterWrite as usize),
        ("TT_WRITE_AFTER_WRITE", EdgeCause::WriteAfterWrite as usize),
        ("TT_WRITE_AFTER_READ", EdgeCause::WriteAfterRead as usize),
        ("TT_QUEUE_ORDER", EdgeCause::QueueOrder as usize),
        ("TT_EVENT", EdgeCause::Event as usize),
        ("TT_HOST_WAIT", EdgeCause::HostWait as usize),
        ("TT_COLLECTIVE_OTHER", CollectiveKind::Other as usize),
        ("TT_ALL_REDUCE", CollectiveKind::AllReduce as usize),
        ("TT_ALL_GATHER", CollectiveKind::AllGather as usize),
        ("TT_REDUCE_SCATTER", CollectiveKind::ReduceScatter as usize),
        ("TT_BROADCAST", CollectiveKind::Broadcast as usize),
        ("TT_ALL_TO_ALL", CollectiveKind::AllToAll as usize),
        ("TT_COLLECTIVE_BARRIER", CollectiveKind::Barrier as usize),
        ("TT_SEND", CollectiveKind::Send as usize),
        ("TT_RECV", CollectiveKind::Receive as usize),
        ("TT_LEVEL_OFF", DumpLevel::Off as usize),
        ("TT_LEVEL_MARKED", DumpLevel::Marked as usize),
        ("TT_LEVEL_FULL", DumpLevel::Full as usize),
        ("TT_LEVEL_META", DumpLevel::Meta as usize),
        ("TT_LEVEL_HASH", DumpLevel::Hash as usize),
        ("TT_MAX_DIMS", MAX_DIMS),
    ] {
        is(name, tag);
    }
    offsets!(is, "tt_task_info", TaskDescription: id operation kernel name scope queue step module source_file source_line
        blocks grid group flags records parent submitted_ns reserved);
    offsets!(is, "tt_recorded_task", RecordedTask: words);
    offsets!(is, "tt_view", View: data bytes start shape strides arg dtype ndims role space flags name reserved0 reserved);
    offsets!(is, "tt_reserved_space", ReservedSpace: number start bytes);
    offsets!(is, "tt_counts", Counts: recorded dropped bytes lost_bytes filtered refused uncaptured reserved);
    offsets!(is, "tt_folder_options", FolderSettings: level drops lanes reserved0 arena_bytes reserved);
    offsets!(is, "tt_kernel_arg", KernelArg: name role reserved);
    offsets!(is, "tt_module_image_info", ModuleImageInfo: name options device image bytes kind reserved0 reserved);
    for kind in ModuleKind::ALL {
        is(&format!("TT_IMAGE_{}", kind.name().to_uppercase()), kind as usize);
    }
    offsets!(is, "tt_record_api", RecordApi: version bytes attach attach_to open_folder close counters level thread
        recorder_open recorder_close string scope_id kernel_id queue_id step_id module_id task_begin record record_scalar
        task_end record_edge wrote allocation reserve commit give_up flush set_max_wait status_text last_error module_image
        attribute current_region collective memory);
    offsets!(is, "tt_allocation_info", MemoryEvent: address bytes storage after_task space freed pool queue reserved);
    offsets!(is, "tt_value", Value: reserved0);
    is("offsetof(tt_value, type)", offset_of!(Value, ty));
    is("offsetof(tt_value, as)", offset_of!(Value, value));
    is("TT_MAX_VALUES", MAX_ATTRIBUTE_VALUES as usize);
    for (name, ty) in [
        ("NONE", AttributeType::None),
        ("BOOL", AttributeType::Bool),
        ("INT", AttributeType::Integer),
        ("FLOAT", AttributeType::Float),
        ("TEXT", AttributeType::Text),
        ("DTYPE", AttributeType::DType),
        ("UNCAPTURED", AttributeType::Uncaptured),
    ] {
        is(&format!("TT_VALUE_{name}"), ty as usize);
    }
    for (name, value) in STATUSES {
        let _ = writeln!(text, "TT_STATIC_ASSERT(TT_{name} == {value}, \"TT_{name} is {value} in Rust\");");
    }
    text
}

#[test]
fn the_header_matches_the_rust_layouts_in_every_language() {
    let dir = tempfile::tempdir().unwrap();
    let both = "#include <tensortap.h>\nstatic inline int nothing(void) { return 0; }\n";
    for (compiler, ending, standard) in
        [("cc", "c", "-std=c11"), ("c++", "cpp", "-std=c++17"), ("c++", "cpp", "-std=c++20")]
    {
        let check = |text: &str, more: &str| {
            let file = dir.path().join(format!("asserts.{ending}"));
            std::fs::write(&file, text).unwrap();
            let options = [&[standard, "-fsyntax-only"][..], &STRICT, &[more]].concat();
            compile(compiler, &options, &file, &dir.path().join("nothing"))
        };
        let Some(checked) = check(&asserts(), "-DTT_LINKED") else { return };
        checked.unwrap();
        check(&asserts(), "-O2").unwrap().unwrap();
        check(&format!("{}{both}", asserts()), "-O0").unwrap().unwrap();
        check(&format!("{both}{}", asserts()), "-O0").unwrap().unwrap();
        let wrong = asserts().replacen("TT_COMMIT_FIRST == -6", "TT_COMMIT_FIRST == -5", 1);
        let said = check(&wrong, "-O0").unwrap().unwrap_err();
        assert!(said.contains("TT_COMMIT_FIRST is -6 in Rust"), "{said}");
    }
}
