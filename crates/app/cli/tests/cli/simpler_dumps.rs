//! Writes dumps in the format of the public project `simpler`, and compiles kernels for its ABI.

use std::fs;

use serde_json::{Value, json};

use crate::folders::WorkFolder;

/// The descriptor of `simpler`, written without this project's headers.
const HEAD: &str = r"
#include <stdint.h>
#include <string.h>
typedef struct {
    uint64_t buffer, bytes, owner, start;
    int32_t version; uint32_t ndims; uint8_t dtype, manual_dep, is_contiguous, space; uint32_t shapes[5];
    uint64_t extent; uint32_t strides[5]; uint32_t rest[9];
} tensor;
_Static_assert(sizeof(tensor) == 128, ``size``);
static tensor *t(int64_t *args, int slot) { return (tensor *)args[slot]; }
static uint8_t *bytes(int64_t *args, int slot) { return (uint8_t *)t(args, slot)->buffer + t(args, slot)->start; }
static float *data(int64_t *args, int slot) { return (float *)t(args, slot)->buffer + t(args, slot)->start; }
static float as_float(int64_t word) { uint32_t bits = (uint32_t)word; float f; memcpy(&f, &bits, 4); return f; }
";

/// Kernels: `c = a + b`; `y = factor x + shift`; an increment in a strided view; a product by blocks; a difference by
/// sub-blocks.
pub const KERNELS: &str = r"
void add(int64_t *args)
{
    for (uint32_t i = 0; i < t(args, 0)->shapes[0]; i++) data(args, 2)[i] = data(args, 0)[i] + data(args, 1)[i];
}
void scale(int64_t *args)
{
    for (uint32_t i = 0; i < t(args, 0)->shapes[0]; i++)
        data(args, 1)[i] = data(args, 0)[i] * as_float(args[2]) + (float)(int32_t)args[3];
}
void more(int64_t *args)
{
    tensor *x = t(args, 0);
    if (x->ndims != 2 || x->dtype != 0 || x->is_contiguous || x->extent != 56 || (uint64_t)x % 64 || x->owner != ~0ull) return;
    for (uint32_t i = 0; i < x->shapes[0]; i++)
        for (uint32_t j = 0; j < x->shapes[1]; j++) data(args, 0)[i * x->strides[0] + j * x->strides[1]] += 1;
}
void product(int64_t *args)
{
    int32_t *block = (int32_t *)args[48];
    uint32_t each = t(args, 0)->shapes[0] / (uint32_t)block[1], first = each * (uint32_t)block[0];
    for (uint32_t i = first; i < first + each; i++)
        data(args, 2)[i] = data(args, 0)[i] * data(args, 1)[i] + (float)block[1];
}
void halves(int64_t *args)
{
    int32_t sub = *(int32_t *)args[49];
    uint32_t half = t(args, 0)->shapes[0] / 2;
    for (uint32_t i = half * (uint32_t)sub; i < half * (uint32_t)(sub + 1); i++)
        data(args, 2)[i] = data(args, 0)[i] - data(args, 1)[i];
}
";

pub fn source(kernels: &str) -> String {
    HEAD.replace("``", "\"") + kernels
}

/// A third-generation dump, written record by record.
#[derive(Default)]
pub struct SimplerDump {
    pub args: Vec<Value>,
    pub tasks: Vec<Value>,
    bin: Vec<u8>,
    arg_index: usize,
}

impl SimplerDump {
    /// Adds a task. `kernels` are by slot, -1 for none.
    pub fn task(&mut self, id: u64, kernels: [i64; 3], block_num: u32, tensors: usize) {
        let args: Vec<Value> = (0..tensors).map(|idx| json!({"idx": idx, "type": "INPUT"})).collect();
        self.tasks.push(
            json!({"task_id": id.to_string(), "kernel_ids": kernels, "block_num": block_num, "args": args}),
        );
        self.arg_index = 0;
    }

    fn record(&mut self, mut more: Value) {
        let task = self.tasks.last().expect("begun");
        let kernels: Vec<&Value> =
            task["kernel_ids"].as_array().expect("slots").iter().filter(|id| **id != -1).collect();
        let id: u64 = task["task_id"].as_str().and_then(|id| id.parse().ok()).expect("a number");
        let head = json!({"task_id": format!("{id:#018x}"), "func_id": kernels, "arg_index": self.arg_index,
                          "is_contiguous": true, "truncated": false, "overwritten": false});
        let record = more.as_object_mut().expect("an object");
        record.extend(head.as_object().expect("an object").clone());
        self.args.push(more);
    }

