//! `args_dump.json` and `kernel_args_dump.json`, streamed from the index.

use std::io::Write;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::{
    BLOCK_CONTEXT_SLOT, BlockContext, DType, DumpStage, FinishedRecord, RecordKind, Role,
    SUBTASK_CONTEXT_SLOT, SubtaskContext, TensorDesc,
};

use crate::{
    Dispatch, DispatchArg, DispatchContext, OrchestrationArg, OrchestrationScalar, RunInfo,
    dispatch::sound_dtype,
    dispatch_id,
    json::Hex64,
    manifest::{JsonInput, JsonListWriter, JsonObjectWriter, StreamError},
};

impl JsonInput<'_> {
    /// The orchestration's own arguments.
    pub(crate) fn write_args(&self, out: impl Write) -> Result<(), StreamError> {
        let (info, totals) = (&self.info, &self.footer.totals);
        let scalars: Vec<OrchestrationScalar> = OrchestrationScalar::of_run(info).collect();
        let mut lines = JsonObjectWriter::begin(out);
        lines.field("schema_version", &self.index.schema_version())?;
        lines.field("stage", "args_dump")?;
        lines.field("runtime", &info.runtime)?;
        lines.field("total_args", &(totals.orchestration_args + scalars.len() as u64))?;
        lines.field("run_dir", &info.run_dir)?;
        lines.field("platform", &info.platform)?;
        lines.field("scene", &info.scene)?;
        lines.field("params", &info.params)?;
        lines.field("device_base", &Hex64(info.device_base))?;
        lines.list("args", |list| {
            self.for_each(&[RecordKind::OrchestrationArg], |_, record| {
                OrchestrationArg::new(record, info).map_or(Ok(()), |arg| list.push(&arg))
            })?;
            scalars.iter().try_for_each(|scalar| list.push(scalar))
        })?;
        Ok(lines.end()?)
    }

    /// The arguments of every dispatch.
    pub(crate) fn write_kernel_args(&self, out: impl Write) -> Result<(), StreamError> {
        let (info, footer) = (&self.info, self.footer);
        let mut lines = JsonObjectWriter::begin(out);
        lines.field("schema_version", &self.index.schema_version())?;
        lines.field("total_dispatches", &footer.totals.dispatches)?;
        lines.field("total_args", &footer.totals.dispatch_args)?;
        lines.field("run_dir", &info.run_dir)?;
        lines.field("status", footer.status.name())?;
        lines.field("platform", &info.platform)?;
        lines.field("runtime", &info.runtime)?;
        lines.field("scene", &info.scene)?;
        lines.field("device_base", &Hex64(info.device_base))?;
        lines.field("dropped_records", &footer.dropped_records())?;
        lines.field("dropped_overwrite", &footer.totals.dropped_overwrite)?;
        lines.field("corrupt_records", &footer.corrupt_records)?;
        lines.field("filtered_records", &footer.filtered_records)?;
        lines.list("losses", |list| footer.losses.iter().try_for_each(|loss| list.push(loss)))?;
        lines.list("kernels", |list| info.kernels.iter().try_for_each(|kernel| list.push(kernel)))?;
        lines.list("dispatches", |list| self.write_dispatches(list))?;
        if footer.totals.finished != 0 {
            lines.list("finished", |list| self.write_finished(list))?;
        }
        Ok(lines.end()?)
    }

    fn write_dispatches<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        let info = &self.info;
        self.for_each(&[RecordKind::Dispatch], |_, record| {
            match Dispatch::new(record, self.tasks.by_id(record.task_id()).step) {
                Some(dispatch) => list.push(&NamedDispatch { dispatch, info }),
                None => Ok(()),
            }
        })
    }

    fn write_finished<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        self.for_each(&[RecordKind::Finished], |_, record| {
            record.as_finished().map_or(Ok(()), |finished| list.push(&DispatchTiming(finished)))
        })
    }
}

/// Start and end of a dispatch, under its id.
struct DispatchTiming<'r>(&'r FinishedRecord);

impl Serialize for DispatchTiming<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let &FinishedRecord { task_id, subtask_id, block_idx, core_id, started_ns, completed_ns, .. } =
            self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dispatch_id", &Hex64(dispatch_id(task_id, subtask_id, block_idx)))?;
        map.serialize_entry("core_id", &core_id)?;
        map.serialize_entry("started_ns", &started_ns.to_string())?;
        map.serialize_entry("completed_ns", &completed_ns.to_string())?;
        map.end()
    }
}

/// A dispatch with the name of its kernel.
struct NamedDispatch<'i> {
    dispatch: Dispatch,
    info: &'i RunInfo,
}

