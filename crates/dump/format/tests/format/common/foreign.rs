//! Small dumps in the format of each generation of `simpler`, and the folder with real ones.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// Little-endian bytes of floats.
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn write_json(path: &Path, value: &Value) {
    fs::write(path, serde_json::to_vec_pretty(value).unwrap()).unwrap();
}

fn bin_format() -> Value {
    json!({"type": "logical_contiguous", "byte_order": "little_endian"})
}

/// First generation: a view of 2×3 elements at (1, 2) of a buffer of 4×5, and a whole tensor. No scalars.
pub fn first(dir: &Path) -> Value {
    let manifest = json!({
        "timestamp": "20260415_101500", "run_dir": "tensor_dump_20260415_101500", "bin_format": bin_format(),
        "total_tensors": 2, "before_dispatch": 1, "after_completion": 1, "input_tensors": 1, "output_tensors": 1,
        "inout_tensors": 0, "truncated_tensors": 0, "dropped_records": 0, "dropped_overwrite": 0,
        "bin_file": "tensor_dump_20260415_101500.bin",
        "tensors": [
            {"task_id": "0x0000000100000001", "subtask_id": 1, "func_id": 7, "role": "input", "stage": "before_dispatch",
             "arg_index": 0, "dtype": "FLOAT32", "is_contiguous": false, "shape": [2, 3], "raw_shape": [4, 5],
             "offsets": [1, 2], "numel": 6, "bin_offset": 0, "bin_size": 24, "truncated": false, "overwritten": false},
            {"task_id": "0x0000000100000001", "subtask_id": 1, "func_id": 7, "role": "output",
             "stage": "after_completion", "arg_index": 1, "dtype": "BFLOAT16", "is_contiguous": true, "shape": [4],
             "raw_shape": [4], "offsets": [0], "numel": 4, "bin_offset": 24, "bin_size": 8, "truncated": false,
             "overwritten": false},
        ],
    });
    let mut payloads = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    payloads.extend([0x80, 0x3f, 0x00, 0x40, 0x40, 0x40, 0x80, 0x40]);
    fs::write(dir.join("tensor_dump_20260415_101500.bin"), payloads).unwrap();
    write_json(&dir.join("tensor_dump_20260415_101500.json"), &manifest);
    manifest
}

/// Second generation: strides, a scalar as raw bits, and no kernels.
pub fn second(dir: &Path) -> Value {
    let manifest = json!({
        "run_dir": "tensor_dump", "bin_format": bin_format(),
        "total_tensors": 3, "before_dispatch": 2, "after_completion": 1, "input_tensors": 2, "output_tensors": 1,
        "inout_tensors": 0, "truncated_tensors": 0, "dropped_records": 0, "dropped_overwrite": 0,
        "bin_file": "tensor_dump.bin", "made_by": {"tool": "new"},
        "tensors": [
            {"task_id": "0x0000000000000000", "arg_index": 0, "role": "input", "stage": "before_dispatch",
             "kind": "tensor", "dtype": "FLOAT32", "is_contiguous": false, "shape": [2, 2], "strides": [8, 2],
             "start_offset": 5, "numel": 4, "bin_offset": 0, "bin_size": 16, "truncated": false, "overwritten": false},
            {"task_id": "0x0000000000000000", "arg_index": 2, "role": "input", "stage": "before_dispatch",
             "kind": "scalar", "dtype": "UINT64", "is_contiguous": true, "shape": [], "strides": [],
             "start_offset": 0, "numel": 1, "value": 18446744073709551615u64, "bin_offset": 0, "bin_size": 0,
             "truncated": false, "overwritten": false, "colour": ["blue", {"shade": 3}]},
            {"task_id": "0x0000000000000000", "arg_index": 1, "role": "output", "stage": "after_completion",
             "kind": "tensor", "dtype": "FLOAT32", "is_contiguous": true, "shape": [4], "strides": [1],
             "start_offset": 0, "numel": 4, "bin_offset": 16, "bin_size": 16, "truncated": false, "overwritten": false},
        ],
    });
    let payloads = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    fs::write(dir.join("tensor_dump.bin"), payloads).unwrap();
    write_json(&dir.join("tensor_dump.json"), &manifest);
    manifest
}

