//! Records of arguments: tensors with their payloads (whole, in pieces or filled later), scalars, and
//! arguments that could not be captured.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::{MAX_DIMS, RecordKind, assert_layout};

/// The time at which an argument was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DumpStage {
    /// Before any dispatch of the task.
    BeforeDispatch = 1,
    /// After every dispatch of the task has finished.
    AfterCompletion = 2,
}

impl DumpStage {
    /// All stages, in their order.
    pub const ALL: [DumpStage; 2] = [DumpStage::BeforeDispatch, DumpStage::AfterCompletion];

    /// The stage of a tag; `None` if the tag is damaged.
    pub const fn from_tag(tag: u8) -> Option<DumpStage> {
        match tag {
            1 => Some(DumpStage::BeforeDispatch),
            2 => Some(DumpStage::AfterCompletion),
            _ => None,
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DumpStage::BeforeDispatch => "before_dispatch",
            DumpStage::AfterCompletion => "after_completion",
        }
    }

    /// The stage with this name in JSON.
    pub fn parse(name: &str) -> Option<DumpStage> {
        DumpStage::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// The short name, in selectors, tables and names of exported arrays.
    pub const fn word(self) -> &'static str {
        match self {
            DumpStage::BeforeDispatch => "before",
            DumpStage::AfterCompletion => "after",
        }
    }

    /// The stage with this short name.
    pub fn from_word(word: &str) -> Option<DumpStage> {
        DumpStage::ALL.into_iter().find(|stage| stage.word() == word)
    }
}

/// Why an argument could not be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UncapturedReason {
    /// No metadata was registered for it.
    NoTensorInfo = 1,
    /// The registered metadata contradicts the payload.
    Contradiction = 2,
    /// The descriptor is damaged: dtype, dimensions or range.
    BadDescriptor = 3,
    /// No kernel of the task describes it.
    NotInSignature = 4,
    /// The device died, and its memory cannot be read.
    Unreadable = 5,
    /// The device died, and the argument is larger than the host's limit for copies from a dead device.
    TooLarge = 6,
    /// It is a driver object and not memory: an image, a sampler or a pipe.
    Opaque = 7,
    /// Its device cannot be read in the order of its queues.
    NoProbe = 8,
    /// No staging memory was left for its content on the way from the device.
    NoRoom = 9,
    /// Its memory is unknown, or its device may not read it.
    NoAccess = 10,
    /// Global variables of the program. No argument points to them. Either the driver does not report their
    /// address, or there are too many of them.
    Variables = 11,
    /// Memory of a texture or a surface, whose handle is a value among the arguments.
    Texture = 12,
    /// It has more dimensions than a record holds ([`MAX_DIMS`]).
    TooManyDimensions = 13,
}

impl UncapturedReason {
    /// The reason why the view of a descriptor cannot be captured.
    pub const fn of_view(ndims: u8) -> UncapturedReason {
        if ndims as usize > MAX_DIMS {
            UncapturedReason::TooManyDimensions
        } else {
            UncapturedReason::BadDescriptor
        }
    }

    /// The reason of a tag; `None` if the tag is damaged.
    pub const fn from_tag(tag: u8) -> Option<UncapturedReason> {
        match tag {
            1 => Some(UncapturedReason::NoTensorInfo),
            2 => Some(UncapturedReason::Contradiction),
            3 => Some(UncapturedReason::BadDescriptor),
            4 => Some(UncapturedReason::NotInSignature),
            5 => Some(UncapturedReason::Unreadable),
            6 => Some(UncapturedReason::TooLarge),
            7 => Some(UncapturedReason::Opaque),
            8 => Some(UncapturedReason::NoProbe),
            9 => Some(UncapturedReason::NoRoom),
            10 => Some(UncapturedReason::NoAccess),
            11 => Some(UncapturedReason::Variables),
            12 => Some(UncapturedReason::Texture),
            13 => Some(UncapturedReason::TooManyDimensions),
            _ => None,
        }
    }

    /// Whether the entry follows the kernel's arguments, as memory that the kernel is not called with.
    pub const fn is_hidden(self) -> bool {
        matches!(self, UncapturedReason::Variables | UncapturedReason::Texture)
    }

