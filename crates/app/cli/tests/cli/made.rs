//! Dumps written record by record, for content that no scene produces.

use std::path::Path;

use tensortap::abi::{
    MAX_DIMS, NO_KERNEL, RECORD_HAS_HASH, Role, ScalarRecord, TaskRecord, TensorRecord, TensorStats,
};
use tensortap::format::{
    DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status, WriterOptions,
};
use tensortap::{DType, DumpStage};

/// A dump being written: each call of [`DumpMaker::task`] starts a task, and its arguments follow.
pub struct DumpMaker {
    writer: DumpWriter,
    records: Vec<IndexRecord>,
    /// Number of appended records.
    appended: u64,
    task_id: u64,
    stage: DumpStage,
}

impl DumpMaker {
    /// A dump in a new folder, with the kernels `fill` (0) and one whose name contains control characters (1).
    pub fn new(dir: &Path, dump_level: u32) -> DumpMaker {
        DumpMaker::with(dir, dump_level, WriterOptions::default())
    }

    /// The same with options of the writer.
    pub fn with(dir: &Path, dump_level: u32, options: WriterOptions) -> DumpMaker {
        DumpMaker::named(dir, dump_level, options, "cl\x1b[2Jear,\"x\"")
    }

    /// The same with another name for the second kernel.
    pub fn named(dir: &Path, dump_level: u32, options: WriterOptions, second: &str) -> DumpMaker {
        let kernel = |func_id, name: &str| KernelInfo { func_id, name: name.into(), ..KernelInfo::default() };
        let info = RunInfo {
            scene: "made".into(),
            platform: "a2a3sim".into(),
            runtime: "host_build_graph".into(),
            dump_level,
            kernels: vec![kernel(0, "fill"), kernel(1, second)],
            ..RunInfo::default()
        };
        let writer = DumpWriter::create_with(dir, &info, options).expect("a new dump");
        DumpMaker { writer, records: Vec::new(), appended: 0, task_id: 0, stage: DumpStage::BeforeDispatch }
    }

    /// Starts a task; the following records belong to it and to this stage.
    pub fn task(&mut self, task_id: u64, kernel: u32, stage: DumpStage) -> &mut DumpMaker {
        (self.task_id, self.stage) = (task_id, stage);
        let completed_ns = u64::from(stage == DumpStage::AfterCompletion);
        let task = TaskRecord {
            task_id,
            func_id: [kernel, NO_KERNEL, NO_KERNEL],
            block_num: 1,
            started_ns: 1,
            completed_ns: 2 * completed_ns,
            ..Default::default()
        };
        self.records.push(IndexRecord::plain(&task));
        self
    }

    fn captured(&self, role: Role, arg_index: u16, dtype: DType, shape: &[u64]) -> TensorRecord {
        let (mut sizes, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        sizes[..shape.len()].copy_from_slice(shape);
        let mut stride = 1;
        for axis in (0..shape.len()).rev() {
            strides[axis] = stride;
            stride *= i64::try_from(shape[axis]).expect("small");
        }
        TensorRecord {
            task_id: self.task_id,
            stage: self.stage as u8,
            role: role.tag(),
            dtype: dtype.tag(),
            ndims: u8::try_from(shape.len()).expect("few"),
            shape: sizes,
            strides,
            arg_index,
            ..Default::default()
        }
    }

    /// A tensor with its content, which may be shorter than its shape.
    pub fn tensor(
        &mut self,
        role: Role,
        arg: u16,
        dtype: DType,
        shape: &[u64],
        content: &[u8],
    ) -> &mut DumpMaker {
        let mut captured = self.captured(role, arg, dtype, shape);
        let whole = dtype.packed_bytes(shape.iter().product()).expect("small");
        let bytes = content.len() as u64;
        let offset = self.writer.reserve(bytes);
        if bytes > 0 {
            self.writer.write_payload(offset, content).expect("written");
        }
        let payload = if bytes < whole {
            Payload::Truncated { offset, bytes }
        } else {
            Payload::Stored { offset, bytes }
        };
        if bytes == whole {
            captured.flags |= RECORD_HAS_HASH;
            captured.hash = tensortap::values::content_hash(content).to_le_bytes();
        }
        self.records.push(IndexRecord::tensor(&captured, payload));
        self
    }

    /// A tensor without content.
    pub fn absent(&mut self, arg: u16, dtype: DType, shape: &[u64], payload: Payload) -> &mut DumpMaker {
        let captured = self.captured(Role::Input, arg, dtype, shape);
        self.records.push(IndexRecord::tensor(&captured, payload));
        self
    }

    /// A scalar.
    pub fn scalar(&mut self, arg: u16, dtype: DType, bits: u64) -> &mut DumpMaker {
        let (task_id, stage, dtype) = (self.task_id, self.stage as u8, dtype.tag());
        let scalar = ScalarRecord { task_id, stage, arg_index: arg, dtype, bits, ..Default::default() };
        self.records.push(IndexRecord::plain(&scalar));
        self
    }

    /// Writes the pending records.
    pub fn append(&mut self) {
        let end = self.appended + self.records.len() as u64;
        self.writer.append(0, self.appended..end, &self.records).expect("appended");
        (self.appended, self.records) = (end, Vec::new());
    }

    /// Removes tasks that have left the window of the newest tasks.
    pub fn move_window(&mut self) {
        self.writer.free_before_window().expect("freed");
    }

    /// Closes the dump.
    pub fn finish(mut self) {
        self.append();
        self.writer.finish(&Footer::new(Status::Complete)).expect("closed");
    }
}

/// Statistics of content that is not stored.
pub fn stats(nan: u64) -> TensorStats {
    TensorStats { min: -1.5, max: 2.5, mean: 0.25, std: 1.0, zeros: 3, nan, inf: 0, numel: 16 }
}

/// Little-endian bytes of numbers.
pub fn i32s(numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    numbers.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Little-endian bytes of floats.
pub fn f32s(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}
