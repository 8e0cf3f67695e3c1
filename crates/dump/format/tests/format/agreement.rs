//! Compares everything that the reader says about a dump with what an independent decoder says about its index.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tensortap_abi::*;
use tensortap_format::*;

use crate::common::*;

/// An index, decoded by `vectors/decode.py`.
pub struct Decoded<'d>(pub &'d Value);

impl<'d> Decoded<'d> {
    /// All records, in the order of the index.
    pub fn all(&self) -> impl Iterator<Item = &'d Value> + use<'d> {
        let frames = self.0["frames"].as_array().unwrap().iter();
        frames.flat_map(|frame| frame["records"].as_array().unwrap())
    }

    fn of(&self, kind: &'static str) -> impl Iterator<Item = &'d Value> + use<'d> {
        self.all().filter(move |record| record["kind"] == kind)
    }

    /// The text of a string id; null for 0.
    fn text(&self, id: &Value) -> Value {
        self.of("string")
            .find(|string| string["id"] == *id)
            .map_or(Value::Null, |string| string["text"].clone())
    }

    /// The path of a scope.
    fn path(&self, id: &Value) -> Value {
        let Some(scope) = self.of("scope").find(|scope| scope["id"] == *id) else { return Value::Null };
        let name = self.text(&scope["name"]);
        match self.path(&scope["parent"]) {
            Value::Null => name,
            outer => json!(format!("{} / {}", outer.as_str().unwrap(), name.as_str().unwrap())),
        }
    }

    /// The record of a task that counts: that of its completion, if there is one.
    fn task(&self, task_id: &Value) -> Option<&'d Value> {
        let mut records = self.of("task").filter(|task| task["task_id"] == *task_id);
        let first = records.next()?;
        Some(records.last().unwrap_or(first))
    }
}

fn flag(record: &Value, flag: u32) -> bool {
    record["flags"].as_u64().unwrap() & u64::from(flag) != 0
}

/// A number that may be a word for something that JSON cannot represent.
fn number(value: f64) -> Value {
    if value.is_nan() { json!("nan") } else { json!(value) }
}

/// Checks that reader and decoder agree on every field of every record.
pub fn check_agreement(dump: &Dump, decoded: &Decoded<'_>) {
    let info = serde_json::to_value(dump.info()).unwrap();
    for (key, value) in decoded.0["info"].as_object().unwrap().iter().filter(|(key, _)| *key != "kernels") {
        assert_eq!(&info[key], value, "run information {key}");
    }
    let footer = dump.footer().map(|footer| serde_json::to_value(footer).unwrap());
    assert_eq!(footer.as_ref(), decoded.0.get("footer"));
    check_arguments(dump, decoded);
    let (tasks, details) = (dump.tasks().unwrap(), dump.details().unwrap());
    let mut ids: Vec<&Value> = decoded.of("task").map(|task| &task["task_id"]).collect();
    ids.sort_by_key(|id| id.to_string());
    ids.dedup();
    let recorded: Vec<Task<'_>> = tasks.iter().filter(Task::is_recorded).collect();
    assert_eq!(recorded.len(), ids.len());
    for task in recorded {
        check_task(dump, decoded, &details, task);
    }
    check_lists(dump, decoded, &tasks);
    check_dispatches(dump, decoded, &tasks);
    check_definitions(dump, decoded, &tasks, &details);
}

