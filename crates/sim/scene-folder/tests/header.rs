//! Checks that the header and the Rust layouts agree: constants and offsets of Rust are written as a C file
//! that asserts them against the header. The header asserts its own layouts, and Rust asserts its function
//! tables, so both directions are covered.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, DType, MAX_DIMS, MAX_SCALARS, MAX_TENSORS, Role,
    SUBTASK_CONTEXT_SLOT, SubtaskContext, TensorDesc,
};

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include")
}

/// The asserts, as C text.
fn asserts() -> String {
    let mut text = String::from("#include \"tensortap.h\"\n");
    let mut is = |what: &str, value: usize| {
        let _ = writeln!(text, "TT_STATIC_ASSERT({what} == {value}, \"{what} is {value} in Rust\");");
    };
    for dtype in DType::ALL {
        is(&format!("TT_{}", dtype.name().to_uppercase()), dtype.tag().into());
    }
    for (name, role) in [("TT_IN", Role::Input), ("TT_OUT", Role::Output), ("TT_INOUT", Role::InOut)] {
        is(name, role.tag().into());
    }
    is("TT_ABI_VERSION", tensortap_scene_folder::ABI_VERSION as usize);
    is("TT_MAX_TENSORS", MAX_TENSORS);
    is("TT_MAX_SCALARS", MAX_SCALARS);
    is("TT_MAX_DIMS", MAX_DIMS);
    is("TT_ARG_SLOTS", ARG_SLOTS);
    is("TT_BLOCK_CONTEXT_SLOT", BLOCK_CONTEXT_SLOT);
    is("TT_SUBTASK_CONTEXT_SLOT", SUBTASK_CONTEXT_SLOT);
    is("sizeof(tt_tensor_desc)", size_of::<TensorDesc>());
    is("offsetof(tt_tensor_desc, buffer_addr)", offset_of!(TensorDesc, buffer_addr));
    is("offsetof(tt_tensor_desc, buffer_bytes)", offset_of!(TensorDesc, buffer_bytes));
    is("offsetof(tt_tensor_desc, start_offset)", offset_of!(TensorDesc, start_offset));
    is("offsetof(tt_tensor_desc, owner_task)", offset_of!(TensorDesc, owner_task));
    is("offsetof(tt_tensor_desc, version)", offset_of!(TensorDesc, version));
    is("offsetof(tt_tensor_desc, dtype)", offset_of!(TensorDesc, dtype));
    is("offsetof(tt_tensor_desc, ndims)", offset_of!(TensorDesc, ndims));
    is("offsetof(tt_tensor_desc, flags)", offset_of!(TensorDesc, flags));
    is("offsetof(tt_tensor_desc, reserved)", offset_of!(TensorDesc, reserved));
    is("offsetof(tt_tensor_desc, shape)", offset_of!(TensorDesc, shape));
    is("offsetof(tt_tensor_desc, strides)", offset_of!(TensorDesc, strides));
    is("sizeof(tt_block_context)", size_of::<BlockContext>());
    is("offsetof(tt_block_context, block_num)", offset_of!(BlockContext, block_num));
    is("sizeof(tt_subtask_context)", size_of::<SubtaskContext>());
    is("offsetof(tt_subtask_context, subtask_count)", offset_of!(SubtaskContext, subtask_count));
    text
}

/// The result and the output of the compiler, with warnings as errors. `None` without a compiler.
fn compile(compiler: &str, ending: &str, standard: &str, text: &str) -> Option<(bool, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(format!("asserts.{ending}"));
    std::fs::write(&file, text).expect("written");
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
        .arg(include())
        .arg(&file)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: compiler `{compiler}` not found");
        return None;
    };
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn the_header_matches_the_rust_layouts_in_c_and_cpp() {
    for (compiler, ending, standard) in [("cc", "c", "-std=c11"), ("c++", "cpp", "-std=c++17")] {
        let Some((good, output)) = compile(compiler, ending, standard, &asserts()) else { return };
        assert!(good, "{output}");
        let wrong = asserts().replacen("TT_FLOAT32 == 2", "TT_FLOAT32 == 3", 1);
        let (good, output) = compile(compiler, ending, standard, &wrong).expect("the compiler exists");
        assert!(!good && output.contains("TT_FLOAT32 is 2 in Rust"), "{output}");
    }
    let both = "#include <tensortap.hpp>\nTT_KERNEL(k) { args.out<float>(0)[0] = args.scalar<float>(1); }\n";
    let (good, output) = compile("c++", "cpp", "-std=c++17", both).expect("the compiler exists");
    assert!(good, "{output}");
}
