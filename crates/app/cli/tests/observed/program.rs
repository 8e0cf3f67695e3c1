//! A program on a device with queues, recorded like a capture backend does: for every launch, its memory
//! before and after, without roles; copies, fills and host accesses with roles; and the order of all of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tensortap::abi::{DumpLevel, EdgeCause, MemorySpace, ModuleKind, Operation, Role, UncapturedReason};
use tensortap::record::{
    FolderOptions, KernelId, KernelInfo, ModuleImage, QueueId, Session, StringId, Task, TaskInfo, Tensor,
    ThreadRecorder,
};
use tensortap::{DType, DumpStage};

/// Bytes of a buffer: number of the buffer, first byte, size.
#[derive(Clone, Copy, Debug)]
pub struct Range(pub usize, pub usize, pub usize);

/// How a launch is enqueued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch<'a> {
    /// The queue. A queue named `out of order` is unordered; all others are in order.
    pub queue: &'a str,
    /// Tasks whose events it waits for.
    pub waits: &'a [u64],
    pub grid: u32,
    pub scalar: Option<u32>,
}

/// Enqueues after everything in the queue.
pub fn on(queue: &str) -> Launch<'_> {
    Launch { queue, grid: 4, ..Launch::default() }
}

pub struct Program {
    session: Session,
    recorder: ThreadRecorder,
    pub memory: Vec<Box<[u8]>>,
    spaces: Vec<MemorySpace>,
    queues: HashMap<String, (QueueId, Option<u64>)>,
    folder: PathBuf,
    /// Kernels of programs, by name.
    kernels: HashMap<String, KernelId>,
}

impl Program {
    pub fn new(folder: &Path) -> Program {
        Program::at(folder, DumpLevel::Full)
    }

    /// A program that is recorded into a folder at a dump level.
    pub fn at(folder: &Path, level: DumpLevel) -> Program {
        Program::with(folder, &FolderOptions { level, ..FolderOptions::default() })
    }

    /// A program that is recorded into a folder with options.
    pub fn with(folder: &Path, options: &FolderOptions) -> Program {
        let session = Session::in_folder(folder, options).unwrap();
        let recorder = session.thread().unwrap();
        let (memory, spaces, queues) = (Vec::new(), Vec::new(), HashMap::new());
        let kernels = HashMap::new();
        Program { session, recorder, memory, spaces, queues, folder: folder.to_owned(), kernels }
    }

    /// Allocates a buffer with this content.
    pub fn buffer(&mut self, content: &[u8], space: MemorySpace) -> usize {
        let number = self.unrecorded_buffer(content, space);
        let bytes = &self.memory[number];
        self.recorder.allocation(bytes.as_ptr().addr() as u64, bytes.len() as u64, space, false).unwrap();
        number
    }

    /// A buffer whose allocation is not recorded.
    pub fn unrecorded_buffer(&mut self, content: &[u8], space: MemorySpace) -> usize {
        self.memory.push(content.into());
        self.spaces.push(space);
        self.memory.len() - 1
    }