fn check_arguments(dump: &Dump, decoded: &Decoded<'_>) {
    let expected: Vec<&Value> =
        decoded.all().filter(|record| record["kind"] == "tensor" || record["kind"] == "scalar").collect();
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), expected.len());
    for (record, expected) in records.iter().zip(expected) {
        let own = json!([hex64(record.task_id), record.stage.name(), record.arg_index, record.dtype.name()]);
        let theirs =
            json!([expected["task_id"], expected["stage"], expected["arg_index"], expected["dtype"]]);
        assert_eq!(own, theirs, "{record}");
        let flags = [
            (record.in_flight, RECORD_IN_FLIGHT),
            (record.marked, RECORD_MARKED),
            (!record.dtype_known, RECORD_DTYPE_UNKNOWN),
            (!record.role_known, RECORD_ROLE_UNKNOWN),
            (!record.extent_known, RECORD_EXTENT_GUESSED),
            (record.is_local, RECORD_LOCAL_MEMORY),
        ];
        assert!(flags.iter().all(|&(own, theirs)| own == flag(expected, theirs)), "{record}: {expected}");
        let named = decoded.text(&expected["name"]);
        assert!(named.is_null() || named == json!(dump.names(record).arg_name), "{record}: {named}");
        let task = decoded.task(&expected["task_id"]);
        let kernels: Vec<&Value> = task.map_or(Vec::new(), |task| {
            task["kernels"].as_array().unwrap().iter().filter(|kernel| **kernel != json!(NO_KERNEL)).collect()
        });
        assert_eq!(json!(record.func_ids().collect::<Vec<_>>()), json!(kernels), "{record}");
        assert_eq!(json!(record.step), task.map_or(json!(0), |task| task["step"].clone()), "{record}");
        if expected["kind"] == "scalar" {
            assert_eq!(json!(record.scalar_bits.map(hex64)), expected["bits"], "{record}");
        } else {
            check_tensor(dump, record, expected);
        }
    }
}

fn check_tensor(dump: &Dump, record: &Record, expected: &Value) {
    let own = json!([
        record.role.name(),
        record.space.name(),
        record.shape(),
        record.strides(),
        record.start_offset,
        hex64(record.address),
    ]);
    let theirs = ["role", "space", "shape", "strides", "start_offset", "address"].map(|key| &expected[key]);
    assert_eq!(own, json!(theirs), "{record}");
    let hash = flag(expected, RECORD_HAS_HASH).then(|| expected["hash"].clone());
    assert_eq!(record.hash.map(hex128), hash, "{record}");
    let [is_captured, is_lost, is_partial] =
        [RECORD_HAS_PAYLOAD, RECORD_PAYLOAD_DROPPED, RECORD_TRUNCATED].map(|bit| flag(expected, bit));
    let state = match (is_captured, is_lost, is_partial) {
        (true, true, _) => "overwritten",
        (false, true, _) => "dropped",
        (true, false, true) => "truncated",
        (true, false, false) => "stored",
        (false, false, _) => "none",
    };
    assert_eq!(record.payload.name(), state, "{record}");
    let place = if is_captured && !is_lost { expected["payload_at"].clone() } else { json!(0) };
    assert_eq!(json!(record.bin_offset), place, "{record}");
    let stats = record.stats.map(|stats| {
        let TensorStats { min, max, mean, std, zeros, nan, inf, numel } = stats;
        json!([number(min), number(max), number(mean), number(std), zeros, nan, inf, numel])
    });
    assert_eq!(stats.as_ref(), expected.get("stats"), "{record}");
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let content = dump.payload(record).ok().map(hex).map(Value::from);
    assert_eq!(content.as_ref(), expected.get("content"), "{record}");
}