    /// The reason in words, as in manifests and messages. [`from_text`](Self::from_text) also reads older wordings.
    pub const fn text(self) -> &'static str {
        match self {
            UncapturedReason::NoTensorInfo => "no metadata was registered for it",
            UncapturedReason::Contradiction => "the registered metadata contradicts the payload",
            UncapturedReason::BadDescriptor => "its descriptor is damaged",
            UncapturedReason::NotInSignature => "no kernel of the task describes it",
            UncapturedReason::Unreadable => "the device died and its memory cannot be read",
            UncapturedReason::TooLarge => {
                "the device died and the argument is larger than the host's limit for copies"
            }
            UncapturedReason::Opaque => "it is a driver object (image, sampler or pipe), not memory",
            UncapturedReason::NoProbe => "its device cannot be read in stream order",
            UncapturedReason::NoRoom => "no staging memory was left to copy its content from the device",
            UncapturedReason::NoAccess => "its memory is unknown, or its device may not read it",
            UncapturedReason::Variables => "global variables of the program, which no argument points to",
            UncapturedReason::Texture => "memory of a texture or surface; only its handle is recorded",
            UncapturedReason::TooManyDimensions => "it has more than 8 dimensions",
        }
    }

    /// The reason with this [`text`](Self::text), also as earlier builds wrote it into manifests.
    pub fn from_text(text: &str) -> Option<UncapturedReason> {
        /// A part of the earlier text of each reason that was worded differently.
        const EARLIER: [(&str, UncapturedReason); 7] = [
            ("copied from a dead one", UncapturedReason::TooLarge),
            ("no memory but an object", UncapturedReason::Opaque),
            ("in the order of its queues", UncapturedReason::NoProbe),
            ("no room for its content", UncapturedReason::NoRoom),
            ("may not read, or that is not known", UncapturedReason::NoAccess),
            ("no argument leads to", UncapturedReason::Variables),
            ("a texture or a surface", UncapturedReason::Texture),
        ];
        let mut all = (0..=u8::MAX).filter_map(UncapturedReason::from_tag);
        all.find(|reason| reason.text() == text)
            .or_else(|| EARLIER.iter().find(|(part, _)| text.contains(part)).map(|&(_, reason)| reason))
    }
}

/// Owner of the memory that an address is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemorySpace {
    /// Device memory.
    #[default]
    Device = 0,
    /// Memory of the recording process.
    Host = 1,
    /// Host memory that the device can access.
    Pinned = 2,
    /// Memory that migrates between host and device.
    Managed = 3,
}

impl MemorySpace {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            MemorySpace::Device => "device",
            MemorySpace::Host => "host",
            MemorySpace::Pinned => "pinned",
            MemorySpace::Managed => "managed",
        }
    }

    /// Whether the host may change the memory while a device uses it. A change there was then not
    /// necessarily made by a task.
    pub const fn is_host_writable(self) -> bool {
        matches!(self, MemorySpace::Pinned | MemorySpace::Managed)
    }

    /// The space with this name in JSON.
    pub fn named(name: &str) -> Option<MemorySpace> {
        (0..).map_while(MemorySpace::from_tag).find(|space| space.name() == name)
    }

    /// The space of a tag; `None` if the tag is damaged.
    pub const fn from_tag(tag: u8) -> Option<MemorySpace> {
        match tag {
            0 => Some(MemorySpace::Device),
            1 => Some(MemorySpace::Host),
            2 => Some(MemorySpace::Pinned),
            3 => Some(MemorySpace::Managed),
            _ => None,
        }
    }
}

