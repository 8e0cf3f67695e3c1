//! Definitions of everything that records refer to by number: names, scopes, kernels, queues, lanes, steps,
//! modules and allocations.
//!
//! A definition may come after its first use. Filters, the loss policy and the task window never remove
//! one. Numbers start at 1; 0 refers to nothing. A dump defines each number once, or again with the same
//! content.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::{ArgKind, CoreType, assert_layout};

/// String and scope ids from here on belong to a graph that the host built. Lower ids belong to the device.
pub const FIRST_HOST_ID: u32 = 1 << 31;
/// String ids from here on belong to kernel declarations, which the host knows before the run.
pub const FIRST_DECLARED_ID: u32 = 3 << 30;
/// Bytes of text that fit into a [`StringRecord`]. Longer text is in the arena.
pub const INLINE_TEXT_BYTES: usize = 160;
/// Maximum length of a text. The recorder truncates longer text.
pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// Arguments that fit into a [`KernelRecord`]. If a kernel has more, all of them are in the arena.
pub const INLINE_KERNEL_ARGS: usize = 19;

dump_record! {
    /// A string. It is sent once, and other records refer to it by its id.
    StringRecord = String {
        /// Its number.
        id: u32 = 16,
        /// Bytes of the text, UTF-8.
        text_bytes: u32 = 20,
        /// Arena position of a text longer than [`INLINE_TEXT_BYTES`]; 0 otherwise.
        text_pos: u64 = 24,
        /// The text if it fits, padded with zeros.
        text: [u8; 160] = 32,
    }
}