fn check_task(dump: &Dump, decoded: &Decoded<'_>, details: &Details, task: Task<'_>) {
    let id = hex64(task.task_id);
    let expected = decoded.task(&id).unwrap();
    let launch = task.launch.as_deref().copied().unwrap_or_default();
    let own = json!({
        "kernels": task.func_id, "blocks": task.block_num,
        "times_ns": [task.submitted_ns, task.dispatched_ns, task.completed_ns.unwrap_or(0)],
        "held_up_ns": task.capture_ns, "counts": [task.tensor_count, task.scalar_count],
        "queue": task.queue, "step": task.step, "module": task.module, "operation": task.operation.name(),
        "work_dims": launch.work_dims, "core": task.core.map_or(0, |core| core + 1), "grid": launch.grid,
        "group": launch.group, "parent": hex64(task.parent.unwrap_or(0)),
    });
    for (key, own) in own.as_object().unwrap() {
        assert_eq!(own, &expected[key], "task {id}: {key}");
    }
    let sizes = json!([launch.global_size, launch.global_offset, launch.shared_bytes, launch.cluster]);
    let zeros = json!([0, 0, 0]);
    let of = |key: &str, none: &Value| expected.get(key).unwrap_or(none).clone();
    let theirs = json!([
        of("global_size", &zeros),
        of("global_offset", &zeros),
        of("shared_bytes", &json!(0)),
        of("cluster", &zeros)
    ]);
    assert_eq!(sizes, theirs, "task {id}");
    let is_cooperative = expected["launch"].as_u64().unwrap_or(0) & u64::from(LAUNCH_COOPERATIVE) != 0;
    let own = [task.is_region, task.parent.is_some(), task.in_flight, launch.is_cooperative];
    let theirs = [RECORD_REGION, RECORD_HAS_PARENT, RECORD_IN_FLIGHT].map(|bit| flag(expected, bit));
    assert_eq!(own, [theirs[0], theirs[1], theirs[2], is_cooperative], "task {id}");
    let names = json!([task.task_name(), task.scope()]);
    assert_eq!(
        names,
        json!([decoded.text(&expected["name"]), decoded.path(&expected["scope"])]),
        "task {id}"
    );
    let source = details.of(task.key()).source.map_or(json!([null, 0]), |source| json!(source));
    assert_eq!(source, json!([decoded.text(&expected["source"][0]), expected["source"][1]]), "task {id}");
    let collective = decoded.of("collective").find(|one| one["task_id"] == id).map(|one| {
        json!({"group": decoded.text(&one["group"]), "sequence": one["number"].to_string(), "kind": one["collective"]})
    });
    assert_eq!(json!(details.of(task.key()).collective), json!(collective), "task {id}");
    let attributes = decoded.of("attribute").filter(|one| one["task_id"] == id);
    // Lists of several records are compared by their values.
    let value = |value: &Value| match value[0].as_str().unwrap() {
        "none" => Value::Null,
        "bool" => json!(value[1] == 1),
        "text" | "uncaptured" => decoded.text(&value[1]),
        "dtype" => json!(DType::from_tag(u8::try_from(value[1].as_u64().unwrap()).unwrap()).unwrap().name()),
        _ => value[1].clone(),
    };
    let values =
        attributes.flat_map(|one| one["values"].as_array().unwrap()).map(|one| json!([one[0], value(one)]));
    let own = details.attributes(task.key()).flat_map(|attribute| attribute.values);
    let own = own.map(|value| {
        let value = serde_json::to_value(value).unwrap();
        json!([value["type"], value["value"]])
    });
    assert_eq!(own.collect::<Vec<_>>(), values.collect::<Vec<_>>(), "task {id}");
    let names: Vec<&str> = details.attributes(task.key()).map(|attribute| attribute.name).collect();
    assert!(names.iter().all(|name| *name == "axis"), "task {id}: {names:?}");
    let thread = task.thread.map(|thread| dump.tasks().unwrap().threads()[thread as usize].lane);
    let frames = decoded.0["frames"].as_array().unwrap().iter();
    let mut lanes = frames.filter(|frame| frame["records"].as_array().unwrap().contains(expected));
    assert_eq!(json!(thread), lanes.next_back().unwrap()["lane"], "task {id}");
}