/// Declares a record of a strided view: the kind's own fields up to byte 40, then position and layout of
/// the view.
macro_rules! view_record {
    ($(#[$doc:meta])* $name:ident = $kind:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $offset:literal),+ $(,)? }) => {
        dump_record! {
            $(#[$doc])*
            $name = $kind {
                $($(#[$field_doc])* $field: $ty = $offset,)+
                /// First element of the view, in elements.
                start_offset: u64 = 40,
                /// Address of the buffer.
                address: u64 = 48,
                /// [`crate::DType`] tag.
                dtype: u8 = 56,
                /// Dimensions in use.
                ndims: u8 = 57,
                /// [`crate::Role`] tag.
                role: u8 = 58,
                /// [`MemorySpace`] tag.
                space: u8 = 59,
                /// String id of the argument's name; 0 means that the kernel declares the name or that it
                /// is not known.
                name: u32 = 60,
                /// Sizes.
                shape: [u64; MAX_DIMS] = 64,
                /// Strides in elements.
                strides: [i64; MAX_DIMS] = 128,
            }
        }
    };
}

view_record! {
    /// A tensor argument at one stage. Shape and dtype determine the size of its content.
    TensorRecord = Tensor {
        /// Arena position of the payload, or of its statistics. If the payload was dropped after its space
        /// was reserved: the position after that space.
        payload_pos: u64 = 16,
        /// `xxh3_128_tree4k` of the content, little endian.
        hash: [u8; 16] = 24,
    }
}

view_record! {
    /// A tensor argument whose payload follows in pieces. Like a [`TensorRecord`], but with the payload's
    /// id instead of its position. The commit record carries the hash.
    BeginRecord = Begin {
        /// Unique among the open payloads of its lane.
        payload_id: u64 = 16,
        /// Zero.
        reserved: [u8; 16] = 24,
    }
}

impl BeginRecord {
    /// Announces the payload of a tensor.
    pub fn new(tensor: &TensorRecord, payload_id: u64) -> BeginRecord {
        let mut begin: BeginRecord = zerocopy::transmute!(*tensor);
        (begin.kind, begin.payload_id, begin.reserved) = (RecordKind::Begin as u8, payload_id, [0; 16]);
        begin
    }

    /// The announced tensor, without position and hash.
    pub fn tensor(&self) -> TensorRecord {
        let mut tensor: TensorRecord = zerocopy::transmute!(*self);
        (tensor.kind, tensor.payload_pos) = (RecordKind::Tensor as u8, 0);
        tensor
    }
}

dump_record! {
    /// A piece of a payload.
    PieceRecord = Piece {
        /// Arena position of this piece.
        payload_pos: u64 = 16,
        /// Id of the payload, from its [`BeginRecord`].
        payload_id: u64 = 24,
        /// Offset of this piece in the payload, in bytes.
        offset: u64 = 32,
        /// Bytes of the piece.
        bytes: u64 = 40,
        /// Zero.
        reserved: [u64; 18] = 48,
    }
}

dump_record! {
    /// The end of a payload.
    CommitRecord = Commit {
        /// Id of the payload, from its [`BeginRecord`].
        payload_id: u64 = 16,
        /// `xxh3_128_tree4k` of all of the content, little endian, also when only its first bytes were sent.
        hash: [u8; 16] = 24,
        /// Bytes that were sent: all of the content, or less with [`RECORD_TRUNCATED`].
        stored_bytes: u64 = 40,
        /// Zero.
        reserved: [u64; 18] = 48,
    }
}

dump_record! {
    /// The payload of a record with [`RECORD_FILLED_LATER`] has arrived.
    FilledRecord = Filled {
        /// Sequence number, in the same lane, of the record that the payload belongs to.
        record_seq: u64 = 16,
        /// `xxh3_128_tree4k` of the content, little endian.
        hash: [u8; 16] = 24,
        /// Arena position of the payload.
        payload_pos: u64 = 40,
        /// Bytes of the payload: all of the content.
        payload_bytes: u64 = 48,
        /// Zero.
        reserved: [u64; 17] = 56,
    }
}

dump_record! {
    /// A scalar argument.
    ScalarRecord = Scalar {
        /// Its raw bits.
        bits: u64 = 16,
        /// String id of the argument's name; 0 means that the kernel declares the name.
        name: u32 = 24,
        /// [`crate::DType`] tag.
        dtype: u8 = 28,
        /// Zero.
        reserved0: [u8; 3] = 29,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

dump_record! {
    /// An argument that could not be captured.
    UncapturedRecord = Uncaptured {
        /// String id of the argument's name; 0 means that the kernel declares the name.
        name: u32 = 16,
        /// [`UncapturedReason`] tag.
        reason: u8 = 20,
        /// [`crate::Role`] tag.
        role: u8 = 21,
        /// Zero.
        reserved0: [u8; 2] = 22,
        /// Zero.
        reserved: [u64; 21] = 24,
    }
}

view_record! {
    /// One of the orchestration's own arguments: a view without payload. `arg_index` is its position among
    /// them.
    OrchestrationArgRecord = OrchestrationArg {
        /// Bytes of its buffer.
        buffer_bytes: u64 = 16,
        /// Zero.
        reserved: [u8; 16] = 24,
    }
}

/// Statistics of a tensor's content, for level `hash`. They cover finite values only, and are NaN if there
/// are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TensorStats {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub std: f64,
    /// Elements equal to zero.
    pub zeros: u64,
    /// NaN elements.
    pub nan: u64,
    /// Infinite elements.
    pub inf: u64,
    /// Number of elements.
    pub numel: u64,
}
impl TensorStats {
    /// The same statistics, but NaN instead of values that need finite elements when there are none. Older
    /// dumps have zeros there.
    #[must_use]
    pub fn over_values(self) -> TensorStats {
        if self.numel > self.nan.saturating_add(self.inf) {
            return self;
        }
        TensorStats { min: f64::NAN, max: f64::NAN, mean: f64::NAN, std: f64::NAN, ..self }
    }
}

assert_layout!(TensorStats, size 64, align 8,
    min @ 0, max @ 8, mean @ 16, std @ 24, zeros @ 32, nan @ 40, inf @ 48, numel @ 56);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_from_their_text_also_in_earlier_wordings() {
        for reason in (0..=u8::MAX).filter_map(UncapturedReason::from_tag) {
            assert_eq!(UncapturedReason::from_text(reason.text()), Some(reason));
        }
        let earlier = [
            ("the device died and it is more than is copied from a dead one", UncapturedReason::TooLarge),
            (
                "it is no memory but an object of the driver (an image, a sampler, a pipe)",
                UncapturedReason::Opaque,
            ),
            ("its device cannot be read in the order of its queues", UncapturedReason::NoProbe),
            ("there was no room for its content on its way from the device", UncapturedReason::NoRoom),
            (
                "it lies in memory that its device may not read, or that is not known",
                UncapturedReason::NoAccess,
            ),
            (
                "variables of the program, which no argument leads to, and which are not looked at",
                UncapturedReason::Variables,
            ),
            (
                "memory behind a texture or a surface, of which the handle alone is recorded",
                UncapturedReason::Texture,
            ),
        ];
        for (text, reason) in earlier {
            assert_eq!(UncapturedReason::from_text(text), Some(reason), "{text}");
        }
        assert_eq!(UncapturedReason::from_text("another reason"), None);
    }
}