dump_record! {
    /// A scope of tasks. Scopes nest.
    ScopeRecord = Scope {
        /// Its number.
        id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// The enclosing scope; 0 for none.
        parent: u32 = 24,
        /// Zero.
        reserved0: u32 = 28,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

/// The declaration of one kernel argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelArg {
    /// String id of its name; 0 for none.
    pub name: u32,
    /// Tag of an [`ArgKind`]; 0 if not known.
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
}
assert_layout!(KernelArg, size 8, align 4, name @ 0, kind @ 4, reserved @ 5);

impl KernelArg {
    /// Tag of a declared kind; 0 if not known.
    pub const fn tag(kind: Option<ArgKind>) -> u8 {
        match kind {
            None => 0,
            Some(ArgKind::In) => 1,
            Some(ArgKind::Out) => 2,
            Some(ArgKind::InOut) => 3,
            Some(ArgKind::Scalar) => 4,
        }
    }

    /// The kind of a tag: `Some(None)` if not known; `None` if the tag is damaged.
    pub const fn kind_of(tag: u8) -> Option<Option<ArgKind>> {
        match tag {
            0 => Some(None),
            1 => Some(Some(ArgKind::In)),
            2 => Some(Some(ArgKind::Out)),
            3 => Some(Some(ArgKind::InOut)),
            4 => Some(Some(ArgKind::Scalar)),
            _ => None,
        }
    }
}

dump_record! {
    /// A kernel: the meaning of a task's `func_id`.
    KernelRecord = Kernel {
        /// Number by which tasks refer to it.
        func_id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// Module that contains its code; 0 if not known.
        module: u32 = 24,
        /// Number of declared arguments.
        arg_count: u16 = 28,
        /// Tag of the cores that run it; see [`KernelRecord::core_tag`].
        core_type: u8 = 30,
        /// Zero.
        reserved0: u8 = 31,
        /// Arena position of the arguments if there are more than [`INLINE_KERNEL_ARGS`]; 0 otherwise.
        args_pos: u64 = 32,
        /// The arguments if they fit, in order.
        args: [KernelArg; 19] = 40,
    }
}

impl KernelRecord {
    /// Tag of a core type; 0 if there is only one type of core.
    pub const fn core_tag(core_type: Option<CoreType>) -> u8 {
        match core_type {
            None => 0,
            Some(CoreType::Aic) => 1,
            Some(CoreType::Aiv) => 2,
        }
    }

    /// The core type of a tag: `Some(None)` if there is only one type; `None` if the tag is damaged.
    pub const fn core_of(tag: u8) -> Option<Option<CoreType>> {
        match tag {
            0 => Some(None),
            1 => Some(Some(CoreType::Aic)),
            2 => Some(Some(CoreType::Aiv)),
            _ => None,
        }
    }
}

dump_record! {
    /// A queue or stream that tasks are submitted to.
    QueueRecord = Queue {
        /// Its number.
        id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// Zero.
        reserved: [u64; 21] = 24,
    }
}

dump_record! {
    /// The thread that holds the lane of this record, from this record on.
    LaneRecord = Lane {
        /// The operating system's thread id; 0 if not known.
        tid: u64 = 16,
        /// The lane.
        lane: u32 = 24,
        /// String id of the thread's name; 0 for none.
        name: u32 = 28,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

dump_record! {
    /// A step of a program that repeats its work. Task ids are unique within a step.
    StepRecord = Step {
        /// Its number.
        id: u32 = 16,
        /// String id of its name; 0 for none.
        name: u32 = 20,
        /// Device time at its start.
        started_ns: u64 = 24,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

/// Format of a module's image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ModuleKind {
    /// Not known.
    #[default]
    Unknown = 0,
    /// OpenCL C source.
    OpenClC = 1,
    /// SPIR-V.
    SpirV = 2,
    /// A binary as OpenCL devices define it.
    OpenClBinary = 3,
    /// PTX.
    Ptx = 4,
    /// Machine code for one NVIDIA architecture.
    Cubin = 5,
    /// Machine code for several NVIDIA architectures.
    Fatbin = 6,
}

impl ModuleKind {
    /// Every format.
    pub const ALL: [ModuleKind; 7] = [
        ModuleKind::Unknown,
        ModuleKind::OpenClC,
        ModuleKind::SpirV,
        ModuleKind::OpenClBinary,
        ModuleKind::Ptx,
        ModuleKind::Cubin,
        ModuleKind::Fatbin,
    ];

    /// The format of a tag; `None` if the tag is damaged.
    pub fn from_tag(tag: u8) -> Option<ModuleKind> {
        ModuleKind::ALL.into_iter().find(|&kind| kind as u8 == tag)
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ModuleKind::Unknown => "unknown",
            ModuleKind::OpenClC => "opencl_c",
            ModuleKind::SpirV => "spirv",
            ModuleKind::OpenClBinary => "opencl_binary",
            ModuleKind::Ptx => "ptx",
            ModuleKind::Cubin => "cubin",
            ModuleKind::Fatbin => "fatbin",
        }
    }

    /// Whether an OpenCL device can build it.
    pub const fn is_opencl(self) -> bool {
        matches!(self, ModuleKind::OpenClC | ModuleKind::SpirV | ModuleKind::OpenClBinary)
    }

    /// Whether a CUDA driver can load it.
    pub const fn is_cuda(self) -> bool {
        matches!(self, ModuleKind::Ptx | ModuleKind::Cubin | ModuleKind::Fatbin)
    }

    /// File name extension of such an image.
    pub const fn extension(self) -> &'static str {
        match self {
            ModuleKind::Unknown => "image",
            ModuleKind::OpenClC => "cl",
            ModuleKind::SpirV => "spv",
            ModuleKind::OpenClBinary => "bin",
            ModuleKind::Ptx => "ptx",
            ModuleKind::Cubin => "cubin",
            ModuleKind::Fatbin => "fatbin",
        }
    }
}

/// Maximum size of a module's image.
pub const MAX_IMAGE_BYTES: u64 = 1 << 32;

dump_record! {
    /// Code that contains kernels.
    ModuleRecord = Module {
        /// Its number.
        id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// Bytes of its image.
        bytes: u64 = 24,
        /// `xxh3_128_tree4k` of its image, little endian; zero if not known. With
        /// [`crate::RECORD_HAS_PAYLOAD`], the image was sent in the same lane, right before this record.
        hash: [u8; 16] = 32,
        /// With [`crate::RECORD_EXTENDED`]: string id of the build options; 0 for none.
        options: u32 = 48,
        /// With [`crate::RECORD_EXTENDED`]: string id of the device it was built for; 0 if not known.
        device: u32 = 52,
        /// With [`crate::RECORD_EXTENDED`]: [`ModuleKind`] tag.
        image_kind: u8 = 56,
        /// Zero.
        reserved0: [u8; 7] = 57,
        /// Zero.
        reserved: [u64; 16] = 64,
    }
}

dump_record! {
    /// The image of a module. Its bytes follow in pieces, as a payload with [`crate::PieceRecord`]s and a
    /// [`crate::CommitRecord`].
    ImageRecord = Image {
        /// Unique among the open payloads of its lane.
        payload_id: u64 = 16,
        /// Bytes of the image.
        bytes: u64 = 24,
        /// `xxh3_128_tree4k` of the image, little endian.
        hash: [u8; 16] = 32,
        /// [`ModuleKind`] tag.
        image_kind: u8 = 48,
        /// Zero.
        reserved0: [u8; 7] = 49,
        /// Zero.
        reserved: [u64; 17] = 56,
    }
}

dump_record! {
    /// An allocation or a release of memory.
    AllocationRecord = Allocation {
        /// Address of the memory.
        address: u64 = 16,
        /// Size of the memory.
        bytes: u64 = 24,
        /// Device time.
        at_ns: u64 = 32,
        /// [`crate::MemorySpace`] tag.
        space: u8 = 40,
        /// 1 for a release, 0 for an allocation.
        freed: u8 = 41,
        /// Zero.
        reserved0: [u8; 6] = 42,
        /// With [`crate::RECORD_EXTENDED`]: identity of the storage, which lives from its allocation to its
        /// release; 0 if not known.
        storage: u64 = 48,
        /// With [`crate::RECORD_EXTENDED`]: the last task that was submitted to its queue before it; 0 for
        /// none.
        after_task: u64 = 56,
        /// With [`crate::RECORD_EXTENDED`]: queue in whose order it takes effect; 0 for the order of the
        /// program.
        queue: u32 = 64,
        /// With [`crate::RECORD_EXTENDED`]: string id of the pool or allocator; 0 if not known.
        pool: u32 = 68,
        /// With [`crate::RECORD_EXTENDED`]: zero.
        reserved1: u64 = 72,
        /// Zero.
        reserved: [u64; 14] = 80,
    }
}

const _: () = assert!(size_of::<StringRecord>() == 32 + INLINE_TEXT_BYTES);
const _: () = assert!(size_of::<KernelRecord>() == 40 + INLINE_KERNEL_ARGS * size_of::<KernelArg>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_kinds_and_cores_round_trip_and_others_are_rejected() {
        for kind in [None, Some(ArgKind::In), Some(ArgKind::Out), Some(ArgKind::InOut), Some(ArgKind::Scalar)]
        {
            assert_eq!(KernelArg::kind_of(KernelArg::tag(kind)), Some(kind));
        }
        for core in [None, Some(CoreType::Aic), Some(CoreType::Aiv)] {
            assert_eq!(KernelRecord::core_of(KernelRecord::core_tag(core)), Some(core));
        }
        assert!((5..=u8::MAX).all(|tag| KernelArg::kind_of(tag).is_none()));
        assert!((3..=u8::MAX).all(|tag| KernelRecord::core_of(tag).is_none()));
        assert!(ModuleKind::ALL.iter().all(|&kind| ModuleKind::from_tag(kind as u8) == Some(kind)));
        assert!((7..=u8::MAX).all(|tag| ModuleKind::from_tag(tag).is_none()));
    }
}