fn check_lists(dump: &Dump, decoded: &Decoded<'_>, tasks: &Tasks) {
    let edges = dump.edges().unwrap().into_iter();
    let edges = edges.map(|edge| json!([hex64(edge.from), hex64(edge.to), edge.arg_index, edge.why]));
    let theirs = decoded
        .of("edge")
        .map(|one| json!([one["producer"], one["task_id"], one["arg_index"], one["cause"]]));
    assert_eq!(edges.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
    let uncaptured = dump.uncaptured().unwrap().into_iter();
    let uncaptured = uncaptured.map(|one| json!([hex64(one.task_id), one.arg_index, one.reason as u8]));
    let theirs = decoded.of("uncaptured").map(|one| json!([one["task_id"], one["arg_index"], one["reason"]]));
    assert_eq!(uncaptured.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
    let event = |event: &AllocationEvent| {
        json!([
            event.at_ns,
            hex64(event.address),
            event.bytes,
            event.freed,
            event.host_writable,
            hex64(event.storage),
            event.queue,
            hex64(event.after_task),
            tasks.text(event.pool)
        ])
    };
    let theirs = decoded.of("allocation").map(|one| {
        let is_writable = one["space"] == "pinned" || one["space"] == "managed";
        let of = |key: &str, none: Value| one.get(key).cloned().unwrap_or(none);
        json!([
            one["at_ns"],
            one["address"],
            one["bytes"],
            one["freed"] == 1,
            is_writable,
            of("storage", hex64(0)),
            of("queue", json!(0)),
            of("after_task", hex64(0)),
            decoded.text(&of("pool", json!(0)))
        ])
    });
    let mut own: Vec<String> = tasks.renewed().iter().map(|one| event(one).to_string()).collect();
    let mut theirs: Vec<String> = theirs.map(|one| one.to_string()).collect();
    own.sort();
    theirs.sort();
    assert_eq!(own, theirs);
    let arguments = dump.orchestration_args().unwrap().into_iter().map(|arg| {
        let TensorDesc { buffer_addr, buffer_bytes, start_offset, dtype, .. } = arg.desc;
        let dims = arg.desc.dims().len();
        let dtype = DType::from_tag(dtype).unwrap().name();
        json!([
            arg.arg_index,
            arg.role.name(),
            hex64(buffer_addr),
            buffer_bytes,
            start_offset,
            dtype,
            arg.desc.shape[..dims],
            arg.desc.strides[..dims]
        ])
    });
    let theirs = decoded.of("orchestration_arg").map(|one| {
        json!(
            ["arg_index", "role", "address", "buffer_bytes", "start_offset", "dtype", "shape", "strides"]
                .map(|key| &one[key])
        )
    });
    assert_eq!(arguments.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
}

fn check_dispatches(dump: &Dump, decoded: &Decoded<'_>, tasks: &Tasks) {
    let dispatches = dump.dispatches().unwrap();
    let expected: Vec<&Value> = decoded.of("dispatch").collect();
    assert_eq!(dispatches.len(), expected.len());
    for (own, theirs) in dispatches.iter().zip(expected) {
        let fields = json!({
            "task_id": hex64(own.task_id), "kernel": own.func_id, "core": own.core_id, "slot": own.subtask_id,
            "slots": own.subtask_count, "block": own.block_idx, "blocks": own.block_num, "handed_over_ns": own.handed_ns,
        });
        for (key, own) in fields.as_object().unwrap() {
            assert_eq!(own, &theirs[key], "{key}");
        }
        let [is_captured, is_lost] =
            [RECORD_HAS_PAYLOAD, RECORD_PAYLOAD_DROPPED].map(|bit| flag(theirs, bit));
        let state = match (is_captured, is_lost) {
            (true, true) => PayloadState::Overwritten,
            (false, true) => PayloadState::Dropped,
            _ => PayloadState::Stored,
        };
        assert_eq!(own.payload, state);
        let hex = |value: u64| json!(format!("{value:#x}"));
        let (mut descriptors, mut views, mut bits, mut dtypes) = (vec![], vec![], vec![], vec![]);
        for arg in &own.args {
            match arg {
                DispatchArg::Tensor { desc_addr, desc, .. } => {
                    let dims = desc.dims().len();
                    descriptors.push(hex(*desc_addr));
                    views.push(json!({
                        "address": hex(desc.buffer_addr), "bytes": desc.buffer_bytes, "start_offset": desc.start_offset,
                        "owner": hex(desc.owner_task), "version": desc.version, "flags": desc.flags,
                        "dtype": DType::from_tag(desc.dtype).unwrap().name(), "shape": desc.shape[..dims],
                        "strides": desc.strides[..dims],
                    }));
                }
                DispatchArg::Scalar { bits: own, dtype, .. } => {
                    bits.push(hex(*own));
                    dtypes.push(json!(dtype.unwrap().name()));
                }
            }
        }
        if state == PayloadState::Stored {
            let theirs = ["descriptors", "views", "scalar_bits", "scalar_dtypes"].map(|key| &theirs[key]);
            assert_eq!(json!([descriptors, views, bits, dtypes]), json!(theirs));
            let DispatchContext { block_addr, block, subtask_addr, subtask } = own.context.unwrap();
            let own = json!([
                [hex(block_addr), hex(subtask_addr)],
                [block.block_idx, block.block_num],
                [subtask.subtask_id, subtask.subtask_count]
            ]);
            let theirs = decoded.of("dispatch").find(|one| one["block_context"].is_array()).unwrap();
            assert_eq!(own, json!(["contexts", "block_context", "subtask_context"].map(|key| &theirs[key])));
        }
    }
    for finished in decoded.of("finished") {
        let task = tasks.iter().find(|task| hex64(task.task_id) == finished["task_id"]).unwrap();
        let ran = task.dispatches().iter().zip(task.dispatch_times());
        let ran = ran.map(|(facts, times)| {
            json!([facts.subtask_id, facts.block_idx, times.started_ns, times.completed_ns])
        });
        let theirs = json!(["slot", "block", "started_ns", "completed_ns"].map(|key| &finished[key]));
        let place = |one: &Value| json!([one[0], one[1]]);
        assert!(ran.into_iter().all(|own| place(&own) != place(&theirs) || own == theirs), "{finished}");
    }
}

fn check_definitions(dump: &Dump, decoded: &Decoded<'_>, tasks: &Tasks, details: &Details) {
    for queue in decoded.of("queue") {
        let id = u32::try_from(queue["id"].as_u64().unwrap()).unwrap();
        assert_eq!(json!(dump.queue_name(id)), decoded.text(&queue["name"]));
    }
    for step in decoded.of("step") {
        let id = u32::try_from(step["id"].as_u64().unwrap()).unwrap();
        assert_eq!(json!(details.step_name(id)), decoded.text(&step["name"]));
    }
    for lane in decoded.of("lane") {
        let own = tasks.threads().iter().find(|thread| json!(thread.lane) == lane["lane"]).unwrap();
        assert_eq!(json!([hex64(own.tid), own.name]), json!([lane["thread"], decoded.text(&lane["name"])]));
    }
    let modules: BTreeMap<u32, Module> =
        dump.modules().into_iter().map(|module| (module.id, module)).collect();
    assert_eq!(modules.len(), decoded.of("module").count());
    for module in decoded.of("module") {
        let own = &modules[&u32::try_from(module["id"].as_u64().unwrap()).unwrap()];
        let text = |key: &str| decoded.text(&module[key]).as_str().unwrap_or_default().to_owned();
        let theirs = json!([
            text("name"),
            module["image"],
            text("options"),
            text("device"),
            module["bytes"],
            module["hash"]
        ]);
        let own = json!([own.name, own.kind.name(), own.options, own.device, own.bytes, hex128(own.hash)]);
        assert_eq!(own, theirs);
    }
    for kernel in decoded.of("kernel") {
        let own = dump.info().kernels.iter().find(|own| json!(own.func_id) == kernel["func_id"]).unwrap();
        let args = kernel["args"].as_array().unwrap();
        let kinds: Vec<&Value> = args.iter().map(|arg| &arg["kind"]).collect();
        let names: Vec<String> = args
            .iter()
            .map(|arg| decoded.text(&arg["name"]).as_str().unwrap_or_default().to_owned())
            .collect();
        let cores = ["", "AIC", "AIV"][usize::try_from(kernel["cores"].as_u64().unwrap()).unwrap()];
        let own = json!([own.name, own.module, own.core_type, own.signature, own.arg_names]);
        assert_eq!(own, json!([decoded.text(&kernel["name"]), kernel["module"], cores, kinds, names]));
    }
}