impl Serialize for NamedDispatch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let NamedDispatch { dispatch, info } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dispatch_id", &Hex64(dispatch.id()))?;
        map.serialize_entry("func_id", &dispatch.func_id)?;
        map.serialize_entry("kernel", &info.kernel_name(dispatch.func_id))?;
        map.serialize_entry("task_id", &Hex64(dispatch.task_id))?;
        map.serialize_entry("subtask_id", &dispatch.subtask_id)?;
        map.serialize_entry("core_type", dispatch.core_type().name())?;
        map.serialize_entry("core_id", &dispatch.core_id)?;
        map.serialize_entry("block_idx", &dispatch.block_idx)?;
        map.serialize_entry("block_num", &dispatch.block_num)?;
        map.serialize_entry("stage", DumpStage::BeforeDispatch.name())?;
        // Only if known, so that the files of older versions stay comparable.
        if dispatch.handed_ns != 0 {
            map.serialize_entry("handed_over_ns", &dispatch.handed_ns.to_string())?;
        }
        map.serialize_entry("payload", dispatch.payload.name())?;
        map.serialize_entry("args", &dispatch.args)?;
        map.serialize_entry("context", &ContextPointers(dispatch.context))?;
        map.end()
    }
}

impl Serialize for DispatchArg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("arg_index", &self.arg_index())?;
        match self {
            DispatchArg::Tensor { desc_addr, desc, .. } => {
                serialize_view::<S>(&mut map, desc)?;
                map.serialize_entry("desc_ptr", &Hex64(*desc_addr))?;
                map.serialize_entry("owner_task", &Hex64(desc.owner_task))?;
                map.serialize_entry("version", &desc.version)?;
            }
            DispatchArg::Scalar { bits, dtype, .. } => {
                map.serialize_entry("kind", "scalar")?;
                map.serialize_entry("dtype", &dtype.map(DType::name))?;
                map.serialize_entry("bits", &Hex64(*bits))?;
                map.serialize_entry("value", &self.value())?;
            }
        }
        map.end()
    }
}

impl Serialize for OrchestrationArg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("arg_index", &self.arg_index)?;
        serialize_view::<S>(&mut map, &self.desc)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("role", self.role.name())?;
        map.end()
    }
}

impl Serialize for OrchestrationScalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("arg_index", &self.arg_index)?;
        map.serialize_entry("kind", "scalar")?;
        map.serialize_entry("dtype", self.dtype.name())?;
        map.serialize_entry("bits", &Hex64(self.bits))?;
        map.serialize_entry("value", &self.value())?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("role", Role::Input.name())?;
        map.end()
    }
}

/// Serializes a descriptor. An invalid one is shown without its view; the index still has all of it.
fn serialize_view<S: Serializer>(map: &mut S::SerializeMap, desc: &TensorDesc) -> Result<(), S::Error> {
    let dtype = sound_dtype(desc);
    let sound = dtype.map_or(TensorDesc::default(), |_| *desc);
    map.serialize_entry("kind", "tensor")?;
    map.serialize_entry("dtype", &dtype.map(DType::name))?;
    map.serialize_entry("ndims", &sound.dims().len())?;
    map.serialize_entry("shape", sound.dims())?;
    map.serialize_entry("strides", sound.dim_strides())?;
    map.serialize_entry("start_offset", &sound.start_offset)?;
    map.serialize_entry("data_ptr", &Hex64(desc.buffer_addr))?;
    map.serialize_entry("buffer_bytes", &sound.buffer_bytes)
}

/// The context pointers as a list; empty if they were lost.
struct ContextPointers(Option<DispatchContext>);

impl Serialize for ContextPointers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let contexts = self.0.map(|DispatchContext { block_addr, block, subtask_addr, subtask }| {
            let BlockContext { block_idx, block_num } = block;
            let SubtaskContext { subtask_id, subtask_count } = subtask;
            [
                Context {
                    arg_index: BLOCK_CONTEXT_SLOT,
                    name: "block_context",
                    addr: block_addr,
                    fields: [("block_idx", block_idx), ("block_num", block_num)],
                },
                Context {
                    arg_index: SUBTASK_CONTEXT_SLOT,
                    name: "subtask_context",
                    addr: subtask_addr,
                    fields: [("subtask_id", subtask_id), ("subtask_count", subtask_count)],
                },
            ]
        });
        serializer.collect_seq(contexts.iter().flatten())
    }
}

struct Context {
    arg_index: usize,
    name: &'static str,
    addr: u64,
    fields: [(&'static str, u32); 2],
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("arg_index", &self.arg_index)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("data_ptr", &Hex64(self.addr))?;
        for (name, value) in self.fields {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}
