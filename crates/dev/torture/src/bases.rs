//! The intact files that damage starts from: dumps, cases and files of arrays.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::damage::{Base, DamageKind};
use crate::words;

/// A manifest of the public project `simpler`, third generation, with the files next to it.
const FOREIGN: [(&str, &str); 3] = [
    (
        "args_dump.json",
        r#"{"dump_args_level": 2, "bin_file": "args.bin", "total_args": 2, "args": [
  {"task_id": "0x0000000100000000", "run_epoch": 0, "func_id": [0], "role": "input", "stage": "before_dispatch", "arg_index": 0,
   "kind": "tensor", "dtype": "FLOAT32", "shape": [4], "strides": [1], "start_offset": 0, "is_contiguous": true,
   "truncated": false, "overwritten": false, "bin_offset": 0, "bin_size": 16},
  {"task_id": "0x0000000100000000", "run_epoch": 1, "func_id": [-1], "role": "output", "stage": "after_completion", "arg_index": 1,
   "kind": "tensor", "dtype": "FLOAT32", "shape": [2, 2], "strides": [2, 1], "start_offset": 0, "is_contiguous": true,
   "truncated": false, "overwritten": false, "bin_offset": 16, "bin_size": 16}]}"#,
    ),
    ("deps.json", r#"{"edges": [{"pred": "0", "succ": "4294967296"}]}"#),
    ("name_map.json", r#"{"callable_id_to_name": {"0": "add"}}"#),
];

impl Base {
    /// Whether it is a tensortap dump with all its files.
    pub fn is_own_dump(&self) -> bool {
        self.what == DamageKind::Dump && self.path == self.dump
    }
}

/// Creates them once.
pub fn prepare(tensortap: &Path, folder: &Path) -> Result<Vec<Base>, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let call = |line: &str| {
        let output = Command::new(tensortap).args(words(line)).current_dir(folder).output();
        let output = output.map_err(|error| format!("{}: {error}", tensortap.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| format!("`tensortap {line}`: {}", said.trim()))
    };
    let mut all = Vec::new();
    let dumps = [
        ("vector_example", "tensormap_and_ringbuffer", "--dump-args"),
        ("mixed_example", "aicpu_build_graph", "--dump-args"),
        ("scalar_data", "host_build_graph", "--dump-args --dump-last 3"),
        ("dump_tensor_example", "host_build_graph", "--dump-tensor=hash"),
    ];
    let mut add = |what, name: String, path: &str, dump: &str| {
        all.push(Base { what, name, path: folder.join(path), dump: folder.join(dump) });
    };
    call(
        "run stream --param tasks=12 --param bytes=65536 --runtime host_build_graph --blocks 1 --device-memory 1GiB \
         --dump-tensor --dump-files 3 --quiet --out stream",
    )?;
    add(DamageKind::Dump, "dump in 3 payload files".into(), "stream", "stream");
    for (scene, runtime, options) in dumps {
        let level = if options.contains("--dump-tensor") { "" } else { "--dump-tensor" };
        call(&format!(
            "run {scene} --runtime {runtime} --blocks 1 --device-memory 1GiB {level} {options} --quiet --out {scene}"
        ))?;
        add(DamageKind::Dump, format!("dump of {scene}"), scene, scene);
    }
    let own = "vector_example";
    call(&format!("extract {own} --task 0 --out case --quiet"))?;
    call(&format!("extract {own} --task 0 --out case.safetensors --quiet"))?;
    add(DamageKind::Case, "case, folder".into(), "case", own);
    add(DamageKind::Case, "case, file".into(), "case.safetensors", own);
    for format in ["npy", "npz", "safetensors"] {
        call(&format!("export {own} --format {format} --out {format} --quiet"))?;
        add(DamageKind::Arrays, format!("golden, {format}"), format, own);
    }
    let foreign = folder.join("foreign");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(foreign.join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    fs::create_dir_all(&foreign).map_err(|error| error.to_string())?;
    write("args.bin", &[0x3f; 32])?;
    for (name, text) in FOREIGN {
        write(name, text.as_bytes())?;
    }
    add(DamageKind::Dump, "dump of simpler".into(), "foreign", own);
    Ok(all)
}