/// A scalar of the third generation.
pub fn typed_scalar(arg_index: u16, dtype: &str, value: &Value) -> Value {
    json!({"task_id": "0x0000000100000000", "func_id": [3, 4], "arg_index": arg_index, "role": "input",
           "stage": "before_dispatch", "kind": "scalar", "dtype": dtype, "value": value, "is_contiguous": true,
           "shape": [], "strides": [], "start_offset": 0, "numel": 1, "bin_offset": 0, "bin_size": 0,
           "truncated": false, "overwritten": false})
}

/// Third generation: `args`, typed scalars, one of two arguments with a payload, kernels of a mix task and
/// an unknown one.
pub fn third(dir: &Path) -> Value {
    let tensor = |task: &str, func_id: Value, stage: &str, role: &str, size: u64| {
        json!({"task_id": task, "func_id": func_id, "arg_index": 0, "role": role, "stage": stage, "kind": "tensor",
               "dtype": "FLOAT32", "is_contiguous": true, "shape": [2], "strides": [1], "start_offset": 0, "numel": 2,
               "bin_offset": 0, "bin_size": size, "truncated": false, "overwritten": false})
    };
    let mut ambiguous = typed_scalar(2, "INT32", &json!(-3));
    ambiguous["arg_index_ambiguous"] = json!(true);
    let manifest = json!({
        "run_dir": "args_dump", "bin_format": bin_format(), "dump_args_level": 3,
        "total_args": 4, "before_dispatch": 3, "after_completion": 1, "input_args": 3, "output_args": 1,
        "inout_args": 0, "truncated_args": 0, "dropped_records": 5, "dropped_overwrite": 0, "bin_file": "args.bin",
        "args": [
            tensor("0x0000000000000000", json!([-1]), "before_dispatch", "input", 0),
            typed_scalar(1, "FLOAT32", &json!(1.5)),
            ambiguous,
            tensor("0x0000000100000000", json!([3, 4]), "after_completion", "output", 8),
        ],
    });
    fs::write(dir.join("args.bin"), floats(&[0.5, -0.5])).unwrap();
    write_json(&dir.join("args_dump.json"), &manifest);
    manifest
}

/// The `deps.json` of the tasks of [`third`].
pub fn deps() -> Value {
    json!({
        "runtime": "tensormap_and_ringbuffer",
        "tasks": [
            {"task_id": "0", "scope": "auto", "kernel_ids": [-1, 9, -1], "block_num": 2,
             "args": [{"idx": 0, "type": "INPUT", "tensor_id": "18446744073709551615"}, {"idx": 1, "type": "OUTPUT"}]},
            {"task_id": "4294967296", "scope": "auto", "kernel_ids": [4, -1, 3], "block_num": 1,
             "args": [{"idx": 0, "type": "OUTPUT_EXISTING"}, {"idx": 1, "type": "INPUT"}]},
        ],
        "tensors": [{"tensor_id": "18446744073709551615", "buffer_addr": "293317952", "version": 0}],
        "edges": [
            {"pred": "0", "succ": "4294967296", "arg": 1, "source": "creator", "flags": ["wait", "retain"]},
            {"pred": "0", "succ": "4294967296", "arg": 0, "source": "tensormap"},
            {"pred": "0", "succ": "4294967296", "source": "explicit"},
        ],
    })
}

pub fn name_map() -> Value {
    json!({"level": 2, "orchestrator_name": "attention",
           "callable_id_to_name": {"3": "softmax", "4": "matmul", "9": "load"}})
}

/// The folder of real dumps. Prints a notice and returns `None` if it does not exist.
pub fn peer_dumps() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/peer-dumps");
    let dir = env::var_os("TENSORTAP_PEER_DUMPS").map_or(beside, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("skipped: no real dumps in {}; name their folder in TENSORTAP_PEER_DUMPS", dir.display());
    None
}
