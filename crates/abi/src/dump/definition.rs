//! Definitions: what names, scopes, kernels, queues, lanes, steps, modules and allocations records refer to by number.
//!
//! A definition may come after its first use, and no filter, loss policy or window of tasks takes it away. Numbers count
//! from 1; 0 refers to nothing. A number is defined once in a dump, or again with the same content.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::{ArgKind, CoreType, assert_layout};

/// String and scope ids from here on are those of a graph that the host built; ids below are those of the device.
pub const FIRST_HOST_ID: u32 = 1 << 31;
/// String ids from here on are those of what kernels declare, which the host knows before anything runs.
pub const FIRST_DECLARED_ID: u32 = 3 << 30;
/// Bytes of text that fit into a [`StringRecord`]; longer text lies in the arena.
pub const INLINE_TEXT_BYTES: usize = 160;
/// The longest text that crosses; what is longer is cut by its recorder.
pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// Arguments that fit into a [`KernelRecord`]; of a kernel with more, all lie in the arena.
pub const INLINE_KERNEL_ARGS: usize = 19;

dump_record! {
    /// A string, which crosses once and is named by its id.
    StringRecord = String {
        /// Its number.
        id: u32 = 16,
        /// Bytes of the text, UTF-8.
        text_bytes: u32 = 20,
        /// Arena position of a text longer than [`INLINE_TEXT_BYTES`]; 0 otherwise.
        text_pos: u64 = 24,
        /// A text that fits, zero filled.
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
        /// The scope it lies in; 0 for none.
        parent: u32 = 24,
        /// Zero.
        reserved0: u32 = 28,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

/// What a kernel declares of one argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelArg {
    /// String id of its name; 0 for none.
    pub name: u32,
    /// Tag of an [`ArgKind`]; 0 when not known.
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
}
assert_layout!(KernelArg, size 8, align 4, name @ 0, kind @ 4, reserved @ 5);

impl KernelArg {
    /// Tag of what a signature says; 0 for nothing known.
    pub const fn tag(kind: Option<ArgKind>) -> u8 {
        match kind {
            None => 0,
            Some(ArgKind::In) => 1,
            Some(ArgKind::Out) => 2,
            Some(ArgKind::InOut) => 3,
            Some(ArgKind::Scalar) => 4,
        }
    }

    /// What a tag says: nothing known, or a kind; `None` when damaged.
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
    /// A kernel: what a task's `func_id` means.
    KernelRecord = Kernel {
        /// Number by which tasks refer to it.
        func_id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// Module that holds its code; 0 when not known.
        module: u32 = 24,
        /// Arguments that it declares.
        arg_count: u16 = 28,
        /// Tag of the cores that run it; see [`KernelRecord::core_tag`].
        core_type: u8 = 30,
        /// Zero.
        reserved0: u8 = 31,
        /// Arena position of more than [`INLINE_KERNEL_ARGS`] arguments; 0 otherwise.
        args_pos: u64 = 32,
        /// Arguments that fit, in order.
        args: [KernelArg; 19] = 40,
    }
}

impl KernelRecord {
    /// Tag of a type of cores; 0 when there is but one.
    pub const fn core_tag(core_type: Option<CoreType>) -> u8 {
        match core_type {
            None => 0,
            Some(CoreType::Aic) => 1,
            Some(CoreType::Aiv) => 2,
        }
    }

    /// What a tag says: nothing, or a type; `None` when damaged.
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
    /// The thread that has leased the lane in which this record stands, from here on.
    LaneRecord = Lane {
        /// The operating system's number of the thread; 0 when not known.
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
    /// A step of a program that repeats itself. Task ids are unique within one.
    StepRecord = Step {
        /// Its number.
        id: u32 = 16,
        /// String id of its name; 0 for none.
        name: u32 = 20,
        /// Device time of its beginning.
        started_ns: u64 = 24,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

/// What the image of a module is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ModuleKind {
    /// Not known.
    #[default]
    Unknown = 0,
    /// OpenCL C, as its program wrote it.
    OpenClC = 1,
    /// SPIR-V.
    SpirV = 2,
    /// What an OpenCL device calls a binary.
    OpenClBinary = 3,
    /// PTX.
    Ptx = 4,
    /// Code for one kind of NVIDIA device.
    Cubin = 5,
    /// Code for several.
    Fatbin = 6,
}

impl ModuleKind {
    /// Every kind.
    pub const ALL: [ModuleKind; 7] = [
        ModuleKind::Unknown,
        ModuleKind::OpenClC,
        ModuleKind::SpirV,
        ModuleKind::OpenClBinary,
        ModuleKind::Ptx,
        ModuleKind::Cubin,
        ModuleKind::Fatbin,
    ];

    /// The kind of a tag, `None` when damaged.
    pub fn from_tag(tag: u8) -> Option<ModuleKind> {
        ModuleKind::ALL.into_iter().find(|&kind| kind as u8 == tag)
    }

    /// Spelled as in JSON.
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

    /// How the names of files end that hold such an image.
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

/// The largest image of a module that crosses.
pub const MAX_IMAGE_BYTES: u64 = 1 << 32;

dump_record! {
    /// Code that kernels come from.
    ModuleRecord = Module {
        /// Its number.
        id: u32 = 16,
        /// String id of its name.
        name: u32 = 20,
        /// Bytes of its image.
        bytes: u64 = 24,
        /// `xxh3_128_tree4k` of its image, little endian; zero when not known. With [`crate::RECORD_HAS_PAYLOAD`] the image crossed, in
        /// the same lane, right before this record.
        hash: [u8; 16] = 32,
        /// With [`crate::RECORD_EXTENDED`]: string id of the options that it was built with; 0 for none.
        options: u32 = 48,
        /// With [`crate::RECORD_EXTENDED`]: string id of the device that it was built for; 0 when not known.
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
    /// The image of a module, whose bytes follow in pieces, as a payload of which [`crate::PieceRecord`]s and a [`crate::CommitRecord`] speak.
    ImageRecord = Image {
        /// Unique in its lane among payloads that are open.
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
    /// Memory that was allocated, or freed.
    AllocationRecord = Allocation {
        /// Where it lies.
        address: u64 = 16,
        /// Its size.
        bytes: u64 = 24,
        /// Device time.
        at_ns: u64 = 32,
        /// [`crate::MemorySpace`] tag.
        space: u8 = 40,
        /// 1 when it was freed, 0 when it was allocated.
        freed: u8 = 41,
        /// Zero.
        reserved0: [u8; 6] = 42,
        /// Zero.
        reserved: [u64; 18] = 48,
    }
}

const _: () = assert!(size_of::<StringRecord>() == 32 + INLINE_TEXT_BYTES);
const _: () = assert!(size_of::<KernelRecord>() == 40 + INLINE_KERNEL_ARGS * size_of::<KernelArg>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_kinds_and_cores_round_trip_and_others_are_refused() {
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