    /// Launches a kernel with these ranges; `body` does the kernel's work.
    pub fn launch(
        &mut self,
        kernel: &str,
        launch: Launch<'_>,
        given: &[Range],
        body: impl FnOnce(&mut [Box<[u8]>]),
    ) -> u64 {
        let known = self.kernels.get(kernel).copied();
        let kernel = known.unwrap_or_else(|| self.recorder.kernel(kernel).unwrap());
        let mut task = self.begin(Operation::Kernel, kernel, launch);
        self.capture(&mut task, DumpStage::BeforeDispatch, given, None);
        if let Some(bits) = launch.scalar {
            let place = u16::try_from(given.len()).unwrap();
            self.recorder.scalar(&mut task, place, DType::UInt32, bits.into(), StringId::NONE).unwrap();
        }
        body(&mut self.memory);
        self.capture(&mut task, DumpStage::AfterCompletion, given, None);
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    /// Launches a kernel that receives a value by copy. At some positions, the value points to memory.
    pub fn launch_with_value(
        &mut self,
        kernel: &str,
        launch: Launch<'_>,
        (value, words): (&[u8], &[(usize, Range)]),
        body: impl FnOnce(&mut [Box<[u8]>]),
    ) {
        let kernel = self.recorder.kernel(kernel).unwrap();
        let mut task = self.begin(Operation::Kernel, kernel, launch);
        let tensor = Tensor::of(value, DType::UInt8).unwrap().role(Role::Input).space(MemorySpace::Host);
        self.recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap();
        self.capture_words(&mut task, DumpStage::BeforeDispatch, words);
        body(&mut self.memory);
        self.capture_words(&mut task, DumpStage::AfterCompletion, words);
        self.recorder.end(&mut task).unwrap();
    }

    /// Captures the memory that words of argument 0 point to.
    fn capture_words(&mut self, task: &mut Task, stage: DumpStage, words: &[(usize, Range)]) {
        for (place, &(byte, Range(buffer, from, len))) in (1..).zip(words) {
            let name = self.recorder.string(&format!("0+{byte}")).unwrap();
            let tensor = Tensor::of(&self.memory[buffer][from..from + len], DType::UInt8).unwrap();
            let tensor = tensor.arg(place).role(Role::InOut).space(self.spaces[buffer]);
            let tensor = tensor.guessed(true, true, true).name(name);
            self.recorder.tensor(task, stage, &tensor).unwrap();
        }
    }

    /// Adds a program with its source, and a kernel with named arguments.
    pub fn kernel_of(&mut self, source: &str, kernel: &str, args: &[&str]) {
        self.kernel_built(source, "-DN=3 -cl-fast-relaxed-math", kernel, args);
    }

    /// The same with other build options.
    pub fn kernel_built(&mut self, source: &str, options: &str, kernel: &str, args: &[&str]) {
        let image = ModuleImage {
            name: "",
            kind: ModuleKind::OpenClC,
            options,
            device: "a device",
            image: source.as_bytes(),
        };
        let module = self.recorder.module_image(&image).unwrap();
        let args: Vec<_> = args.iter().map(|name| (*name, None)).collect();
        let id = self.recorder.define_kernel(&KernelInfo { name: kernel, module, args: &args }).unwrap();
        self.kernels.insert(kernel.into(), id);
    }

    /// Launches a kernel that never ends and has one argument that cannot be captured.
    pub fn hang(&mut self, kernel: &str, launch: Launch<'_>, given: &[Range]) {
        let kernel = self.recorder.kernel(kernel).unwrap();
        let mut task = self.begin(Operation::Kernel, kernel, launch);
        self.capture(&mut task, DumpStage::BeforeDispatch, given, None);
        let place = u16::try_from(given.len()).unwrap();
        let argument = (place, Role::InOut, StringId::NONE);
        let (stage, reason) = (DumpStage::BeforeDispatch, UncapturedReason::Opaque);
        self.recorder.not_captured(&mut task, stage, argument, reason).unwrap();
    }

    /// A launch that the driver refuses, so nothing is captured.
    pub fn refuse(&mut self, kernel: &str, launch: Launch<'_>, status: i32) {
        let id = self.recorder.kernel(kernel).unwrap();
        let mut task = self.begin(Operation::Kernel, id, launch);
        let name =
            self.recorder.string(&format!("{kernel}, refused by the driver with status {status}")).unwrap();
        self.recorder.refused(&mut task, name).unwrap();
    }

    /// A launch with an additional argument that cannot be captured.
    pub fn launch_in_part(
        &mut self,
        kernel: &str,
        launch: Launch<'_>,
        given: &[Range],
        body: impl FnOnce(&mut [Box<[u8]>]),
    ) -> u64 {
        let kernel = self.recorder.kernel(kernel).unwrap();
        let mut task = self.begin(Operation::Kernel, kernel, launch);
        self.capture(&mut task, DumpStage::BeforeDispatch, given, None);
        let argument = (u16::try_from(given.len()).unwrap(), Role::InOut, StringId::NONE);
        let (stage, reason) = (DumpStage::BeforeDispatch, UncapturedReason::Opaque);
        self.recorder.not_captured(&mut task, stage, argument, reason).unwrap();
        body(&mut self.memory);
        self.capture(&mut task, DumpStage::AfterCompletion, given, None);
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    /// The host writes a range.
    pub fn write(&mut self, launch: Launch<'_>, range: Range, content: &[u8]) -> u64 {
        let mut task = self.begin(Operation::HostWrite, KernelId::NONE, launch);
        let Range(buffer, from, len) = range;
        self.memory[buffer][from..from + len].copy_from_slice(content);
        self.capture(&mut task, DumpStage::AfterCompletion, &[range], Some(Role::Output));
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    /// The host reads a range.
    pub fn read(&mut self, launch: Launch<'_>, range: Range) -> u64 {
        let mut task = self.begin(Operation::HostRead, KernelId::NONE, launch);
        self.capture(&mut task, DumpStage::BeforeDispatch, &[range], Some(Role::Input));
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    /// A barrier: moves no data, only orders tasks.
    pub fn barrier(&mut self, launch: Launch<'_>) -> u64 {
        let mut task = self.begin(Operation::Barrier, KernelId::NONE, launch);
        self.recorder.end(&mut task).unwrap();
        task.id()
    }

    /// Ends the program; returns the folder of its dump.
    pub fn end(self) -> PathBuf {
        drop(self.recorder);
        self.session.close().unwrap();
        self.folder
    }

    fn begin(&mut self, operation: Operation, kernel: KernelId, launch: Launch<'_>) -> Task {
        let Launch { queue, waits, grid, .. } = launch;
        let id = self.recorder.queue(queue).unwrap();
        let last = self.queues.entry(queue.into()).or_insert((id, None)).1;
        let info = TaskInfo {
            operation,
            queue: id,
            grid: if operation == Operation::Kernel { [grid, 1, 1] } else { [0; 3] },
            group: if operation == Operation::Kernel { [16, 1, 1] } else { [0; 3] },
            ..TaskInfo::of(kernel)
        };
        let task = self.recorder.begin(&info).unwrap();
        if queue != "out of order" {
            let before = last.into_iter();
            before
                .for_each(|last| _ = self.recorder.edge(last, task.id(), EdgeCause::QueueOrder, 0).unwrap());
            self.queues.get_mut(queue).unwrap().1 = Some(task.id());
        }
        for &wait in waits {
            self.recorder.edge(wait, task.id(), EdgeCause::Event, 0).unwrap();
        }
        task
    }

    /// Captures ranges; without a role, as unknown.
    fn capture(&mut self, task: &mut Task, stage: DumpStage, given: &[Range], role: Option<Role>) {
        for (place, &Range(buffer, from, len)) in (0..).zip(given) {
            let tensor = Tensor::of(&self.memory[buffer][from..from + len], DType::UInt8).unwrap();
            let tensor = tensor.arg(place).role(role.unwrap_or(Role::InOut)).space(self.spaces[buffer]);
            let tensor = tensor.guessed(true, role.is_none(), false);
            self.recorder.tensor(task, stage, &tensor).unwrap();
        }
    }
}