    pub fn content(
        &mut self,
        role: &str,
        stage: &str,
        shape: &[u64],
        strides: &[u64],
        start: u64,
        values: &[f32],
    ) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.elements("FLOAT32", [role, stage], (shape, strides, start), &bytes);
    }

    /// Adds a tensor with its bytes. `simpler` spells the dtype.
    pub fn elements(
        &mut self,
        dtype: &str,
        [role, stage]: [&str; 2],
        (shape, strides, start): (&[u64], &[u64], u64),
        bytes: &[u8],
    ) {
        let offset = self.bin.len();
        self.bin.extend(bytes);
        self.record(json!({"role": role, "stage": stage, "kind": "tensor", "dtype": dtype, "shape": shape,
                           "strides": strides, "start_offset": start, "numel": shape.iter().product::<u64>(),
                           "bin_offset": offset, "bin_size": bytes.len()}));
    }

    /// Continues with the next argument.
    pub fn next_argument(&mut self) {
        self.arg_index += 1;
    }

    pub fn input(&mut self, values: &[f32]) {
        self.content("input", "before_dispatch", &[values.len() as u64], &[1], 0, values);
        self.arg_index += 1;
    }

    pub fn output(&mut self, values: &[f32]) {
        self.content("output", "after_completion", &[values.len() as u64], &[1], 0, values);
        self.arg_index += 1;
    }

    pub fn scalar(&mut self, dtype: &str, value: &Value) {
        let scalar = json!({"role": "input", "stage": "before_dispatch", "kind": "scalar", "dtype": dtype, "value": value,
                            "shape": [], "strides": [], "start_offset": 0, "numel": 1, "bin_offset": 0, "bin_size": 0});
        self.record(scalar);
        self.arg_index += 1;
    }

    pub fn write(self, shop: &WorkFolder) {
        let SimplerDump { args, tasks, bin, .. } = self;
        let before = args.iter().filter(|arg| arg["stage"] == "before_dispatch").count();
        let manifest = json!({"run_dir": "args_dump", "dump_args_level": 2, "total_args": args.len(),
                              "before_dispatch": before, "after_completion": args.len() - before,
                              "bin_file": "args.bin", "args": args});
        shop.write("g/args_dump.json", &manifest.to_string());
        write_beside(shop, &tasks);
        fs::write(shop.path("g/args.bin"), bin).expect("written");
    }
}

/// The two older generations, each with less information.
#[derive(Clone, Copy, PartialEq)]
pub enum OlderFormat {
    /// No scalars, one kernel in its slot for each record, views within a buffer of `raw_shape`.
    First,
    /// No kernels, scalars as raw words.
    Second,
}

impl SimplerDump {
    /// Writes the files of an older version, with `deps.json` and the names of kernels next to them.
    pub fn write_older(self, shop: &WorkFolder, older: OlderFormat) {
        let SimplerDump { args, tasks, bin, .. } = self;
        let listed = |record: &Value| match older {
            OlderFormat::First => first(record, &tasks),
            OlderFormat::Second => Some(second(record)),
        };
        let tensors: Vec<Value> = args.iter().filter_map(listed).collect();
        let name = if older == OlderFormat::First { "tensor_dump_20260301_101010" } else { "tensor_dump" };
        let mut manifest = json!({"run_dir": name, "total_tensors": tensors.len(), "dropped_records": 0,
                                  "bin_file": format!("{name}.bin"), "tensors": tensors});
        if older == OlderFormat::First {
            manifest["timestamp"] = json!("20260301_101010");
        }
        shop.write(&format!("g/{name}.json"), &manifest.to_string());
        fs::write(shop.path(&format!("g/{name}.bin")), bin).expect("written");
        write_beside(shop, &tasks);
    }
}

fn write_beside(shop: &WorkFolder, tasks: &[Value]) {
    shop.write("g/deps.json", &json!({"tasks": tasks, "edges": []}).to_string());
    shop.write(
        "g/name_map.json",
        r#"{"level": 2, "callable_id_to_name": {"0": "ADD", "1": "SCALE", "4": "HALVES"}}"#,
    );
}

/// A second-generation record: no kernels; scalars as the words that the kernel receives.
fn second(record: &Value) -> Value {
    let mut record = record.clone();
    record.as_object_mut().expect("an object").remove("func_id");
    if record["kind"] == "scalar" {
        let value = record["value"].take();
        let word = match record["dtype"].as_str() {
            Some("FLOAT32") => serde_json::from_value(value).map(f32::to_bits),
            _ => serde_json::from_value(value).map(i32::cast_unsigned),
        };
        (record["dtype"], record["value"]) = (json!("UINT64"), json!(word.expect("a number")));
    }
    record
}

/// A first-generation tensor. The last kernel of a mix task declares its last argument, the first kernel the others.
fn first(record: &Value, tasks: &[Value]) -> Option<Value> {
    if record["kind"] == "scalar" {
        return None;
    }
    let of = |task: &&Value| {
        format!("{:#018x}", task["task_id"].as_str().expect("an id").parse::<u64>().expect("decimal"))
    };
    let task = tasks.iter().find(|task| record["task_id"] == of(task)).expect("its task");
    let numbers = |list: &Value| {
        list.as_array().expect("a list").iter().map(|n| n.as_i64().expect("a number")).collect::<Vec<_>>()
    };
    let kernels = numbers(&task["kernel_ids"]);
    let mut slots = (0..kernels.len()).filter(|slot| kernels[*slot] != -1);
    let is_last =
        record["arg_index"].as_u64() == Some(task["args"].as_array().expect("a list").len() as u64 - 1);
    let slot = if is_last { slots.next_back() } else { slots.next() }.expect("a kernel");
    let (shape, strides) = (numbers(&record["shape"]), numbers(&record["strides"]));
    let start = record["start_offset"].as_i64().expect("a number");
    let (raw_shape, offsets) = match strides[..] {
        [row, 1] => (vec![shape[0], row], vec![start / row, start % row]),
        _ => (shape.clone(), vec![start]),
    };
    let mut normal = record.clone();
    let keys = normal.as_object_mut().expect("an object");
    for key in ["kind", "strides", "start_offset"] {
        keys.remove(key);
    }
    let new =
        json!({"subtask_id": slot, "func_id": kernels[slot], "raw_shape": raw_shape, "offsets": offsets});
    keys.extend(new.as_object().expect("an object").clone());
    Some(normal)
}

/// A third-generation dump with six tasks of five kernels.
pub fn graph(shop: &WorkFolder) {
    six_tasks().write(shop);
}

/// Six tasks of five kernels, with values computed here.
pub fn six_tasks() -> SimplerDump {
    let a: Vec<f32> = (0..64_u16).map(f32::from).collect();
    let b: Vec<f32> = a.iter().map(|x| 0.3 * x).collect();
    let pairs = |x: &[f32], y: &[f32], f: fn(f32, f32) -> f32| -> Vec<f32> {
        x.iter().zip(y).map(|(&x, &y)| f(x, y)).collect()
    };
    let c = pairs(&a, &b, |x, y| x + y);
    let scaled = |factor: f32, shift: f32| -> Vec<f32> { c.iter().map(|x| x * factor + shift).collect() };
    let (d, e) = (scaled(2.5, -3.0), scaled(-1.5, 4.0));
    let mut dump = SimplerDump::default();
    dump.task(0, [-1, 0, -1], 1, 3);
    dump.input(&a);
    dump.input(&b);
    dump.output(&c);
    for (id, factor, shift, out) in [(1 << 32, 2.5, -3, &d), (1 << 32 | 1, -1.5, 4, &e)] {
        dump.task(id, [-1, 1, -1], 1, 2);
        dump.input(&c);
        dump.output(out);
        dump.scalar("FLOAT32", &json!(factor));
        dump.scalar("INT32", &json!(shift));
    }
    dump.task(1 << 32 | 2, [-1, 2, -1], 1, 1);
    let view: Vec<f32> = a[..32].to_vec();
    dump.content("inout", "before_dispatch", &[4, 8], &[16, 1], 5, &view);
    dump.content(
        "inout",
        "after_completion",
        &[4, 8],
        &[16, 1],
        5,
        &view.iter().map(|x| x + 1.0).collect::<Vec<_>>(),
    );
    dump.task(1 << 32 | 3, [-1, 3, -1], 4, 3);
    dump.input(&d);
    dump.input(&e);
    dump.output(&pairs(&d, &e, |x, y| x * y + 4.0));
    dump.task(1 << 32 | 4, [-1, 4, 4], 1, 3);
    dump.input(&d);
    dump.input(&e);
    dump.output(&pairs(&d, &e, |x, y| x - y));
    dump
}
